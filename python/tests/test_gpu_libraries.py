"""Arrays of PyTorch and CuPy on a real GPU."""

import numpy as np
import pytest
from conftest import HAS_GPU, IS_FAKE, NO_GPU

from isotherm import DeviceArray, Table

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
