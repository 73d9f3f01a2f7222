"""What every estimator returns, and the similarities that some of them read."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PriorEstimate:
    """An estimate of tau_plus, the probability that two random samples share a class.

    Args:
        method: How it was estimated.
        value: The estimate.
        low: Lower end of the 95 % interval.
        high: Upper end of the 95 % interval.
        warnings: Reasons not to trust it, in words.
    """

    method: str
    value: float
    low: float
    high: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Scores:
    """Similarities of pairs that share a class, and of random pairs.

    The estimators find the share of the first kind in the second: they look for similarities that only pairs of one
    class have, and take the share there.

    Args:
        positive: (n,) similarities of pairs that share a class.
        random: (m,) similarities of random pairs.
        items: Number of different items in the pairs, if it is known: pairs that share items say less than as many
            independent ones.
    """

    positive: Array
    random: Array
    items: int | None = None

    def __post_init__(self) -> None:
        for name, scores in (("positive", self.positive), ("random", self.random)):
            if scores.ndim != 1 or len(scores) < 20:
                raise ValueError(f"{name} must hold at least 20 similarities in one row; got shape {scores.shape}")
            if not np.isfinite(scores).all():
                raise ValueError(f"{name} must be finite; got {int((~np.isfinite(scores)).sum())} that are not")

    @property
    def effective(self) -> tuple[float, float]:
        """The numbers of independent pairs that the positive and the random ones are worth."""
        most = np.inf if self.items is None else self.items / 2
        return min(len(self.positive), most), min(len(self.random), most)

    def resample(self, generator: np.random.Generator) -> "Scores":
        """Draw as many of each as are independent, with replacement."""
        n, m = self.effective
        return Scores(generator.choice(self.positive, int(n)), generator.choice(self.random, int(m)), self.items)

    def swap(self) -> "Scores":
        """Exchange the roles and turn the signs: the best bin is then the share of random among positive pairs."""
        return Scores(-self.random, -self.positive, self.items)
