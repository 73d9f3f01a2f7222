"""Contrastive objectives for unlabeled negatives, after "Debiased Contrastive Learning" (NeurIPS 2020)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debiased_contrastive.auditing.audit import audit
    from debiased_contrastive.encoders import load_encoder
    from debiased_contrastive.images.from_dataset import images_from_dataset
    from debiased_contrastive.images.run import train_images
    from debiased_contrastive.losses.auto import AutoTauPlus
    from debiased_contrastive.losses.bank import DebiasedBankLoss
    from debiased_contrastive.losses.cached import cached_backward
    from debiased_contrastive.losses.diagnostics import Diagnostics
    from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
    from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
    from debiased_contrastive.losses.supcon import DebiasedSupConLoss
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
    "DebiasedSupConLoss",
    "Diagnostics",
    "MemoryBank",
    "NegativeQueue",
    "asymptotic_loss",
    "audit",
    "cached_backward",
    "contrastive_loss",
    "decoupled_loss",
    "force_share",
    "images_from_dataset",
    "inclusion_exclusion_loss",
    "load_encoder",
    "train_images",
]
_HOMES = {
    "AutoTauPlus": "losses.auto",
    "DebiasedBankLoss": "losses.bank",
    "DebiasedInfoNCELoss": "losses.info_nce",
    "DebiasedNTXentLoss": "losses.nt_xent",
    "DebiasedSupConLoss": "losses.supcon",
    "Diagnostics": "losses.diagnostics",
    "MemoryBank": "negatives.bank",
    "NegativeQueue": "negatives.queue",
    "asymptotic_loss": "objectives.exact",
    "audit": "auditing.audit",
    "cached_backward": "losses.cached",
    "contrastive_loss": "objectives.losses",
    "decoupled_loss": "objectives.losses",
    "force_share": "membership.force",
    "images_from_dataset": "images.from_dataset",
    "inclusion_exclusion_loss": "objectives.exact",
    "load_encoder": "encoders",
    "train_images": "images.run",
}
_EXTRAS = {"audit": "prior", "force_share": "prior", "images_from_dataset": "vision", "train_images": "vision"}
"""The extra that a name needs; the others need torch alone, until they are called."""


def __getattr__(name: str) -> Any:
    """The public name, imported when it is asked for: run directories are read where no torch is wanted."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise ImportError(
            f"dc.{name} needs {error.name}, which is missing: pip install 'debiased-contrastive[{_EXTRAS[name]}]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
