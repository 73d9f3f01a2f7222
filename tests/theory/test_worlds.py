"""Worlds: their closed forms against sums and samples, their samplers against their closed forms."""

import math

import pytest
import torch
from scipy import stats
from scipy.special import comb

from debiased_contrastive.theory.worlds import (
    DiscreteWorld,
    TwoPointWorld,
    VonMisesFisherWorld,
    binomial,
    circle,
    orthogonal_means,
    random_means,
    sample_von_mises_fisher,
    torn_classes,
)

SIZES = torch.tensor([0.3, 0.2, 0.15, 0.15, 0.12, 0.08], dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("q", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 7, 60])
def test_binomial(n: int, q: float) -> None:
    want = [comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    assert binomial(n, q).tolist() == pytest.approx(want, abs=1e-12)


def test_the_two_point_world_by_its_published_numbers() -> None:
    world = TwoPointWorld(0.1, 0.9, 0.3)
    delta, weights = world.differences(16, 4)
    assert float((delta.abs() * weights).sum()) == pytest.approx(0.231472, abs=1e-6)
    assert float((delta * weights).sum()) == pytest.approx(-0.040788, abs=1e-6)
    delta, weights = world.differences(128, 32)
    assert float(weights[delta.abs() >= 0.3].sum()) == pytest.approx(0.005754, abs=1e-6)
    values = [world.mean_loss(n, 0.3, 8) for n in (1, 8, 64, 512)]
    assert values == pytest.approx([1.897686, 2.205438, 2.253712, 2.259305], abs=1e-6)


def test_the_two_point_estimate_has_the_mean_and_variance_it_says() -> None:
    """Off the floor the estimate is unbiased: q_minus is large enough that no outcome is clamped."""
    world = TwoPointWorld(0.05, 0.5, 0.9, temperature=0.5)
    g, weights = world.estimates(400, 3)
    mean = float((g * weights).sum())
    assert mean == pytest.approx(world.mean_negative, rel=1e-9)
    assert float(((g - mean).square() * weights).sum()) == pytest.approx(world.variance(400, 3), rel=1e-9)


@pytest.mark.parametrize("world", [circle(), circle(temperature=0.5), torn_classes(), circle(probabilities=SIZES)])
def test_p_is_a_mixture_of_its_classes(world: DiscreteWorld) -> None:
    tau = world.tau_plus.unsqueeze(1)
    torch.testing.assert_close(tau * world.p_plus + (1 - tau) * world.p_minus, world.p)
    m, m_plus, m_minus = map(world.critic_mean, (world.p, world.p_plus, world.p_minus))
    torch.testing.assert_close(world.tau_plus * m_plus + (1 - world.tau_plus) * m_minus, m)
    assert (world.p_plus[0] > 0).tolist() == (world.labels == world.labels[0]).tolist()


def test_draws_of_a_discrete_world_are_all_there_are() -> None:
    world = circle(probabilities=SIZES)
    sums, weights = world.critic_sums(1, world.p, 3)
    assert len(sums) == 6**3
    assert float(weights.sum()) == pytest.approx(1)
    assert float(sums @ weights) == pytest.approx(3 * float(world.critic_mean(world.p)[1]))
    with pytest.raises(ValueError, match=r"6 points allow 6\^9 draws"):
        world.critic_sums(0, world.p, 9)


def test_samples_of_a_discrete_world_follow_its_rows() -> None:
    world = circle(probabilities=SIZES)
    for rows in (world.p, world.p_plus, world.p_minus):
        drawn = world.sample(rows, torch.tensor([2]), 50_000, generator())
        shares = drawn[0].bincount(minlength=6) / 50_000
        torch.testing.assert_close(shares.double(), rows[2], rtol=0, atol=0.01)


def test_bad_worlds_are_refused() -> None:
    points, labels = circle().points, circle().labels
    uniform = torch.full((6,), 1 / 6, dtype=torch.float64)
    with pytest.raises(ValueError, match="unit vectors"):
        DiscreteWorld(2 * points, labels, uniform)
    with pytest.raises(ValueError, match="sum to 1"):
        DiscreteWorld(points, labels, 2 * uniform)
    with pytest.raises(ValueError, match="two classes"):
        DiscreteWorld(points, torch.zeros(6, dtype=torch.int64), uniform)
    with pytest.raises(ValueError, match="q_plus and q_minus"):
        TwoPointWorld(0.1, 1.5, 0.2)
    with pytest.raises(ValueError, match=r"h_plus must lie in .*; got 1000000000"):
        TwoPointWorld(0.1, 0.5, 0.2, h_plus=1e9)
    with pytest.raises(ValueError, match="far must be a cosine below 1; got 1"):
        TwoPointWorld(0.1, 0.5, 0.2, far=1)
    with pytest.raises(ValueError, match="means must be unit vectors"):
        VonMisesFisherWorld(torch.ones(2, 3).double(), 5.0)
    with pytest.raises(ValueError, match=r"priors must sum to 1; got 1.5"):
        VonMisesFisherWorld(orthogonal_means(2, 3), 5.0, priors=torch.tensor([0.5, 1.0]).double())
    with pytest.raises(ValueError, match="take fewer dimensions"):
        VonMisesFisherWorld(orthogonal_means(2, 1024), 5.0).critic_by_class(orthogonal_means(1, 1024))


def test_anchors_that_are_nearer_to_another_class() -> None:
    world = torn_classes()
    ratio = world.critic_mean(world.p_plus) / world.critic_mean(world.p_minus)
    assert (ratio < 1).tolist() == [True, False, False, True]
    assert float(world.probabilities @ ratio.log().clamp(max=0)) == pytest.approx(-0.189, abs=1e-3)


def test_x_plus_drawn_from_its_class() -> None:
    world = TwoPointWorld(0.1, 0.9, 0.3, h_plus=None, temperature=0.5, far=0.0)
    fixed = [TwoPointWorld(0.1, 0.9, 0.3, h_plus=h, temperature=0.5, far=0.0) for h in (1.0, math.exp(2))]
    for value in (
        lambda w: w.mean_loss(7, 0.3, 5.0),
        lambda w: float((w.differences(7, 3)[0] * w.differences(7, 3)[1]).sum()),
    ):
        assert value(world) == pytest.approx(0.1 * value(fixed[0]) + 0.9 * value(fixed[1]))
    assert world.mean(0.3) == pytest.approx(0.7 + 0.3 * math.exp(2))


@pytest.mark.parametrize(("t", "value"), [(1.0, 1.968450), (0.5, 4.113830)])
def test_the_critic_of_a_von_mises_fisher_class_in_space(t: float, value: float) -> None:
    """In three dimensions C(kappa) is kappa / sinh kappa, up to a constant."""
    mu, x, kappa = torch.tensor([[0.0, 0, 1]]).double(), torch.tensor([[0.0, 0.6, 0.8]]).double(), 5.0
    got = float(VonMisesFisherWorld(mu, kappa, t).critic_by_class(x))
    r = float((kappa * mu + x / t).norm())
    assert got == pytest.approx(kappa / math.sinh(kappa) * math.sinh(r) / r)
    assert got == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("dimension", "kappa"), [(3, 5.0), (16, 20.0), (32, 200.0)])
