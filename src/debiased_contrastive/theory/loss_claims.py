"""Statements about the losses: uniform classes, Lemma 1, Equation 4, Lemma 2, Lemma A.4 and the case M = 1."""

import math
from functools import cache
from itertools import product

import torch
from torch import Tensor

from debiased_contrastive.objectives.exact import inclusion_exclusion_loss
from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory import worlds
from debiased_contrastive.theory.bounds import asymptotic_bias_gap, bias_gap_bound, both_forms, jensen_gap_bound
from debiased_contrastive.theory.claim import Case, Checks, Line, Plot, claim
from debiased_contrastive.theory.generalization import absolute_lipschitz_constant, lipschitz_constant, loss_bound
from debiased_contrastive.theory.losses import biased_loss, inclusion_exclusion, unbiased_loss
from debiased_contrastive.theory.worlds import DiscreteWorld, TwoPointWorld, VonMisesFisherWorld, circle

UNEVEN = torch.tensor([0.3, 0.2, 0.15, 0.15, 0.12, 0.08], dtype=torch.float64)
"""Probabilities of six points in three classes of 50, 30 and 20 %."""
SIZES = ((4096, 1, 0.8), (510, 1, 0.1), (510, 8, 0.1), (64, 64, 0.5))
"""N, M and tau of Lemma A.4."""


@claim(
    "Uniform classes",
    "(m - tau m_plus) / (1 - tau) is m_minus; in print with one tau, for classes of one size",
    "equal",
    subject="assumption",
)
def one_prior() -> Checks:
    """One tau for all anchors is right only if all classes have one size; each anchor's own always is."""
    for name, world in (("equal classes", circle()), ("classes of 50, 30 and 20 %", circle(probabilities=UNEVEN))):
        m, m_plus, m_minus = (world.critic_mean(rows) for rows in (world.p, world.p_plus, world.p_minus))
        # The best single number: the probability that two samples share a class.
        constant = float(world.probabilities @ world.tau_plus)
        for x in (0, 2, 4):
            own = float(world.tau_plus[x])
            corrected, printed = (float((m[x] - tau * m_plus[x]) / (1 - tau)) for tau in (own, constant))
            yield Case(f"{name}, anchor of a class of {own:.0%}", float(m_minus[x]), corrected, printed)


@claim("Lemma 1", "L_Biased - L_Unbiased is at least the bound", "at least")
def lemma_1() -> Checks:
    """The inequality, where classes are near, where they are torn apart, and for anchors far from their own."""
    for name, world, t in (
        ("circle", circle(), 1.0),
        ("classes torn apart", worlds.torn_classes(), 1.0),
        ("circle, t = 0.5", circle(temperature=0.5), 0.5),
    ):
        ratio = world.critic_mean(world.p_plus) / world.critic_mean(world.p_minus)
        log_ratio = float(world.probabilities @ ratio.log().clamp(max=0))
        for n in (1, 2, 4):
            bounds = both_forms(bias_gap_bound, log_ratio, float(world.tau_plus[0]), n, temperature=t)
            yield Case(f"{name}, N = {n}", biased_loss(world, n) - unbiased_loss(world, n), **bounds)
    # The proof is for each anchor. The class of these is farther than the others, so that the gap is negative.
    for tau, q_plus, q_minus in (
        (0.1, 0.0, 1.0), (0.5, 0.1, 0.3), (0.9, 0.0, 0.5), (0.9, 0.0, 0.05), (0.5, 0.9, 1.0), (0.9, 0.8, 1.0),
    ):  # fmt: skip
        anchor = TwoPointWorld(tau, q_plus, q_minus, h_plus=1 / math.e)
        log_ratio = math.log(anchor.mean(q_plus) / anchor.mean(q_minus))
        for n in (1, 8, 128):
            where = f"one anchor, tau = {tau}, q = {q_plus} and {q_minus}, N = {n}"
            yield Case(where, _exact_gap(anchor, n), **both_forms(bias_gap_bound, log_ratio, tau, n))
    gap, error, ratios = simulated_gap(510, 20.0)
    log_ratio = sum(min(0.0, math.log(ratio)) for ratio in ratios) / len(ratios)
    bounds = both_forms(bias_gap_bound, log_ratio, 0.1, 510)
    yield Case("ten classes on the sphere, N = 510", gap, **bounds, error=error)


