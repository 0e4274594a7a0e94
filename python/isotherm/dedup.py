"""Seen, unique and join over batches that are larger than memory together.

Each takes arrays or lists of keys, one batch at a time, and remembers keys in a ``Table``: 27 to 29
bytes for each distinct key of 64 bits, more for bytes, whatever the batches take. The distinct keys have to fit: at the cap
``TableFullError`` is raised. On a GPU ``host_memory`` gives them room behind it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrays, _core
from ._bytes_table import BytesTable
from .table import Keys, Mask, Table

_ARRAY = ("__array__", "__dlpack_device__", "__cuda_array_interface__", "__arrow_c_array__",
          "__arrow_c_stream__")
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

    def __init__(self, key: Any = "u64", *, expected: int = 0, memory: int | str | None = None,
                 device: str | list[str] = "auto", host_memory: int | str | None = None) -> None:
        self._table = Table(key, "u64", expected=expected, memory=memory, device=device,
                            host_memory=host_memory)

    def __call__(self, keys: Keys) -> Mask:
        return ~self._table.put_if_absent(keys, 0)

    def new(self, keys: Keys) -> Any:
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
        if isinstance(keys, np.generic) or not _is_array(keys):
            keys = _arrays.keys(keys, self._table.key_dtype)
        elif hasattr(keys, "__arrow_c_array__"):  # which no mask chooses from
            keys = _arrays.host_view(keys, "keys")
        if isinstance(keys, np.ndarray):
            return self._table._put_new(keys)
        return keys[~self(keys)]

    def __len__(self) -> int:
        return len(self._table)


def unique(batches: Any, key: Any = "u64", *, expected: int = 0, memory: int | str | None = None,
           device: str | list[str] = "auto", host_memory: int | str | None = None) -> Any:
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
    is_list = isinstance(batches, (list, tuple)) and all(isinstance(one, _KEY) for one in batches[:1])
    if is_list or isinstance(batches, _KEY) or _is_array(batches):
        return seen.new(batches)
    return map(seen.new, batches)


def _is_array(given):
    return any(hasattr(given, name) for name in _ARRAY)


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

    def __init__(self, value: Any, key: Any = "u64", *, expected: int = 0, memory: int | str | None = None,
                 device: str | list[str] = "auto", host_memory: int | str | None = None) -> None:
        self.table = Table(key, value, expected=expected, memory=memory, device=device,
                           host_memory=host_memory)

    def build(self, keys: Keys, values: Any) -> None:
        """Adds rows to join with: ``keys [n]``, ``values [n, *row]``.

        >>> isotherm.dedup.Join(value="f32").build([1, 2], [0.5, 1.5])
        """
        self.table.put(keys, values)

    def inner(self, keys: Keys) -> tuple[NDArray[np.int64], Any]:
        """``(rows, values)``: which rows of the batch have a partner (int64 ``[m]``), and theirs
        (``[m, *row]``; a list of bytes where values are bytes). Keys of more than one dimension count
        in C order.

        >>> join = isotherm.dedup.Join(value="u64")
        >>> join.build([1], [10])
        >>> join.inner([3, 1])
        (array([1]), array([10], dtype=uint64))
        """
        values, found = self.table.get(keys)
        rows = np.flatnonzero(found)
        if isinstance(values, list):
            return rows, [values[row] for row in rows]
        values = np.asarray(values)
        return rows, values.reshape(-1, *values.shape[np.ndim(found):])[rows]

    def left(self, keys: Keys) -> tuple[Any, Mask]:
        """``(values, found)`` for all rows of the batch, as ``Table.get`` has them.

        >>> isotherm.dedup.Join(value="u64").left([3])
        (array([0], dtype=uint64), array([False]))
        """
        return self.table.get(keys)
