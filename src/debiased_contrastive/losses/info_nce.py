"""The debiased loss between queries and keys, as MoCo, CLIP and retrieval call it (Section 5)."""

from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Share, check_batch, check_everywhere, gather_rows
from debiased_contrastive.kernels.log_mean import Kernel, masked_logits
from debiased_contrastive.kernels.tiled import Absent, Codes
from debiased_contrastive.kernels.weights import PairWeights
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.debiased import EmbeddingLoss, Options
from debiased_contrastive.losses.knowledge import SHARED, Known, check_known, shared_numbers
from debiased_contrastive.losses.pairs import Pairs, PairsSeen
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.losses import check_tensor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *inputs.layout({}), "use of negatives", "use of labels", "use of ids", *SHARED)


class DebiasedInfoNCELoss(EmbeddingLoss):
    """Debiased InfoNCE (Eq. 8) of b queries, each with its key.

    Unlabeled are the other keys of the batch, N = b - 1, or the `negatives` of the call. M = 1 with the key
    itself as the correction's positive, unless the call brings `extra_keys`.

    Relations: tau_plus=0 is InfoNCE; symmetric=True adds the direction from keys to queries, as CLIP does;
    `DebiasedNTXentLoss` compares views of one kind among themselves. At a temperature of 0.1 and below, few data
    bear a tau_plus of 0.1: see `diagnostics.tau_cap_low`, or say "auto".

    Args:
        temperature: A float, or a tensor whose gradient is wanted.
        tau_plus: Probability that a random sample has the anchor's class, one number or (b,); "auto" or
            `AutoTauPlus(prior, warm_up)` follows training.
        symmetric: Keys are anchors too, and the queries of the others their unlabeled samples.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        normalize: Compare unit vectors; False takes raw dot products, whose floor is 0.
        relative_floor: With raw dot products, the floor as a share of the unlabeled mean; 0 is off.
        strength: How far the knowledge of a call is trusted, see `DebiasedNTXentLoss`.
        attraction: With knowledge: weight of probable samples of the anchor's class in the numerator; 0 is off.
        attraction_above: Probability of a common class above which a sample joins the numerator.
        gather_distributed: The other processes' keys are unlabeled samples too, see `DebiasedNTXentLoss`.
        kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.
        reduction: "mean", "sum", or "none" for one loss an anchor.

    >>> loss = DebiasedInfoNCELoss(temperature=0.5, tau_plus=0.05)
    >>> queue = torch.eye(4)[2:]
    >>> loss(torch.eye(4)[:2], torch.eye(4)[:2], negatives=queue)
    tensor(0.1652)
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.1,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.1,
        *,
        symmetric: bool = False,
        on_floor: OnFloor = "clamp",
        beta: float = 0.0,
        normalize: bool = True,
        relative_floor: float = 0.0,
        strength: float | Tensor = 1.0,
        attraction: float = 0.0,
        attraction_above: float = 0.5,
        gather_distributed: bool = False,
        kernel: Kernel = "auto",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature,
            tau_plus,
            on_floor=on_floor,
            beta=beta,
            normalize=normalize,
            relative_floor=relative_floor,
            strength=strength,
            attraction=attraction,
            attraction_above=attraction_above,
            gather_distributed=gather_distributed,
            kernel=kernel,
            reduction=reduction,
        )
        self.symmetric = symmetric

    def extra_repr(self) -> str:
        """Name and value of each setting, in one line."""
        return f"symmetric={self.symmetric}, {super().extra_repr()}"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        negatives: Tensor | None = None,
        *,
        extra_keys: Tensor | None = None,
        labels: Tensor | None = None,
        negative_labels: Tensor | None = None,
        ids: Tensor | None = None,
        negative_ids: Tensor | None = None,
        membership: Tensor | None = None,
        negative_membership: Tensor | None = None,
        partitions: Tensor | None = None,
        negative_partitions: Tensor | None = None,
        weights: Tensor | None = None,
        strength: float | Tensor | None = None,
        attraction: float | None = None,
        attraction_above: float | None = None,
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of queries and keys.

        Knowledge about classes is one of membership, partitions and weights, and means what it means in
        `DebiasedNTXentLoss`; labels exclude it, and tau_plus plays no part beside it.

        Args:
            query: Embeddings (b, d).
            key: The positive of each query (b, d).
            negatives: None for the other keys of the batch; (k, d) shared by all queries, as a queue; (b, k, d)
                each query's own. They are all there is: nothing of the batch joins them.
            extra_keys: More positives (b, m - 1, d) for the correction of the queries; keys as anchors have their
                query alone.
            labels: The unbiased oracle (Eq. 2): classes (b,). It leaves out unlabeled samples of the anchor's class
                and weights the mean over the rest with N.
            negative_labels: Classes of the `negatives`, (k,) or (b, k), with `labels`.
            ids: Which sample each query is (b,), negative = unknown. Unlabeled samples of the same id are the
                anchor itself: they do not exist for it, and N is smaller.
            negative_ids: Those of the `negatives`, (k,) or (b, k), with `ids`.
            membership: Probabilities (b, k) that a pair is of each of k classes; a row of zeros is unknown.
            negative_membership: Those of the `negatives`, (n, k) or (b, n, k).
            partitions: Whole numbers (b, B) of B clusterings or groups, -1 = unknown.
            negative_partitions: Those of the `negatives`, (n, B) or (b, n, B).
            weights: Probability (b, n) that sample j is a true negative of pair i; without `negatives` the columns
                are the pairs of the batch, of all processes with gather_distributed.
            strength: Instead of the module's, a float or (b,).
            attraction: Instead of the module's.
            attraction_above: Instead of the module's.
            tau_plus: Instead of the module's, a float or (b,), one for each pair.
            temperature: Instead of the module's.

        Returns:
            The loss; with reduction="none" (b,), or (2b,) for both directions.
        """
        codes = _Codes(labels, negative_labels, ids, negative_ids)
        knowledge = {
            "membership": membership, "partitions": partitions, "weights": weights,
            "negative_membership": negative_membership, "negative_partitions": negative_partitions,
        }  # fmt: skip
        embeddings = {"query": query, "key": key, "negatives": negatives, "extra_keys": extra_keys}
        given = {name: z for name, z in embeddings.items() if z is not None}

        def check() -> tuple[dict[str, int], tuple[Options, _Codes, Known | None]]:
            options = self._options(temperature, tau_plus, strength, attraction, attraction_above)
            numbers, checked = _check_inputs(given, options, codes, self.symmetric)
            excluded = {"labels": labels, "tau_plus": tau_plus}
            known = check_known(knowledge, query, negatives=negatives, excluded=excluded)
            options = replace(options, strength=options.strength.for_each(query[:, 0]))
            return numbers | shared_numbers(known), (options, checked, known)

        device = query.device if isinstance(query, Tensor) else torch.device("cpu")
        share, (options, codes, known) = check_everywhere(check, _SHARED, device, gather=self.gather_distributed)
        if negatives is None:
            check_batch(share)
        with torch.autocast(device.type, enabled=False):
            z = _scale_embeddings(given, options)
            statistics, pairs = _statistics(z, codes, known, share, options, self.symmetric)
            is_corrected = labels is not None or known is not None
            tau = 0.0 if is_corrected else _tau_plus(z, statistics, codes, share, options, self.symmetric)
            return self._value(statistics, tau, options, share, pairs)


