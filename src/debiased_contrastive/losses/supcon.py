"""The supervised contrastive loss, with labels of all, of some or of none, and a correction for what is unknown."""

from typing import NamedTuple

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import Absent, Codes
from debiased_contrastive.kernels.attraction import Attraction, attracted
from debiased_contrastive.kernels.gather import Gather, Share, check_everywhere, gather_rows
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.kernels.weights import Form, GivenWeights, PairWeights, Partitions
from debiased_contrastive.losses import inputs
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.checks import Checks
from debiased_contrastive.losses.debiased import EmbeddingLoss, format_setting
from debiased_contrastive.losses.nt_xent import scale_views
from debiased_contrastive.losses.options import Options
from debiased_contrastive.numerics import without_autocast
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.losses import check_tensor, check_weights
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp

_SHARED = ("batch size", *inputs.layout({}), "number of views", "use of labels", "columns of mask")


class DebiasedSupConLoss(EmbeddingLoss):
    """SupCon (Khosla et al., 2020, L_out) of b inputs with v views each, debiased where classes are unknown.

    -1/|P| sum_{p in P} log e^{s_p} / (sum_{p in P} e^{s_p} + sum_{k in K} e^{s_k} + N g)

    Every view is an anchor. Its positives P are the other views of its input and all views of inputs that have its
    label. K are the samples whose label is known to be another. The N others are unlabeled: their label, or the
    anchor's, is unknown. g is their mean exponential, corrected by tau_plus with P as its positives (Eq. 7). With
    labels these are samples of the anchor's class, so tau_plus is the share of that class among the unlabeled.

    Relations: tau_plus=0 is SupCon, with -1 among the labels its semi-supervised form. Without labels and mask it
    is NT-Xent of v views, and for v = 2 `DebiasedNTXentLoss` at every tau_plus. Where all labels are known tau_plus
    changes nothing. In the other losses `labels` take false negatives out of the denominator and attract nobody.

    Args:
        temperature: A float, or a tensor whose gradient is wanted.
        tau_plus: Probability that an unlabeled sample has the anchor's class, one number or (b,).
        base_temperature: The loss is multiplied by temperature / base_temperature, as the authors' code has it with
            0.07; None leaves it as it is.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        normalize: Compare unit vectors; False takes raw dot products, whose floor is 0.
        gather_distributed: The inputs of the other processes are compared, too, see `DebiasedNTXentLoss`.
        kernel: "dense", "tiled" (no logits matrix, no second derivatives) or "auto", the faster for the shape.
        checks: When values are checked: "first", "always" or "never", see `DebiasedNTXentLoss`.
        reduction: "mean", "sum", or "none" for one loss an anchor.

    >>> loss = DebiasedSupConLoss(temperature=0.5)
    >>> features = torch.eye(4).view(2, 2, 4)
    >>> loss(features), loss(features, labels=torch.tensor([0, 0]))
    (tensor(1.0986), tensor(1.0986))
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.07,
        tau_plus: float | Tensor = 0.0,
        *,
        base_temperature: float | None = None,
        on_floor: OnFloor = "clamp",
        normalize: bool = True,
        gather_distributed: Gather = False,
        kernel: Kernel = "auto",
        checks: Checks = "first",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            temperature,
            tau_plus,
            on_floor=on_floor,
            normalize=normalize,
            gather_distributed=gather_distributed,
            kernel=kernel,
            checks=checks,
            reduction=reduction,
        )
        if isinstance(self.tau_plus, AutoTauPlus):
            raise ValueError(f"tau_plus must be a number or a tensor of them; got {tau_plus!r}: try 0.01")
        if base_temperature is not None and not 0 < base_temperature < float("inf"):
            raise ValueError(f"base_temperature must be positive or None; got {base_temperature!r}: 0.07 is usual")
        self.base_temperature = base_temperature

    def extra_repr(self) -> str:
        """Name and value of each setting, in one line."""
        names = ("temperature", "tau_plus", "base_temperature", "on_floor", "normalize", "gather_distributed")
        return ", ".join(
            f"{name}={format_setting(getattr(self, name))}" for name in (*names, "kernel", "checks", "reduction")
        )

    def forward(
        self,
        features: Tensor,
        labels: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of the views of a batch.

        Args:
            features: Embeddings (b, v, d) of v views of each input.
            labels: Classes (b,), negative = unknown.
            mask: Instead of labels (b, b): True, or 1, where input j has the class of input i; numbers in between
                weigh positives. What it does not name is unlabeled. The views of an input are positives of each
                other whatever the diagonal says. With gather_distributed the columns are the inputs of all
                processes.
            tau_plus: Instead of the module's, a float or (b,), one for each input.
            temperature: Instead of the module's.

        Returns:
            The loss; with reduction="none" (v b,), the anchors of view 0 first. An anchor without any positive has
            loss 0.
        """

        def check() -> tuple[dict[str, int], tuple[Options, Tensor | None, Tensor | None]]:
            look = self._calls.begin(self.checks)
            return _check_inputs(features, labels, mask, self._options(temperature, tau_plus, look=look))

        device = features.device if isinstance(features, Tensor) else torch.device("cpu")
        share, (options, codes, same) = check_everywhere(check, _SHARED, device, gather=self.gather_distributed)
        _check_columns(same, share)
        # Of three views each is pulled to the others, and they compete.
        if share.total == 1 and features.shape[1] < 3:
            inputs.warn_alone()
        with without_autocast(device):
            z = scale_views({f"view {k}": view for k, view in enumerate(features.unbind(1))}, options)
            statistics = _statistics(_Batch.of(z, share), options, codes, same)
            tau = _anchor_tau_plus(statistics, z, options)
            loss = self._value(statistics, tau, options, share)
            if self.base_temperature is not None:
                loss = loss * (options.temperature / self.base_temperature)
            # Inside, the views of an input are neighbours; outside, view 0 comes first.
            return loss.view(z.shape[:2]).T.flatten() if options.reduction == "none" else loss


