"""One call of each module for each kind of argument, for tests of what a call does beside its value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import debiased_contrastive as dc
from tests.losses.cases import embeddings, knowledge


@dataclass(frozen=True)
class Call:
    """A loss, the embeddings to differentiate by, and the rest of its call."""

    loss: nn.Module
    inputs: tuple[Tensor, ...]
    rest: dict[str, Any]

    def value(self, *inputs: Tensor, loss: Callable[..., Tensor] | None = None) -> Tensor:
        """The value of other inputs of the same kind, or by the same loss compiled."""
        given: tuple[Any, ...] = inputs or self.inputs
        if isinstance(self.loss, dc.DebiasedBankLoss):
            given = (given,)
        return (self.loss if loss is None else loss)(*given, **self.rest)

    def on(self, device: str) -> "Call":
        """The same loss, with everything else on a device."""
        moved = {name: _move(value, device) for name, value in self.rest.items()}
        inputs = tuple(z.detach().to(device).requires_grad_() for z in self.inputs)
        return Call(self.loss.to(device), inputs, moved)


def _move(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_move(each, device) for each in value]
    return value.detach().to(device) if isinstance(value, Tensor) else value


def calls(b: int = 8, d: int = 5, dtype: torch.dtype = torch.float64, **settings: Any) -> dict[str, Call]:
    """By name; `settings` are those of every loss that has them."""
    pair, taus = tuple(embeddings(b, d, seed=seed, dtype=dtype) for seed in (1, 2)), torch.linspace(0, 0.3, b)
    queue, hard = embeddings(9, d, seed=3, dtype=dtype), embeddings(b, 2, d, seed=4, dtype=dtype)
    labels, ids, (p, codes, w) = torch.arange(b) % 3, torch.arange(b), knowledge(b, seed=3)
    exclude = torch.zeros(b, 3 * b, dtype=torch.bool)
    exclude[0, 1] = exclude[1, b + 1] = True
    bank = nn.functional.normalize(embeddings(16, d, seed=5, dtype=dtype).detach())
    places = (ids.unsqueeze(1) + 1 + torch.arange(6)) % 16

    def learnt() -> nn.Parameter:
        return nn.Parameter(torch.tensor(0.5, dtype=dtype))

    def nt_xent(*loss: Any, views: int = 2, **rest: Any) -> Call:
        more = tuple(embeddings(b, d, seed=10 + view, dtype=dtype) for view in range(views - 2))
        return Call(dc.DebiasedNTXentLoss(*loss, **settings), (*pair, *more), rest)

    def info_nce(*loss: Any, symmetric: bool = False, **rest: Any) -> Call:
        return Call(dc.DebiasedInfoNCELoss(*loss, symmetric=symmetric, **settings), pair, rest)

    def of_bank(*loss: Any, **rest: Any) -> Call:
        own = {name: value for name, value in settings.items() if name != "kernel"}
        rest = {"banks": [bank, bank.flip(0)], "ids": ids, "places": places} | rest
        return Call(dc.DebiasedBankLoss(*loss, exclude_own=True, **own), pair, rest)

    return {
        "nt_xent": nt_xent(0.5, 0.1),
        "nt_xent, learnt temperature": nt_xent(learnt(), 0.1),
        "nt_xent, tau_plus per input": nt_xent(0.5, tau_plus=taus),
        "nt_xent, four views": nt_xent(0.5, 0.1, views=4),
        "nt_xent, labels": nt_xent(0.5, labels=labels),
        "nt_xent, positive labels": nt_xent(0.5, positive_labels=labels - 1),
        "nt_xent, membership": nt_xent(0.5, membership=p, attraction=0.5, attraction_above=0.3),
        "nt_xent, partitions": nt_xent(0.5, partitions=codes, strength=taus),
        "nt_xent, weights": nt_xent(0.5, weights=w),
        "info_nce, symmetric": info_nce(learnt(), 0.1, symmetric=True),
        "info_nce, queue, labels and ids": info_nce(
            0.5, 0.1, negatives=queue, labels=labels, negative_labels=torch.arange(9) % 4, ids=ids,
            negative_ids=torch.arange(9) - 2,
        ),
        "info_nce, hard negatives, exclude, log_q": info_nce(
            0.5, 0.1, hard_negatives=hard, exclude=exclude, log_q=torch.linspace(-3, -1, 3 * b), ids=ids,
        ),
        "bank": of_bank(learnt(), 0.1),
        "bank, membership": of_bank(0.5, membership=knowledge(16, seed=4)[0], attraction=0.5, attraction_above=0.2),
        "bank, partitions": of_bank(0.5, partitions=knowledge(16, seed=4)[1]),
    }  # fmt: skip
