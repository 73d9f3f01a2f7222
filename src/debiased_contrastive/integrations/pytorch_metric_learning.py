"""NT-Xent as pytorch-metric-learning calls it: pairs from labels or miners, distances, reducers, wrappers."""

import math
from typing import Any, Literal

import torch
from pytorch_metric_learning.distances import CosineSimilarity, DotProductSimilarity, LpDistance
from pytorch_metric_learning.losses import GenericPairLoss
from torch import Tensor

from debiased_contrastive.kernels.gather import Share
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.debiased import EmbeddingLoss
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.inputs import cast
from debiased_contrastive.objectives.checks import OnFloor
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


class NTXentLoss(GenericPairLoss):  # type: ignore[misc]
    """Debiased NT-Xent (Eq. 8) in place of `pytorch_metric_learning.losses.NTXentLoss`.

    One loss for each positive pair, against all negatives of its anchor, which count as unlabeled; all positives of
    the anchor are those of the correction. SelfSupervisedLoss and CrossBatchMemory ask for the name.

    Labels make positives and negatives here; those of `DebiasedNTXentLoss` are an oracle that removes samples.
    Right labels leave no false negatives: tau_plus is for labels that tell inputs apart, as in SelfSupervisedLoss.

    Relations: tau_plus=0 is its peer, but that a miner's triplets become pairs, each of which counts once.

    Args:
        temperature: A float, or a tensor whose gradient is wanted; a Parameter becomes one of this module.
        tau_plus: Probability that a negative has the anchor's class; "auto" or `AutoTauPlus` follows training.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        **kwargs: distance, reducer, embedding_regularizer and the like, as the library has them.
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.07,
        tau_plus: float | Literal["auto"] | AutoTauPlus = 0.1,
        *,
        on_floor: OnFloor = "cap_tau",
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(mat_based_loss=True, **kwargs)
        self.objective = _Objective(temperature, tau_plus, on_floor=on_floor, beta=beta, normalize=False)
        self.add_to_recordable_attributes(list_of_names=["temperature", "tau_plus"], is_stat=False)

    @property
    def temperature(self) -> float | Tensor:
        """That of the objective inside, whose settings may be changed between calls."""
        return self.objective.temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.objective.temperature = value

    @property
    def tau_plus(self) -> float | Tensor | AutoTauPlus:
        """That of the objective inside."""
        return self.objective.tau_plus

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last call saw, an anchor once for each of its positives; computed when asked for."""
        return self.objective.diagnostics

    def get_default_distance(self) -> CosineSimilarity:
        """That of the peer."""
        return CosineSimilarity()

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor | None, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
    ) -> Any:
        """The losses of the pairs, computed in float32 at least."""
        query, ref = cast({"embeddings": embeddings, "ref_emb": ref_emb}).values()
        with torch.autocast(embeddings.device.type, enabled=False):
            return super().compute_loss(query, labels, indices_tuple, ref, ref_labels)

    def _compute_loss(self, mat: Tensor, pos_mask: Tensor, neg_mask: Tensor) -> Any:
        is_positive, is_negative = pos_mask > 0, neg_mask > 0
        if not (bool(is_positive.any()) and bool(is_negative.any())):
            return self.zero_losses()
        similarity = mat if self.distance.is_inverted else -mat
        losses = self.objective(similarity, is_positive, is_negative, _least(self.distance))
        return {"loss": {"losses": losses, "indices": torch.where(is_positive), "reduction_type": "pos_pair"}}


class _Objective(EmbeddingLoss):
    """The loss of each positive pair, from dense similarities (a, n) that are nowhere below `least`."""

    def extra_repr(self) -> str:
        t = self.temperature.item() if isinstance(self.temperature, Tensor) else self.temperature
        return f"temperature={t:.4g}, tau_plus={self.tau_plus}, on_floor={self.on_floor}, beta={self.beta}"

    def forward(self, similarity: Tensor, is_positive: Tensor, is_negative: Tensor, least: float) -> Tensor:
        scale = self._options(look=False).scale(similarity)
        anchor, other = torch.where(is_positive)
        logits = similarity * scale
        unlabeled = logits.masked_fill(~is_negative, -torch.inf)
        u, n = log_mean_exp(unlabeled, self.beta)
        v, m = log_mean_exp(logits.masked_fill(~is_positive, -torch.inf))
        lower = torch.as_tensor(least * scale, dtype=logits.dtype, device=logits.device)
        statistics = Statistics(logits[anchor, other], u[anchor], n[anchor], v[anchor], m[anchor], lower)
        if not isinstance(self.tau_plus, AutoTauPlus):
            return self._losses(statistics, self.tau_plus, self.on_floor)
        tau_plus = self.tau_plus(statistics, lambda k: unlabeled[anchor[:k]], Share((len(anchor),), 0), self.beta)
        return self._losses(statistics, tau_plus, self.on_floor, constant=True)


def _least(distance: Any) -> float:
    """The smallest similarity, or minus the largest distance, of unit vectors; -inf where nothing bounds it."""
    if not distance.normalize_embeddings or distance.p != 2:
        return -math.inf
    if isinstance(distance, DotProductSimilarity):
        return -1.0
    return -(2.0**distance.power) if isinstance(distance, LpDistance) else -math.inf
