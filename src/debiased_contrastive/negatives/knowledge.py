"""What is known about the classes of stored samples, kept beside their embeddings."""

import torch
from torch import Tensor, nn


class StoredKnowledge(nn.Module):
    """Membership and partitions of as many samples as a store holds, unknown at the start; both in `state_dict`.

    Args:
        size: Number of samples.
        classes: k, the width of the membership; 0 stores none.
        partitions: B, the number of partitions; 0 stores none.
    """

    membership: Tensor
    """(size, k) probabilities of classes; a row of zeros is unknown."""
    partitions: Tensor
    """(size, B) whole numbers, -1 = unknown."""

    def __init__(self, size: int, classes: int, partitions: int) -> None:
        super().__init__()
        if classes < 0 or partitions < 0:
            raise ValueError(f"classes and partitions must be at least 0; got {classes} and {partitions}: 0 is off")
        self.register_buffer("membership", torch.zeros(size, classes))
        self.register_buffer("partitions", torch.full((size, partitions), -1))

    @torch.no_grad()
    def put(self, places: Tensor, membership: Tensor | None, partitions: Tensor | None) -> None:
        """Store what is known of the samples at these places; what is not given becomes unknown."""
        self.membership[places] = 0.0 if membership is None else membership.to(self.membership)
        self.partitions[places] = -1 if partitions is None else partitions.to(self.partitions)


def check_stored_knowledge(
    known: StoredKnowledge | None, count: int, membership: Tensor | None, partitions: Tensor | None
) -> None:
    """Raise unless what is given of so many samples has the width that a store was made for."""
    widths = (0, 0) if known is None else (known.membership.shape[1], known.partitions.shape[1])
    if membership is not None and (membership.shape != (count, widths[0]) or not membership.is_floating_point()):
        raise ValueError(_describe("membership", membership, count, "classes", widths[0]))
    if partitions is not None and (partitions.shape != (count, widths[1]) or partitions.is_floating_point()):
        raise ValueError(_describe("partitions", partitions, count, "partitions", widths[1]))


def _describe(name: str, given: Tensor, count: int, setting: str, width: int) -> str:
    kind = "probabilities" if name == "membership" else "whole numbers"
    return (
        f"{name} must be {kind} of shape ({count}, {width}), since the store was made with {setting}={width}; got "
        f"{given.dtype} {tuple(given.shape)}: make it with the width of what it is to hold"
    )
