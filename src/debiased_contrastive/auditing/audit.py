"""How much sampling bias there is in given embeddings: priors, floors, losses, advice."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from debiased_contrastive.auditing.advice import advise, labels_for_half
from debiased_contrastive.auditing.anchors import Anchors, measure_anchors, next_in_class
from debiased_contrastive.auditing.result import (
    SAFE_FLOORED_SHARE,
    AffectedClass,
    AuditResult,
    Histogram,
    SettingEffect,
)
from debiased_contrastive.auditing.sample import (
    Indices,
    Pairs,
    Progress,
    Sample,
    draw_sample,
    open_embeddings,
    open_pairs,
    read_labels,
)
from debiased_contrastive.auditing.sources import measure_sources, open_given, read_sources
from debiased_contrastive.membership.strength import FEW_LABELS
from debiased_contrastive.objectives.checks import check_tau_plus
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.labels import collision_prior
from debiased_contrastive.prior.mixture import Method, mixture_prior

POSITIVE_PAIRS, RANDOM_PAIRS = 3000, 30_000
"""Numbers of pairs that the estimators of the prior are given."""
NAMED_CLASSES, FEWEST_ANCHORS = 10, 10
"""Number of classes that are listed, and number of anchors of a class below which its bias is not given."""
HISTOGRAM_BINS = 60
_WHERE_SOURCES_ARE = (
    "from_guide, from_groups and from_few_labels are in debiased_contrastive.membership.{guide,labels,classifier}; "
    "what they return has `arguments(ids)`, which the loss takes for the rows of a batch."
)


def audit(
    embeddings: Any,
    pairs: Any = None,
    labels: Any = None,
    *,
    temperature: float = 0.1,
    batch_size: int = 256,
    prior: float | None = None,
    tau_plus: float | None = None,
    guide: Any = None,
    groups: Any = None,
    membership: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditResult:
    """How much sampling bias there is in embeddings, what would take it out of the force, and advice.

    Args:
        embeddings: An array or tensor (n, d), or the path of an .npy, .npz, .parquet or .safetensors file, which is
            read once and may be larger than memory; FILE:NAME picks an array of several.
        pairs: Positives of all rows, (n, d), or whole numbers (m, 2), the places of pairs among the rows.
        labels: (n,) numbers or words; negative or empty ones are unknown. A .txt or .csv file holds one a line.
        temperature: Temperature of the loss.
        batch_size: Batch size of the loss: each anchor has one unlabeled sample less.
        prior: The probability that two rows share a class, if it is known.
        tau_plus: A setting whose effect is measured, too.
        guide: Embeddings (n, e) of the same rows by another model.
        groups: (n,) or (n, B) ids that rows share, numbers or words; -1 and empty ones are unknown.
        membership: (n, k) probability that a row is of a class.
        seed: Seed of the rows that are drawn.
        progress: Called with the amount done, the total amount, and what is being done.

    Returns:
        The numbers, and what to do. With labels, `sources` says what the guide, groups and membership, the rows'
        own clusters and classifiers on some of the labels would take out of the bias of the force.

    Raises:
        ValueError: If an input or a setting cannot be used; one line says which, why, and what to do.
        FileNotFoundError: If a file is missing.
    """
    progress = progress or (lambda _done, _total, _what: None)
    _check_settings(temperature, batch_size, prior, tau_plus, seed)
    rows = open_embeddings(embeddings, "embeddings")
    positives = None if pairs is None else open_pairs(pairs, rows)
    classes, names = (None, []) if labels is None else read_labels(labels, rows)
    given = open_given(rows, guide=guide, groups=groups, membership=membership)
    sample = draw_sample(rows, positives, classes, wanted=batch_size, seed=seed, progress=progress)
    priors, refusals = _estimate_priors(sample, classes, prior, seed, progress)
    believed, is_doubtful = _choose_prior(priors)
    anchors = measure_anchors(sample, temperature=temperature, batch_size=batch_size, prior=believed.value)
    known = read_sources(sample, given, None if classes is None else len(names), seed, progress)
    sources, force_bias, failures = measure_sources(sample, known, temperature, progress)
    tau_cap = anchors.tau_cap
    tau_safe = _largest_safe(tau_cap)
    constant = _best_constant(anchors, tau_safe)
    effect = None
    if tau_plus is not None:
        effect = SettingEffect(tau_plus, anchors.floored(tau_plus), anchors.loss(tau_plus))
    count = batch_size - 1
    result = AuditResult(
        source=rows.name,
        rows=rows.shape[0],
        features=rows.shape[1],
        temperature=temperature,
        batch_size=batch_size,
        positives="pairs" if pairs is not None else "labels" if labels is not None else "none",
        num_anchors=len(tau_cap),
        priors=priors,
        prior=believed,
        false_negatives=(believed.value * count, believed.low * count, believed.high * count),
        classes=_affected_classes(anchors, classes, names, batch_size),
        num_classes=None if classes is None else len(names),
        tau_eff=anchors.tau_eff,
        tau_cap=float(tau_cap[(len(tau_cap) - 1) // 2]),
        tau_safe=tau_safe,
        floored_at_prior=anchors.floored(believed.value),
        floored=tuple((tau, anchors.floored(tau)) for tau in _grid(tau_cap)),
        biased_loss=anchors.loss(0.0),
        unbiased_loss=anchors.unbiased_loss,
        loss_at_prior=anchors.loss(believed.value),
        constant=constant,
        loss_at_constant=anchors.loss(constant),
        loss_at_auto=anchors.auto_loss(believed.value),
        spread_biased=anchors.spread(0.0),
        spread_at_constant=anchors.spread(constant),
        force_bias=force_bias,
        sources=sources,
        labels_for_half=labels_for_half(sources),
        tau_plus=0.0,
        advice="",
        asked=effect,
        histograms=_histograms(sample, seed),
        notes=(
            *_notes(sample, anchors, positives, classes, rows.shape[0], batch_size),
            *((_WHERE_SOURCES_ARE,) if sources else ()),
            *refusals,
            *failures,
        ),
    )
    setting, words = advise(result, is_doubtful=is_doubtful)
    return replace(result, tau_plus=setting, advice=words)


def _check_settings(
    temperature: float, batch_size: int, prior: float | None, tau_plus: float | None, seed: int
) -> None:
    if not 1e-3 <= temperature < math.inf:
        raise ValueError(f"temperature must be finite and at least 0.001; got {temperature}: 0.1 and 0.5 are usual")
    if not isinstance(batch_size, int) or batch_size < 2:
        raise ValueError(
            "batch_size must be a whole number of at least 2, the others are the unlabeled samples; got "
            f"{batch_size}"
        )
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number of at least 0 and below 2^32; got {seed}")
    if prior is not None and not 0 < prior < 1:
        raise ValueError(f"prior must lie in (0, 1); got {prior}: it is 0.1 for ten classes of one size")
    if tau_plus is not None:
        check_tau_plus(tau_plus)


def _estimate_priors(
    sample: Sample, classes: Indices | None, given: float | None, seed: int, progress: Progress
) -> tuple[tuple[PriorEstimate, ...], list[str]]:
    """Estimates by every method that applies, the most trusted first; and why others failed."""
    found = [] if given is None else [PriorEstimate("given", given, given, given)]
    if classes is not None:
        found.append(collision_prior(classes[classes >= 0]))
    methods = () if sample.positive is None else get_args(Method)
    scores = _scores(sample, seed) if methods else None
    refusals = []
    for done, method in enumerate((*methods, "clusters")):
        progress(done, len(methods) + 1, f"prior by {method}")
        try:
            if method == "clusters":
                found.append(cluster_prior(sample.z.numpy(), seed=seed))
            elif scores is not None:
                found.append(mixture_prior(scores, method, seed=seed))
        except ValueError as error:
            refusals.append(f"No prior by {method}: {error}.")
    progress(len(methods) + 1, len(methods) + 1, "prior")
    if not found:
        raise ValueError(f"no method can tell the prior: pass it, or labels. {' '.join(refusals)}")
    return tuple(found), refusals


def _choose_prior(priors: tuple[PriorEstimate, ...]) -> tuple[PriorEstimate, bool]:
    """The given one, labels, the first without a warning, or clusters; and whether it is doubtful."""
    for prior in priors:
        if prior.method in ("given", "labels") or not prior.warnings:
            return prior, False
    # Clusters always warn that how fine they are is a choice.
    return priors[-1], priors[-1].method != "clusters" or len(priors[-1].warnings) > 1


def _scores(sample: Sample, seed: int) -> Scores:
    assert sample.positive is not None
    similarity = (sample.z * sample.positive).sum(1)[:POSITIVE_PAIRS]
    return Scores(similarity.double().numpy(), _random_similarity(sample, seed).numpy(), len(sample))


def _random_similarity(sample: Sample, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(len(sample), (RANDOM_PAIRS,), generator=generator)
    # Any row but the first one.
    second = (first + torch.randint(1, len(sample), (RANDOM_PAIRS,), generator=generator)) % len(sample)
    return (sample.z[first] * sample.z[second]).sum(1).double()


def _largest_safe(tau_cap: Tensor) -> float:
    """The largest tau_plus that puts at most SAFE_FLOORED_SHARE of the anchors on the floor, from sorted caps."""
    first_of_rest = float(tau_cap[math.floor(SAFE_FLOORED_SHARE * len(tau_cap))])
    # At its cap an anchor is on the floor already.
    return min(0.99, (1 - 1e-9) * first_of_rest)


def _best_constant(anchors: Anchors, most: float) -> float:
    """The tau_plus up to `most` whose loss is nearest to the unbiased one."""
    wanted = anchors.unbiased_loss

    def nearest(values: list[float]) -> int:
        return min(range(len(values)), key=lambda place: abs(anchors.loss(values[place]) - wanted))

    coarse = [0.0, *np.geomspace(1e-4 * most, most, 100).tolist()] if most > 0 else [0.0]
    place = nearest(coarse)
    fine = np.linspace(coarse[max(0, place - 1)], coarse[min(len(coarse) - 1, place + 1)], 101).tolist()
    return float(fine[nearest(fine)])


def _grid(tau_cap: Tensor) -> list[float]:
    """Values of tau_plus, from one that puts no anchor on the floor."""
    values: list[float] = np.geomspace(min(1e-4, max(1e-12, float(tau_cap[0]) / 2)), 0.9, 120).tolist()
    return values


def _affected_classes(
    anchors: Anchors, classes: Indices | None, names: list[str], batch_size: int
) -> tuple[AffectedClass, ...]:
    if classes is None or anchors.labels is None:
        return ()
    shares = np.bincount(classes[classes >= 0]) / (classes >= 0).sum()
    count = torch.bincount(anchors.labels, minlength=len(names))
    total = torch.bincount(anchors.labels, anchors.bias, minlength=len(names))
    affected = [
        AffectedClass(name, share, share * (batch_size - 1), bias / n if n >= FEWEST_ANCHORS else None)
        for name, share, bias, n in zip(names, shares.tolist(), total.tolist(), count.tolist(), strict=True)
    ]
    affected.sort(key=lambda each: (-math.inf if each.bias is None else each.bias, each.share), reverse=True)
    return tuple(affected[:NAMED_CLASSES])


def _histograms(sample: Sample, seed: int) -> tuple[Histogram, ...]:
    kinds = {"random pairs": _random_similarity(sample, seed)}
    if sample.positive is not None:
        kinds["positive pairs"] = (sample.z * sample.positive).sum(1).double()
    if sample.labels is not None:
        partner = next_in_class(sample.labels)
        paired = partner != torch.arange(len(sample))
        if bool(paired.any()):
            kinds["pairs of one class"] = (sample.z * sample.z[partner]).sum(1).double()[paired]
    lowest = min(float(values.min()) for values in kinds.values())
    edges = np.linspace(max(-1.0, lowest - 0.02), 1.0, HISTOGRAM_BINS + 1)
    densities = {name: np.histogram(values.clamp(-1, 1), edges, density=True)[0] for name, values in kinds.items()}
    return tuple(Histogram(name, tuple(edges.tolist()), tuple(each.tolist())) for name, each in densities.items())


def _notes(
    sample: Sample, anchors: Anchors, pairs: Pairs | None, classes: Indices | None, rows: int, batch_size: int
) -> list[str]:
    notes = []
    if pairs is not None and pairs.are_places:
        notes.append(
            f"Anchors and unlabeled samples are {len(sample):,} of the {rows:,} rows: the first ones of pairs."
        )
    elif classes is not None and (classes < 0).any():
        notes.append(f"Anchors and unlabeled samples are {len(sample):,} of the rows that have a label.")
    elif len(sample) < rows:
        notes.append(f"From {len(sample):,} of {rows:,} rows, drawn at random; all were checked.")
    if anchors.batch < batch_size:
        notes.append(f"A batch of {batch_size:,} is represented by the {anchors.batch:,} rows that were measured.")
    if sample.positive is None and sample.labels is None:
        notes.append(
            "Without pairs and labels, positives are taken to be equal to their anchors. The floor is reached "
            "soonest then, so what is safe here is safe for yours; your losses are larger than these."
        )
    if classes is not None and (count := int((classes >= 0).sum())) < FEW_LABELS:
        notes.append(
            f"Only {count} rows have a label: force shares and strengths by fewer than {FEW_LABELS} can be wrong, "
            "even about harm."
        )
    if sample.labels is None:
        notes.append("Without labels, the loss with true negatives is guessed from the prior and the similarities.")
    else:
        notes.append(
            "Force shares are measured on these embeddings before any training: they say how much of the bias of "
            "the force goes, not how many points of accuracy a training gains."
        )
    notes.append(
        f"An anchor has N = {batch_size - 1:,} unlabeled samples, one for each other row of the batch. The two "
        "views of SimCLR have twice as many: for a batch of b images give 2b - 1."
    )
    return notes
