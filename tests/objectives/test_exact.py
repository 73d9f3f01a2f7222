"""Eq. 4 and Eq. 6, and the convergence of Eq. 8 to them on worlds whose every expectation is a finite sum."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debiased_contrastive as dc
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, circle, orthogonal_means
from tests.reference import equations

CIRCLE = circle()
"""Six points on a circle, classes in consecutive pairs, uniform p, tau_plus = 1/3, t = 1."""
TAU_PLUS = 1 / 3


def score(i: int, j: int) -> float:
    return float(CIRCLE.scores[i, j])


def classmates(i: int) -> tuple[int, int]:
    return (i - i % 2, i - i % 2 + 1)


@given(st.data())
def test_eq_4_equals_the_loop(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    row = st.lists(st.floats(-5, 5), min_size=n, max_size=n)
    positive, unlabeled, positives = data.draw(st.floats(-5, 5)), data.draw(row), data.draw(row)
    tau_plus = data.draw(st.floats(0, 0.6))
    got = dc.inclusion_exclusion_loss(
        *(torch.tensor([x], dtype=torch.float64) for x in (positive, unlabeled, positives)), tau_plus=tau_plus
    )
    want = equations.inclusion_exclusion(positive, unlabeled, positives, tau_plus)
    assert got.item() == pytest.approx(want, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("n", "value"), [(1, 0.213304655750), (2, 0.389218477875), (3, 0.538871545282)])
def test_the_expectation_of_eq_4_is_the_unbiased_loss(n: int, value: float) -> None:
    """By enumeration of every draw of N samples from p, N from p+ and one more for x+."""
    exact = unbiased = 0.0
    cases = 0
    for x in (0, 1):  # the other anchors are these, rotated
        others = [j for j in range(6) if j not in classmates(x)]
        for x_plus in classmates(x):
            draws = itertools.product(
                itertools.product(range(6), repeat=n), itertools.product(classmates(x), repeat=n)
            )
            rows = [([score(x, j) for j in u], [score(x, j) for j in v]) for u, v in draws]
            u, v = (torch.tensor(side, dtype=torch.float64) for side in zip(*rows, strict=True))
            s_plus = torch.full((len(rows),), score(x, x_plus), dtype=torch.float64)
            exact += dc.inclusion_exclusion_loss(s_plus, u, v, tau_plus=TAU_PLUS).item()
            negatives = list(itertools.product(others, repeat=n))
            losses = [equations.unbiased(score(x, x_plus), [score(x, j) for j in s], n) for s in negatives]
            unbiased += sum(losses) / len(losses)
            cases += 1
    assert unbiased / cases == pytest.approx(value, abs=1e-12)
    assert exact / cases == pytest.approx(value, abs=1e-12)


@given(st.floats(-5, 5), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.0, 0.9), st.floats(0.5, 100))
def test_eq_6_equals_the_loop(
    positive: float, log_minus: float, log_plus: float, tau_plus: float, q: float
) -> None:
    mean_plus, mean_minus = math.exp(log_plus), math.exp(log_minus)
    mean_p = tau_plus * mean_plus + (1 - tau_plus) * mean_minus
    got = dc.asymptotic_loss(
        *(torch.tensor([x], dtype=torch.float64) for x in (positive, math.log(mean_p), log_plus)),
        tau_plus=tau_plus,
        num_negatives=q,
    )
    want = equations.asymptotic(positive, mean_p, mean_plus, tau_plus, q)
    assert got.item() == pytest.approx(want, rel=1e-9, abs=1e-9)
    # And with p = tau p+ + (1 - tau) p- it is the loss of the true negatives' own mean.
    assert got.item() == pytest.approx(math.log1p(q * mean_minus / math.exp(positive)), rel=1e-6)


def test_eq_8_tends_to_eq_6_as_n_and_m_grow() -> None:
    """On the circle, at the rate of Theorem 3: the mean difference falls like N^-1/2 or faster."""
    generator = torch.Generator().manual_seed(0)
    x, s_plus, q = 0, torch.tensor([score(0, 1)], dtype=torch.float64), 8.0
    of_p, of_plus = CIRCLE.scores[x], CIRCLE.scores[x, :2]
    limit = dc.asymptotic_loss(
        s_plus,
        of_p.exp().mean().log()[None],
        of_plus.exp().mean().log()[None],
        tau_plus=TAU_PLUS,
        num_negatives=q,
    )
    errors = []
    for n in (16, 256, 4096):
        anchors = torch.full((500,), x)
        u, v = (of_p[CIRCLE.sample(rows, anchors, n, generator)] for rows in (CIRCLE.p, CIRCLE.p_plus))
        loss = dc.contrastive_loss(s_plus.expand(500), u, v, tau_plus=TAU_PLUS, lower=-1.0, reduction="none")
        g = loss.expm1() * s_plus.exp() / n  # from L = log(1 + N g / e^s+); Eq. 6 weights g with Q
        errors.append((torch.log1p(q * g / s_plus.exp()) - limit).abs().mean().item())
    assert errors[1] < errors[0] / 2.5
    assert errors[2] < errors[1] / 2.5
    assert errors[2] < 0.02
    biased = torch.log1p(q * of_p.exp().mean() / s_plus.exp())
    assert (biased - limit).item() > 0.3  # what not debiasing would leave, at any N


def test_each_anchor_with_its_own_prior_tends_to_the_unbiased_loss() -> None:
    """Classes of 50, 30 and 20 % on the sphere: right with each anchor's own share, wrong with one for all."""
    priors = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    world = VonMisesFisherWorld(orthogonal_means(3, 5), 8.0, 0.5, priors)
    generator = torch.Generator().manual_seed(0)
    x, labels = world.sample(200, generator)
    n, m = 1000, 500
    u = world.sample(200 * n, generator)[0].view(200, n, -1)
    v = world.members(labels.unsqueeze(1).expand(-1, m + 1), generator)
    u, v = (torch.einsum("ad,and->an", x, points) / 0.5 for points in (u, v))
    limit = torch.log1p(n * world.critic_means(x, labels)[2] / v[:, 0].exp())

    def distance(tau_plus: float | torch.Tensor) -> float:
        losses = dc.contrastive_loss(v[:, 0], u, v[:, 1:], tau_plus=tau_plus, lower=-2.0, reduction="none")
        return float((losses - limit).abs().mean())

    assert distance(priors[labels]) < 0.1
    assert distance(float(priors.square().sum())) > 2 * distance(priors[labels])
    assert distance(0.0) > 5 * distance(priors[labels])


