"""Queries against keys, and keys against queries: who is compared with whom, and the statistics of both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent, Codes
from debiased_contrastive.kernels.gather import Share, gather_rows
from debiased_contrastive.kernels.log_mean import masked_logits
from debiased_contrastive.kernels.weights import Form, PairWeights
from debiased_contrastive.losses.inputs import without_empty
from debiased_contrastive.losses.knowledge import CallKnowledge
from debiased_contrastive.losses.options import Options
from debiased_contrastive.losses.pairs import Pairs
from debiased_contrastive.numerics import number_like
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


class Embeddings(NamedTuple):
    """Embeddings in the working dtype, normalised if wanted; the queries are divided by the temperature."""

    query: Tensor
    key: Tensor
    negatives: Tensor | None = None
    hard_negatives: Tensor | None = None
    extra_keys: Tensor | None = None


class Annotations(NamedTuple):
    """What a call says of its samples, checked: int64 labels and ids, and the rest."""

    labels: Tensor | None
    negative_labels: Tensor | None
    ids: Tensor | None
    negative_ids: Tensor | None
    exclude: Tensor | None
    log_q: Tensor | None
    known: CallKnowledge | None


@dataclass(frozen=True)
class Direction:
    """Anchors and the samples that they are compared with."""

    rows: Tensor
    """(b, d) such that products with the columns are logits."""
    columns: Tensor
    """(n, d), or (b, n, d) where each anchor has its own."""
    own_sample: Absent
    """Columns that do not exist for a row: the anchor itself, and pairs that the caller excludes."""
    own_class: Absent
    """Those, and with labels the samples of its class."""
    form: Form | None
    log_q: Tensor | None
    """Subtracted from the logits of the columns, already part of the products; the floor must know it."""
    own_log_q: Tensor | None
    """(b,) that of each anchor's positive, where it is a column, too."""

    def pairs(self, options: Options) -> Pairs | None:
        """The pairs of which something is known."""
        if self.form is None:
            return None
        return Pairs(self.rows, self.columns, self.own_sample, self.form, options.strength)

    def first_logits(self, count: int) -> Tensor:
        """Logits of the first anchors, -inf where a column does not exist."""
        columns = self.columns if self.columns.dim() == 2 else self.columns[:count]
        return masked_logits(self.rows[:count], columns, self.own_sample)


def make_directions(z: Embeddings, told: Annotations, share: Share, *, symmetric: bool) -> list[Direction]:
    """Queries with what they are compared with; with `symmetric` keys with the queries, too."""
    in_batch = z.negatives is None
    own_sample, own_class = _masks(told, share, z, with_hard=True)
    columns = _columns(z, share)
    form = None
    if told.known is not None:
        told.known.check_columns(columns.shape[-2])
        form = told.known.form(share, z.query.dtype)
    rows, log_q, own_log_q = z.query, None, None
    if told.log_q is not None:
        log_q = _gather_log_q(told.log_q.to(rows), share, len(rows)) if in_batch else told.log_q.to(rows)
        # One more feature, so that a product is the logit minus log q, in every kernel.
        rows = torch.cat([rows, torch.ones_like(rows[:, :1])], 1)
        columns = torch.cat([columns, -log_q.unsqueeze(-1)], -1)
        # The key is a column of its batch, and corrected like the others.
        own_log_q = told.log_q[: len(rows)].to(rows) if in_batch else None
    queries = Direction(rows, columns, own_sample, own_class, form, log_q, own_log_q)
    if not symmetric:
        return [queries]
    own_sample, own_class = _masks(told, share, z, with_hard=False)
    others = gather_rows(z.query, share)
    keys_form = None if told.known is None else told.known.form(share, z.query.dtype, with_hard=False)
    return [queries, Direction(z.key, others, own_sample, own_class, keys_form, None, None)]


def _columns(z: Embeddings, share: Share) -> Tensor:
    if z.negatives is not None:
        return z.negatives
    keys = gather_rows(z.key, share)
    if z.hard_negatives is None:
        return keys
    return torch.cat([keys, gather_rows(z.hard_negatives, share).flatten(0, 1)])


def _gather_log_q(log_q: Tensor, share: Share, b: int) -> Tensor:
    """Of the keys of all processes, then of their hard negatives."""
    keys, hard = log_q[:b], log_q[b:].view(b, -1)
    return torch.cat([gather_rows(keys, share), gather_rows(hard, share).flatten()])


