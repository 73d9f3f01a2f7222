"""The losses of Sections 3 and 4 (Eq. 1, 2, 8) and their relatives, as arithmetic on the statistics."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.checks import OnFloor, Reduction, check_beta, check_choice, check_tau_plus
from debiased_contrastive.objectives.estimator import log_negative_mean
from debiased_contrastive.objectives.statistics import Statistics, from_logits

SOFTPLUS_IS_LINEAR = 40.0
"""Where softplus(x) - x, which is below e^-x, is lost in the rounding of x."""


def debiased(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor = "clamp") -> Tensor:
    """The debiased contrastive loss of each anchor (Eq. 8), shape (a,).

    -log e^{s+} / (e^{s+} + N g) = softplus(log N + log g - s+),  plus the statistics' attraction

    Relations: tau_plus = 0 is the biased loss (Eq. 1); with statistics whose producer left out the
    samples of the anchor's own class that is the unbiased loss (Eq. 2, Q = N).
    """
    # Beyond the threshold softplus(x) = x to the last digit, of float64 too.
    losses = F.softplus(_margin(statistics, tau_plus, on_floor), threshold=SOFTPLUS_IS_LINEAR)
    return _attract(_one_for_each(losses), statistics)


def decoupled(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor = "clamp") -> Tensor:
    """The loss without the positive in its denominator (Yeh et al., 2022), shape (a,): log N g - s+.

    With attraction s+ is the mean logit of the numerator. An anchor with N = 0, which nothing repels, has loss 0.

    Relations: `debiased` is its softplus, so the two agree where the loss is large. With M = 1 and above the floor,
    `debiased` at tau_plus = 1/(N + 1) is this loss at tau_plus = 0 plus log(1 + 1/N).
    """
    losses = _attract(_one_for_each(_margin(statistics, tau_plus, on_floor)), statistics)
    n = statistics.num_unlabeled
    return torch.where(n == 0, 0.0, losses) if isinstance(n, Tensor) else losses


def _margin(statistics: Statistics, tau_plus: float | Tensor, on_floor: OnFloor) -> Tensor:
    log_g, positive = log_negative_mean(statistics, tau_plus, on_floor), statistics.positive
    n = statistics.num_unlabeled
    log_sum = (n.log() if isinstance(n, Tensor) else math.log(n)) + log_g
    return (log_sum.unsqueeze(1) if positive.dim() > 1 else log_sum) - positive


def _one_for_each(losses: Tensor) -> Tensor:
    """The loss of each anchor (a,), the mean over its positives where each has a numerator of its own."""
    return losses.mean(1) if losses.dim() > 1 else losses


def _attract(losses: Tensor, statistics: Statistics) -> Tensor:
    return losses + statistics.attraction if isinstance(statistics.attraction, Tensor) else losses


def reduce_losses(losses: Tensor, reduction: Reduction) -> Tensor:
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
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """The debiased contrastive loss (Eq. 8) of logits, in log space and at least float32.

    -log e^{s+} / (e^{s+} + N g),  g = max{ (mean e^u - tau_plus mean e^v) / (1 - tau_plus), e^{lower} }

    -inf in `unlabeled` or `positives` marks an absent sample, N and M count the present ones of each
    anchor; an anchor with N = 0 has loss 0.

    Relations: tau_plus=0 is InfoNCE, bit for bit; `decoupled_loss` drops e^{s+} from the denominator.

    Args:
        positive: s+, the logit of each anchor's positive (a,).
        unlabeled: u, the logits of its unlabeled samples (a, n).
        positives: v, the logits of the positives of the correction (a, m); None is M = 1 with v = x+.
        tau_plus: Probability that an unlabeled sample has the anchor's class: a number, or one for each
            anchor (a,). It receives no gradient.
        lower: log of the floor, one number or (a,): -1/t for unit vectors; -inf is the zero floor.
        on_floor: What an anchor does below the floor: "clamp" takes the floor itself, "biased" the biased loss,
            "smooth" rounds the corner off, "cap_tau" lowers the anchor's tau_plus before it gets there.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        weights: Probability that each unlabeled sample is a true negative (a, n), from whatever is known about
            classes; the mean over u is weighted with it. It takes the place of the correction: tau_plus must be 0.
        reduction: "mean", "sum", or "none" for one loss an anchor (a,).

    Returns:
        The loss, in the widest dtype of the logits, at least float32.

    >>> logits = torch.tensor([[0.9, 0.1, -0.3, 0.4]]) / 0.5
    >>> contrastive_loss(logits[:, 0], logits[:, 1:], tau_plus=0.1, lower=-1 / 0.5)
    tensor(0.3369)
    """
    check_choice("reduction", reduction, Reduction)
    statistics, tau_plus = _check_inputs(positive, unlabeled, positives, tau_plus, lower, on_floor, beta, weights)
    return reduce_losses(debiased(statistics, tau_plus, on_floor), reduction)


def decoupled_loss(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None = None,
    *,
    tau_plus: float | Tensor = 0.0,
    lower: float | Tensor = -math.inf,
    on_floor: OnFloor = "clamp",
    beta: float = 0.0,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """The decoupled contrastive loss log N g - s+ of logits.

    It has no lower bound where g may reach 0, so the zero floor needs on_floor "biased" or "cap_tau",
    and every anchor needs an unlabeled sample.

    Args:
        positive: As in `contrastive_loss`, like all the others.
        unlabeled: Logits (a, n).
        positives: Logits (a, m), or None.
        tau_plus: A number, or one for each anchor.
        lower: log of the floor.
        on_floor: What an anchor does below the floor.
        beta: Tilt towards hard negatives.
        weights: Probability that each unlabeled sample is a true negative (a, n).
        reduction: "mean", "sum" or "none".

    Returns:
        The loss, as `contrastive_loss` returns it.

    >>> decoupled_loss(torch.tensor([2.0]), torch.tensor([[1.0, 0.0]]))
    tensor(-0.6867)
    """
    check_choice("reduction", reduction, Reduction)
    statistics, tau_plus = _check_inputs(positive, unlabeled, positives, tau_plus, lower, on_floor, beta, weights)
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
    return reduce_losses(decoupled(statistics, tau_plus, on_floor), reduction)


def check_tensor(name: str, value: object) -> None:
    """Raise unless `value` is a tensor whose rows are all here, which those of a DTensor are not."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} must be a torch.Tensor; got {type(value).__name__}: convert it with torch.as_tensor, or "
            "pass its .embeddings if it is a queue or a bank"
        )
    # By a method of its own: importing the class would load what few programs need.
    if hasattr(value, "full_tensor"):
        raise ValueError(
            f"{name} must be a plain tensor; got a DTensor: pass its .to_local(), with gather_distributed=True if "
            "it is sharded by rows, or its .full_tensor()"
        )


