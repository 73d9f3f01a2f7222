"""The paper's losses as expectations, exact in a discrete world."""

import math
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from debiased_contrastive.theory.worlds import DiscreteWorld


def biased_loss(world: DiscreteWorld, num_unlabeled: int) -> float:
    """L_Biased^N: the N samples come from p (Eq. 1)."""
    return float(world.probabilities @ _loss_by_anchor(world, num_unlabeled, 0, world.p))


def unbiased_loss(world: DiscreteWorld, num_negatives: int) -> float:
    """L_Unbiased^N: the N samples come from p- (Eq. 2 with Q = N)."""
    return float(world.probabilities @ _loss_by_anchor(world, num_negatives, 0, world.p_minus))


def inclusion_exclusion(world: DiscreteWorld, num_negatives: int) -> float:
    """The right side of Eq. 4, each anchor with its own class's probability."""
    n, tau = num_negatives, world.tau_plus
    total = torch.zeros_like(tau)
    for k in range(n + 1):
        total += math.comb(n, k) * (-tau) ** k * _loss_by_anchor(world, n, k, world.p)
    return float(world.probabilities @ (total / (1 - tau) ** n))


def debiased_loss(world: DiscreteWorld, num_unlabeled: int, num_positives: int) -> float:
    """L_Debiased^{N,M}, positives independent of x+ (Eq. 8)."""
    total = torch.zeros_like(world.tau_plus)
    floor = math.exp(-1 / world.temperature)
    for x in range(len(total)):
        u, p_u = world.critic_sums(x, world.p, num_unlabeled)
        v, p_v = world.critic_sums(x, world.p_plus, num_positives)
        tau = world.tau_plus[x]
        g = (u.unsqueeze(1) / num_unlabeled - tau * v / num_positives) / (1 - tau)
        total[x] = _mean_loss(world, x, num_unlabeled * g.clamp(min=floor), p_u, p_v)
    return float(world.probabilities @ total)


def debiased_limit(world: DiscreteWorld, q: float) -> float:
    """The limit of the debiased loss for many samples, weighed by Q = q (Eq. 6)."""
    m_minus = world.critic_mean(world.p_minus).unsqueeze(1)
    losses = torch.log1p(q * m_minus / world.scores.exp())
    return float(world.probabilities @ (world.p_plus * losses).sum(1))


def mean_classifier_loss(features: Tensor, labels: Tensor, weights: Tensor, class_means: Tensor, t: float) -> float:
    """L_Sup^mu: cross-entropy of the classifier whose rows are the class means, over weighted features (n, d)."""
    return float(weights @ F.cross_entropy(features @ class_means.T / t, labels, reduction="none"))


def supervised_loss(features: Tensor, labels: Tensor, weights: Tensor, class_means: Tensor, t: float) -> float:
    """L_Sup: the smallest cross-entropy of a linear classifier, a convex problem, over weighted features (n, d)."""
    classifier = (class_means / t).clone().requires_grad_()
    search = torch.optim.LBFGS([classifier], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure() -> Tensor:
        search.zero_grad()
        loss = weights @ F.cross_entropy(features @ classifier.T, labels, reduction="none")
        loss.backward()
        return loss

    search.step(closure)
    return closure().item()


def class_means(world: DiscreteWorld) -> Tensor:
    """(K, d) expectations of the points of each class."""
    members = F.one_hot(world.labels).to(world.points) * world.probabilities.unsqueeze(1)
    return members.T @ world.points / members.sum(0).unsqueeze(1)


def supervised_losses(world: DiscreteWorld, classes: int | None = None) -> tuple[float, float]:
    """L_Sup and L_Sup^mu of a discrete world, averaged over all choices of `classes` of its classes."""
    total = int(world.labels.max()) + 1
    tasks = list(combinations(range(total), classes or total))
    losses = [_task_losses(world, torch.tensor(task)) for task in tasks]
    best, mean = (sum(each) / len(tasks) for each in zip(*losses, strict=True))
    return best, mean


def _task_losses(world: DiscreteWorld, task: Tensor) -> tuple[float, float]:
    chosen = torch.isin(world.labels, task)
    weights = world.probabilities[chosen] / world.probabilities[chosen].sum()
    labels = torch.searchsorted(task, world.labels[chosen])
    given = (world.points[chosen], labels, weights, class_means(world)[task], world.temperature)
    return supervised_loss(*given), mean_classifier_loss(*given)


def _loss_by_anchor(world: DiscreteWorld, n: int, from_positives: int, distribution: Tensor) -> Tensor:
    """(k,) E log(1 + sum h / h+) per anchor, over n samples: some from p+, the rest from `distribution`."""
    result = torch.zeros_like(world.tau_plus)
    for x in range(len(result)):
        v, p_v = world.critic_sums(x, world.p_plus, from_positives)
        u, p_u = world.critic_sums(x, distribution, n - from_positives)
        result[x] = _mean_loss(world, x, v.unsqueeze(1) + u, p_v, p_u)
    return result


def _mean_loss(world: DiscreteWorld, anchor: int, sums: Tensor, p_rows: Tensor, p_columns: Tensor) -> Tensor:
    """E log(1 + sum / h+) of an anchor, over x+ and over the outcomes of two sets of draws."""
    positives = zip(world.scores[anchor].exp(), world.p_plus[anchor], strict=True)
    losses = (chance * (p_rows @ torch.log1p(sums / h_plus) @ p_columns) for h_plus, chance in positives if chance)
    return sum(losses, sums.new_zeros(()))
