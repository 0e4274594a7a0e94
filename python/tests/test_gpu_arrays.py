"""Which arrays on a GPU are none that a table can take, and walks over a table there."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
from conftest import FAKE_PART, needs_gpu
from test_gpu import Interface

from isotherm import DeviceArray, Table

pytestmark = needs_gpu


def test_arrays_with_a_mask_are_refused():
    table, keys = Table(device="cuda:0"), DeviceArray(np.array([1, 2], "u8"))
    table.put(Interface(keys, mask=None), keys)
    with pytest.raises(TypeError, match="has a mask, which would be lost"):
        table.get(Interface(keys, mask=keys))
    with pytest.raises(TypeError, match="has a mask, which would be lost"):
        table.put(keys, Interface(keys, mask=keys))


def test_device_arrays_have_the_byte_order_of_the_machine():
    with pytest.raises(TypeError, match="dtype >u4 another; convert it"):
        DeviceArray(np.array([1], ">u4"))


def test_tensors_whose_numbers_are_not_computed(monkeypatch):
    """PyTorch conjugates complex numbers when they are read; their memory has those before."""
    array = DeviceArray(np.array([1 + 2j], "c8"))

    class Tensor:
        is_cuda, dtype, shape, lazy = True, "torch.complex64", (1,), False
        device = types.SimpleNamespace(index=0)
        is_contiguous, is_neg = (lambda self: True), (lambda self: False)

        def is_conj(self):
            return self.lazy

        def data_ptr(self):
            return array._memory.pointer

    stream = types.SimpleNamespace(cuda_stream=array._memory.stream)
    cuda = types.SimpleNamespace(current_stream=lambda gpu: stream)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor, cuda=cuda))
    table, tensor = Table(value="c8", device="cuda:0"), Tensor()
    table.put(DeviceArray(np.array([7], "u8")), tensor)
    assert table[7] == 1 + 2j
    tensor.lazy = True
    with pytest.raises(ValueError, match="use resolve_conj"):
        table.put(DeviceArray(np.array([7], "u8")), tensor)


@pytest.mark.parametrize("kind", [{}, {"value": "f32[4]"}, {"key": "bytes", "value": "bytes", "memory": "512mb"}])
def test_a_chunk_may_be_larger_than_the_table(kind):
    table = Table(device="cuda:0", **kind)
    keys = np.arange(300, dtype="u8")
    if "key" in kind:
        table.put([str(key) for key in keys], ["v"] * 300)
    else:
        table.put(keys, 1)
    for chunk in (2**34, 2**60, sys.maxsize):
        assert sum(len(part) for part in table.keys(chunk)) == 300


HELD_TO_THE_END = """
import ctypes, sys
import numpy as np
from isotherm import DeviceArray, DeviceStrings, _devices

if sys.argv[1]:
    assert not _devices.load(sys.argv[1], "")
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
at_exit = ctypes.CDLL(None).__cxa_atexit
at_exit.argtypes = [ctypes.c_void_p] * 3

def hold(capsule, name, release):  # as a library does that took it over: behind the interpreter's end
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))
    at = pointer(capsule, name)
    at_exit(ctypes.c_void_p.from_address(at + release).value, at, None)

hold(DeviceArray(np.arange(3)).__dlpack__(), b"dltensor", 56)
hold(DeviceStrings(["a"]).__arrow_c_device_array__()[1], b"arrow_device_array", 64)
print("held")
"""


def test_what_others_hold_may_outlive_the_interpreter():
    ended = subprocess.run([sys.executable, "-c", HELD_TO_THE_END, FAKE_PART], env=os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "held\n"), ended.stderr