class _Codes(NamedTuple):
    """Labels and ids of the anchors and of the negatives, int64 once checked."""

    labels: Tensor | None
    negative_labels: Tensor | None
    ids: Tensor | None
    negative_ids: Tensor | None


class _Embeddings(NamedTuple):
    """Embeddings in the working dtype, normalised if wanted; the queries are divided by the temperature."""

    query: Tensor
    key: Tensor
    negatives: Tensor | None = None
    extra_keys: Tensor | None = None


def _check_inputs(
    given: dict[str, Tensor], options: Options, codes: _Codes, symmetric: bool
) -> tuple[dict[str, int], _Codes]:
    query, negatives = given["query"], given.get("negatives")
    inputs.check_shape("query", query, ("b", "d"), "one embedding a row")
    inputs.check_shape("key", given["key"], tuple(query.shape), "each query needs its key")
    b, d = query.shape
    if negatives is not None:
        _check_negatives(negatives, b, symmetric)
    if "extra_keys" in given:
        check_tensor("extra_keys", given["extra_keys"])
        m = given["extra_keys"].shape[1] if given["extra_keys"].dim() == 3 else "m - 1"
        inputs.check_shape("extra_keys", given["extra_keys"], (b, m, d), "m - 1 more keys for each query")
    inputs.check_embeddings(given)
    labels = _check_codes("labels", codes.labels, codes.negative_labels, query, negatives, lowest=0)
    ids = _check_codes("ids", codes.ids, codes.negative_ids, query, negatives, lowest=None)
    options.check_tau_plus(query[:, 0])
    numbers = {"batch size": b, **inputs.layout(given), "use of negatives": negatives is not None}
    numbers |= {"use of labels": labels[0] is not None, "use of ids": ids[0] is not None}
    return numbers, _Codes(*labels, *ids)


