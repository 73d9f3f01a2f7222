"""The debiased loss between views of the same input, as SimCLR calls it (Section 5.1)."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.gather import Share, check_batch, gathered, share_of_batch
from debiased_contrastive.kernels.unlabeled import Kernel, log_mean, log_mean_self
from debiased_contrastive.modules.inputs import (
    cast,
    check_codes,
    check_embeddings,
    check_present,
    check_shape,
    check_temperature,
    unit,
)
from debiased_contrastive.modules.objective import (
    Diagnostics,
    LastCall,
    Options,
    diagnostics_of,
    losses_and_record,
)
from debiased_contrastive.objectives.settings import (
    OnFloor,
    Reduction,
    check_tau_plus,
    per_anchor_tau_plus,
)
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


class DebiasedNTXentLoss(nn.Module):
    """Debiased NT-Xent (Eq. 8) over a batch of b inputs with M + 1 views each.

    Views 0 and 1 are the 2b anchors, each the other's numerator. Unlabeled are views 0 and 1 of the other
    inputs, N = 2(b - 1) however many views there are. The M positives of the correction are all other
    views of the anchor's input.

    Relations: tau_plus=0 is NT-Xent; beta > 0 tilts the unlabeled mean to hard negatives;
    `DebiasedInfoNCELoss` is for queries and keys of different kinds, queues and memory banks.

    temperature: a float, or a tensor whose gradient is wanted; a Parameter becomes one of this module.
    tau_plus: probability that a random sample has the anchor's class. on_floor: see `contrastive_loss`.
    normalize=False takes raw dot products, without a floor unless relative_floor sets one at that share
    of the unlabeled mean. gather_distributed: the other processes' inputs are unlabeled samples too, and
    the mean over processes of the value, and of its gradient, is that of the full batch.
    kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.

    >>> loss = DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1)
    >>> z = torch.eye(4)
    >>> loss(z, z)
    tensor(0.2115)
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.5,
        tau_plus: float | Tensor = 0.1,
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
        check_temperature(temperature)
        self.temperature = temperature
        self.options = Options(
            tau_plus, on_floor, beta, normalize, relative_floor, gather_distributed, kernel, reduction
        )
        self._last: LastCall | None = None

    @property
    def diagnostics(self) -> Diagnostics:
        """Of the last call."""
        return diagnostics_of(self._last)

    def extra_repr(self) -> str:
        """Show the settings when printed."""
        return f"temperature={self.temperature}, {self.options}"

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
        among the unlabeled. tau_plus: instead of the constructor's, a float or (b,), one for each input.
        temperature: instead of the constructor's.
        """
        views = {f"view {k}": z for k, z in enumerate((z0, z1, *more_views))}
        codes = {"labels": labels, "positive_labels": positive_labels}
        share = self._share(views, codes)
        temperature = self.temperature if temperature is None else temperature
        bound = 1 / check_temperature(temperature) if self.options.normalize else math.inf
        tau_plus = self.options.tau_plus if tau_plus is None else tau_plus
        check_tau_plus(tau_plus)
        with torch.autocast(z0.device.type, enabled=False):
            z = self._prepared(views, temperature)
            statistics = self._statistics(z, share, labels, positive_labels, temperature, bound)
            tau_plus = 0.0 if labels is not None else _per_view(tau_plus, z)
            losses, self._last = losses_and_record(statistics, tau_plus, self.options.on_floor)
            if self.options.reduction == "none":
                # Inside, the two views of an input are neighbours; outside, view 0 comes first.
                losses = losses.view(-1, 2).T.flatten()
            return self.options.value(losses, share)

    def _share(self, views: dict[str, Tensor], codes: dict[str, Tensor | None]) -> Share:
        b, z0 = len(views["view 0"]), views["view 0"]

        def check() -> None:
            for name, z in views.items():
                check_shape(name, z, ("b", "d") if name == "view 0" else tuple(z0.shape))
            check_embeddings(views)
            if codes["labels"] is not None and codes["positive_labels"] is not None:
                raise ValueError("pass labels (the unbiased oracle) or positive_labels, not both")
            for name, of_inputs in codes.items():
                if of_inputs is not None:
                    check_codes(name, of_inputs, (b,), z0, lowest=0 if name == "labels" else -1)

        layout = {"number of features": z0.shape[-1], "number of views": len(views)}
        layout |= {f"use of {name}": int(given is not None) for name, given in codes.items()}
        share = share_of_batch(b, layout, check, z0.device, gather=self.options.gather_distributed)
        check_batch(share)
        return share

    def _prepared(self, views: dict[str, Tensor], temperature: float | Tensor) -> Tensor:
        """(b, v, d) such that the product of two rows is their logit."""
        z = torch.stack(list(cast(views).values()), 1)
        if isinstance(temperature, Tensor):
            root = temperature.to(z).sqrt()
            return (unit(z) if self.options.normalize else z) / root
        length = 1 / math.sqrt(temperature)
        return unit(z, length) if self.options.normalize else z * length

    def _statistics(
        self,
        z: Tensor,
        share: Share,
        labels: Tensor | None,
        positive_labels: Tensor | None,
        temperature: float | Tensor,
        bound: float,
    ) -> Statistics:
        anchors = (z if z.shape[1] == 2 else z[:, :2]).flatten(0, 1)
        columns = gathered(anchors, share, rows_per_input=2)
        others = Absent(block=2, offset=2 * share.offset)

        def log_mean_over(absent: Absent, beta: float) -> tuple[Tensor, float | Tensor]:
            if share.is_alone:
                return log_mean_self(anchors, absent, beta=beta, bound=bound, kernel=self.options.kernel)
            return log_mean(anchors, columns, absent, beta=beta, bound=bound, kernel=self.options.kernel)

        def codes(of_inputs: Tensor) -> tuple[Tensor, Tensor]:
            return of_inputs.repeat_interleave(2), gathered(of_inputs, share).repeat_interleave(2)

        unlabeled = others if labels is None else replace(others, same=(codes(labels),))
        log_mean_unlabeled, present = log_mean_over(unlabeled, self.options.beta)
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
            lower=self.options.lower(temperature, log_mean_unlabeled),
        )


def _own_views(z: Tensor) -> tuple[Tensor, Tensor, float | Tensor]:
    """Of (b, v, d): logit of the numerator, log mean over the other views of the input, their number."""
    num_views = z.shape[1]
    if num_views == 2:
        z0, z1 = z.unbind(1)
        positive = (z0 * z1).sum(-1, keepdim=True).expand(-1, 2).flatten()
        return positive, positive, 1.0
    logits = z[:, :2] @ z.mT
    itself = torch.eye(2, num_views, dtype=torch.bool, device=z.device)
    log_mean_positives, count = log_mean_exp(logits.masked_fill(itself, -math.inf).flatten(0, 1))
    return logits[:, 0, 1].repeat_interleave(2), log_mean_positives, count


def _per_view(tau_plus: float | Tensor, z: Tensor) -> float | Tensor:
    tau_plus = per_anchor_tau_plus(tau_plus, z[:, 0, 0])
    if isinstance(tau_plus, Tensor) and tau_plus.dim() > 0:
        return tau_plus.repeat_interleave(2)
    return tau_plus
