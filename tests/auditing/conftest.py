"""Audits in tests try few numbers of clusters and few draws: the estimators have tests of their own."""

from typing import Any

import pytest

from debiased_contrastive.auditing import audit as room
from debiased_contrastive.prior import mixture
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers of clusters and few draws: the estimators have tests of their own."""
    monkeypatch.setattr(room, "cluster_prior", lambda rows, seed: _clusters(rows, seed))
    draws = {name: (function, 2) for name, (function, _) in mixture._ESTIMATORS.items()}
    monkeypatch.setattr(mixture, "_ESTIMATORS", draws)


@pytest.fixture
def real_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of clusters that users get."""
    monkeypatch.setattr(room, "cluster_prior", cluster_prior)


def _clusters(rows: Any, seed: int) -> PriorEstimate:
    return cluster_prior(rows, grid=(2, 5, 10), seed=seed)
