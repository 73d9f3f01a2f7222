"""The debiased loss between views of the same input, as SimCLR calls it (Section 5.1)."""

import math
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.gather import Share, check_everywhere, gather_rows
from debiased_contrastive.kernels.log_mean import computes_at_once, masked_logits
from debiased_contrastive.kernels.two_views import fits_one_tile, losses_of_views
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.debiased import EmbeddingLoss, Record
from debiased_contrastive.losses.knowledge import SHARED, CallKnowledge, check_knowledge, shared_numbers
from debiased_contrastive.losses.options import Options
from debiased_contrastive.losses.pairs import Pairs, PairsSeen
from debiased_contrastive.numerics import without_autocast, working_dtype
from debiased_contrastive.objectives.slopes import debiased_with_slopes
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *inputs.layout({}), "number of views", "use of labels", "use of positive_labels", *SHARED)


class DebiasedNTXentLoss(EmbeddingLoss):
    """Debiased NT-Xent (Eq. 8) over a batch of b inputs with M + 1 views each.

    Views 0 and 1 are the 2b anchors, each the other's numerator. Unlabeled are views 0 and 1 of the other
    inputs, N = 2(b - 1) however many views there are. The M positives of the correction are all other
    views of the anchor's input. Whatever is known about classes takes the place of tau_plus: see the call.

    Relations: tau_plus=0 is NT-Xent; beta > 0 tilts the unlabeled mean to hard negatives;
    `DebiasedInfoNCELoss` is for queries and keys of different kinds, queues and memory banks.

    All settings are attributes that may be changed between calls, but for an automatic tau_plus, which stays so.

    Args:
        temperature: A float, or a tensor whose gradient is wanted. A Parameter becomes one of this module; one that
            is computed anew in each step goes into the call.
        tau_plus: Probability that a random sample has the anchor's class, one number or (b,); it receives no
            gradient. "auto" follows training, as augmented views need it at a low temperature, from a prior of 0.1;
            `AutoTauPlus(prior, warm_up)` does so with these settings.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        decoupled: The positive leaves the denominator (Yeh et al., 2022): log N g - s+, which has no lower
            bound; see `decoupled_loss`.
        normalize: Compare unit vectors; False takes raw dot products, whose floor is 0.
        relative_floor: With raw dot products, the floor as a share of the unlabeled mean; 0 is off.
        strength: How far the knowledge of a call is trusted: 1 believes it, 0 ignores it, one number or (b,).
        attraction: With knowledge: weight in the numerator of the samples that probably share the anchor's class,
            where the other view has weight 1; 0 leaves the numerator as it is.
        attraction_above: Probability of a common class above which a sample joins the numerator.
        gather_distributed: The other processes' inputs are unlabeled samples too, and the mean over processes of
            the value, and of its gradient, is that of the full batch. A `torch.distributed.ProcessGroup` instead of
            True means the processes of that group.
        kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.
            torch.compile takes "dense" into its graph, and leaves the others outside, at one break; torch.func, and
            forward mode, need "dense".
        checks: When values are looked at, which waits for the device: "first", at the calls 1, 10, 100, ... and
            after a result that is not finite, which is returned; "always", which raises at once; or "never". Shapes
            and types are always checked. A compiled graph, and torch.func, look at values with "always" alone.
        reduction: "mean", "sum", or "none" for one loss an anchor.

    >>> loss = DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1)
    >>> z = torch.eye(4)
    >>> loss(z, z)
    tensor(0.2115)
    """

    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *more_views: Tensor,
        labels: Tensor | None = None,
        positive_labels: Tensor | None = None,
        membership: Tensor | None = None,
        partitions: Tensor | None = None,
        weights: Tensor | None = None,
        strength: float | Tensor | None = None,
        attraction: float | None = None,
        attraction_above: float | None = None,
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
        every_positive: bool = False,
    ) -> Tensor:
        """The loss of the views of a batch.

        Of labels, positive_labels, membership, partitions and weights at most one is given. With the last three,
        q_ij is the probability that inputs i and j share a class. A sample enters the unlabeled mean with weight
        max(0, 1 - strength q_ij), and tau_plus plays no part: the estimate has no floor.

        Args:
            z0: Embeddings of the first views (b, d).
            z1: Those of the second views (b, d).
            *more_views: Further ones, which only estimate the positives' mean, unless `every_positive`.
            labels: The unbiased oracle (Eq. 2): classes (b,). It leaves out the unlabeled samples of the anchor's
                own class and weights the mean over the rest with N; tau_plus plays no part.
            positive_labels: Classes (b,), -1 = unknown. An anchor with a known one takes the other inputs of that
                class (their views 0 and 1) as the positives of its correction, its own views where there is none;
                they stay among the unlabeled.
            membership: Probabilities (b, k) that an input is of each of k classes; a row of zeros is unknown.
                q_ij = P_i . P_j.
            partitions: Whole numbers (b, B) of B clusterings or groups, -1 = unknown; q_ij is the share of equal
                ones.
            weights: Probability (b, b) that input j is a true negative of i, 1 - q_ij; with gather_distributed
                the columns are the inputs of all processes.
            strength: Instead of the module's, a float or (b,).
            attraction: Instead of the module's.
            attraction_above: Instead of the module's.
            tau_plus: Instead of the module's, a float or (b,), one for each input.
            temperature: Instead of the module's.
            every_positive: Let each of the M positives of an anchor be its numerator in turn: the loss is the mean
                over them. With tau_plus = 0 this is the biased loss with all M + 1 views as positives.

        Returns:
            The loss; with reduction="none" (2b,), the anchors of view 0 and then of view 1.
        """
        views = {f"view {k}": z for k, z in enumerate((z0, z1, *more_views))}
        knowledge = {"membership": membership, "partitions": partitions, "weights": weights}

        trust = {"strength": strength, "attraction": attraction, "attraction_above": attraction_above}

        def check() -> tuple[dict[str, int], tuple[Options, _Annotations]]:
            look = self._calls.begin(self.checks)
            options = self._options(temperature, tau_plus, strength, attraction, attraction_above, look=look)
            return _check_inputs(views, options, labels, positive_labels, knowledge, tau_plus, trust)

        device = z0.device if isinstance(z0, Tensor) else torch.device("cpu")
        share, (options, told) = check_everywhere(check, _SHARED, device, gather=self.gather_distributed)
        with without_autocast(device):
            if share.total == 1:
                z = scale_views(views, options)
                return self._lone_pair(z[:, 0], z[:, 1], 2, options)
            if not self.decoupled and (usual := _usual_tau_plus(views, share, options, told)) is not None:
                loss, statistics = _usual_loss(views, options, usual)
                seen = _ignored_pairs(views, share, options, told.known)
                self._keep(Record(statistics, usual, options.floor.rule, pairs=seen))
                self._count(loss, options)
                return loss
            z = scale_views(views, options)
            statistics, pairs = _statistics(z, share, options, told, every_positive=every_positive)
            is_corrected = told.labels is not None or told.known is not None
            tau = 0.0 if is_corrected else _tau_plus(views, statistics, share, options)
            loss = self._value(statistics, tau, options, share, pairs)
            # Inside, the two views of an input are neighbours; outside, view 0 comes first.
            return loss.view(-1, 2).T.flatten() if options.reduction == "none" else loss


