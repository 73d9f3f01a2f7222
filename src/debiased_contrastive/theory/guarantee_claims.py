"""Guarantees from finitely many samples: Theorem 3, Lemma A.2, Lemma 4 and Theorem 5."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from debiased_contrastive.objectives.losses import contrastive_loss
from debiased_contrastive.theory import loss_claims, losses, worlds
from debiased_contrastive.theory.bounds import both_forms, finite_sample_bound, second_order_bound, tail_bound
from debiased_contrastive.theory.claim import Case, Checks, Claim, Line, Plot, claim
from debiased_contrastive.theory.generalization import Guarantee, finite_class_complexity, generalization_bound
from debiased_contrastive.theory.worlds import DiscreteWorld, TwoPointWorld, VonMisesFisherWorld, circle

COUNTS, MANY_POSITIVES = (16, 32, 64, 128, 256, 512, 1024), 4096
"""N and M of the plots of Theorem 3."""
SHARES_AT_ANCHOR = ((0.3, "off the floor"), (0.0, "on the floor"))
"""Shares of the negatives that lie at the anchor, and where each puts the estimate."""
SPHERE_SAMPLES = 20_000
CANDIDATES, NUM_UNLABELED, NUM_POSITIVES, TAU_PLUS = 32, 4, 2, 1 / 3
"""Embeddings that Theorem 5 chooses among, and the setting of their loss."""
SAMPLE_SIZES = (30, 100, 1000, 10_000)
"""T of Theorem 5."""


@claim("Theorem 3", "the mean |L_Debiased^{N,M} - limit| is at most the bound", "at most")
def theorem_3() -> Checks:
    """The mean absolute difference, which bounds the printed one, in two-point worlds and on the sphere."""
    random_worlds = [("random two-point world", *setting) for setting in _random_worlds()]
    for name, world, n, m in [("two-point world", TwoPointWorld(0.1, 0.9, 0.3), 16, 4), *random_worlds]:
        where = f"{name}, tau = {world.tau_plus:.2f}, N = {n}, M = {m}"
        yield Case(where, mean_distance(world, n, m), **both_forms(finite_sample_bound, world.tau_plus, n, m))
    for t, shared in ((1.0, False), (1.0, True), (0.5, False)):
        measured, error = sphere_difference(510, 8, t, shared)
        where = f"ten classes, t = {t}, N = 510, M = 8" + (", x+ among the positives" if shared else "")
        yield Case(where, measured, **both_forms(finite_sample_bound, 0.1, 510, 8, temperature=t), error=error)
    lines = [
        Line(name, COUNTS, [mean_distance(TwoPointWorld(0.1, 0.9, q), n, MANY_POSITIVES) for n in COUNTS])
        for q, name in SHARES_AT_ANCHOR
    ]
    title = "Theorem 3: mean distance of the debiased loss to its limit, tau = 0.1, M = 4096"
    yield Plot("theorem-3", title, "N", "E |difference|", [*lines, *_bound_lines()])


@claim(
    "Theorem 3, rate",
    "the mean distance falls like 1 / sqrt(N) and 1 / sqrt(M); off the floor the bias like 1 / N",
    "equal",
)
def theorem_3_rate() -> Checks:
    """Slopes in double logarithms, over the last factor of four."""

    def slope(before: float, after: float) -> float:
        return math.log(after / before) / math.log(4)

    for q_minus, name in SHARES_AT_ANCHOR:
        world = TwoPointWorld(0.1, 0.9, q_minus)
        measured = slope(*(mean_distance(world, n, MANY_POSITIVES) for n in (1024, 4096)))
        yield Case(f"mean distance by N, {name}", measured, -0.5, -0.5, tolerance=0.05)
    # There are so many unlabeled samples that the positives alone limit the distance.
    world = TwoPointWorld(0.5, 0.5, 0.5)
    measured = slope(*(mean_distance(world, 2**16, m) for m in (4, 16)))
    yield Case("mean distance by M", measured, -0.5, -0.5, tolerance=0.05)
    for (q_minus, name), wanted in zip(SHARES_AT_ANCHOR, (-1.0, -0.5), strict=True):
        world = TwoPointWorld(0.1, 0.9, q_minus)
        measured = slope(*(signed_bias(world, n, MANY_POSITIVES) for n in (1024, 4096)))
        yield Case(f"bias by N, {name}", measured, wanted, tolerance=0.05)


@claim("Theorem 3, temperature", "the bound at t = 1 holds at every temperature", "at most")
def theorem_3_temperature() -> Checks:
    """The printed constant has no temperature in it.

    All classes are spread over the same D orthogonal points, so a sample lies at the anchor with probability 1 / D
    and at a right angle to it else. With N = D / 2 about half the draws hold no such sample.
    """
    for t in (1.0, 0.5, 0.2, 0.1):
        for n, m, points in ((128, 32, 128), (510, 600, 1020)):
            world = TwoPointWorld(0.1, 1 / points, 1 / points, h_plus=None, temperature=t, far=0.0)
            corrected = finite_sample_bound(0.1, n, m, temperature=t)
            printed = finite_sample_bound(0.1, n, m, which="printed")
            where = f"{points} orthogonal points, t = {t}, N = {n}, M = {m}"
            yield Case(where, signed_bias(world, n, m), corrected, printed)


@claim("Theorem 3, its proof", "the integral of the tail of Lemma A.2 is the bound", "equal", subject="proof")
def theorem_3_proof() -> Checks:
    """The last step of the printed proof, by sums over a fine grid."""
    epsilons = torch.linspace(0, 40, 40_001, dtype=torch.float64)
    for n, m in ((510, 1), (510, 8), (64, 64)):
        tail = [tail_bound(epsilon, 0.1, n, m, which="printed") for epsilon in epsilons.tolist()]
        integral = float(torch.trapezoid(torch.tensor(tail, dtype=torch.float64), epsilons))
        proof = finite_sample_bound(0.1, n, m, which="printed proof")
        printed = finite_sample_bound(0.1, n, m, which="printed")
        yield Case(f"tau = 0.1, N = {n}, M = {m}", integral, proof, printed, tolerance=1e-5)


@claim("Theorem 3, second order", "the bias is at most V max{E^2 / 2, E / (4 (m_minus - 1/E))}", "at most")
def theorem_3_bias() -> Checks:
    """The signed difference: of second order, off the floor."""
    lines = []
    for q_minus, name in SHARES_AT_ANCHOR:
        world = TwoPointWorld(0.1, 0.9, q_minus)
        lines.append(Line(name, COUNTS, [signed_bias(world, n, MANY_POSITIVES) for n in COUNTS]))
        for n, measured in zip(COUNTS, lines[-1].y, strict=True):
            second = second_order_bound(world.variance(n, MANY_POSITIVES), world.mean_negative)
            bound = min(second, finite_sample_bound(0.1, n, MANY_POSITIVES))
            yield Case(f"{name}, N = {n}, M = {MANY_POSITIVES}", measured, bound)
    title = "Theorem 3, signed: the bias of the debiased loss, tau = 0.1, M = 4096"
    yield Plot("theorem-3-bias", title, "N", "|E difference|", [*lines, *_bound_lines()])


@claim("Lemma A.2", "P(|difference| >= eps) is at most the bound", "at most")
def lemma_a2() -> Checks:
    usual = (TwoPointWorld(0.1, 0.9, 0.3), 128, 32)
    # The slope is largest where everything is far, x+ too, and there are few samples.
    steep = [(TwoPointWorld(0.0, 0.5, q, h_plus=math.exp(-1)), n, 1) for q in (0.1, 0.3) for n in (32, 64, 128)]
    for world, n, m in (usual, *steep, *_random_worlds()):
        delta, weights = world.differences(n, m)
        for epsilon in (0.3, 0.6, 1.0):
            bounds = both_forms(tail_bound, epsilon, world.tau_plus, n, m)
            where = f"two-point world, tau = {world.tau_plus:.2f}, N = {n}, M = {m}, eps = {epsilon}"
            # A probability is below 1 without any lemma.
            if bounds["corrected"] < 1:
                yield Case(where, float(weights[delta.abs() >= epsilon].sum()), **bounds)


def mean_distance(world: TwoPointWorld, n: int, m: int) -> float:
    """E |Delta|."""
    delta, weights = world.differences(n, m)
    return float((delta.abs() * weights).sum())


def signed_bias(world: TwoPointWorld, n: int, m: int) -> float:
    """|E Delta|."""
    delta, weights = world.differences(n, m)
    return abs(float((delta * weights).sum()))


def sphere_difference(n: int, m: int, temperature: float, shared: bool) -> tuple[float, float]:
    """E |Delta| of the library's loss among ten classes, and four standard errors; if shared, x+ is a positive."""
    world = VonMisesFisherWorld(worlds.orthogonal_means(10, 16), 20.0, temperature)
    generator = torch.Generator().manual_seed(1)
    parts = []
    for _ in range(4):
        x, labels = world.sample(250, generator)
        unlabeled, _ = world.sample(250 * n, generator)
        own = world.members(labels.unsqueeze(1).expand(-1, m + 1), generator)
        u, v = (torch.einsum("ad,and->an", x, z.view(250, -1, 16)) / temperature for z in (unlabeled, own))
        s_plus, positives = v[:, 0], v[:, :-1] if shared else v[:, 1:]
        loss = contrastive_loss(s_plus, u, positives, tau_plus=0.1, lower=-1 / temperature, reduction="none")
        parts.append((loss - torch.log1p(n * world.critic_means(x, labels)[2] / s_plus.exp())).abs())
    distances = torch.cat(parts)
    return float(distances.mean()), 4 * float(distances.std()) / math.sqrt(len(distances))


