"""Arrays in the memory of a GPU: how those of any library are read, and which are given back.

A ``Column`` is what a call needs of an array. Its stream is the caller's: PyTorch's and CuPy's
current one, that of a ``__cuda_array_interface__`` or of a ``DeviceArray``; of other libraries'
arrays the default stream, which they are told by DLPack (``__dlpack__(stream=…)``), and make wait
for what they have under way. Nothing here waits on the host, but for an array of such a library that
a call has filled: in which stream it is read then, nobody says.
"""

import sys

import numpy as np

from . import _core, _devices

DEFAULT_STREAM = 1  # of DLPack and of the array interface: CUDA's legacy default stream
CUDA = 2            # DLPack's kinds of devices
MANAGED = 13
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLPack's kinds of dtypes
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class DeviceArray:
    """An array in the memory of a GPU, as tables give it back for keys of no library that has some.

    It has ``__dlpack__`` and ``__cuda_array_interface__``, so PyTorch, CuPy, JAX and Numba take it
    without a copy; ``numpy()`` copies it to the host.

    Args:
        array: a NumPy array to copy to the GPU.
        device: ``"cuda:0"`` and so on.

    >>> keys = isotherm.DeviceArray(np.array([1, 2], "u8"))
    >>> table = isotherm.Table(device="cuda:0")
    >>> table.put(keys, keys)
    >>> table.get(keys)[0].numpy()
    array([1, 2], dtype=uint64)
    """

    def __init__(self, array, device="cuda:0"):
        array = np.asarray(array, order="C")
        self._set(array.shape, array.dtype, _devices.parse(device, True)[0], DEFAULT_STREAM, False)
        self._memory.write(array)

    @classmethod
    def _made(cls, shape, dtype, gpu, stream, zeros):
        made = object.__new__(cls)
        made._set(shape, dtype, gpu, stream, zeros)
        return made

    def _set(self, shape, dtype, gpu, stream, zeros):
        self.shape, self.dtype, self._gpu = tuple(shape), np.dtype(dtype), gpu
        if self.dtype.hasobject:
            raise TypeError("a DeviceArray has no Python objects, which lie on the host")
        if not self.dtype.isnative:
            raise TypeError(f"a DeviceArray has the machine's byte order, and dtype {self.dtype} another; convert "
                            "it with .astype(dtype.newbyteorder('='))")
        size = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        self._memory = _core._GpuMemory(gpu, size, stream, zeros)

    @property
    def device(self):
        return f"cuda:{self._gpu}"

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<isotherm.DeviceArray {self.dtype} {self.shape} on {self.device}>"

    def numpy(self):
        """A copy on the host; waits for what is under way."""
        array = np.empty(self.shape, self.dtype)
        self._memory.read(array)
        return array

    def __dlpack_device__(self):
        return (CUDA, self._gpu)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("a DeviceArray is shown where it is, and not copied; use numpy()")
        if self.dtype.kind not in _CODES:
            raise BufferError(f"DLPack has no dtype {self.dtype}")
        if stream != -1:
            _wait(self._gpu, DEFAULT_STREAM if stream is None else stream, self._memory.stream)
        return _core._make_dlpack(self._memory, self._memory.pointer, self._gpu,
                                  _CODES[self.dtype.kind], self.dtype.itemsize * 8, self.shape)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "descr": self.dtype.descr,
                "data": (self._memory.pointer, False), "strides": None, "version": 3,
                "stream": self._memory.stream or DEFAULT_STREAM}


def _wait(gpu, stream, behind):
    if (stream or DEFAULT_STREAM) != (behind or DEFAULT_STREAM):
        _core._gpu_wait(gpu, stream, behind)


class Column:
    """An array in GPU memory. ``strides`` are in bytes, None where there are no gaps. Where
    ``foreign``, its library has made ``stream`` wait for it, and may use it in others."""

    __slots__ = ("given", "library", "pointer", "dtype", "shape", "strides", "gpu", "stream",
                 "read_only", "kept", "foreign", "filled")

    def __init__(self, given, library, pointer, dtype, shape, strides, gpu, stream,
                 read_only=False, kept=None, foreign=False):
        self.given, self.library, self.pointer = given, library, pointer
        self.dtype, self.shape, self.strides = dtype, shape, strides
        self.gpu, self.stream, self.read_only, self.kept = gpu, stream, read_only, kept
        self.foreign, self.filled = foreign, False

    def follow(self, stream):
        """What is queued in ``stream`` sees what this array's own stream has written."""
        if not self.foreign:
            _wait(self.gpu, stream, self.stream)

    def lead(self, stream):
        """What this array's own stream does from now on comes behind what ``stream`` has queued."""
        if not self.foreign:
            _wait(self.gpu, self.stream, stream)
        elif self.filled:
            _core._gpu_finish(self.gpu, stream)
        else:
            _wait(self.gpu, DEFAULT_STREAM, stream)


# Libraries: how an array is read, and how one of theirs is made. `stream` of `read` is that of the
# call, None where this array decides.

class _Own:
    @staticmethod
    def read(array, stream):
        memory = array._memory
        return Column(array, _Own, memory.pointer, array.dtype, array.shape, None, array._gpu,
                      memory.stream)

    @staticmethod
    def make(shape, dtype, gpu, stream, zeros):
        made = DeviceArray._made(shape, dtype, gpu, stream, zeros)
        return made, made._memory.pointer


OWN = _Own


