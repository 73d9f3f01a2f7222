"""Each bound against numbers worked out apart from it, and against what a bound must do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.theory.bounds import (
    asymptotic_bias_gap,
    bias_gap_bound,
    finite_sample_bound,
    jensen_gap_bound,
    second_order_bound,
    tail_bound,
)
from debiased_contrastive.theory.generalization import (
    absolute_lipschitz_constant,
    generalization_bound,
    lipschitz_constant,
    loss_bound,
)
from debiased_contrastive.theory.promises import needed_unlabeled, promises

E = math.e
priors, counts = st.floats(0.0, 0.9), st.integers(1, 10**6)
temperatures = st.floats(0.1, 5.0)


@pytest.mark.parametrize(
    ("which", "m", "value"),
    [("corrected", 1, 0.38819), ("corrected", 8, 0.20113), ("printed", 1, 0.90047), ("printed", 8, 0.49701),
     ("printed proof", 1, 1.80093), ("printed proof", 8, 0.99403)],
)  # fmt: skip
def test_theorem_3_at_usual_sizes(which: str, m: int, value: float) -> None:
    assert finite_sample_bound(0.1, 510, m, which=which) == pytest.approx(value, abs=5e-6)  # type: ignore[arg-type]


def test_constants_grow_like_the_square_of_the_largest_critic() -> None:
    one, half = (finite_sample_bound(0.0, 1, 1, temperature=t) for t in (1.0, 0.5))
    assert one == pytest.approx((E**2 - 1) / 2)
    assert half == pytest.approx((E**4 - 1) / 2)
    assert finite_sample_bound(0.0, 1, 1, temperature=0.5, which="printed") == pytest.approx(
        E**3 * math.sqrt(math.pi / 2)
    )
    with pytest.raises(ValueError, match=r"temperature must be finite and at least 0.0059, .*; got 0.001"):
        finite_sample_bound(0.1, 510, 1, temperature=0.001)
    assert finite_sample_bound(0.1, 510, 1, temperature=0.006) < math.inf
    assert tail_bound(1.0, 0.1, 510, 1, temperature=0.006) == 2


@given(priors, counts, counts, temperatures)
def test_more_samples_never_hurt(tau: float, n: int, m: int, t: float) -> None:
    for which in ("printed", "corrected"):
        here = finite_sample_bound(tau, n, m, temperature=t, which=which)
        assert finite_sample_bound(tau, 2 * n, m, temperature=t, which=which) < here
        assert finite_sample_bound(tau, n, 2 * m, temperature=t, which=which) <= here


@given(priors, counts, counts, temperatures, st.floats(1e-6, 0.99))
def test_the_tail_bound_at_the_promised_difference_is_delta(
    tau: float, n: int, m: int, t: float, delta: float
) -> None:
    likely = promises(tau, n, m, t, delta=delta)[1].value
    assert tail_bound(likely, tau, n, m, temperature=t) == pytest.approx(delta, rel=1e-6)


@given(priors, st.integers(1, 200), st.integers(1, 200))
def test_the_mean_is_below_the_integral_of_its_own_tail(tau: float, n: int, m: int) -> None:
    """Hoeffding's tail integrates to sqrt(pi / 2) times the root of the variance's bound, times two."""
    integral = finite_sample_bound(tau, n, m) * math.sqrt(2 * math.pi)
    steps = 4000
    width = 8 * finite_sample_bound(tau, n, m) / steps
    found = sum(tail_bound((k + 0.5) * width, tau, n, m) for k in range(steps)) * width
    assert found == pytest.approx(integral, rel=1e-3)
    assert finite_sample_bound(tau, n, m) < integral


def test_lemma_1() -> None:
    assert bias_gap_bound(-0.5, 0.1, 510) == pytest.approx(-0.05 - (E**2 - 1) ** 2 / (8 * 510))
    assert bias_gap_bound(-0.5, 0.1, 510, which="printed") == pytest.approx(
        -0.5 - E**1.5 * math.sqrt(math.pi / 1020)
    )
    # With few samples the first-order term is the smaller one.
    assert bias_gap_bound(0.0, 0.1, 1) == pytest.approx(-(E**2 - 1) / 2)
    assert asymptotic_bias_gap([4.190964571], 1 / 3) == pytest.approx(0.724478613, abs=1e-8)
    with pytest.raises(ValueError, match=r"at most 0; got 0.1"):
        bias_gap_bound(0.1, 0.1, 10)


def test_lemma_2() -> None:
    assert jensen_gap_bound(1) == pytest.approx((E**2 - 1) / 2)
    assert jensen_gap_bound(510) == pytest.approx((E**2 - 1) ** 2 / (8 * 510))


def test_second_order() -> None:
    mean = 1 / E + (E - 1 / E) * 0.3
    assert second_order_bound(0.09974595551, mean) == pytest.approx(0.368514, abs=1e-6)
    near = 1 / E + 1e-3
    assert second_order_bound(0.1, near) == pytest.approx(0.1 * E / (4 * 1e-3))
    assert second_order_bound(0.1, 1 / E) == math.inf
    assert second_order_bound(0.0, 1 / E) == 0
    with pytest.raises(ValueError, match=r"at least the floor, 0.368"):
        second_order_bound(0.1, 0.3)


def test_lemma_a4() -> None:
    assert lipschitz_constant(0.8, 4096, 1) == pytest.approx(29.562, abs=5e-4)
    assert lipschitz_constant(0.1, 510, 1) == pytest.approx(0.8979, abs=5e-5)
    assert lipschitz_constant(0.1, 510, 1, which="printed") == pytest.approx(0.3029, abs=5e-5)
    assert absolute_lipschitz_constant(0.1) == pytest.approx(2 + 2 * E**2 / 9)
    assert loss_bound(0.1, 510) == pytest.approx(8.3264, abs=5e-5)
    assert loss_bound(0.1, 510, which="printed") == pytest.approx(math.log(510 * (1 / 0.9 + 0.1)))


@pytest.mark.parametrize(
    ("n", "m", "printed", "corrected"), [(510, 1, 2.519, 20.30), (510, 8, 1.379, 10.59), (65536, 1, 25.62, 210.3)]
)
def test_lambda_of_theorem_5(n: int, m: int, printed: float, corrected: float) -> None:
    def of(which: str) -> float:
        return generalization_bound(0.1, n, m, rademacher=0, num_anchors=1, which=which).lipschitz  # type: ignore[arg-type]

    assert of("printed") == pytest.approx(printed, rel=5e-4)
    assert of("corrected") == pytest.approx(corrected, rel=5e-4)
    assert of("explicit") == pytest.approx(7.284, abs=5e-4)


def test_theorem_5_has_every_term_apart() -> None:
    found = generalization_bound(0.1, 510, 8, rademacher=30.0, num_anchors=1000, delta=0.1, which="explicit")
    assert found.finite_sample == finite_sample_bound(0.1, 510, 8)
    assert found.complexity == pytest.approx(2 * found.lipschitz * 30 / 1000)
    assert found.confidence == pytest.approx(loss_bound(0.1, 510) * 4 * math.sqrt(math.log(40) / 2000))
    assert found.total == found.finite_sample + found.complexity + found.confidence
    for which, value in (("explicit", 4 * (1 + E**4 / 9)), ("corrected", E**4 / 0.9 * math.sqrt(2 + 0.02))):
        half = generalization_bound(0.1, 8, 8, rademacher=0, num_anchors=1, temperature=0.5, which=which)  # type: ignore[arg-type]
        assert half.lipschitz == pytest.approx(value / math.sqrt(0.5))


@given(priors, counts, counts, temperatures)
def test_what_is_called_vacuous_is_no_less_than_what_is_always_true(tau: float, n: int, m: int, t: float) -> None:
    """The trivial values, found at the ends of what critics can be."""
    largest = math.exp(1 / t)
    found = promises(tau, n, m, t)
    g = (largest - tau / largest) / (1 - tau)
    for h in (1 / largest, 1.0, largest):
        assert math.log1p(n * g / h) - math.log1p(n / largest / h) <= found[0].trivial + 1e-9  # type: ignore[operator]
        assert math.log1p(n * largest / h) - math.log1p(n / largest / h) <= found[2].trivial + 1e-9  # type: ignore[operator]


def test_vacuous_promises_are_called_so() -> None:
    cold, warm = promises(0.1, 510, 1, 0.1), promises(0.1, 510, 1, 1.0)
    assert cold[0].verdict == "vacuous"
    assert warm[0].verdict == "says something"
    assert promises(0.1, 20, 1, 0.5)[2].verdict == "vacuous"
    needed = needed_unlabeled(0.1, 1.0)
    assert finite_sample_bound(0.1, needed, 0.1 * needed) == pytest.approx(0.1, rel=1e-3)
    assert finite_sample_bound(0.1, needed - 5, 0.1 * (needed - 5)) > 0.1


def test_theorem_5_says_something_only_for_many_classes() -> None:
    """With three classes not even anchors without end help; with a hundred they do."""
    few, many = (promises(1 / k, max(k - 1, 1), 10 * k, 1.0)[-1] for k in (3, 100))
    assert (few.verdict, many.verdict) == ("vacuous", "says something")
    total, *parts = promises(0.01, 99, 1000, 1.0, num_anchors=10**6, rademacher=100.0)[-4:]
    assert total.value == pytest.approx(sum(part.value for part in parts))


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="num_unlabeled must lie between 1 and 1e18; got 0"):
        finite_sample_bound(0.1, 0, 1)
    with pytest.raises(ValueError, match="temperature must be finite and at least"):
        finite_sample_bound(0.1, 1, 1, temperature=0)
    with pytest.raises(ValueError, match="which must be one of printed, printed proof, corrected; got 'best'"):
        finite_sample_bound(0.1, 1, 1, which="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\)"):
        generalization_bound(0.1, 1, 1, rademacher=1, num_anchors=1, delta=0)