def _random_worlds() -> Iterator[tuple[TwoPointWorld, int, int]]:
    generator = torch.Generator().manual_seed(2)
    for tau, q_plus, q_minus, h, n, m in torch.rand(100, 6, dtype=torch.float64, generator=generator).tolist():
        yield TwoPointWorld(0.9 * tau, q_plus, q_minus, math.exp(2 * h - 1)), 1 + int(128 * n), 1 + int(32 * m)


def _bound_lines() -> list[Line]:
    bounds = [both_forms(finite_sample_bound, 0.1, n, MANY_POSITIVES) for n in COUNTS]
    forms: tuple[Literal["printed", "corrected"], ...] = ("printed", "corrected")
    return [Line(f"{form} bound", COUNTS, [bound[form] for bound in bounds], form) for form in forms]


@claim("Lemma 4", "L_Sup <= L_Sup^mu <= the limit of the debiased loss, N >= K - 1", "at most")
def lemma_4() -> Checks:
    """Both inequalities, N = K - 1, tasks of all classes and of some."""
    for name, world, classes in (
        ("constant encoder", worlds.constant_encoder(10), 10),
        ("collapsed classes", worlds.collapsed_classes(10), 10),
        ("collapsed classes, t = 0.5", worlds.collapsed_classes(10, temperature=0.5), 10),
        ("circle", circle(), 3),
        ("circle, t = 0.5", circle(temperature=0.5), 3),
        ("circle", circle(), 2),
        ("collapsed classes", worlds.collapsed_classes(6), 3),
    ):
        best, mean = losses.supervised_losses(world, classes)
        limit = losses.debiased_limit(world, classes - 1)
        yield Case(f"{name}, K = {classes}: mean classifier, N = K - 1", mean, limit, limit)
        yield Case(f"{name}, K = {classes}: best classifier", best, mean, mean)
    for t in (1.0, 0.5):
        best, mean, limit, error = _sphere_losses(9, t)
        where = f"ten classes on the sphere, t = {t}"
        yield Case(f"{where}: mean classifier, N = 9", mean, limit, limit, error=error)
        yield Case(f"{where}: best classifier", best, mean, mean)


