"""Alignment, uniformity and class cosines equal loops over pairs."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from debiased_contrastive.evaluation import geometry
from debiased_contrastive.evaluation.geometry import alignment, same_class_similarity, uniformity


def points(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(x: list[float]) -> list[float]:
    return [value / math.hypot(*x) for value in x]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), alpha=st.sampled_from([1.0, 2.0, 3.5]))
def test_alignment_is_a_loop(seed: int, n: int, alpha: float) -> None:
    z0, z1 = points(n, 3, seed), points(n, 3, seed + 1)
    pairs = zip(z0.tolist(), z1.tolist(), strict=True)
    expected = math.fsum(math.dist(unit(a), unit(b)) ** alpha for a, b in pairs) / n
    assert alignment(z0, z1, alpha) == pytest.approx(expected, rel=1e-12)
    assert alignment(z1, 5 * z0, alpha) == pytest.approx(expected, rel=1e-12)
    assert alignment(z0, 3 * z0, alpha) == pytest.approx(0, abs=1e-12)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    t=st.sampled_from([0.5, 2.0, 400.0]),
    tile=st.sampled_from([1, 30, 10**6]),
)
def test_uniformity_is_a_loop(seed: int, n: int, t: float, tile: int) -> None:
    z = points(n, 3, seed)
    exponents = [-t * math.dist(unit(a), unit(b)) ** 2 for a, b in itertools.combinations(z.tolist(), 2)]
    largest = max(exponents)
    expected = largest + math.log(math.fsum(math.exp(e - largest) for e in exponents) / len(exponents))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "ELEMENTS", tile)
        assert uniformity(z, t) == pytest.approx(expected, rel=1e-10)
    rotation = torch.linalg.qr(points(3, 3, seed + 1)).Q
    assert uniformity(2 * z.flip(0) @ rotation, t) == pytest.approx(expected, rel=1e-10)


def test_uniformity_knows_its_limits() -> None:
    assert uniformity(torch.ones(7, 3)) == pytest.approx(0, abs=1e-6)
    many = points(3000, 3, 0).float()
    # On the sphere in three dimensions the cosine is uniform on [-1, 1]: E exp(-4 + 4c) = (1 - e^-8) / 8.
    assert uniformity(many) == pytest.approx(math.log((1 - math.exp(-8)) / 8), abs=0.01)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), classes=st.integers(1, 4))
def test_class_cosines_are_a_loop(seed: int, n: int, classes: int) -> None:
    z = points(n, 3, seed)
    labels = torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))
    cosines: dict[bool, list[float]] = {True: [], False: []}
    rows = list(zip(z.tolist(), labels.tolist(), strict=True))
    for (a, y), (b, other) in itertools.combinations(rows, 2):
        cosines[y == other].append(math.fsum(p * q for p, q in zip(unit(a), unit(b), strict=True)))
    result = same_class_similarity(z, labels)
    for found, pairs in ((result.within, cosines[True]), (result.between, cosines[False])):
        if pairs:
            assert found == pytest.approx(math.fsum(pairs) / len(pairs), abs=1e-12)
        else:
            assert math.isnan(found)


def test_bad_input() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"one shape; got \(4, 3\) and \(2, 3\)"):
        alignment(z, z[:2])
    with pytest.raises(ValueError, match="alpha must be positive and finite; got 0"):
        alignment(z, z, 0)
    with pytest.raises(ValueError, match="t must be positive and finite; got inf"):
        uniformity(z, math.inf)
    with pytest.raises(ValueError, match="at least two rows; got 1"):
        uniformity(z[:1])
    with pytest.raises(ValueError, match="one for each of the 4 samples"):
        same_class_similarity(z, torch.arange(3))
