"""Contrastive objectives for unlabeled negatives, after "Debiased Contrastive Learning" (NeurIPS 2020)."""

from typing import TYPE_CHECKING, Any

from debiased_contrastive.losses.auto import AutoTauPlus as AutoTauPlus
from debiased_contrastive.losses.bank import DebiasedBankLoss as DebiasedBankLoss
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss as DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss as DebiasedNTXentLoss
from debiased_contrastive.losses.objective import Diagnostics as Diagnostics
from debiased_contrastive.negatives.bank import MemoryBank as MemoryBank
from debiased_contrastive.negatives.queue import NegativeQueue as NegativeQueue
from debiased_contrastive.objectives.exact import asymptotic_loss as asymptotic_loss
from debiased_contrastive.objectives.exact import inclusion_exclusion_loss as inclusion_exclusion_loss
from debiased_contrastive.objectives.losses import contrastive_loss as contrastive_loss
from debiased_contrastive.objectives.losses import decoupled_loss as decoupled_loss

if TYPE_CHECKING:
    from debiased_contrastive.auditing.audit import audit as audit

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`audit` when it is asked for: it needs NumPy, SciPy and scikit-learn, the losses do not."""
    if name != "audit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from debiased_contrastive.auditing.audit import audit
    except ModuleNotFoundError as error:
        raise ImportError(
            f"dc.audit needs {error.name}, which is missing: pip install 'debiased-contrastive[prior]'"
        ) from error
    return audit
