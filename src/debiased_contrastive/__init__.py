"""Contrastive objectives for unlabeled negatives, after "Debiased Contrastive Learning" (NeurIPS 2020)."""

from debiased_contrastive.modules.auto import AutoTauPlus as AutoTauPlus
from debiased_contrastive.modules.info_nce import DebiasedInfoNCELoss as DebiasedInfoNCELoss
from debiased_contrastive.modules.nt_xent import DebiasedNTXentLoss as DebiasedNTXentLoss
from debiased_contrastive.modules.objective import Diagnostics as Diagnostics
from debiased_contrastive.negatives.queue import NegativeQueue as NegativeQueue
from debiased_contrastive.objectives.exact import asymptotic_loss as asymptotic_loss
from debiased_contrastive.objectives.exact import inclusion_exclusion_loss as inclusion_exclusion_loss
from debiased_contrastive.objectives.losses import contrastive_loss as contrastive_loss
from debiased_contrastive.objectives.losses import decoupled_loss as decoupled_loss

__version__ = "0.1.0"
