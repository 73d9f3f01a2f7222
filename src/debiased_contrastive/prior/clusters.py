"""tau_plus from embeddings alone: clusters in place of classes."""

import warnings as python_warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from debiased_contrastive.prior.estimate import Array, PriorEstimate
from debiased_contrastive.prior.labels import collision_prior

CLUSTER_NUMBERS = (2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100)
CLUSTERED_ROWS, SILHOUETTE_ROWS = 5000, 2000
"""Number of rows that are clustered, and of rows for the silhouette."""
NEARLY_BEST = 0.9
"""Share of the best silhouette from which on another is nearly as good."""
WEAK_SILHOUETTE = 0.2
"""Silhouette below which there may be no clusters at all."""


def cluster_prior(embeddings: Array, *, grid: tuple[int, ...] = CLUSTER_NUMBERS, seed: int = 0) -> PriorEstimate:
    """The share of pairs in one cluster, by spherical k-means with the number of clusters of the best silhouette.

    It needs no positives. No clustering can tell how fine the classes are: clusters that hold two classes inflate
    the estimate.

    Args:
        embeddings: (n, d) rows, at least 50, of any length but 0.
        grid: Numbers of clusters to try.
        seed: Seed of the clustering and of the rows that are taken.

    Returns:
        The estimate; its interval covers all numbers of clusters whose silhouette is nearly as good.

    Raises:
        ValueError: If the embeddings are too few, not finite, zero or all equal.
    """
    if embeddings.ndim != 2 or len(embeddings) < 50:
        raise ValueError(f"embeddings must be (n, d) with n at least 50; got shape {embeddings.shape}")
    generator = np.random.default_rng(seed)
    rows = embeddings[generator.permutation(len(embeddings))[:CLUSTERED_ROWS]].astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any() or not np.isfinite(rows).all():
        raise ValueError("embeddings must be finite and not zero: there is no direction to cluster by")
    rows = rows / norms
    tried: list[tuple[float, int, PriorEstimate]] = []
    for k in (k for k in grid if k <= len(rows) // 5):
        with python_warnings.catch_warnings():
            # It warns of fewer distinct rows than clusters, which the silhouette shows, too.
            python_warnings.simplefilter("ignore")
            labels = KMeans(k, n_init=4, random_state=seed).fit_predict(rows)
        if len(np.unique(labels[:SILHOUETTE_ROWS])) < 2:
            continue
        score = silhouette_score(rows[:SILHOUETTE_ROWS], labels[:SILHOUETTE_ROWS], metric="cosine")
        tried.append((float(score), k, collision_prior(labels)))
    if not tried:
        raise ValueError("embeddings must not all be equal: there is nothing to cluster")
    best, k, estimate = max(tried, key=lambda trial: trial[0])
    near = [each for score, _, each in tried if score >= best - (1 - NEARLY_BEST) * abs(best)]
    doubts = [f"how fine the classes are is the clustering's choice: {k} clusters"]
    if best < WEAK_SILHOUETTE:
        doubts.append(f"the clusters are weak (silhouette {best:.2f}): there may be none")
    if k == tried[0][1]:
        doubts.append("the coarsest that is tried: finer classes would have a smaller tau_plus")
    if k == tried[-1][1]:
        doubts.append("the finest that is tried: tau_plus may be smaller")
    low, high = min(each.low for each in near), max(each.high for each in near)
    return PriorEstimate("clusters", estimate.value, low, high, tuple(doubts))