@claim("Lemma 1, limit", "the gap tends to E log(1 - tau + tau m_plus / m_minus)", "equal")
def lemma_1_limit() -> Checks:
    for kappa in (20.0, 60.0):
        gap, error, ratios = simulated_gap(510, kappa)
        limit = asymptotic_bias_gap(ratios, 0.1)
        yield Case(f"ten classes, kappa = {kappa:.0f}, N = 510", gap, limit, error=error)
    world = TwoPointWorld(0.3, 0.8, 0.2, h_plus=None)
    limit = asymptotic_bias_gap([world.mean(0.8) / world.mean(0.2)], 0.3)
    for n in (64, 1024):
        # The tolerance covers what N samples lose to their mean, and the weight of x+ beside N of them.
        yield Case(f"two-point world, N = {n}", _exact_gap(world, n), limit, tolerance=4 / n)
    counts = (4, 16, 64, 256, 1024)
    lines = [
        Line("two-point world, tau = 0.3", counts, [_exact_gap(world, n) for n in counts]),
        Line("limit", counts, [limit] * len(counts), "corrected"),
    ]
    yield Plot("bias", "What sampling bias adds to the loss", "N", "L_Biased - L_Unbiased", lines)


@cache  # two claims use the same anchors
def simulated_gap(num_unlabeled: int, kappa: float) -> tuple[float, float, list[float]]:
    """The gap of the losses among ten classes, four standard errors, and m_plus / m_minus of each anchor."""
    world = VonMisesFisherWorld(worlds.orthogonal_means(10, 16), kappa)
    generator, batch = torch.Generator().manual_seed(0), 250
    differences, ratios = [], []
    for _ in range(8):
        x, labels = world.sample(batch, generator)
        h_plus = (x * world.members(labels, generator)).sum(1).exp()
        _, m_plus, m_minus = world.critic_means(x, labels)
        unlabeled, _ = world.sample(batch * num_unlabeled, generator)
        others = world.others(labels, num_unlabeled, generator)
        biased, unbiased = (
            torch.log1p(torch.einsum("ad,and->an", x, z.view(batch, num_unlabeled, -1)).exp().sum(1) / h_plus)
            for z in (unlabeled, others)
        )
        differences.append(biased - unbiased)
        ratios += (m_plus / m_minus).tolist()
    gaps = torch.cat(differences)
    return float(gaps.mean()), 4 * float(gaps.std()) / math.sqrt(len(gaps)), ratios


def _exact_gap(world: TwoPointWorld, n: int) -> float:
    return world.mean_loss(n, world.q, n) - world.mean_loss(n, world.q_minus, n)


@claim("Equation 4", "the alternating sum is the unbiased loss", "equal")
def equation_4() -> Checks:
    """Both sides by enumeration, for classes of equal and of different sizes."""
    for name, world in (("circle", circle()), ("classes of 50, 30 and 20 %", circle(probabilities=UNEVEN))):
        for n in (1, 2, 3, 4):
            exact = unbiased_loss(world, n)
            yield Case(f"{name}, N = {n}", inclusion_exclusion(world, n), exact, exact)


@claim("Equation 4, spread", "from N = 6 on, two more samples more than double its standard deviation", "above")
def equation_4_spread() -> Checks:
    """The standard deviation of one estimate grows with every two samples that should help."""
    counts, world = (1, 2, 4, 6, 8, 10, 12), circle()
    tau = float(world.tau_plus[0])
    spreads, plain = ([_estimate_spread(world, n, prior) for n in counts] for prior in (tau, 0.0))
    growth = [((1 + tau) / (1 - tau)) ** n for n in counts]
    for k in range(4, len(counts)):
        # Twice the spread for two more samples; the biased loss's spread falls.
        where = f"circle, spread at N = {counts[k]} over that at N = {counts[k - 1]}"
        yield Case(where, spreads[k] / spreads[k - 1], 2.0)
    lines = [
        Line("Eq. 4", counts, spreads),
        Line("Eq. 1, the biased loss", counts, plain),
        Line("sum of its coefficients, ((1 + tau) / (1 - tau))^N", counts, growth, "corrected"),
    ]
    title = "One estimate by the alternating sum, by the number of samples"
    yield Plot("equation-4", title, "N", "standard deviation", lines, "linear")


