"""The probability that two samples share a class, in the forms that the losses take."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from scipy import sparse
from torch import Tensor


@dataclass(frozen=True)
class Knowledge:
    """What is known about the classes of n samples, from any source: q_ij, the probability that i and j share one.

    Exactly one of the three forms is there. Every source in this folder returns one, and `arguments` gives its part
    for a batch to a loss:

        loss(z0, z1, **known.arguments(ids))

    Relations: a sample of which nothing is known has q = 0 with every other, which is the biased loss.
    """

    membership: Tensor | None = None
    """(n, k) probability that a sample is of class c; rows >= 0 with sum <= 1. q_ij = P_i . P_j."""
    partitions: Tensor | None = None
    """(n, B) whole numbers, -1 for unknown: clusterings, groups, ids. q_ij is the share of equal ones."""
    graph: sparse.csr_array | None = None
    """(n, n) q_ij itself, float32 in [0, 1]; what is not stored is 0."""
    quality: Mapping[str, float] = field(default_factory=dict)
    """Figures that say what it is worth, by name; those that need labels are there only where labels were given."""
    warnings: tuple[str, ...] = ()
    """What speaks against it, in words."""
    strength: float | None = None
    """Factor of q in the loss; None leaves it to the loss. `strength.choose_strength` finds it."""
    reason: str = ""
    """Why this strength, in words."""

    def __post_init__(self) -> None:
        forms = [name for name in ("membership", "partitions", "graph") if getattr(self, name) is not None]
        if len(forms) != 1:
            raise ValueError(
                "knowledge must have exactly one of membership, partitions and graph; got "
                f"{', '.join(forms) or 'none of them'}"
            )
        if self.strength is not None and not 0 <= self.strength < math.inf:
            raise ValueError(f"strength must be at least 0 and finite; got {self.strength}: 1 is usual")

    def __len__(self) -> int:
        """Number of samples n."""
        form = next(form for form in (self.membership, self.partitions, self.graph) if form is not None)
        return int(form.shape[0])

    def same_class(self, rows: Tensor, columns: Tensor) -> Tensor:
        """(a, m) float32 q of samples `rows` (a,) and `columns` (m,); of one with itself it means nothing."""
        if self.membership is not None:
            return self.membership[rows].float() @ self.membership[columns].float().T
        if self.partitions is not None:
            return _share_of_equal_codes(self.partitions[rows], self.partitions[columns])
        assert self.graph is not None
        block = self.graph[rows.numpy()][:, columns.numpy()]
        return torch.from_numpy(block.toarray()).float()

    def of(self, rows: Tensor) -> "Knowledge":
        """What is known of the samples `rows` (a,) alone."""
        if self.graph is not None:
            return replace(self, graph=self.graph[rows.numpy()][:, rows.numpy()])
        if self.membership is not None:
            return replace(self, membership=self.membership[rows])
        assert self.partitions is not None
        return replace(self, partitions=self.partitions[rows])

    @property
    def trust(self) -> dict[str, float]:
        """The strength as an argument of a loss; nothing where none was chosen, and that of the loss holds."""
        return {} if self.strength is None else {"strength": self.strength}

    def arguments(self, rows: Tensor, columns: Tensor | None = None) -> dict[str, Any]:
        """What a loss is told of a batch, by name: membership, partitions or weights, and a chosen strength.

        Args:
            rows: Which samples the anchors are (b,).
            columns: Which samples they are compared with (n,), for weights alone; None is the batch itself.
        """
        if self.membership is not None:
            return {"membership": self.membership[rows], **self.trust}
        if self.partitions is not None:
            return {"partitions": self.partitions[rows], **self.trust}
        return {"weights": 1 - self.same_class(rows, rows if columns is None else columns), **self.trust}


def _share_of_equal_codes(rows: Tensor, columns: Tensor) -> Tensor:
    equal = torch.zeros(len(rows), len(columns))
    for of_row, of_column in zip(rows.T, columns.T, strict=True):
        equal += (of_row.unsqueeze(1) == of_column) & (of_row >= 0).unsqueeze(1)
    return equal / rows.shape[1]
