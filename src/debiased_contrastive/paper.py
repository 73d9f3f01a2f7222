"""The published numbers as data: Tables 1 to 3, and STL10 from the README of the released code.

CIFAR10 is missing because its accuracies were published as figures alone.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Objective: TypeAlias = Literal["biased", "debiased"]


@dataclass(frozen=True)
class Number:
    """One published number."""

    source: str
    """Where it was published."""
    data: str
    """What was trained on, or the control task."""
    measure: str
    """What was measured; accuracies and F1 are in percent, returns are sums of rewards."""
    objective: Objective
    tau_plus: float
    """0 for the biased objective."""
    num_positives: int
    value: float
    deviation: float | None = None
    """Standard deviation over 3 seeds, where one was published."""


@dataclass(frozen=True)
class Setting:
    """What a published number was trained with."""

    encoder: str
    dim: int
    batch: int
    epochs: int
    temperature: float


SIMCLR = Setting(encoder="resnet50", dim=128, batch=256, epochs=400, temperature=0.5)
"""Behind the STL10 accuracies. The released code says 500 epochs; the paper and the checkpoint's name say 400."""

CLAIMED_STL10_GAIN = 4.26
"""The gain in the text (Section 5.1). The README's own numbers differ by 4.11."""

_ACCURACIES: tuple[tuple[str, str, Objective, float, float, float | None], ...] = (
    # source, data, objective, tau_plus, top-1, top-5
    ("README", "stl10", "biased", 0.0, 80.15, None),
    ("README", "stl10", "debiased", 0.05, 81.85, None),
    ("README", "stl10", "debiased", 0.1, 84.26, None),
    ("Table 1", "imagenet100", "biased", 0.0, 73.58, 92.06),
    ("Table 1", "imagenet100", "debiased", 0.005, 73.86, 91.86),
    ("Table 1", "imagenet100", "debiased", 0.01, 74.6, 92.08),
)

SENTENCE_TASKS = ("MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP accuracy", "MSRP F1")
"""The columns of Table 2 as printed; the headers SUBJ and MPQA are almost surely exchanged."""

_SENTENCES: tuple[tuple[Objective, float, tuple[float, ...]], ...] = (
    ("biased", 0.0, (76.8, 81.3, 86.6, 93.4, 89.8, 73.6, 81.8)),
    ("debiased", 0.005, (76.5, 81.5, 86.6, 93.6, 89.1, 74.2, 82.3)),
    ("debiased", 0.01, (76.2, 82.9, 86.9, 93.7, 89.1, 74.7, 82.7)),
)

SENTENCE_SCORES = {tau_plus: dict(zip(SENTENCE_TASKS, values, strict=True)) for _, tau_plus, values in _SENTENCES}
"""The rows of Table 2 by tau_plus, which is 0 for the biased objective: a score for each task."""

CONTROL_TASKS = (
    "finger-spin", "cartpole-swingup", "reacher-easy", "cheetah-run", "walker-walk", "ball_in_cup-catch",
)  # fmt: skip
"""The columns of Table 3."""

_RETURNS: tuple[tuple[Objective, float, int, tuple[tuple[float, float], ...]], ...] = (
    # objective, tau_plus, M, then mean and standard deviation per task
    ("biased", 0.0, 1, ((310, 33), (850, 20), (918, 96), (266, 41), (623, 120), (928, 47))),
    ("debiased", 0.01, 1, ((324, 34), (843, 30), (927, 99), (310, 12), (626, 82), (937, 9))),
    ("debiased", 0.05, 1, ((308, 57), (866, 7), (916, 114), (284, 20), (613, 22), (945, 13))),
    ("debiased", 0.1, 1, ((364, 36), (860, 4), (868, 177), (302, 29), (594, 33), (951, 11))),
    ("debiased", 0.01, 2, ((330, 10), (858, 10), (754, 179), (286, 20), (746, 93), (949, 5))),
    ("debiased", 0.1, 2, ((381, 24), (864, 6), (904, 117), (303, 5), (671, 75), (957, 5))),
)


def _numbers() -> tuple[Number, ...]:
    accuracies = [
        Number(source, data, measure, objective, tau_plus, 1, value)
        for source, data, objective, tau_plus, top1, top5 in _ACCURACIES
        for measure, value in (("top1", top1), ("top5", top5))
        if value is not None
    ]
    sentences = [
        # Both neighbours of a sentence are its positives.
        Number("Table 2", "bookcorpus", task, objective, tau_plus, 2, value)
        for objective, tau_plus, _ in _SENTENCES
        for task, value in SENTENCE_SCORES[tau_plus].items()
    ]
    returns = [
        Number("Table 3", task, "return", objective, tau_plus, num_positives, mean, deviation)
        for objective, tau_plus, num_positives, scores in _RETURNS
        for task, (mean, deviation) in zip(CONTROL_TASKS, scores, strict=True)
    ]
    return (*accuracies, *sentences, *returns)


NUMBERS = _numbers()
"""Every published number, one entry each."""


def published_number(
    data: str, objective: str, *, tau_plus: float = 0.0, num_positives: int = 1, measure: str = "top1"
) -> float | None:
    """The published number, None where there is none; tau_plus and M do not matter for the biased objective.

    >>> published_number("stl10", "debiased", tau_plus=0.1)
    84.26
    >>> published_number("bookcorpus", "debiased", tau_plus=0.01, num_positives=2, measure="CR")
    82.9
    """
    for number in NUMBERS:
        if (number.data, number.objective, number.measure) == (data, objective, measure) and (
            objective == "biased"
            or (math.isclose(number.tau_plus, tau_plus) and number.num_positives == num_positives)
        ):
            return number.value
    return None
