"""How far to trust knowledge about classes: from a few labels, or without any."""

import torch

from debiased_contrastive.membership.force import force_curve
from debiased_contrastive.membership.inputs import Features, Labels
from debiased_contrastive.membership.knowledge import Knowledge

HARD_STRENGTH = 0.2
"""Strength of knowledge that says 0 or 1, where no label can check it."""
HARD_FROM = 0.9
"""Mean q of joined pairs, each weighted by its q, from which on knowledge counts as hard."""
ROWS = 1000


def best_strength(z: Features, labels: Labels, knowledge: Knowledge, temperature: float = 0.5) -> float:
    """The strength from 0 to 1 / max q with the largest force share on the rows whose label is known.

    It is 1 on the labels themselves, and near 0 on a random partition if labels are many; if they are few it can be
    more, which costs next to nothing. In worlds of known truth, 300 labels had a share within 0.02 of the largest
    one on average, 100 labels within 0.05. Knowledge that was made from these labels must be cross-fitted, or else
    it is trusted too much.

    To first order in the strength, the best one is sum <D_i, B_i> / sum |D_i|^2 with D_i as in `ForceCurve` and B_i
    the bias of the force. The search over the exact curve costs nothing beside it and is never worse.

    Args:
        z: Embeddings (n, d) that the loss sees.
        labels: (n,) class numbers; -1 = unknown.
        knowledge: What is known of the same n samples.
        temperature: Temperature of the loss.
    """
    return force_curve(z, labels, knowledge, temperature=temperature).best


def safe_strength(knowledge: Knowledge) -> tuple[float, str]:
    """A strength for knowledge that no label can check, and the reason in words.

    Soft knowledge, such as a consensus of clusterings, did no harm at strength 1 wherever it was measured. Clusters
    that say 0 or 1 did: what they join wrongly are the hardest true negatives.
    """
    chosen = torch.linspace(0, len(knowledge) - 1, min(ROWS, len(knowledge))).long()
    q = knowledge.same_class(chosen, chosen).double().fill_diagonal_(0.0)
    if float(q.sum()) == 0:
        return 1.0, "Nothing is known of these samples, so every strength gives the biased loss."
    hardness = float(q.square().sum() / q.sum())
    if hardness < HARD_FROM:
        return 1.0, f"Strength 1: the knowledge is soft, it joins pairs with a probability of {hardness:.2f}."
    return HARD_STRENGTH, (
        f"Strength {HARD_STRENGTH}: the knowledge says 0 or 1, and clusters that do so err on the hardest "
        "negatives; labels and ids that are facts bear 1."
    )