def _estimate_spread(world: DiscreteWorld, n: int, tau_plus: float) -> float:
    generator = torch.Generator().manual_seed(0)
    anchors = torch.multinomial(world.probabilities, 20_000, replacement=True, generator=generator)
    first = world.sample(world.p_plus, anchors, 1, generator)
    u, v = (world.sample(rows, anchors, n, generator) for rows in (world.p, world.p_plus))
    scores = world.scores[anchors]
    s_plus, u, v = (scores.gather(1, chosen) for chosen in (first, u, v))
    estimates = inclusion_exclusion_loss(s_plus[:, 0], u, v, tau_plus=tau_plus, reduction="none")
    return math.sqrt(float(estimates.var()))


@claim("Lemma 2", "the loss of many true negatives is log(1 + Q (m - tau m_plus) / (tau_minus h+))", "equal")
def lemma_2() -> Checks:
    """The limit itself: true negatives on one side, p and p+ on the other."""
    for tau, q_plus, q_minus, t in ((0.1, 0.9, 0.3, 1.0), (0.5, 0.2, 0.6, 1.0), (0.3, 0.8, 0.1, 0.5)):
        world = TwoPointWorld(tau, q_plus, q_minus, h_plus=1.0, temperature=t)
        value = math.log1p(8.0 * (world.mean(world.q) - tau * world.mean(q_plus)) / (1 - tau))
        where = f"two-point world, tau = {tau}, t = {t}, Q = 8, N = 65536"
        allowed = jensen_gap_bound(2**16, temperature=t)
        yield Case(where, world.mean_loss(2**16, q_minus, 8.0), value, value, tolerance=allowed)


@claim("Lemma 2, rate", "the distance to the limit falls like 1 / N", "at most")
def lemma_2_rate() -> Checks:
    counts = (1, 4, 8, 16, 64, 256, 512)
    lines = []
    for q_minus, h_plus, t in ((0.3, 1.0, 1.0), (0.05, math.exp(-1), 1.0), (0.5, math.exp(-2), 0.5)):
        world = TwoPointWorld(0.1, 0.9, q_minus, h_plus=h_plus, temperature=t)
        limit = math.log1p(8.0 * world.mean_negative / h_plus)
        distances = [limit - world.mean_loss(n, q_minus, 8.0) for n in counts]
        bounds = [jensen_gap_bound(n, temperature=t) for n in counts]
        for n, distance, bound in zip(counts, distances, bounds, strict=True):
            yield Case(f"two-point world, q = {q_minus}, t = {t}, Q = 8, N = {n}", distance, bound)
        lines += [Line("measured", counts, distances), Line("bound", counts, bounds, "corrected")]
    # The plot shows the first world alone.
    yield Plot("lemma-2", "Lemma 2: distance of the loss to its limit, Q = 8", "N", "difference", lines[:2])


@claim("Lemma A.4, slope", "the norm of the gradient in (u, v) is at most eta", "at most")
def lemma_a4_slope() -> Checks:
    """The Euclidean norm of the gradient at steep logits, and at random ones."""
    for t, (n, m, tau) in product((1.0, 0.5), SIZES):
        bounds = both_forms(lipschitz_constant, tau, n, m, temperature=t)
        where = f"logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
        yield Case(f"steep {where}", steep_norm(n, m, tau, t), **bounds)
        yield Case(f"random {where}", _gradient_norm(_random_logits(n, m, t), tau, t), **bounds)


