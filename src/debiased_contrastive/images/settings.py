"""The settings of a training on images, which are flags and JSON too."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.views import ColourViews, Views
from debiased_contrastive.objectives.checks import OnFloor, check_beta
from debiased_contrastive.training.membership import check_membership
from debiased_contrastive.training.settings import (
    Objective,
    Order,
    Training,
    check_at_least,
    check_within,
    check_words,
    from_json,
    whole_path,
)

EncoderName: TypeAlias = Literal["small", "resnet18", "resnet34", "resnet50"]


@dataclass(frozen=True)
class Data:
    """Which images to learn from."""

    LATER: ClassVar[frozenset[str]] = frozenset({"image_column", "label_column", "train_split", "test_split"})

    name: Literal["fashion", "fashion-mnist", "cifar10", "stl10", "folder", "hf", "dataset"] = "cifar10"
    """fashion is a part of Fashion-MNIST that comes with the package, fashion-mnist all of it; folder is any
    folder of images; hf a Hugging Face data set that save_to_disk wrote; dataset stands in runs that were begun
    from Python, with images of their own."""
    root: Path | None = None
    """Folder of the images; if not given, the environment variable DEBIASED_DATA says it."""
    test_root: Path | None = None
    """For a folder: the folder of test images, with the same class folders; an evaluation needs it."""
    classes: tuple[int, ...] = ()
    """Numbers of the classes to use; all of them if empty."""
    per_class: int | tuple[int, ...] | None = None
    """Number of training images of each class to use, the first ones, or one number for each class; all if not
    given."""
    folder_size: int = 64
    """For a folder and hf: side in pixels to which images are scaled and cropped when they are read."""
    order: Order = "epochs"
    """See each image once in an epoch (epochs), or draw every batch anew (drawn). With a memory bank, epochs give
    away which row is an image's own: towards their end it is one of the old ones."""
    image_column: str = "image"
    """For hf: the column of images."""
    label_column: str | None = "label"
    """For hf: the column of labels, class labels, whole numbers or words; None reads none."""
    train_split: str = "train"
    """For hf: the split to train on."""
    test_split: str = "test"
    """For hf: the split to evaluate on."""

    def __post_init__(self) -> None:
        check_words(self)
        counts = (self.per_class,) if isinstance(self.per_class, int) else self.per_class or ()
        for count in counts:
            check_at_least(1, per_class=count)
        if isinstance(self.per_class, tuple) and self.classes and len(self.classes) != len(self.per_class):
            raise ValueError(
                f"per_class must have one number for each of the {len(self.classes)} classes; got {len(counts)}"
            )
        check_at_least(1, folder_size=self.folder_size)


@dataclass(frozen=True)
class Encoder:
    """The network whose features are wanted."""

    EARLIER: ClassVar[frozenset[str]] = frozenset({"pair", "hidden_dim"})

    name: EncoderName | str = "resnet50"
    """The architecture: a small convolutional network, a ResNet, or timm:NAME, a model of timm with random weights;
    stem and width say nothing there."""
    stem: Literal["imagenet", "cifar"] = "cifar"
    """First layer of a ResNet: 3 x 3 without max-pool for small images, or the usual one."""
    width: int = 64
    """Number of channels of the first stage."""
    out_dim: int = 128
    """Dimension of the embeddings that the loss compares."""

    def __post_init__(self) -> None:
        check_words(self)
        if self.name not in (words := get_args(EncoderName)) and not self.name.startswith("timm:"):
            raise ValueError(f"encoder.name must be one of {', '.join(words)}, or timm:NAME; got {self.name!r}")
        check_at_least(1, width=self.width, out_dim=self.out_dim)


@dataclass(frozen=True)
class SimCLREncoder(Encoder):
    """The network whose features are wanted, and the head that is dropped after training."""

    EARLIER: ClassVar[frozenset[str]] = frozenset({"pair"})

    hidden_dim: int = 512
    """Number of hidden units of the projector between features and embeddings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, hidden_dim=self.hidden_dim)


@dataclass(frozen=True)
class ImageObjective(Objective):
    """What the objectives of SimCLR and of multiview coding share."""

    temperature: float = 0.5
    """Divides the similarities: a low one looks at the nearest samples alone."""
    on_floor: OnFloor = "clamp"
    """What to use where the estimate of the true negatives falls below its smallest possible value: clamp takes
    that value, biased takes the biased loss, smooth rounds the corner, cap_tau lowers tau_plus beforehand."""
    auto: bool = False
    """Take tau_plus as the prior, and let the value that the loss uses adapt during training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auto and (self.kind != "debiased" or not self.tau_plus):
            raise ValueError(
                f"auto is for kind=debiased with tau_plus, the prior, above 0; got kind={self.kind}, "
                f"tau_plus={self.tau_plus}"
            )


