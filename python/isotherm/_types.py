"""Names of the kinds of keys and values, such as "u64" and "f32[128]"."""

import operator
import re

import numpy as np

from . import _core

_NAMES = {"u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4",
          "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8", "bool": "?"}
_PATTERN = re.compile(r"(\w+)\s*(?:\[\s*(\d+(?:\s*,\s*\d+)*)\s*\])?")
_MOST_ROW_BYTES = 1 << 20


def parse_key(key):
    """The dtype of a key, or None for byte strings."""
    if isinstance(key, str) and key == "bytes" or key is bytes:
        return None
    try:
        dtype = np.dtype(_NAMES.get(key, key) if isinstance(key, str) else key)
    except TypeError:
        dtype = None
    if dtype not in (np.dtype("u8"), np.dtype("i8")):
        raise ValueError(f"key must be 'u64', 'i64' or 'bytes', not {key!r}")
    return dtype


def parse_value(value):
    """(dtype, shape) of a value, or None for byte strings."""
    if isinstance(value, str) and value == "bytes" or value is bytes:
        return None
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        if match and match[1] in _NAMES:
            dtype = np.dtype(_NAMES[match[1]])
            shape = tuple(int(size) for size in match[2].split(",")) if match[2] else ()
            return _checked(dtype, shape, value)
    try:
        dtype = np.dtype(value) if value is not None else None  # NumPy takes None for float64
    except (TypeError, ValueError):
        dtype = None
    if dtype is None:
        raise ValueError(f"value must be a dtype, a name such as 'u64' or 'f32[128]', or 'bytes', "
                         f"not {value!r}")
    if dtype.subdtype is not None:
        return _checked(*dtype.subdtype, value)
    return _checked(dtype, (), value)


def _checked(dtype, shape, value):
    if dtype.hasobject or not dtype.isnative:
        raise ValueError(f"value: {value!r} has no fixed bytes in the machine's order")
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if not 1 <= size <= _MOST_ROW_BYTES:
        raise ValueError(f"value: {value!r} has {size} bytes; 1 to {_MOST_ROW_BYTES} can be stored")
    return dtype, tuple(shape)


def name_of(dtype, shape):
    """The name that parse_value takes."""
    short = {np.dtype(code): name for name, code in _NAMES.items()}
    name = short.get(dtype, dtype.str)
    return name + ("[" + ",".join(map(str, shape)) + "]" if shape else "")


def parse_memory(memory, name="memory"):
    """Bytes of 1024, "64mb", "2gb"; None or 0: no cap. ``name`` is that of the argument."""
    if memory is None:
        return 0
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", memory.lower())
        if not match:
            raise ValueError(f"{name} must be bytes or a size such as '64mb', not {memory!r}")
        size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]
    elif isinstance(memory, float) and memory.is_integer():
        size = int(memory)
    else:
        try:
            size = operator.index(memory)
        except TypeError:
            raise TypeError(f"{name} must be whole bytes or a size such as '64mb', not {memory!r}") from None
    if not 0 <= size < 2**64:
        raise ValueError(f"{name} must be from 0 to 2^64 - 1 bytes, but is {memory}")
    return size


def parse_store_memory(memory):
    """The same, of a store of byte strings."""
    size = parse_memory(memory)
    if 0 < size < _core.least_store_memory:
        raise MemoryError(f"memory={memory}: a store needs {_core.least_store_memory} bytes or more")
    return size


def checked_chunk(chunk):
    """How many entries a step of a walk takes in."""
    chunk = operator.index(chunk)
    if not 1 <= chunk < 2**63:
        raise ValueError(f"chunk must be 1 to 2**63 - 1, not {chunk}")
    return chunk
