"""What knowledge about classes is worth, by its pairs."""

from dataclasses import replace

import torch
from torch import Tensor

from debiased_contrastive.membership.inputs import Labels, as_labels
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.numerics import make_generator

PAIRED_ROWS = 2000
"""Labelled samples whose pairs are looked at."""
MOST_PAIRS = 0.5
"""Mean of q above which the knowledge can hardly tell classes apart."""


def rate(known: Knowledge, labels: Labels | None = None) -> Knowledge:
    """The same knowledge with figures about its pairs, and in words what speaks against it.

    | figure | meaning |
    |---|---|
    | `mean_q` | mean q over all pairs: the prior that the knowledge implies |
    | `q_same`, `q_other` | mean q over pairs of one class, of two classes |
    | `precision` | share of all q that lies on pairs of one class; chance is their share of the pairs |
    | `vote_accuracy` | share of samples whose class gets the largest sum of q, among those that have any |

    All but the first need labels, and up to 2,000 samples with labels are paired. Labels from which the knowledge
    was made flatter it.

    Args:
        known: Any knowledge about n samples.
        labels: (n,) true classes, -1 = unknown.
    """
    quality, doubts = {**known.quality, "mean_q": mean_q(known)}, list(known.warnings)
    if quality["mean_q"] > MOST_PAIRS:
        doubts.append(
            f"two samples share a class with probability {quality['mean_q']:.2f}: hardly a negative is left"
        )
    if labels is not None:
        figures = pair_figures(known, as_labels(labels, len(known)))
        if figures.get("q_same", 1.0) <= figures.get("q_other", 0.0):
            doubts.append("pairs of one class have no larger q than others: it would harm")
        quality |= figures
    return replace(known, quality=quality, warnings=tuple(doubts))


def mean_q(known: Knowledge) -> float:
    """Mean q over all pairs of different samples, without forming them."""
    n = len(known)
    if known.graph is not None:
        total = float(known.graph.sum(dtype="float64") - known.graph.diagonal().sum(dtype="float64"))
    elif known.membership is not None:
        rows = known.membership.double()
        total = float(rows.sum(0).square().sum() - rows.square().sum())
    else:
        assert known.partitions is not None
        sizes = [codes[codes >= 0].long().bincount().double() for codes in known.partitions.T]
        total = sum(float((size * (size - 1)).sum()) for size in sizes) / len(sizes)
    return max(0.0, total) / max(1, n * (n - 1))


def pair_figures(known: Knowledge, labels: Tensor) -> dict[str, float]:
    """The figures of `rate` that need labels; those that have no pairs are left out."""
    places = (labels >= 0).nonzero().flatten()
    places = places[torch.randperm(len(places), generator=make_generator(0, "pairs"))[:PAIRED_ROWS]]
    classes = labels[places].unique(return_inverse=True)[1]
    q = known.same_class(places, places).fill_diagonal_(0.0)
    same = (classes.unsqueeze(1) == classes).fill_diagonal_(False)
    other = classes.unsqueeze(1) != classes
    figures = {
        name: float(q[pairs].mean()) for name, pairs in (("q_same", same), ("q_other", other)) if pairs.any()
    }
    informed = q.sum(1) > 0
    if bool(informed.any()):
        votes = q.new_zeros(len(q), 1 + int(classes.max())).index_add_(1, classes, q)
        figures["precision"] = float(q[same].sum() / q.sum())
        figures["vote_accuracy"] = float((votes.argmax(1) == classes)[informed].float().mean())
    return figures
