"""The result of an audit as plain numbers."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from debiased_contrastive.files import write_atomically
from debiased_contrastive.prior.estimate import PriorEstimate

SAFE_FLOORED_SHARE = 0.05
"""Share of anchors on the floor up to which a tau_plus is safe."""

OWN = "own clusters"
"""Name of the source that is made of the embeddings themselves."""

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
class SourceEffect:
    """What a source of knowledge about classes does to the force on embeddings."""

    name: str
    argument: str
    """Of the loss that takes it: membership, partitions or weights."""
    made_by: str
    """The call in `membership/` that makes it."""
    labels: int | None
    """Number of labels that it takes, if any."""
    share: float | None
    """Force share at strength 1: 1 as good as all labels, 0 as bad as none, below it harm; None without labels."""
    strength: float
    """The strength to use: that of the largest share, or what is safe where no label tells."""
    best_share: float | None
    """Force share at that strength."""
    curve: tuple[tuple[float, float], ...]
    """Pairs of a strength and its force share."""
    words: str
    """What to do with it."""
    warnings: tuple[str, ...]


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
    spread_biased: float
    """Standard deviation of the sizes of the anchors' forces beside their mean, for tau_plus = 0."""
    spread_at_constant: float
    """The same for the constant: with one positive, sizes are all that tau_plus changes of the force."""
    force_bias: float | None
    """Size of the bias in the force, beside the force of true negatives alone; None without labels."""
    sources: tuple[SourceEffect, ...]
    """What is known of the rows beside them, and what that does to the force."""
    labels_for_half: int | None
    """Number of labels with which a classifier takes half of the bias out of the force; None if not known."""
    tau_plus: Setting
    """What sets the value of the loss right: 0, the constant, or "auto" with this prior."""
    advice: str
    """What to do, in words, with its reason."""
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
