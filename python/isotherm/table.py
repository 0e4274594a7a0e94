"""Table: a dictionary that takes and gives arrays."""

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from . import _core, _devices, _files
from ._types import checked_chunk, name_of

Keys = Any
"""An int or byte string, a list, or an array (see ``Table``)."""
Mask = NDArray[np.bool_]


class Table:
    """A dictionary of keys to values of one kind, which takes and gives arrays.

    Args:
        key: ``"u64"``, ``"i64"`` or ``"bytes"``. Every key can be stored; none is reserved.
        value: a dtype, by name (``"u64"``, ``"f32"``) or as NumPy has it, with a shape where a value
            is a row (``"f32[128]"``, ``"u8[16]"``, ``"f64[4,4]"``), or ``"bytes"`` for values of
            any length.
        device: ``"cpu"``, a GPU (``"cuda:0"``), several (``["cuda:0", "cuda:1"]``; each key lies on
            one of them), or ``"auto"``: the first GPU for 64-bit keys with values of one
            size, where there is one, and else the CPU. ``RuntimeError`` where there is no such GPU,
            no driver, or the package was built without its GPU part.
        expected: entries to make room for at once. The table grows beyond it by itself. ``MemoryError``
            where a table of so many on the CPU would be larger than ``memory``, or than the machine's memory.
        memory: bytes that the table may take, of each GPU's memory where it lies there, or a size
            such as ``"2gb"``; None: no cap. At the cap keys that are there can be written still (not
            those of ``"bytes"``), and new ones are refused: see ``put``.
        host_memory: with a GPU: bytes of host memory that entries may lie in beyond that. The keys of
            rows and of byte strings stay on the GPU.
        evict: which entries go at the cap, so that new ones are never refused. Of fixed values those
            that were used least recently (``"use"``), or those of the lowest scores that ``put`` was
            given (``"given"``); an entry takes 16 bytes more, numbers are kept as rows are, and on the CPU
            ``memory`` must be 16 MiB or more (``ValueError``), or None, and then nothing goes; too
            little of a GPU's is a ``MemoryError`` at once. Of ``"bytes"`` as of ``Store``; on a GPU ``"allkeys-lru"``. ``stats()["evictions"]`` counts them.

    Keys are given as an array of any shape ``[...]`` (``uint64``, ``int64``), or, for single keys
    and few, as an int or a list; keys of bytes as a list or an Arrow array. Values have the shape of
    the keys, with the shape of a row behind it: ``[..., 128]`` for ``"f32[128]"``. An array that is
    C-contiguous and of the right dtype is used where it is; it may come from NumPy or anything that
    has ``__dlpack__``, such as a tensor of PyTorch on the CPU. Another dtype raises ``TypeError``,
    another shape or stride ``ValueError``; nothing is converted silently, and no numbers or strings
    that are given otherwise are cut or wrap around. Arrays with a mask are refused. A table on a GPU takes
    arrays that lie there as well (PyTorch, CuPy, JAX, ``__cuda_array_interface__``): the call is then
    queued in the caller's stream, waits for nothing, and gives arrays of the same kind. Byte strings
    there are ``DeviceStrings``, Arrow's device arrays, pairs of such arrays (offsets, bytes), or the
    rows of one.

    Requests of one call take effect in the order of the arrays, so of several values put under one
    key the last stays. Any number of threads may use a table; calls with more than a few rows
    release the GIL. Each key is linearizable, and a reader sees each row as one call wrote it, never
    a mixture.

    >>> import numpy as np, isotherm
    >>> table = isotherm.Table(key="u64", value="f32[2]")
    >>> table.put(np.array([7, 8], "u8"), np.array([[1, 2], [3, 4]], "f4"))
    >>> values, found = table.get(np.array([8, 9], "u8"))
    >>> values.tolist(), found.tolist()
    ([[3.0, 4.0], [0.0, 0.0]], [True, False])
    """

    def __init_subclass__(cls):
        # The class of a table follows from its kinds of keys and values, so none can be chosen.
        if cls.__module__.partition(".")[0] != __package__:
            raise TypeError(f"{cls.__name__}: a Table cannot be subclassed; keep one as an attribute")

    def __new__(cls, key: Any = "u64", value: Any = "u64", *, device: str | list[str] = "auto",
                expected: int = 0, memory: int | str | None = None,
                host_memory: int | str | None = None, evict: str | None = None):
        if cls is not Table:
            return super().__new__(cls)
        made = Table._make(key, value, device, expected, memory, host_memory, evict)
        made._made_of = {"device": device, "memory": memory, "host_memory": host_memory,
                         "evict": evict}
        return made

    # A class of its own for each kind; that of 64-bit keys and fixed values has most verbs in C++.

    _gpus = ()  # their numbers; none: it lies on the CPU
    _make = None  # isotherm/_kinds.py, which knows these classes

    def get(self, keys: Keys, out: Any = None, arrow: bool = False) -> tuple[Any, Mask]:
        """Values of keys, and which were found.

        Args:
            keys: ``[...]``.
            out: an array to fill, ``[..., *row]``; None: a new one. Values of bytes on a GPU fill a
                pair of arrays there, int64 ``[n + 1]`` and uint8, and nothing waits; where the
                last offset is more than there are bytes, these have no meaning.
            arrow: for values of bytes and keys of the host: an ``ArrowColumn`` instead of a list.

        Returns:
            ``(values, found)``: ``values`` is ``out``, or an array of zeros where a key is missing
            (for values of bytes a list with None there, an ``ArrowColumn`` with null, or, for keys
            on a GPU, ``DeviceStrings``); ``found`` is a bool array ``[...]``. Rows of ``out`` whose key is missing are left as
            they are.

        >>> table = isotherm.Table()
        >>> table.put([1, 2], [10, 20])
        >>> out = np.full(3, 99, "u8")
        >>> table.get(np.array([1, 5, 2], "u8"), out=out)
        (array([10, 99, 20], dtype=uint64), array([ True, False,  True]))
        """
        raise NotImplementedError

    def contains(self, keys: Keys) -> Mask:
        """Which keys are there: a bool array ``[...]``. ``key in table`` asks for one.

        >>> table = isotherm.Table()
        >>> table[[1, 2]] = [10, 20]
        >>> table.contains([2, 3]), 1 in table
        (array([ True, False]), True)
        """
        raise NotImplementedError

    @overload
    def put(self, keys: Keys, values: Any, on_full: Literal["raise"] = ..., scores: Any = ...) -> None: ...

    @overload
    def put(self, keys: Keys, values: Any, on_full: Literal["mask"], scores: Any = ...) -> Mask: ...

    def put(self, keys: Keys, values: Any, on_full: str = "raise",
            scores: Any = None) -> Mask | None:
        """Stores a value under each key, whether it is there or not.

        Args:
            keys: ``[...]``.
            values: ``[..., *row]``; a number or list is repeated for all keys.
            on_full: what happens where the table is at its memory cap: ``"raise"`` stores what it
                can and raises ``TableFullError``, a ``MemoryError``; ``"mask"`` returns which keys
                were stored, a bool array ``[...]``.
            scores: of a table with ``evict="given"``: an array ``[...]`` of uint64, of which 2^64 - 1
                counts as one less; None: those that are there stay, and new ones are 0.

        >>> table = isotherm.Table(value="f32[2]")
        >>> table.put([1, 1], [[1, 2], [3, 4]])
        >>> table[1]
        array([3., 4.], dtype=float32)
        """
        raise NotImplementedError

    def scores(self, keys: Keys) -> tuple[Any, Mask]:
        """Scores of keys, of a table with ``evict="given"``, whose lowest go when it is full.

        Returns ``(scores, found)``: a uint64 array ``[...]``, 0 where a key is missing, and a bool
        array ``[...]``. ``TypeError`` of other tables.

        >>> table = isotherm.Table(value="f32[4]", memory="16mb", evict="given", device="cpu")
        >>> for day in range(100):
        ...     keys = np.arange(day * 10_000, (day + 1) * 10_000, dtype="u8")
        ...     table.put(keys, 1, scores=np.full(len(keys), day, "u8"))
        >>> table.contains(keys).all(), table.stats()["evictions"] == 1_000_000 - len(table)
        (np.True_, True)
        >>> table.scores([0, 999_999])
        (array([ 0, 99], dtype=uint64), array([False,  True]))
        """
        raise TypeError("scores: the table was not made with evict='given'")

    def erase(self, keys: Keys) -> Mask:
        """Removes keys; returns which were there, a bool array ``[...]``.

        >>> table = isotherm.Table()
        >>> table.put([1, 2], 5)
        >>> table.erase([2, 2, 3])
        array([ True, False, False])
        """
        raise NotImplementedError

    @overload
    def put_if_absent(self, keys: Keys, values: Any, on_full: Literal["raise"] = ...) -> Mask: ...

    @overload
    def put_if_absent(self, keys: Keys, values: Any, on_full: Literal["mask"]) -> tuple[Mask, Mask]: ...

    def put_if_absent(self, keys: Keys, values: Any,
                      on_full: str = "raise") -> Mask | tuple[Mask, Mask]:
        """Stores values of keys that are missing; returns which were stored, a bool array ``[...]``.

        Args:
            on_full: as of ``put``; ``"mask"`` returns ``(stored, refused)``, and ``refused`` says
                which keys are missing still, since there was no room for them.

        >>> table = isotherm.Table()
        >>> table.put_if_absent([1, 1], [10, 11])
        array([ True, False])
        >>> table.put_if_absent([1, 2], [10, 11], on_full="mask")
        (array([False,  True]), array([False, False]))
        """
        raise NotImplementedError

    @overload
    def get_or_put(self, keys: Keys, initial: Any, on_full: Literal["raise"] = ...) -> tuple[Any, Mask]: ...

    @overload
    def get_or_put(self, keys: Keys, initial: Any, on_full: Literal["mask"]) -> tuple[Any, Mask, Mask]: ...

    def get_or_put(self, keys: Keys, initial: Any,
                   on_full: str = "raise") -> tuple[Any, Mask] | tuple[Any, Mask, Mask]:
        """Values of keys, where those that are missing get the initial ones.

        Args:
            on_full: as of ``put``; ``"mask"`` returns ``(values, found, refused)``, and ``refused``
                says which keys are missing still, since there was no room for them. Their value is
                the initial one, or, where keys or values are bytes, what ``get`` has for a missing
                key. A key that was put and evicted within the call has the initial one, too.

        Returns:
            ``(values, found)``: what the table has for each key when its request has run, and
            whether it was there before.

        >>> table = isotherm.Table()
        >>> table.put(1, 10)
        >>> table.get_or_put([1, 2, 2], [7, 8, 9])
        (array([10,  8,  8], dtype=uint64), array([ True, False,  True]))
        """
        raise NotImplementedError

    def compare_and_swap(self, keys: Keys, expected: Any, desired: Any) -> Mask:
        """Stores ``desired`` where the value is ``expected``, byte by byte (padding counts as 0).

        Returns which were stored, a bool array ``[...]``; a key that is missing is none.

        >>> table = isotherm.Table()
        >>> table.put([1, 2], [10, 20])
        >>> table.compare_and_swap([1, 2, 3], [10, 11, 0], [1, 2, 3])
        array([ True, False, False])
        """
        raise NotImplementedError

    @overload
    def add(self, keys: Keys, values: Any, on_full: Literal["raise"] = ...) -> None: ...

    @overload
    def add(self, keys: Keys, values: Any, on_full: Literal["mask"]) -> Mask: ...

    def add(self, keys: Keys, values: Any, on_full: str = "raise") -> Mask | None:
        """Adds to the value of each key, a missing one counting as zeros; rows by element.

        Integers wrap around. ``TypeError`` where the dtype cannot be added (float16, longdouble, bool, records).

        >>> table = isotherm.Table(key="i64", value="f32[2]")
        >>> table.add([5, 5], [[1, 2], [0.5, 0.5]])
        >>> table[5]
        array([1.5, 2.5], dtype=float32)
        """
        raise NotImplementedError

    def items(self, chunk: int = 65536,
              where: Callable[[Any, Any], Any] | None = None) -> Iterator[tuple[Any, Any]]:
        """Goes over all entries in chunks of at least about ``chunk``: ``(keys, values)`` each.

        In no order. Entries that are there from the beginning to the end come at least once; those
        written meanwhile may come or not. It is no use of an entry for ``evict``.

        Args:
            where: which entries are wanted: a function that is given the keys and values of each
                chunk, and returns a bool array with one element for each key. Chunks have fewer
                entries then; there are none without any. ``TypeError`` or ``ValueError`` where it
                returns something else; what it raises ends the walk.

        >>> table = isotherm.Table()
        >>> table.put(np.arange(5, dtype="u8"), 1)
        >>> sum(len(keys) for keys, values in table.items())
        5
        >>> table.put([1, 3], 7)
        >>> sorted(key.item() for keys, _ in table.items(where=lambda keys, values: values > 5)
        ...        for key in keys)
        [1, 3]
        """
        chunk, cursor = checked_chunk(chunk), None
        while cursor != 0:
            cursor, keys, values = self._scan(cursor or 0, chunk)
            if len(keys) and where is not None:
                keys, values = _chosen(keys, values, where(keys, values))
            if len(keys):
                yield keys, values

    def keys(self, chunk: int = 65536,
             where: Callable[[Any, Any], Any] | None = None) -> Iterator[Any]:
        """The keys of ``items``, chunk by chunk.

        >>> table = isotherm.Table()
        >>> table[7] = 1
        >>> list(table.keys())
        [array([7], dtype=uint64)]
        """
        return (keys for keys, _ in self.items(chunk, where))

    def stats(self) -> dict[str, Any]:
        """A dict of counts: ``entries``, ``memory_bytes`` (what the cap limits), ``evictions`` of fixed
        values, and the kind.

        >>> isotherm.Table(value="f32[128]").stats()["row_bytes"]
        512
        """
        return {"entries": len(self), "memory_bytes": self.memory_bytes,
                "device": _devices.name_of(self._gpus),
                "row_bytes": getattr(self, "row_bytes", None)} | self._kind()

    def save(self, path: str | os.PathLike) -> None:
        """Writes all entries to a file with checksums, which takes the place of one that is there.

        The file is complete or not there: it is written beside ``path`` and renamed. Writes of other
        threads meanwhile may be in it or not. It can be loaded on any device.

        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "table")
        >>> isotherm.Table().save(path)
        >>> len(isotherm.Table.load(path))
        0
        """
        _files.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike, *, device: str | list[str] = "auto",
             memory: int | str | None = None, host_memory: int | str | None = None,
             evict: str | None = None) -> "Table":
        """A table of what ``save`` has written.

        Raises ``ValueError`` for a file that is no table's, is cut, or was changed.

        >>> import tempfile, os
        >>> table = isotherm.Table()
        >>> table.put([1, 2], [10, 20])
        >>> path = os.path.join(tempfile.mkdtemp(), "table")
        >>> table.save(path)
        >>> isotherm.Table.load(path)[2]
        np.uint64(20)
        """
        with open(path, "rb") as file:
            return _files.read(file, os.fsdecode(path), Table, device=device, memory=memory,
                               host_memory=host_memory, evict=evict)

    def __reduce__(self):
        # The bytes of a saved file.
        return _unpickled, (_files.to_bytes(self), self._made_of)

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, keys: Keys) -> Any:
        """Values of keys, as ``get`` has them; ``KeyError`` where one is missing."""
        raise NotImplementedError

    def __setitem__(self, keys: Keys, values: Any) -> None:
        """``put``."""
        raise NotImplementedError

    def __delitem__(self, keys: Keys) -> None:
        """``erase``; ``KeyError`` where one is missing."""
        raise NotImplementedError

    def __contains__(self, key: Any) -> bool:
        raise NotImplementedError

    @property
    def key_dtype(self) -> np.dtype[Any] | None:
        """The dtype of the keys; None of byte strings."""
        raise NotImplementedError

    @property
    def memory_bytes(self) -> int:
        """Bytes that the table takes, which ``memory`` limits."""
        raise NotImplementedError

    def __iter__(self):
        raise TypeError("a Table is not iterable by key; go over items() or keys(), chunk by chunk")

    def __repr__(self):
        kind = self._kind()
        place = "the CPU" if not self._gpus else _devices.name_of(self._gpus)
        return f"<isotherm.Table {kind['key']} → {kind['value']}, {len(self)} entries on {place}>"


