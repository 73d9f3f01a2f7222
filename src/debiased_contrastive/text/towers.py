"""Sentence encoders: tokens of a batch to one vector for each sentence, on which padding has no influence."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from debiased_contrastive.text.recurrence import last_states, steps_of

TowerName: TypeAlias = Literal["gru", "bag", "transformer"]
PADDING = 0
"""The token that is none."""


class GRUTower(nn.Module):
    """The last states of a gated recurrent network in both directions, side by side.

    Quick-Thoughts' cell applies its reset gate before the recurrent product, torch's after it; otherwise this is
    that network.
    """

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.words = _words(num_tokens, word_dim)
        self.recurrent = nn.GRU(word_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.feature_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, 2 hidden_dim) of tokens (b, l), lengths (b,) at least 1."""
        if _written_out(tokens):
            steps = steps_of(lengths, tokens.shape[1])
            return last_states(self.recurrent, self.words(tokens.flatten()[steps.place]), steps)
        packed = pack_padded_sequence(self.words(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        last: Tensor = self.recurrent(packed)[1]
        return last.transpose(0, 1).flatten(1)


def _written_out(tokens: Tensor) -> bool:
    """Whether `recurrence.py` is used: other devices have kernels for nn.GRU, mixed precision its own types."""
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


class BagTower(nn.Module):
    """The mean of the words, and one layer."""

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.words = _words(num_tokens, word_dim)
        self.layer = nn.Linear(word_dim, 2 * hidden_dim)
        self.feature_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, 2 hidden_dim) of tokens (b, l), lengths (b,) at least 1."""
        # The vector of the padding token is zero, and stays so.
        mean = self.words(tokens).sum(1) / lengths.unsqueeze(1).to(tokens.device)
        result: Tensor = self.layer(mean)
        return result


LAYERS, HEADS = 2, 4
"""Of the Transformer."""


def check_heads(hidden_dim: int) -> None:
    """Raise unless the heads can share the dimensions."""
    if hidden_dim % HEADS:
        raise ValueError(f"hidden_dim must be a multiple of {HEADS}, the number of heads; got {hidden_dim}")


class TransformerTower(nn.Module):
    """Two layers of attention over words and places, and their mean."""

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int, longest: int) -> None:
        super().__init__()
        check_heads(hidden_dim)
        self.words = _words(num_tokens, word_dim)
        self.into = nn.Linear(word_dim, hidden_dim)
        self.places = nn.Parameter(0.02 * torch.randn(longest, hidden_dim))
        layer = nn.TransformerEncoderLayer(
            hidden_dim, HEADS, 4 * hidden_dim, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.out = nn.Linear(hidden_dim, 2 * hidden_dim)
        self.feature_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, 2 hidden_dim) of tokens (b, l), lengths (b,) from 1 to `longest`."""
        absent = tokens == PADDING
        hidden = self.into(self.words(tokens)) + self.places[: tokens.shape[1]]
        hidden = self.layers(hidden, src_key_padding_mask=absent).masked_fill(absent.unsqueeze(2), 0.0)
        result: Tensor = self.out(hidden.sum(1) / lengths.unsqueeze(1).to(tokens.device))
        return result


Tower: TypeAlias = GRUTower | BagTower | TransformerTower


def tower(name: TowerName, num_tokens: int, word_dim: int, hidden_dim: int, longest: int) -> Tower:
    """A fresh encoder of sentences of at most `longest` tokens out of `num_tokens`, padding included."""
    if name == "transformer":
        return TransformerTower(num_tokens, word_dim, hidden_dim, longest)
    return (GRUTower if name == "gru" else BagTower)(num_tokens, word_dim, hidden_dim)


def load_words_(encoder: Tower, vectors: Tensor, known: Tensor) -> None:
    """Put pretrained vectors (num_tokens, word_dim) in the place of the words that are known (num_tokens,)."""
    weight = encoder.words.weight
    if vectors.shape != weight.shape or known.shape != weight.shape[:1]:
        raise ValueError(
            f"vectors must have the shape of the table, {tuple(weight.shape)}, and known one flag a row; got "
            f"{tuple(vectors.shape)} and {tuple(known.shape)}"
        )
    known = known.clone()
    known[PADDING] = False
    with torch.no_grad():
        weight[known] = vectors[known].to(weight)


def _words(num_tokens: int, word_dim: int) -> nn.Embedding:
    words = nn.Embedding(num_tokens, word_dim, padding_idx=PADDING)
    nn.init.uniform_(words.weight, -0.1, 0.1)
    with torch.no_grad():
        words.weight[PADDING] = 0
    return words
