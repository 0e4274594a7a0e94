"""Where a table lies: what ``device=`` means, and the library of the GPU part.

The package's GPU part is a library beside the extension, which is loaded with the first question for
a GPU, and only where there is a driver; so the same package works on machines without either.
"""

import os
import re
import threading

from . import _core

_DRIVER = "libcuda.so.1"
_lock = threading.Lock()
_reason = None  # why there is no GPU; "" where there is one; None: nobody has asked


def load(path, driver=_DRIVER):
    """Loads a GPU part; an empty string, or why there is none."""
    global _reason
    with _lock:
        _reason = _core._load_gpu_part(path, driver)
        if not _reason and _core._gpu_count() == 0:
            _reason = "there is a driver, but no GPU that this process can use"
        return _reason


def why_no_gpu():
    """An empty string where there is a GPU."""
    path = os.path.join(os.path.dirname(_core.__file__), "_gpu.so")
    if _reason is not None:
        return _reason
    if not os.path.exists(path):
        return "this package was built without a GPU part"
    return load(path)


def gpu_count():
    """GPUs that tables can lie on; 0 where there is none, no driver, or no GPU part."""
    return 0 if why_no_gpu() else _core._gpu_count()


def parse(device, on_gpu):
    """The numbers of the GPUs; [] for the CPU. ``on_gpu``: whether "auto" may be one."""
    if device == "cpu":
        return []
    if device == "auto":
        return auto() if on_gpu else []
    names = device if isinstance(device, (list, tuple)) else [device]
    gpus = []
    for name in names:
        match = re.fullmatch(r"cuda(?::(\d+))?", name) if isinstance(name, str) else None
        if not match:
            raise ValueError("device must be 'auto', 'cpu', 'cuda:0', or a list of such GPUs, "
                             f"not {device!r}")
        gpus.append(int(match[1] or 0))
    if not gpus or len(set(gpus)) != len(gpus):
        raise ValueError(f"device={device!r}: wants one GPU or more, each once")
    reason = why_no_gpu()
    if reason:
        raise RuntimeError(f"device={device!r}: {reason}; use device='cpu'")
    count = _core._gpu_count()
    for gpu in gpus:
        if gpu >= count:
            raise RuntimeError(f"device={device!r}: there are {count} GPUs")
    return gpus


def auto():
    return [0] if gpu_count() else []


def name_of(gpus):
    """As ``device=`` takes it."""
    names = [f"cuda:{gpu}" for gpu in gpus]
    return names[0] if len(names) == 1 else names or "cpu"