@claim("Lemma A.4, absolute", "the sum of absolute derivatives is at most 2 + 2 E^2 tau / tau_minus", "at most")
def lemma_a4_absolute() -> Checks:
    """The sum of the absolute derivatives, which N and M do not move."""
    for t, (n, m, tau) in product((1.0, 0.5), SIZES):
        _, gradients = _loss_and_gradients(*_steep_logits(n, m, tau, t), tau, t)
        total = sum(float(gradient.abs().sum()) for gradient in gradients)
        where = f"steep logits, t = {t}, N = {n}, M = {m}, tau = {tau}"
        yield Case(where, total, absolute_lipschitz_constant(tau, temperature=t))


@claim("Lemma A.4, size", "the loss is at most B", "at most", subject="order")
def lemma_a4_size() -> Checks:
    """The largest loss, which is attained."""
    for t, (n, m, tau) in product((1.0, 0.5), SIZES):
        farthest = (torch.tensor([-1 / t]), torch.full((1, n), 1 / t), torch.full((1, m), -1 / t))
        loss, _ = _loss_and_gradients(*farthest, tau, t)
        where = f"largest loss, t = {t}, N = {n}, M = {m}, tau = {tau}"
        yield Case(where, loss, **both_forms(loss_bound, tau, n, temperature=t))


@claim("M = 1", "off the floor, gradients are the biased ones times a number for each anchor", "equal")
def single_positive() -> Checks:
    """The loss and its gradients, with x+ as the only positive."""
    generator = torch.Generator().manual_seed(0)
    for n, tau in ((510, 0.05), (510, 0.1), (64, 0.01)):
        s_plus = torch.rand(1, dtype=torch.float64, generator=generator)
        u = 2 * torch.rand(1, n, dtype=torch.float64, generator=generator) - 0.5
        ratio = float((u - s_plus).exp().sum())
        loss, debiased = _loss_and_gradients(s_plus, u, None, tau, 1.0)
        _, biased = _loss_and_gradients(s_plus, u, None, 0.0, 1.0)
        yield Case(f"loss, N = {n}, tau = {tau}", loss, math.log((ratio + 1 - (n + 1) * tau) / (1 - tau)))
        weight = (ratio + 1) / (ratio + 1 - (n + 1) * tau)
        for name, ours, plain in zip(("x+", "samples"), debiased, biased, strict=True):
            factors = ours / plain
            for end, value in (("smallest", factors.min()), ("largest", factors.max())):
                yield Case(f"{end} weight of {name}, N = {n}, tau = {tau}", float(value), weight)


def steep_norm(n: int, m: int, tau: float, t: float) -> float:
    """The norm of the gradient in (u, v) where it is nearly as large as it can be, if N is large and M is not."""
    return _gradient_norm(_steep_logits(n, m, tau, t), tau, t)


def _gradient_norm(logits: tuple[Tensor, Tensor, Tensor], tau: float, t: float) -> float:
    _, gradients = _loss_and_gradients(*logits, tau, t)
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients[1:]))


def _loss_and_gradients(
    s_plus: Tensor, u: Tensor, v: Tensor | None, tau_plus: float, t: float
) -> tuple[float, list[Tensor]]:
    """The loss of one anchor and its derivatives in s+, u and v; without v, x+ is the only positive."""
    given = [logits.double().clone().requires_grad_() for logits in (s_plus, u, v) if logits is not None]
    loss = contrastive_loss(*given, tau_plus=tau_plus, lower=-1 / t)
    return loss.item(), list(torch.autograd.grad(loss, given))


def _steep_logits(n: int, m: int, tau: float, t: float) -> tuple[Tensor, Tensor, Tensor]:
    """Positives as near as can be, and unlabeled samples that leave the estimate just above its floor."""
    largest = math.exp(1 / t)
    just_above = (1 - tau) / largest + tau * largest + 1e-9
    return (
        torch.tensor([-1 / t], dtype=torch.float64),
        torch.full((1, n), math.log(just_above), dtype=torch.float64),
        torch.full((1, m), 1 / t, dtype=torch.float64),
    )


def _random_logits(n: int, m: int, t: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    s, u, v = (2 * torch.rand(1, count, dtype=torch.float64, generator=generator) - 1 for count in (1, n, m))
    return s[:, 0] / t, u / t, v / t
