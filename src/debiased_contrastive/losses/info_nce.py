"""The debiased loss between queries and keys, as MoCo, CLIP, retrieval and CURL call it (Section 5)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.dense import logits_of
from debiased_contrastive.kernels.gather import Share, check_batch, gathered, share_of_batch
from debiased_contrastive.kernels.mask import Absent, Codes
from debiased_contrastive.kernels.unlabeled import Kernel, log_mean, log_mean_both
from debiased_contrastive.losses.auto import AutoTauPlus, following
from debiased_contrastive.losses.inputs import (
    cast,
    check_embeddings,
    check_present,
    check_shape,
    checked_codes,
    layout,
)
from debiased_contrastive.losses.objective import (
    Diagnostics,
    Options,
    Record,
    diagnostics_of,
    losses_and_record,
    options_of,
)
from debiased_contrastive.objectives.checks import OnFloor, Reduction, check_tensor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *layout({}), "use of negatives", "use of labels", "use of ids")


class DebiasedInfoNCELoss(nn.Module):
    """Debiased InfoNCE (Eq. 8) of b queries, each with its key.

    Unlabeled are the other keys of the batch, N = b - 1, or the `negatives` of the call. M = 1 with the key
    itself as the correction's positive, unless the call brings `extra_keys`.

    Relations: tau_plus=0 is InfoNCE; symmetric=True adds the direction from keys to queries, as CLIP does;
    `DebiasedNTXentLoss` compares views of one kind among themselves. Settings are described there. At a
    temperature of 0.1 and below, few data bear a tau_plus of 0.1: see `diagnostics.tau_cap_low`, or say "auto".

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
        super().__init__()
        self.temperature = temperature
        self.tau_plus = following(tau_plus)
        self.symmetric = symmetric
        self.on_floor = on_floor
        self.beta = beta
        self.normalize = normalize
        self.relative_floor = relative_floor
        self.gather_distributed = gather_distributed
        self.kernel = kernel
        self.reduction = reduction
        self._record: Record | None = None
        options_of(self)

    @property
    def diagnostics(self) -> Diagnostics:
        """Of the last call."""
        return diagnostics_of(self._record)

    def extra_repr(self) -> str:
        """Show the settings when printed."""
        return f"symmetric={self.symmetric}, {options_of(self)}"

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
        """The loss of query and key (b, d); with reduction="none" (b,), or (2b,) for both directions.

        negatives: None for the other keys of the batch; (k, d) shared by all queries, as a queue; (b, k, d)
        each query's own, as from a memory bank. They are all there is: nothing of the batch joins them.
        extra_keys (b, m - 1, d): more positives for the correction of the queries; keys as anchors have their
        query alone.
        labels (b,), with negative_labels (k,) or (b, k) beside `negatives`: the unbiased oracle (Eq. 2),
        which leaves out unlabeled samples of the anchor's class and weights the mean over the rest with N.
        ids, negative_ids of the same shapes, negative = none: samples that are the anchor itself; they do not
        exist for it, and N is smaller. tau_plus, temperature: instead of the module's; tau_plus a float
        or (b,), one for each pair.
        """
        codes = _Codes(labels, negative_labels, ids, negative_ids)
        embeddings = {"query": query, "key": key, "negatives": negatives, "extra_keys": extra_keys}
        given = {name: z for name, z in embeddings.items() if z is not None}

        def check() -> tuple[dict[str, int], tuple[Options, _Codes]]:
            return _checked(given, options_of(self, temperature, tau_plus), codes, self.symmetric)

        device = query.device if isinstance(query, Tensor) else torch.device("cpu")
        share, (options, codes) = share_of_batch(check, _SHARED, device, gather=self.gather_distributed)
        if negatives is None:
            check_batch(share)
        with torch.autocast(device.type, enabled=False):
            z = _prepared(given, options)
            statistics = _statistics(z, codes, share, options, self.symmetric)
            tau: float | Tensor = 0.0
            if labels is None:
                tau = _tau_plus(z, statistics, codes, share, options, self.symmetric)
            losses, self._record = losses_and_record(statistics, tau, options, self._record)
            return options.value(losses, share)


@dataclass(frozen=True)
class _Codes:
    """Labels and ids of the anchors and of the negatives, int64 once checked."""

    labels: Tensor | None
    negative_labels: Tensor | None
    ids: Tensor | None
    negative_ids: Tensor | None


@dataclass(frozen=True)
class _Embeddings:
    """In the working dtype, normalised if wanted, the queries divided by the temperature."""

    query: Tensor
    key: Tensor
    negatives: Tensor | None = None
    extra_keys: Tensor | None = None


