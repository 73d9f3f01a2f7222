"""The rows of the study of memberships: what is known in each, and which control it is compared with."""

from dataclasses import dataclass, field
from typing import Any, Literal

from studies.membership_length import Setting

BASES = {"fashion": Setting("fashion", 16, 128, 0.2, 60), "cifar10": Setting("cifar10", 16, 128, 0.2, 120)}
"""Settings at which another doubling of the length gains little, as far as studies.membership_length went."""
TITLES = {"fashion": "Fashion-MNIST, 5,000 images", "cifar10": "CIFAR10, five classes, 5,000 images"}


@dataclass(frozen=True)
class Row:
    """What is known in one row, and by which way it enters the training."""

    label: str
    """What it is, for the table."""
    kind: Literal["biased", "unbiased"] = "biased"
    """The objective where there is no membership."""
    known: dict[str, Any] = field(default_factory=dict)
    """Settings of its membership, if it has one."""
    groups: float | str = ""
    """Groups that a file is written with: the share of right labels, or how else they are made."""
    cross_entropy: float = 0.0
    """Share of the labels that a classifier beside the loss reads."""
    regression: bool = False
    """Whether the encoder learns the features of the guide, and nothing else."""
    guide_alone: bool = False
    """Whether the features of the guide themselves are probed, without any training."""
    epochs: int = 1
    """Length, as a multiple of the usual one."""
    twin: str = ""
    """The row that has all but the knowledge."""

    @property
    def rival(self) -> str:
        """The row that puts the same knowledge to a plainer use: cross-entropy, or regression on the guide."""
        source = self.known.get("source")
        if source == "classifier":
            return f"cross-entropy-{100 * self.known.get('known', 0.1):.0f}"
        return "regression" if source == "guide" and self.known.get("form") != "random" else ""


_CLASSIFIER: dict[str, Any] = {"source": "classifier"}
_WALK: dict[str, Any] = {"source": "guide", "form": "walk", "strength": 4.0}
_ATTRACTION: dict[str, Any] = {"attraction": 0.2}
ROWS = {
    "biased": Row("biased", "biased"),
    "unbiased": Row("unbiased: all labels", "unbiased"),
    "classifier-10": Row("10 % of the labels", known=_CLASSIFIER),
    "classifier-10-strong": Row("10 % of the labels, strength 2", known=_CLASSIFIER | {"strength": 2.0}),
    "classifier-10-attraction": Row(
        "10 % of the labels, attraction", known=_CLASSIFIER | _ATTRACTION, twin="random-groups"
    ),
    "random-groups": Row(
        "control: random groups, attraction",
        known={"source": "groups", "warm_up": 10} | _ATTRACTION,
        groups="random",
    ),
    "guide-walk-attraction": Row("guide, walk, attraction", known=_WALK | _ATTRACTION, twin="random-graph"),
    "random-graph": Row("control: random graph, attraction", known=_WALK | _ATTRACTION | {"form": "random"}),
    "guide-walk": Row("guide, walk", known=_WALK),
    "guide-consensus": Row("guide, consensus", known={"source": "guide", "strength": 2.0}),
    "classifier-2": Row("2 % of the labels", known=_CLASSIFIER | {"known": 0.02}),
    "classifier-2-strong": Row(
        "2 % of the labels, strength 2", known=_CLASSIFIER | {"known": 0.02, "strength": 2.0}
    ),
    "classifier-2-attraction": Row(
        "2 % of the labels, attraction", known=_CLASSIFIER | {"known": 0.02} | _ATTRACTION, twin="random-groups"
    ),
    "groups-85": Row("groups, 85 % right", known={"source": "groups"}, groups=0.85),
    "groups-70": Row("groups, 70 % right", known={"source": "groups"}, groups=0.7),
    "own": Row("own features, consensus", known={"source": "own"}),
    "cross-entropy-10": Row("control: biased and cross-entropy, 10 % of the labels", "biased", cross_entropy=0.1),
    "cross-entropy-2": Row("control: biased and cross-entropy, 2 % of the labels", "biased", cross_entropy=0.02),
    "both-10": Row(
        "10 % of the labels, attraction, and cross-entropy on them",
        known=_CLASSIFIER | _ATTRACTION,
        cross_entropy=0.1,
        twin="cross-entropy-random-groups",
    ),
    "cross-entropy-random-groups": Row(
        "control: random groups, attraction, and cross-entropy, 10 % of the labels",
        known={"source": "groups", "warm_up": 10} | _ATTRACTION,
        groups="random",
        cross_entropy=0.1,
    ),
    "regression": Row("control: regression on the guide alone", "biased", regression=True),
    "guide-alone": Row("control: the features of the guide themselves", guide_alone=True),
    "guide-clusters": Row("guide, one hard clustering", known={"source": "groups"}, groups="clusters"),
    "biased-twice": Row("control: biased, twice as long", "biased", epochs=2),
    "labels-100": Row("check: all labels as membership", known={"source": "labels", "known": 1.0}),
}
"""In the order in which they are run: those that carry claims, and their controls, first."""