class _FixedTable(_core.FixedTable, Table):
    """64-bit keys and values of one size: FixedTable and RowTable of the C++ library."""

    def __init__(self, *arguments, **named):
        pass  # _make calls that of the extension

    def __reduce__(self):
        return Table.__reduce__(self)

    def _kind(self):
        return {"key": name_of(self.key_dtype, ()),
                "value": name_of(self.value_dtype, self.row_shape)}

    def stats(self):
        return super().stats() | {"evictions": self.evictions}

    def _file_kind(self):
        return {"key": name_of(self.key_dtype, ()),
                "value": [_files.dtype_name(self.value_dtype), list(self.row_shape)]}

    def _put_loaded(self, rows, keys, values):
        self.put(np.frombuffer(keys, self.key_dtype),
                 np.frombuffer(values, self.value_dtype).reshape((rows, *self.row_shape)))


def _chosen(keys, values, mask):
    """Those entries of a chunk that ``where`` wants; keys and values may be lists."""
    mask = np.asarray(mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"where: wants an array of bool, but was given {mask.dtype}")
    if mask.shape != (len(keys),):
        raise ValueError(f"where: wants an array of shape ({len(keys)},), one bool for each key, but was "
                         f"given {mask.shape}")
    at = np.flatnonzero(mask)
    return tuple(column[at] if isinstance(column, np.ndarray) else [column[i] for i in at]
                 for column in (keys, values))


def _unpickled(data, options):
    return _files.from_bytes(data, Table, options)
