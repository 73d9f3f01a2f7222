"""Lemma A.4 and Theorem 5: constants of the loss, and what they guarantee for a classifier on the embedding.

E = e^{1/t} throughout.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.theory.bounds import check_sizes, check_which, finite_sample_bound, largest_critic


def lipschitz_constant(
    tau_plus: float,
    num_unlabeled: float,
    num_positives: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "corrected"] = "corrected",
) -> float:
    """An upper bound of the Euclidean norm of the loss's gradient in the logits (u, v) (Lemma A.4).

    printed    E sqrt(1 / (tau_minus^2 N) + tau_plus^2 / M)
    corrected  (E^2 / tau_minus) sqrt(1 / N + tau_plus^2 / M)

    Verdict: the printed constant is of a function that is not the loss, and the loss exceeds it, 13 times at
    N = 4096, M = 1, tau_plus = 0.8. The corrected one is approached there.

    Args:
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        num_positives: M.
        temperature: t.
        which: The paper's form or the corrected one.

    >>> [round(lipschitz_constant(0.8, 4096, 1, which=which), 3) for which in ("printed", "corrected")]
    [2.185, 29.562]
    """
    check_sizes(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "corrected")
    largest, tau_minus = largest_critic(temperature), 1 - tau_plus
    if which == "printed":
        return largest * math.sqrt(1 / (tau_minus**2 * num_unlabeled) + tau_plus**2 / num_positives)
    return largest**2 / tau_minus * math.sqrt(1 / num_unlabeled + tau_plus**2 / num_positives)


def absolute_lipschitz_constant(tau_plus: float, *, temperature: float = 1.0) -> float:
    """An upper bound of the sum of the loss's absolute derivatives in all logits (s+, u, v).

    2 + 2 E^2 tau_plus / tau_minus

    Verdict: not in print. It does not grow with N or M.

    Args:
        tau_plus: The probability of the anchor's class.
        temperature: t.
    """
    check_sizes(tau_plus, 1, 1)
    return 2 + 2 * largest_critic(temperature) ** 2 * tau_plus / (1 - tau_plus)


def loss_bound(
    tau_plus: float,
    num_unlabeled: float,
    *,
    temperature: float = 1.0,
    which: Literal["printed", "corrected"] = "corrected",
) -> float:
    """B, an upper bound of the loss (Lemma A.4).

    printed    log(N (1 / tau_minus + tau_plus)), up to a factor that is not given
    corrected  log(1 + (N / tau_minus) (E^2 - tau_plus)), attained

    Verdict: printed up to a constant, and too small without one.

    Args:
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        temperature: t.
        which: The paper's form or the corrected one.

    >>> [round(loss_bound(0.1, n), 4) for n in (510, 65536)]
    [8.3264, 13.1821]
    """
    check_sizes(tau_plus, num_unlabeled, 1)
    check_which(which, "printed", "corrected")
    tau_minus = 1 - tau_plus
    if which == "printed":
        return math.log(num_unlabeled * (1 / tau_minus + tau_plus))
    return math.log1p(num_unlabeled / tau_minus * (largest_critic(temperature) ** 2 - tau_plus))


@dataclass(frozen=True)
class Guarantee:
    """Theorem 5: the supervised loss of the trained embedding is at most the debiased loss plus `total`."""

    finite_sample: float
    """What N and M samples cost (Theorem 3)."""
    complexity: float
    """What the choice among embeddings costs: lambda R_S / T."""
    confidence: float
    """What chance costs: B sqrt(log(1 / delta) / T)."""
    lipschitz: float
    """lambda."""
    largest_loss: float
    """B."""

    @property
    def total(self) -> float:
        """The bound itself, the sum of its terms."""
        return self.finite_sample + self.complexity + self.confidence


def generalization_bound(
    tau_plus: float,
    num_unlabeled: float,
    num_positives: float,
    *,
    rademacher: float,
    num_anchors: float,
    delta: float = 0.05,
    temperature: float = 1.0,
    which: Literal["printed", "corrected", "explicit"] = "corrected",
) -> Guarantee:
    """The terms of Theorem 5: with probability 1 - delta, L_Sup(f_hat) <= L_Debiased^{N,M}(f) + total for all f.

    For N >= K - 1, uniform classes, features of norm 1 / sqrt(t):

    printed    finite_sample + lambda R_S / T + B sqrt(log(1 / delta) / T), up to factors that are not given,
               lambda = sqrt((M/N + 1) / tau_minus^2 + tau_plus^2 (N/M + 1))
    corrected  the same with lambda = (E^2 / (tau_minus sqrt(t))) sqrt((M/N + 1) + tau_plus^2 (N/M + 1))
    explicit   finite_sample + 2 lambda R_S / T + 4 B sqrt(log(4 / delta) / (2 T)), no factor left out,
               lambda = 4 (1 + E^2 tau_plus / tau_minus) / sqrt(t)

    Verdict: the printed lambda comes from Lemma A.4 as printed, so it is not proved; nothing shows it wrong either.
    The explicit form takes the sum of absolute derivatives: in the features the loss is sqrt(2 / t) times that
    Lipschitz, vector contraction (Maurer, 2016) gives sqrt(2), symmetrisation 2; three times the bounded difference
    for the empirical complexity and once for the best f, which is enough for all others. Its lambda does not grow
    with N and M, though R_S and B do; for small N it is not the smallest.

    Args:
        tau_plus: The probability of the anchor's class.
        num_unlabeled: N.
        num_positives: M.
        rademacher: The sum R_S = E sup_f <sigma, f(S)> over the (N + M + 2) T samples of all anchors.
        num_anchors: T.
        delta: The probability that the guarantee fails.
        temperature: t.
        which: The paper's form, the corrected one, or the one without hidden factors.

    Returns:
        The terms, one by one.

    >>> [round(generalization_bound(0.1, n, 1, rademacher=0, num_anchors=1, which="explicit").lipschitz, 3)
    ...  for n in (510, 65536)]
    [7.284, 7.284]
    """
    check_sizes(tau_plus, num_unlabeled, num_positives)
    check_which(which, "printed", "corrected", "explicit")
    if not 0 < delta < 1 or not num_anchors >= 1 or rademacher < 0:
        raise ValueError(
            "delta must lie in (0, 1), num_anchors be at least 1 and rademacher at least 0; got "
            f"{delta}, {num_anchors} and {rademacher}"
        )
    form: Literal["printed", "corrected"] = "printed" if which == "printed" else "corrected"
    sizes = (tau_plus, num_unlabeled, num_positives)
    largest_loss = loss_bound(tau_plus, num_unlabeled, temperature=temperature, which=form)
    lipschitz = _lambda(*sizes, temperature, which)
    chance = math.sqrt(math.log(1 / delta) / num_anchors)
    if which == "explicit":
        chance = 4 * math.sqrt(math.log(4 / delta) / (2 * num_anchors))
    return Guarantee(
        finite_sample=finite_sample_bound(*sizes, temperature=temperature, which=form),
        complexity=(2 if which == "explicit" else 1) * lipschitz * rademacher / num_anchors,
        confidence=largest_loss * chance,
        lipschitz=lipschitz,
        largest_loss=largest_loss,
    )


class Estimate(NamedTuple):
    """A mean over draws."""

    value: float
    error: float
    """Its standard error."""


def finite_class_complexity(features: Tensor, draws: int, generator: torch.Generator) -> Estimate:
    """Rademacher complexity R_S = E_sigma sup_f <sigma, f(S)> of finitely many embeddings, by Monte Carlo.

    Args:
        features: (f, n, d) features of the same n samples under each embedding.
        draws: How many sign patterns are drawn.
        generator: What they are drawn with.

    Returns:
        The complexity, a sum over samples as in the paper.
    """
    flat = features.flatten(1)
    suprema = [(flat @ _signs(flat.shape[1:], generator).to(flat)).max() for _ in range(draws)]
    return _mean(torch.stack(suprema))


def linear_class_complexity(
    inputs: Tensor, out_dim: int, radius: float, draws: int, generator: torch.Generator
) -> Estimate:
    """The same of all matrices A of bounded Frobenius norm, x -> A x.

    The supremum over A of <sigma, A x> is radius times the norm of sigma^T x.

    Args:
        inputs: (n, d) samples.
        out_dim: Dimension of A x.
        radius: The largest Frobenius norm.
        draws: How many sign patterns are drawn.
        generator: What they are drawn with.

    Returns:
        The complexity, a sum over samples as in the paper.
    """
    suprema = [
        radius * (_signs((out_dim, len(inputs)), generator).to(inputs) @ inputs).norm() for _ in range(draws)
    ]
    return _mean(torch.stack(suprema))


def _lambda(tau_plus: float, n: float, m: float, temperature: float, which: str) -> float:
    square, tau_minus = largest_critic(temperature) ** 2, 1 - tau_plus
    if which == "explicit":
        return 4 * (1 + square * tau_plus / tau_minus) / math.sqrt(temperature)
    if which == "corrected":
        return square / tau_minus / math.sqrt(temperature) * math.sqrt((m / n + 1) + tau_plus**2 * (n / m + 1))
    return math.sqrt((m / n + 1) / tau_minus**2 + tau_plus**2 * (n / m + 1))


def _signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(2, shape, generator=generator) * 2 - 1


def _mean(values: Tensor) -> Estimate:
    if len(values) < 2:
        raise ValueError(f"draws must be at least 2, for an error; got {len(values)}")
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))
