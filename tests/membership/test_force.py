"""The force share beside loops, its laws, what errors do to it, and input that it must refuse."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

import debiased_contrastive as dc
from debiased_contrastive.membership import force as room
from debiased_contrastive.membership.force import force_curve, force_share
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means
from tests.reference import force as reference

CLASSES = 5


def world(n: int, *, kappa: float = 15.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return VonMisesFisherWorld(random_means(CLASSES, 16, generator), kappa).sample(n, generator)


def posteriors(n: int, seed: int, *, classes: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = (3 * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return rows * torch.rand(n, 1, generator=generator, dtype=torch.float64)


def noisy(labels: Tensor, accuracy: float, seed: int) -> Tensor:
    """Labels of this accuracy, whose errors know nothing of the embeddings."""
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(labels), generator=generator) >= accuracy
    shift = torch.randint(1, CLASSES, labels.shape, generator=generator)
    return torch.where(wrong, (labels + shift) % CLASSES, labels)


@pytest.mark.parametrize("tangent", [True, False])
@pytest.mark.parametrize("strength", [0.5, 1.0, 4.0])
def test_it_is_that_of_the_loops(strength: float, tangent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SIMILARITIES_AT_ONCE", 100)
    z, labels = world(30)
    labels[3:6] = -1
    membership = posteriors(30, 1)
    q = (membership @ membership.T).tolist()
    want = reference.force_share(z.tolist(), labels.tolist(), q, 0.3, strength, tangent)
    settings: dict[str, Any] = {"temperature": 0.3, "strength": strength, "tangent": tangent}
    assert force_share(7 * z, labels, membership=membership, **settings) == pytest.approx(want, abs=1e-6)
    weights = 1 - membership @ membership.T
    assert force_share(z, labels, weights=weights, **settings) == pytest.approx(want, abs=1e-12)
    graph = sparse.csr_array((membership @ membership.T).float().numpy())
    assert force_share(z, labels, knowledge=Knowledge(graph=graph), **settings) == pytest.approx(want, abs=1e-6)


def test_partitions_are_that_of_the_loops() -> None:
    z, labels = world(30)
    codes = torch.randint(-1, 4, (30, 3), generator=torch.Generator().manual_seed(2))
    equal = (codes.unsqueeze(1) == codes) & (codes >= 0).unsqueeze(1)
    want = reference.force_share(z.tolist(), labels.tolist(), equal.double().mean(2).tolist(), 0.5, 1.0, True)
    assert force_share(z, labels, partitions=codes) == pytest.approx(want, abs=1e-6)
    assert force_share(z.numpy(), labels.numpy(), partitions=codes.numpy()) == pytest.approx(want, abs=1e-6)


@given(seed=st.integers(0, 99), temperature=st.floats(0.05, 2.0), part=st.floats(0, 1), tangent=st.booleans())
def test_laws(seed: int, temperature: float, part: float, tangent: bool) -> None:
    z, labels = world(40, seed=seed)
    settings: dict[str, Any] = {"temperature": temperature, "tangent": tangent}
    classes = F.one_hot(labels, CLASSES).double()
    assert force_share(z, labels, membership=classes, **settings) == pytest.approx(1)
    assert force_share(z, labels, partitions=labels.unsqueeze(1), **settings) == pytest.approx(1)
    membership = posteriors(40, seed)
    assert force_share(z, labels, membership=membership, strength=0.0, **settings) == pytest.approx(0, abs=1e-12)
    equal = membership[:1].expand(40, -1)
    assert force_share(z, labels, membership=equal, **settings) == pytest.approx(0, abs=1e-9)
    share = force_share(z, labels, membership=membership, **settings)
    assert share <= 1
    assert force_share(z, labels, membership=membership.flip(1), **settings) == pytest.approx(share, abs=1e-5)
    turned = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(seed)).double())[0]
    assert force_share(z @ turned, labels, membership=membership, **settings) == pytest.approx(share, abs=1e-9)
    # The curve, from its moments, is the share at every strength up to its limit.
    curve = force_curve(z, labels, Knowledge(membership=membership), **settings)
    strength = part * curve.limit
    want = force_share(z, labels, membership=membership, strength=strength, **settings)
    assert curve.share(strength) == pytest.approx(want, abs=1e-6)
    assert curve.share(curve.best) >= max(curve.share(strength), 0) - 1e-4


def test_it_follows_the_gradient_that_unit_vectors_feel() -> None:
    """What lies along the anchor is felt by nobody, and counting it can turn the verdict."""
    z, labels = world(400, kappa=8.0)
    similarity = z @ z.T
    near = (similarity > similarity.quantile(0.8)).double()
    same = (labels.unsqueeze(1) == labels).double()
    biased, found, unbiased = (gradient(z, 1 - q) for q in (0 * same, near, same))
    want = 1 - float((found - unbiased).square().sum() / (biased - unbiased).square().sum())
    felt, whole = (force_share(z, labels, weights=1 - near, tangent=tangent) for tangent in (True, False))
    assert felt == pytest.approx(want, abs=0.05)
    assert want > 0 > want - 0.3 > whole


def gradient(z: Tensor, weights: Tensor) -> Tensor:
    """Of the loss whose samples are anchors and unlabeled samples at once, by the rows before they are normalised."""
    rows = z.clone().requires_grad_()
    unit = F.normalize(rows, dim=1)
    logits = (unit @ unit.T / 0.5).fill_diagonal_(-math.inf) + weights.log()
    (found,) = torch.autograd.grad(logits.logsumexp(1).sum(), rows)
    return found


@pytest.mark.parametrize("accuracy", [0.47, 0.7, 0.85])
def test_random_errors_leave_the_square_of_kappa(accuracy: float) -> None:
    kappa = (CLASSES * accuracy - 1) / (CLASSES - 1)
    z, labels = world(3000, kappa=60.0)
    found = noisy(labels, accuracy, seed=1)
    critic = (z @ z.T / 0.5).exp()
    same, joined = ((each.unsqueeze(1) == each).double() for each in (labels, found))
    off = ~torch.eye(3000, dtype=torch.bool)
    eta = covariance(joined[off], critic[off]) / covariance(same[off], critic[off])
    assert eta == pytest.approx(kappa**2, abs=0.03)
    # Expected over errors, such labels are the true ones at a strength: a calibration is one number.
    agree = accuracy**2 + (1 - accuracy) ** 2 / (CLASSES - 1)
    expected = agree - kappa**2 * (1 - same)
    strength = kappa**2 / (1 - (agree - kappa**2))
    calibrated = force_share(z, labels, weights=1 - expected)
    truth = force_share(z, labels, partitions=labels.unsqueeze(1), strength=strength)
    assert calibrated == pytest.approx(truth, abs=1e-9)


def covariance(first: Tensor, second: Tensor) -> float:
    return float((first * second).mean() - first.mean() * second.mean())


def test_better_knowledge_has_a_larger_share() -> None:
    z, labels = world(800)
    shares = [
        force_share(z, labels, partitions=noisy(labels, a, 3).unsqueeze(1)) for a in (0.2, 0.5, 0.7, 0.9, 1.0)
    ]
    assert shares == sorted(shares)
    assert abs(shares[0]) < 0.1
    other = (labels.unsqueeze(1) != labels).double()
    # Half of the weight of true negatives alone taken away.
    assert force_share(z, labels, weights=1 - other / 2) < 0


def test_some_anchors_stand_for_all() -> None:
    z, labels = world(1000)
    source = Knowledge(partitions=noisy(labels, 0.7, 0).unsqueeze(1))
    some, every = (force_curve(z, labels, source, anchors=count) for count in (300, None))
    assert len(some.level) == 300
    assert torch.equal(some.level, every.level[:300])
    assert some.share(1.0) == pytest.approx(every.share(1.0), abs=0.1)


def test_what_a_sample_shares_with_itself_does_not_count() -> None:
    z, labels = world(60)
    same = (labels.unsqueeze(1) == labels).float() / 4
    alone, whole = (force_curve(z, labels, Knowledge(graph=sparse.csr_array(q.numpy())))
                    for q in (same.clone().fill_diagonal_(0), same.clone().fill_diagonal_(1)))  # fmt: skip
    assert alone.limit == whole.limit == 4
    assert alone.share(2.0) == whole.share(2.0)


def test_low_temperatures_and_lost_weights_stay_finite() -> None:
    z, labels = world(60)
    own = labels.unsqueeze(1)
    assert force_share(z, labels, partitions=own, temperature=0.001) == pytest.approx(1)
    nothing_left = Knowledge(membership=torch.ones(60, 1))
    curve = force_curve(z, labels, nothing_left)
    assert curve.limit == 1
    assert curve.share(1.0) == pytest.approx(force_share(z, labels, knowledge=nothing_left))
    assert curve.share(1.0) < 0
    assert math.isfinite(force_curve(z, labels, Knowledge(partitions=own), temperature=0.001).share(1.0))
    unknown = force_curve(z, labels, Knowledge(membership=torch.zeros(60, 3)))
    assert (unknown.limit, unknown.share(1.0), unknown.best) == (1, 0, 0)


def bad() -> dict[str, tuple[dict[str, Any], str]]:
    z, labels = world(20)
    good = posteriors(20, 0)
    return {
        "none": ({}, r"exactly one of membership, partitions, weights, knowledge must be given; got none"),
        "two": ({"membership": good, "weights": 1 - good @ good.T}, r"got membership, weights"),
        "sums": ({"membership": good + 1}, r"sum to at most 1; .* largest sum of"),
        "negative": ({"membership": good - 0.5}, r"at least 0"),
        "nan": ({"membership": good * math.nan}, r"at least 0"),
        "flat": ({"membership": good[:, 0]}, r"membership must be probabilities of shape \(n, classes\)"),
        "one-hot numbers": ({"membership": F.one_hot(labels)}, r"got torch.int64 of shape \(20, 5\)"),
        "rows": ({"membership": good[:19]}, r"knowledge must be of the 20 rows of z; got 19 rows"),
        "codes": ({"partitions": good}, r"partitions must be whole numbers of shape \(n, B\)"),
        "flat codes": ({"partitions": labels}, r"partitions must be whole numbers of shape \(n, B\)"),
        "weights": ({"weights": 2 * torch.ones(20, 20)}, r"weights must lie in \[0, 1\]"),
        "part of weights": ({"weights": torch.ones(20, 19)}, r"weights .* \(n, n\) of them; got shape \(20, 19\)"),
        "temperature": ({"membership": good, "temperature": 0.0}, r"temperature must be finite"),
        "strength": ({"membership": good, "strength": -0.1}, r"strength must be finite and at least 0; got -0.1"),
        "labels": ({"membership": good, "labels": labels[:19]}, r"labels must be one row of whole numbers"),
        "one class": ({"membership": good, "labels": 0 * labels}, r"must have a bias"),
        "no class twice": ({"membership": good, "labels": torch.arange(20)}, r"must have a bias"),
        "unknown": ({"membership": good, "labels": 0 * labels - 1}, r"must have a bias"),
        "nan z": ({"membership": good, "z": z * math.nan}, r"features must"),
    }  # fmt: skip


@pytest.mark.parametrize("case", bad())
def test_bad_input_gets_one_line(case: str) -> None:
    arguments, line = bad()[case]
    z, labels = world(20)
    with pytest.raises(ValueError, match=line) as caught:
        dc.force_share(**{"z": z, "labels": labels, **arguments})
    assert "\n" not in str(caught.value)


def test_a_strength_beyond_the_limit_has_no_place_on_the_curve() -> None:
    z, labels = world(20)
    with pytest.raises(ValueError, match=r"strength must lie in \[0, 1\], up to 1 / max q; got 1.5"):
        force_curve(z, labels, Knowledge(partitions=labels.unsqueeze(1))).share(1.5)
