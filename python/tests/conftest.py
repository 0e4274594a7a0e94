"""Fixtures, and the places that tables are tested in.

A GPU is a fake device of the C++ tests where ISOTHERM_TEST_GPU_PART names its library
(tests/fake_device/fake_gpu_part.cc), and a real one where the package has its GPU part and there is
a driver. Kernels on a fake device run lane by lane, so it gets few keys.
"""

import os

import numpy as np
import pytest

from isotherm import DeviceArray, Table, _devices

KINDS = ["u64", "i64", "f64", "f32", "u8[3]", "f32[128]", "i16[2,3]"]

FAKE_PART = os.environ.get("ISOTHERM_TEST_GPU_PART", "")
IS_FAKE = bool(FAKE_PART)
NO_GPU = _devices.load(FAKE_PART, "") if IS_FAKE else _devices.why_no_gpu()
if IS_FAKE and NO_GPU:
    raise RuntimeError(NO_GPU)
HAS_GPU = not NO_GPU
# "cuda:0 arrays": calls whose arrays lie on the GPU, too.
PLACES = ["cpu"] + (["cuda:0", "cuda:0 arrays"] if HAS_GPU else [])
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason=NO_GPU or "")


@pytest.fixture(autouse=True)
def tables_lie_on_the_cpu(monkeypatch):
    """Unless a test names a GPU."""
    monkeypatch.setattr(_devices, "auto", lambda: [])


@pytest.fixture
def random():
    return np.random.default_rng(1)


def draw_values(random, value, shape):
    """Random values for a table of this kind, small integers that any dtype has."""
    from isotherm._types import parse_value

    dtype, row = parse_value(value)
    return random.integers(0, 100, tuple(shape) + row).astype(dtype)


def check_masks_of_a_full_table(table, known, new, there, values, back=np.asarray):
    """``there(keys)`` and ``values(keys)`` are arguments of calls, ``back(mask)`` NumPy's again.

    Most of the new keys are missing and find no room.
    """
    together = np.concatenate if isinstance(known, np.ndarray) else lambda parts: sum(parts, [])
    keys, last = together([known, new, new]), len(known) + len(new)
    before = back(table.contains(there(new)))
    stored, refused = map(back, table.put_if_absent(there(keys), values(keys), on_full="mask"))
    assert not (stored | refused)[:len(known)].any() and not (stored & refused).any()
    assert np.array_equal(~before, (stored | refused)[len(known):last])
    assert refused[last:].any() and not stored[last:].any()
    assert np.array_equal(back(table.contains(there(new))), stored[len(known):last] | before)
    got, found, refused = table.get_or_put(there(keys), values(keys), on_full="mask")
    found, refused = back(found), back(refused)
    assert found[:len(known)].all() and not (found & refused).any() and refused[last:].any()
    assert np.array_equal(back(table.contains(there(new))), ~refused[len(known):last])
    return got, refused


class OnlyDlpack:
    """An array on a GPU that has the protocol and nothing else, as one of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    """The same with CUDA's array interface."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


class ArraysOnGpu:
    """A table whose calls have arrays on the GPU, of each kind in turn, and give NumPy's back."""

    def __init__(self, table):
        self.table, self.calls = table, 0

    def _there(self, array):
        self.calls += 1
        array = DeviceArray(array)
        return [array, OnlyDlpack(array), OnlyInterface(array)][self.calls % 3]

    def __getattr__(self, verb):
        def call(*arrays, **options):
            result = getattr(self.table, verb)(*map(self._there, arrays), **options)
            if isinstance(result, tuple):
                return tuple(array.numpy() for array in result)
            return result.numpy() if isinstance(result, DeviceArray) else result

        if verb in ("items", "stats"):
            return getattr(self.table, verb)
        return call

    def __len__(self):
        return len(self.table)


def table_at(place, **options):
    table = Table(device=place.removesuffix(" arrays"), **options)
    return ArraysOnGpu(table) if place.endswith(" arrays") else table
