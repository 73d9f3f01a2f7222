"""The paper's figures at a small scale: gains on biased training, seed by seed."""

from pathlib import Path
from statistics import fmean

from debiased_contrastive.reproduce import figure4c
from debiased_contrastive.reproduce.item import ENOUGH_SEEDS
from debiased_contrastive.reproduce.results import read_results
from figures.gains import gains
from figures.panel import Panel, row


def more_positives(folder: Path) -> tuple[Panel, ...]:
    """Figure 4c: M views in the correction, beside its controls; rows of few seeds are left out."""
    results = read_results(folder / "figure4c-small", "biased", "unbiased")
    enough = [name for name in results if len(results[name]) >= ENOUGH_SEEDS]
    shown = [name for name in figure4c.LABELS if name in enough and name not in ("biased", "unbiased")]
    return tuple(
        Panel(
            tuple(row(figure4c.LABELS[name], gains(results, name, key), _colour(name)) for name in shown),
            "points gained on biased training",
            title=probe,
            marks=(("all labels", fmean(gains(results, "unbiased", key))),),
        )
        for probe, key in {"linear probe": "linear_top1", "nearest neighbours": "knn"}.items()
    )


def _colour(name: str) -> str:
    return "debiased0" if name.startswith("M-") else "other" if "views" in name else "biased"
