"""Debiased ranking losses for the trainer of sentence-transformers."""

from debiased_contrastive.integrations.sentence_transformers.cached import (
    CachedDebiasedMultipleNegativesRankingLoss,
)
from debiased_contrastive.integrations.sentence_transformers.ranking import DebiasedMultipleNegativesRankingLoss

__all__ = ["CachedDebiasedMultipleNegativesRankingLoss", "DebiasedMultipleNegativesRankingLoss"]
