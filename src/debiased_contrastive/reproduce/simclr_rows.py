"""What the figures and questions about SimCLR share: scales, measures, the table of probes. Never imports torch."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from debiased_contrastive.images.presets import SIMCLR_PRESETS
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce.item import Scale
from debiased_contrastive.reproduce.results import Seeds, read_percent, read_results
from debiased_contrastive.runs import Run

PROBES = {
    "linear": "linear_top1",
    "kNN": "knn",
    "mean classifier": "mean_classifier",
    "1 label": "few_shot_1",
    "10 labels": "few_shot_10",
}
"""Columns of accuracies, with the names of their measures."""
GAINS = ("linear", "kNN", "10 labels")
TWIN_GAINS = ("linear", "10 labels")
"""Probes whose differences to the biased row, and to a twin, are shown."""
LEGEND = (
    "Accuracies of frozen features in percent, means and 95 % intervals over seeds.\n"
    "1 label, 10 labels: the nearest class mean of so many labels a class.\n"
    "floored: anchors whose estimate of the true negatives fell to its smallest value.\n"
    "tau_eff: the tau_plus that would be right for these views. cost: epochs times views of an image."
)
"""What the columns of the table of probes mean."""


def _settings(preset: str, **changes: Mapping[str, Any]) -> SimCLRSettings:
    base = SIMCLR_PRESETS[preset].settings
    return replace(base, **{part: replace(getattr(base, part), **new) for part, new in changes.items()})


SMOKE = _settings(
    "demo",
    data={"classes": (0, 1, 2, 3, 4), "per_class": 40},
    encoder={"width": 4, "hidden_dim": 8, "out_dim": 8},
    objective={"tau_plus": 0.2},
    training={"epochs": 2, "batch": 40, "knn_every": 1},
)
"""Seconds on a core: the code is that of the other scales, the numbers say nothing."""
SMALL = _settings(
    "cifar10-small",
    training={"epochs": 60, "batch": 128, "learning_rate": 2e-3, "schedule": "cosine", "knn_every": 6,
              "log_every": 50, "checkpoint_every": 390},
)  # fmt: skip
"""Two views of 128 images have N = 254, the paper's 256. The rate falls to 0: a run ends at rest."""
PAPER = _settings("cifar10", training={"batch": 128})
SCALES: dict[Any, Scale] = {
    "smoke": Scale("200 images of Fashion-MNIST, 2 epochs", "5 s", SMOKE, seeds=1),
    "small": Scale(
        "five classes of CIFAR10, 5,000 images, width 16, batch 128, 60 epochs",
        "2 min on a core for two views, (M + 1) / 2 times as much for M + 1",
        SMALL,
        data="CIFAR10",
    ),
    "paper": Scale(
        "CIFAR10, ResNet-50, batch 128, 400 epochs",
        "8.6 h on a GPU at 10 TFLOP/s for two views, (M + 1) / 2 times as much for M + 1",
        PAPER,
        data="CIFAR10",
    ),
}


def scales_from(small: SimCLRSettings, what: str, cost: str) -> dict[Any, Scale]:
    """The same scales with other settings in the middle."""
    return {**SCALES, "small": replace(SCALES["small"], settings=small, what=what, cost=cost)}


def with_objective(base: SimCLRSettings, *, epochs: float = 1.0, **objective: Any) -> SimCLRSettings:
    """The settings with another objective, and a multiple of the length."""
    training = replace(base.training, epochs=round(epochs * base.training.epochs))
    return replace(base, objective=replace(base.objective, **objective), training=training)


def measure(settings: SimCLRSettings, run: Run, images: Any) -> dict[str, Any]:
    """The evaluation without a map, the effective prior, and the accuracy of neighbours on the way."""
    from debiased_contrastive.reproduce.simclr_measures import measure_run

    return measure_run(settings, run, images)


def measure_with_map(settings: SimCLRSettings, run: Run, images: Any) -> dict[str, Any]:
    """The same with the t-SNE map, which only the first seed has."""
    from debiased_contrastive.reproduce.simclr_measures import measure_run

    return measure_run(settings, run, images, draw_map=settings.seed == 0)


def percent(key: str) -> Any:
    """The number of a result that a claim is about."""

    def value(result: Mapping[str, Any]) -> float | None:
        found = result["measures"].get(key)
        return None if found is None else 100 * float(found)

    return value


def probe_table(
    folder: Path, labels: Mapping[str, str], *, base: str = "biased", twins: Mapping[str, str] | None = None
) -> str:
    """Two tables with a row for each objective: accuracies in percent, and what they gain seed by seed.

    Args:
        folder: The results.
        labels: Labels of the rows that are shown, by name.
        base: The row whose accuracy is subtracted.
        twins: For some rows another one, which differs in the point in question alone.
    """
    results, twins = read_results(folder), twins or {}
    levels, differences = [], []
    for name in filter(results.__contains__, labels):
        own = results[name]
        accuracies = [mean_cell(list(read_percent(own, key).values())) for key in PROBES.values()]
        levels.append([labels[name], *accuracies, *_seen(own), str(len(own))])
        gains = ["" if name == base else _gain(own, results.get(base, {}), probe) for probe in GAINS]
        gains += [_gain(own, results.get(twins.get(name, ""), {}), probe) for probe in TWIN_GAINS if twins]
        if any(gains):
            differences.append([labels[name], *gains])
    header = ["objective", *(f"{probe} - biased" for probe in GAINS)]
    header += [f"{probe} - twin" for probe in TWIN_GAINS if twins]
    tables = [markdown_table(["objective", *PROBES, "floored", "tau_eff", "cost", "seeds"], levels)]
    tables += [markdown_table(header, differences)] if differences else []
    return "\n".join(tables)


def _gain(own: Seeds, other: Seeds, probe: str) -> str:
    cell = mean_cell(paired_differences(*(read_percent(runs, PROBES[probe]) for runs in (own, other))), "+")
    return "" if cell == "-" else cell


def _seen(runs: Seeds) -> list[str]:
    """Share of anchors on the floor, effective prior, and passes of the encoder in thousands of images."""
    floored, tau = (
        [float(run["measures"][key]) for run in runs.values() if key in run["measures"]]
        for key in ("floored", "tau_effective")
    )
    one = next(iter(runs.values()))["settings"]
    passes = one["training"]["epochs"] * (1 + one["objective"]["num_positives"])
    return [f"{100 * fmean(floored):.1f} %" if floored else "-", f"{fmean(tau):.3f}" if tau else "-", f"{passes}"]
