"""Seen, unique and join over batches that are larger than memory together.

Each takes arrays or lists of keys, one batch at a time, and remembers keys in a ``Table``: 27 to 29
bytes for each distinct key of 64 bits, more for bytes, whatever the batches take. The distinct keys have to fit: at the cap
``TableFullError`` is raised. On a GPU ``host_memory`` gives them room behind it.
"""

import numpy as np

from . import _arrays, _core
from ._bytes_table import BytesTable
from .table import Table

_ARRAY = ("__array__", "__dlpack_device__", "__cuda_array_interface__")
_KEY = (int, np.integer, bytes, str)


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

        Lists of numbers give arrays. Keys of bytes give lists of them, but for arrays of NumPy.

        >>> isotherm.dedup.Seen().new(np.array([5, 6, 5], "u8")).tolist()
        [5, 6]
        """
        if isinstance(self._table, BytesTable):
            if not isinstance(keys, np.ndarray):
                keys = _core._strings([keys] if isinstance(keys, (bytes, str)) else keys, "keys")
            seen = self(keys)
            return (keys[~seen] if isinstance(keys, np.ndarray)
                    else [key for key, its in zip(keys, seen) if not its])
        if isinstance(keys, np.generic) or not any(hasattr(keys, name) for name in _ARRAY):
            keys = _arrays.keys(keys, self._table.key_dtype)
        if isinstance(keys, np.ndarray):
            return self._table._put_new(keys)
        return keys[~self(keys)]

    def __len__(self):
        return len(self._table)


def unique(batches, key="u64", *, expected=0, memory=None, device="auto",
           host_memory=None):
    """The keys of each batch that came in none before, each once, in the order in which they came.

    Args:
        batches: an iterable of arrays or lists of keys, or one such array or list.

    >>> [part.tolist() for part in isotherm.dedup.unique([np.array([3, 1, 3], "u8"),
    ...                                                   np.array([1, 2], "u8")])]
    [[3, 1], [2]]
    >>> isotherm.dedup.unique(np.array([3, 1, 3], "u8")).tolist()
    [3, 1]
    """
    seen = Seen(key, expected=expected, memory=memory, device=device,
                host_memory=host_memory)
    if isinstance(batches, np.ndarray) or (isinstance(batches, (list, tuple)) and batches
                                           and isinstance(batches[0], _KEY)):
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
        """``(rows, values)``: which rows of the batch have a partner (int64), and theirs (a list of bytes
        where values are bytes).

        >>> join = isotherm.dedup.Join(value="u64")
        >>> join.build([1], [10])
        >>> join.inner([3, 1])
        (array([1]), array([10], dtype=uint64))
        """
        values, found = self.table.get(keys)
        rows = np.flatnonzero(found)
        return rows, [values[row] for row in rows] if isinstance(values, list) else values[rows]

    def left(self, keys):
        """``(values, found)`` for all rows of the batch, as ``Table.get`` has them.

        >>> isotherm.dedup.Join(value="u64").left([3])
        (array([0], dtype=uint64), array([False]))
        """
        return self.table.get(keys)
