"""SupCon by loops over Python lists of vectors, with the debiased mean of what is unlabeled."""

import math

from tests.reference.batches import Vector, similarity
from tests.reference.equations import g


def supcon(
    features: list[list[Vector]],
    same: list[list[float]],
    is_known: list[list[bool]],
    temperature: float,
    tau_plus: list[float],
    *,
    on_floor: str = "clamp",
) -> list[float]:
    """The loss of each anchor, all of view 0 first. same: weight of input j as a positive of input i.

    is_known: whether it is known that input j has another class than i, where it is no positive.
    """
    b, v = len(features), len(features[0])
    losses = []
    for k in range(v):
        for i in range(b):
            others = [(j, w) for j in range(b) for w in range(v) if (j, w) != (i, k)]
            s = {(j, w): similarity(features[i][k], features[j][w], temperature, True) for j, w in others}
            weight = {(j, w): 1.0 if j == i else same[i][j] for j, w in others}
            total = sum(weight.values())
            if total == 0:
                losses.append(0.0)
                continue
            unlabeled = [s[j, w] for j, w in others if weight[j, w] < 1 and not is_known[i][j]]
            denominator = sum(math.exp(s[j, w]) for j, w in others if weight[j, w] == 1 or is_known[i][j])
            if unlabeled:
                positives = [s[place] for place in others if weight[place] == 1]
                mean = sum(math.exp(u) for u in unlabeled) / len(unlabeled)
                if tau_plus[i] > 0:
                    mean = g(unlabeled, positives, tau_plus[i], -1 / temperature, on_floor)
                denominator += len(unlabeled) * mean
            losses.append(-sum(weight[p] * (s[p] - math.log(denominator)) for p in others) / total)
    return losses
