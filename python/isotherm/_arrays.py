"""What the extension does with arguments that are no array of the wanted kind already.

Each function returns an array that the extension can use as it is, or raises an error that says
what was given and what is wanted. Arrays are never copied; Python numbers and lists are.
"""

import functools

import numpy as np

from ._errors import TableFullError

_DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda managed"}
_HOST = (1, 3, 11)  # cpu, and host memory that CUDA or ROCm has pinned


def host_view(given, name):
    """A NumPy view of anything that is an array in host memory; None where it is none."""
    if isinstance(given, np.ndarray):
        refuse_masked(given, name)
        return given
    if hasattr(given, "__dlpack_device__"):
        device, number = _dlpack(given, name, lambda: given.__dlpack_device__())
        if device not in _HOST:
            where = f"{_DEVICES.get(int(device), f'device type {int(device)}')}:{number}"
            raise ValueError(f"{name}: the array lies on {where}, and this table or the keys of "
                             "the call on the CPU; copy it to the host first")
        if getattr(given, "requires_grad", False):
            given = given.detach()
        return _dlpack(given, name, lambda: np.from_dlpack(given))
    if hasattr(given, "__array__"):
        return np.asarray(given)
    if hasattr(given, "__cuda_array_interface__"):
        raise ValueError(f"{name}: the array lies on a GPU, and this table or the keys of the call "
                         "on the CPU; copy it to the host first")
    return None


def _dlpack(given, name, call):
    """What the protocol has no words for (bfloat16, sparse tensors, nulls) each library tells in its own."""
    try:
        return call()
    except Exception as error:
        dtype = getattr(given, "dtype", getattr(given, "type", "no dtype"))
        raise TypeError(f"{name}: this {type(given).__name__} of {dtype} is no array that NumPy can take "
                        f"({error}); convert it first") from None


def refuse_masked(array, name):
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: wants an array without a mask, which would be lost; use its "
                        "compressed() or filled()")


def _checked(array, dtype, name, writable=False):
    if array.dtype != dtype:
        raise TypeError(f"{name}: wants dtype {dtype}, not {array.dtype}; convert it with "
                        f".astype({str(dtype)!r})")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: wants an array in C order without gaps, not strides "
                         f"{array.strides} of shape {array.shape}; use numpy.ascontiguousarray")
    if not array.flags.aligned:
        raise ValueError(f"{name}: the array is not aligned to its dtype {dtype}")
    if writable and not array.flags.writeable:
        raise ValueError(f"{name}: the array is read-only")
    # An equal dtype of another name, as that of C's long long is.
    return array if array.dtype.num == dtype.num else array.view(dtype)


def _converted(given, dtype, name):
    """An array of Python numbers and lists; nothing is wrapped or cut, and floats are rounded only."""
    if dtype.names is not None:
        return _records(given, dtype, name)
    try:
        array = np.asarray(given)
    except ValueError as error:  # lists of several lengths
        raise ValueError(f"{name}: no array can be made of what was given: {error}") from None
    if array.size == 0:
        return np.empty(array.shape, dtype)
    if dtype.kind in "iu":
        return _integers(given, dtype, name, array.dtype)
    if dtype.kind == "V":
        array = array.astype(f"V{array.dtype.itemsize}") if array.dtype.kind == "S" else array
        if array.dtype != dtype:
            raise TypeError(f"{name}: wants {dtype.itemsize} bytes each, not {array.dtype}")
        return array
    if array.dtype.kind == "O" and dtype.kind in "fc":
        array = _floats(array, name, dtype)
    is_text = dtype.kind in "SU"
    if not np.can_cast(array.dtype, dtype, "same_kind") or is_text > (array.dtype.kind in "SU"):
        raise TypeError(f"{name}: wants {'strings' if is_text else 'numbers'} of dtype {dtype}, not "
                        f"{array.dtype}")
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if dtype.kind in "fc":
        if (np.isinf(made) & ~np.isinf(array)).any():
            raise OverflowError(f"{name}: a number is out of the range of {dtype}")
    elif made.astype(array.dtype).tobytes() != array.tobytes():  # strings and times
        raise ValueError(f"{name}: wants dtype {dtype}, which would cut some of what was given, "
                         f"{array.dtype}")
    return made


def _floats(objects, name, dtype):
    """Of integers that no dtype of NumPy holds; anything else as it is."""
    if not all(isinstance(number, (int, float)) for number in objects.flat):
        return objects
    try:
        return np.array([float(number) for number in objects.flat]).reshape(objects.shape)
    except OverflowError:
        raise OverflowError(f"{name}: a number is out of the range of {dtype}") from None


