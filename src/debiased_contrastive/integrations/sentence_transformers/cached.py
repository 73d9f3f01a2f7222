"""The ranking loss with gradient caching, by sentence-transformers' own engine."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses import CachedLossMixin, has_static_embedding_input
from sentence_transformers.util import cos_sim
from torch import Tensor

from debiased_contrastive.integrations.sentence_transformers.guide import Features
from debiased_contrastive.integrations.sentence_transformers.ranking import DebiasedMultipleNegativesRankingLoss


class CachedDebiasedMultipleNegativesRankingLoss(CachedLossMixin, DebiasedMultipleNegativesRankingLoss):
    """`DebiasedMultipleNegativesRankingLoss` of batches beyond memory; as CachedMultipleNegativesRankingLoss.

    Args:
        model: The model that is trained.
        scale: Inverse of the temperature.
        similarity_fct: `cos_sim` or `dot_score`.
        mini_batch_size: Number of sentences that are encoded at once.
        mini_batch_num_tokens: Number of tokens that are encoded at once, instead.
        gather_across_devices: Sentences of all processes are unlabeled samples.
        show_progress_bar: Show one for the mini-batches.
        **settings: tau_plus and the other settings of `DebiasedMultipleNegativesRankingLoss`.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        scale: float = 20.0,
        similarity_fct: Callable[[Tensor, Tensor], Tensor] = cos_sim,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        gather_across_devices: bool = False,
        *,
        show_progress_bar: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(model, scale, similarity_fct, gather_across_devices, **settings)
        if mini_batch_size < 1 or (mini_batch_num_tokens is not None and mini_batch_num_tokens < 1):
            raise ValueError(
                f"mini-batches must not be empty; got {mini_batch_size}, {mini_batch_num_tokens} tokens"
            )
        if has_static_embedding_input(model):
            raise ValueError(
                "a StaticEmbedding has all sentences in one row, which cannot be cut into mini-batches: use "
                "DebiasedMultipleNegativesRankingLoss, it needs little memory there"
            )
        self.mini_batch_size = mini_batch_size
        self.mini_batch_num_tokens = mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar
        if self.opinion is not None:
            self.opinion.mini_batch_size = mini_batch_size
            self.opinion.mini_batch_num_tokens = mini_batch_num_tokens

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """The loss of one batch; its backward encodes the sentences a second time."""
        columns = list(sentence_features)
        # The engine hands its second argument on as it is.
        known: Any = self._known(columns, labels)
        return self.forward_cached(columns, known)

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss of embeddings in mini-batches, which the engine asks for; `labels` is what `forward` passed."""
        loss = self._value([torch.cat(column) for column in reps], labels or {})
        if not with_backward:
            return loss
        torch.autograd.backward(loss)
        return loss.detach()

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        own = {"mini_batch_size": self.mini_batch_size, "mini_batch_num_tokens": self.mini_batch_num_tokens}
        return super().get_config_dict() | own
