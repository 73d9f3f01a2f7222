"""NT-Xent as lightly calls it, with its memory bank."""

from collections.abc import Sequence
from typing import Literal

import torch
from lightly.models.modules.memory_bank import MemoryBankModule
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.objectives.checks import OnFloor


class NTXentLoss(nn.Module):
    """Debiased NT-Xent (Eq. 8) in place of `lightly.loss.NTXentLoss`.

    Without a bank both views are anchors, and both views of the other inputs are unlabeled. With a bank the first
    view is the anchor, the second its key, and the keys of earlier batches are unlabeled. The bank is that of
    lightly, random unit vectors at first; here it is in the state_dict, so that a training goes on with its keys.

    Relations: tau_plus=0 is its peer; `DebiasedNTXentLoss` and `DebiasedInfoNCELoss` are the losses inside.

    Args:
        temperature: A float, or a tensor whose gradient is wanted; a Parameter becomes one of this module.
        memory_bank_size: (number of keys, their width), or 0 for no bank.
        gather_distributed: Samples of other processes are unlabeled too; with a bank, their keys are stored.
        tau_plus: Probability that a random sample has the anchor's class; "auto" or `AutoTauPlus` follows training.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.5,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        *,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.1,
        on_floor: OnFloor = "clamp",
        beta: float = 0.0,
    ) -> None:
        super().__init__()
        self.memory_bank = MemoryBankModule(size=memory_bank_size, gather_distributed=gather_distributed)
        self.loss: DebiasedNTXentLoss | DebiasedInfoNCELoss
        if self.memory_bank.size[0]:
            # Registered again because lightly keeps both out of the state_dict.
            for name in ("bank", "bank_ptr"):
                self.memory_bank.register_buffer(name, getattr(self.memory_bank, name))
            # A process has its own anchors and all their samples, so nothing is gathered for the loss.
            self.loss = DebiasedInfoNCELoss(temperature, tau_plus, on_floor=on_floor, beta=beta)
        else:
            self.loss = DebiasedNTXentLoss(
                temperature, tau_plus, on_floor=on_floor, beta=beta, gather_distributed=gather_distributed
            )

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last call saw; computed when asked for."""
        return self.loss.diagnostics

    def forward(self, out0: Tensor, out1: Tensor) -> Tensor:
        """The loss of two views; with a bank the keys are stored, where `out0` needs a gradient.

        Args:
            out0: Projections of the first views (b, d).
            out1: Those of the second views (b, d).
        """
        if not self.memory_bank.size[0]:
            loss: Tensor = self.loss(out0, out1)
            return loss
        bank = self.memory_bank.bank.clone()
        loss = self.loss(out0, out1, negatives=bank)
        if out0.requires_grad:
            keys = out1.detach().to(bank)
            # A scaler skips the step of a batch that overflowed, but a key that stays would spoil the next ones.
            keys = torch.where(keys.isfinite().all(1, keepdim=True), keys, 0.0)
            self.memory_bank(F.normalize(keys, dim=1), update=True)
        return loss