@dataclass(frozen=True)
class SimCLRObjective(ImageObjective):
    """Which loss, and which samples it compares."""

    EARLIER: ClassVar[frozenset[str]] = frozenset({"bank_negatives", "bank_momentum", "exclude_own"})
    LATER: ClassVar[frozenset[str]] = frozenset({"decoupled"})

    kind: Literal["biased", "debiased", "unbiased"] = "debiased"
    """The usual loss, the corrected one, or the oracle that reads every label."""
    num_positives: int = 1
    """Number of positive views of each image, beside the anchor's own view. The debiased loss estimates the class
    with all of them; in the biased one, with a batch of unlabeled samples, each is the numerator in turn."""
    known_labels: float = 0.0
    """Share of the labels that the correction may read: images of the same known class are positives."""
    beta: float = 0.0
    """Weight of hard negatives; 0 weights all negatives alike."""
    decoupled: bool = False
    """Leave the positive out of the denominator (Yeh et al., 2022)."""
    negatives: Literal["batch", "queue"] = "batch"
    """Unlabeled samples are the other images of the batch, or a queue of keys from a momentum encoder."""
    queue_size: int = 4096
    """Number of keys in the queue."""
    momentum: float = 0.99
    """With a queue: share of its old weights that the key encoder keeps at each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beta(self.beta)
        check_at_least(1, queue_size=self.queue_size)
        check_within(0, 1, "0.99 to 0.999 is usual", momentum=self.momentum)
        if self.num_positives < 1:
            raise ValueError(f"num_positives must be at least 1; got {self.num_positives}: the other view is one")
        check_at_least(1, num_positives=self.num_positives)
        check_within(0, 1, "it is a share", known_labels=self.known_labels)
        if self.known_labels and (self.kind != "debiased" or self.negatives != "batch"):
            raise ValueError(
                f"known_labels is for kind=debiased with negatives=batch; got kind={self.kind}, "
                f"negatives={self.negatives}: set known_labels to 0"
            )


@dataclass(frozen=True)
class CMCObjective(ImageObjective):
    """Which loss between the luminance and the colour of an image, against memory banks of both."""

    EARLIER: ClassVar[frozenset[str]] = frozenset(
        {"num_positives", "known_labels", "beta", "negatives", "queue_size", "momentum"}
    )

    kind: Literal["biased", "debiased"] = "debiased"
    """The usual loss, or the corrected one."""
    tau_plus: float = 0.01
    """Probability that an unlabeled sample has the anchor's class. Only the debiased loss uses it."""
    temperature: float = 0.07
    """Divides the similarities: a low one looks at the nearest samples alone."""
    on_floor: OnFloor = "biased"
    """What to use where the estimate of the true negatives falls below its smallest possible value: clamp takes
    that value, biased takes the biased loss, smooth rounds the corner, cap_tau lowers tau_plus beforehand."""
    bank_negatives: int = 4096
    """Number of unlabeled samples that are drawn from a bank for each anchor, with replacement."""
    bank_momentum: float = 0.5
    """Share of its old value that a row of a bank keeps when it is updated."""
    exclude_own: bool = False
    """Leave an anchor's own image out of its unlabeled samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, bank_negatives=self.bank_negatives)
        if not 0 <= self.bank_momentum < 1:
            raise ValueError(f"bank_momentum must lie in [0, 1); got {self.bank_momentum}: 0.5 is usual")


@dataclass(frozen=True)
class ImageTraining(Training):
    """How long and how fast to train on images, and on which device."""

    knn_every: int = 0
    """Number of epochs between two measurements of the kNN accuracy; 0 measures none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(0, knn_every=self.knn_every)


@dataclass(frozen=True)
class SimCLRSettings:
    """Everything that a run of SimCLR depends on."""

    LATER: ClassVar[frozenset[str]] = frozenset({"membership"})

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    """Weights, order and views are drawn from it."""
    data: Data = field(default_factory=Data)
    views: Views = field(default_factory=Views)
    encoder: SimCLREncoder = field(default_factory=SimCLREncoder)
    objective: SimCLRObjective = field(default_factory=SimCLRObjective)
    training: ImageTraining = field(default_factory=ImageTraining)
    membership: ImageMembership = field(default_factory=ImageMembership)

    def __post_init__(self) -> None:
        objective = self.objective
        idle = {"known_labels": objective.known_labels > 0, "num_positives": objective.num_positives > 1}
        check_membership(self.membership, objective.kind, self.training.epochs, auto=objective.auto, **idle)


@dataclass(frozen=True)
class CMCSettings:
    """Everything that a run of contrastive multiview coding depends on."""

    LATER: ClassVar[frozenset[str]] = frozenset({"membership"})

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    """Weights, order, views and rows of the banks are drawn from it."""
    data: Data = field(default_factory=Data)
    views: ColourViews = field(default_factory=ColourViews)
    encoder: Encoder = field(default_factory=Encoder)
    """There are two of them, for luminance and for colour, whose features are joined."""
    objective: CMCObjective = field(default_factory=CMCObjective)
    training: ImageTraining = field(default_factory=ImageTraining)
    membership: ImageMembership = field(default_factory=ImageMembership)

    def __post_init__(self) -> None:
        check_membership(self.membership, self.objective.kind, self.training.epochs, auto=self.objective.auto)


ImageSettings: TypeAlias = SimCLRSettings | CMCSettings


def read_settings(content: dict[str, Any]) -> ImageSettings:
    """Read the settings in settings.json; those of multiview coding are known by their memory banks."""
    objective = content.get("objective") if isinstance(content, dict) else None
    named = objective if isinstance(objective, dict) else {}
    has_banks = named.get("negatives", "bank") == "bank" and "bank_negatives" in named
    return from_json(CMCSettings, content) if has_banks else from_json(SimCLRSettings, content)


def move_data(settings: ImageSettings, root: Path | None = None, test_root: Path | None = None) -> ImageSettings:
    given: dict[str, Any] = {name: path for name, path in (("root", root), ("test_root", test_root)) if path}
    return replace(settings, data=replace(settings.data, **given))


def with_whole_paths(settings: ImageSettings) -> ImageSettings:
    """Make the paths absolute, so that the run can be continued from anywhere."""
    membership = replace(settings.membership, file=whole_path(settings.membership.file))
    moved = move_data(settings, whole_path(settings.data.root), whole_path(settings.data.test_root))
    return replace(moved, membership=membership)
