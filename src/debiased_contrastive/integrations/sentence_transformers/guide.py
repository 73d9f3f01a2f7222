"""What a second model says about the sentences of a batch: pairs that are no negatives, as in GISTEmbed."""

from typing import Any, Literal, TypeAlias

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses import CachedLossMixin
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import all_gather, batch_to_device, cos_sim, get_rank
from torch import Tensor

MarginStrategy: TypeAlias = Literal["absolute", "relative"]
Features: TypeAlias = dict[str, Tensor]


class Guide(CachedLossMixin):
    """Not a module: the loss holds the guide, and the trainer would take a child named model for the trained one.

    Args:
        guide: The model that is asked.
        model: The model that is trained, with whose tokenizer the sentences were read.
        margin_strategy: "absolute" or "relative", see `exclude`.
        margin: The margin.
    """

    mini_batch_size: int = 0
    """Number of sentences that the guide reads at once; 0 is all of them."""

    def __init__(
        self,
        guide: SentenceTransformer,
        model: SentenceTransformer,
        margin_strategy: MarginStrategy,
        margin: float,
    ) -> None:
        if margin_strategy not in ("absolute", "relative"):
            raise ValueError(f"margin_strategy must be 'absolute' or 'relative'; got {margin_strategy!r}")
        self.model, self.margin_strategy, self.margin = guide, margin_strategy, margin
        reaches = (guide.max_seq_length or 0) >= (model.max_seq_length or 0)
        self.is_read_alike = reaches and guide.tokenizer.get_vocab() == model.tokenizer.get_vocab()
        self.decode = model.tokenizer.batch_decode

    @torch.no_grad()
    def exclude(self, columns: list[Features], *, gather: bool) -> Tensor:
        """The pairs (b, n) whose similarity is above that of the anchor and its positive, s, less a margin.

        That is s - margin for "absolute", s - margin |s| for "relative". Columns of the result are the positives,
        then the negatives pair by pair, of all processes with `gather`.
        """
        anchor, positive, *negatives = self._embed(columns)
        samples = [positive, torch.stack(negatives, 1)] if negatives else [positive]
        if gather:
            samples = [all_gather(rows.contiguous()) for rows in samples]
        similarity = cos_sim(anchor, torch.cat([rows.flatten(0, -2) for rows in samples]))
        own = similarity.diagonal(get_rank() * len(anchor) if gather else 0).unsqueeze(1)
        margin = self.margin * own.abs() if self.margin_strategy == "relative" else self.margin
        return similarity > own - margin

    def get_config_dict(self) -> dict[str, Any]:
        """The guide's part of the settings, for the model card."""
        return {"guide": self.model, "margin_strategy": self.margin_strategy, "margin": self.margin}

    def _embed(self, columns: list[Features]) -> list[Tensor]:
        # Copies, since a model writes its outputs into what it reads.
        columns = [dict(each) for each in columns] if self.is_read_alike else [self._read(each) for each in columns]
        if not self.mini_batch_size:
            return embed_columns(self.model, columns)
        parts = [self.embed_minibatch_iter(each, with_grad=False, copy_random_state=False) for each in columns]
        return [torch.cat([rows for rows, _ in column]) for column in parts]

    def _read(self, column: Features) -> Features:
        """The same sentences, read by the guide's tokenizer."""
        if "cu_seq_lens_q" in column:
            raise ValueError(
                "sentences must be padded for a guide with another tokenizer; got them in one row: load the model "
                "without flash attention"
            )
        texts = self.decode(column["input_ids"], skip_special_tokens=True)
        features: Features = batch_to_device(self.model.preprocess(texts), self.model.device)
        return features