@claim("Lemma 4, N = K - 2", "there the classifier's loss exceeds the debiased one", "above")
def lemma_4_needs_its_condition() -> Checks:
    """With one sample fewer the second inequality fails for both encoders, the whole for the constant one."""
    constant, collapsed = worlds.constant_encoder(10), worlds.collapsed_classes(10)
    for name, world in (("constant encoder", constant), ("collapsed classes", collapsed)):
        _, mean = losses.supervised_losses(world)
        yield Case(f"{name}: mean classifier, N = K - 2", mean, losses.debiased_limit(world, 8))
    best, _ = losses.supervised_losses(constant)
    yield Case("constant encoder: best classifier, N = K - 2", best, losses.debiased_limit(constant, 8))
    _, mean, limit, error = _sphere_losses(8, 1.0)
    yield Case("ten classes on the sphere: mean classifier, N = 8", mean, limit, error=error)


def _sphere_losses(num_negatives: int, temperature: float) -> tuple[float, float, float, float]:
    """L_Sup, L_Sup^mu, the limit, and four standard errors of the difference of the last two."""
    world = VonMisesFisherWorld(worlds.orthogonal_means(10, 16), 200.0, temperature)
    generator = torch.Generator().manual_seed(3)
    x, labels = world.sample(SPHERE_SAMPLES, generator)
    h_plus = ((x * world.members(labels, generator)).sum(1) / temperature).exp()
    limits = torch.log1p(num_negatives * world.critic_means(x, labels)[2] / h_plus)
    weights = torch.full((SPHERE_SAMPLES,), 1 / SPHERE_SAMPLES, dtype=torch.float64)
    classifier_inputs = (x, labels, weights, world.class_means, temperature)
    logits = x @ world.class_means.T / temperature
    mean_losses = logits.logsumexp(1) - logits.gather(1, labels.unsqueeze(1))[:, 0]
    error = 4 * float((limits - mean_losses).std()) / math.sqrt(SPHERE_SAMPLES)
    best, mean = losses.supervised_loss(*classifier_inputs), losses.mean_classifier_loss(*classifier_inputs)
    return best, mean, float(limits.mean()), error


