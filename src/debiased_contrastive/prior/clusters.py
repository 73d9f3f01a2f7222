"""tau_plus from embeddings alone: clusters in place of classes."""

import warnings as python_warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from debiased_contrastive.prior.estimate import Array, PriorEstimate
from debiased_contrastive.prior.labels import collision_prior

GRID = (2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100)
MOST, JUDGED = 5000, 2000
"""Rows that are clustered, and rows of them that judge how well."""
NEARLY = 0.9
"""Share of the best silhouette that is nearly as good."""
WEAK = 0.2
"""Silhouette below which there may be no clusters at all."""


def cluster_prior(embeddings: Array, *, grid: tuple[int, ...] = GRID, seed: int = 0) -> PriorEstimate:
    """The share of pairs in one cluster, of spherical k-means whose number has the best cosine silhouette.

    Needs no positives. How fine classes are is a choice that no clustering can make: clusters that hold two
    classes inflate the estimate. The interval covers what all numbers of clusters say whose silhouette is nearly as
    good.
    """
    if embeddings.ndim != 2 or len(embeddings) < 50:
        raise ValueError(f"embeddings must be (n, d) with n at least 50; got shape {embeddings.shape}")
    generator = np.random.default_rng(seed)
    rows = embeddings[generator.permutation(len(embeddings))[:MOST]].astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any() or not np.isfinite(rows).all():
        raise ValueError("embeddings must be finite and not zero: there is no direction to cluster by")
    rows = rows / norms
    tried: list[tuple[float, int, PriorEstimate]] = []
    for k in (k for k in grid if k <= len(rows) // 5):
        with python_warnings.catch_warnings():
            # Fewer distinct rows than clusters: the silhouette says it, too.
            python_warnings.simplefilter("ignore")
            labels = KMeans(k, n_init=4, random_state=seed).fit_predict(rows)
        if len(np.unique(labels[:JUDGED])) < 2:
            continue
        score = silhouette_score(rows[:JUDGED], labels[:JUDGED], metric="cosine")
        tried.append((float(score), k, collision_prior(labels)))
    if not tried:
        raise ValueError("embeddings must not all be equal: there is nothing to cluster")
    best, k, found = max(tried, key=lambda one: one[0])
    near = [one for score, _, one in tried if score >= best - (1 - NEARLY) * abs(best)]
    doubts = [f"how fine the classes are is the clustering's choice: {k} clusters"]
    if best < WEAK:
        doubts.append(f"the clusters are weak (silhouette {best:.2f}): there may be none")
    if k == tried[0][1]:
        doubts.append("the coarsest that is tried: finer classes would have a smaller tau_plus")
    if k == tried[-1][1]:
        doubts.append("the finest that is tried: tau_plus may be smaller")
    low, high = min(one.low for one in near), max(one.high for one in near)
    return PriorEstimate("clusters", found.value, low, high, tuple(doubts))
