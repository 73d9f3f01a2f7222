import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from debiased_contrastive.membership import graph as module
from debiased_contrastive.membership.graph import neighbour_graph, random_graph, walk
from debiased_contrastive.numerics import unit_rows


def points(n: int, seed: int, d: int = 3) -> torch.Tensor:
    return unit_rows(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)))


def slow_neighbours(unit: torch.Tensor, k: int) -> list[list[float]]:
    n = len(unit)
    cosines = (unit @ unit.T).tolist()
    nearest = [sorted((j for j in range(n) if j != i), key=lambda j, i=i: -cosines[i][j])[:k] for i in range(n)]  # type: ignore[misc]
    return [[float(j in nearest[i] or i in nearest[j]) for j in range(n)] for i in range(n)]


def slow_walk(a: list[list[float]], steps: int, certain: int) -> list[list[float]]:
    """From the sums over all paths, without matrices."""
    n, degrees = len(a), [sum(row) for row in a]

    def likelihood(i: int, j: int, left: int) -> float:
        if left == 0:
            return float(i == j)
        return sum(
            a[i][m] / math.sqrt(degrees[i] * degrees[m]) * likelihood(m, j, left - 1) for m in range(n) if a[i][m]
        )

    def knowledge(i: int, j: int) -> float:
        more = likelihood(i, j, steps) - math.sqrt(degrees[i] * degrees[j]) / sum(degrees)
        return more if more > 1e-6 else 0.0

    s = [[0.0 if i == j else knowledge(i, j) for j in range(n)] for i in range(n)]
    reference = []
    for row in s:
        above = sorted((value for value in row if value > 0), reverse=True)
        reference.append(above[min(certain, len(above)) - 1] if above else 1.0)
    return [[min(1.0, s[i][j] / math.sqrt(reference[i] * reference[j])) for j in range(n)] for i in range(n)]


@given(st.integers(2, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 50))
def test_the_walk_is_the_sum_over_paths(n: int, k: int, steps: int, certain: int, seed: int) -> None:
    unit = points(n, seed)
    a = slow_neighbours(unit, k)
    graph = neighbour_graph(unit, k)
    np.testing.assert_array_equal(graph.toarray(), a)
    q = walk(graph, steps=steps, certain=certain, kept=n)
    np.testing.assert_allclose(q.toarray(), slow_walk(a, steps, certain), atol=1e-5)


@given(st.integers(5, 60), st.integers(1, 20), st.integers(1, 8), st.integers(0, 20))
def test_a_walk_is_symmetric_between_0_and_1_and_bounded(n: int, k: int, kept: int, seed: int) -> None:
    q = walk(neighbour_graph(points(n, seed), k), steps=3, certain=3, kept=kept)
    assert q.dtype == np.float32
    assert abs(q - q.T).max() < 1e-6
    assert q.nnz <= 2 * n * kept
    assert q.nnz == 0 or (q.data.min() > 0 and q.data.max() <= 1)
    assert not q.diagonal().any()


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = points(50, 0)
    whole = walk(neighbour_graph(unit, 5), steps=3, certain=5, kept=12)
    monkeypatch.setattr(module, "ELEMENTS", 50 * 7)
    tiled = walk(neighbour_graph(unit, 5), steps=3, certain=5, kept=12)
    np.testing.assert_allclose(tiled.toarray(), whole.toarray(), atol=1e-6)


def test_zero_rows_have_no_partners_and_nobody_walks_over_them() -> None:
    unit = points(20, 0)
    unit[[3, 8]] = 0.0
    rest = [i for i in range(20) if i not in (3, 8)]
    # So many neighbours that some have a cosine below 0, which is that with a zero row.
    q = walk(neighbour_graph(unit, 12), steps=3, certain=5, kept=20)
    assert q[[3, 8]].nnz == q[:, [3, 8]].nnz == 0
    alone = walk(neighbour_graph(unit[rest], 12), steps=3, certain=5, kept=20)
    np.testing.assert_allclose(q.toarray()[np.ix_(rest, rest)], alone.toarray(), atol=1e-4)


@given(st.integers(20, 60), st.integers(0, 30))
def test_the_random_graph_keeps_degrees_and_weights_and_no_partner(n: int, seed: int) -> None:
    graph = walk(neighbour_graph(points(n, seed, 8), 3), steps=2, certain=3, kept=4)
    control = random_graph(graph, seed)
    assert abs(control - control.T).nnz == 0
    assert not control.diagonal().any()
    # Dense ones may lose a few.
    assert (np.diff(control.indptr) == np.diff(graph.indptr)).mean() > 0.8
    if control.nnz == graph.nnz:
        np.testing.assert_array_equal(np.sort(control.data), np.sort(graph.data))
    assert (control != random_graph(graph, seed)).nnz == 0


def test_the_random_graph_knows_nothing_of_the_partners() -> None:
    labels = np.arange(400) % 4
    blocks = sparse.csr_array(
        np.triu(np.random.default_rng(0).random((400, 400)) < 0.1, 1) & (labels[:, None] == labels)
    )
    graph = (blocks + blocks.T).astype(np.float32).tocsr()
    control = random_graph(graph, 1).tocoo()
    assert control.nnz == graph.nnz
    np.testing.assert_array_equal(np.bincount(control.row, minlength=400), np.diff(graph.indptr))
    assert (labels[control.row] == labels[control.col]).mean() == pytest.approx(0.25, abs=0.05)
    assert (random_graph(graph, 2) != random_graph(graph, 1)).nnz > graph.nnz


def test_an_empty_or_complete_graph_has_a_control_too() -> None:
    assert random_graph(sparse.csr_array((5, 5), dtype=np.float32)).nnz == 0
    complete = sparse.csr_array(np.ones((6, 6), np.float32) - np.eye(6, dtype=np.float32))
    assert random_graph(complete).nnz <= complete.nnz
