"""Contrastive objectives for unlabeled negatives, after "Debiased Contrastive Learning" (NeurIPS 2020)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debiased_contrastive.auditing.audit import audit
    from debiased_contrastive.losses.auto import AutoTauPlus
    from debiased_contrastive.losses.bank import DebiasedBankLoss
    from debiased_contrastive.losses.cached import cached_backward
    from debiased_contrastive.losses.debiased import Diagnostics
    from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
    from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
    from debiased_contrastive.membership.force import force_share
    from debiased_contrastive.negatives.bank import MemoryBank
    from debiased_contrastive.negatives.queue import NegativeQueue
    from debiased_contrastive.objectives.exact import asymptotic_loss, inclusion_exclusion_loss
    from debiased_contrastive.objectives.losses import contrastive_loss, decoupled_loss

__version__ = "0.2.0"
__all__ = [
    "AutoTauPlus",
    "DebiasedBankLoss",
    "DebiasedInfoNCELoss",
    "DebiasedNTXentLoss",
    "Diagnostics",
    "MemoryBank",
    "NegativeQueue",
    "asymptotic_loss",
    "audit",
    "cached_backward",
    "contrastive_loss",
    "decoupled_loss",
    "force_share",
    "inclusion_exclusion_loss",
]
_HOMES = {
    "AutoTauPlus": "losses.auto",
    "DebiasedBankLoss": "losses.bank",
    "DebiasedInfoNCELoss": "losses.info_nce",
    "DebiasedNTXentLoss": "losses.nt_xent",
    "Diagnostics": "losses.debiased",
    "MemoryBank": "negatives.bank",
    "NegativeQueue": "negatives.queue",
    "asymptotic_loss": "objectives.exact",
    "audit": "auditing.audit",
    "cached_backward": "losses.cached",
    "contrastive_loss": "objectives.losses",
    "decoupled_loss": "objectives.losses",
    "force_share": "membership.force",
    "inclusion_exclusion_loss": "objectives.exact",
}


def __getattr__(name: str) -> Any:
    """The public name, imported when it is asked for: run directories are read where no torch is wanted."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if name not in ("audit", "force_share"):
            raise
        raise ImportError(
            f"dc.{name} needs {error.name}, which is missing: pip install 'debiased-contrastive[prior]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
