"""The debiased loss against memory banks, as contrastive multiview coding has them (Section 5.1, ImageNet-100)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.bank import bank_logits
from debiased_contrastive.kernels.gather import Gather, check_everywhere
from debiased_contrastive.kernels.weights import negative_weights_
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.checks import Checks
from debiased_contrastive.losses.debiased import EmbeddingLoss
from debiased_contrastive.losses.knowledge import SHARED, CallKnowledge, Strength, check_knowledge, shared_numbers
from debiased_contrastive.losses.options import Options
from debiased_contrastive.losses.pairs import ANCHORS_SEEN, PairsSeen
from debiased_contrastive.numerics import without_autocast, working_dtype
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.statistics import from_logits

LENGTH_TOLERANCE = 1e-2
"""How much longer or shorter than 1 the rows of a bank may be."""
_SHARED = ("batch size", *inputs.layout({}), "number of views", "number of unlabeled samples", *SHARED)


class DebiasedBankLoss(EmbeddingLoss):
    """Debiased InfoNCE (Eq. 8) of queries whose positive and unlabeled samples are rows of a bank.

    A query's positive is the row of its own sample, which no gradient reaches; unlabeled are rows drawn at random.
    Several views, each against the bank of another, are anchors of one loss.

    Relations: tau_plus=0 is InfoNCE; `DebiasedInfoNCELoss` needs the unlabeled samples themselves, b x k x d
    numbers where each query has its own; here only their logits are stored. Banks must hold unit vectors.

    Args:
        temperature: A float, or a tensor whose gradient is wanted.
        tau_plus: Probability that a random sample has the query's class, one number or (b,); "auto" or
            `AutoTauPlus(prior, warm_up)` follows training.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`. "biased" is the
            paper's choice at so low a temperature.
        decoupled: The positive leaves the denominator, see `DebiasedNTXentLoss`.
        exclude_own: A query never meets its own row among the unlabeled; N is then smaller.
        strength: How far the knowledge of a call is trusted, see `DebiasedNTXentLoss`.
        attraction: With knowledge: weight of probable samples of the query's class in the numerator; 0 is off.
        attraction_above: Probability of a common class above which a sample joins the numerator.
        gather_distributed: An automatic tau_plus sees the queries of all processes, or of those of a process group.
        checks: When values are checked: "first", "always" or "never", see `DebiasedNTXentLoss`.
        reduction: "mean", "sum", or "none" for one loss an anchor.

    >>> loss = DebiasedBankLoss(temperature=0.5, tau_plus=0.05)
    >>> bank = torch.eye(4)
    >>> loss([torch.eye(4)[:2]], [bank], ids=torch.tensor([0, 1]), places=torch.tensor([[2, 3], [2, 3]]))
    tensor(0.1652)
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.07,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.01,
        *,
        on_floor: OnFloor = "biased",
        decoupled: bool = False,
        exclude_own: bool = False,
        strength: float | Tensor = 1.0,
        attraction: float = 0.0,
        attraction_above: float = 0.5,
        gather_distributed: Gather = False,
        checks: Checks = "first",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature,
            tau_plus,
            on_floor=on_floor,
            decoupled=decoupled,
            strength=strength,
            attraction=attraction,
            attraction_above=attraction_above,
            gather_distributed=gather_distributed,
            checks=checks,
            reduction=reduction,
        )
        self.exclude_own = exclude_own

    def _stays_outside_graphs(self) -> bool:
        return isinstance(self.tau_plus, AutoTauPlus)

    def extra_repr(self) -> str:
        """Name and value of each setting, in one line."""
        return f"exclude_own={self.exclude_own}, {super().extra_repr()}"

    def forward(
        self,
        queries: Sequence[Tensor],
        banks: Sequence[Tensor],
        *,
        ids: Tensor,
        places: Tensor,
        membership: Tensor | None = None,
        partitions: Tensor | None = None,
        weights: Tensor | None = None,
        strength: float | Tensor | None = None,
        attraction: float | None = None,
        attraction_above: float | None = None,
    ) -> Tensor:
        """The loss of the queries of all views.

        Knowledge about classes is one of membership, partitions and weights, and means what it means in
        `DebiasedNTXentLoss`; tau_plus plays no part beside it.

        Args:
            queries: Embeddings (b, d) of each view.
            banks: For each view the bank (n, d) in which its positives and unlabeled samples are.
            ids: The own row of each query (b,).
            places: The rows of its unlabeled samples (b, k), the same in all banks.
            membership: Probabilities (n, c) that the sample of each row of the banks is of each of c classes.
            partitions: Whole numbers (n, B) of B clusterings or groups for each row of the banks, -1 = unknown.
            weights: Probability (b, k) that the sample at each of the places is a true negative.
            strength: Instead of the module's, a float or (b,).
            attraction: Instead of the module's.
            attraction_above: Instead of the module's.

        Returns:
            The loss; with reduction="none" (b v,), the views of a sample beside each other.
        """
        knowledge = {"membership": membership, "partitions": partitions, "weights": weights}

        trust = {"strength": strength, "attraction": attraction, "attraction_above": attraction_above}

        def check() -> tuple[dict[str, int], tuple[Options, Tensor, Tensor, CallKnowledge | None]]:
            look = self._calls.begin(self.checks)
            options = self._options(None, None, strength, attraction, attraction_above, look=look)
            numbers, (options, own, others) = _check_inputs(queries, banks, ids, places, options)
            # Weights are of the queries' own places, the other forms of all rows.
            of_weights = {**dict.fromkeys(knowledge), "weights": weights}
            known = check_knowledge(
                {**knowledge, "weights": None}, banks[0], excluded={"weights": weights}, look=look
            )
            known = known or check_knowledge(of_weights, queries[0], excluded={}, trust=trust, look=look)
            if known is not None:
                options = replace(options, strength=options.strength.for_each(queries[0][:, 0], look=look))
            return numbers | shared_numbers(known), (options, own, others, known)

        device = next((rows.device for rows in queries), torch.device("cpu"))
        share, (options, ids, places, known) = check_everywhere(
            check, _SHARED, device, gather=self.gather_distributed
        )
        if known is not None:
            known.check_columns(places.shape[1])
        with without_autocast(device):
            z = [options.unit(rows) * options.scale(rows) for rows in inputs.cast(_named(queries)).values()]
            pairs = [(rows, bank.detach()) for rows, bank in zip(z, banks, strict=True)]
            # The views of a sample are neighbours, so that the first anchors are of all views.
            positive = torch.stack([(rows * bank[ids]).sum(-1) for rows, bank in pairs], 1).flatten()
            unlabeled = torch.stack([self._unlabeled(rows, bank, ids, places) for rows, bank in pairs], 1)
            unlabeled = unlabeled.flatten(0, 1)
            lower = options.lower(positive)
            if known is not None:
                seen = _look_up(known, ids, places, options.strength, positive.dtype, views=len(z))
                statistics = from_logits(
                    positive, unlabeled, None, lower=lower, beta=options.beta, weights=seen.weights
                )
                joined, pull = seen.attract(positive, unlabeled)
                statistics = replace(statistics, positive=joined, attraction=pull)
                inputs.warn_if_empty(statistics.num_unlabeled, look=options.look)
                return self._value(statistics, 0.0, options, share, seen.kept(unlabeled))
            statistics = from_logits(positive, unlabeled, None, lower=lower, beta=options.beta)
            inputs.check_present(statistics.num_unlabeled, share, look=options.look)
            tau_plus = options.anchor_tau_plus(
                positive[:: len(z)],
                lambda tau: tau.repeat_interleave(len(z)),
                statistics,
                lambda count: unlabeled[:count].detach(),
                share,
            )
            return self._value(statistics, tau_plus, options, share)

    def _unlabeled(self, rows: Tensor, bank: Tensor, ids: Tensor, places: Tensor) -> Tensor:
        logits = bank_logits(rows, bank, places)
        if not self.exclude_own:
            return logits
        i, j = (slice(0, length) for length in logits.shape)
        return Absent(same=((ids, places),)).remove_(logits, i, j)


class _Seen(NamedTuple):
    """What is known of each anchor's unlabeled samples."""

    same_class: Tensor
    """(a, k) q."""
    strength: Strength
    membership: Tensor | None
    """(a, c) that of the anchors, where it is membership that is known."""

    @property
    def weights(self) -> Tensor | None:
        strength = self.strength.weights
        is_off = not isinstance(strength, Tensor) and not strength
        return None if is_off else negative_weights_(self.same_class.clone(), strength)

    def attract(self, positive: Tensor, unlabeled: Tensor) -> tuple[Tensor, float | Tensor]:
        """`positive` and `attraction` of the statistics."""
        attraction = self.strength.attraction
        if not attraction:
            return positive, 0.0
        joins = (self.same_class > self.strength.above) & (unlabeled > -torch.inf)
        pulling = torch.where(joins, self.same_class, 0.0)
        sums = (pulling * torch.where(joins, unlabeled, 0.0)).sum(1)
        weights = 1.0 if self.weights is None else self.weights
        lacking = (attraction * pulling - weights).clamp(min=0.0)
        # A row without mates sums over its positive alone; nothing that is -inf may reach a derivative.
        mates = torch.where(lacking > 0, unlabeled + torch.where(lacking > 0, lacking, 1.0).log(), -torch.inf)
        joined = torch.logsumexp(torch.cat([positive.unsqueeze(1), mates], 1), 1)
        return joined, joined - (positive + attraction * sums) / (1 + attraction * pulling.sum(1))

    def kept(self, unlabeled: Tensor) -> PairsSeen:
        first = slice(0, ANCHORS_SEEN)
        membership = None if self.membership is None else self.membership[first]
        pairs = partial(_two, unlabeled.detach()[first], self.same_class[first])
        return PairsSeen(pairs, self.strength.weights, membership)


def _two(logits: Tensor, same_class: Tensor) -> tuple[Tensor, Tensor]:
    return logits, same_class


def _look_up(
    known: CallKnowledge, ids: Tensor, places: Tensor, strength: Strength, dtype: torch.dtype, *, views: int
) -> _Seen:
    """q of each query and the samples at its places, from what is known of all rows of the bank."""
    membership = None
    if known.kind == "weights":
        q = 1 - known.rows.to(dtype)
    elif known.kind == "membership":
        of_rows = known.rows.to(dtype)
        membership = of_rows[ids]
        q = bank_logits(membership, of_rows, places)
        membership = membership.repeat_interleave(views, 0)
    else:
        q = torch.zeros(places.shape, dtype=dtype, device=places.device)
        for codes in known.rows.unbind(1):
            own = codes[ids].unsqueeze(1)
            q = q + ((codes[places] == own) & (own >= 0))
        q /= known.rows.shape[1]
    return _Seen(q.repeat_interleave(views, 0), strength.repeated(views), membership)


def _named(queries: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"queries[{view}]": rows for view, rows in enumerate(queries)}


def _check_inputs(
    queries: Sequence[Tensor], banks: Sequence[Tensor], ids: Tensor, places: Tensor, options: Options
) -> tuple[dict[str, int], tuple[Options, Tensor, Tensor]]:
    for name, given in (("queries", queries), ("banks", banks)):
        if isinstance(given, (Tensor, nn.Module)):
            raise ValueError(f"{name} must be a list, one entry for each view; got a {type(given).__name__}")
    if not queries or len(queries) != len(banks):
        raise ValueError(f"each view needs the bank of another; got {len(queries)} views and {len(banks)} banks")
    inputs.check_shape("queries[0]", queries[0], ("b", "d"), "one embedding a row")
    b, d = queries[0].shape
    inputs.check_shape("banks[0]", banks[0], ("n", d), "pass the embeddings of a bank, a row for each sample")
    n = len(banks[0])
    for view, (rows, bank) in enumerate(zip(queries, banks, strict=True)):
        inputs.check_shape(f"queries[{view}]", rows, (b, d), "all views of one batch")
        inputs.check_shape(f"banks[{view}]", bank, (n, d), "a row for each sample, in every bank")
    named = _named(queries)
    inputs.check_embeddings(named, look=options.look)
    dtype = working_dtype(*queries)
    inputs.check_shape("places", places, (b, "k"), "the unlabeled rows of each query")
    for name, codes, shape in (("ids", ids, (b,)), ("places", places, tuple(places.shape))):
        inputs.check_codes(name, codes, shape, queries[0])
        if options.look and not 0 <= int(codes.min()) <= int(codes.max()) < n:
            raise ValueError(
                f"{name} must lie in 0..{n - 1}, the rows of the banks; got {int(codes.min())}..{int(codes.max())}"
            )
    for view, bank in enumerate(banks):
        _check_bank(f"banks[{view}]", bank, ids, queries[0], dtype, look=options.look)
    options.check_tau_plus(queries[0][:, 0])
    numbers = {"batch size": b, **inputs.layout(named), "number of views": len(queries)}
    return numbers | {"number of unlabeled samples": places.shape[1]}, (options, ids.long(), places.long())


def _check_bank(name: str, bank: Tensor, ids: Tensor, like: Tensor, dtype: torch.dtype, *, look: bool) -> None:
    if bank.device != like.device or bank.dtype != dtype:
        raise ValueError(
            f"{name} must be {dtype} on {like.device}, as the queries are; got {bank.dtype} on {bank.device}: "
            "convert it with .to(...)"
        )
    if not look:
        return
    length = torch.linalg.vector_norm(bank[ids], dim=1)
    if not bool(((length - 1).abs() < LENGTH_TOLERANCE).all()):
        raise ValueError(
            f"{name} must hold unit vectors; those of the queries have lengths from {float(length.min()):.3g} to "
            f"{float(length.max()):.3g}: normalise what is stored, as MemoryBank does"
        )