@claim(
    "Theorem 5, explicit form",
    "the loss of the learned embedding exceeds that of the best by at most the terms",
    "at most",
)
def theorem_5() -> Checks:
    """Worst of twenty samples each: what learning cost against the two terms for it, and the whole guarantee."""
    embeddings, true_losses = candidate_embeddings()
    smallest, costs, terms = min(true_losses), [], []
    for num_anchors in SAMPLE_SIZES:
        learned, guarantee = learn(num_anchors)
        costs.append(max(true_losses[k] for k in learned) - smallest)
        terms.append(guarantee.complexity + guarantee.confidence)
        supervised = max(losses.supervised_losses(embeddings[k])[0] for k in set(learned))
        yield Case(f"loss of the learned over that of the best, T = {num_anchors}", costs[-1], terms[-1])
        yield Case(f"L_Sup of the learned, T = {num_anchors}", supervised, smallest + guarantee.total)
    lines = [
        Line("measured, worst of twenty", SAMPLE_SIZES, [max(cost, 1e-4) for cost in costs]),
        Line("both terms, factors included", SAMPLE_SIZES, terms, "corrected"),
    ]
    yield Plot("theorem-5", "Theorem 5: what learning from T anchors costs", "T", "debiased loss", lines)


@claim(
    "Theorem 5, deviation",
    "no embedding's loss exceeds its mean over T anchors by more than 2 lambda R_S / T + 3 B sqrt(...)",
    "at most",
)
def theorem_5_deviation() -> Checks:
    """The largest excess of an embedding's true loss over its mean on a sample, of which the terms consist."""
    _, true_losses = candidate_embeddings()
    for num_anchors in SAMPLE_SIZES:
        rows = _empirical_losses(num_anchors)
        excess = max(true - mean for row in rows for true, mean in zip(true_losses, row, strict=True))
        _, guarantee = learn(num_anchors)
        bound = guarantee.complexity + 0.75 * guarantee.confidence
        yield Case(f"best of {CANDIDATES} embeddings of six points, T = {num_anchors}", excess, bound)


