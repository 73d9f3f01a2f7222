"""What a few labels say about all samples: the posterior of a classifier on features."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation.descent import CentredFeatures, centre
from debiased_contrastive.evaluation.logistic import logistic_regressions
from debiased_contrastive.membership.inputs import Features, Labels, as_features, as_labels
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.quality import rate
from debiased_contrastive.numerics import make_generator, working_dtype

REGULARISATIONS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""scikit-learn's C, among which folds choose."""
WITHOUT_FOLDS = 1e-3
"""C where no class has two labels."""
TEMPERATURES = tuple(2 ** (step / 4) for step in range(-12, 13))
"""Divisors of the logits, from 1/8 to 8, among which folds choose."""
TOLERANCE, FOLD_TOLERANCE = 1e-5, 1e-4
"""Expected gain, in nats a sample, at which the last fit stops, and those of the folds."""
NO_BETTER = 0.99
"""Share of the entropy of the classes from which on a log-loss is no better than frequencies are."""
FEW = 5
"""Labels of a class below which it is warned of."""


class Choice(NamedTuple):
    """What the folds chose, and (m, k) logits of labelled samples, each by a fit that did not see it."""

    C: float
    temperature: float
    logits: Tensor
    held_out: Tensor
    """(m,) whether there are such logits: not of a sample that is alone in its class."""


@torch.no_grad()
def from_few_labels(
    features: Features,
    labels: Labels,
    *,
    num_classes: int | None = None,
    labelled: Literal["given", "cross-fitted"] = "given",
    folds: int = 5,
    seed: int = 0,
) -> Knowledge:
    """Membership of all samples by multinomial logistic regression on the labelled ones.

    Features are standardised over all samples. Regularisation and temperature are those of the best log-loss on
    held-out folds. It stays soft: a calibrated posterior never corrects too much.

    Args:
        features: (n, d) of any encoder.
        labels: (n,) class numbers from 0; -1 = unknown. At least two classes.
        num_classes: Number of classes; one more than the largest label if not given. One without labels gets 0.
        labelled: Rows of labelled samples: one-hot as "given", or "cross-fitted", by fits that did not see them.
        folds: Number of folds; each class is spread over them.
        seed: Seed of the folds.

    Returns:
        Membership (n, num_classes). Its quality has accuracy and log_loss on held-out folds, the log-loss in nats,
        labels, mean_max (mean largest posterior of samples without label), regularisation (C) and temperature.

    Raises:
        ValueError: If fewer than two classes have labels, or the input is no such input.
    """
    rows = as_features(features)
    classes = as_labels(labels, len(rows))
    if labelled not in ("given", "cross-fitted") or folds < 2:
        raise ValueError(f'labelled must be "given" or "cross-fitted", folds at least 2; got {labelled!r}, {folds}')
    num_classes = 1 + int(classes.max()) if num_classes is None else num_classes
    present, counts = classes[classes >= 0].unique(return_counts=True)
    if len(present) < 2 or int(present[-1]) >= num_classes:
        raise ValueError(
            "labels must hold two classes or more, all below num_classes; got classes "
            f"{present[:5].tolist()} and num_classes={num_classes}: with one class there is nothing to tell apart"
        )
    rows = _standardised(rows)
    places = (classes >= 0).nonzero().flatten()
    known = torch.searchsorted(present, classes[places])
    centred = centre(rows[places])
    choice = _choose(centred, known, folds, seed)
    weights, biases = logistic_regressions(
        centred, known, torch.ones(1, len(known)), (choice.C,), tolerance=TOLERANCE
    )
    posterior = (_logits(rows, weights[0], biases[0]) / choice.temperature).softmax(1)
    unknown = posterior[classes < 0]
    quality = _figures(choice, known) | {"labels": float(len(known))}
    if len(unknown):
        quality["mean_max"] = float(unknown.amax(1).mean())
    own = F.one_hot(known, len(present)).to(posterior.dtype)
    if labelled == "cross-fitted":
        own = torch.where(choice.held_out.unsqueeze(1), (choice.logits / choice.temperature).softmax(1), own)
    posterior[places] = own
    membership = torch.zeros(len(rows), num_classes)
    membership[:, present] = posterior.float()
    doubts = _doubts(quality, present, counts, num_classes, bool(choice.held_out.any()))
    return rate(Knowledge(membership=membership, quality=quality, warnings=tuple(doubts)))