def _integers(given, dtype, name, seen):
    objects = np.array(given, object)  # exact: NumPy makes floats of mixed large integers
    for number in objects.flat:
        if not isinstance(number, (int, np.integer, np.bool_)):
            raise TypeError(f"{name}: wants integers of dtype {dtype}, not "
                            f"{type(number).__name__ if seen.kind in 'Oiu' else seen}")
    numbers = [int(number) for number in objects.flat]  # NumPy's scalars would wrap around
    limits = np.iinfo(dtype)
    if min(numbers) < limits.min or max(numbers) > limits.max:
        raise OverflowError(f"{name}: an integer is out of the range of {dtype}")
    return np.array(numbers, dtype).reshape(objects.shape)


def _records(given, dtype, name):
    """Each field as an array of its own dtype."""
    try:
        array = np.array(given, dtype)
    except OverflowError:
        raise OverflowError(f"{name}: an integer is out of the range of its field of {dtype}") from None
    if array.size == 0:
        return array
    records = [given] if array.shape == () else given
    for _ in array.shape[1:]:
        records = [record for part in records for record in part]
    for at, field in enumerate(dtype.names):
        base, row = dtype[field].base, dtype[field].shape
        column = _converted([record[at] for record in records], base, f"{name}: {field}")
        if column.ndim == 1:  # one element for each of the row
            column = column.reshape(-1, *[1] * len(row))
        shape = (array.size, *row)
        try:
            array[field] = np.broadcast_to(column, shape).reshape(array.shape + row)
        except ValueError:
            raise _of_another_shape(column, shape, name) from None
    return array


def keys(given, dtype):
    # A scalar of NumPy is a number, whatever its dtype.
    view = None if isinstance(given, np.generic) else host_view(given, "keys")
    if view is None:
        return _converted(given, dtype, "keys")
    return _checked(view, dtype, "keys")


def values(given, dtype, shape, name):
    view = None if isinstance(given, np.generic) else host_view(given, name)
    if view is None:
        array = _converted(given, dtype, name)
        if array.size == 0 and 0 in shape:
            return np.empty(shape, dtype)
        # A number or a row is repeated for all keys; a list that is too short is a mistake.
        if array.shape != shape[len(shape) - array.ndim:]:
            raise _of_another_shape(array, shape, name)
        return _without_padding(np.ascontiguousarray(np.broadcast_to(array, shape)), dtype)
    if view.shape != shape:
        raise _of_another_shape(view, shape, name)
    return _without_padding(_checked(view, dtype, name), dtype)


def _without_padding(array, dtype):
    """Values are compared, and saved, byte by byte: what is no part of an element is 0 in all of them."""
    padding = _padding(dtype)
    if padding is None:
        return array
    array = array.copy()
    array.reshape(-1).view(np.uint8).reshape(-1, dtype.itemsize)[:, padding] = 0
    return array


@functools.lru_cache
def _padding(dtype):
    """Which bytes of an element have no meaning; None: all have one."""
    used = _used_bytes(dtype)
    return None if used.all() else np.flatnonzero(~used)


def _used_bytes(dtype):
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.tile(_used_bytes(base), int(np.prod(shape)))
    used = np.zeros(dtype.itemsize, bool)
    if dtype.names is not None:
        for field, offset, *_ in map(dtype.fields.get, dtype.names):
            used[offset:offset + field.itemsize] |= _used_bytes(field)
    elif dtype.char in "gG" and np.finfo(dtype).nmant == 63:  # of x86: 80 bits, in 16 bytes
        used.reshape(-1, np.dtype("g").itemsize)[:, :10] = True
    else:
        used[:] = True
    return used


def _of_another_shape(array, shape, name):
    return ValueError(f"{name}: wants shape {shape}, not {array.shape}")


def out(given, dtype, shape):
    view = host_view(given, "out")
    if view is None:
        raise TypeError(f"out: wants an array, not {type(given).__name__}")
    # __array__ alone may make a copy each time, which nobody would see filled.
    if view.size and not np.may_share_memory(view, host_view(given, "out")):
        raise TypeError(f"out: this {type(given).__name__} lends no memory to be filled, but a copy; give a NumPy array")
    if view.shape != shape:
        raise ValueError(f"out: wants shape {shape}, not {view.shape}")
    return _checked(view, dtype, "out", writable=True)


def raise_full(refused, rows, memory):
    raise TableFullError(f"the table is full: {refused} of {rows} keys found no room "
                         f"({memory} bytes are in use); the others were stored")