def test_eq_4_keeps_its_digits_in_float32() -> None:
    """All logits equal: the loss is log(1 + N) however the samples are drawn."""
    zeros = torch.zeros(1, 14)
    got = dc.inclusion_exclusion_loss(zeros[:, 0], zeros, zeros, tau_plus=0.5)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(math.log(15), rel=1e-3)


def test_eq_4_and_eq_6_refuse_what_they_cannot_do() -> None:
    one, many = torch.zeros(1), torch.zeros(1, 51)
    with pytest.raises(ValueError, match=r"no digits left; got N = 51, 2e\+24"):
        dc.inclusion_exclusion_loss(one, many, many, tau_plus=0.5)
    with pytest.raises(ValueError, match="as many positives as unlabeled"):
        dc.inclusion_exclusion_loss(one, torch.zeros(1, 3), torch.zeros(1, 2), tau_plus=0.1)
    with pytest.raises(ValueError, match="must be finite; got NaN or inf"):
        dc.inclusion_exclusion_loss(one / 0, torch.zeros(1, 3), torch.zeros(1, 3), tau_plus=0.1)
    with pytest.raises(ValueError, match="1 anchors where it fails"):
        dc.asymptotic_loss(one, one, one + 3, tau_plus=0.5, num_negatives=4)
    with pytest.raises(ValueError, match="must be positive and finite; got 0"):
        dc.asymptotic_loss(one, one, one, tau_plus=0.1, num_negatives=0)
    with pytest.raises(ValueError, match="must be a float here; got a tensor"):
        dc.asymptotic_loss(one, one, one, tau_plus=one, num_negatives=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"same shape \(a,\)"):
        dc.asymptotic_loss(one, one, torch.zeros(2), tau_plus=0.1, num_negatives=1)
    assert (
        dc.asymptotic_loss(one.half(), one.half(), one.half(), tau_plus=0.1, num_negatives=1).dtype == torch.float32
    )
