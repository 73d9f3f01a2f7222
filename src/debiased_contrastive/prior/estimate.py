"""What every estimator returns, and what the ones that read similarities are given."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PriorEstimate:
    """An estimate of tau_plus, the probability that two random samples share a class."""

    method: str
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    warnings: tuple[str, ...] = ()
    """Why it should not be trusted, in words; empty where nothing speaks against it."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Similarities of pairs that share a class, and of random pairs.

    The estimators that read them find the share of the first kind in the second. They all look for similarities
    that only pairs of one class have, and take that share where they find them.
    """

    positive: Array
    """(n,)"""
    random: Array
    """(m,)"""
    items: int | None = None
    """Number of different items in the pairs: pairs that share items say less than as many independent ones."""

    def __post_init__(self) -> None:
        for name, scores in (("positive", self.positive), ("random", self.random)):
            if scores.ndim != 1 or len(scores) < 20:
                raise ValueError(f"{name} must hold at least 20 similarities in one row; got shape {scores.shape}")
            if not np.isfinite(scores).all():
                raise ValueError(f"{name} must be finite; got {int((~np.isfinite(scores)).sum())} that are not")

    @property
    def effective(self) -> tuple[float, float]:
        """Numbers of independent pairs that the positive and the random ones are worth."""
        most = np.inf if self.items is None else self.items / 2
        return min(len(self.positive), most), min(len(self.random), most)

    def drawn(self, generator: np.random.Generator, most: tuple[int, int] | None = None) -> "Scores":
        """As many again, with replacement; at most so many of each."""
        sizes = (len(self.positive), len(self.random)) if most is None else most
        positive, random = (
            generator.choice(scores, min(size, len(scores)))
            for scores, size in zip((self.positive, self.random), sizes, strict=True)
        )
        return Scores(positive, random, self.items)