class _Annotations(NamedTuple):
    """What the call says about classes."""

    labels: Tensor | None
    positive_labels: Tensor | None
    known: CallKnowledge | None


def _check_inputs(
    views: dict[str, Tensor],
    options: Options,
    labels: Tensor | None,
    positive_labels: Tensor | None,
    knowledge: dict[str, Tensor | None],
    tau_plus: float | Tensor | None,
    trust: dict[str, float | Tensor | None],
) -> tuple[dict[str, int], tuple[Options, _Annotations]]:
    z0 = views["view 0"]
    inputs.check_shape("view 0", z0, ("b", "d"), "one embedding a row")
    for name, z in views.items():
        inputs.check_shape(name, z, z0.shape, "all views must be of the same inputs")
    inputs.check_embeddings(views, look=options.look)
    if labels is not None and positive_labels is not None:
        raise ValueError("labels (the unbiased oracle) and positive_labels exclude each other; got both: pass one")
    labels = inputs.check_codes("labels", labels, (len(z0),), z0, lowest=0 if options.look else None)
    positive_labels = inputs.check_codes("positive_labels", positive_labels, (len(z0),), z0)
    options.check_tau_plus(z0[:, 0])
    excluded = {"labels": labels, "positive_labels": positive_labels, "tau_plus": tau_plus}
    known = check_knowledge(knowledge, z0, excluded=excluded, trust=trust, look=options.look)
    if known is not None:
        options = replace(options, strength=options.strength.for_each(z0[:, 0], look=options.look))
    numbers = {
        "batch size": len(z0),
        **inputs.layout(views),
        "number of views": len(views),
        "use of labels": labels is not None,
        "use of positive_labels": positive_labels is not None,
        **shared_numbers(known),
    }
    return numbers, (options, _Annotations(labels, positive_labels, known))


