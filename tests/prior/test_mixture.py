"""Estimators from similarities, on worlds whose prior is known."""

import numpy as np
import pytest
import torch

from debiased_contrastive.prior import clusters
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import Scores
from debiased_contrastive.prior.mixture import (
    PRIORS,
    alpha_max,
    alpha_max_noisy,
    best_bin,
    best_tail,
    density_ratio,
    density_ratios,
    doubts,
    mixture_prior,
    pen_l1,
    separability,
)
from tests.prior.worlds import scores_of, world_of

UNEVEN = torch.tensor([0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01]).double()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("classes", [2, 5, 10, 20, 50])
def test_true_positives_on_separate_classes(classes: int, seed: int) -> None:
    scores, tau = scores_of(world_of(classes), seed), 1 / classes
    assert best_bin(scores) == pytest.approx(tau, abs=0.005 + 0.03 * tau)
    assert density_ratio(scores) == pytest.approx(tau, abs=0.01 + 0.05 * tau)
    assert pen_l1(scores) == pytest.approx(tau, abs=0.01 + 0.15 * tau)
    assert alpha_max(scores) == pytest.approx(tau, abs=0.005 + 0.05 * tau)
    assert not doubts(scores, best_bin(scores))


def test_estimates_are_ordered_as_the_priors_are() -> None:
    worlds = [scores_of(world_of(classes), 3) for classes in (2, 5, 10, 20, 50)]
    for method in (best_bin, density_ratio, pen_l1, alpha_max):
        found = [method(scores) for scores in worlds]
        assert found == sorted(found, reverse=True)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("surrogate", [1.5, 4.0])
def test_stand_ins_make_estimators_collapse_and_are_named(surrogate: float) -> None:
    scores = scores_of(world_of(10, means="random"), 0, surrogate=60 * surrogate)
    for method in (best_bin, density_ratio, alpha_max):
        assert method(scores) < 0.02
    found = mixture_prior(scores)
    assert any("stand-ins" in warning for warning in found.warnings)
    assert pen_l1(scores) == PRIORS[0] or pen_l1(scores) < 0.15


@pytest.mark.parametrize(("classes", "tau"), [(5, 0.2), (10, 0.1)])
def test_wrong_positives_are_corrected_from_both_sides(classes: int, tau: float) -> None:
    scores = scores_of(world_of(classes, means="random"), 0, wrong=0.2)
    plain, (noisy, purity) = best_bin(scores), alpha_max_noisy(scores)
    assert abs(noisy - tau) < abs(plain - tau) / 2
    assert purity == pytest.approx(0.8, abs=0.05)


def test_the_formula_of_the_noisy_version() -> None:
    """alpha_plus = alpha / beta and beta_plus = (beta - alpha) / (1 - alpha) must give alpha and beta back."""
    alpha, beta = 0.1, 0.8
    alpha_plus, beta_plus = alpha / beta, (beta - alpha) / (1 - alpha)
    rest = 1 - alpha_plus * (1 - beta_plus)
    assert alpha_plus * beta_plus / rest == pytest.approx(alpha)
    assert beta_plus / rest == pytest.approx(beta)


def test_classes_that_overlap_are_over_estimated_and_named() -> None:
    scores = scores_of(world_of(10, kappa=15.0, means="random"), 0)
    found = mixture_prior(scores)
    assert found.value > 0.15
    assert any("told apart" in warning or "overlap" in warning for warning in found.warnings)


def test_classes_of_different_sizes_have_the_collision_probability() -> None:
    scores = scores_of(world_of(10, priors=UNEVEN), 0)
    truth = float((UNEVEN**2).sum())
    assert best_bin(scores) == pytest.approx(truth, abs=0.01)
    assert density_ratio(scores) == pytest.approx(truth, abs=0.02)


def test_the_interval_of_the_best_bin_covers_the_truth() -> None:
    world = world_of(10)
    found = [mixture_prior(scores_of(world, seed, pairs=(500, 5000))) for seed in range(20)]
    assert sum(estimate.low <= 0.1 <= estimate.high for estimate in found) >= 16
    assert all(estimate.low <= estimate.value <= estimate.high for estimate in found)
    scores = scores_of(world, 0, pairs=(500, 5000))
    shared = mixture_prior(Scores(scores.positive, scores.random, items=100))
    assert shared.high - shared.low > 2 * (found[0].high - found[0].low)


