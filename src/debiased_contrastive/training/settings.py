"""What the settings of all domains have in common: objective, length and speed, checks, and their form as JSON."""

import os
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from debiased_contrastive.objectives.checks import check_choice, check_tau_plus
from debiased_contrastive.runs import SETTINGS

LARGEST_COUNT = 2**31
"""The largest value that a setting which counts something may have."""
Precision: TypeAlias = Literal["32-true", "bf16-mixed", "16-mixed"]
Schedule: TypeAlias = Literal["constant", "cosine", "steps"]
Order: TypeAlias = Literal["epochs", "drawn"]
T = TypeVar("T")


@dataclass(frozen=True)
class Objective:
    """Which loss is trained: the part that all domains share."""

    kind: str = "debiased"
    tau_plus: float = 0.1
    """Probability that an unlabeled sample has the anchor's class. Only the debiased loss uses it."""

    def __post_init__(self) -> None:
        check_words(self)
        check_tau_plus(self.tau_plus)
        temperature = getattr(self, "temperature", None)
        if temperature is not None and not temperature > 0:
            raise ValueError(
                f"temperature must be positive; got {temperature}: 0.1 to 0.5 is usual for unit vectors"
            )

    @property
    def correction(self) -> float:
        """The tau_plus that the loss is given."""
        return self.tau_plus if self.kind == "debiased" else 0.0


@dataclass(frozen=True)
class Training:
    """How long and how fast to train, and on which device."""

    epochs: int = 400
    """Number of passes over the data."""
    batch: int = 256
    """Number of samples in a batch, over all processes."""
    learning_rate: float = 1e-3
    """Step size of the optimiser, before the schedule changes it."""
    weight_decay: float = 1e-6
    """Strength of the pull of all weights towards 0."""
    schedule: Schedule = "constant"
    """How the learning rate falls: not at all, along a cosine to 0, or in steps to a tenth after a half, two thirds
    and five sixths of the training."""
    warm_up: int = 0
    """Number of epochs in which the learning rate rises to its full value."""
    accelerator: str = "auto"
    """The device to train on, as Lightning Fabric calls it: auto, cpu, gpu, ..."""
    precision: Precision = "32-true"
    """Compute with 32 bits (32-true), or with 16 bits where that is safe."""
    log_every: int = 10
    """Number of steps between two lines of metrics."""
    checkpoint_every: int = 0
    """Number of steps between two checkpoints; 0 writes one after each epoch."""
    clip: float = 0.0
    """Largest norm of the gradient of each weight; 0 sets no limit."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Train with Adam, or with stochastic gradient descent and a momentum of 0.9."""

    def __post_init__(self) -> None:
        check_words(self)
        check_at_least(1, epochs=self.epochs, batch=self.batch, log_every=self.log_every)
        check_at_least(0, checkpoint_every=self.checkpoint_every, warm_up=self.warm_up)
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
    for name, value in values.items():
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
        if value > LARGEST_COUNT:
            raise ValueError(f"{name} must be at most {LARGEST_COUNT:,}; got {value}")


def check_within(low: float, high: float, advice: str, **values: float) -> None:
    for name, value in values.items():
        if not low <= value <= high:
            raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; got {value}: {advice}")


def whole_path(path: Path | None) -> Path | None:
    # An absolute path, so that a run can be continued from anywhere.
    # Not `resolve`, which fails with more than a line where a link points to itself.
    return None if path is None else Path(os.path.realpath(path))


def as_json(settings: Any) -> dict[str, Any]:
    """The settings as JSON holds them, without the fields in `LATER` of their class that have their default."""
    later = _later(settings)
    values = ((item, getattr(settings, item.name)) for item in fields(settings))
    return {item.name: _plain(value) for item, value in values if item.name not in later or value != _default(item)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return as_json(value)
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _default(item: "Field[Any]") -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _later(kind: Any) -> frozenset[str]:
    later: frozenset[str] = getattr(kind, "LATER", frozenset())
    return later


def from_json(kind: type[T], content: dict[str, Any]) -> T:
    """Make settings of a class from what JSON held; a name that is unknown or missing is an error.

    A class may list in `EARLIER` the names of fields that it had in earlier versions; they are ignored. Those in
    `LATER` were added since: without them a run is what it was before, so their defaults are not written.
    """
    settings: T = _make(kind, content, "settings")
    return settings


def with_json(settings: T, content: Any, where: str, *, old_names: bool = False) -> T:
    """Put what JSON holds, which may be a part of the settings, in the place of their values.

    Args:
        settings: The settings that are changed.
        content: Values by name, sections as objects.
        where: Begins a message, such as the name of the file.
        old_names: Pass over names that earlier versions had, as whole files of theirs hold them.
    """
    if not isinstance(content, dict):
        raise ValueError(f"{where} must hold settings by name; got {content!r}")
    known = [item.name for item in fields(settings)]  # type: ignore[arg-type]
    ignored: frozenset[str] = getattr(settings, "EARLIER", frozenset()) if old_names else frozenset()
    if unknown := [name for name in content if name not in known and name not in ignored]:
        raise ValueError(f"{where} has {unknown[0]}, which is no setting there: use some of {', '.join(known)}")
    hints, changed = get_type_hints(type(settings)), {}
    for name in (name for name in known if name in content):
        own, given, place = getattr(settings, name), content[name], f"{where}: {name}"
        if is_dataclass(own):
            changed[name] = with_json(own, given, place, old_names=old_names)
        else:
            changed[name] = _convert(hints[name], given, place, "change it there")
    return replace(settings, **changed)  # type: ignore[type-var]


def _make(kind: Any, content: Any, where: str) -> Any:
    names = {item.name for item in fields(kind)}
    given = set(content) - getattr(kind, "EARLIER", frozenset()) if isinstance(content, dict) else set()
    missing = _later(kind) - given
    if given != names - missing:
        raise ValueError(
            f"{where} must have exactly {', '.join(sorted(names))}; got {sorted(given - names)} too many and "
            f"{sorted(names - given - missing)} too few: the run was made by another version"
        )
    hints = get_type_hints(kind)
    return kind(**{name: _convert(hints[name], content[name], f"{where}.{name}") for name in names - missing})


def _convert(hint: Any, value: Any, where: str, advice: str = f"restore {SETTINGS} from a copy") -> Any:
    if is_dataclass(hint):
        return _make(hint, value, where)
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if _fits(kind, value):
            return tuple(value) if isinstance(value, list) else Path(value) if kind is Path else value
    wanted = " or ".join(map(str, get_args(hint))) if get_origin(hint) is Literal else _name(hint)
    raise ValueError(f"{where} must be {wanted}; got {value!r}: {advice}")


def _fits(kind: Any, value: Any) -> bool:
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