def _masks(told: Annotations, share: Share, z: Embeddings, *, with_hard: bool) -> tuple[Absent, Absent]:
    """The samples that do not exist for an anchor; and those with the samples of its class, if labels are given."""
    hard = z.hard_negatives if with_hard else None

    def pair(own: Tensor, of_negatives: Tensor | None) -> Codes:
        if z.negatives is not None:
            assert of_negatives is not None
            return own, of_negatives
        columns = gather_rows(own, share)
        if hard is not None:
            unknown = torch.full(hard.shape[:2], -1, device=own.device) if of_negatives is None else of_negatives
            columns = torch.cat([columns, gather_rows(unknown, share).flatten()])
        return own, columns

    own_sample = Absent() if z.negatives is not None else Absent(block=1, offset=share.offset)
    if told.ids is not None:
        own, of_columns = pair(told.ids, told.negative_ids)
        # Negative ids mean that nothing is known; two unknown samples are not the same one.
        own_sample = replace(own_sample, same=((own.clamp(min=-1), torch.where(of_columns < 0, -2, of_columns)),))
    if told.exclude is not None:
        own_sample = replace(own_sample, pairs=told.exclude if with_hard else told.exclude[:, : share.total])
    if told.labels is None:
        return own_sample, own_sample
    return own_sample, replace(own_sample, same=(*own_sample.same, pair(told.labels, told.negative_labels)))


def compute_statistics(
    directions: list[Direction], z: Embeddings, told: Annotations, share: Share, options: Options
) -> Statistics:
    """The statistics of all anchors: the queries, and behind them the keys if they are anchors too."""
    log_mean_unlabeled, present = _log_means(directions, share, options)
    if told.labels is not None:
        # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count, unless nothing is left.
        present = without_empty(_counts(directions), present)
    positive = (z.query * z.key).sum(-1)
    # With log q the positive of a query has a logit of its own, else it is that of its key.
    positives = [positive if each.own_log_q is None else positive - each.own_log_q for each in directions]
    log_mean_positives, num_positives = _positives(positives, z)
    positives, attraction = _attract(directions, positives, options)
    return Statistics(
        positive=_cat(positives),
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=present,
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=_lower(directions, log_mean_unlabeled, options),
        attraction=attraction,
    )


def _log_means(directions: list[Direction], share: Share, options: Options) -> tuple[Tensor, float | Tensor]:
    first = directions[0]
    weights = [_weights(each, options) for each in directions]
    is_square = len(directions) == 2 and first.log_q is None and len(first.columns) == len(first.rows)
    if is_square and share.is_alone and first.own_class.is_symmetric:
        return options.log_mean(first.rows, first.columns, first.own_class, both=True, weights=weights[0])
    found = [
        options.for_log_q(each.log_q).log_mean(each.rows, each.columns, each.own_class, weights=of_pairs)
        for each, of_pairs in zip(directions, weights, strict=True)
    ]
    return _cat([mean for mean, _ in found]), _join([count for _, count in found], directions)


def _weights(direction: Direction, options: Options) -> PairWeights | None:
    return None if direction.form is None else options.strength.pair_weights(direction.form)


def _counts(directions: list[Direction]) -> float | Tensor:
    """How many samples exist for each anchor, whatever their class."""
    counts = [
        each.own_sample.present(len(each.rows), each.columns.shape[-2], each.rows.device) for each in directions
    ]
    return _join(counts, directions)


def _cat(parts: list[Tensor]) -> Tensor:
    """Of all directions; a single one stays as it is, so that no order of summation depends on it."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _join(counts: Sequence[float | Tensor], directions: list[Direction]) -> float | Tensor:
    """The counts of all anchors: one number where it is the same for all."""
    if all(not isinstance(count, Tensor) and count == counts[0] for count in counts):
        return float(counts[0])
    parts = zip(counts, directions, strict=True)
    return torch.cat([number_like(count, each.rows).expand(len(each.rows)) for count, each in parts])


def _positives(positives: list[Tensor], z: Embeddings) -> tuple[Tensor, Tensor]:
    """The log-mean over the positives of the correction, and their number."""
    mean, *of_keys = positives
    count = torch.ones_like(mean)
    if z.extra_keys is not None:
        more = (z.extra_keys * z.query.unsqueeze(1)).sum(-1)
        mean, count = log_mean_exp(torch.cat([mean.unsqueeze(1), more], 1))
    return _cat([mean, *of_keys]), _cat([count, *(torch.ones_like(each) for each in of_keys)])


def _lower(directions: list[Direction], log_mean_unlabeled: Tensor, options: Options) -> Tensor:
    """log of the floor: no logit of a column is below that of the least likely similarity minus its log q."""
    lower = options.lower(log_mean_unlabeled)
    log_q = directions[0].log_q
    if log_q is None or options.floor.level != "bound":
        return lower
    parts = [lower.expand(len(each.rows)) for each in directions]
    return torch.cat([parts[0] - log_q.detach().max(), *parts[1:]])


def _attract(
    directions: list[Direction], positives: list[Tensor], options: Options
) -> tuple[list[Tensor], float | Tensor]:
    """The positives with the mates that join them, and what the statistics have as attraction."""
    if directions[0].form is None or not options.strength.attraction:
        return positives, 0.0
    joined: list[Tensor] = []
    terms: list[Tensor] = []
    for each, positive in zip(directions, positives, strict=True):
        pairs = each.pairs(options)
        assert pairs is not None
        with_mates, term = pairs.attract(positive, bound=options.for_log_q(each.log_q).bound, kernel=options.kernel)
        joined.append(with_mates)
        terms.append(number_like(term, positive))
    return joined, _cat(terms)