def test_the_best_bin_by_a_loop() -> None:
    generator = np.random.default_rng(0)
    p, u = generator.normal(1, 1, 60).round(1), generator.normal(0, 1, 200).round(1)
    spread = np.sqrt(np.log(40) / 400) + np.sqrt(np.log(40) / 120)
    best = (np.inf, 0.0, 0)
    for c in np.unique(p):
        q_p, q_u = np.mean(p >= c), np.mean(u >= c)
        if round(q_p * 60) >= 2:
            best = min(best, (q_u / q_p + 1.01 / q_p * spread, q_u / q_p, int((u >= c).sum())))
    scores = Scores(p, u)
    assert best_tail(scores) == pytest.approx((min(1, best[1]), best[2]))
    assert separability(scores) == pytest.approx(np.mean((p[:, None] > u) + 0.5 * (p[:, None] == u)))
    assert scores.swap().positive.max() == -u.min()


def test_the_density_ratio_has_mean_one_where_it_should() -> None:
    assert density_ratios(scores_of(world_of(10), 0))[1] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("priors", [None, UNEVEN])
def test_clusters(priors: torch.Tensor | None) -> None:
    world = world_of(10, priors=priors)
    x, _ = world.sample(3000, torch.Generator().manual_seed(0))
    found = cluster_prior(x.numpy(), grid=(5, 7, 10, 14))
    truth = 0.1 if priors is None else float((UNEVEN**2).sum())
    assert found.value == pytest.approx(truth, rel=0.2)
    noise = np.random.default_rng(0).normal(size=(500, 16))
    assert any("weak" in warning for warning in cluster_prior(noise, grid=(2, 5)).warnings)


def test_bad_input_is_refused() -> None:
    good = np.linspace(0, 1, 30)
    with pytest.raises(ValueError, match="random must hold at least 20"):
        Scores(good, good[:5])
    with pytest.raises(ValueError, match="positive must be finite; got 1"):
        Scores(np.append(good, np.nan), good)
    with pytest.raises(ValueError, match="method must be one of best-bin"):
        mixture_prior(Scores(good, good), "median")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not all be equal"):
        density_ratio(Scores(good, np.ones(30)))
    with pytest.raises(ValueError, match="n at least 50"):
        cluster_prior(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="no direction"):
        cluster_prior(np.zeros((60, 2)))


def test_an_estimate_near_one_is_doubted() -> None:
    """Where positives are hardly nearer than random pairs, 1 would explain them; the AUC given 1 means nothing."""
    generator = np.random.default_rng(0)
    scores = Scores(np.tanh(generator.normal(0.05, 0.2, 3000)), np.tanh(generator.normal(0, 0.2, 30_000)))
    assert any("more than the similarities allow" in line for line in doubts(scores, 0.995))
    assert any("hardly told apart" in line for line in doubts(scores, 0.3))


def test_fewer_items_widen_the_interval() -> None:
    scores = scores_of(world_of(10), 0)
    few = Scores(scores.positive, scores.random, items=600)
    wide, narrow = mixture_prior(few), mixture_prior(scores)
    assert wide.value == pytest.approx(narrow.value, abs=0.02)
    # 3,000 and 30,000 pairs of 600 items are worth 300: intervals by the root of 10 to the root of 100 as wide.
    assert 3 < (wide.high - wide.low) / (narrow.high - narrow.low) < 11


def test_the_interval_of_clusters_covers_numbers_that_are_nearly_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = world_of(5).sample(600, torch.Generator().manual_seed(0))
    sure = cluster_prior(x.numpy(), grid=(3, 5, 8))
    assert sure.high - sure.low < 0.01
    assert sure.value == pytest.approx(0.2, abs=0.01)
    monkeypatch.setattr(clusters, "NEARLY_BEST", -1.0)
    unsure = cluster_prior(x.numpy(), grid=(3, 5, 8))
    assert unsure.value == sure.value
    assert unsure.low < 0.18
    assert unsure.high > 0.3


def test_the_ends_of_the_grid_are_doubted() -> None:
    x, _ = world_of(5).sample(600, torch.Generator().manual_seed(0))
    assert any("the coarsest that is tried" in line for line in cluster_prior(x.numpy(), grid=(5, 8)).warnings)
    assert any("the finest that is tried" in line for line in cluster_prior(x.numpy(), grid=(3, 5)).warnings)
    with pytest.raises(ValueError, match="embeddings must not all be equal"):
        cluster_prior(np.ones((60, 4)))
