"""The identity that everything starts from, p = tau p+ + (1 - tau) p-, where classes have different sizes."""

import torch

from debiased_contrastive.theory.claim import Case, Claim
from debiased_contrastive.theory.worlds.discrete import circle

SIZES = torch.tensor([0.3, 0.2, 0.15, 0.15, 0.12, 0.08], dtype=torch.float64)
"""Probabilities of six points in three classes of 50, 30 and 20 %."""


def one_prior() -> Claim:
    """One tau for all anchors is right only if all classes have one size; each anchor's own always is."""
    cases = []
    for name, world in (("equal classes", circle()), ("classes of 50, 30 and 20 %", circle(probabilities=SIZES))):
        m, m_plus, m_minus = (
            world.critic_mean(rows) for rows in (world.of_p, world.of_positives, world.of_negatives)
        )
        # The probability that two samples share a class: what one number could be.
        constant = float(world.probabilities @ world.tau_plus)
        for x in (0, 2, 4):
            own = float(world.tau_plus[x])
            corrected, printed = (float((m[x] - tau * m_plus[x]) / (1 - tau)) for tau in (own, constant))
            cases.append(Case(f"{name}, anchor of a class of {own:.0%}", float(m_minus[x]), corrected, printed))
    statement = "(m - tau m_plus) / (1 - tau) is m_minus; in print with one tau, for classes of one size"
    return Claim("Uniform classes", statement, "equal", cases, subject="assumption")
