"""Which tau_plus the correction would need, measured with labels, for views of trained embeddings."""

import math

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import check_features, check_labels, unit_rows
from debiased_contrastive.objectives.effective import effective_tau_plus
from debiased_contrastive.objectives.statistics import from_logits, log_mean_exp


@torch.no_grad()
def effective_prior(z0: Tensor, z1: Tensor, labels: Tensor, temperature: float) -> float:
    """Median over anchors z0 (n, d) of tau_eff, with their other views z1 as positives and unlabeled samples.

    It equals the class prior only if a view is as far from its anchor as the rest of the class is; views are
    nearer, so it is smaller, and the true prior subtracts too much.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(effective_prior(z, z, torch.tensor([0, 0, 1, 1]), 0.5), 6)  # one of three others is of the class
    0.333333
    """
    check_features("z0", z0)
    check_features("z1", z1)
    check_labels("labels", labels, len(z0))
    if z0.shape != z1.shape:
        raise ValueError(f"z0 and z1 must have one shape; got {tuple(z0.shape)} and {tuple(z1.shape)}")
    if labels.unique().numel() < 2:
        raise ValueError("labels must name at least two classes: otherwise there are no true negatives")
    logits = unit_rows(z0) @ unit_rows(z1).T / temperature
    positive = logits.diagonal().clone()
    unlabeled = logits.fill_diagonal_(-math.inf)
    own = labels.unsqueeze(1) == labels
    statistics = from_logits(positive, unlabeled, None, lower=-1 / temperature, beta=0.0)
    return float(effective_tau_plus(statistics, log_mean_exp(unlabeled.masked_fill(own, -math.inf))[0]).median())
