"""A first-in-first-out store of keys, as in momentum contrast."""

from threading import Lock

import torch
from torch import Tensor, nn

from debiased_contrastive.negatives.knowledge import StoredKnowledge, check_stored_knowledge

_LOCK = Lock()
"""Keeps threads off the same places; one lock for all queues, since a module that holds one cannot be copied."""


class NegativeQueue(nn.Module):
    """The last `size` keys, with sample ids and labels; empty at the start, exact after a resume.

    >>> queue = NegativeQueue(size=4, dim=2)
    >>> queue.enqueue(torch.eye(2), ids=torch.tensor([7, 8]))
    >>> queue.embeddings, queue.ids
    (tensor([[1., 0.],
            [0., 1.]]), tensor([7, 8]))

    Everything is in `state_dict`: storage, ids, labels, pointer and count. Give `embeddings` to
    `DebiasedInfoNCELoss` as `negatives`, and `ids` as `negative_ids` so that an anchor does not meet
    its own stale copy; `labels`, for the unbiased oracle, as `negative_labels`; `membership` or
    `partitions` as `negative_membership` or `negative_partitions`. Under several processes enqueue the same
    keys everywhere, gathered first.

    Args:
        size: The number of keys that it can hold.
        dim: d, their width.
        classes: Width of the membership that is stored beside each key; 0 is none.
        partitions: Number of partitions that are stored beside each key; 0 is none.
        dtype: The floating-point type in which they are stored.
    """

    storage: Tensor
    stored_ids: Tensor
    stored_labels: Tensor

    def __init__(
        self, size: int, dim: int, *, classes: int = 0, partitions: int = 0, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        if size < 1 or dim < 1:
            raise ValueError(
                f"size and dim must be at least 1; got size={size}, dim={dim}: 4096 keys of the projector's width"
            )
        if not dtype.is_floating_point:
            raise ValueError(f"dtype must be floating-point; got {dtype}")
        self.register_buffer("storage", torch.zeros(size, dim, dtype=dtype))
        self.register_buffer("stored_ids", torch.full((size,), -1))
        self.register_buffer("stored_labels", torch.full((size,), -1))
        self.known = StoredKnowledge(size, classes, partitions) if classes or partitions else None
        # Plain integers, so that slicing never waits for a device.
        self._pointer = 0
        self._count = 0

    def __len__(self) -> int:
        """Number of keys stored so far, at most `size`."""
        return self._count

    @property
    def size(self) -> int:
        """Number of keys that it can hold."""
        return self.storage.shape[0]

    @property
    def embeddings(self) -> Tensor:
        """The stored keys (k, d): a view, so clone it to keep it past `enqueue`."""
        return self.storage[: self._count]

    @property
    def ids(self) -> Tensor:
        """Their sample ids (k,), -1 where none was given."""
        return self.stored_ids[: self._count]

    @property
    def labels(self) -> Tensor:
        """Their labels (k,), -1 where none was given."""
        return self.stored_labels[: self._count]

    @property
    def membership(self) -> Tensor | None:
        """Their membership (k, classes), 0 where none was given; None where the queue stores none."""
        return None if self.known is None else self.known.membership[: self._count]

    @property
    def partitions(self) -> Tensor | None:
        """Their partitions (k, B), -1 where none were given; None where the queue stores none."""
        return None if self.known is None else self.known.partitions[: self._count]

    @property
    def valid(self) -> Tensor:
        """Which places hold a key (size,)."""
        return torch.arange(self.size, device=self.storage.device) < self._count

    @torch.no_grad()
    def enqueue(
        self,
        keys: Tensor,
        ids: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        membership: Tensor | None = None,
        partitions: Tensor | None = None,
    ) -> None:
        """Store keys in place of the oldest, after the backward of the loss that used `embeddings`.

        Args:
            keys: Any number of them (b, d); of more than `size` the last are kept.
            ids: Which samples they are (b,), for `negative_ids`.
            labels: Their classes (b,), for `negative_labels`.
            membership: Their probabilities of classes (b, classes), for `negative_membership`.
            partitions: Their clusterings or groups (b, partitions), for `negative_partitions`.
        """
        self._check(keys, ids=ids, labels=labels)
        check_stored_knowledge(self.known, len(keys), membership, partitions)
        keys = keys.to(self.storage)
        bad = ~keys.isfinite().all(1)
        if bool(bad.any()):
            raise ValueError(
                f"keys must be finite in {keys.dtype}; got NaN or inf in {int(bad.sum())} of {len(keys)} rows: "
                "the encoder diverged, or the queue needs a wider dtype"
            )
        keys = keys[-self.size :]
        with _LOCK:
            places = torch.arange(self._pointer, self._pointer + len(keys), device=self.storage.device) % self.size
            self.storage[places] = keys
            for stored, codes in ((self.stored_ids, ids), (self.stored_labels, labels)):
                stored[places] = -1 if codes is None else codes[-self.size :].to(stored)
            if self.known is not None:
                last = (None if given is None else given[-self.size :] for given in (membership, partitions))
                self.known.put(places, *last)
            self._pointer = (self._pointer + len(keys)) % self.size
            self._count = min(self.size, self._count + len(keys))

    def get_extra_state(self) -> Tensor:
        """Pointer and count; a tensor, so that every checkpoint format can hold it."""
        return torch.tensor([self._pointer, self._count])

    def set_extra_state(self, state: Tensor) -> None:
        """Continue where the saved queue stood."""
        pointer, count = (int(value) for value in state)
        if not (0 <= pointer < self.size and pointer <= count <= self.size):
            raise ValueError(
                f"the saved queue stands at place {pointer} with {count} keys, which does not fit a queue of "
                f"{self.size}: make it with the size it was saved with"
            )
        self._pointer, self._count = pointer, count

    def _check(self, keys: Tensor, **codes: Tensor | None) -> None:
        dim = self.storage.shape[1]
        if keys.dim() != 2 or keys.shape[1] != dim or not keys.is_floating_point():
            raise ValueError(
                f"keys must be floating-point with shape (b, {dim}), as the queue was made for; got "
                f"{keys.dtype} {tuple(keys.shape)}"
            )
        for name, values in codes.items():
            if values is not None and (values.shape != keys.shape[:1] or values.is_floating_point()):
                raise ValueError(
                    f"{name} must be integers, one for each of the {keys.shape[0]} keys; got {values.dtype} "
                    f"{tuple(values.shape)}: pass those of the samples whose keys they are"
                )
