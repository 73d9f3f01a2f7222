"""The settings of what is known about the classes of images."""

import math
from dataclasses import dataclass
from typing import Literal

from debiased_contrastive.training.membership import Membership
from debiased_contrastive.training.settings import check_at_least, check_within


@dataclass(frozen=True)
class ImageMembership(Membership):
    """What is known about classes beside the similarity: pairs that probably share one weigh less as negatives."""

    source: Literal["none", "labels", "classifier", "groups", "guide", "own"] = "none"
    """Where it is from: nowhere (none), a share of the labels (labels), a classifier of the features that is
    trained on that share (classifier), a file of groups, a guide, which is a file with embeddings of another model
    or, without a file, patches of the images themselves, or the features that are being learnt (own). With a
    source, tau_plus plays no part."""
    known: float = 0.1
    """For labels and classifier, and for every source with strength auto: share of the labels that are read."""
    refresh: int = 5
    """Number of epochs after which classifier, own and a strength auto are made anew, and the worth is measured."""
    attraction: float = 0.0
    """Weight of the samples that are probably of the anchor's class as further positives; 0 has none."""
    attraction_above: float = 0.5
    """The probability above which a sample attracts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, refresh=self.refresh)
        check_within(0, 1, "it is a share", known=self.known)
        check_within(0, 1, "it is a probability", attraction_above=self.attraction_above)
        if self.reads_labels and not self.known:
            raise ValueError(
                f"membership.known must be above 0 for source {self.source}, which reads labels; got 0"
            )
        if not 0 <= self.attraction < math.inf:
            raise ValueError(f"attraction must be at least 0 and finite; got {self.attraction}: 0 has none")

    def _idle(self) -> dict[str, str]:
        without = "without a source" if self.source == "none" else ""
        unread = (
            "" if self.reads_labels or self.is_auto else f"with source {self.source} and a strength that is given"
        )
        return super()._idle() | {
            "known": without or unread,
            "refresh": without,
            "attraction": without,
            "attraction_above": without or ("" if self.attraction else "without attraction"),
        }

    @property
    def is_learnt(self) -> bool:
        return self.source in ("classifier", "own")

    @property
    def reads_labels(self) -> bool:
        return self.source in ("labels", "classifier")
