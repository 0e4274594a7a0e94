"""An embedding layer for PyTorch whose rows lie in a ``Table``.

Any 64-bit id has a row; the layer grows while it is trained, and takes memory for ids that were seen
only. Gradients are accumulated in place, for the rows of a batch alone, as with ``sparse=True`` of
``torch.nn.Embedding``.
"""

import io
import operator

import torch

from . import _files
from .table import Table

_NAMES = {torch.float32: "f32", torch.float64: "f64"}


def _normal(rows, width, dtype):
    return torch.randn(rows, width, dtype=dtype)


class Embedding(torch.nn.Module):
    """Rows of ``embedding_dim`` numbers by 64-bit id.

    Args:
        embedding_dim: numbers of a row.
        initial: called as ``initial(n, embedding_dim, dtype)`` for the rows of ids that are new in
            training; None: a normal distribution, as of ``torch.nn.Embedding``. In evaluation an id
            that was never trained has zeros.
        dtype: ``torch.float32`` or ``torch.float64``.
        expected, memory, device: as of ``Table``. With rows of float32 in 16, 32, … bytes on a GPU,
            ids that lie there are looked up and trained there.

    ``forward(ids)`` takes int64 ids of any shape ``[...]`` and returns ``[..., embedding_dim]``.
    After ``backward`` call ``step(lr)``, which subtracts ``lr`` times the gradients, as
    ``torch.optim.SGD`` does; other parameters have an optimizer of their own. The rows are no parameters:
    ``zero_grad`` of this layer forgets their gradients, and that of a module around it or of an optimizer
    does not. ``state_dict`` has the table, as ``Table.save`` writes it; one of another width or dtype is
    a ``ValueError``, and memory and device stay those of the layer that it is loaded into.

    >>> layer = isotherm.torch.Embedding(64)
    >>> loss = layer(torch.tensor([3, -(2**40)])).square().mean()
    >>> loss.backward()
    >>> layer.step(lr=0.1)
    >>> len(layer)
    2
    """

    def __init__(self, embedding_dim, *, initial=None, dtype=torch.float32, expected=0, memory=None,
                 device="auto"):
        super().__init__()
        if dtype not in _NAMES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, not {dtype}")
        embedding_dim = operator.index(embedding_dim)
        if embedding_dim < 1:
            raise ValueError(f"embedding_dim must be 1 or more, not {embedding_dim}")
        if initial is not None and not callable(initial):
            raise TypeError("initial: wants a function of (n, embedding_dim, dtype), not "
                            f"{type(initial).__name__}")
        self.embedding_dim = embedding_dim
        self.dtype = dtype
        self.initial = initial or _normal
        self.table = Table("i64", f"{_NAMES[dtype]}[{embedding_dim}]", expected=expected,
                           memory=memory, device=device)
        self._pending = []  # (ids, rows) of forward passes whose gradients were not applied

    def forward(self, ids):
        if not isinstance(ids, torch.Tensor) or ids.dtype != torch.int64:
            raise TypeError("ids: wants a tensor of torch.int64, not "
                            f"{ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__}")
        table = self.table
        on_gpu = table._gpus and table._adds_on_gpu() and table.row_bytes % 16 == 0
        place = ids.device if on_gpu and ids.is_cuda else torch.device("cpu")
        unique, places = torch.unique(ids.detach().to(place), return_inverse=True)
        trains = self.training and torch.is_grad_enabled()
        rows = torch.zeros(len(unique), self.embedding_dim, dtype=self.dtype, device=place)
        _, found = table.get(unique, rows)
        if trains:
            missing = ~torch.as_tensor(found)
            if missing.any():
                # Another thread may have been first: then its rows are taken.
                initial = self.initial(int(missing.sum()), self.embedding_dim, self.dtype)
                made, _ = table.get_or_put(unique[missing], initial.detach().to(place).contiguous())
                rows[missing] = torch.as_tensor(made)
            rows.requires_grad_()
            self._pending.append((unique, rows))
        return torch.nn.functional.embedding(places, rows)

    @torch.no_grad()
    def step(self, lr):
        """Subtracts ``lr`` times the gradients of all passes since the last step."""
        for ids, rows in self._pending:
            if rows.grad is not None:
                self.table.add(ids, rows.grad * -lr)
        self._pending.clear()

    def zero_grad(self, set_to_none=True):
        self._pending.clear()
        super().zero_grad(set_to_none)

    def get_extra_state(self):
        return _files.to_bytes(self.table)

    def set_extra_state(self, state):
        if not isinstance(state, bytes):
            raise TypeError("the state of an Embedding: wants bytes, as state_dict() has them, not "
                            f"{type(state).__name__}")
        table = _files.read(io.BytesIO(state), "the state of an Embedding", Table, **self.table._made_of)
        if table._kind() != self.table._kind():
            raise ValueError(f"the state of an Embedding: its rows are {table._kind()['value']} under "
                             f"{table._kind()['key']}, and this layer's {self.table._kind()['value']} "
                             f"under {self.table._kind()['key']}")
        self.table = table
        self._pending.clear()  # of rows that are there no more

    def __len__(self):
        return len(self.table)

    def extra_repr(self):
        return f"{self.embedding_dim}, ids={len(self.table)}, dtype={self.dtype}"
