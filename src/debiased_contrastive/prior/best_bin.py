"""Best-bin estimation (Garg et al., 2021): the ratio of the two upper tails, where it can be trusted most."""

import math

import numpy as np

from debiased_contrastive.prior.estimate import Array, Scores

GAMMA, DELTA = 0.01, 0.1


def best_bin(scores: Scores) -> float:
    """min over thresholds c of q_u(c) / q_p(c), by an upper confidence bound.

    With q the shares of similarities at or above c, and n, m the independent pairs, c minimises
    q_u / q_p + ((1 + gamma) / q_p) (sqrt(log(4 / delta) / 2m) + sqrt(log(4 / delta) / 2n)).

    Over-estimates where no similarity is so high that only pairs of one class have it.
    """
    return tail(scores)[0]


def tail(scores: Scores) -> tuple[float, int]:
    """The estimate, and how many random pairs its tail holds."""
    positive = np.sort(scores.positive)[::-1]
    random = np.sort(scores.random)
    # Ties count: the last place of a value among the positives is where its tail ends.
    places = np.flatnonzero(np.append(positive[1:] != positive[:-1], True))
    places = places[places >= 1]
    counts = len(random) - np.searchsorted(random, positive[places], side="left")
    q_p, q_u = (places + 1) / len(positive), counts / len(random)
    n, m = scores.effective
    spread = math.sqrt(math.log(4 / DELTA) / (2 * m)) + math.sqrt(math.log(4 / DELTA) / (2 * n))
    best = int(np.argmin(q_u / q_p + (1 + GAMMA) / q_p * spread))
    return min(1.0, float(q_u[best] / q_p[best])), int(counts[best])


def negated(scores: Scores) -> Scores:
    """Roles exchanged and signs turned: its best bin is the share of random pairs among the positive ones."""
    return Scores(-scores.random, -scores.positive, scores.items)


def separability(scores: Scores) -> float:
    """The chance that a positive pair is more similar than a random one, ties half."""
    random: Array = np.sort(scores.random)
    below = np.searchsorted(random, scores.positive, side="left")
    upto = np.searchsorted(random, scores.positive, side="right")
    return float((below + upto).mean() / (2 * len(random)))
