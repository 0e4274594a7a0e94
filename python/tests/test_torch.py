"""The embedding layer beside torch.nn.Embedding."""

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
    with pytest.raises(TypeError, match="wants torch.int64"):
        layer(torch.tensor([1.0]))
    with pytest.raises(ValueError, match="torch.float32"):
        Embedding(4, dtype=torch.float16)