class _Batch(NamedTuple):
    """Anchors, what they are compared with, and their own views."""

    z: Tensor
    """(b, v, d), such that products are logits."""
    columns: Tensor
    """(n, d) the views of all inputs, of all processes."""
    share: Share

    @classmethod
    def of(cls, z: Tensor, share: Share) -> "_Batch":
        return cls(z, gather_rows(z.flatten(0, 1), share, rows_per_input=z.shape[1]), share)

    @property
    def anchors(self) -> Tensor:
        """(b v, d)."""
        return self.z.flatten(0, 1)

    @property
    def others(self) -> Absent:
        """All views but those of the anchor's input."""
        return Absent(block=self.z.shape[1], offset=self.z.shape[1] * self.share.offset)

    def repeat(self, of_inputs: Tensor) -> Tensor:
        """For the views of each input."""
        return of_inputs.repeat_interleave(self.z.shape[1])

    def log_mean(
        self, options: Options, absent: Absent, weights: PairWeights | None = None
    ) -> tuple[Tensor, Tensor]:
        """The log-mean over the columns that are not absent, and their number, both (b v,)."""
        # Alone, the columns are the anchors, which is half the work.
        compared = None if self.share.is_alone else self.columns
        mean, count = options.log_mean(self.anchors, compared, absent, weights=weights)
        return mean, torch.as_tensor(count).to(mean).expand_as(mean)


class _Group(NamedTuple):
    """Some samples of each anchor (b v,)."""

    log_mean: Tensor
    """Log of their mean exponential, finite where there are none."""
    number: Tensor
    """Number of them, or sum of their weights."""

    @property
    def log_sum(self) -> Tensor:
        return self.log_mean + torch.where(self.number > 0, self.number, 1.0).log()

    def joined(self, other: "_Group") -> "_Group":
        number = self.number + other.number
        is_empty = number == 0
        terms = [each.log_mean + torch.where(is_empty, 1.0, each.number).log() for each in (self, other)]
        return _Group(torch.logaddexp(*terms) - torch.where(is_empty, 1.0, number).log(), number)


def _statistics(batch: _Batch, options: Options, labels: Tensor | None, mask: Tensor | None) -> Statistics:
    own, sums = _own_views(batch.z)
    positives = known = own
    if labels is None and mask is None:
        # A single input has nothing else to be compared with.
        nothing = _Group(torch.zeros_like(own.number), torch.zeros_like(own.number))
        unlabeled = nothing if batch.share.total == 1 else _Group(*batch.log_mean(options, batch.others))
    else:
        if labels is not None:
            mates, known, unlabeled, form = _of_labels(batch, options, labels)
            known = own.joined(known)
            positives = own.joined(mates)
        else:
            assert mask is not None
            mates, unlabeled, form = _of_mask(batch, options, mask)
            positives = known = own.joined(mates)
        pull, _ = attracted(batch.anchors, batch.columns, Attraction(form, batch.others, 0.0), options.kernel)
        sums = sums + pull
    has_positives = positives.number > 0
    mean = sums / torch.where(has_positives, positives.number, 1.0)
    return Statistics(
        positive=known.log_sum,
        log_mean_unlabeled=unlabeled.log_mean,
        num_unlabeled=torch.where(has_positives, unlabeled.number, 0.0),
        log_mean_positives=positives.log_mean,
        num_positives=positives.number,
        lower=options.lower(unlabeled.log_mean),
        attraction=torch.where(has_positives, known.log_sum - mean, 0.0),
    )


