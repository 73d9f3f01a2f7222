"""The debiased loss between queries and keys, as MoCo, CLIP and retrieval call it (Section 5)."""

from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Share, check_batch, check_everywhere, gather_rows
from debiased_contrastive.kernels.log_mean import Kernel, masked_logits
from debiased_contrastive.kernels.tiled import Absent, Codes
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.debiased import EmbeddingLoss, Options
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.losses import check_tensor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *inputs.layout({}), "use of negatives", "use of labels", "use of ids")


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
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of queries and keys.

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
            tau_plus: Instead of the module's, a float or (b,), one for each pair.
            temperature: Instead of the module's.

        Returns:
            The loss; with reduction="none" (b,), or (2b,) for both directions.
        """
        codes = _Codes(labels, negative_labels, ids, negative_ids)
        embeddings = {"query": query, "key": key, "negatives": negatives, "extra_keys": extra_keys}
        given = {name: z for name, z in embeddings.items() if z is not None}

        def check() -> tuple[dict[str, int], tuple[Options, _Codes]]:
            return _check_inputs(given, self._options(temperature, tau_plus), codes, self.symmetric)

        device = query.device if isinstance(query, Tensor) else torch.device("cpu")
        share, (options, codes) = check_everywhere(check, _SHARED, device, gather=self.gather_distributed)
        if negatives is None:
            check_batch(share)
        with torch.autocast(device.type, enabled=False):
            z = _scale_embeddings(given, options)
            statistics = _statistics(z, codes, share, options, self.symmetric)
            is_oracle = labels is not None
            tau = 0.0 if is_oracle else _tau_plus(z, statistics, codes, share, options, self.symmetric)
            return self._value(statistics, tau, options, share)


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
) -> tuple[dict[str, int], tuple[Options, _Codes]]:
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
    return numbers, (options, _Codes(*labels, *ids))


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


def _statistics(z: _Embeddings, codes: _Codes, share: Share, options: Options, symmetric: bool) -> Statistics:
    own_sample, own_class = _masks(z, codes, share)
    log_mean_unlabeled, present = _log_mean(z, own_class, share, options, symmetric)
    inputs.check_present(present, "labels and ids")
    if codes.labels is not None:
        # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count.
        num_columns = share.total if z.negatives is None else z.negatives.shape[-2]
        present = own_sample.present(len(z.query), num_columns, z.query.device)
        if isinstance(present, Tensor):
            present = (present.repeat(2) if symmetric else present).to(z.query.dtype)
    positive, log_mean_positives, num_positives = _positives(z, symmetric)
    return Statistics(
        positive=positive,
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=present,
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=options.lower(log_mean_unlabeled),
    )


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
    z: _Embeddings, absent: Absent, share: Share, options: Options, symmetric: bool
) -> tuple[Tensor, float | Tensor]:
    if z.negatives is not None:
        return options.log_mean(z.query, z.negatives, absent)
    if not symmetric or share.is_alone:
        return options.log_mean(z.query, gather_rows(z.key, share), absent, both=symmetric)
    queries, keys = gather_rows(torch.stack([z.query, z.key], 1), share).unbind(1)
    # The same samples are absent in both directions, so the counts are the same too.
    of_query, count = options.log_mean(z.query, keys, absent)
    of_key, _ = options.log_mean(z.key, queries, absent)
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
