"""The losses of Sections 3 and 4 (Eq. 1, 2, 8) and their relatives, as arithmetic on the statistics."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.checks import (
    OnFloor,
    Reduction,
    check_beta,
    check_choice,
    check_tensor,
    per_anchor_tau_plus,
)
from debiased_contrastive.objectives.estimator import log_negative_mean
from debiased_contrastive.objectives.statistics import Statistics, from_logits


def debiased(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor = "clamp") -> Tensor:
    """The debiased contrastive loss of each anchor (Eq. 8), shape (a,).

    -log e^{s+} / (e^{s+} + N g) = softplus(log N + log g - s+)

    Relations: tau_plus = 0 is the biased loss (Eq. 1); with statistics whose producer left out the
    samples of the anchor's own class that is the unbiased loss (Eq. 2, Q = N).
    """
    return -F.logsigmoid(-decoupled(statistics, tau_plus, on_floor))


def decoupled(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor = "clamp") -> Tensor:
    """The loss without the positive in its denominator (Yeh et al., 2022), shape (a,): log N g - s+.

    Relations: `debiased` is its softplus, so the two agree where the loss is large.
    """
    log_g = log_negative_mean(statistics, tau_plus, on_floor)
    n = statistics.num_unlabeled
    return (n.log() if isinstance(n, Tensor) else math.log(n)) + log_g - statistics.positive


def reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    """The mean, the sum, or the losses as they are."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def contrastive_loss(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None = None,
    *,
    tau_plus: float | Tensor = 0.0,
    lower: float | Tensor = -math.inf,
    on_floor: OnFloor = "clamp",
    beta: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """The debiased contrastive loss (Eq. 8) of logits, in log space and at least float32.

    -log e^{s+} / (e^{s+} + N g),  g = max{ (mean e^u - tau_plus mean e^v) / (1 - tau_plus), e^{lower} }

    s+ = positive (a,); u = unlabeled (a, n); v = positives (a, m), None means M = 1 with v = x+.
    -inf in `unlabeled` or `positives` marks an absent sample, N and M count the present ones of each
    anchor; an anchor with N = 0 has loss 0. tau_plus: a float, or (a,) with each anchor's own class
    probability; it receives no gradient. lower: log of the floor, -1/t for unit vectors, -inf is the
    zero floor. beta: hard-negative tilt, 0 is off.

    Relations: tau_plus=0 is InfoNCE, bit for bit; `decoupled_loss` drops e^{s+} from the denominator.

    >>> logits = torch.tensor([[0.9, 0.1, -0.3, 0.4]]) / 0.5
    >>> contrastive_loss(logits[:, 0], logits[:, 1:], tau_plus=0.1, lower=-1 / 0.5)
    tensor(0.3369)
    """
    check_choice("reduction", reduction, Reduction)
    statistics, tau_plus = _checked(positive, unlabeled, positives, tau_plus, lower, on_floor, beta)
    return reduced(debiased(statistics, tau_plus, on_floor), reduction)