def _own_views(z: Tensor) -> tuple[_Group, Tensor]:
    """The other views of each anchor's input, and the sum of their logits."""
    b, v, _ = z.shape
    if v == 1:
        nothing = z.new_zeros(b)
        return _Group(nothing, nothing), nothing
    logits = (z @ z.mT).flatten(0, 1)
    itself = torch.eye(v, dtype=torch.bool, device=z.device).repeat(b, 1)
    sums = logits.masked_fill(itself, 0.0).sum(1)
    return _Group(*log_mean_exp(logits.masked_fill(itself, -torch.inf))), sums


def _of_labels(batch: _Batch, options: Options, labels: Tensor) -> tuple[_Group, _Group, _Group, Form]:
    """Samples of other inputs: of the anchor's label, of any known one, the rest; and the first as a form."""
    own, every = batch.repeat(labels), batch.repeat(gather_rows(labels, batch.share))
    same: Codes = (own.clamp(min=-1), torch.where(every < 0, -2, every))
    both_known: Codes = (same[0].clamp(max=0), same[1].clamp(max=0))
    others = batch.others
    mates = _Group(*batch.log_mean(options, Absent(others.block, others.offset, differ=(same,))))
    known = _Group(*batch.log_mean(options, Absent(others.block, others.offset, differ=(both_known,))))
    unlabeled = _Group(*batch.log_mean(options, Absent(others.block, others.offset, same=(both_known,))))
    form = Partitions.of(own.unsqueeze(1), every.unsqueeze(1), batch.z.dtype)
    return mates, known, unlabeled, form


def _of_mask(batch: _Batch, options: Options, mask: Tensor) -> tuple[_Group, _Group, Form]:
    """Samples of other inputs: those that the mask names, the rest; and the first as a form."""
    b, v, _ = batch.z.shape
    mask = mask.to(batch.z)
    own = torch.arange(b, device=mask.device), torch.arange(b, device=mask.device) + batch.share.offset
    count = v * (mask.sum(1) - mask[own])
    groups = []
    for weights, number in ((mask, count), (1 - mask, v * (batch.share.total - 1) - count)):
        mean, _ = batch.log_mean(options, batch.others, PairWeights(GivenWeights(weights, v)))
        groups.append(_Group(mean, batch.repeat(number)))
    # The form gives the probability of a common class.
    return groups[0], groups[1], GivenWeights(1 - mask, v)


def _anchor_tau_plus(statistics: Statistics, z: Tensor, options: Options) -> float | Tensor:
    """tau_plus of each anchor; 0 for one that has no unlabeled samples, and so nothing to correct."""
    tau_plus = options.tau_plus
    assert not isinstance(tau_plus, AutoTauPlus)
    if not isinstance(tau_plus, Tensor) and tau_plus == 0:
        return 0.0
    of_inputs = (
        torch.as_tensor(tau_plus, dtype=z.dtype, device=z.device).expand(len(z)).repeat_interleave(z.shape[1])
    )
    return torch.where(torch.as_tensor(statistics.num_unlabeled) > 0, of_inputs, 0.0).detach()


def _check_inputs(
    features: Tensor, labels: Tensor | None, mask: Tensor | None, options: Options
) -> tuple[dict[str, int], tuple[Options, Tensor | None, Tensor | None]]:
    inputs.check_shape("features", features, ("b", "v", "d"), "v views of each input; (b, d) needs .unsqueeze(1)")
    inputs.check_embeddings({"features": features}, look=options.look)
    b, v, _ = features.shape
    if labels is not None and mask is not None:
        raise ValueError("labels and mask both say which inputs share a class; got both: pass one of them")
    if v == 1 and labels is None and mask is None:
        raise ValueError("one view of each input has no positives; got neither labels nor a mask: pass one of them")
    labels = inputs.check_codes("labels", labels, (b,), features)
    if mask is not None:
        check_tensor("mask", mask)
        if mask.dim() != 2 or len(mask) != b:
            raise ValueError(
                f"mask must have shape ({b}, n), a row and a column for each input; got {tuple(mask.shape)}: "
                "labels (b,) are another argument"
            )
        # A copy, since the backward reads it again.
        mask = mask.detach().to(torch.promote_types(mask.dtype, torch.float32), copy=True)
        check_weights(mask, tuple(mask.shape), features.device, look=options.look)
    options.check_tau_plus(features[:, 0, 0])
    numbers = {"batch size": b, **inputs.layout({"features": features}), "number of views": v}
    numbers |= {"use of labels": labels is not None, "columns of mask": 0 if mask is None else mask.shape[1]}
    return numbers, (options, labels, mask)


def _check_columns(mask: Tensor | None, share: Share) -> None:
    if mask is not None and mask.shape[1] != share.total:
        raise ValueError(
            f"mask must have a column for each of the {share.total} inputs of all processes; got shape "
            f"{tuple(mask.shape)}: rows are the inputs of this process"
        )