def _check_negatives(negatives: Tensor, b: int, symmetric: bool) -> None:
    check_tensor("negatives", negatives)
    if symmetric:
        raise ValueError(
            "symmetric=True contrasts within the batch in both directions; got negatives: "
            "pass negatives=None, or symmetric=False"
        )
    if negatives.dim() >= 2 and negatives.shape[-2] == 0:
        raise ValueError(
            f"negatives must hold at least one sample; got shape {tuple(negatives.shape)}: an empty "
            "queue must be filled first, or pass negatives=None for the first steps"
        )
    shape = (b, "k", "d") if negatives.dim() == 3 else ("k", "d")
    inputs.check_shape("negatives", negatives, shape, "(k, d) for all queries or (b, k, d) for each")


def _check_codes(
    name: str,
    own: Tensor | None,
    of_negatives: Tensor | None,
    query: Tensor,
    negatives: Tensor | None,
    lowest: int | None,
) -> tuple[Tensor | None, Tensor | None]:
    """The checked codes of the anchors and of the negatives; raise where only one of the two is given."""
    if (own is not None and negatives is not None) != (of_negatives is not None):
        words = {True: "given", False: "missing"}
        raise ValueError(
            f"negative_{name} must be given exactly when both {name} and negatives are; got {name} "
            f"{words[own is not None]}, negatives {words[negatives is not None]}, negative_{name} "
            f"{words[of_negatives is not None]}: pass both or neither"
        )
    own = inputs.check_codes(name, own, (len(query),), query, lowest=lowest)
    shape = () if negatives is None else tuple(negatives.shape[:-1])
    return own, inputs.check_codes(f"negative_{name}", of_negatives, shape, query, lowest=lowest)


def _scale_embeddings(given: dict[str, Tensor], options: Options) -> _Embeddings:
    z = inputs.cast(given)
    if options.normalize:
        z = {name: options.unit(rows) for name, rows in z.items()}
    # The scale rides on the queries, so that the product of a query and anything is a logit.
    return _Embeddings(**{**z, "query": z["query"] * options.scale(z["query"])})


def _statistics(
    z: _Embeddings, codes: _Codes, known: Known | None, share: Share, options: Options, symmetric: bool
) -> tuple[Statistics, PairsSeen | None]:
    own_sample, own_class = _masks(z, codes, share)
    pairs = None if known is None else _pairs(z, known, own_sample, share, options, symmetric)
    weights = None if pairs is None else pairs[0].weights
    log_mean_unlabeled, present = _log_mean(z, own_class, share, options, symmetric, weights)
    if weights is None:
        inputs.check_present(present, "labels and ids")
    if codes.labels is not None:
        # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count.
        num_columns = share.total if z.negatives is None else z.negatives.shape[-2]
        present = own_sample.present(len(z.query), num_columns, z.query.device)
        if isinstance(present, Tensor):
            present = (present.repeat(2) if symmetric else present).to(z.query.dtype)
    positive, log_mean_positives, num_positives = _positives(z, symmetric)
    statistics = Statistics(
        positive=positive,
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=present,
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=options.lower(log_mean_unlabeled),
        attraction=_attraction(z, pairs, options),
    )
    return statistics, None if pairs is None else pairs[0].seen()


