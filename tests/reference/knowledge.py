"""The loss with knowledge about classes, by loops over Python lists; q is a table of the probability of a common class."""

import math

from tests.reference.batches import Batch, Vector, similarity

Table = list[list[float]]


def of_membership(rows: Table, columns: Table) -> Table:
    return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in columns] for row in rows]


def of_partitions(rows: list[list[int]], columns: list[list[int]]) -> Table:
    return [
        [sum(p == q and p >= 0 for p, q in zip(row, column, strict=True)) / len(row) for column in columns]
        for row in rows
    ]


def one_loss(
    positive: float,
    unlabeled: list[float],
    q: list[float],
    *,
    strength: float,
    attraction: float,
    above: float,
    beta: float,
) -> float:
    """w = max(0, 1 - strength q), g = sum w e^{(1 + beta) u} / sum w e^{beta u}, and the mean of the numerator."""
    weights = [max(0.0, 1 - strength * same) for same in q]
    g = 0.0
    if sum(weights) > 0:
        top = sum(w * math.exp((1 + beta) * u) for w, u in zip(weights, unlabeled, strict=True))
        g = top / sum(w * math.exp(beta * u) for w, u in zip(weights, unlabeled, strict=True))
    pulling = [(attraction * same, u) for same, u in zip(q, unlabeled, strict=True) if same > above]
    numerator = (positive + sum(a * u for a, u in pulling)) / (1 + sum(a for a, _ in pulling))
    pairs = zip(q, weights, unlabeled, strict=True)
    lacking = sum(max(0.0, attraction * same - w) * math.exp(u) for same, w, u in pairs if same > above)
    return math.log(math.exp(positive) + lacking + len(unlabeled) * g) - numerator


def nt_xent(
    views: list[Batch],
    q: Table,
    temperature: float,
    *,
    strength: list[float],
    attraction: float = 0.0,
    above: float = 0.5,
    beta: float = 0.0,
    normalize: bool = True,
) -> list[float]:
    """The loss of each anchor: all of view 0, then all of view 1."""
    b = len(views[0])
    losses = []
    for k in (0, 1):
        for i in range(b):

            def s(other: Vector, anchor: Vector = views[k][i]) -> float:
                return similarity(anchor, other, temperature, normalize)

            others = [(w, j) for w in (0, 1) for j in range(b) if j != i]
            unlabeled = [s(views[w][j]) for w, j in others]
            of_others = [q[i][j] for _, j in others]
            losses.append(
                one_loss(
                    s(views[1 - k][i]),
                    unlabeled,
                    of_others,
                    strength=strength[i],
                    attraction=attraction,
                    above=above,
                    beta=beta,
                )
            )
    return losses


def info_nce(
    query: Batch,
    key: Batch,
    negatives: list[Batch] | None,
    q: Table,
    temperature: float,
    *,
    strength: float = 1.0,
    attraction: float = 0.0,
    above: float = 0.5,
) -> list[float]:
    """The loss of each query; `negatives` are each query's own, None is the other keys."""
    losses = []
    for i in range(len(query)):
        columns = key if negatives is None else negatives[i]
        kept = [j for j in range(len(columns)) if negatives is not None or j != i]
        unlabeled = [similarity(query[i], columns[j], temperature, True) for j in kept]
        positive = similarity(query[i], key[i], temperature, True)
        of_others = [q[i][j] for j in kept]
        losses.append(
            one_loss(
                positive, unlabeled, of_others, strength=strength, attraction=attraction, above=above, beta=0.0
            )
        )
    return losses