def decoupled_loss(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None = None,
    *,
    tau_plus: float | Tensor = 0.0,
    lower: float | Tensor = -math.inf,
    on_floor: OnFloor = "clamp",
    beta: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """The decoupled contrastive loss log N g - s+ of logits; arguments as in `contrastive_loss`.

    It has no lower bound where g may reach 0, so the zero floor needs on_floor "biased" or "cap_tau",
    and every anchor needs an unlabeled sample.

    >>> decoupled_loss(torch.tensor([2.0]), torch.tensor([[1.0, 0.0]]))
    tensor(-0.6867)
    """
    check_choice("reduction", reduction, Reduction)
    statistics, tau_plus = _checked(positive, unlabeled, positives, tau_plus, lower, on_floor, beta)
    if bool(torch.any(torch.as_tensor(statistics.num_unlabeled) == 0)):
        raise ValueError(
            "decoupled_loss needs at least one unlabeled sample for every anchor; got an anchor whose "
            "unlabeled logits are all -inf: drop that anchor"
        )
    corrects = bool((tau_plus > 0).any()) if isinstance(tau_plus, Tensor) else tau_plus > 0
    if corrects and on_floor in ("clamp", "smooth") and bool((statistics.lower == -math.inf).any()):
        raise ValueError(
            f"decoupled_loss with on_floor={on_floor!r} needs a finite `lower`; got -inf, where the loss of "
            "an anchor on the floor is minus infinity: pass lower=-1/t, or on_floor='biased' or 'cap_tau'"
        )
    return reduced(decoupled(statistics, tau_plus, on_floor), reduction)


def _checked(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None,
    tau_plus: float | Tensor,
    lower: float | Tensor,
    on_floor: OnFloor,
    beta: float,
) -> tuple[Statistics, float | Tensor]:
    check_choice("on_floor", on_floor, OnFloor)
    check_beta(beta)
    logits = {"positive": positive, "unlabeled": unlabeled}
    if positives is not None:
        logits["positives"] = positives
    _check_logits(logits)
    if isinstance(lower, Tensor) and lower.dim() > 0 and lower.shape != positive.shape:
        raise ValueError(
            f"lower must be one number or have shape (a,) = {tuple(positive.shape)}; got {tuple(lower.shape)}"
        )
    dtype = working_dtype(*logits.values())
    statistics = from_logits(
        positive.to(dtype),
        unlabeled.to(dtype),
        None if positives is None else positives.to(dtype),
        lower=lower,
        beta=beta,
    )
    _check_values(statistics)
    return statistics, per_anchor_tau_plus(tau_plus, statistics.positive)


def _check_logits(logits: dict[str, Tensor]) -> None:
    for name, tensor in logits.items():
        check_tensor(name, tensor)
    num_anchors = logits["positive"].shape[:1]
    for name, tensor in logits.items():
        wanted = 1 if name == "positive" else 2
        if not tensor.is_floating_point():
            raise ValueError(f"{name} must hold floating-point logits; got dtype {tensor.dtype}: use .float()")
        if tensor.dim() != wanted or tensor.shape[:1] != num_anchors or tensor.numel() == 0:
            letters = "(a,)" if wanted == 1 else "(a, n)" if name == "unlabeled" else "(a, m)"
            raise ValueError(
                f"{name} must have shape {letters}, not empty, with the same number of anchors a as "
                f"`positive` {tuple(logits['positive'].shape)}; got {tuple(tensor.shape)}"
            )
        if tensor.device != logits["positive"].device:
            raise ValueError(
                f"all logits must be on one device; `positive` is on {logits['positive'].device}, "
                f"{name} on {tensor.device}: move them with .to(...)"
            )


def _check_values(statistics: Statistics) -> None:
    """NaN and +inf anywhere in a row reach its statistics, so (a,) numbers tell about (a, n) logits."""
    for name, values in (
        ("positive", statistics.positive),
        ("unlabeled", statistics.log_mean_unlabeled),
        ("positives", statistics.log_mean_positives),
    ):
        bad = ~values.isfinite()
        if bool(bad.any()):
            raise ValueError(
                f"{name} must hold finite logits (-inf only for absent samples of `unlabeled` and "
                f"`positives`); got NaN or inf in {int(bad.sum())} of {values.numel()} anchors: the encoder "
                "diverged, or exponentials were passed instead of logits"
            )
    if bool((statistics.lower.isnan() | (statistics.lower == math.inf)).any()):
        raise ValueError("lower must be finite or -inf: it is the smallest logit possible; got NaN or +inf")
    if bool(torch.any(torch.as_tensor(statistics.num_positives) == 0)):
        raise ValueError(
            "positives must hold at least one present sample for every anchor; got a row that is all -inf: "
            "put the anchor's own positive logit there"
        )
