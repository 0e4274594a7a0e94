"""The embedding layer beside torch.nn.Embedding."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=(ImportError,
                                                                                 ValueError, OSError))

from isotherm.torch import Embedding  # noqa: E402

ROWS, WIDTH = 200, 16


def pair():
    """A layer and torch's with the same weights; ids are spread over all 64 bits."""
    torch.manual_seed(1)
    theirs = torch.nn.Embedding(ROWS, WIDTH, sparse=True)
    ids = torch.randint(-2**62, 2**62, (ROWS,))
    mine = Embedding(WIDTH)
    mine.table.put(ids, theirs.weight.detach().clone())
    return mine, theirs, ids


def test_training_equals_that_of_torch():
    mine, theirs, ids = pair()
    heads = [torch.nn.Linear(WIDTH, 1) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    optimizer = torch.optim.SGD([*heads[1].parameters(), *theirs.parameters()], lr=0.05)
    own = torch.optim.SGD(heads[0].parameters(), lr=0.05)
    for step in range(50):
        places = torch.randint(0, ROWS, (8, 5))  # with duplicates
        losses = []
        for layer, head, asked in ((mine, heads[0], ids[places]), (theirs, heads[1], places)):
            loss = (head(layer(asked)).squeeze(-1).mean(1) - step % 3).square().mean()
            loss.backward()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)
        mine.step(lr=0.05)
        own.step()
        own.zero_grad()
        optimizer.step()
        optimizer.zero_grad()
    mine.eval()
    assert torch.allclose(mine(ids), theirs.weight, atol=1e-6)


def test_gradients_of_several_passes_add_up():
    mine, theirs, ids = pair()
    for places in ([1, 2, 2], [2, 3]):
        mine(ids[places]).sum().backward()
        theirs(torch.tensor(places)).sum().backward()
    mine.step(lr=0.5)
    torch.optim.SGD(theirs.parameters(), lr=0.5).step()
    mine.eval()
    assert torch.allclose(mine(ids), theirs.weight, atol=1e-6)
    mine(ids[:1])
    mine.step(lr=0.5)  # evaluation has left nothing to apply
    assert torch.allclose(mine(ids), theirs.weight, atol=1e-6)


def test_it_grows_while_it_trains_and_is_saved():
    layer = Embedding(4, dtype=torch.float64, initial=lambda n, width, kind: torch.ones(n, width, dtype=kind))
    assert layer(torch.tensor([5, -5])).eq(1).all() and len(layer) == 2
    layer.eval()
    assert layer(torch.tensor([[5], [6]])).tolist() == [[[1] * 4], [[0] * 4]] and len(layer) == 2
    other = Embedding(4, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    other.eval()
    assert other(torch.tensor([-5])).eq(1).all() and len(other) == 2
    with pytest.raises(TypeError, match="wants a tensor of torch.int64"):
        layer(torch.tensor([1.0]))
    with pytest.raises(ValueError, match="torch.float32"):
        Embedding(4, dtype=torch.float16)


def test_layers_are_copied_and_pickled():
    layer = Embedding(4, memory="8mb", device="cpu")
    rows = layer(torch.tensor([5, -5])).detach()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)),
                  torch.load(file, weights_only=False)):
        assert other.table is not layer.table and other.table._made_of["memory"] == "8mb"
        assert torch.equal(other(torch.tensor([5, -5])), rows)
        assert other(torch.tensor([6])).shape == (1, 4) and len(layer) == 2


def test_a_state_is_that_of_a_layer_of_the_same_kind():
    layer = Embedding(4)
    layer(torch.tensor([5])).sum().backward()
    state = layer.state_dict()
    before = layer.table[5].tolist()
    for other, its in ((Embedding(8), r"f32\[8\]"), (Embedding(4, dtype=torch.float64), r"f64\[4\]")):
        with pytest.raises(ValueError, match=rf"its rows are f32\[4\] under i64, and this layer's {its}"):
            other.load_state_dict(state)
        assert other(torch.tensor([1])).dtype == other.dtype
    with pytest.raises(TypeError, match="wants bytes, as state_dict"):
        layer.load_state_dict({"_extra_state": torch.zeros(3)})
    # What was computed of the rows before is not applied to the loaded ones.
    layer.load_state_dict(state)
    layer.step(lr=1)
    assert layer.table[5].tolist() == before
    capped = Embedding(4, memory="8mb", device="cpu")
    capped.load_state_dict(state)
    with pytest.raises(MemoryError, match="found no room"):
        capped(torch.arange(10**6))


def test_arguments_are_checked():
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"embedding_dim must be 1 or more, not {wrong}"):
            Embedding(wrong)
    with pytest.raises(TypeError):
        Embedding("4")
    with pytest.raises(TypeError, match="initial: wants a function .* not float"):
        Embedding(4, initial=0.0)
    for ids, its in (([1], "list"), (torch.tensor([1]).numpy(), "ndarray"), (torch.tensor([1.0]), "torch.float32")):
        with pytest.raises(TypeError, match=f"ids: wants a tensor of torch.int64, not {its}"):
            Embedding(4)(ids)
    layer = Embedding(2, initial=lambda n, width, kind: torch.ones(width, n, dtype=kind).t())
    assert layer(torch.tensor([1, 2, 3])).eq(1).all()
