"""Arrays of strings by Arrow's C stream interface and those of devices, made without Arrow, for tests."""

import ctypes

import numpy as np


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


class _DeviceArray(ctypes.Structure):
    pass


class _DeviceStream(ctypes.Structure):
    pass


def _release_of(kind):
    return ctypes.CFUNCTYPE(None, ctypes.POINTER(kind))


_Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
                    ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                    ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p),
                    ("dictionary", ctypes.c_void_p), ("release", _release_of(_Schema)),
                    ("private_data", ctypes.c_void_p)]
_Array._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64),
                   ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                   ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
                   ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p),
                   ("release", _release_of(_Array)), ("private_data", ctypes.c_void_p)]
_DeviceArray._fields_ = [("array", _Array), ("device_id", ctypes.c_int64),
                         ("device_type", ctypes.c_int32), ("sync_event", ctypes.c_void_p),
                         ("reserved", ctypes.c_int64 * 3)]


def _functions_of(stream, array):
    """The fields of a stream of such arrays."""
    def function(result, *arguments):
        return ctypes.CFUNCTYPE(result, ctypes.POINTER(stream), *map(ctypes.POINTER, arguments))

    return [("get_schema", function(ctypes.c_int, _Schema)), ("get_next", function(ctypes.c_int, array)),
            ("get_last_error", function(ctypes.c_void_p)), ("release", _release_of(stream)),
            ("private_data", ctypes.c_void_p)]


_Stream._fields_ = _functions_of(_Stream, _Array)
_DeviceStream._fields_ = ([("device_type", ctypes.c_int32)]
                          + _functions_of(_DeviceStream, _DeviceArray))
_WHY = ctypes.create_string_buffer(b"no disk")


def _capsule(structure, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(structure), name, None)


def _offsets(strings):
    ends = np.cumsum([0, *map(len, strings)]).astype("i4")
    return [ends, np.frombuffer(b"".join(strings) + b" ", "u1")]


def _views(strings):
    """The first string that is long lies in the first of two more buffers, and the others behind."""
    rows, data = np.zeros((len(strings), 16), "u1"), [b"", b""]
    for row, string in zip(rows, strings):
        row[:4].view("i4")[0] = len(string)
        if len(string) <= 12:
            row[4:4 + len(string)] = np.frombuffer(string, "u1")
            continue
        at = 0 if not data[0] else 1
        row[8:].view("i4")[:] = at, len(data[at])
        data[at] += string
    return [rows, *(np.frombuffer(part + b" ", "u1") for part in data)]


def _fixed(strings):
    return [np.frombuffer(b"".join(strings) + b" ", "u1")]


class _Strings:
    """Chunks of strings; it counts the arrays that were not given back in ``held``.

    ``place`` is the kind of the device and its number; ``move`` puts a buffer there and has an address:
    ``move(array) -> (what keeps it, address)``."""

    _BUFFERS = {b"u": _offsets, b"z": _offsets, b"vu": _views, b"w:3": _fixed,
                b"Z": lambda strings: [part.astype("i8") if part.dtype == "i4" else part
                                       for part in _offsets(strings)]}

    def __init__(self, chunks, format=b"u", nulls=0, fails=False, place=(1, -1),
                 move=lambda array: (array, array.ctypes.data)):
        self.chunks, self.format, self.nulls, self.fails = chunks, format, nulls, fails
        self.place, self.move = place, move
        self.held, self.keep = 0, []

    def __len__(self):
        return sum(map(len, self.chunks))

    def _schema(self):
        def release(schema):
            self.held -= 1
            schema.contents.release = _release_of(_Schema)()

        self.held += 1
        its = _release_of(_Schema)(release)
        self.keep.append(its)
        return _Schema(format=self.format, release=its)

    def _array(self, chunk):
        def release(array):
            self.held -= 1
            array.contents.release = _release_of(_Array)()

        self.held += 1
        its = _release_of(_Array)(release)
        # One string before, which is none of the array's.
        buffers = self._BUFFERS[self.format]([b"---", *chunk])
        valid = np.full(len(chunk) // 8 + 1, 0xFD if self.nulls else 0xFF, "u1")
        moved = [self.move(buffer) for buffer in (valid, *buffers)]
        pointers = (ctypes.c_void_p * len(moved))(*(address for _, address in moved))
        self.keep += [its, moved, pointers]
        return _Array(length=len(chunk), null_count=self.nulls, offset=1, n_buffers=len(moved),
                      buffers=pointers, release=its)

    def _device_array(self, chunk):
        return _DeviceArray(array=self._array(chunk), device_id=self.place[1],
                            device_type=self.place[0])

    def _stream(self, kind, array_kind, make):
        chunks = iter(self.chunks)

        def get_schema(stream, out):
            out[0] = self._schema()
            return 0

        def get_next(stream, out):
            if self.fails:
                return 5
            chunk = next(chunks, None)
            out[0] = array_kind() if chunk is None else make(chunk)
            return 0

        types = dict(kind._fields_)
        stream = kind(get_schema=types["get_schema"](get_schema), get_next=types["get_next"](get_next),
                      get_last_error=types["get_last_error"](lambda stream: ctypes.addressof(_WHY)),
                      release=types["release"](lambda stream: None))
        self.keep.append(stream)
        return stream


class Chunks(_Strings):
    def __arrow_c_stream__(self, requested_schema=None):
        return _capsule(self._stream(_Stream, _Array, self._array), b"arrow_array_stream")


class DeviceChunks(_Strings):
    def __arrow_c_device_stream__(self, requested_schema=None, **named):
        stream = self._stream(_DeviceStream, _DeviceArray, self._device_array)
        stream.device_type = self.place[0]
        return _capsule(stream, b"arrow_device_array_stream")


class DeviceArrayOfStrings(_Strings):
    """The first chunk. Nobody gives it back: capsules end without a destructor."""

    def __arrow_c_device_array__(self, requested_schema=None, **named):
        made = self._schema(), self._device_array(self.chunks[0])
        self.keep += made
        return tuple(_capsule(*pair) for pair in zip(made, (b"arrow_schema", b"arrow_device_array")))