def _standardised(rows: Tensor) -> Tensor:
    """Every feature with mean 0 and variance 1 over all rows; one without variance is 0."""
    rows = rows.to(working_dtype(rows))
    # Brought to at most 1 first, so that no square overflows.
    largest = rows.abs().amax(0)
    rows = rows / torch.where(largest > 0, largest, 1.0)
    variance, mean = torch.var_mean(rows, 0, correction=0)
    # The rounding of a constant is no variance.
    spread = variance.sqrt()
    return (rows - mean) / torch.where(spread > 100 * torch.finfo(rows.dtype).eps, spread, torch.inf)


def _logits(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(n, k); for two classes the fit has the logit of the second alone."""
    logits = torch.addmm(bias, rows, weight.T)
    return torch.cat([torch.zeros_like(logits), logits], 1) if len(weight) == 1 else logits


def _choose(features: CentredFeatures, labels: Tensor, folds: int, seed: int) -> Choice:
    """Regularisation and temperature of the smallest log-loss on held-out folds."""
    fold_of = _folds(labels, folds, seed)
    held_out, num_classes = fold_of >= 0, 1 + int(labels.max())
    if not bool(held_out.any()):
        return Choice(WITHOUT_FOLDS, 1.0, features.x.new_zeros(len(labels), num_classes), held_out)
    used = fold_of[held_out].unique()
    trained = fold_of != used.unsqueeze(1)
    best, lowest, starts = None, torch.inf, None
    # From the strongest regularisation on, each solution is a good start for the next.
    for C in REGULARISATIONS:  # noqa: N806
        starts = logistic_regressions(
            features, labels, trained, [C] * len(used), tolerance=FOLD_TOLERANCE, starts=starts
        )
        logits = features.x.new_zeros(len(labels), num_classes)
        for number, fold in enumerate(used):
            own = fold_of == fold
            logits[own] = _logits(features.x[own] + features.mean, starts[0][number], starts[1][number])
        losses = [_smooth_loss(logits[held_out] / temperature, labels[held_out]) for temperature in TEMPERATURES]
        if min(losses) < lowest:
            lowest = min(losses)
            best = Choice(C, TEMPERATURES[losses.index(lowest)], logits, held_out)
    assert best is not None
    return best


def _smooth_loss(logits: Tensor, labels: Tensor) -> float:
    """Log-loss as if one label more were drawn at random: a few labels that are all right prove no certainty."""
    return float(F.cross_entropy(logits, labels, label_smoothing=1 / (1 + len(labels))))


def _folds(labels: Tensor, folds: int, seed: int) -> Tensor:
    """(m,) the fold of each sample, every class spread over them; -1 for one that is alone in its class."""
    order = torch.randperm(len(labels), generator=make_generator(seed, "folds"))
    order = order[labels[order].argsort(stable=True)]
    fold_of = torch.empty_like(labels)
    fold_of[order] = torch.arange(len(labels)) % folds
    return torch.where(labels.bincount()[labels] > 1, fold_of, -1)


def _figures(choice: Choice, labels: Tensor) -> dict[str, float]:
    figures = {"regularisation": choice.C, "temperature": choice.temperature}
    if not bool(choice.held_out.any()):
        return figures
    logits, labels = choice.logits[choice.held_out], labels[choice.held_out]
    figures["accuracy"] = float((logits.argmax(1) == labels).double().mean())
    figures["log_loss"] = float(F.cross_entropy(logits / choice.temperature, labels))
    return figures


def _doubts(
    quality: dict[str, float], present: Tensor, counts: Tensor, num_classes: int, has_folds: bool
) -> list[str]:
    doubts = []
    if len(present) < num_classes:
        doubts.append(
            f"{num_classes - len(present)} of {num_classes} classes have no label: their samples go to others"
        )
    if int(counts.min()) < FEW:
        doubts.append(
            f"the smallest class has {int(counts.min())} labels: below {FEW} the folds can hardly judge it"
        )
    if not has_folds:
        doubts.append(
            "no class has two labels: nothing could be chosen by folds, and the posterior is not calibrated"
        )
    # The entropy of the classes is the log-loss of whoever knows no features.
    shares = counts / counts.sum()
    if quality.get("log_loss", 0.0) > -NO_BETTER * float((shares * shares.log()).sum()):
        doubts.append(
            "held-out labels are predicted no better than by their frequencies: the features do not tell classes"
        )
    return doubts