def check_probabilities(tau_plus: float | Tensor, *, look: bool = True) -> None:
    """Raise unless tau_plus, a number or a tensor of them, lies in [0, 1); in a tensor only with `look`."""
    if not isinstance(tau_plus, Tensor):
        check_tau_plus(tau_plus)
        return
    if not tau_plus.is_floating_point():
        raise ValueError(
            f"tau_plus must be a float or a floating-point tensor; got dtype {tau_plus.dtype}: "
            "convert it with .float()"
        )
    if not look or tau_plus.is_meta:
        return
    inside = (tau_plus >= 0) & (tau_plus < 1)
    if not bool(inside.all()):
        raise ValueError(
            f"tau_plus must lie in [0, 1) for every anchor; got {int((~inside).sum())} of "
            f"{tau_plus.numel()} outside: each value is the probability of that anchor's own class"
        )


def per_anchor_tau_plus(
    tau_plus: float | Tensor, like: Tensor, letter: str = "a", *, look: bool = True
) -> float | Tensor:
    """tau_plus, checked, in the dtype of `like` (a,); a tensor must hold one value or one for each."""
    if isinstance(tau_plus, Tensor):
        if tau_plus.dim() > 0 and tau_plus.shape != like.shape:
            raise ValueError(
                f"tau_plus must be one number or have shape ({letter},) = {tuple(like.shape)}; got shape "
                f"{tuple(tau_plus.shape)}: give each its own class's probability"
            )
        if tau_plus.is_floating_point():
            # Checked after the cast, which may round up to 1.
            tau_plus = tau_plus.detach().to(like)
    check_probabilities(tau_plus, look=look)
    return tau_plus if isinstance(tau_plus, Tensor) else float(tau_plus)


def _check_inputs(
    positive: Tensor,
    unlabeled: Tensor,
    positives: Tensor | None,
    tau_plus: float | Tensor,
    lower: float | Tensor,
    on_floor: OnFloor,
    beta: float,
    weights: Tensor | None,
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
    if weights is not None:
        check_weights(weights, tuple(unlabeled.shape), unlabeled.device)
        weights = weights.detach().to(dtype)
    statistics = from_logits(
        positive.to(dtype),
        unlabeled.to(dtype),
        None if positives is None else positives.to(dtype),
        lower=lower,
        beta=beta,
        weights=weights,
    )
    _check_values(statistics)
    tau_plus = per_anchor_tau_plus(tau_plus, statistics.positive)
    if weights is not None and bool(torch.as_tensor(tau_plus > 0).any()):
        raise ValueError(
            "weights and tau_plus correct the same bias; got weights and a tau_plus above 0: leave tau_plus at 0"
        )
    return statistics, tau_plus


def check_weights(weights: Tensor, shape: tuple[int, ...], device: torch.device, *, look: bool = True) -> None:
    """Raise unless the weights have that shape on that device and, with `look`, are probabilities."""
    check_tensor("weights", weights)
    if not weights.is_floating_point() or tuple(weights.shape) != shape or weights.device != device:
        raise ValueError(
            f"weights must be floating-point with shape {shape} on {device}, one for each pair of an anchor and an "
            f"unlabeled sample; got {weights.dtype} {tuple(weights.shape)} on {weights.device}"
        )
    if not look:
        return
    inside = (weights >= 0) & (weights <= 1)
    if not bool(inside.all()):
        raise ValueError(
            f"weights must lie in [0, 1], the probability that a sample is a true negative; got "
            f"{int((~inside).sum())} of {weights.numel()} outside: 1 minus the probability of a common class"
        )


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
