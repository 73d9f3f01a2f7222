import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from debiased_contrastive.membership import kmeans
from debiased_contrastive.membership.kmeans import centroids, nearest_centroids


def test_steps_are_those_of_scikit_learn() -> None:
    rows = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    start = centroids(rows, 7, steps=0, generator=torch.Generator().manual_seed(1))
    ours = centroids(rows, 7, steps=100, generator=torch.Generator().manual_seed(1))
    oracle = KMeans(7, init=start.numpy(), n_init=1, tol=0, algorithm="lloyd").fit(rows.numpy())
    np.testing.assert_allclose(ours.numpy(), oracle.cluster_centers_, atol=1e-5)
    assert nearest_centroids(rows, ours).tolist() == oracle.labels_.tolist()


def test_an_empty_cluster_stays_where_it_was() -> None:
    rows = torch.tensor([[1.0, 0.0]] * 5)
    assert centroids(rows, 3, steps=4, generator=torch.Generator()).tolist() == [[1.0, 0.0]] * 3


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    whole = nearest_centroids(rows, rows[:9])
    monkeypatch.setattr(kmeans, "ELEMENTS", 30)
    assert torch.equal(nearest_centroids(rows, rows[:9]), whole)
    assert whole[:9].tolist() == list(range(9))