class _Torch:
    _dtypes = {}

    @classmethod
    def read(cls, tensor, stream):
        torch = sys.modules["torch"]
        if tensor.dtype not in cls._dtypes:
            name = str(tensor.dtype).removeprefix("torch.")
            try:
                cls._dtypes[tensor.dtype] = np.dtype(name)
            except TypeError:  # bfloat16 and the like
                cls._dtypes[tensor.dtype] = name
        gpu = tensor.device.index
        if tensor.is_conj() or tensor.is_neg():  # its memory has other numbers
            raise ValueError("the tensor is a view of conjugated or negated numbers that PyTorch has not computed; "
                             "use resolve_conj() or resolve_neg()")
        dtype = cls._dtypes[tensor.dtype]
        strides = (None if tensor.is_contiguous() or isinstance(dtype, str) else
                   tuple(step * dtype.itemsize for step in tensor.stride()))
        return Column(tensor, cls, tensor.data_ptr(), dtype, tuple(tensor.shape), strides, gpu,
                      torch.cuda.current_stream(gpu).cuda_stream)

    @staticmethod
    def make(shape, dtype, gpu, stream, zeros):
        torch = sys.modules["torch"]
        kind = getattr(torch, dtype.name, None)
        if kind is None:
            raise TypeError(f"PyTorch has no dtype {dtype}; give out=, or keys of another library")
        made = (torch.zeros if zeros else torch.empty)(shape, dtype=kind, device=f"cuda:{gpu}")
        return made, made.data_ptr()


class _Cupy:
    @staticmethod
    def read(array, stream):
        cupy = sys.modules["cupy"]
        gpu = array.device.id
        strides = None if array.flags.c_contiguous else array.strides
        return Column(array, _Cupy, array.data.ptr, array.dtype, array.shape, strides, gpu,
                      cupy.cuda.get_current_stream(gpu).ptr)

    @staticmethod
    def make(shape, dtype, gpu, stream, zeros):
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(gpu):
            made = (cupy.zeros if zeros else cupy.empty)(shape, dtype)
        return made, made.data.ptr


def _read_dlpack(array, stream):
    kind, gpu = array.__dlpack_device__()
    of_call = DEFAULT_STREAM if stream is None else stream or DEFAULT_STREAM
    capsule = array.__dlpack__(stream=of_call)
    pointer, code, bits, lanes, shape, strides, _, gpu, read_only = _core._read_dlpack(capsule)
    if code in _KINDS and lanes == 1:
        dtype = np.dtype("?" if code == 6 else f"{_KINDS[code]}{bits // 8}")
        steps = strides and tuple(step * dtype.itemsize for step in strides)
    else:
        dtype, steps = f"of DLPack's kind {code}", None
    return Column(array, _Own, pointer, dtype, shape, steps, gpu, of_call, read_only, capsule, True)


def _read_interface(array, stream):
    shown = array.__cuda_array_interface__
    if shown.get("mask") is not None:
        raise TypeError("__cuda_array_interface__ has a mask, which would be lost; wants an array without one")
    pointer, read_only = shown["data"]
    gpu = _core._gpu_of(pointer) if pointer and _core._gpu_count() else 0
    if gpu < 0:
        raise ValueError("__cuda_array_interface__ names memory that is no GPU's")
    own = shown.get("stream")
    return Column(array, _Own, pointer, np.dtype(shown["typestr"]), tuple(shown["shape"]),
                  shown.get("strides"), gpu, own if own is not None else DEFAULT_STREAM, read_only,
                  shown)


def read(given, stream=None):
    """A Column; None for what does not lie on a GPU."""
    if isinstance(given, DeviceArray):
        return _Own.read(given, stream)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _Torch.read(given, stream) if given.is_cuda else None
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(given, cupy.ndarray):
        return _Cupy.read(given, stream)
    if hasattr(given, "__dlpack_device__"):
        if given.__dlpack_device__()[0] in (CUDA, MANAGED):
            return _read_dlpack(given, stream)
        return None
    if hasattr(given, "__cuda_array_interface__"):
        return _read_interface(given, stream)
    return None


def _has_gaps(column):
    if column.strides is None:
        return False
    step = column.dtype.itemsize
    for size, stride in zip(reversed(column.shape), reversed(column.strides)):
        if size != 1 and stride != step:
            return True
        step *= size
    return False


def overlap(one, other):
    """Whether two columns have bytes in common."""
    ends = [column.pointer + int(np.prod(column.shape)) * column.dtype.itemsize
            for column in (one, other)]
    return one.pointer < ends[1] and other.pointer < ends[0]


def check(column, name, dtype, shape=None, aligned=8, gpu=None, writable=False):
    """Raises what says what was given and what is wanted."""
    if gpu is not None and column.gpu != gpu:
        raise ValueError(f"{name}: the array lies on cuda:{column.gpu}, and the keys on cuda:{gpu}")
    if isinstance(column.dtype, str) or column.dtype != dtype:
        raise TypeError(f"{name}: wants dtype {dtype}, not {column.dtype}")
    if shape is not None and column.shape != shape:
        raise ValueError(f"{name}: wants shape {shape}, not {column.shape}")
    if 0 in column.shape:
        return
    if _has_gaps(column):
        raise ValueError(f"{name}: wants an array in C order without gaps, not strides "
                         f"{tuple(column.strides)} of shape {column.shape}")
    if column.pointer % aligned != 0:
        raise ValueError(f"{name}: the array is not aligned to {aligned} bytes")
    if writable and column.read_only:
        raise ValueError(f"{name}: the array is read-only")
