"""Few labels: nearest class means of a handful of labelled samples, over many draws of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from debiased_contrastive.evaluation.features import count_classes, unit_rows
from debiased_contrastive.numerics import make_generator

SHOTS = (1, 5, 10, 100)
"""Numbers of labels a class."""
DRAWS = 100
_NORMAL = 1.96
"""Half the width of a 95 % interval, in standard errors of a mean over so many draws."""


@dataclass(frozen=True)
class FewShot:
    """How well so many labels a class classify."""

    accuracy: float
    """Share of test samples nearest to the mean of their class, mean over the draws of the labels."""
    half_width: float
    """Half the width of its 95 % interval over draws; the spread over trainings is not in it."""


@torch.no_grad()
def few_shot(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    shots: Sequence[int] = SHOTS,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[int, FewShot]:
    """Accuracy with few labels on frozen features, by the nearest class mean of unit vectors (Snell et al., 2017).

    There is nothing to tune, so that differences are those of the features. Draws depend on the seed and on the
    labels alone: encoders of the same data see the same samples.

    Args:
        train_features: (n, d), from which labelled samples are drawn; brought to length 1 here.
        train_labels: (n,) integers from 0.
        test_features: (m, d), brought to length 1 here.
        test_labels: (m,) integers from 0.
        shots: Numbers of labels a class; those of which a class has not enough samples are left out.
        draws: Number of draws of the labelled samples.
        seed: Seed of the draws.

    Returns:
        The result of each number of labels.

    >>> x, y = torch.eye(3).repeat(2, 1), torch.tensor([0, 1, 2, 0, 1, 2])
    >>> few_shot(x, y, x, y, shots=(1, 2, 5), draws=3)
    {1: FewShot(accuracy=1.0, half_width=0.0), 2: FewShot(accuracy=1.0, half_width=0.0)}
    """
    num_classes = count_classes(train_features, train_labels, test_features, test_labels, None)
    if draws < 2 or not shots or min(shots) < 1:
        raise ValueError(f"draws must be at least 2 and shots at least 1; got {draws} and {list(shots)}")
    train, test = unit_rows(train_features), unit_rows(test_features)
    places = [(train_labels == label).nonzero()[:, 0] for label in range(num_classes)]
    enough = [count for count in shots if count <= min(map(len, places))]
    # One order of each class for a draw: more labels are the same ones and further ones.
    found: dict[int, list[float]] = {count: [] for count in enough}
    for draw in range(draws):
        generator = make_generator(seed, "few labels", draw)
        orders = [own[torch.randperm(len(own), generator=generator).to(own.device)] for own in places]
        for count in enough:
            means = torch.stack([train[order[:count]].mean(0) for order in orders])
            nearest = (test @ means.T - means.square().sum(1) / 2).argmax(1)
            found[count].append(float((nearest == test_labels).double().mean()))
    return {count: _summarise(torch.tensor(values, dtype=torch.float64)) for count, values in found.items()}


def _summarise(values: Tensor) -> FewShot:
    return FewShot(float(values.mean()), _NORMAL * float(values.std()) / len(values) ** 0.5)