def test_samples_on_the_sphere_are_scipys(dimension: int, kappa: float) -> None:
    mean = random_means(1, dimension, generator(1))[0]
    ours = sample_von_mises_fisher(mean.expand(20_000, -1), kappa, generator())
    torch.testing.assert_close(ours.norm(dim=1), torch.ones(20_000).double())
    theirs = stats.vonmises_fisher(mean.numpy(), kappa).rvs(20_000, random_state=0)
    found = stats.ks_2samp((ours @ mean).numpy(), theirs @ mean.numpy())
    assert found.pvalue > 1e-3
    # And evenly around the mean.
    other = random_means(1, dimension, generator(2))[0]
    other = other - (other @ mean) * mean
    assert stats.ks_2samp((ours @ other).numpy(), theirs @ other.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("priors", [None, torch.tensor([0.5, 0.3, 0.2]).double()])
def test_means_on_the_sphere_are_those_of_samples(priors: torch.Tensor | None) -> None:
    world = VonMisesFisherWorld(orthogonal_means(3, 5), 8.0, 0.5, priors)
    x, labels = world.sample(3, generator())
    m, m_plus, m_minus = world.critic_means(x, labels)
    torch.testing.assert_close(
        world.prior[labels] * m_plus + (1 - world.prior[labels]) * m_minus, m, rtol=1e-12, atol=0
    )
    count = 100_000
    drawn, _ = world.sample(count, generator(1))
    own = world.members(labels.unsqueeze(1).expand(-1, count), generator(2))
    others = world.others(labels, count, generator(3))
    for want, points in ((m, drawn.expand(3, -1, -1)), (m_plus, own), (m_minus, others)):
        h = (torch.einsum("ad,and->an", x, points) / 0.5).exp()
        error = h.std(1) / math.sqrt(count)
        assert ((h.mean(1) - want).abs() < 4 * error).all()
    torch.testing.assert_close(own[0].mean(0), world.class_means[labels[0]], rtol=0, atol=0.01)


def test_stand_ins_lie_around_their_anchor() -> None:
    world = VonMisesFisherWorld(orthogonal_means(4, 16), 20.0)
    x, labels = world.sample(2000, generator())
    near = (x * world.surrogates(x, 80.0, generator(1))).sum(1)
    own = (x * world.members(labels, generator(2))).sum(1)
    assert near.mean() > own.mean() + 0.3
    with pytest.raises(ValueError, match="kappa must be positive"):
        world.surrogates(x, 0.0, generator())
