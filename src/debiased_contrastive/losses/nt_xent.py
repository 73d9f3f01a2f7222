"""The debiased loss between views of the same input, as SimCLR calls it (Section 5.1)."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.dense import logits_of
from debiased_contrastive.kernels.gather import Share, check_batch, gathered, share_of_batch
from debiased_contrastive.kernels.mask import Absent
from debiased_contrastive.kernels.unlabeled import Kernel, log_mean, log_mean_self
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
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *layout({}), "number of views", "use of labels", "use of positive_labels")


class DebiasedNTXentLoss(nn.Module):
    """Debiased NT-Xent (Eq. 8) over a batch of b inputs with M + 1 views each.

    Views 0 and 1 are the 2b anchors, each the other's numerator. Unlabeled are views 0 and 1 of the other
    inputs, N = 2(b - 1) however many views there are. The M positives of the correction are all other
    views of the anchor's input.

    Relations: tau_plus=0 is NT-Xent; beta > 0 tilts the unlabeled mean to hard negatives;
    `DebiasedInfoNCELoss` is for queries and keys of different kinds, queues and memory banks.

    temperature: a float, or a tensor whose gradient is wanted; a Parameter becomes one of this module, one
    that is computed anew in each step goes into the call. tau_plus: probability that a random sample has the
    anchor's class; it receives no gradient; "auto" follows training, as augmented views need it at a low
    temperature, from a prior of 0.1; `AutoTauPlus(prior, warm_up)` does so with these settings. on_floor: see
    `contrastive_loss`. normalize=False takes raw dot products, without a floor unless relative_floor sets one at
    that share of the unlabeled mean.
    gather_distributed: the other processes' inputs are unlabeled samples too, and the mean over processes
    of the value, and of its gradient, is that of the full batch.
    kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.
    All of them are attributes that may be changed between calls, but for an automatic tau_plus, which stays so.

    >>> loss = DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1)
    >>> z = torch.eye(4)
    >>> loss(z, z)
    tensor(0.2115)
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.5,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.1,
        *,
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
        return str(options_of(self))

    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *more_views: Tensor,
        labels: Tensor | None = None,
        positive_labels: Tensor | None = None,
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of views (b, d); with reduction="none" (2b,), the anchors of view 0 and then of view 1.

        labels (b,): the unbiased oracle (Eq. 2), which leaves out the unlabeled samples of the anchor's own
        class and weights the mean over the rest with N; tau_plus plays no part.
        positive_labels (b,), -1 = unknown: an anchor with a known label takes the other inputs of that label
        (their views 0 and 1) as the positives of its correction, its own views where there is none; they stay
        among the unlabeled. tau_plus: instead of the module's, a float or (b,), one for each input.
        temperature: instead of the module's.
        """
        views = {f"view {k}": z for k, z in enumerate((z0, z1, *more_views))}

        def check() -> tuple[dict[str, int], tuple[Options, Tensor | None, Tensor | None]]:
            options = options_of(self, temperature, tau_plus)
            return _checked(views, options, labels, positive_labels)

        device = z0.device if isinstance(z0, Tensor) else torch.device("cpu")
        share, (options, labels, positive_labels) = share_of_batch(
            check, _SHARED, device, gather=self.gather_distributed
        )
        check_batch(share)
        with torch.autocast(device.type, enabled=False):
            z = _prepared(views, options)
            statistics = _statistics(z, share, options, labels, positive_labels)
            tau = 0.0 if labels is not None else _tau_plus(z, statistics, share, options)
            losses, self._record = losses_and_record(statistics, tau, options, self._record)
            if options.reduction == "none":
                # Inside, the two views of an input are neighbours; outside, view 0 comes first.
                losses = losses.view(-1, 2).T.flatten()
            return options.value(losses, share)


def _checked(
    views: dict[str, Tensor], options: Options, labels: Tensor | None, positive_labels: Tensor | None
) -> tuple[dict[str, int], tuple[Options, Tensor | None, Tensor | None]]:
    z0 = views["view 0"]
    check_shape("view 0", z0, ("b", "d"), "one embedding a row")
    for name, z in views.items():
        check_shape(name, z, tuple(z0.shape), "all views must be of the same inputs")
    check_embeddings(views)
    b = len(z0)
    if labels is not None and positive_labels is not None:
        raise ValueError("labels (the unbiased oracle) and positive_labels exclude each other; got both: pass one")
    labels = checked_codes("labels", labels, (b,), z0, lowest=0)
    positive_labels = checked_codes("positive_labels", positive_labels, (b,), z0)
    options.tau_plus_by_input(z0[:, 0])
    numbers = {"batch size": b, **layout(views), "number of views": len(views)}
    numbers |= {"use of labels": labels is not None, "use of positive_labels": positive_labels is not None}
    return numbers, (options, labels, positive_labels)


def _prepared(views: dict[str, Tensor], options: Options) -> Tensor:
    """(b, v, d) such that the product of two rows is their logit."""
    z = torch.stack(list(cast(views).values()), 1)
    scale = options.scale(z)
    if options.normalize and not isinstance(scale, Tensor):
        return options.unit(z, scale**0.5)
    return (options.unit(z) if options.normalize else z) * scale**0.5


def _statistics(
    z: Tensor, share: Share, options: Options, labels: Tensor | None, positive_labels: Tensor | None
) -> Statistics:
    anchors, columns, others = _unlabeled(z, share)

    def log_mean_over(absent: Absent, beta: float) -> tuple[Tensor, float | Tensor]:
        if share.is_alone:
            return log_mean_self(anchors, absent, beta=beta, bound=options.bound, kernel=options.kernel)
        return log_mean(anchors, columns, absent, beta=beta, bound=options.bound, kernel=options.kernel)

    def codes(of_inputs: Tensor) -> tuple[Tensor, Tensor]:
        return of_inputs.repeat_interleave(2), gathered(of_inputs, share).repeat_interleave(2)

    # An input has its own label, so leaving out the label leaves out the anchor's own block.
    unlabeled = others if labels is None else Absent(same=(codes(labels),))
    log_mean_unlabeled, present = log_mean_over(unlabeled, options.beta)
    check_present(present, "labels")
    positive, log_mean_positives, num_positives = _own_views(z)
    if positive_labels is not None:
        of_anchor, of_column = codes(positive_labels)
        of_label, count = log_mean_over(replace(others, differ=((of_anchor, of_column),)), 0.0)
        found = (of_anchor >= 0) & torch.as_tensor(count > 0)
        log_mean_positives = torch.where(found, of_label, log_mean_positives)
        num_positives = torch.where(found, count, num_positives)
    return Statistics(
        positive=positive,
        log_mean_unlabeled=log_mean_unlabeled,
        num_unlabeled=float(len(columns) - 2),
        log_mean_positives=log_mean_positives,
        num_positives=num_positives,
        lower=options.lower(log_mean_unlabeled),
    )


def _unlabeled(z: Tensor, share: Share) -> tuple[Tensor, Tensor, Absent]:
    """Anchors, what they are compared with, and what of that is their own input."""
    anchors = (z if z.shape[1] == 2 else z[:, :2]).flatten(0, 1)
    return anchors, gathered(anchors, share, rows_per_input=2), Absent(block=2, offset=2 * share.offset)


def _own_views(z: Tensor) -> tuple[Tensor, Tensor, float | Tensor]:
    """Of (b, v, d): logit of the numerator, log mean over the other views of the input, their number."""
    views = z.unbind(1)
    positive = (views[0] * views[1]).sum(-1)
    both = positive.unsqueeze(1).expand(-1, 2).flatten()
    if len(views) == 2:
        return both, both, 1.0
    rows = [[positive, *((views[k] * other).sum(-1) for other in views[2:])] for k in (0, 1)]
    logits = torch.stack([torch.stack(row, 1) for row in rows], 1)  # (b, 2, m)
    return both, log_mean_exp(logits.flatten(0, 1))[0], float(len(views) - 1)


def _tau_plus(z: Tensor, statistics: Statistics, share: Share, options: Options) -> float | Tensor:
    """One number, or one for each anchor."""

    def logits_of_first(count: int) -> Tensor:
        anchors, columns, others = _unlabeled(z, share)
        return logits_of(anchors[:count], columns, others)

    tau_plus = options.tau_plus_by_input(z[:, 0, 0])
    if tau_plus is None:
        return options.tau_plus_followed(statistics, logits_of_first, share)
    return tau_plus.repeat_interleave(2) if isinstance(tau_plus, Tensor) and tau_plus.dim() > 0 else tau_plus
