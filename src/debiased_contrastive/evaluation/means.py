"""Mean classifier: the linear classifier of Lemma 4, whose rows are the class means."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.evaluation.features import class_count, unit_rows

ROWS = 2**14


@dataclass(frozen=True)
class MeanClassifier:
    """What the class means are worth as a classifier."""

    accuracy: float
    """Share of test samples nearest, by scalar product, to the mean of their class."""
    loss: float
    """L_sup^mu of Lemma 4, over the test samples."""


@torch.no_grad()
def mean_classifier(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    temperature: float = 0.5,
    num_classes: int | None = None,
) -> MeanClassifier:
    """Accuracy and cross-entropy of the logits f(x) . mu_c / t, with unit f(x), Lemma 4.

    mu_c = mean of the unit train features of class c, t = temperature. For balanced classes, K of them, and
    N >= K - 1, the loss lies between that of the best linear classifier and the asymptotic debiased loss.

    >>> x, y = torch.eye(3), torch.tensor([0, 1, 2])
    >>> result = mean_classifier(x, y, x, y, temperature=1.0)
    >>> result.accuracy, round(result.loss, 6), round(math.log(1 + 2 / math.e), 6)
    (1.0, 0.551445, 0.551445)
    """
    num_classes = class_count(train_features, train_labels, test_features, test_labels, num_classes)
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite; got {temperature}: that of the training")
    means = class_means(unit_rows(train_features), train_labels.long(), num_classes)
    test = unit_rows(test_features).to(means.dtype)
    hits, loss = test_labels.new_zeros((), dtype=torch.long), means.new_zeros(())
    for z, labels in zip(test.split(ROWS), test_labels.long().split(ROWS), strict=True):
        logits = z @ means.T / temperature
        loss += F.cross_entropy(logits, labels, reduction="sum")
        hits += (logits.argmax(1) == labels).sum()
    return MeanClassifier(accuracy=int(hits) / len(test), loss=float(loss) / len(test))


def class_means(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """(k, d) the mean of the features of each class; raise where a class has none."""
    counts = labels.bincount(minlength=num_classes)
    if bool((counts == 0).any()):
        absent = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(
            f"every class must have a train sample; got none of classes {absent[:5]}: number those there from 0"
        )
    sums = features.new_zeros(num_classes, features.shape[1]).index_add_(0, labels, features)
    return sums / counts.unsqueeze(1)
