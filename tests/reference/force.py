"""The force share in loops over Python floats, from its definition."""

import math
from collections.abc import Sequence

Vector = Sequence[float]


def force_share(
    z: Sequence[Vector],
    labels: Sequence[int],
    q: Sequence[Vector],
    temperature: float,
    strength: float,
    tangent: bool,
) -> float:
    """The share for unit vectors z and the probabilities q that two samples share a class."""
    known = [i for i, label in enumerate(labels) if label >= 0]
    wrong = bias = 0.0
    for i in known:
        others = [j for j in known if j != i]
        if all(labels[j] == labels[i] for j in others):
            continue
        logits = [dot(z[i], z[j]) / temperature for j in others]
        biased = force(z, others, logits, [1.0 for _ in others])
        unbiased = force(z, others, logits, [float(labels[j] != labels[i]) for j in others])
        found = force(z, others, logits, [max(0.0, 1 - strength * q[i][j]) for j in others])
        wrong += distance(found, unbiased, z[i], tangent)
        bias += distance(biased, unbiased, z[i], tangent)
    return 1 - wrong / bias


def force(z: Sequence[Vector], others: Sequence[int], logits: Vector, weights: Vector) -> list[float]:
    largest = max(logits)
    terms = [w * math.exp(s - largest) for w, s in zip(weights, logits, strict=True)]
    total = sum(terms)
    if total == 0:
        return [0.0] * len(z[0])
    return [sum(term * z[j][k] for term, j in zip(terms, others, strict=True)) / total for k in range(len(z[0]))]


def distance(first: Vector, second: Vector, anchor: Vector, tangent: bool) -> float:
    """Square of what lies between two forces, without what lies along the anchor."""
    between = [a - b for a, b in zip(first, second, strict=True)]
    radial = dot(between, anchor) if tangent else 0.0
    return dot(between, between) - radial**2


def dot(first: Vector, second: Vector) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))