def _pairs(
    z: _Embeddings, known: Known, own_sample: Absent, share: Share, options: Options, symmetric: bool
) -> list[Pairs]:
    """Queries with what they are compared with; and with `symmetric` keys with queries."""
    columns = gather_rows(z.key, share) if z.negatives is None else z.negatives
    known.check_columns(columns.shape[-2])
    form = known.form(share, z.query.dtype)
    both = [(z.query, columns), *([(z.key, gather_rows(z.query, share))] if symmetric else [])]
    return [Pairs(*two, own_sample, form, options.strength) for two in both]


def _attraction(z: _Embeddings, pairs: list[Pairs] | None, options: Options) -> float | Tensor:
    if pairs is None or not options.strength.attraction:
        return 0.0
    positive = (z.query * z.key).sum(-1)
    return torch.cat([torch.as_tensor(each.attraction(positive, options.kernel)) for each in pairs])


def _masks(z: _Embeddings, codes: _Codes, share: Share) -> tuple[Absent, Absent]:
    """The samples that are the anchor itself; and those with the samples of its class, if labels are given."""

    def pair(own: Tensor, of_negatives: Tensor | None) -> Codes:
        return own, gather_rows(own, share) if of_negatives is None else of_negatives

    own_sample = Absent() if z.negatives is not None else Absent(block=1, offset=share.offset)
    if codes.ids is not None:
        own, of_columns = pair(codes.ids, codes.negative_ids)
        # Negative ids mean that nothing is known; two unknown samples are not the same one.
        own_sample = replace(own_sample, same=((own.clamp(min=-1), torch.where(of_columns < 0, -2, of_columns)),))
    if codes.labels is None:
        return own_sample, own_sample
    return own_sample, replace(own_sample, same=(*own_sample.same, pair(codes.labels, codes.negative_labels)))


def _log_mean(
    z: _Embeddings, absent: Absent, share: Share, options: Options, symmetric: bool, weights: PairWeights | None
) -> tuple[Tensor, float | Tensor]:
    if z.negatives is not None:
        return options.log_mean(z.query, z.negatives, absent, weights=weights)
    if not symmetric or share.is_alone:
        return options.log_mean(z.query, gather_rows(z.key, share), absent, both=symmetric, weights=weights)
    queries, keys = gather_rows(torch.stack([z.query, z.key], 1), share).unbind(1)
    # The same samples are absent in both directions, so the counts are the same too.
    of_query, count = options.log_mean(z.query, keys, absent, weights=weights)
    of_key, _ = options.log_mean(z.key, queries, absent, weights=weights)
    return torch.cat([of_query, of_key]), count.repeat(2) if isinstance(count, Tensor) else count


def _positives(z: _Embeddings, symmetric: bool) -> tuple[Tensor, Tensor, float | Tensor]:
    """The logit of the numerator, the log-mean over the positives of the correction, and their number."""
    positive = (z.query * z.key).sum(-1)
    mean, count = positive, torch.ones_like(positive)
    if z.extra_keys is not None:
        more = (z.extra_keys * z.query.unsqueeze(1)).sum(-1)
        mean, count = log_mean_exp(torch.cat([positive.unsqueeze(1), more], 1))
    if not symmetric:
        return positive, mean, count
    return positive.repeat(2), torch.cat([mean, positive]), torch.cat([count, torch.ones_like(count)])


def _tau_plus(
    z: _Embeddings, statistics: Statistics, codes: _Codes, share: Share, options: Options, symmetric: bool
) -> float | Tensor:
    def first_logits(count: int) -> Tensor:
        own_sample, _ = _masks(z, codes, share)
        columns = gather_rows(z.key, share) if z.negatives is None else z.negatives
        return masked_logits(z.query[:count], columns if columns.dim() == 2 else columns[:count], own_sample)

    def repeat(tau_plus: Tensor) -> Tensor:
        return tau_plus.repeat(2) if symmetric else tau_plus

    return options.anchor_tau_plus(z.query[:, 0], repeat, statistics, first_logits, share)
