"""What the settings of all domains have in common: how long and how fast, checks, and their form as JSON."""

import os
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from debiased_contrastive.objectives.checks import check_choice
from debiased_contrastive.runs import SETTINGS
from debiased_contrastive.training.schedule import Schedule

MOST = 2**31
"""Of any number that counts something: no machine holds more of it."""
Precision: TypeAlias = Literal["32-true", "bf16-mixed", "16-mixed"]


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
