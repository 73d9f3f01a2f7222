"""What the parts that serve every domain (command line, report, runner) must know of one. Never imports torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

S = TypeVar("S")
"""The settings of a domain."""


@dataclass(frozen=True)
class Metric:
    """A column of the tables."""

    key: str
    heading: str
    meaning: str
    percent: bool = True
    decimals: int = 1
    place: tuple[str, ...] = ()
    """Where evaluation.json holds it: ("linear", "top1") is the entry top1 of linear. Its key if not given."""

    @property
    def scale(self) -> float:
        """From the number to what is shown."""
        return 100.0 if self.percent else 1.0


@dataclass(frozen=True)
class Preset(Generic[S]):
    """Named settings, with a line that says what they are."""

    what: str
    settings: S


@dataclass(frozen=True)
class Domain:
    """One kind of data to learn from; a run's settings.json names its domain."""

    name: str
    extra: str
    """The extra of the package that brings its libraries."""
    unit: str
    """What speed is counted in, such as images."""
    presets: Mapping[str, Preset[Any]]
    results: tuple[Metric, ...]
    """Columns of the results, in their order."""
    mains: tuple[Metric, ...]
    """What costs and gaps are counted in: the first of them that any run of a comparison has."""
    describe_data: Callable[[Mapping[str, Any]], str]
    """From the settings of a run, as JSON holds them, to its data in words; empty where they do not say."""
