"""The floor by its names, and the tau_plus that the correction needs: loops, laws, the worlds of the theory."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.objectives.checks import FloorName
from debiased_contrastive.objectives.estimator import (
    Floor,
    effective_tau_plus,
    guess_log_mean_negatives,
    largest_tau_plus,
    log_negative_mean,
    raw_estimate,
)
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.objectives.statistics import Statistics, from_logits, log_mean_exp
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means


def slow_guess(row: list[float], prior: float) -> float:
    present = sorted(value for value in row if value > -math.inf)
    n = len(present)
    kept = n - math.ceil(prior * n + math.sqrt(prior * (1 - prior) * n))
    trimmed = present[: max(1, kept)]
    middle = max(0, (kept - 1) // 2)
    lower = present[: middle + 1]
    mirrored = [2 * present[middle] - value for value in lower]

    def log_mean(values: list[float]) -> float:
        return math.log(sum(map(math.exp, values)) / len(values))

    return max(log_mean(trimmed), log_mean(lower + mirrored))


@pytest.mark.parametrize("prior", [0.02, 0.1, 0.5])
def test_the_guess_is_that_of_a_loop(prior: float) -> None:
    logits = 2 * torch.randn(6, 41, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits[1, ::3] = -math.inf
    logits[2, 5:] = -math.inf
    logits[3, 1:] = -math.inf
    want = [slow_guess(row, prior) for row in logits.tolist()]
    assert guess_log_mean_negatives(logits, prior).tolist() == pytest.approx(want, rel=1e-12)


def test_the_guess_is_right_where_classes_are_apart_and_where_they_overlap() -> None:
    generator = torch.Generator().manual_seed(0)
    negatives = torch.randn(200, 900, generator=generator, dtype=torch.float64)
    own = torch.randn(200, 100, generator=generator, dtype=torch.float64)
    want = log_mean_exp(negatives)[0].median()
    for shift in (8.0, 3.0, 2.0):
        got = guess_log_mean_negatives(torch.cat([negatives, own + shift], 1), 0.1).median()
        assert abs(got - want) < 0.1, shift
    # Where there is no class at all, it errs half as much as leaving out the largest would.
    every = torch.cat([negatives, own], 1)
    trimmed = log_mean_exp(every.sort(1).values[:, :890])[0].median()
    assert 0 < want - guess_log_mean_negatives(every, 0.1).median() < 0.5 * (want - trimmed)


def world(kappa: float, temperature: float) -> tuple[Statistics, torch.Tensor]:
    """Statistics of anchors with stand-ins four times as concentrated, and the true negatives' log mean."""
    generator = torch.Generator().manual_seed(int(kappa))
    made = VonMisesFisherWorld(random_means(10, 32, generator), kappa)
    x, labels = made.sample(400, generator)
    y = made.surrogates(x, 4 * kappa, generator)
    u, of_u = made.sample(5000, generator)
    logits = x @ u.T / temperature
    statistics = from_logits((x * y).sum(1) / temperature, logits, None, lower=-1 / temperature, beta=0)
    own = labels.unsqueeze(1) == of_u
    return statistics, log_mean_exp(logits.masked_fill(own, -math.inf))[0]


@pytest.mark.parametrize("kappa", [20.0, 60.0, 200.0])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_its_median_gives_the_unbiased_loss(kappa: float, temperature: float) -> None:
    statistics, log_negatives = world(kappa, temperature)
    unbiased = debiased(few_with(statistics, log_negatives), 0.0).mean()
    tau_eff = effective_tau_plus(statistics, log_negatives)
    error = abs(debiased(statistics, float(tau_eff.median())).mean() - unbiased)
    assert error < 0.01
    assert error < 0.3 * abs(debiased(statistics, 0.1).mean() - unbiased)
    # Each anchor's own is exact.
    assert debiased(statistics, tau_eff).mean() == pytest.approx(float(unbiased), abs=1e-9)


def few_with(statistics: Statistics, log_mean: torch.Tensor) -> Statistics:
    return Statistics(**{**vars(statistics), "log_mean_unlabeled": log_mean})


@given(st.floats(-4, 4), st.floats(-4, 4), st.floats(-4, 4))
def test_it_lies_below_the_floor_and_gives_back_the_negatives(u: float, v: float, minus: float) -> None:
    tensors = (torch.tensor([value], dtype=torch.float64) for value in (v, u, v))
    positive, log_u, log_v = tensors
    lower = torch.tensor(-5.0, dtype=torch.float64)
    statistics = Statistics(positive, log_u, 9.0, log_v, 1.0, lower)
    tau_eff = effective_tau_plus(statistics, torch.tensor([minus], dtype=torch.float64))
    assert 0 <= float(tau_eff) <= 1
    assert float(tau_eff) <= float(largest_tau_plus(statistics)) * (1 + 1e-9)
    if minus < u - 1e-3 and u < v - 1e-3:
        assert float(log_negative_mean(statistics, tau_eff, "clamp")) == pytest.approx(minus, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.2, 0.07])
def test_an_anchor_is_clamped_exactly_above_its_cap(temperature: float) -> None:
    statistics, _ = world(60.0, temperature)
    cap = largest_tau_plus(statistics)
    assert not bool(raw_estimate(statistics, (1 - 1e-6) * cap)[1].any())
    above = (1 + 1e-6) * cap
    assert bool((above < 1).all())
    assert bool(raw_estimate(statistics, above)[1].all())


def test_the_first_anchors_keep_what_is_shared() -> None:
    statistics, _ = world(20.0, 0.5)
    assert statistics.first_anchors(7).positive.shape == (7,)
    assert statistics.first_anchors(7).lower == statistics.lower


@pytest.mark.parametrize(("name", "raw", "unit"), [
    ("zero", Floor("zero"), Floor("zero")),
    ("bound", Floor("zero"), Floor("bound")),
    ("small", Floor("small"), Floor("small")),
    ("relative", Floor("relative"), Floor("relative")),
    ("biased", Floor("zero", "biased"), Floor("bound", "biased")),
    ("cap_tau", Floor("zero", "cap_tau"), Floor("bound", "cap_tau")),
])  # fmt: skip
def test_one_word_names_level_and_rule(name: FloorName, raw: Floor, unit: Floor) -> None:
    assert Floor.named(name, unit_vectors=False) == raw
    assert Floor.named(name, unit_vectors=True) == unit


def test_the_levels_are_what_they_say() -> None:
    log_mean = torch.tensor([0.3, -2.0])
    assert Floor("zero").log_level(log_mean) == -math.inf
    assert Floor("small").log_level(log_mean) == -10
    assert Floor("bound").log_level(log_mean, 0.25) == -4
    assert Floor("relative").log_level(log_mean).exp().tolist() == pytest.approx((0.05 * log_mean.exp()).tolist())
    assert Floor("relative", share=0.5).log_level(log_mean).tolist() == (log_mean + math.log(0.5)).tolist()
    learnt = torch.tensor([0.25], dtype=torch.float64, requires_grad=True)
    lower = Floor("bound").log_level(log_mean, learnt)
    assert (lower.shape, lower.dtype) == ((), torch.float32)
    lower.backward()
    assert learnt.grad == 16
