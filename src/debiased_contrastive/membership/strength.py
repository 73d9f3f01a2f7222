"""How far to trust knowledge about classes: from a few labels, or without any."""

from dataclasses import replace

import torch
from torch import Tensor

from debiased_contrastive.membership.force import NoBiasError, force_curve
from debiased_contrastive.membership.inputs import Features, Labels, as_labels
from debiased_contrastive.membership.knowledge import Knowledge

HARD_STRENGTH = 0.2
"""Strength of knowledge that says 0 or 1, where no label can check it."""
HARD_FROM = 0.9
"""Mean q of joined pairs, each weighted by its q, from which on knowledge counts as hard."""
FEW_LABELS = 100
"""Number of labels below which the strength that they choose did harm at times, in worlds of known truth."""
ROWS = 1000
"""Samples whose pairs are looked at where there are no labels."""
_TINY = 1e-3
"""Knowledge of which no pair has a larger q says nothing."""


def choose_strength(
    knowledge: Knowledge,
    z: Features | None = None,
    labels: Labels | None = None,
    *,
    rows: Tensor | None = None,
    temperature: float = 0.5,
) -> Knowledge:
    """The same knowledge with its strength chosen, and the reason in words: `known.arguments` tells it to a loss.

    With labels it is `best_strength`, but at most 1 / max q over all samples, labelled or not; the reason says so
    where they are few. Without any, or where they cannot tell because no class has two of them or the embeddings
    are all alike, it is `safe_strength`. Attraction is another choice, which labels do not make here.

    Args:
        knowledge: What is known of n samples; made from these labels, it must be cross-fitted.
        z: Embeddings (m, d) that the loss sees; they and the labels are given together.
        labels: (m,) class numbers; -1 = unknown.
        rows: Which samples these m are; all n if not given.
        temperature: Temperature of the loss.
    """
    if (z is None) != (labels is None):
        raise ValueError("embeddings and labels must be given together; got one of them: pass both or neither")
    doubt = ""
    if z is not None and labels is not None:
        part = knowledge if rows is None else knowledge.of(rows)
        try:
            best = best_strength(z, labels, part, temperature)
        except NoBiasError:
            doubt = "The labels cannot tell. "
        else:
            # Few labels may have pairs of a small q alone; what is right for them would cut off all others.
            best, count = min(best, 1 / max(_largest(knowledge), _TINY)), int((as_labels(labels) >= 0).sum())
            words = f"Strength {best:.2f}: it has the largest force share on {count} labels."
            if count < FEW_LABELS:
                words += f" So few can be wrong, even to harm: give at least {FEW_LABELS}, or the strength itself."
            return replace(knowledge, strength=best, reason=words)
    strength, words = safe_strength(knowledge)
    return replace(knowledge, strength=strength, reason=doubt + words)


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

    Soft knowledge, such as a consensus of clusterings, takes little weight off any pair, so its errors cost little
    at strength 1. Clusters that say 0 or 1 take all of it: what they join wrongly are the hardest true negatives.
    """
    q = _some_pairs(knowledge)
    if float(q.sum()) == 0:
        return 1.0, "Nothing is known of these samples, so every strength gives the biased loss."
    hardness = float(q.square().sum() / q.sum())
    if hardness < HARD_FROM:
        return 1.0, f"Strength 1: the knowledge is soft, it joins pairs with a probability of {hardness:.2f}."
    return HARD_STRENGTH, (
        f"Strength {HARD_STRENGTH}: the knowledge says 0 or 1, and clusters that do so err on the hardest "
        "negatives; labels and ids that are facts bear 1."
    )


def _some_pairs(knowledge: Knowledge) -> Tensor:
    """q of samples that are spread over all; 0 of each with itself."""
    chosen = torch.linspace(0, len(knowledge) - 1, min(ROWS, len(knowledge))).long()
    return knowledge.same_class(chosen, chosen).double().fill_diagonal_(0.0)


def _largest(knowledge: Knowledge) -> float:
    """The largest q: of all pairs of a graph, which has few, else of some."""
    if knowledge.graph is None:
        return float(_some_pairs(knowledge).max())
    pairs = knowledge.graph.tocoo()
    return float(pairs.data[pairs.row != pairs.col].max(initial=0.0))
