"""The debiased loss between queries and keys, as MoCo, CLIP and retrieval call it (Section 5)."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Gather, Share, check_everywhere
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.checks import Checks
from debiased_contrastive.losses.debiased import EmbeddingLoss
from debiased_contrastive.losses.directions import (
    Annotations,
    Direction,
    Embeddings,
    compute_statistics,
    make_directions,
)
from debiased_contrastive.losses.knowledge import SHARED, check_knowledge, shared_numbers
from debiased_contrastive.losses.options import Options
from debiased_contrastive.numerics import without_autocast
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.losses import check_tensor
from debiased_contrastive.objectives.statistics import Statistics

_SAME_NEGATIVES = (
    "the content of negatives (k, d), which are used as they are (samples of one process alone go into "
    "hard_negatives, which are gathered),"
)
_SHARED = (
    "batch size", *inputs.layout({}), "use of negatives", "number of hard negatives", "use of labels", "use of ids",
    "columns of exclude", "use of log_q", "use of symmetric", _SAME_NEGATIVES, *SHARED,
)  # fmt: skip


class DebiasedInfoNCELoss(EmbeddingLoss):
    """Debiased InfoNCE (Eq. 8) of b queries, each with its key.

    Unlabeled are the other keys of the batch, N = b - 1, with the `hard_negatives` of the call if there are any, or
    its `negatives`. M = 1 with the key itself as the correction's positive, unless the call brings `extra_keys`.

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
        decoupled: The positive leaves the denominator, see `DebiasedNTXentLoss`.
        normalize: Compare unit vectors; False takes raw dot products, whose floor is 0.
        relative_floor: With raw dot products, the floor as a share of the unlabeled mean; 0 is off.
        strength: How far the knowledge of a call is trusted, see `DebiasedNTXentLoss`.
        attraction: With knowledge: weight of probable samples of the anchor's class in the numerator; 0 is off.
        attraction_above: Probability of a common class above which a sample joins the numerator.
        gather_distributed: The other processes' keys are unlabeled samples too, of all or of a process group's; see
            `DebiasedNTXentLoss`.
        kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.
        checks: When values are checked: "first", "always" or "never", see `DebiasedNTXentLoss`.
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
        decoupled: bool = False,
        normalize: bool = True,
        relative_floor: float = 0.0,
        strength: float | Tensor = 1.0,
        attraction: float = 0.0,
        attraction_above: float = 0.5,
        gather_distributed: Gather = False,
        kernel: Kernel = "auto",
        checks: Checks = "first",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature,
            tau_plus,
            on_floor=on_floor,
            beta=beta,
            decoupled=decoupled,
            normalize=normalize,
            relative_floor=relative_floor,
            strength=strength,
            attraction=attraction,
            attraction_above=attraction_above,
            gather_distributed=gather_distributed,
            kernel=kernel,
            checks=checks,
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
        hard_negatives: Tensor | None = None,
        exclude: Tensor | None = None,
        log_q: Tensor | None = None,
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
                each query's own. They are all there is: nothing of the batch joins them. With gather_distributed,
                those of (k, d) must be the same on every process, as a queue is.
            hard_negatives: (b, m, d) more samples for all queries: they join the keys of the batch, those of all
                processes with gather_distributed. Keys as anchors do not meet them.
            exclude: (b, n) bool, True for pairs that do not exist: known positives, what a guide rejects. Columns
                are the keys of the batch, then all hard negatives; of all processes with gather_distributed. Row i
                is that of pair i in both directions: key i as an anchor does not meet query j either.
            log_q: (n,) log of the probability with which each sample is drawn, subtracted from its logits, as
                recommenders correct for popularity; those of this process: keys, then hard negatives. A key is a
                sample of its batch, so the logits of the positives are corrected, too. With `negatives`, those of
                the negatives alone, (k,) or (b, k).
            extra_keys: More positives (b, m - 1, d) for the correction of the queries; keys as anchors have their
                query alone.
            labels: The unbiased oracle (Eq. 2): classes (b,). It leaves out unlabeled samples of the anchor's class
                and weights the mean over the rest with N.
            negative_labels: Classes of the `negatives`, (k,) or (b, k), or hard negatives (b, m), with `labels`.
            ids: Which sample each query is (b,), negative = unknown. Unlabeled samples of the same id are the
                anchor itself: they do not exist for it, and N is smaller.
            negative_ids: Those of the `negatives`, (k,) or (b, k), or hard negatives (b, m), with `ids`.
            membership: Probabilities (b, k) that a pair is of each of k classes; a row of zeros is unknown.
            negative_membership: Those of the `negatives`, (n, k) or (b, n, k), or hard negatives (b, m, k).
            partitions: Whole numbers (b, B) of B clusterings or groups, -1 = unknown.
            negative_partitions: Those of the `negatives`, (n, B) or (b, n, B), or hard negatives (b, m, B).
            weights: Probability (b, n) that sample j is a true negative of pair i; columns as in `exclude`.
            strength: Instead of the module's, a float or (b,).
            attraction: Instead of the module's.
            attraction_above: Instead of the module's.
            tau_plus: Instead of the module's, a float or (b,), one for each pair.
            temperature: Instead of the module's.

        Returns:
            The loss; with reduction="none" (b,), or (2b,) for both directions.
        """
        knowledge = {
            "membership": membership, "partitions": partitions, "weights": weights,
            "negative_membership": negative_membership, "negative_partitions": negative_partitions,
        }  # fmt: skip
        embeddings = {
            "query": query, "key": key, "negatives": negatives, "hard_negatives": hard_negatives,
            "extra_keys": extra_keys,
        }  # fmt: skip
        given = {name: z for name, z in embeddings.items() if z is not None}
        trust = {"strength": strength, "attraction": attraction, "attraction_above": attraction_above}

        def check() -> tuple[dict[str, int], tuple[Options, Annotations]]:
            look = self._calls.begin(self.checks)
            options = self._options(temperature, tau_plus, strength, attraction, attraction_above, look=look)
            told = Annotations(labels, negative_labels, ids, negative_ids, exclude, log_q, None)
            numbers, told = _check_inputs(given, options, told, self.symmetric)
            known = check_knowledge(
                knowledge, query, negatives=negatives, hard_negatives=hard_negatives,
                excluded={"labels": labels, "tau_plus": tau_plus}, trust=trust, look=look,
            )  # fmt: skip
            if known is not None:
                options = replace(options, strength=options.strength.for_each(query[:, 0], look=look))
            if self.gather_distributed:
                numbers |= {_SAME_NEGATIVES: _digest(negatives)}
            return numbers | shared_numbers(known), (options, told._replace(known=known))

        device = query.device if isinstance(query, Tensor) else torch.device("cpu")
        share, (options, told) = check_everywhere(check, _SHARED, device, gather=self.gather_distributed)
        columns = share.total * (1 + (0 if hard_negatives is None else hard_negatives.shape[1]))
        if negatives is None:
            inputs.check_exclude(exclude, query, columns)
        with without_autocast(device):
            z = _scale_embeddings(given, options)
            if negatives is None and columns == 1:
                return self._lone_pair(z.query, z.key, 2 if self.symmetric else 1, options)
            directions = make_directions(z, told, share, symmetric=self.symmetric)
            statistics = compute_statistics(directions, z, told, share, options)
            pairs = directions[0].pairs(options)
            if pairs is None:
                inputs.check_present(statistics.num_unlabeled, share, look=options.look)
            else:
                inputs.warn_if_empty(statistics.num_unlabeled, look=options.look)
            is_corrected = labels is not None or told.known is not None
            tau = 0.0 if is_corrected else self._tau_plus(directions[0], statistics, share, options)
            return self._value(statistics, tau, options, share, None if pairs is None else pairs.seen())

    def _tau_plus(
        self, queries: Direction, statistics: Statistics, share: Share, options: Options
    ) -> float | Tensor:
        def repeat(tau_plus: Tensor) -> Tensor:
            return tau_plus.repeat(2) if self.symmetric else tau_plus

        return options.anchor_tau_plus(queries.rows[:, 0], repeat, statistics, queries.first_logits, share)


def _check_inputs(
    given: dict[str, Tensor], options: Options, told: Annotations, symmetric: bool
) -> tuple[dict[str, int], Annotations]:
    query, negatives, hard = given["query"], given.get("negatives"), given.get("hard_negatives")
    inputs.check_shape("query", query, ("b", "d"), "one embedding a row")
    inputs.check_shape("key", given["key"], tuple(query.shape), "each query needs its key")
    b, d = query.shape
    if negatives is not None:
        _check_negatives(negatives, b, symmetric)
    if hard is not None:
        inputs.check_shape("hard_negatives", hard, (b, "m", d), "m more samples for each query")
        if negatives is not None:
            raise ValueError("hard_negatives join the keys of the batch; got negatives, too: pass one of them")
    if "extra_keys" in given:
        check_tensor("extra_keys", given["extra_keys"])
        m = given["extra_keys"].shape[1] if given["extra_keys"].dim() == 3 else "m - 1"
        inputs.check_shape("extra_keys", given["extra_keys"], (b, m, d), "m - 1 more keys for each query")
        if told.log_q is not None:
            raise ValueError("log_q says nothing of extra_keys; got both: pass one of them")
    inputs.check_embeddings(given, look=options.look)
    others = ("negatives", negatives) if hard is None else ("hard_negatives", hard)
    lowest = 0 if options.look else None
    labels = _check_codes("labels", told.labels, told.negative_labels, query, *others, lowest=lowest)
    is_optional = hard is not None and told.negative_ids is None
    others = (others[0], None) if is_optional else others
    ids = _check_codes("ids", told.ids, told.negative_ids, query, *others, lowest=None)
    exclude = inputs.check_exclude(told.exclude, query, None if negatives is None else negatives.shape[-2])
    shape = (
        (b * (1 + (0 if hard is None else hard.shape[1])),) if negatives is None else tuple(negatives.shape[:-1])
    )
    log_q = inputs.check_log_q(told.log_q, query, shape, look=options.look)
    options.check_tau_plus(query[:, 0])
    numbers = {"batch size": b, **inputs.layout(given), "use of negatives": negatives is not None}
    numbers |= {"number of hard negatives": 0 if hard is None else hard.shape[1]}
    numbers |= {"use of labels": labels[0] is not None, "use of ids": ids[0] is not None}
    numbers |= {"columns of exclude": 0 if exclude is None else exclude.shape[1], "use of log_q": log_q is not None}
    numbers |= {"use of symmetric": symmetric}
    return numbers, Annotations(*labels, *ids, exclude, log_q, None)


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
    others: str,
    samples: Tensor | None,
    lowest: int | None,
) -> tuple[Tensor | None, Tensor | None]:
    """The checked codes of the anchors and of the negatives; raise where only one of the two is given."""
    inputs.check_both_or_neither(name, own, others, samples, of_negatives)
    own = inputs.check_codes(name, own, (len(query),), query, lowest=lowest)
    shape = () if samples is None else tuple(samples.shape[:-1])
    return own, inputs.check_codes(f"negative_{name}", of_negatives, shape, query, lowest=lowest)


def _scale_embeddings(given: dict[str, Tensor], options: Options) -> Embeddings:
    z = inputs.cast(given)
    if options.normalize:
        z = {name: options.unit(rows) for name, rows in z.items()}
    # The scale rides on the queries, so that the product of a query and anything is a logit.
    return Embeddings(**{**z, "query": z["query"] * options.scale(z["query"])})


def _digest(negatives: Tensor | None) -> int:
    """A number that differs where shared negatives do; each query's own ones may differ."""
    if negatives is None or negatives.dim() != 2:
        return 0
    values = negatives.detach().double().flatten()
    # Of the same numbers in another order the sum is the same.
    weights = torch.arange(1, len(values) + 1, dtype=values.dtype, device=values.device).sqrt()
    return int((values @ weights).view(torch.int64))
