"""What is measured. Libraries are imported by their contender, so that no other one pays for them."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

FEATURES = 128
TEMPERATURE = 0.5
TAU_PLUS = 0.1
CLASSES, PARTITIONS = 16, 16
"""Width of the membership, and number of partitions, in the rows with knowledge about classes."""

Step: TypeAlias = Callable[[], None]
Prepare: TypeAlias = Callable[[Tensor, Tensor], Step]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

_libraries: list[torch.library.Library] = []


@dataclass(frozen=True)
class Contender:
    """prepare: of two views, the step that is measured. needs: bytes expected for that many pairs."""

    title: str
    prepare: Prepare
    needs: Callable[[int], int]


def inputs(pairs: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, pairs, FEATURES, generator=generator)
    return z[0].clone().requires_grad_(), z[1].clone().requires_grad_()


def paper_formula(z0: Tensor, z1: Tensor) -> Tensor:
    """The debiased loss as it is usually pasted, its mask built by tensor operations."""
    z0, z1 = F.normalize(z0, dim=1), F.normalize(z1, dim=1)
    z = torch.cat([z0, z1])
    of_input = torch.arange(len(z0)).repeat(2)
    negative = torch.exp(z @ z.T / TEMPERATURE)
    negative = negative.masked_select(of_input.unsqueeze(1) != of_input).view(len(z), -1)
    positive = torch.exp((z0 * z1).sum(-1) / TEMPERATURE).repeat(2)
    n = len(z) - 2
    ng = (-TAU_PLUS * n * positive + negative.sum(-1)) / (1 - TAU_PLUS)
    ng = torch.clamp(ng, min=n * math.exp(-1 / TEMPERATURE))
    return (-torch.log(positive / (positive + ng))).mean()


def _ours() -> Loss:
    from debiased_contrastive import DebiasedNTXentLoss

    return DebiasedNTXentLoss(temperature=TEMPERATURE, tau_plus=TAU_PLUS, kernel="auto")


def _lightly() -> Loss:
    load_torchvision()
    from lightly.loss import NTXentLoss

    loss: Loss = NTXentLoss(temperature=TEMPERATURE)
    return loss


def _metric_learning(name: str) -> Loss:
    from pytorch_metric_learning import losses

    loss: Loss = losses.SelfSupervisedLoss(getattr(losses, name)(temperature=TEMPERATURE))
    return loss


def load_torchvision() -> None:
    """A GPU build of torchvision misses two operators beside a CPU torch; nothing measured uses them.

    Where there is no torchvision, nothing needs them: who imports it next says that it is missing.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _libraries.append(library)  # The operators go when the library does.


def _both_passes(build: Callable[[], Loss]) -> Prepare:
    def prepare(z0: Tensor, z1: Tensor) -> Step:
        loss = build()

        def step() -> None:
            z0.grad = z1.grad = None
            torch.autograd.backward(loss(z0, z1))

        return step

    return prepare


def _with_knowledge(known: Callable[[int, torch.Generator], dict[str, Tensor]]) -> Prepare:
    """Ours, told what is known about the classes of so many inputs."""

    def prepare(z0: Tensor, z1: Tensor) -> Step:
        from debiased_contrastive import DebiasedNTXentLoss

        given = known(len(z0), torch.Generator().manual_seed(1))
        loss = DebiasedNTXentLoss(temperature=TEMPERATURE)
        return _both_passes(lambda: partial(loss, **given))(z0, z1)

    return prepare


def _membership(pairs: int, generator: torch.Generator) -> dict[str, Tensor]:
    return {"membership": torch.softmax(3 * torch.randn(pairs, CLASSES, generator=generator), 1)}


def _partitions(pairs: int, generator: torch.Generator) -> dict[str, Tensor]:
    return {"partitions": torch.randint(50, (pairs, PARTITIONS), generator=generator)}


def _bare_products(z0: Tensor, z1: Tensor) -> Step:
    """The least an exact method does: all scores Z Z^T, then the gradient, a (2b, 2b) matrix times Z.

    Scores of Z with itself are symmetric. So the gradient through the rows and the one through the
    columns are one product, of the symmetrized score gradient with Z. Results go to memory that is
    reused, because the pages of fresh memory cost a quarter of the time at 4096 pairs.
    """
    z = torch.cat([z0, z1]).detach()
    scores, gradient = z.new_empty(len(z), len(z)), torch.empty_like(z)

    def step() -> None:
        torch.mm(z, z.T, out=scores)
        torch.mm(scores, z, out=gradient)

    return step


def _matrices(count: int) -> Callable[[int], int]:
    """That many (2b, 2b) matrices of float32."""
    return lambda pairs: count * 4 * (2 * pairs) ** 2


OURS, PAPER, BARE = "ours", "paper-formula", "bare-products"
MEMBERSHIP, CODES = "ours-membership", "ours-partitions"

# What the others need was measured at 256 pairs or fewer.
CONTENDERS = {
    OURS: Contender("this library", _both_passes(_ours), _matrices(0)),
    MEMBERSHIP: Contender(
        f"this library, membership in {CLASSES} classes", _with_knowledge(_membership), _matrices(0)
    ),
    CODES: Contender(f"this library, {PARTITIONS} partitions", _with_knowledge(_partitions), _matrices(0)),
    PAPER: Contender("paper formula, dense", _both_passes(lambda: paper_formula), _matrices(7)),
    "lightly": Contender("lightly NTXentLoss", _both_passes(_lightly), _matrices(5)),
    "pml-ntxent": Contender(
        "pytorch-metric-learning NTXentLoss",
        _both_passes(lambda: _metric_learning("NTXentLoss")),
        lambda pairs: 137 * pairs**3,
    ),
    "pml-supcon": Contender(
        "pytorch-metric-learning SupConLoss",
        _both_passes(lambda: _metric_learning("SupConLoss")),
        _matrices(14),
    ),
    BARE: Contender("two bare matrix products", _bare_products, _matrices(1)),
}
