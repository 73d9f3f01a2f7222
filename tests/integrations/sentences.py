"""Tiny sentence encoders with random weights, and sentences for them; nothing is downloaded."""

from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor
from transformers import BertConfig, BertModel, BertTokenizer

WORDS = [*"abcdefghij", "the", "cat", "dog", "bird", "sees", "hears", "likes"]
Features = list[dict[str, Tensor]]


def make_model(
    folder: Path, *, seed: int = 0, dropout: float = 0.0, words: list[str] = WORDS
) -> SentenceTransformer:
    """One layer of BERT with 16 features, in float64."""
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    BertTokenizer(vocab=str(vocabulary), model_max_length=16).save_pretrained(folder)
    config = BertConfig(
        vocab_size=5 + len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    encoder = Transformer(str(folder))
    return SentenceTransformer(modules=[encoder, Pooling(encoder.get_embedding_dimension())], device="cpu").double()


def make_sentences(count: int, columns: int, seed: int = 0) -> dict[str, list[str]]:
    """Columns of random sentences of two to nine words."""
    generator = torch.Generator().manual_seed(seed)
    names = ["anchor", "positive", *(f"negative_{number}" for number in range(1, columns - 1))]

    def sentence() -> str:
        length = int(torch.randint(2, 10, (), generator=generator))
        return " ".join(
            WORDS[number] for number in torch.randint(len(WORDS), (length,), generator=generator).tolist()
        )

    return {name: [sentence() for _ in range(count)] for name in names}


def read(model: SentenceTransformer, sentences: dict[str, list[str]]) -> Features:
    """The features of each column, as the trainer's collator makes them."""
    return [model.preprocess(texts) for texts in sentences.values()]


def arguments(folder: Path, **changes: object) -> SentenceTransformerTrainingArguments:
    """Six steps without reports; the last batch of 25 pairs is one pair."""
    settings: dict[str, object] = {
        "per_device_train_batch_size": 8, "max_steps": 6, "learning_rate": 1e-2, "report_to": [], "save_strategy": "no",
        "disable_tqdm": True, "use_cpu": True, "logging_steps": 1, "seed": 0, "dataloader_drop_last": False,
    }  # fmt: skip
    return SentenceTransformerTrainingArguments(str(folder), **{**settings, **changes})  # type: ignore[arg-type]


def dataset(count: int = 25, columns: int = 2, **more: list[int]) -> Dataset:
    """Sentences as the trainer takes them."""
    return Dataset.from_dict({**make_sentences(count, columns), **more})
