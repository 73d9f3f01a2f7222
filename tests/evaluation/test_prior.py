"""The effective prior makes the correction of each anchor the true negatives' mean, and no other prior does."""

import pytest
import torch
from torch.nn.functional import normalize

from debiased_contrastive.evaluation.prior import effective_prior


def views(seed: int, noise: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(60) % 3
    x = torch.eye(8)[labels] + 0.3 * torch.randn(60, 8, generator=generator)
    z0, z1 = (x + noise * torch.randn(60, 8, generator=generator) for _ in range(2))
    return z0, z1, labels


def slow(z0: torch.Tensor, z1: torch.Tensor, labels: torch.Tensor, t: float) -> float:
    """For each anchor the root of the correction minus the true mean, which is linear in tau / (1 - tau)."""
    roots = []
    for i in range(len(z0)):
        h = [float(torch.exp(normalize(z0[i], dim=0) @ normalize(z, dim=0) / t)) for z in z1]
        others = [j for j in range(len(z1)) if j != i]
        u = sum(h[j] for j in others) / len(others)
        negatives = [h[j] for j in others if labels[j] != labels[i]]
        target = sum(negatives) / len(negatives)
        low, high = 0.0, 0.9
        for _ in range(60):
            tau = (low + high) / 2
            above = (u - tau * h[i]) / (1 - tau) > target
            low, high = (tau, high) if above else (low, tau)
        roots.append(low)
    return sorted(roots)[(len(roots) - 1) // 2]


@pytest.mark.parametrize("t", [0.5, 1.0])
def test_with_it_the_estimate_is_the_mean_of_the_true_negatives(t: float) -> None:
    z0, z1, labels = views(0, 0.05)
    assert effective_prior(z0, z1, labels, t) == pytest.approx(slow(z0, z1, labels, t), abs=1e-5)


def test_the_nearer_the_views_the_smaller_it_is() -> None:
    near, far = (effective_prior(*views(1, noise), 0.5) for noise in (0.01, 0.3))
    assert near < far < 19 / 59


def test_one_class_is_an_error() -> None:
    z = torch.randn(4, 3)
    with pytest.raises(ValueError, match="at least two classes"):
        effective_prior(z, z, torch.zeros(4, dtype=torch.int64), 0.5)
