"""What an audit found, as plain numbers."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from debiased_contrastive.auditing.advice import Setting
from debiased_contrastive.files import write_atomically
from debiased_contrastive.prior.estimate import PriorEstimate


@dataclass(frozen=True)
class AffectedClass:
    """A class and what sampling bias does to its anchors."""

    name: str
    share: float
    """Of all rows with labels: the class's own tau_plus."""
    false_negatives: float
    """Expected for each of its anchors, in one batch."""
    bias: float | None
    """Biased minus unbiased loss of its anchors; None where too few were looked at."""


@dataclass(frozen=True)
class Asked:
    """What a given tau_plus would do."""

    tau_plus: float
    floored: float
    """Share of the anchors that it would put on the floor."""
    loss: float


@dataclass(frozen=True)
class Histogram:
    """Similarities of one kind of pairs, as a density."""

    name: str
    edges: tuple[float, ...]
    density: tuple[float, ...]


@dataclass(frozen=True)
class Audit:
    """How much sampling bias there is in embeddings, at a temperature and a batch size, and what to do about it."""

    source: str
    rows: int
    features: int
    temperature: float
    batch_size: int
    positives: Literal["pairs", "labels", "none"]
    """Where the anchors' positives are from; "none": they are taken to be equal to their anchor, the worst case."""
    num_anchors: int
    priors: tuple[PriorEstimate, ...]
    """By every method that applies."""
    prior: PriorEstimate
    """The one that all below goes by."""
    false_negatives: tuple[float, float, float]
    """Expected for each anchor in one batch, with the ends of the prior's interval."""
    classes: tuple[AffectedClass, ...]
    """The most affected first; empty without labels."""
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
    """tau_plus, and the share of anchors that it would put on the floor."""
    biased_loss: float
    unbiased_loss: float
    """Measured with labels, else guessed from the prior."""
    loss_at_prior: float
    constant: float
    """The tau_plus up to tau_safe whose loss is nearest to the unbiased one."""
    loss_at_constant: float
    loss_at_auto: float
    """With an automatic tau_plus of this prior."""
    tau_plus: Setting
    """What is advised: 0, the constant, or "auto" with this prior."""
    advice: str
    """The same in words, and why."""
    asked: Asked | None
    """What the tau_plus that was asked for would do."""
    histograms: tuple[Histogram, ...]
    notes: tuple[str, ...]
    """What limits these numbers."""

    @property
    def bias(self) -> float:
        """By how much the biased loss is above the unbiased one."""
        return self.biased_loss - self.unbiased_loss

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    def to_html(self, out: str | Path | None = None) -> str:
        """One page that needs nothing but itself; also written to `out`, if that is given."""
        try:
            from debiased_contrastive.report.audit import page
        except ModuleNotFoundError as error:
            raise ImportError(f"{error.name} is missing: pip install 'debiased-contrastive[prior]'") from error

        made = page(self.to_dict())
        if out is not None:
            write_atomically(Path(out), made)
        return made
