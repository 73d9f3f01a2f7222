"""The collision prior: unbiased, with the variance and the coverage that it says."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debiased_contrastive as dc
from debiased_contrastive.prior.labels import (
    Z_95,
    anchor_priors,
    collision_prior,
    frequency_prior,
    pair_prior,
)
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means

UNEVEN = np.array([0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01])


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30))
def test_it_is_the_share_of_equal_pairs(labels: list[int]) -> None:
    pairs = list(itertools.combinations(labels, 2))
    found = collision_prior(labels)
    assert found.value == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(("rho", "n"), [(np.full(10, 0.1), 500), (np.full(100, 0.01), 100), (UNEVEN, 300)])
def test_mean_spread_and_coverage_over_two_thousand_draws(rho: np.ndarray, n: int) -> None:
    generator = np.random.default_rng(0)
    truth = frequency_prior(rho)
    found = [collision_prior(generator.choice(len(rho), n, p=rho)) for _ in range(2000)]
    values = np.array([estimate.value for estimate in found])
    z1, z2 = (rho**3).sum() - truth**2, truth - truth**2
    error = math.sqrt((4 * (n - 2) * z1 + 2 * z2) / (n * (n - 1)))
    assert abs(values.mean() - truth) < 3 * error / math.sqrt(2000)
    assert values.std() == pytest.approx(error, rel=0.1)
    covered = np.mean([estimate.low <= truth <= estimate.high for estimate in found])
    assert covered > 0.9


def test_a_balanced_sample_is_doubted() -> None:
    assert "balanced" in collision_prior([0, 1, 2] * 20).warnings[0]
    assert not collision_prior([0, 0, 1, 2] * 20).warnings


@given(st.integers(0, 40), st.integers(1, 40))
def test_wilson_is_the_interval_of_the_score_test(yes: int, no: int) -> None:
    m, share = yes + no, yes / (yes + no)
    found = pair_prior([True] * yes + [False] * no)
    assert found.value == pytest.approx(share)
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z_95 * math.sqrt(end * (1 - end) / m), rel=1e-6, abs=1e-9)


def test_bad_labels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at least two; got shape \(1,\)"):
        collision_prior([1])
    with pytest.raises(ValueError, match="one row of booleans"):
        pair_prior([0.5, 1.0])
    with pytest.raises(ValueError, match=r"sum to 1; got a sum of 1.5"):
        frequency_prior([1.0, 0.5])


def test_each_anchor_has_the_share_of_its_class() -> None:
    shares = [0.6, 0.3, 0.1]
    assert anchor_priors([2, 0, 1, 0], shares).tolist() == [0.1, 0.6, 0.3, 0.6]
    assert anchor_priors([-1, 1], shares).tolist() == [pytest.approx(0.46), 0.3]
    # Its mean over a sample of p is the one number for all.
    labels = np.random.default_rng(0).choice(3, 100_000, p=shares)
    assert anchor_priors(labels, shares).mean() == pytest.approx(frequency_prior(shares), abs=0.003)
    for wrong in ([3], [-2], [[0]], [0.5]):
        with pytest.raises(ValueError, match=r"labels must be one row of class numbers below 3, -1 = unknown; got"):
            anchor_priors(wrong, shares)
    with pytest.raises(ValueError, match=r"frequencies must be one row of probabilities that sum to 1"):
        anchor_priors([0], [0.5, 0.4])


def test_with_it_the_loss_of_uneven_classes_is_the_unbiased_one() -> None:
    """One number for all puts some of the anchors on the floor and others too high."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01], dtype=torch.float64)
    world = VonMisesFisherWorld(random_means(10, 32, generator), 60.0, 0.2, shares)
    x, labels = world.sample(300, generator)
    positives = world.members(labels.unsqueeze(1).expand(-1, 200), generator)
    u, of_u = world.sample(4000, generator)
    logits, v = x @ u.T / 0.2, (positives @ x.unsqueeze(2)).squeeze(2) / 0.2
    s_plus = v[:, 0]

    def loss(tau_plus: float | torch.Tensor) -> float:
        return float(dc.contrastive_loss(s_plus, logits, v, tau_plus=tau_plus, lower=-5.0))

    own = labels.unsqueeze(1) == of_u
    negatives = logits.masked_fill(own, -torch.inf).logsumexp(1) - (~own).sum(1).log() + math.log(4000)
    unbiased = float(torch.nn.functional.softplus(negatives - s_plus).mean())
    by_anchor = abs(loss(torch.as_tensor(anchor_priors(labels.numpy(), shares.numpy()))) - unbiased)
    assert by_anchor < 0.05
    assert by_anchor < 0.1 * abs(loss(frequency_prior(shares.numpy())) - unbiased)
    assert by_anchor < 0.5 * abs(loss(0.1) - unbiased)
