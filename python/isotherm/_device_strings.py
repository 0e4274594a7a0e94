"""Columns of byte strings in the memory of a GPU: how those of any library are read, and
``DeviceStrings``, which tables give back.

A ``StringColumn`` is what a call needs of one: the addresses of 64-bit offsets, one more than there are
strings, and of the bytes. Strings stay where they are, but for Arrow columns of several arrays, which
are joined on the GPU; offsets of 32 bits, and of strings of one size, are written anew there. As with
arrays (``_device_arrays``) the stream is the caller's; Arrow's event is waited for in the stream.
"""

import numpy as np

from . import _core, _device_arrays, _devices
from ._device_arrays import CUDA, DEFAULT_STREAM, MANAGED, DeviceArray

_HOST = (list, str, bytes, np.ndarray, np.generic)
_INT64, _BYTE = np.dtype("i8"), np.dtype("u1")


class DeviceStrings:
    """Byte strings in the memory of a GPU, as tables give them back for keys there.

    It has Arrow's device interface (``__arrow_c_device_array__``: large binary, null where ``found`` is
    False), so cuDF and other libraries take it without a copy.

    Args:
        strings: a list of bytes or str to copy to the GPU.
        device: ``"cuda:0"`` and so on.

    Attributes:
        offsets: int64 ``[n + 1]``; string i is ``data[offsets[i]:offsets[i + 1]]``.
        data: uint8, at least ``offsets[n]`` of them.
        found: bool ``[n]``, or None: all strings are there.

    All three are arrays of the library of the keys, for these a ``DeviceArray``.

    >>> table = isotherm.Table("bytes", "bytes", device="cuda:0")
    >>> table.put(isotherm.DeviceStrings(["a", "b"]), isotherm.DeviceStrings(["1", "22"]))
    >>> table.get(isotherm.DeviceStrings(["b", "x"]))[0].to_pylist()
    [b'22', None]
    """

    def __init__(self, strings, device="cuda:0"):
        listed = _core._strings(list(strings), "strings")
        ends = np.cumsum([0, *map(len, listed)], dtype="i8")
        self._set(DeviceArray(ends, device),
                  DeviceArray(np.frombuffer(b"".join(listed), "u1"), device), None)

    @classmethod
    def _made(cls, offsets, data, found):
        made = object.__new__(cls)
        made._set(offsets, data, found)
        return made

    def _set(self, offsets, data, found):
        self.offsets, self.data, self.found = offsets, data, found

    def _whole(self):
        """Itself, where all strings are there."""
        self.found = None
        return self

    @property
    def device(self):
        return _devices.name_of([_device_arrays.read(self.offsets).gpu])

    def __len__(self):
        return int(self.offsets.shape[0]) - 1

    def __repr__(self):
        return f"<isotherm.DeviceStrings, {len(self)} on {self.device}>"

    def to_pylist(self):
        """A list of bytes on the host, None where ``found`` is False; waits for what is under way."""
        column = read(self)
        offsets = column.read_offsets()
        there = (np.ones(len(self), bool) if self.found is None
                 else to_host(_device_arrays.read(self.found), column.stream))
        data = read_bytes(column, int(offsets[0]), int(offsets[-1]))
        return [data[begin:end] if its else None for begin, end, its in
                zip((offsets[:-1] - offsets[0]).tolist(), (offsets[1:] - offsets[0]).tolist(), there)]

    def _arrow(self):
        column, bits = read(self), None
        if self.found is not None:
            found = _device_arrays.read(self.found, column.stream)
            found.follow(column.stream)
            bits = _scratch((len(self) + 7) // 8, _BYTE, column.gpu, column.stream)
            _core._gpu_bits(column.gpu, column.stream, bits._memory.pointer, len(self), found.pointer)
        return _core._gpu_arrow((self, column, bits), column.gpu, column.stream,
                                bits._memory.pointer if bits is not None else 0, column.offsets,
                                column.data, len(self))

    def __arrow_c_device_array__(self, requested_schema=None, **named):
        return self._arrow().device_array()

    def __arrow_c_device_stream__(self, requested_schema=None, **named):
        return self._arrow().device_stream()


class StringColumn:
    """``columns`` are the arrays whose streams the call's stream follows and leads; ``kept`` is what
    else must last until the call is queued."""

    __slots__ = ("rows", "shape", "offsets", "data", "gpu", "stream", "library", "columns", "kept")

    def __init__(self, rows, offsets, data, gpu, stream, library, columns, kept=()):
        self.rows, self.shape, self.offsets, self.data = rows, (rows,), offsets, data
        self.gpu, self.stream, self.library = gpu, stream, library
        self.columns, self.kept = columns, kept

    def lead(self, stream):
        for column in self.columns:
            column.lead(stream)

    def read_offsets(self):
        """They, on the host; waits."""
        return _read(self.gpu, self.offsets, self.rows + 1, _INT64, self.stream)


def _read(gpu, pointer, count, dtype, stream):
    array = np.empty(count, dtype)
    if count:
        _core._gpu_read(gpu, pointer, array, stream)
    return array


def to_host(column, stream):
    """A copy of an array on a GPU; waits."""
    return _read(column.gpu, column.pointer, int(np.prod(column.shape)), column.dtype,
                 stream).reshape(column.shape)


def read_bytes(column, begin, end):
    """Bytes of a StringColumn; waits."""
    return _read(column.gpu, column.data + begin, end - begin, _BYTE, column.stream).tobytes()


def _scratch(count, dtype, gpu, stream, zeros=False):
    return DeviceArray._made((count,), dtype, gpu, stream, zeros)


def new_offsets(rows, gpu, stream, pointer=0, width=0, step=0):
    """64-bit offsets of those at ``pointer``, or of strings of ``step`` bytes."""
    offsets = _scratch(rows + 1, _INT64, gpu, stream)
    _core._gpu_offsets(gpu, stream, offsets._memory.pointer, rows, pointer, width, step, False)
    return offsets


def of_rows(column, rows, step, stream):
    """A column whose strings are the rows of an array, of ``step`` bytes each."""
    column.follow(stream)
    offsets = new_offsets(rows, column.gpu, stream, step=step)
    return StringColumn(rows, offsets._memory.pointer, column.pointer, column.gpu, stream,
                        column.library, [column], offsets)


def read(given, stream=None, name="keys"):
    """A StringColumn; None for what does not lie on a GPU. ``stream``: that of the call, None where this
    column decides."""
    if isinstance(given, DeviceStrings):
        given = (given.offsets, given.data)
    if isinstance(given, tuple) and len(given) == 2:
        pair = [_device_arrays.read(part, stream) for part in given]
        if pair[0] is not None and pair[1] is not None:
            return _of_pair(*pair, stream, name)
        if pair[0] is not None or pair[1] is not None:
            raise TypeError(f"{name}: of a pair of offsets and bytes both must lie on the GPU")
        return None
    if isinstance(given, _HOST):
        return None
    if hasattr(given, "__arrow_c_device_array__") or hasattr(given, "__arrow_c_device_stream__"):
        arrow = _core.ArrowInput(given, name, True)
        return _of_arrow(arrow, stream, name) if arrow.device_type in (CUDA, MANAGED) else None
    column = _device_arrays.read(given, stream)
    if column is None:
        return None
    if isinstance(column.dtype, str) or not column.shape:
        raise TypeError(f"{name}: wants rows of bytes, not {column.dtype} of shape {column.shape}")
    _device_arrays.check(column, name, column.dtype, aligned=1)
    step = column.dtype.itemsize * int(np.prod(column.shape[1:]))
    return of_rows(column, column.shape[0], step, column.stream if stream is None else stream)


def _of_pair(offsets, data, stream, name):
    stream = offsets.stream if stream is None else stream
    narrow = not isinstance(offsets.dtype, str) and offsets.dtype == np.dtype("i4")
    _device_arrays.check(offsets, f"{name}: offsets", np.dtype("i4") if narrow else _INT64,
                         aligned=4 if narrow else 8)
    _device_arrays.check(data, f"{name}: bytes", _BYTE, aligned=1, gpu=offsets.gpu)
    for column, what in ((offsets, "offsets"), (data, "bytes")):
        if len(column.shape) != 1:
            raise ValueError(f"{name}: {what}: wants one dimension, not shape {column.shape}")
        column.follow(stream)
    if offsets.shape[0] == 0:
        raise ValueError(f"{name}: offsets: wants one more than there are strings, not none")
    rows, pointer, kept = offsets.shape[0] - 1, offsets.pointer, ()
    if narrow:
        kept = new_offsets(rows, offsets.gpu, stream, pointer, 4)
        pointer = kept._memory.pointer
    return StringColumn(rows, pointer, data.pointer, offsets.gpu, stream, offsets.library,
                        [offsets, data], kept)


# Columns of Arrow, whose library is not asked for streams: it may use them in others.

def _of_arrow(arrow, stream, name):
    stream = DEFAULT_STREAM if stream is None else stream
    gpu, kind, chunks = arrow.device, arrow.format, [chunk for chunk in arrow.chunks() if chunk[0]]
    if kind.startswith("v"):
        raise TypeError(f"{name}: string views (format '{kind}') lie anywhere; cast them to binary "
                        "or large binary")
    width, step = ((0, int(kind[2:])) if kind.startswith("w:") else
                   (8 if kind in "ZU" else 4, 0))
    for length, offset, nulls, buffers, event in chunks:
        if event:
            _core._gpu_wait_for(gpu, stream, event)
        if nulls and buffers[0] and (nulls > 0 or _has_nulls(gpu, buffers[0], offset, length, stream)):
            raise ValueError(f"{name}: the Arrow array has nulls")
    parts = [(length, buffers[1] + offset * width if width else 0,
              buffers[2] if width else buffers[1] + offset * step)
             for length, offset, _, buffers, _ in chunks]
    owner = _device_arrays.Column(arrow, _device_arrays.OWN, 0, _BYTE, (0,), None, gpu, stream,
                                  foreign=True)
    rows = sum(length for length, _, _ in parts)
    if len(parts) == 1 and width == 8:
        (_, pointer, data), kept = parts[0], ()
    elif len(parts) == 1:
        kept = new_offsets(rows, gpu, stream, parts[0][1], width, step)
        pointer, data = kept._memory.pointer, parts[0][2]
    else:
        kept = _joined(parts, gpu, width, step, rows, stream)
        pointer, data = (part._memory.pointer for part in kept)
    return StringColumn(rows, pointer, data, gpu, stream, _device_arrays.OWN, [owner], kept)


def _has_nulls(gpu, bitmap, offset, length, stream):
    """Waits, since the producer has not counted them."""
    bits = np.unpackbits(_read(gpu, bitmap, (offset + length + 7) // 8, _BYTE, stream),
                         bitorder="little")
    return not bits[offset:offset + length].all()


def _joined(parts, gpu, width, step, rows, stream):
    """(offsets, bytes) of arrays one behind the other; waits for their sizes."""
    ends = []
    for length, pointer, _ in parts:
        ends.append([int(_read(gpu, pointer + at * width, 1, f"i{width}", stream)[0])
                     for at in (0, length)] if width else [0, length * step])
    offsets = _scratch(rows + 1, _INT64, gpu, stream, zeros=True)
    data = _scratch(sum(end - begin for begin, end in ends), _BYTE, gpu, stream)
    row = at = 0
    for (length, pointer, source), (begin, end) in zip(parts, ends):
        if end > begin:
            _core._gpu_copy(gpu, stream, data._memory.pointer + at, source + begin, end - begin)
        _core._gpu_offsets(gpu, stream, offsets._memory.pointer + 8 * row, length, pointer, width, step,
                           True)
        row, at = row + length, at + end - begin
    return offsets, data