@claim(
    "Theorem 5, lambda", "the gradient's norm times sqrt(N + M) / e^2 is at most lambda", "at most", subject="proof"
)
def theorem_5_lambda() -> Checks:
    """The derivation of lambda from the slope, both up to the factor e^2 that the paper's O(.) may hide."""
    square = math.e**2
    for n, m, tau in ((510, 1, 0.8), (510, 8, 0.8), (510, 1, 0.1), (65536, 1, 0.1)):
        needed = loss_claims.steep_norm(n, m, tau, 1.0) * math.sqrt(n + m) / square
        sizes = {"rademacher": 0.0, "num_anchors": 1.0}
        corrected = generalization_bound(tau, n, m, **sizes, which="corrected").lipschitz / square
        printed = generalization_bound(tau, n, m, **sizes, which="printed").lipschitz
        yield Case(f"steep logits, N = {n}, M = {m}, tau = {tau}", needed, corrected, printed)


@cache
def candidate_embeddings() -> tuple[list[DiscreteWorld], list[float]]:
    """Six points on the circle, placed as the classes are and ever more at random, and their debiased losses."""
    base, generator = circle(), torch.Generator().manual_seed(4)
    embeddings = []
    for noise in torch.linspace(0, 3, CANDIDATES, dtype=torch.float64).tolist():
        points = base.points + noise * torch.randn(base.points.shape, dtype=torch.float64, generator=generator)
        unit = points / points.norm(dim=1, keepdim=True)
        embeddings.append(DiscreteWorld(unit, base.labels, base.probabilities))
    return embeddings, [losses.debiased_loss(world, NUM_UNLABELED, NUM_POSITIVES) for world in embeddings]


def learn(num_anchors: int) -> tuple[list[int], Guarantee]:
    """The embedding of smallest loss on each of twenty samples, and the guarantee with R_S of the first sample."""
    chosen = [min(range(len(row)), key=row.__getitem__) for row in _empirical_losses(num_anchors)]
    x, u, own = _draw_anchors(num_anchors, 0)
    sample = torch.cat([x.unsqueeze(1), own, u], 1).flatten()
    features = torch.stack([world.points[sample] for world in candidate_embeddings()[0]])
    complexity = finite_class_complexity(features, 100, torch.Generator().manual_seed(6))
    guarantee = generalization_bound(
        TAU_PLUS, NUM_UNLABELED, NUM_POSITIVES,
        rademacher=complexity.value + 4 * complexity.error, num_anchors=num_anchors, delta=0.05, which="explicit",
    )  # fmt: skip
    return chosen, guarantee


@cache
def _empirical_losses(num_anchors: int) -> list[list[float]]:
    """The mean losses of all embeddings on each of twenty samples."""
    samples = [_draw_anchors(num_anchors, repeat) for repeat in range(20)]
    return [[_empirical_loss(world, *sample) for world in candidate_embeddings()[0]] for sample in samples]


def _draw_anchors(num_anchors: int, repeat: int) -> tuple[Tensor, Tensor, Tensor]:
    world, generator = circle(), torch.Generator().manual_seed(100 + repeat)
    x = torch.multinomial(world.probabilities, num_anchors, replacement=True, generator=generator)
    u = world.sample(world.p, x, NUM_UNLABELED, generator)
    return x, u, world.sample(world.p_plus, x, 1 + NUM_POSITIVES, generator)


def _empirical_loss(world: DiscreteWorld, x: Tensor, u: Tensor, own: Tensor) -> float:
    scores = world.scores[x]
    s = scores.gather(1, own)
    return float(contrastive_loss(s[:, 0], scores.gather(1, u), s[:, 1:], tau_plus=TAU_PLUS, lower=-1.0))


CLAIMS: tuple[Callable[[], Claim], ...] = (
    loss_claims.one_prior, loss_claims.lemma_1, loss_claims.lemma_1_limit, loss_claims.equation_4,
    loss_claims.equation_4_spread, loss_claims.lemma_2, loss_claims.lemma_2_rate, theorem_3, theorem_3_rate,
    theorem_3_temperature, theorem_3_proof, theorem_3_bias, lemma_a2, lemma_4, lemma_4_needs_its_condition,
    loss_claims.lemma_a4_slope, loss_claims.lemma_a4_absolute, loss_claims.lemma_a4_size, theorem_5,
    theorem_5_deviation, theorem_5_lambda, loss_claims.single_positive,
)  # fmt: skip
"""All claims, in the paper's order."""
