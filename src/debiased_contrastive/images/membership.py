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
    """For labels and classifier: share of the labels that are read."""
    refresh: int = 5
    """Number of epochs after which classifier and own are made anew, and after which the worth is measured."""
    attraction: float = 0.0
    """Weight of the samples that are probably of the anchor's class as further positives; 0 has none."""
    attraction_above: float = 0.5
    """The probability above which a sample attracts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, refresh=self.refresh)
        check_within(0, 1, "it is a share", known=self.known)
        check_within(0, 1, "it is a probability", attraction_above=self.attraction_above)
        if not 0 <= self.attraction < math.inf:
            raise ValueError(f"attraction must be at least 0 and finite; got {self.attraction}: 0 has none")

    @property
    def is_learnt(self) -> bool:
        return self.source in ("classifier", "own")

    @property
    def reads_labels(self) -> bool:
        return self.source in ("labels", "classifier")
