"""What else is known of the rows: a guide, groups, membership, a few labels; and what each does to the force."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from debiased_contrastive.auditing.advice import describe_source
from debiased_contrastive.auditing.result import OWN, SourceEffect
from debiased_contrastive.auditing.sample import Progress, Sample, read_rows, read_unit_rows
from debiased_contrastive.membership.classifier import from_few_labels
from debiased_contrastive.membership.force import ForceCurve, check_membership, force_curve
from debiased_contrastive.membership.guide import from_guide
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups
from debiased_contrastive.membership.strength import safe_strength
from debiased_contrastive.tables import Array, Table, open_table

ROWS, ANCHORS = 4000, 1000
"""Rows of which sources are made, and anchors among them whose force is looked at."""
SHARES_OF_LABELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
CLUSTERINGS, MOST_CLASSES = 15, 20
"""Clusterings of a consensus, and the number of classes from which on they get no finer: they take time."""
CURVE_POINTS = 21


@dataclass(frozen=True)
class Source:
    """One way to know who shares a class."""

    name: str
    made_by: str
    """What a user calls for it."""
    make: Callable[[], Knowledge]
    labels: int | None = None
    """Number of labels that it takes, if any."""


@dataclass(frozen=True)
class Given:
    """Tables with a row for each embedding, as far as there are any."""

    guide: Table | None = None
    groups: Table | None = None
    membership: Table | None = None


def open_given(embeddings: Table, **sources: Any) -> Given:
    """Open the guide, groups and membership that are not None; raise unless they have a row for each embedding."""
    needed = {
        "guide": ("fiu", (2,), "an embedding, numbers of shape (rows, features),"),
        "groups": ("iuUS", (1, 2), "ids, whole numbers or words, of shape (rows,) or (rows, columns),"),
        "membership": ("f", (2,), "probabilities of classes, fractions of shape (rows, classes),"),
    }
    tables = {name: open_table(source, name) for name, source in sources.items() if source is not None}
    for name, table in tables.items():
        kinds, dimensions, what = needed[name]
        is_right = table.dtype.kind in kinds and len(table.shape) in dimensions and min(table.shape) > 0
        if not is_right or table.shape[0] != embeddings.shape[0]:
            raise ValueError(
                f"{table.name} must hold {what} for each of the {embeddings.shape[0]} rows of {embeddings.name}; "
                f"got {table.dtype} of shape {table.shape}"
            )
    return Given(**tables)


def read_sources(
    sample: Sample, given: Given, num_classes: int | None, seed: int, progress: Progress
) -> list[Source]:
    """Read what is given of the sampled rows; with labels, own clusters and some of the labels are sources too."""
    index, z = sample.index[:ROWS], sample.z[:ROWS]
    settings: dict[str, Any] = {"num_classes": min(num_classes or 10, MOST_CLASSES), "clusterings": CLUSTERINGS}
    sources = []
    if given.guide is not None:
        guide = torch.from_numpy(_at(given.guide, index, read_unit_rows, progress))
        sources += [
            Source("guide, consensus", "from_guide(features)", lambda: from_guide(guide, seed=seed, **settings)),
            Source("guide, walk", 'from_guide(features, form="walk")', lambda: from_guide(guide, form="walk")),
        ]
    if given.groups is not None:
        columns = _at(given.groups, index, read_rows, progress).reshape(len(index), -1)
        words = np.char.decode(columns, "utf-8", "replace") if columns.dtype.kind == "S" else columns
        sources.append(Source("groups", "from_groups(ids)", lambda: from_groups(*words.T)))
    if given.membership is not None:
        known = torch.from_numpy(_at(given.membership, index, read_rows, progress))
        membership = Knowledge(membership=check_membership(known, given.membership.name))
        sources.append(Source("membership", "the given rows", lambda: membership))
    if sample.labels is not None:
        own = "from_guide(own features), made anew during training"
        sources += [
            Source(OWN, own, lambda: from_guide(z, seed=seed, **settings)),
            *_label_sources(z, sample.labels[:ROWS], num_classes or 2),
        ]
    return sources


def _at(table: Table, index: Tensor, read: Callable[[Table, Any, Progress], Array], progress: Progress) -> Array:
    """The rows of a table at these places, which need not be sorted as they are in the file."""
    order = np.argsort(index.numpy())
    rows = read(table, index.numpy()[order], progress)
    return rows[np.argsort(order)]


def _label_sources(z: Tensor, labels: Tensor, num_classes: int) -> Iterator[Source]:
    """Classifiers from parts of the labels that have two of a class on average."""
    for share in SHARES_OF_LABELS:
        count = round(share * len(z))
        # The order of rows is random, so the first ones are a random part.
        few = labels.masked_fill(torch.arange(len(z)) >= count, -1)
        if count >= 2 * num_classes and len(few.unique()) > 2:

            def make(few: Tensor = few) -> Knowledge:
                return from_few_labels(z, few, num_classes=num_classes)

            yield Source(f"{count:,} labels", "from_few_labels(features, labels)", make, count)


def measure_sources(
    sample: Sample, sources: list[Source], temperature: float, progress: Progress
) -> tuple[tuple[SourceEffect, ...], float | None, list[str]]:
    """What each source does to the force, the size of the bias in it, and which sources failed.

    Without labels it cannot be measured, and only the strength that is safe is told.
    """
    found, size, refusals = [], None, []
    for done, source in enumerate(sources):
        progress(done, len(sources), f"force with {source.name}")
        try:
            known = source.make()
            if sample.labels is None:
                found.append(_unmeasured(source, known))
            else:
                z, labels = sample.z[:ROWS], sample.labels[:ROWS]
                curve = force_curve(z, labels, known, temperature=temperature, anchors=ANCHORS)
                size = math.sqrt(float(curve.bias.sum() / curve.unbiased.sum()))
                found.append(_effect(source, known, curve))
        except ValueError as error:
            refusals.append(f"No force share of {source.name}: {error}.")
    progress(len(sources), max(1, len(sources)), "force")
    return tuple(found), size, refusals


def _effect(source: Source, known: Knowledge, curve: ForceCurve) -> SourceEffect:
    best = curve.best
    strengths: list[float] = np.linspace(0, min(curve.limit, max(1.0, 1.5 * best)), CURVE_POINTS).tolist()
    effect = replace(
        _unmeasured(source, known),
        share=curve.share(1.0),
        strength=best,
        best_share=curve.share(best),
        curve=tuple((each, curve.share(each)) for each in strengths),
    )
    return replace(effect, words=describe_source(effect))


def _unmeasured(source: Source, known: Knowledge) -> SourceEffect:
    strength, words = safe_strength(known)
    form = next(name for name in ("membership", "partitions", "graph") if getattr(known, name) is not None)
    return SourceEffect(
        name=source.name,
        argument="weights" if form == "graph" else form,
        made_by=source.made_by,
        labels=source.labels,
        share=None,
        strength=strength,
        best_share=None,
        curve=(),
        words=f"{words} Labels of a few hundred rows would tell what it is worth.",
        warnings=known.warnings,
    )