def _checked(
    given: dict[str, Tensor], options: Options, codes: _Codes, symmetric: bool
) -> tuple[dict[str, int], tuple[Options, _Codes]]:
    query, negatives = given["query"], given.get("negatives")
    check_shape("query", query, ("b", "d"), "one embedding a row")
    check_shape("key", given["key"], tuple(query.shape), "each query needs its key")
    b, d = query.shape
    if negatives is not None:
        _check_negatives(negatives, b, symmetric)
    if "extra_keys" in given:
        check_tensor("extra_keys", given["extra_keys"])
        m = given["extra_keys"].shape[1] if given["extra_keys"].dim() == 3 else "m - 1"
        check_shape("extra_keys", given["extra_keys"], (b, m, d), "m - 1 more keys for each query")
    check_embeddings(given)
    labels = _checked_pair("labels", codes.labels, codes.negative_labels, query, negatives, lowest=0)
    ids = _checked_pair("ids", codes.ids, codes.negative_ids, query, negatives, lowest=None)
    options.tau_plus_by_input(query[:, 0])
    numbers = {"batch size": b, **layout(given), "use of negatives": negatives is not None}
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
    check_shape("negatives", negatives, shape, "(k, d) for all queries or (b, k, d) for each")


def _checked_pair(
    name: str,
    own: Tensor | None,
    of_negatives: Tensor | None,
    query: Tensor,
    negatives: Tensor | None,
    lowest: int | None,
) -> tuple[Tensor | None, Tensor | None]:
    """Codes of the anchors, and of the negatives where there are any: both or neither."""
    if (own is not None and negatives is not None) != (of_negatives is not None):
        words = {True: "given", False: "missing"}
        raise ValueError(
            f"negative_{name} must be given exactly when both {name} and negatives are; got {name} "
            f"{words[own is not None]}, negatives {words[negatives is not None]}, negative_{name} "
            f"{words[of_negatives is not None]}: pass both or neither"
        )
    own = checked_codes(name, own, (len(query),), query, lowest=lowest)
    shape = () if negatives is None else tuple(negatives.shape[:-1])
    return own, checked_codes(f"negative_{name}", of_negatives, shape, query, lowest=lowest)


def _prepared(given: dict[str, Tensor], options: Options) -> _Embeddings:
    z = cast(given)
    if options.normalize:
        z = {name: options.unit(rows) for name, rows in z.items()}
    # The scale rides on the queries, so that the product of a query and anything is a logit.
    return _Embeddings(**{**z, "query": z["query"] * options.scale(z["query"])})


def _statistics(z: _Embeddings, codes: _Codes, share: Share, options: Options, symmetric: bool) -> Statistics:
    existing, unlabeled = _absent(z, codes, share)
    log_mean_unlabeled, present = _log_mean(z, unlabeled, share, options, symmetric)
    check_present(present, "labels and ids")
    if codes.labels is not None:
        # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count.
        num_columns = share.total if z.negatives is None else z.negatives.shape[-2]
        present = existing.present(len(z.query), num_columns, z.query.device)
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


def _absent(z: _Embeddings, codes: _Codes, share: Share) -> tuple[Absent, Absent]:
    """What does not exist for an anchor, and what it does not meet: with labels, its class neither."""

    def pair(own: Tensor, of_negatives: Tensor | None) -> Codes:
        return own, gathered(own, share) if of_negatives is None else of_negatives

    existing = Absent() if z.negatives is not None else Absent(block=1, offset=share.offset)
    if codes.ids is not None:
        own, of_columns = pair(codes.ids, codes.negative_ids)
        # Negative ids mean that nothing is known; two unknown samples are not the same one.
        existing = replace(existing, same=((own.clamp(min=-1), torch.where(of_columns < 0, -2, of_columns)),))
    if codes.labels is None:
        return existing, existing
    return existing, replace(existing, same=(*existing.same, pair(codes.labels, codes.negative_labels)))


def _log_mean(
    z: _Embeddings, absent: Absent, share: Share, options: Options, symmetric: bool
) -> tuple[Tensor, float | Tensor]:
    def over(rows: Tensor, columns: Tensor) -> tuple[Tensor, float | Tensor]:
        return log_mean(rows, columns, absent, beta=options.beta, bound=options.bound, kernel=options.kernel)

    if z.negatives is not None:
        return over(z.query, z.negatives)
    if not symmetric:
        return over(z.query, gathered(z.key, share))
    if share.is_alone:
        return log_mean_both(z.query, z.key, absent, beta=options.beta, bound=options.bound, kernel=options.kernel)
    queries, keys = gathered(torch.stack([z.query, z.key], 1), share).unbind(1)
    # The same samples are absent in both directions, so the counts are the same too.
    (of_query, count), (of_key, _) = over(z.query, keys), over(z.key, queries)
    return torch.cat([of_query, of_key]), count.repeat(2) if isinstance(count, Tensor) else count


def _positives(z: _Embeddings, symmetric: bool) -> tuple[Tensor, Tensor, float | Tensor]:
    """Logit of the numerator, log mean over the positives of the correction, their number."""
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
    """One number, or one for each anchor."""

    def logits_of_first(count: int) -> Tensor:
        existing, _ = _absent(z, codes, share)
        columns = gathered(z.key, share) if z.negatives is None else z.negatives
        return logits_of(z.query[:count], columns if columns.dim() == 2 else columns[:count], existing)

    tau_plus = options.tau_plus_by_input(z.query[:, 0])
    if tau_plus is None:
        return options.tau_plus_followed(statistics, logits_of_first, share)
    return tau_plus.repeat(2) if symmetric and isinstance(tau_plus, Tensor) and tau_plus.dim() > 0 else tau_plus
