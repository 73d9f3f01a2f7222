"""The encoder of a run on text as a module of sentence-transformers, whose folders hold and load it."""

import json
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import Tensor

from debiased_contrastive.files import write_atomically
from debiased_contrastive.runs import SETTINGS, Run
from debiased_contrastive.text.frozen import VOCABULARY, SentenceEncoder, load_encoder
from debiased_contrastive.text.vocabulary import PADDING, tokenise
from debiased_contrastive.training.weights import save_encoder

try:
    from sentence_transformers.base.modules import Module
except ModuleNotFoundError:  # sentence-transformers 5
    from sentence_transformers.models import Module  # type: ignore[import-not-found, no-redef, unused-ignore]

_FILES = (("text", "path"), ("text", "cache"), ("towers", "words"), ("membership", "file"))
"""Settings that are paths; where they lay is nobody's business."""


class SentenceTowers(Module):  # type: ignore[misc, unused-ignore]
    """Both towers and their tokeniser, for `SentenceTransformer(modules=[...])`.

    Args:
        encoder: As `load_encoder` gives it.
        settings: Those of its run, as JSON holds them.
    """

    save_in_root = True

    def __init__(self, encoder: SentenceEncoder, settings: dict[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        # Trainable, as the modules of sentence-transformers are.
        self.encoder, self.settings = encoder.requires_grad_(True), settings

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokeniser of the corpus."""
        return self.encoder.tokenizer

    @property
    def max_seq_length(self) -> int:
        """Number of words after which sentences are cut."""
        return self.encoder.longest

    @property
    def modalities(self) -> list[str]:
        """What it takes."""
        return ["text"]

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_kwargs: Any) -> dict[str, Tensor]:
        """Turn sentences into ids."""
        tokens = tokenise(self.tokenizer, [(prompt or "") + text for text in inputs], self.encoder.longest).tokens
        return {"input_ids": tokens, "attention_mask": (tokens != PADDING).long()}

    def tokenize(self, texts: Sequence[str], **kwargs: Any) -> dict[str, Tensor]:
        """The same, as sentence-transformers 5 calls it."""
        return self.preprocess(texts, **kwargs)

    def forward(self, features: dict[str, Tensor], **_kwargs: Any) -> dict[str, Tensor]:
        """Add the vectors of the sentences."""
        lengths = features["attention_mask"].sum(1).cpu()
        return {**features, "sentence_embedding": self.encoder(features["input_ids"], lengths)}

    def get_embedding_dimension(self) -> int:
        """Number of features of a sentence."""
        return self.encoder.feature_dim

    get_sentence_embedding_dimension = get_embedding_dimension

    def save(self, output_path: str, *_args: Any, **_kwargs: Any) -> None:
        """Write the files of a finished run, all that `load` needs."""
        folder = Path(output_path)
        write_atomically(folder / VOCABULARY, self.tokenizer.to_str())
        write_atomically(folder / SETTINGS, json.dumps({"domain": "text", **self.settings}, indent=2) + "\n")
        save_encoder(folder, self.encoder.towers, self.settings, beside=(VOCABULARY,))

    @classmethod
    def load(cls, model_name_or_path: str, *_args: Any, **_kwargs: Any) -> "SentenceTowers":
        """Load it from a folder, which may be a run of our own."""
        folder = Path(model_name_or_path)
        settings = Run(folder).settings
        for section, name in _FILES:
            if settings.get(section, {}).get(name):
                settings[section][name] = PurePath(settings[section][name]).name
        return cls(load_encoder(folder), settings)


def as_sentence_transformer(folder: Path) -> SentenceTransformer:
    """Make a SentenceTransformer of the encoder of a finished run on text; its `save` writes a folder."""
    return SentenceTransformer(modules=[SentenceTowers.load(str(folder))], similarity_fn_name="cosine")
