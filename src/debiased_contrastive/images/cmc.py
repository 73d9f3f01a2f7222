"""Contrastive multiview coding with any of the objectives (Section 5.1, ImageNet-100)."""

import torch
from torch import Tensor, nn

from debiased_contrastive.images.encoders import Pair
from debiased_contrastive.kernels.gather import gather_detached
from debiased_contrastive.losses.bank import DebiasedBankLoss
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.negatives.bank import MemoryBank


class CMC(nn.Module):
    """Luminance and colour of one crop are two views; each is contrasted with the memory bank of the other.

    A luminance's positive is the stored colour of its own image, unlabeled are stored colours of images drawn at
    random, and the other way round; the two losses are added. Only what was just computed has a gradient. Under
    several processes every one of them holds both banks.

    Args:
        encoder: The pair of encoders, of luminance and of colour.
        heads: From the features of each to embeddings.
        loss: The loss against banks.
        banks: The memory banks of luminance and of colour.
        known: What is known about classes, if anything.
    """

    def __init__(
        self,
        encoder: Pair,
        heads: tuple[nn.Module, nn.Module],
        loss: DebiasedBankLoss,
        banks: tuple[MemoryBank, MemoryBank],
        known: TrainingKnowledge | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(heads)
        self.loss, self.known = loss, known
        self.banks = nn.ModuleList(banks)

    def forward(self, views: Tensor, ids: Tensor, places: Tensor) -> Tensor:
        """The loss of a batch.

        Args:
            views: One crop of each image (1, b, 3, h, w).
            ids: Which images they are (b,).
            places: Which images are unlabeled samples of each (b, k).
        """
        z = [head(features) for head, features in zip(self.heads, self.encoder.parts(views[0]), strict=True)]
        luminance, colour = (bank.embeddings for bank in self.banks)
        told = {} if self.known is None else self.known.of_bank(ids, places)
        loss: Tensor = self.loss(z, [colour, luminance], ids=ids, places=places, **told)
        if self.training:
            self._store(ids, z)
        return len(z) * loss

    @torch.no_grad()
    def _store(self, ids: Tensor, z: list[Tensor]) -> None:
        everywhere = gather_detached(ids)
        for bank, rows in zip(self.banks, z, strict=True):
            assert isinstance(bank, MemoryBank)
            bank.store(everywhere, gather_detached(rows.float()))
