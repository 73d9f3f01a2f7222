"""An embedding of every sample of the data, from which unlabeled samples are drawn (Section 5, ImageNet-100)."""

from threading import Lock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.negatives.knowledge import StoredKnowledge, check_stored_knowledge

_LOCK = Lock()
"""Lets one thread at a time mix in; one lock for all banks, since a module that holds one cannot be copied."""


class MemoryBank(nn.Module):
    """A unit vector for each of n samples, which follows what the encoder makes of it.

    >>> bank = MemoryBank(4, 2, generator=torch.Generator().manual_seed(0))
    >>> bank.store(torch.tensor([1]), torch.tensor([[0.0, 1.0]]))
    >>> bank.embeddings.shape, torch.allclose(bank.embeddings.norm(dim=1), torch.ones(4))
    (torch.Size([4, 2]), True)

    At the start the vectors have random directions. New ones that `store` takes are mixed in when `embeddings` is
    next read: until then the backward of `bank_logits` reads the rows that the loss saw. All is in `state_dict`.
    Under several processes each holds the whole bank: gather the rows first, store the same ones in all processes,
    and read `embeddings` in all of them.

    Args:
        size: n, the number of samples.
        dim: d, the width of the embeddings.
        momentum: Weight of the old vector when a new one is mixed in.
        classes: Width of the membership that is stored beside each vector; 0 is none.
        partitions: Number of partitions that are stored beside each vector; 0 is none.
        generator: Draws the directions at the start.
    """

    storage: Tensor

    def __init__(
        self,
        size: int,
        dim: int,
        *,
        momentum: float = 0.5,
        classes: int = 0,
        partitions: int = 0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if size < 2 or dim < 1:
            raise ValueError(
                f"a bank needs at least 2 samples and 1 dimension; got size={size}, dim={dim}: the number of "
                "training samples, and the width of the embeddings"
            )
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1); got {momentum}: 0.5 is usual")
        self.momentum = momentum
        self.register_buffer("storage", F.normalize(torch.randn(size, dim, generator=generator), dim=1))
        self.known = StoredKnowledge(size, classes, partitions) if classes or partitions else None
        self._waiting: tuple[Tensor, Tensor] | None = None

    @property
    def embeddings(self) -> Tensor:
        """The vectors (n, d), with what was stored; not a copy, so the next read may change them."""
        with _LOCK:
            self._mix_in()
        return self.storage

    @property
    def membership(self) -> Tensor | None:
        """The membership of the samples (n, classes), 0 where none was stored; None where the bank has none."""
        return None if self.known is None else self.known.membership

    @property
    def partitions(self) -> Tensor | None:
        """The partitions of the samples (n, B), -1 where none were stored; None where the bank has none."""
        return None if self.known is None else self.known.partitions

    @torch.no_grad()
    def store(
        self, ids: Tensor, z: Tensor, *, membership: Tensor | None = None, partitions: Tensor | None = None
    ) -> None:
        """Let the vectors of some samples follow their new embeddings.

        Args:
            ids: Which samples (b,), all different.
            z: Their embeddings (b, d), of any length.
            membership: Their probabilities of classes (b, classes), in place of those that were stored.
            partitions: Their clusterings or groups (b, partitions), likewise.
        """
        n, dim = self.storage.shape
        if z.shape != (len(ids), dim) or ids.dim() != 1 or ids.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"a bank stores ids (b,) and z (b, {dim}); got {ids.dtype} {tuple(ids.shape)} and {tuple(z.shape)}"
            )
        if (different := len(ids.unique())) < len(ids) or not bool(((ids >= 0) & (ids < n)).all()):
            raise ValueError(
                f"ids must lie in 0..{n - 1}, all different; got {int(ids.min())}..{int(ids.max())}, "
                f"{different} different ones of {len(ids)}: a row is stored once"
            )
        if not bool(z.isfinite().all()):
            raise ValueError("z must be finite; got NaN or inf: the encoder diverged")
        check_stored_knowledge(self.known, len(ids), membership, partitions)
        if self.known is not None and (membership is not None or partitions is not None):
            self.known.put(ids, membership, partitions)
        # Copies, since the caller may change the originals.
        waiting = ids.to(self.storage.device, copy=True), z.detach().to(self.storage, copy=True)
        with _LOCK:
            self._mix_in()
            self._waiting = waiting

    @torch.no_grad()
    def _mix_in(self) -> None:
        if self._waiting is not None:
            # A checkpoint is read on the CPU, wherever the bank is.
            ids, z = self._waiting[0].to(self.storage.device), self._waiting[1].to(self.storage)
            self._waiting = None
            mixed = self.momentum * self.storage[ids] + (1 - self.momentum) * F.normalize(z, dim=1)
            self.storage[ids] = F.normalize(mixed, dim=1)

    def get_extra_state(self) -> Tensor:
        """What waits to be mixed in, ids before their rows: one process writes a checkpoint for all.

        Float64 holds ids and rows exactly, and one tensor goes into every checkpoint format.
        """
        if self._waiting is None:
            return torch.empty(0, 1 + self.storage.shape[1], dtype=torch.float64)
        ids, z = self._waiting
        return torch.cat([ids.unsqueeze(1).double(), z.double()], 1)

    def set_extra_state(self, state: Tensor | dict[str, Tensor]) -> None:
        """Continue where the saved bank stood, also from a dict, which earlier versions wrote."""
        if isinstance(state, dict):
            self._waiting = (state["ids"], state["z"]) if state else None
        else:
            self._waiting = (state[:, 0].long(), state[:, 1:].to(self.storage)) if len(state) else None


def draw_places(b: int, size: int, count: int, generator: torch.Generator) -> Tensor:
    """(b, count) places in a bank of that size, drawn uniformly and with replacement."""
    if count < 1:
        raise ValueError(f"an anchor needs at least 1 unlabeled sample; got {count}: 4096 is usual")
    return torch.randint(size, (b, count), generator=generator)
