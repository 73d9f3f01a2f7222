"""What is knowledge about classes worth in training: share of the gap closed against what was known.

    python -m studies.membership --out results/membership
    python -m studies.membership --tables results/membership

Two data sets; studies.membership_length says how far biased training is there. All differences are paired by seed.
The environment variable DEBIASED_DATA names the folder of the images, of both sets.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.images.sources import read_probe_images, read_training_images
from debiased_contrastive.reproduce.runner import Job, settings_without_places
from debiased_contrastive.runs import Run
from studies.command import Study, main
from studies.membership_controls import train_regression, train_with_classifier
from studies.membership_length import probe, probe_features, read_course
from studies.membership_rows import BASES, ROWS, Row
from studies.membership_sources import make_patches, worth_before, write_groups
from studies.membership_tables import force_markdown, markdown, plot


def make_jobs(flags: Namespace) -> Iterator[Job]:
    """All rows of both data sets for one seed, then for the next; and what their knowledge is worth beforehand."""
    for seed, row, data in product(range(flags.seeds), (*ROWS, "before"), flags.data):
        settings, name = replace(BASES[data].settings(), seed=seed), f"{data}/{row}-seed{seed}"
        if row == "before":
            yield Job(name, partial(measure_before, settings, flags.runs / data))
        else:
            yield make_job(name, ROWS[row], settings, flags.runs)


def make_job(name: str, row: Row, settings: SimCLRSettings, runs: Path) -> Job:
    """The job of one row."""
    # Three measurements on the way: more of them would take as long as a part of the training.
    epochs = row.epochs * settings.training.epochs
    training = replace(settings.training, epochs=epochs, knn_every=max(1, epochs // 3))
    settings = replace(settings, training=training)
    if not row.known:
        settings = replace(settings, objective=replace(settings.objective, kind=row.kind))
    if row.guide_alone:
        return Job(name, partial(measure_guide, settings))
    if row.cross_entropy or row.regression:
        return Job(name, partial(measure_control, name, row, settings, runs))
    if row.groups:
        return Job(name, partial(measure_groups, name, row, settings, runs))
    return Job(name, measure, _with_knowledge(settings, row), "images")


def _with_knowledge(settings: SimCLRSettings, row: Row, file: Path | None = None) -> SimCLRSettings:
    if not row.known:
        return settings
    refresh = 10 if row.known["source"] in ("classifier", "own") else 20
    told = {"num_classes": len(settings.data.classes) or 10, "refresh": refresh, "file": file, **row.known}
    objective = replace(settings.objective, kind="debiased")
    return replace(settings, objective=objective, membership=ImageMembership(**told))


def measure_groups(name: str, row: Row, settings: SimCLRSettings, runs: Path) -> dict[str, Any]:
    """Write the groups, train with them and measure; what the file holds is a function of the seed."""
    file = write_groups(runs / f"{name}.npy", settings, row.groups)
    content: dict[str, Any] = Job(name, measure, _with_knowledge(settings, row, file), "images").make(runs)
    content["settings"]["membership"]["file"] = None
    return {"groups": row.groups, **content}


def measure(settings: Any, run: Run, images: Any) -> dict[str, Any]:
    """The three probes, and neighbours and the worth of the knowledge on the way."""
    del images
    found: dict[str, Any] = {"measures": probe(settings, run), "knn": read_course(run)}
    if settings.membership.source == "none":
        return found
    lines = [line for line in run.metrics() if "force_share" in line]
    worth = [{key: line[key] for key in ("step", "force_share", "membership_accuracy")} for line in lines]
    return {**found, "worth": worth}


def measure_before(settings: SimCLRSettings, runs: Path) -> dict[str, Any]:
    """What the knowledge of each row is worth by the biased run of the same seed, before training with it."""
    images, found = read_training_images(settings.data), {}
    for name, row in ROWS.items():
        # Attraction changes no weight.
        if row.known and not row.known.get("attraction"):
            path = runs / f"{name}-seed{settings.seed}.npy"
            file = write_groups(path, settings, row.groups) if row.groups else None
            told = _with_knowledge(settings, row, file)
            found[name] = worth_before(told, images, runs / f"biased-seed{settings.seed}")
    return {"before": found}


def measure_guide(settings: SimCLRSettings) -> dict[str, Any]:
    """The probes of the guide's own features, which are made of the pixels of training and test images together."""
    train, test = read_probe_images(settings.data)
    features = make_patches(settings, train, test)
    measures = probe_features(features[: len(train)], train, features[len(train) :], test)
    return {"settings": settings_without_places(settings), "measures": measures}


def measure_control(name: str, row: Row, settings: SimCLRSettings, runs: Path) -> dict[str, Any]:
    """The probes of a training that the package does not do itself."""
    if row.regression:
        guide = make_patches(settings, read_training_images(settings.data))
        run = train_regression(settings, guide, runs / name)
    else:
        file = write_groups(runs / f"{name}.npy", settings, row.groups) if row.groups else None
        settings = _with_knowledge(settings, row, file)
        run = train_with_classifier(settings, row.cross_entropy, runs / name)
    content = settings_without_places(settings)
    if "membership" in content:
        content["membership"]["file"] = None
    return {
        "settings": content,
        "control": {"cross_entropy": row.cross_entropy, "regression": row.regression, "groups": row.groups},
        "measures": probe(settings, run),
        **{key: run.environment[key] for key in ("revision", "modified", "versions")},
    }


_DATA = {"nargs": "+", "choices": list(BASES), "default": list(BASES), "help": "The data sets; both by default."}
STUDY = Study(make_jobs, (markdown, force_markdown), plot, flags={"data": _DATA}, seeds=5)

if __name__ == "__main__":
    main("studies.membership")
