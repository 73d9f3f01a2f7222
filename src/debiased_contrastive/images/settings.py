"""The settings of a training on images: frozen, checked when they are made, the same as flags, JSON and fields."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from debiased_contrastive.images.views import SimCLRViews
from debiased_contrastive.objectives.checks import OnFloor, check_beta, check_tau_plus
from debiased_contrastive.training.order import Order
from debiased_contrastive.training.settings import Training, check_at_least, check_words, made_from


@dataclass(frozen=True)
class Data:
    """Which images."""

    name: Literal["fashion", "cifar10", "stl10", "folder"] = "cifar10"
    """fashion is inside the package; folder is any folder of images."""
    root: Path | None = None
    """Where the images are; the variable DEBIASED_DATA if not given."""
    test_root: Path | None = None
    """For a folder: the folder of test images, with the same class folders; without it there is no probe."""
    classes: tuple[int, ...] = ()
    """Only these classes, by number; all if empty."""
    per_class: int | None = None
    """Only the first so many training images of each class."""
    folder_size: int = 64
    """For a folder: side in pixels to which images are scaled and cropped when they are read."""
    order: Order = "epochs"
    """Each image once in an epoch, or drawn anew for every batch. With a bank, epochs give away which row is an
    image's own: towards their end it is one of the old ones."""

    def __post_init__(self) -> None:
        check_words(self)
        if self.per_class is not None:
            check_at_least(1, per_class=self.per_class)
        check_at_least(1, folder_size=self.folder_size)


@dataclass(frozen=True)
class Encoder:
    """The network whose features are wanted, and the head that is dropped after training."""

    name: Literal["small", "resnet18", "resnet34", "resnet50"] = "resnet50"
    stem: Literal["imagenet", "cifar"] = "cifar"
    """Of a ResNet: 3 x 3 without max-pool for small images, or the usual one."""
    width: int = 64
    """Channels of the first stage."""
    hidden_dim: int = 512
    """Hidden units of the projector; with a bank there is none."""
    out_dim: int = 128
    """Dimensions of the embedding that the loss sees."""
    pair: bool = False
    """Two of them, for the first channel and for the others, whose features are joined; for a bank."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, width=self.width, hidden_dim=self.hidden_dim, out_dim=self.out_dim)


@dataclass(frozen=True)
class Objective:
    """Which loss, and who its samples are."""

    kind: Literal["biased", "debiased", "unbiased"] = "debiased"
    """Eq. 1, Eq. 8, or Eq. 2, the oracle that reads every label."""
    tau_plus: float = 0.1
    """Probability that an unlabeled sample has the anchor's class; for debiased alone."""
    temperature: float = 0.5
    num_positives: int = 1
    """M: positives of the correction, which are the other views of an input; M + 1 views are made."""
    known_labels: float = 0.0
    """Share of the labels that the correction may read: such an input's positives are those of its class."""
    on_floor: OnFloor = "clamp"
    """What stands below the estimator's floor."""
    beta: float = 0.0
    """Tilt towards hard negatives; 0 is off."""
    negatives: Literal["batch", "queue", "bank"] = "batch"
    """Unlabeled samples of the batch, of a queue of keys from a momentum encoder, or of memory banks of two views,
    luminance and colour, as in contrastive multiview coding."""
    queue_size: int = 4096
    momentum: float = 0.99
    """Of the key encoder, with a queue."""
    bank_negatives: int = 4096
    """Unlabeled samples that are drawn from a bank for each anchor, with replacement."""
    bank_momentum: float = 0.5
    """Weight of what a bank held."""
    exclude_own: bool = False
    """With a bank: an anchor never meets its own image among the unlabeled."""
    auto: bool = False
    """Take tau_plus for the prior alone, and let what the loss uses follow training, as views need it."""

    def __post_init__(self) -> None:
        check_words(self)
        check_tau_plus(self.tau_plus)
        check_beta(self.beta)
        check_at_least(1, queue_size=self.queue_size, bank_negatives=self.bank_negatives)
        if not 0 <= self.bank_momentum < 1:
            raise ValueError(f"bank_momentum must lie in [0, 1); got {self.bank_momentum}: 0.5 is usual")
        if self.negatives == "bank" and (self.kind == "unbiased" or self.num_positives > 1 or self.beta):
            raise ValueError(
                "negatives=bank has one positive, no tilt and no oracle; got "
                f"kind={self.kind}, num_positives={self.num_positives}, beta={self.beta}: use debiased, 1 and 0"
            )
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum must lie in [0, 1]; got {self.momentum}: 0.99 to 0.999 is usual")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive; got {self.temperature}: 0.5 is the paper's")
        if self.num_positives < 1:
            raise ValueError(f"num_positives must be at least 1; got {self.num_positives}: the other view is one")
        check_at_least(1, num_positives=self.num_positives)
        if not 0 <= self.known_labels <= 1:
            raise ValueError(f"known_labels must lie in [0, 1]; got {self.known_labels}: it is a share")
        if self.auto and (self.kind != "debiased" or not self.tau_plus):
            raise ValueError(
                f"auto is for kind=debiased with tau_plus, the prior, above 0; got kind={self.kind}, "
                f"tau_plus={self.tau_plus}"
            )
        if self.known_labels and (self.kind != "debiased" or self.negatives != "batch"):
            raise ValueError(
                f"known_labels is for kind=debiased with negatives=batch; got kind={self.kind}, "
                f"negatives={self.negatives}: set known_labels to 0"
            )

    @property
    def correction(self) -> float:
        """The tau_plus that the loss is given."""
        return self.tau_plus if self.kind == "debiased" else 0.0


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on."""

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    data: Data = field(default_factory=Data)
    views: SimCLRViews = field(default_factory=SimCLRViews)
    encoder: Encoder = field(default_factory=Encoder)
    objective: Objective = field(default_factory=Objective)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        has_bank = self.objective.negatives == "bank"
        if has_bank != self.encoder.pair or has_bank == (self.views.space == "rgb"):
            raise ValueError(
                "a bank is for a pair of encoders, of luminance and colour, and these for a bank; got "
                f"negatives={self.objective.negatives}, pair={self.encoder.pair}, space={self.views.space}: use "
                "--objective.negatives bank, --encoder.pair and --views.space lab or ycbcr together, or none"
            )


def from_json(content: dict[str, Any]) -> Settings:
    """The settings that `as_json` wrote; a name that is unknown or missing is an error."""
    result: Settings = made_from(Settings, content)
    return result