def scale_views(views: dict[str, Tensor], options: Options) -> Tensor:
    """(b, v, d) such that the product of two rows is their logit."""
    z = torch.stack(list(inputs.cast(views).values()), 1)
    scale = options.scale(z)
    if options.normalize and not isinstance(scale, Tensor):
        return options.unit(z, scale**0.5)
    return (options.unit(z) if options.normalize else z) * scale**0.5


def _usual_tau_plus(views: dict[str, Tensor], share: Share, options: Options, told: _Annotations) -> float | None:
    """tau_plus, if two views are all that counts, in one tile, with Eq. 8 as the paper has it; else None."""
    # Settings are compared with 0, since `not` would bind a compiled graph to the very number.
    is_ignored = told.known is not None and options.strength.is_nothing
    is_usual = (
        share.is_alone
        and told.labels is None
        and told.positive_labels is None
        and (told.known is None or is_ignored)
        and len(views) == 2
        and options.beta == 0
        and options.floor.rule == "clamp"
        # With a bound, these are unit vectors, at a temperature that is no tensor.
        and fits_one_tile(share.total, working_dtype(*views.values()), options.bound)
        and not computes_at_once(options.kernel, (2 * share.total) ** 2, views["view 0"])
    )
    tau_plus = 0.0 if is_ignored else options.tau_plus
    return float(tau_plus) if is_usual and isinstance(tau_plus, Real) else None


