"""Batches and the calls that use every option of the loss modules, for tests that go through all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import debiased_contrastive as dc


@dataclass(frozen=True)
class Case:
    """A loss, the tensors to differentiate by, and the rest of the call."""

    name: str
    make: Callable[..., torch.nn.Module]
    settings: dict[str, Any]
    inputs: tuple[Tensor, ...]
    call: Callable[..., Tensor]

    def loss(self, *inputs: Tensor, **changes: Any) -> Tensor:
        return self.call(self.make(**{**self.settings, **changes}), *inputs)


def embeddings(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def views(b: int, d: int, count: int, *, noise: float = 0.5, seed: int = 0) -> tuple[Tensor, ...]:
    """Views that resemble each other, so that positives stand out."""
    centre = embeddings(b, d, seed=seed).detach()
    return tuple(
        (centre + noise * embeddings(b, d, seed=seed + 1 + k).detach()).requires_grad_() for k in range(count)
    )


def knowledge(n: int, m: int | None = None, *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Membership (n, 3), partitions (n, 4) with some unknown, and weights (n, m) that are not symmetric."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(n, 3, generator=generator, dtype=torch.float64) ** 4
    p = p / p.sum(1, keepdim=True) * torch.rand(n, 1, generator=generator, dtype=torch.float64).clamp(min=0.5)
    p[1] = 0.0
    p[2] = torch.tensor([1.0, 0.0, 0.0])
    codes = torch.randint(-1, 3, (n, 4), generator=generator)
    w = torch.rand(n, n if m is None else m, generator=generator, dtype=torch.float64)
    return p, codes, torch.where(w < 0.2, 0.0, w)


def _infonce_call(**rest: Any) -> Callable[..., Tensor]:
    """Positional inputs are query, key, then negatives or extra_keys as named in `rest`."""
    names = rest.pop("names", ())

    def call(loss: torch.nn.Module, query: Tensor, key: Tensor, *more: Tensor) -> Tensor:
        result: Tensor = loss(query, key, **dict(zip(names, more, strict=True)), **rest)
        return result

    return call


def cases(b: int = 7, d: int = 5) -> Iterator[Case]:
    """Every way to call the two modules; b inputs of d features."""
    labels = torch.arange(b) % 3
    partly = torch.where(torch.arange(b) % 4 == 3, -1, labels)
    taus = torch.linspace(0, 0.3, b, dtype=torch.float64)
    base = {"temperature": 0.5, "tau_plus": 0.1}

    def nt_xent(name: str, num_views: int = 2, rest: dict[str, Any] | None = None, **settings: Any) -> Case:
        def call(loss: torch.nn.Module, *inputs: Tensor) -> Tensor:
            result: Tensor = loss(*inputs, **(rest or {}))
            return result

        return Case(f"nt_xent {name}", dc.DebiasedNTXentLoss, base | settings, views(b, d, num_views), call)

    yield nt_xent("biased", tau_plus=0.0)
    yield nt_xent("debiased")
    yield nt_xent("low temperature", temperature=0.02)
    yield nt_xent("all on the floor", temperature=0.1, tau_plus=0.9)
    yield nt_xent("smooth", on_floor="smooth", tau_plus=0.4)
    yield nt_xent("biased below", on_floor="biased", tau_plus=0.4)
    yield nt_xent("cap_tau", on_floor="cap_tau", tau_plus=0.4)
    yield nt_xent("hard", beta=1.5)
    yield nt_xent("hard at low temperature", beta=1.5, temperature=0.02)
    yield nt_xent("four views", 4)
    yield nt_xent("raw", normalize=False)
    yield nt_xent("raw with relative floor", normalize=False, relative_floor=0.1, tau_plus=0.5)
    yield nt_xent("labels", rest={"labels": labels})
    yield nt_xent("positive labels", 3, rest={"positive_labels": partly})
    yield nt_xent("positive labels, hard", rest={"positive_labels": partly}, beta=1.0)
    yield nt_xent("tau_plus per input", rest={"tau_plus": taus})
    p, codes, w = knowledge(b, seed=3)
    yield nt_xent("membership", rest={"membership": p})
    yield nt_xent("membership, hard", rest={"membership": p}, beta=1.0, strength=0.7)
    yield nt_xent("membership at low temperature", rest={"membership": p}, temperature=0.002)
    yield nt_xent("membership, strength per input, raw", rest={"membership": p, "strength": taus}, normalize=False)
    yield nt_xent("membership with attraction", rest={"membership": p}, attraction=0.5, attraction_above=0.3)
    yield nt_xent("partitions", rest={"partitions": codes})
    yield nt_xent("partitions with attraction", rest={"partitions": codes}, attraction=1.0, attraction_above=0.0)
    yield nt_xent("weights", rest={"weights": w})
    yield nt_xent("weights at low temperature", rest={"weights": w}, temperature=0.002, attraction=0.5)

    pair = views(b, d, 2)
    queue = embeddings(11, d, seed=50)
    bank = embeddings(b, 6, d, seed=51)
    extra = embeddings(b, 2, d, seed=52)

    def info_nce(name: str, inputs: tuple[Tensor, ...] = pair, **rest: Any) -> Case:
        settings = rest.pop("settings", {})
        return Case(f"info_nce {name}", dc.DebiasedInfoNCELoss, base | settings, inputs, _infonce_call(**rest))

    yield info_nce("batch")
    yield info_nce("symmetric", settings={"symmetric": True})
    yield info_nce("symmetric and hard", settings={"symmetric": True, "beta": 1.0})
    yield info_nce("symmetric at low temperature", settings={"symmetric": True, "temperature": 0.02})
    yield info_nce("symmetric with labels", settings={"symmetric": True}, labels=labels)
    yield info_nce("labels", labels=labels)
    yield info_nce("queue", (*pair, queue), names=("negatives",))
    yield info_nce("hard queue", (*pair, queue), names=("negatives",), settings={"beta": 0.7})
    yield info_nce(
        "queue with labels and ids",
        (*pair, queue),
        names=("negatives",),
        labels=labels,
        negative_labels=torch.arange(11) % 4,
        ids=torch.arange(b),
        negative_ids=torch.arange(11) - 2,
    )
    yield info_nce("symmetric with membership", settings={"symmetric": True, "attraction": 0.4}, membership=p)
    yield info_nce("symmetric with weights", settings={"symmetric": True, "attraction": 0.4}, weights=w)
    yield info_nce("symmetric, strength per pair", settings={"symmetric": True}, partitions=codes, strength=taus)
    of_queue, queue_codes, _ = knowledge(11, seed=4)
    yield info_nce(
        "queue with membership and ids",
        (*pair, queue),
        names=("negatives",),
        settings={"attraction": 0.5, "attraction_above": 0.2},
        membership=p,
        negative_membership=of_queue,
        ids=torch.arange(b),
        negative_ids=torch.arange(11) - 2,
    )
    yield info_nce(
        "queue with partitions",
        (*pair, queue),
        names=("negatives",),
        partitions=codes,
        negative_partitions=queue_codes,
    )
    yield info_nce(
        "bank with membership",
        (*pair, bank),
        names=("negatives",),
        settings={"attraction": 0.5, "attraction_above": 0.2, "temperature": 0.02},
        membership=p,
        negative_membership=knowledge(b * 6, seed=5)[0].view(b, 6, -1),
    )
    yield info_nce(
        "bank with partitions and attraction",
        (*pair, bank),
        names=("negatives",),
        settings={"attraction": 0.5, "attraction_above": 0.2},
        partitions=codes,
        negative_partitions=knowledge(b * 6, seed=5)[1].view(b, 6, -1),
    )
    yield info_nce(
        "bank with weights", (*pair, bank), names=("negatives",), weights=knowledge(b, 6, seed=6)[2], strength=0.8
    )
    yield info_nce("bank", (*pair, bank), names=("negatives",))
    yield info_nce("raw bank", (*pair, bank), names=("negatives",), settings={"normalize": False})
    yield info_nce("extra keys", (*pair, extra), names=("extra_keys",))
    yield info_nce("symmetric, extra keys", (*pair, extra), names=("extra_keys",), settings={"symmetric": True})
    yield info_nce(
        "bank, extra keys, ids",
        (*pair, bank, extra),
        names=("negatives", "extra_keys"),
        ids=torch.arange(b),
        negative_ids=torch.arange(b * 6).view(b, 6) % 9,
    )


CASES = {case.name: case for case in cases()}
