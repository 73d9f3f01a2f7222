"""Who is anchor, positive and unlabeled in a batch, by loops over Python lists of vectors."""

import math

from tests.reference.equations import biased, debiased, unbiased

Vector = list[float]
Batch = list[Vector]


def similarity(x: Vector, y: Vector, temperature: float, normalize: bool) -> float:
    dot = sum(p * q for p, q in zip(x, y, strict=True))
    if normalize:
        dot /= math.sqrt(sum(p * p for p in x)) * math.sqrt(sum(q * q for q in y))
    return dot / temperature


def nt_xent(
    views: list[Batch],
    temperature: float,
    tau_plus: list[float],
    *,
    normalize: bool = True,
    on_floor: str = "clamp",
    beta: float = 0.0,
    labels: list[int] | None = None,
    positive_labels: list[int] | None = None,
    every_positive: bool = False,
) -> list[float]:
    """The loss of each anchor: all of view 0, then all of view 1."""
    b = len(views[0])
    lower = -1 / temperature if normalize else -math.inf
    losses = []
    for k in (0, 1):
        for i in range(b):

            def s(other: Vector, anchor: Vector = views[k][i]) -> float:
                return similarity(anchor, other, temperature, normalize)

            positive = s(views[1 - k][i])
            unlabeled = [s(views[w][j]) for w in (0, 1) for j in range(b) if j != i]
            positives = [s(views[w][i]) for w in range(len(views)) if w != k]
            numerators = positives if every_positive else [positive]
            if labels is not None:
                true = [s(views[w][j]) for w in (0, 1) for j in range(b) if labels[j] != labels[i]]
                losses.append(unbiased(positive, true, q=len(unlabeled), beta=beta))
                continue
            if positive_labels is not None and positive_labels[i] >= 0:
                same = [
                    s(views[w][j])
                    for w in (0, 1)
                    for j in range(b)
                    if j != i and positive_labels[j] == positive_labels[i]
                ]
                positives = same or positives
            each = [debiased(one, unlabeled, positives, tau_plus[i], lower, on_floor, beta) for one in numerators]
            losses.append(sum(each) / len(each))
    return losses


def info_nce(
    query: Batch,
    key: Batch,
    temperature: float,
    tau_plus: list[float],
    *,
    negatives: Batch | list[Batch] | None = None,
    extra_keys: list[Batch] | None = None,
    labels: list[int] | None = None,
    negative_labels: list[list[int]] | None = None,
    ids: list[int] | None = None,
    negative_ids: list[list[int]] | None = None,
    normalize: bool = True,
    on_floor: str = "clamp",
    beta: float = 0.0,
) -> list[float]:
    """The loss of each query. `negatives`: None, or for each query its own list of vectors."""
    b = len(query)
    lower = -1 / temperature if normalize else -math.inf
    losses = []
    for i in range(b):
        candidates: list[tuple[Vector, int, int]] = []
        if negatives is None:
            candidates += [(key[j], labels[j] if labels else 0, ids[j] if ids else -1) for j in range(b) if j != i]
        else:
            for j, vector in enumerate(negatives[i]):
                label = negative_labels[i][j] if negative_labels else 0
                candidates.append((vector, label, negative_ids[i][j] if negative_ids else -1))  # type: ignore[arg-type]
        if ids is not None:
            candidates = [c for c in candidates if c[2] < 0 or c[2] != ids[i]]
        positive = similarity(query[i], key[i], temperature, normalize)
        unlabeled = [similarity(query[i], c[0], temperature, normalize) for c in candidates]
        positives = [positive]
        if extra_keys is not None:
            positives += [similarity(query[i], v, temperature, normalize) for v in extra_keys[i]]
        if labels is not None:
            true = [similarity(query[i], c[0], temperature, normalize) for c in candidates if c[1] != labels[i]]
            losses.append(unbiased(positive, true, q=len(unlabeled), beta=beta))
        elif tau_plus[i] == 0 and beta == 0:
            losses.append(biased(positive, unlabeled))
        else:
            losses.append(debiased(positive, unlabeled, positives, tau_plus[i], lower, on_floor, beta))
    return losses
