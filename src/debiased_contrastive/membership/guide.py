"""What the features of another model, or of an earlier state of the same one, say about classes."""

from typing import Literal

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import unit_rows
from debiased_contrastive.membership.graph import neighbour_graph, random_graph, walk
from debiased_contrastive.membership.inputs import Features, Labels, as_features
from debiased_contrastive.membership.kmeans import centroids, nearest_centroids
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.quality import rate
from debiased_contrastive.numerics import make_generator

FINEST = 12
"""Number of clusters of the finest clustering for each of the coarsest."""
FITTED_ROWS = 20_000
"""Rows from which the clusters are made; all rows are then put into them."""
LLOYD_STEPS = 15
CERTAIN = 50
ONE_DIRECTION = 1e-5
"""Largest difference of unit rows that is taken for rounding."""


@torch.no_grad()
def from_guide(
    features: Features,
    *,
    form: Literal["consensus", "walk", "random"] = "consensus",
    num_classes: int = 10,
    clusterings: int = 30,
    neighbours: int = 20,
    steps: int = 3,
    certain: int | None = None,
    kept: int = 500,
    labels: Labels | None = None,
    seed: int = 0,
) -> Knowledge:
    """q by the features of a guide, compared by their cosine; a zero row is unknown.

    "consensus": partitions, k-means with numbers of clusters from K to 12 K; q is the share of clusterings that put
    two samples together. It is soft and fine, so it needs no calibration.
    "walk": a graph, q by a short random walk on the neighbour graph; sharper, and better where neighbours are
    mostly of one class.
    "random": the control, the graph of the walk with partners drawn at random.

    Args:
        features: (n, d) embeddings of the guide.
        form: Which of the three.
        num_classes: K, a guess of the number of classes.
        clusterings: Number of clusterings of the consensus.
        neighbours: Nearest neighbours of each sample in the graph of the walk.
        steps: Length of the walk.
        certain: Number of ends of the walk for which q is about 1; 50 if not given, but in small data at most a
            quarter of a class, n / (4 K).
        kept: Ends of the walk that are kept for each sample; at most 2 n kept entries of 8 bytes are stored.
        labels: (n,) true classes, -1 = unknown, for the quality figures alone.
        seed: Seed of the clusterings and of the random graph; the walk needs none.
    """
    unit = unit_rows(as_features(features)).float()
    certain = max(1, min(CERTAIN, len(unit) // (4 * max(1, num_classes)))) if certain is None else certain
    for name, value in (("num_classes", num_classes), ("clusterings", clusterings), ("neighbours", neighbours),
                        ("steps", steps), ("certain", certain), ("kept", kept)):  # fmt: skip
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}: the default serves")
    doubts = []
    if bool(((unit - unit[0]).abs() < ONE_DIRECTION).all()):
        doubts.append("all rows point in one direction: the encoder collapsed, and nothing is known")
        unit = torch.zeros_like(unit)
    known = unit.square().sum(1) > 0
    if not doubts and not bool(known.all()):
        doubts.append(f"{int((~known).sum())} rows are zero: nothing is known of them")
    quality = {"known": float(known.float().mean())}
    if form == "consensus":
        codes = _consensus(unit, known, num_classes, clusterings, seed)
        return rate(Knowledge(partitions=codes, quality=quality, warnings=tuple(doubts)), labels)
    if form not in ("walk", "random"):
        raise ValueError(f'form must be "consensus", "walk" or "random"; got {form!r}')
    graph = walk(neighbour_graph(unit, neighbours), steps=steps, certain=certain, kept=kept)
    graph = random_graph(graph, seed) if form == "random" else graph
    return rate(Knowledge(graph=graph, quality=quality, warnings=tuple(doubts)), labels)


def _consensus(unit: Tensor, known: Tensor, num_classes: int, clusterings: int, seed: int) -> Tensor:
    """(n, B) numbers of clusters, from K of them to 12 K at even ratios; -1 for zero rows."""
    rows = unit[known]
    codes = torch.full((len(unit), clusterings), -1, dtype=torch.int32)
    for number in range(clusterings if len(rows) else 0):
        generator = make_generator(seed, "clustering", number)
        part = rows[torch.randperm(len(rows), generator=generator)[:FITTED_ROWS]]
        finer = FINEST ** (number / max(1, clusterings - 1))
        # With less than two rows a cluster nobody would share one.
        k = max(1, min(round(num_classes * finer), len(part) // 2))
        means = centroids(part, k, steps=LLOYD_STEPS, generator=generator)
        codes[known, number] = nearest_centroids(rows, means).int()
    return codes
