"""The encoder of a run on text as MTEB calls encoders."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from mteb.models import ModelMeta
from torch import Tensor

from debiased_contrastive.text.frozen import SentenceEncoder


class MTEBEncoder:
    """For `mteb.evaluate`: its `EncoderProtocol` around a sentence encoder.

    Args:
        encoder: As `load_encoder` gives it.
        name: What results are filed under, as "organisation/model".
    """

    def __init__(self, encoder: SentenceEncoder, name: str = "debiased-contrastive/sentences") -> None:
        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "local"})

    def encode(self, inputs: Any, **_task: Any) -> npt.NDArray[np.float32]:
        """(n, d) vectors of sentences, given as a list or as batches of {"text": [...]}; tasks change nothing."""
        is_list = isinstance(inputs, list | tuple) and all(isinstance(one, str) for one in inputs)
        sentences = list(inputs) if is_list else [sentence for batch in inputs for sentence in batch["text"]]
        vectors: npt.NDArray[np.float32] = self.encoder.encode(sentences).numpy()
        return vectors

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """(n, m) cosines of n vectors with m."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """(n,) cosines of n vectors with as many."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(-1)


def _unit(vectors: Any) -> Tensor:
    return torch.nn.functional.normalize(torch.atleast_2d(torch.as_tensor(vectors)).float(), dim=-1)
