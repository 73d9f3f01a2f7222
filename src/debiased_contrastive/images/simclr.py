"""SimCLR with any of the objectives (Section 5.1): unlabeled samples from the batch, or from a queue."""

from typing import Any

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.gather import gather_detached
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.negatives.queue import NegativeQueue
from debiased_contrastive.training.weights import momentum_copy, momentum_update_


class SimCLR(nn.Module):
    """Views of a batch to the loss between them; the unlabeled samples are the views of the other inputs.

    Args:
        encoder: From images (n, ...) to features, which are what is wanted.
        projector: From features to embeddings (n, d), dropped after training.
        loss: The loss between views.
        known: What is known about classes, if anything.
        every_positive: Whether each further view is a numerator too, see `DebiasedNTXentLoss`.

    >>> method = SimCLR(nn.Flatten(), nn.Linear(12, 4), DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1))
    >>> method(torch.randn(2, 8, 3, 2, 2)).shape
    torch.Size([])
    """

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: DebiasedNTXentLoss,
        known: TrainingKnowledge | None = None,
        *,
        every_positive: bool = False,
    ) -> None:
        super().__init__()
        self.every_positive = every_positive
        self.encoder, self.projector, self.loss, self.known = encoder, projector, loss, known

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        positive_labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            views: M + 1 of each input (M + 1, b, ...).
            labels: The unbiased oracle, see `DebiasedNTXentLoss`.
            positive_labels: Classes that the correction may know, see there.
            ids: Which inputs they are (b,), by which what is known about them is found.
        """
        # One pass for all views, so that batch norm sees them together.
        z = self.projector(self.encoder(views.flatten(0, 1))).unflatten(0, views.shape[:2])
        told = {} if self.known is None or ids is None else self.known.of_batch(ids, gather_detached(ids))
        told |= {"labels": labels, "positive_labels": positive_labels, "every_positive": self.every_positive}
        loss: Tensor = self.loss(*z, **told)
        return loss


class QueueSimCLR(nn.Module):
    """SimCLR whose unlabeled samples are the last `queue_size` keys of a momentum encoder.

    View 0 is the query, view 1 its key, further views are keys for the correction alone, as in momentum
    contrast (He et al., 2020). The batch's own keys enter the queue before the loss, so that it has
    unlabeled samples from the first step on; an input never meets a key of its own, fresh or stale.
    Under several processes every one of them holds the same queue.

    Args:
        encoder: From images (n, ...) to features, which are what is wanted.
        projector: From features to embeddings (n, d), dropped after training.
        loss: The loss between queries and keys.
        queue_size: The number of keys that are kept.
        dim: Their dimension d.
        momentum: Share of its weights that the key encoder keeps at each step.
        known: What is known about classes, if anything.
    """

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: DebiasedInfoNCELoss,
        *,
        queue_size: int,
        dim: int,
        momentum: float,
        known: TrainingKnowledge | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.projector, self.loss, self.known = encoder, projector, loss, known
        self.key_encoder, self.key_projector = momentum_copy(encoder), momentum_copy(projector)
        self.queue = NegativeQueue(queue_size, dim)
        self.momentum = momentum

    def forward(self, views: Tensor, ids: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            views: M + 1 of each input (M + 1, b, ...).
            ids: Which inputs they are (b,).
            labels: The unbiased oracle: their classes (b,).
        """
        query = self.projector(self.encoder(views[0]))
        keys = self._keys(views[1:])
        known = torch.full_like(ids, -1) if labels is None else labels
        self.queue.enqueue(*(gather_detached(rows) for rows in (keys[0], ids, known)))
        given: dict[str, Any] = {"ids": ids, "negative_ids": self.queue.ids}
        if labels is not None:
            given |= {"labels": labels, "negative_labels": self.queue.labels}
        if self.known is not None:
            given |= self.known.of_queue(ids, self.queue.ids)
        if len(keys) > 1:
            given["extra_keys"] = keys[1:].transpose(0, 1)
        loss: Tensor = self.loss(query, keys[0], self.queue.embeddings, **given)
        return loss

    @torch.no_grad()
    def _keys(self, views: Tensor) -> Tensor:
        if self.training:
            momentum_update_(self.key_encoder, self.encoder, self.momentum)
            momentum_update_(self.key_projector, self.projector, self.momentum)
        keys: Tensor = self.key_projector(self.key_encoder(views.flatten(0, 1))).unflatten(0, views.shape[:2])
        return keys


def false_negative_rate(labels: Tensor, stored: Tensor | None = None, own: Tensor | None = None) -> float:
    """Share of the unlabeled samples that have their anchor's class: the tau_plus that this batch has.

    The batch with `labels` (b,) is compared with itself, where an input is not its own negative; or with `stored`
    (k,), where `own` (b, k) marks keys of the anchor itself, which do not count.

    >>> false_negative_rate(torch.tensor([0, 0, 1, 2]))
    0.16666666666666666
    """
    if stored is not None:
        same = labels.unsqueeze(1) == stored
        return float((same if own is None else same[~own]).double().mean())
    counts = labels.bincount().double()
    b = len(labels)
    return float((counts * (counts - 1)).sum() / (b * (b - 1)))


def bank_false_negative_rate(labels: Tensor, stored: Tensor, *, exclude_own: bool) -> float:
    """The same share for anchors against samples drawn from all of `stored` (n,), with or without their own.

    >>> bank_false_negative_rate(torch.tensor([0, 1]), torch.tensor([0, 0, 1, 2]), exclude_own=False)
    0.375
    """
    own = int(exclude_own)
    same = stored.bincount()[labels].double() - own
    return float((same / (len(stored) - own)).mean())
