"""Seen, unique and join over batches that are larger than memory together.

Each takes arrays of 64-bit keys, one batch at a time, and remembers keys in a ``Table``: 27 to 29
bytes for each distinct key, whatever the batches take. The distinct keys have to fit: at the cap
``TableFullError`` is raised. On a GPU ``host_memory`` gives them room behind it.
"""

import numpy as np

from .table import Table


class Seen:
    """Says of each key whether it came before, in this batch or an earlier one.

    Args:
        key, expected, memory, device, host_memory: as of ``Table``.

    >>> seen = isotherm.dedup.Seen()
    >>> seen(np.array([5, 6, 5], "u8")).tolist()
    [False, False, True]
    >>> seen(np.array([6, 7], "u8")).tolist()
    [True, False]
    """

    def __init__(self, key="u64", *, expected=0, memory=None, device="auto",
                 host_memory=None):
        self._table = Table(key, "u64", expected=expected, memory=memory, device=device,
                            host_memory=host_memory)

    def __call__(self, keys):
        return ~self._table.put_if_absent(keys, 0)

    def new(self, keys):
        """The keys that did not come before, each once, in their order: ``keys[~seen(keys)]``.

        >>> isotherm.dedup.Seen().new(np.array([5, 6, 5], "u8")).tolist()
        [5, 6]
        """
        if isinstance(keys, np.ndarray):
            return self._table._put_new(keys)
        return keys[~self(keys)]

    def __len__(self):
        return len(self._table)


def unique(batches, key="u64", *, expected=0, memory=None, device="auto",
           host_memory=None):
    """The keys of each batch that came in none before, each once, in the order in which they came.

    Args:
        batches: an iterable of arrays of keys, or one array.

    >>> [part.tolist() for part in isotherm.dedup.unique([np.array([3, 1, 3], "u8"),
    ...                                                   np.array([1, 2], "u8")])]
    [[3, 1], [2]]
    >>> isotherm.dedup.unique(np.array([3, 1, 3], "u8")).tolist()
    [3, 1]
    """
    seen = Seen(key, expected=expected, memory=memory, device=device,
                host_memory=host_memory)
    if isinstance(batches, np.ndarray):
        return seen.new(batches)
    return map(seen.new, batches)


class Join:
    """Joins batches with the rows of a table by key: an inner or left join, the table built first.

    Args:
        value: the kind of the rows, as of ``Table``; the last row put for a key stays.

    >>> join = isotherm.dedup.Join(value="f32")
    >>> join.build(np.array([1, 2], "u8"), np.array([0.5, 1.5], "f4"))
    >>> rows, values = join.inner(np.array([2, 9, 1], "u8"))
    >>> rows.tolist(), values.tolist()
    ([0, 2], [1.5, 0.5])
    """

    def __init__(self, value, key="u64", *, expected=0, memory=None, device="auto",
                 host_memory=None):
        self.table = Table(key, value, expected=expected, memory=memory, device=device,
                           host_memory=host_memory)

    def build(self, keys, values):
        """Adds rows to join with: ``keys [n]``, ``values [n, *row]``.

        >>> isotherm.dedup.Join(value="f32").build([1, 2], [0.5, 1.5])
        """
        self.table.put(keys, values)

    def inner(self, keys):
        """``(rows, values)``: which rows of the batch have a partner (int64), and theirs.

        >>> join = isotherm.dedup.Join(value="u64")
        >>> join.build([1], [10])
        >>> join.inner([3, 1])
        (array([1]), array([10], dtype=uint64))
        """
        values, found = self.table.get(keys)
        return np.flatnonzero(found), values[found]

    def left(self, keys):
        """``(values, found)`` for all rows of the batch; zeros where there is no partner.

        >>> isotherm.dedup.Join(value="u64").left([3])
        (array([0], dtype=uint64), array([False]))
        """
        return self.table.get(keys)
