"""The frozen encoder of a run on text: sentences in, vectors out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from debiased_contrastive.files import read_text
from debiased_contrastive.runs import finished_run
from debiased_contrastive.text.quickthoughts import QuickThoughts, make_method
from debiased_contrastive.text.settings import TextSettings
from debiased_contrastive.text.vocabulary import parse_tokenizer, tokenise
from debiased_contrastive.training.machine import choose_device
from debiased_contrastive.training.settings import from_json
from debiased_contrastive.training.weights import load_trained

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY = "vocabulary.json"
"""The file in the run directory that holds the tokeniser."""
BATCH = 256
"""Sentences that are encoded together."""


class SentenceEncoder(nn.Module):
    """Two towers in evaluation mode, without gradients, and the tokeniser of their corpus.

    Args:
        towers: The trained method; its two towers make the vectors.
        tokenizer: The Hugging Face tokeniser that the corpus was read with.
        longest: Number of words after which sentences are cut.
    """

    def __init__(self, towers: QuickThoughts, tokenizer: "Tokenizer", longest: int) -> None:
        super().__init__()
        self.towers, self.tokenizer, self.longest = towers, tokenizer, longest
        self.feature_dim = towers.left.feature_dim + towers.right.feature_dim
        self.eval().requires_grad_(False)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, feature_dim) vectors of ids (b, l) and lengths (b,): unit vectors of both towers, side by side."""
        return self.towers.vectors(tokens, lengths)

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> Tensor:
        """(n, feature_dim) vectors of n sentences, on the CPU."""
        wrong = [sentences] if isinstance(sentences, str) else [s for s in sentences if not isinstance(s, str)]
        if wrong:
            # Of a string the letters would be sentences.
            raise ValueError(f"sentences must be a list of strings; got {wrong[0]!r:.60}: pass [sentence] for one")
        device, parts = next(self.parameters()).device, []
        # Sorted by length, so that there is little padding; the order is restored at the end.
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        for start in range(0, len(order), BATCH):
            chosen = [sentences[place] for place in order[start : start + BATCH]]
            rows = tokenise(self.tokenizer, chosen, self.longest)
            parts.append(self(rows.tokens.to(device), rows.lengths).cpu())
        if not parts:
            raise ValueError("there must be at least one sentence to encode; got none")
        return torch.cat(parts)[torch.tensor(order).argsort()]


def load_encoder(folder: Path, device: torch.device | None = None) -> SentenceEncoder:
    """Load the encoder of a finished run, onto the device of its settings unless another is given."""
    run = finished_run(folder)
    settings = from_json(TextSettings, run.settings)
    try:
        tokenizer = parse_tokenizer(read_text(folder / VOCABULARY))
    except ValueError as error:
        raise ValueError(f"{folder / VOCABULARY} is damaged ({error}): restore it from a copy") from None
    method = make_method(settings, tokenizer.get_vocab_size())
    load_trained(run, method)
    device = device or choose_device(settings.training.accelerator)
    return SentenceEncoder(method.to(device), tokenizer, settings.text.longest)
