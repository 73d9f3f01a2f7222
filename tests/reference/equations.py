"""One slow loop per equation, over Python floats, in linear space, as printed. No torch, no cleverness."""

import math

SMOOTHING = 0.05
CAP_SHARE = 0.5

Row = list[float]


def mean_exp(logits: Row) -> float:
    total = 0.0
    for logit in logits:
        total += math.exp(logit)
    return total / len(logits)


def tilted_mean_exp(logits: Row, beta: float) -> float:
    """Each sample weighted by e^{beta s}, weights normalised to a mean of one."""
    weighted = 0.0
    weights = 0.0
    for logit in logits:
        weighted += math.exp(beta * logit) * math.exp(logit)
        weights += math.exp(beta * logit)
    return weighted / weights


def biased(positive: float, unlabeled: Row) -> float:
    """Eq. 1."""
    denominator = math.exp(positive)
    for logit in unlabeled:
        denominator += math.exp(logit)
    return -math.log(math.exp(positive) / denominator)


def unbiased(positive: float, negatives: Row, q: float, beta: float = 0.0) -> float:
    """Eq. 2, with Q = q over any number of true negatives."""
    return -math.log(math.exp(positive) / (math.exp(positive) + q * tilted_mean_exp(negatives, beta)))


def inclusion_exclusion(positive: float, unlabeled: Row, positives: Row, tau_plus: float) -> float:
    """Eq. 4, with the first k of the samples drawn from p+."""
    n = len(unlabeled)
    total = 0.0
    for k in range(n + 1):
        term = biased(positive, positives[:k] + unlabeled[k:])
        total += math.comb(n, k) * (-tau_plus) ** k * term
    return total / (1 - tau_plus) ** n


def asymptotic(positive: float, mean_p: float, mean_plus: float, tau_plus: float, q: float) -> float:
    """Eq. 6."""
    g = (mean_p - tau_plus * mean_plus) / (1 - tau_plus)
    return -math.log(math.exp(positive) / (math.exp(positive) + q * g))


def raw(unlabeled: Row, positives: Row, tau_plus: float, beta: float = 0.0) -> float:
    """What stands left of the comma in the maximum of Eq. 7."""
    return (tilted_mean_exp(unlabeled, beta) - tau_plus * mean_exp(positives)) / (1 - tau_plus)


def largest_tau_plus(unlabeled: Row, positives: Row, lower: float, beta: float = 0.0) -> float:
    """The tau_plus at which `raw` equals the floor, by bisection."""
    floor = math.exp(lower)
    if raw(unlabeled, positives, 1 - 1e-15, beta) > floor:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle < 1 and raw(unlabeled, positives, middle, beta) > floor:
            low = middle
        else:
            high = middle
    return low


def g(
    unlabeled: Row, positives: Row, tau_plus: float, lower: float, on_floor: str = "clamp", beta: float = 0.0
) -> float:
    """Eq. 7 and its relatives below the floor."""
    mean = tilted_mean_exp(unlabeled, beta)
    floor = math.exp(lower)
    if tau_plus == 0:
        return mean
    if on_floor == "cap_tau":
        tau_plus = min(tau_plus, CAP_SHARE * largest_tau_plus(unlabeled, positives, lower, beta))
        return raw(unlabeled, positives, tau_plus, beta)
    estimate = raw(unlabeled, positives, tau_plus, beta)
    if on_floor == "smooth":
        x = (estimate - floor) / (SMOOTHING * mean)
        softplus = x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))
        return floor + SMOOTHING * mean * softplus
    if estimate > floor:
        return estimate
    return mean if on_floor == "biased" else floor


def debiased(
    positive: float,
    unlabeled: Row,
    positives: Row,
    tau_plus: float,
    lower: float,
    on_floor: str = "clamp",
    beta: float = 0.0,
) -> float:
    """Eq. 8."""
    estimate = g(unlabeled, positives, tau_plus, lower, on_floor, beta)
    return -math.log(math.exp(positive) / (math.exp(positive) + len(unlabeled) * estimate))


def decoupled(
    positive: float,
    unlabeled: Row,
    positives: Row,
    tau_plus: float,
    lower: float,
    on_floor: str = "clamp",
    beta: float = 0.0,
) -> float:
    """Eq. 8 without e^{s+} in the denominator."""
    estimate = g(unlabeled, positives, tau_plus, lower, on_floor, beta)
    return -math.log(math.exp(positive) / (len(unlabeled) * estimate))
