"""The settings of a run: frozen, checked when they are made, the same as flags, JSON and attributes."""

import os
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from debiased_contrastive.objectives.settings import OnFloor, check_beta, check_choice, check_tau_plus
from debiased_contrastive.runs import SETTINGS
from debiased_contrastive.training.order import Order
from debiased_contrastive.training.schedule import Schedule
from debiased_contrastive.views.simclr import SimCLRViews

MOST = 2**31
"""Of any number that counts something: no machine holds more of it."""
Precision: TypeAlias = Literal["32-true", "bf16-mixed", "16-mixed"]


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
class Training:
    """How long, how fast, on what."""

    epochs: int = 400
    batch: int = 256
    """Inputs in a batch, over all processes."""
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    schedule: Schedule = "constant"
    """steps: a tenth after a half, again after two thirds and after five sixths."""
    warm_up: int = 0
    """Epochs of linear warm-up."""
    accelerator: str = "auto"
    """Of Lightning Fabric: auto, cpu, gpu, ..."""
    precision: Precision = "32-true"
    log_every: int = 10
    """Steps between two lines of metrics."""
    checkpoint_every: int = 0
    """Steps between two checkpoints; 0 is once an epoch."""
    knn_every: int = 0
    """Epochs between two kNN accuracies on the way; 0 is never."""
    clip: float = 0.0
    """Largest length of the gradient of each weight; 0 is no limit."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """sgd has a momentum of 0.9."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, epochs=self.epochs, batch=self.batch, log_every=self.log_every)
        check_at_least(0, checkpoint_every=self.checkpoint_every, knn_every=self.knn_every, warm_up=self.warm_up)
        if not self.learning_rate > 0 or not self.weight_decay >= 0 or not self.clip >= 0:
            raise ValueError(
                "learning_rate must be positive, weight_decay and clip at least 0; got "
                f"{self.learning_rate}, {self.weight_decay} and {self.clip}"
            )


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


def check_words(settings: Any) -> None:
    """Raise where a field that must be one of a few words is another."""
    for name, hint in get_type_hints(type(settings)).items():
        if get_origin(hint) is Literal:
            check_choice(name, getattr(settings, name), hint)


def check_at_least(least: int, **values: int) -> None:
    """Raise unless all are whole numbers of at least that."""
    for name, value in values.items():
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
        if value > MOST:
            raise ValueError(f"{name} must be at most {MOST:,}; got {value}")


def whole_path(path: Path | None) -> Path | None:
    """The same place from wherever a run is continued."""
    # Not `resolve`, which fails with more than a line where a link points to itself.
    return None if path is None else Path(os.path.realpath(path))


def as_json(settings: Any) -> dict[str, Any]:
    """The settings as JSON can hold them."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, tuple):
            return [plain(inner) for inner in value]
        return str(value) if isinstance(value, Path) else value

    result: dict[str, Any] = plain(asdict(settings))
    return result


def from_json(content: dict[str, Any]) -> Settings:
    """The settings that `as_json` wrote; a name that is unknown or missing is an error."""
    result: Settings = made_from(Settings, content)
    return result


def made_from(kind: Any, content: dict[str, Any]) -> Any:
    """Settings of that class from what JSON held; a name that is unknown or missing is an error."""
    return _made(kind, content, "settings")


def _made(kind: Any, content: Any, where: str) -> Any:
    names = {item.name for item in fields(kind)}
    if not isinstance(content, dict) or set(content) != names:
        given = set(content) if isinstance(content, dict) else set()
        raise ValueError(
            f"{where} must have exactly {', '.join(sorted(names))}; got {sorted(given - names)} too many and "
            f"{sorted(names - given)} too few: the run was made by another version"
        )
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], content[name], f"{where}.{name}") for name in names})


def _value(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        return _made(hint, value, where)
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if _fits(kind, value):
            return tuple(value) if isinstance(value, list) else Path(value) if kind is Path else value
    wanted = " or ".join(map(str, get_args(hint))) if get_origin(hint) is Literal else _name(hint)
    raise ValueError(f"{where} must be {wanted}; got {value!r}: restore {SETTINGS} from a copy")


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value of JSON is one of that kind."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        inner = inner[:1] * len(value) if isinstance(value, list) and inner[-1] is ... else inner
        return isinstance(value, list) and len(value) == len(inner) and all(map(_fits, inner, value))
    # True is a number to Python, and to nobody else.
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, {float: int | float, Path: str}.get(kind, kind))


def _name(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint)) if get_origin(hint) is None else str(hint).replace("pathlib.", "")
