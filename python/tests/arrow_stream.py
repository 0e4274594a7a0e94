"""Arrays of strings by Arrow's C stream interface, made without Arrow, for tests."""

import ctypes

import numpy as np


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
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
_Schema_out = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_Array_out = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_WHY = ctypes.create_string_buffer(b"no disk")
_Error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))
_Stream._fields_ = [("get_schema", _Schema_out), ("get_next", _Array_out),
                    ("get_last_error", _Error), ("release", _release_of(_Stream)),
                    ("private_data", ctypes.c_void_p)]
_NAME = b"arrow_array_stream"


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


class Chunks:
    """Chunks of strings; it counts the arrays that were not given back in ``held``."""

    _BUFFERS = {b"u": _offsets, b"z": _offsets, b"vu": _views}

    def __init__(self, chunks, format=b"u", nulls=0, fails=False):
        self.chunks, self.format, self.nulls, self.fails = chunks, format, nulls, fails
        self.held, self.keep = 0, []

    def __len__(self):
        return sum(map(len, self.chunks))

    def __arrow_c_stream__(self, requested_schema=None):
        chunks = iter(self.chunks)

        def release_schema(schema):
            self.held -= 1
            schema.contents.release = _release_of(_Schema)()

        def release_array(array):
            self.held -= 1
            array.contents.release = _release_of(_Array)()

        releases = _release_of(_Schema)(release_schema), _release_of(_Array)(release_array)

        def get_schema(stream, out):
            self.held += 1
            out[0] = _Schema(format=self.format, release=releases[0])
            return 0

        def get_next(stream, out):
            if self.fails:
                return 5
            chunk = next(chunks, None)
            if chunk is None:
                out[0] = _Array()
                return 0
            self.held += 1
            buffers = self._BUFFERS[self.format](chunk)
            valid = np.full(len(chunk) // 8 + 1, 0xFE if self.nulls else 0xFF, "u1")
            pointers = (ctypes.c_void_p * (len(buffers) + 1))(
                valid.ctypes.data, *(buffer.ctypes.data for buffer in buffers))
            self.keep += [buffers, valid, pointers]
            out[0] = _Array(length=len(chunk), null_count=self.nulls, n_buffers=len(pointers),
                            buffers=pointers, release=releases[1])
            return 0

        stream = _Stream(_Schema_out(get_schema), _Array_out(get_next),
                         _Error(lambda stream: ctypes.addressof(_WHY)),
                         _release_of(_Stream)(lambda stream: None))
        self.keep += [stream, releases]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(stream), _NAME, None)