def _usual_loss(views: dict[str, Tensor], options: Options, tau_plus: float) -> tuple[Tensor, Statistics]:
    """The loss of such views, and the statistics that it is made of, in a fraction of the usual steps."""
    z0, z1 = inputs.cast(views).values()
    count, lower = 2.0 * (len(z0) - 1), -options.bound

    def sloped(positive: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return debiased_with_slopes(positive, total, count, tau_plus, lower)

    loss, positive, total = losses_of_views(
        z0, z1, sloped, length=options.bound**0.5, mean=options.reduction == "mean"
    )
    logit = positive.log_()
    statistics = Statistics(
        positive=logit,
        log_mean_unlabeled=total.log_().sub_(math.log(count)),
        num_unlabeled=count,
        log_mean_positives=logit,
        num_positives=1.0,
        lower=logit.new_full((), lower),
    )
    return loss.sum() if options.reduction == "sum" else loss, statistics


def _ignored_pairs(
    views: dict[str, Tensor], share: Share, options: Options, known: CallKnowledge | None
) -> PairsSeen | None:
    """What diagnostics say of knowledge that the loss ignores."""
    if known is None:
        return None
    return _known_pairs(*_unlabeled(scale_views(views, options), share), share, options, known).seen()


def _statistics(
    z: Tensor, share: Share, options: Options, told: _Annotations, *, every_positive: bool
) -> tuple[Statistics, PairsSeen | None]:
    labels, positive_labels, known = told
    anchors, columns, others = _unlabeled(z, share)
    # Alone, the columns are the anchors, which is half the work.
    compared = None if share.is_alone else columns

    def codes(of_inputs: Tensor) -> tuple[Tensor, Tensor]:
        return of_inputs.repeat_interleave(2), gather_rows(of_inputs, share).repeat_interleave(2)

    # An input has its own label, so leaving out the label leaves out the anchor's own block.
    unlabeled = others if labels is None else Absent(same=(codes(labels),))
    pairs = None if known is None else _known_pairs(anchors, columns, others, share, options, known)
    weights = None if pairs is None else pairs.weights
    log_mean_unlabeled, present = options.log_mean(anchors, compared, unlabeled, weights=weights)
    if weights is not None:
        inputs.warn_if_empty(present, look=options.look)
    else:
        inputs.check_present(present, share, look=options.look)
        # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count, unless nothing is left.
        present = inputs.without_empty(float(len(columns) - 2), present)
    positive, log_mean_positives, num_positives = _own_views(z, every_positive=every_positive)
    if positive_labels is not None:
        of_anchor, of_column = codes(positive_labels)
        of_label, count = options.log_mean(
            anchors, compared, replace(others, differ=((of_anchor, of_column),)), beta=0.0
        )
        has_mates = (of_anchor >= 0) & torch.as_tensor(count > 0)
        log_mean_positives = torch.where(has_mates, of_label, log_mean_positives)
        num_positives = torch.where(has_mates, count, num_positives)
    attraction: float | Tensor = 0.0
    if pairs is not None:
        if positive.dim() > 1 and options.strength.attraction:
            raise ValueError(
                "every_positive and attraction both add positives to the numerator; got both: set attraction to 0"
            )
        positive, attraction = pairs.attract(positive, bound=options.bound, kernel=options.kernel)
    statistics = Statistics(
        positive=positive,
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=present,
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=options.lower(log_mean_unlabeled),
        attraction=attraction,
    )
    return statistics, None if pairs is None else pairs.seen()


def _known_pairs(
    anchors: Tensor, columns: Tensor, others: Absent, share: Share, options: Options, known: CallKnowledge
) -> Pairs:
    known.check_columns(share.total)
    return Pairs(
        anchors, columns, others, known.form(share, anchors.dtype, repeats=2), options.strength.repeated(2)
    )


def _unlabeled(z: Tensor, share: Share) -> tuple[Tensor, Tensor, Absent]:
    """The anchors, the columns they are compared with, and which of these are views of the anchor's input."""
    anchors = (z if z.shape[1] == 2 else z[:, :2]).flatten(0, 1)
    return anchors, gather_rows(anchors, share, rows_per_input=2), Absent(block=2, offset=2 * share.offset)


def _own_views(z: Tensor, *, every_positive: bool) -> tuple[Tensor, Tensor, float | Tensor]:
    """The logit of the numerator, or of each, the log-mean over the other views of the input, and their number."""
    views = z.unbind(1)
    positive = (views[0] * views[1]).sum(-1)
    both = positive.unsqueeze(1).expand(-1, 2).flatten()
    if len(views) == 2:
        return both, both, 1.0
    rows = [[positive, *((views[k] * other).sum(-1) for other in views[2:])] for k in (0, 1)]
    logits = torch.stack([torch.stack(row, 1) for row in rows], 1).flatten(0, 1)  # (2b, m)
    return logits if every_positive else both, log_mean_exp(logits)[0], float(len(views) - 1)


def _tau_plus(views: dict[str, Tensor], statistics: Statistics, share: Share, options: Options) -> float | Tensor:
    def first_logits(count: int) -> Tensor:
        anchors, columns, others = _unlabeled(scale_views(views, options), share)
        return masked_logits(anchors[:count], columns, others)

    like = statistics.log_mean_unlabeled[::2]
    return options.anchor_tau_plus(like, lambda tau: tau.repeat_interleave(2), statistics, first_logits, share)
