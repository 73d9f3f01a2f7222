"""The result of an audit as plain numbers, and its advice in two sentences."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from debiased_contrastive.files import write_atomically
from debiased_contrastive.prior.estimate import PriorEstimate
from debiased_contrastive.report.numbers import small

NEGLIGIBLE_BIAS = 0.01
"""Share of the biased loss, and size of the bias, below which a correction is not worth it."""
SHARE_TO_CLOSE = 0.5
"""Share of the gap that a constant must close to be preferred to an "auto" that closes more."""
SAFE_FLOORED_SHARE = 0.05
"""Share of anchors on the floor up to which a tau_plus is safe."""

Setting: TypeAlias = float | Literal["auto"]


@dataclass(frozen=True)
class AffectedClass:
    """A class and what sampling bias does to its anchors."""

    name: str
    share: float
    """Its share of all rows with labels: the class's own tau_plus."""
    false_negatives: float
    """Expected number for each of its anchors in one batch."""
    bias: float | None
    """Biased minus unbiased loss of its anchors; None if they are too few."""


@dataclass(frozen=True)
class SettingEffect:
    """What a tau_plus does to the anchors and to their loss."""

    tau_plus: float
    floored: float
    """Share of the anchors that it puts on the floor."""
    loss: float


@dataclass(frozen=True)
class Histogram:
    """Similarities of one kind of pairs, as a density."""

    name: str
    edges: tuple[float, ...]
    density: tuple[float, ...]


@dataclass(frozen=True)
class AuditResult:
    """How much sampling bias there is in embeddings, at a temperature and a batch size, and what to do about it."""

    source: str
    rows: int
    features: int
    temperature: float
    batch_size: int
    positives: Literal["pairs", "labels", "none"]
    """Source of the positives; for "none" they are taken to be equal to their anchors, the worst case."""
    num_anchors: int
    priors: tuple[PriorEstimate, ...]
    """Estimates by every method that applies."""
    prior: PriorEstimate
    """The estimate that all numbers below are computed with."""
    false_negatives: tuple[float, float, float]
    """Expected number for each anchor in one batch, also at both ends of the prior's interval."""
    classes: tuple[AffectedClass, ...]
    """The most affected classes, in order; empty without labels."""
    num_classes: int | None
    tau_eff: float
    """Median over anchors of the tau_plus with which the correction gives the true negatives' mean."""
    tau_cap: float
    """Median over anchors of the largest tau_plus that does not put the anchor on the floor."""
    tau_safe: float
    """The largest tau_plus that puts at most 5 % of the anchors on the floor."""
    floored_at_prior: float
    """Share of anchors that tau_plus = prior would put on the floor."""
    floored: tuple[tuple[float, float], ...]
    """Pairs of a tau_plus and the share of anchors that it would put on the floor."""
    biased_loss: float
    unbiased_loss: float
    """Measured with labels, else guessed from the prior."""
    loss_at_prior: float
    constant: float
    """The tau_plus up to tau_safe whose loss is nearest to the unbiased one."""
    loss_at_constant: float
    loss_at_auto: float
    """The loss with an automatic tau_plus of this prior."""
    tau_plus: Setting
    """The advised setting: 0, the constant, or "auto" with this prior."""
    advice: str
    """The advice in words, with its reason."""
    asked: SettingEffect | None
    """The effect of the tau_plus that was asked for."""
    histograms: tuple[Histogram, ...]
    notes: tuple[str, ...]
    """What limits these numbers."""

    @property
    def bias(self) -> float:
        """By how much the biased loss is above the unbiased one."""
        return self.biased_loss - self.unbiased_loss

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, ready for JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def to_html(self, out: str | Path | None = None) -> str:
        """The result as a page that needs no other file, written to the file `out` if it is given."""
        try:
            from debiased_contrastive.report.analyses import render_audit
        except ModuleNotFoundError as error:
            raise ImportError(f"{error.name} is missing: pip install 'debiased-contrastive[prior]'") from error

        content = render_audit(self.to_dict())
        if out is not None:
            write_atomically(Path(out), content)
        return content


def advise(result: AuditResult, *, is_doubtful: bool) -> tuple[Setting, str]:
    """The tau_plus to set, and why, in two sentences; `is_doubtful` if something speaks against the prior."""
    prior = result.prior.value
    biased, unbiased = result.biased_loss, result.unbiased_loss
    gap = f"the biased loss is {biased:.3g}, with true negatives alone it would be {unbiased:.3g}"
    if is_doubtful:
        return 0.0, (
            "Keep tau_plus=0 until the prior is known: pass it, or labels of a few hundred rows, since these "
            f"embeddings do not tell. If it were {small(prior)}, as clusters say, {gap}."
        )
    if unbiased > biased:
        return 0.0, (
            f"Keep tau_plus=0: samples of one class are no nearer to each other than others, {gap}. "
            "So false negatives do no harm that a correction could undo."
        )
    if biased - unbiased < NEGLIGIBLE_BIAS * max(1.0, biased):
        count = prior * (result.batch_size - 1)
        return 0.0, (
            f"Keep tau_plus=0: sampling bias is negligible here, {gap}. About {count:.1f} of an anchor's "
            f"{result.batch_size - 1} unlabeled samples share its class, but hardly add to its loss."
        )
    return _advise_correction(result, gap)


def _advise_correction(result: AuditResult, gap: str) -> tuple[Setting, str]:
    prior = result.prior.value
    by_constant = share_closed(result.biased_loss, result.unbiased_loss, result.loss_at_constant)
    by_auto = share_closed(result.biased_loss, result.unbiased_loss, result.loss_at_auto)
    at_prior = f"the prior itself, {small(prior)}, would put {100 * result.floored_at_prior:.0f} % of the anchors"
    if by_constant < SHARE_TO_CLOSE and by_auto > by_constant:
        return "auto", (
            f"Set tau_plus=AutoTauPlus(prior={round_down(prior)}), which closes {100 * by_auto:.0f} % of the "
            f"gap: at temperature {result.temperature:g} no constant that keeps "
            f"{100 - 100 * SAFE_FLOORED_SHARE:.0f} % of the anchors off the floor closes half of it, and "
            f"{at_prior} there. Sampling bias is worth a correction: {gap}."
        )
    limit = f", not more: {at_prior} on the floor" if result.floored_at_prior > SAFE_FLOORED_SHARE else ""
    return result.constant, (
        f"Set tau_plus={round_down(result.constant)}{limit}. "
        f"It closes {100 * by_constant:.0f} % of the gap that sampling bias makes: {gap}."
    )


def share_closed(biased: float, unbiased: float, corrected: float) -> float:
    """Share of the gap between the biased and the unbiased loss that a correction closes; less if it overshoots.

    >>> share_closed(4.0, 3.0, 3.25), share_closed(4.0, 3.0, 1.0)
    (0.75, -1.0)
    """
    return 1 - abs(corrected - unbiased) / (biased - unbiased)


def round_down(value: float) -> str:
    """Two digits, as one would type them; rounded down, since more may not be safe.

    >>> round_down(0.1), round_down(0.00437), round_down(0.0), round_down(0.4999)
    ('0.1', '0.0043', '0', '0.49')
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # Slightly more, since 0.1 is slightly less than ten times 0.01.
    return small(math.floor(value / unit * (1 + 1e-9)) * unit)
