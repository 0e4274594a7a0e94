"""Arrays of PyTorch and CuPy on a real GPU."""

import os

import numpy as np
import pytest
from conftest import HAS_GPU, IS_FAKE, NO_GPU

from isotherm import DeviceArray, Table

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the memory

pytestmark = pytest.mark.skipif(IS_FAKE or not HAS_GPU, reason=NO_GPU or "a fake device")


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_arrays_of_libraries(name):
    library = pytest.importorskip(name)
    if name == "torch":
        def make(array):
            return library.from_numpy(array).cuda()

        def host(array):
            return array.cpu().numpy()
        stream = library.cuda.Stream()
        scope = library.cuda.stream(stream)
    else:
        make, host = library.asarray, library.asnumpy
        scope = stream = library.cuda.Stream(non_blocking=True)
    table = Table("i64", "f32[64]", device="cuda:0")
    numbers = np.arange(200_000, dtype="i8")
    rows = np.repeat(numbers[:, None].astype("f4"), 64, axis=1)
    with scope:
        keys, values = make(numbers), make(rows)
        for turn in range(3):
            table.put(keys, values + turn)  # which the library still computes
            got, found = table.get(keys)
            assert type(got) is type(values) and bool(found.all())
            assert bool((got == values + turn).all())
        table.add(keys, values)
        out = values * 0 - 1
        assert table.get(keys + 100_000, out=out)[0] is out
        assert host(out)[:100_000].sum() > 0 and (host(out)[100_000:] == -1).all()
        with pytest.raises(ValueError, match="C order"):
            table.get(keys[::2])
        with pytest.raises(TypeError, match="wants dtype int64"):
            table.get(values)
    shown = DeviceArray(rows)
    taken = library.from_dlpack(shown)
    del shown
    assert np.array_equal(host(taken), rows)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_byte_strings_of_libraries(name):
    """Offsets and bytes that the library still computes, in a stream of its own."""
    library = pytest.importorskip(name)
    count = 50_000
    if name == "torch":
        scope = library.cuda.stream(library.cuda.Stream())
        new, options = library.arange, {"device": "cuda"}
        joined, narrow = library.uint8, library.int32
    else:
        scope = library.cuda.Stream(non_blocking=True)
        new, options = library.arange, {}
        joined, narrow = library.uint8, library.int32
    table = Table("bytes", "bytes", device="cuda:0")
    rows = Table("bytes", "f32[8]", device="cuda:0")
    with scope:
        numbers = new(count, **options)
        digits = (numbers[:, None] // 10 ** new(5, **options) % 10 + 48)
        if name == "torch":
            names = digits.to(joined).contiguous()
            offsets = (new(count + 1, **options) * 5).to(narrow)
            floats = numbers[:, None].repeat(1, 8).to(library.float32)
        else:
            names = library.ascontiguousarray(digits.astype(joined))
            offsets = (new(count + 1) * 5).astype(narrow)
            floats = library.repeat(numbers[:, None], 8, axis=1).astype("f4")
        pair = (offsets, names.reshape(-1))
        table.put(pair, names)
        values, found = table.get(pair)
        assert type(values.data) is type(names) is type(values.offsets) and bool(found.all())
        assert bool((values.data[:count * 5] == names.reshape(-1)).all())
        assert table.get(["00000", "99994", "9"])[0] == [b"00000", b"99994", None]
        rows.put(names, floats)
        got, found = rows.get(names)
        assert type(got) is type(floats) and bool((got == floats).all()) and bool(found.all())
    assert values.to_pylist()[12:14] == [b"21000", b"31000"]
    again = Table("bytes", "bytes", device="cuda:0")
    again.put(values, values)  # as Arrow has them
    assert len(again) == count


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    if "cuda" not in str(jax.devices()[0]).lower():
        pytest.skip("this JAX has no GPU")
    jax.config.update("jax_enable_x64", True)
    table = Table("i64", "f32[8]", device="cuda:0")
    keys = jax.numpy.arange(1000, dtype="int64") * 3
    rows = jax.numpy.ones((1000, 8), "float32") * keys[:, None]
    table.put(keys, rows)
    values, found = table.get(keys)
    assert isinstance(values, DeviceArray) and bool(jax.dlpack.from_dlpack(found).all())
    assert bool((jax.dlpack.from_dlpack(values) == rows).all())


def test_the_embedding_layer_stays_on_the_gpu():
    torch = pytest.importorskip("torch")
    from isotherm.torch import Embedding

    layer = Embedding(16, device="cuda:0")
    ids = torch.randint(-2**62, 2**62, (100,), device="cuda")
    first = layer(ids)
    assert first.is_cuda and len(layer) == 100
    first.sum().backward()
    layer.step(lr=0.5)
    layer.eval()
    assert torch.allclose(layer(ids), first.detach() - 0.5, atol=1e-6)
