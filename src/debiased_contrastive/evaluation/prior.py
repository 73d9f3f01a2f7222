"""Which tau_plus the correction would need, given what stands in for samples of the anchor's class."""

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import check_features, check_labels, unit_rows


@torch.no_grad()
def effective_prior(z0: Tensor, z1: Tensor, labels: Tensor, temperature: float) -> float:
    """Median over anchors of the tau_plus with which the other view as positive gives the true negatives' mean.

    With m, m_minus and m_view the means of exp(cosine / temperature) with other inputs, with those of other
    classes and with the own other view, that is tau_eff = (m - m_minus) / (m_view - m_minus). It equals the
    class prior only if a view is as far from its anchor as the rest of the class is; views are nearer, so it is
    smaller, and the true prior subtracts too much.

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
    z0, z1 = unit_rows(z0), unit_rows(z1)
    h = (z0 @ z1.T / temperature).exp()
    view = h.diagonal()
    other = labels.unsqueeze(1) != labels
    m = (h.sum(1) - view) / (len(h) - 1)
    m_minus = (h * other).sum(1) / other.sum(1)
    return float(((m - m_minus) / (view - m_minus)).median())
