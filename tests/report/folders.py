"""Run directories that were never trained: their numbers are chosen, so that a test can know the answer."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.report import groups
from debiased_contrastive.report.page import render_report
from debiased_contrastive.runs import Run

CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def page(runs: Sequence[Run], *, title: str) -> str:
    """The page of runs of any domain."""
    return render_report(runs, title=title, domains=DOMAINS)


def rows(runs: Sequence[Run]) -> tuple[groups.Row, ...]:
    """The rows of runs of any domain."""
    return groups.rows(runs, DOMAINS)


def settings(kind: str, seed: int = 0, **objective: Any) -> dict[str, Any]:
    """The settings of a demo; further settings of its objective by name."""
    return {
        "preset": "demo",
        "seed": seed,
        "data": {"name": "fashion"},
        "views": {"size": 28, "flip": True},
        "encoder": {"name": "small", "width": 32},
        "objective": {
            "kind": kind, "tau_plus": 0.1 if kind == "debiased" else 0.0, "temperature": 0.5, "num_positives": 1,
            "known_labels": 0.0, "on_floor": "clamp", "beta": 0.0, "negatives": "batch", **objective,
        },
        "training": {"epochs": 40, "batch": 256, "learning_rate": 0.001},
    }  # fmt: skip


def evaluation(top1: float, **more: Any) -> dict[str, Any]:
    """An evaluation whose linear accuracy is given."""
    return {
        "linear": {"top1": top1, "top5": None, "regularisation": 1.0},
        "knn": top1 - 0.02,
        "mean_classifier": {"accuracy": top1 - 0.05, "loss": 1.2},
        "alignment": 0.3,
        "uniformity": -2.5,
        "within": 0.6,
        "between": 0.01,
        **more,
    }


def write_run(
    folder: Path,
    its_settings: Mapping[str, Any],
    *,
    its_evaluation: Mapping[str, Any] | None = None,
    metrics: Sequence[Mapping[str, Any]] = (),
    tsne: Mapping[str, Any] | None = None,
) -> Run:
    """A run directory with this content, and only this."""
    folder.mkdir(parents=True)
    environment = {
        "command": ["/opt/bin/debiased", "train", "--preset", "demo", "--seed", str(its_settings.get("seed"))],
        "python": "3.11.9",
        "versions": {"torch": "2.13.0"},
        "revision": "0" * 40,
    }
    files = {"settings": its_settings, "environment": environment, "evaluation": its_evaluation, "tsne": tsne}
    for name, content in files.items():
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content))
    if metrics:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    return Run(folder)


def course(seed: int, *, level: float, floored: float, epochs: int = 40) -> list[dict[str, Any]]:
    """Metrics of a training that goes well."""
    random = Random(seed)
    lines: list[dict[str, Any]] = []
    for epoch in range(epochs):
        settled = 1 - math.exp(-epoch / 8)
        lines += [
            {
                "step": 7 * epoch + part,
                "epoch": epoch,
                "loss": 6 - level * settled + random.gauss(0, 0.04),
                "floored": floored * settled * random.uniform(0.9, 1.1),
                "tau_cap_low": 0.08,
                "learning_rate": 0.001,
                "images_per_second": 2000 + random.gauss(0, 30),
                "false_negative_rate": random.gauss(0.1, 0.003),
            }
            for part in range(2)
        ]
        if epoch % 5 == 4:
            lines.append(
                {"step": 7 * epoch + 6, "epoch": epoch, "knn": 0.5 + 0.2 * settled + random.gauss(0, 0.008)}
            )
    return lines


def cloud(seed: int, spread: float, names: Sequence[str] = CLASSES, size: int = 400) -> dict[str, Any]:
    """A picture of clusters, one per class."""
    random = Random(seed)
    labels = [i % len(names) for i in range(size)]
    angle = 2 * math.pi / len(names)
    points = [
        [
            20 * math.cos(label * angle) + random.gauss(0, spread),
            20 * math.sin(label * angle) + random.gauss(0, spread),
        ]
        for label in labels
    ]
    return {"points": points, "labels": labels, "class_names": list(names)}


def demo_runs(folder: Path, seeds: int = 3) -> list[Run]:
    """A whole comparison: biased, two debiased rows, one that knows labels, unbiased."""
    rows: tuple[tuple[str, dict[str, Any], float, float, float], ...] = (
        ("biased", {}, 0.752, 0.0, 5.0),
        ("debiased", {}, 0.771, 0.08, 3.8),
        ("debiased", {"num_positives": 4}, 0.778, 0.03, 3.8),
        ("debiased", {"known_labels": 0.1}, 0.786, 0.02, 3.3),
        ("unbiased", {}, 0.804, 0.0, 2.6),
    )
    return [
        write_run(
            folder / f"row{place}-seed{seed}",
            settings(kind, seed, **objective),
            its_evaluation=evaluation(top1 + Random(100 * place + seed).gauss(0, 0.005)),
            metrics=course(100 * place + seed, level=2 + place / 4, floored=floored),
            tsne=cloud(place, spread) if seed == 0 else None,
        )
        for place, (kind, objective, top1, floored, spread) in enumerate(rows)
        for seed in range(seeds)
    ]
