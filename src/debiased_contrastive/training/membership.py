"""The settings of what is known about classes, which every domain that takes such knowledge shares."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from debiased_contrastive.training.settings import check_at_least, check_words


@dataclass(frozen=True)
class Membership:
    """What is known about classes beside the similarity: pairs that probably share one weigh less as negatives."""

    source: str = "none"
    file: Path | None = None
    """A .npy, .npz, .csv, .tsv, .txt, .safetensors or .parquet file with a row for every training sample, in their
    order. For groups: whole numbers, -1 where unknown, or words. For a guide: embeddings."""
    form: Literal["consensus", "walk", "random"] = "consensus"
    """What is made of embeddings: how often many clusterings put two samples together (consensus), short walks
    between near neighbours (walk), or walks on a graph of random neighbours, which know nothing (random)."""
    num_classes: int = 10
    """For a consensus: a guess of the number of classes."""
    warm_up: int | None = None
    """Number of epochs with the biased loss, after which the membership begins. If not given, 10 where it is made
    of features that are being learnt, else 0."""
    strength: float | Literal["auto"] = 1.0
    """Factor of the probability that two samples share a class; 0 is the biased loss. auto chooses it by labels
    that may be read, else by a safe rule."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, num_classes=self.num_classes)
        if self.warm_up is not None:
            check_at_least(0, warm_up=self.warm_up)
        strength = 1.0 if self.strength == "auto" else self.strength
        if not isinstance(strength, int | float) or not 0 <= strength < math.inf:
            raise ValueError(f"strength must be at least 0 and finite, or auto; got {self.strength}: 1 is usual")
        if self.source == "groups" and self.file is None:
            raise ValueError(
                "membership.source groups needs a file with a group for every sample: pass --membership.file"
            )
        if self.file is not None and self.source not in ("groups", "guide"):
            raise ValueError(
                f"membership.file is for the sources groups and guide; got source {self.source}: leave it out"
            )
        for name, why in self._idle().items():
            if why and getattr(self, name) != getattr(type(self), name):
                raise ValueError(f"membership.{name} has no effect {why}; got {getattr(self, name)}: leave it out")

    def _idle(self) -> dict[str, str]:
        """Why a setting has no effect beside the others, by its name; empty where it has one."""
        without = "without a source" if self.source == "none" else ""
        of_features = "" if self.source in ("guide", "own") else f"with source {self.source}"
        # A guess of the number of classes does no harm where nobody asks for it.
        return {"warm_up": without, "strength": without, "num_classes": without, "form": without or of_features}

    @property
    def is_auto(self) -> bool:
        """Whether the strength is chosen where the knowledge is made."""
        return self.strength == "auto"

    @property
    def given_strength(self) -> float:
        """The strength of the loss, where the knowledge has none of its own."""
        return 1.0 if self.strength == "auto" else self.strength

    @property
    def is_learnt(self) -> bool:
        """Whether it is made of features that are being learnt, and made anew at times."""
        return False

    @property
    def begin(self) -> int:
        """The first epoch that it is there in."""
        return (10 if self.is_learnt else 0) if self.warm_up is None else self.warm_up


def describe_tau_plus(tau_plus: float) -> str:
    """What a tau_plus that was set is used for beside a membership, in words; empty where none was."""
    if not tau_plus:
        return ""
    return f"what is known about classes takes the place of tau_plus={tau_plus:g}, which plays no part"


def check_membership(membership: Membership, kind: str, epochs: int, **idle: bool) -> None:
    """Raise where a membership does not suit the other settings.

    Args:
        membership: The settings of the membership.
        kind: That of the objective.
        epochs: Number of epochs of the training.
        idle: Further settings by name, True where they are set and would change nothing.
    """
    if membership.source == "none":
        return
    if kind != "debiased":
        raise ValueError(
            f"a membership is for kind=debiased, whose estimate it makes; got kind={kind}: leave one of them out"
        )
    for name, is_set in idle.items():
        if is_set:
            raise ValueError(f"{name} has no effect beside a membership, which replaces it: leave one of them out")
    if membership.begin >= epochs:
        raise ValueError(
            f"the membership would begin after {membership.begin} epochs, the training ends after {epochs}: set "
            "--membership.warm-up to fewer"
        )
