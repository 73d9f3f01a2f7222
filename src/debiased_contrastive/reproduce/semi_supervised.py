"""Few labels while training: soft membership from a classifier on them, beside cross-entropy on the same labels."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.presets import SIMCLR_PRESETS
from debiased_contrastive.images.settings import SimCLRSettings
from debiased_contrastive.reproduce import simclr_rows
from debiased_contrastive.reproduce.item import Claim, Item, Request, Scale, with_request
from debiased_contrastive.reproduce.runner import Job, grid
from debiased_contrastive.reproduce.simclr_rows import LEGEND, percent, probe_table, with_objective
from debiased_contrastive.runs import Run

_DEMO = SIMCLR_PRESETS["demo"].settings
SMALL = replace(
    _DEMO,
    data=replace(_DEMO.data, name="fashion-mnist", per_class=500),
    encoder=replace(_DEMO.encoder, width=16),
    objective=replace(_DEMO.objective, temperature=0.2),
    training=replace(
        _DEMO.training, epochs=60, batch=128, learning_rate=2e-3, schedule="cosine", knn_every=20,
        checkpoint_every=390,
    ),
)  # fmt: skip
"""The setting of the study of memberships, whose results are used."""
SCALES: dict[Any, Scale] = {
    "smoke": simclr_rows.SCALES["smoke"],
    "small": Scale(
        "Fashion-MNIST, 5,000 images, width 16, batch 128, t = 0.2, 60 epochs", "3 min on a core", SMALL,
        data="Fashion-MNIST",
    ),
    "paper": simclr_rows.SCALES["paper"],
}  # fmt: skip
KNOWN = 0.1
"""Share of the labels that are read."""
LABELS = {
    "biased": "biased",
    "classifier-10": "membership from 10 % of the labels",
    "cross-entropy-10": "biased and cross-entropy on 10 % of the labels",
    "unbiased": "unbiased, all labels",
}


def make_rows(base: SimCLRSettings) -> dict[str, SimCLRSettings]:
    told = ImageMembership(source="classifier", known=KNOWN, num_classes=len(base.data.classes) or 10, refresh=10)
    if base.training.epochs <= told.refresh:
        # Long enough to go through all of it.
        told = replace(told, warm_up=1, refresh=1)
    return {
        "biased": with_objective(base, kind="biased"),
        "classifier-10": replace(with_objective(base, kind="debiased"), membership=told),
        "cross-entropy-10": with_objective(base, kind="biased"),
        "unbiased": with_objective(base, kind="unbiased"),
    }


def make_jobs(request: Request) -> Iterator[Job]:
    base = with_request(SCALES[request.scale].settings, request)
    for job in grid(make_rows(base), request.seeds, "images", measure):
        has_classifier = job.name.startswith("cross-entropy")
        yield replace(job, train=partial(train_with_classifier, share=KNOWN)) if has_classifier else job


def train_with_classifier(*given: Any, share: float) -> Generator[Any, None, None]:
    from debiased_contrastive.reproduce import controls

    return controls.train_with_classifier(*given, share=share)


def measure(_settings: SimCLRSettings, run: Run, _images: Any) -> dict[str, Any]:
    from debiased_contrastive.reproduce.simclr_measures import measure_probes

    return measure_probes(run)


def markdown(folder: Path) -> str:
    return probe_table(folder, LABELS, twins={"classifier-10": "cross-entropy-10"})


ITEM = Item(
    "semi-supervised",
    "Few labels while training: membership beside cross-entropy",
    SCALES,
    make_jobs,
    (markdown,),
    (
        Claim(
            "Membership from 10 % of the labels beats the biased loss", "classifier-10", "biased",
            percent("knn"), what="kNN accuracy", is_published=False,
        ),
        Claim(
            "Membership from 10 % of the labels beats cross-entropy on them", "classifier-10", "cross-entropy-10",
            percent("knn"), what="kNN accuracy", is_published=False,
        ),
    ),
    note=f"The twin of the membership puts the same labels to a plainer use. The paper leaves this open.\n{LEGEND}",
    folders={"small": "membership/fashion"},
)  # fmt: skip
