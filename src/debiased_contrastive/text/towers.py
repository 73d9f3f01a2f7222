"""Sentence encoders: tokens of a batch to one vector for each sentence, on which padding has no influence.

On CPUs the recurrent tower has its own forward and backward passes, for both directions at once. They compute
nn.GRU's numbers in less time, since for packed sentences the gradient of nn.GRU fills a tensor as large as the
batch at every time step. `results/text_training.json` has the ratio.
"""

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence

from debiased_contrastive.text.settings import HEADS, TowerName
from debiased_contrastive.text.vocabulary import PADDING

LAYERS = 2
"""Number of layers of the Transformer."""


class GRUTower(nn.Module):
    """The last states of a gated recurrent network in both directions, side by side.

    Quick-Thoughts' cell applies its reset gate before the recurrent product, torch's after it; otherwise this is
    that network.
    """

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.words = _word_table(num_tokens, word_dim)
        self.recurrent = nn.GRU(word_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.feature_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, 2 hidden_dim) of tokens (b, l), lengths (b,) at least 1."""
        if _has_own_recurrence(tokens):
            order = reading_order(lengths, tokens.shape[1])
            return last_states(self.recurrent, self.words(tokens.flatten()[order.place]), order)
        packed = pack_padded_sequence(self.words(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        last: Tensor = self.recurrent(packed)[1]
        return last.transpose(0, 1).flatten(1)


class BagTower(nn.Module):
    """The mean of the words, and one layer."""

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.words = _word_table(num_tokens, word_dim)
        self.layer = nn.Linear(word_dim, 2 * hidden_dim)
        self.feature_dim = 2 * hidden_dim

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(b, 2 hidden_dim) of tokens (b, l), lengths (b,) at least 1."""
        # The vector of the padding token is zero, and stays so.
        mean = self.words(tokens).sum(1) / lengths.unsqueeze(1).to(tokens.device)
        result: Tensor = self.layer(mean)
        return result


class TransformerTower(nn.Module):
    """Two layers of attention over words and places, and their mean."""

    def __init__(self, num_tokens: int, word_dim: int, hidden_dim: int, longest: int) -> None:
        super().__init__()
        self.words = _word_table(num_tokens, word_dim)
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


def build_tower(name: TowerName, num_tokens: int, word_dim: int, hidden_dim: int, longest: int) -> Tower:
    """Make an untrained encoder of sentences.

    Args:
        name: "gru", "bag" or "transformer".
        num_tokens: Size of the vocabulary, padding included.
        word_dim: Dimensions of a word.
        hidden_dim: Half the dimensions of a sentence.
        longest: Most tokens of a sentence.

    Returns:
        A module from tokens (b, l) and lengths (b,) to (b, 2 hidden_dim).
    """
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


def _word_table(num_tokens: int, word_dim: int) -> nn.Embedding:
    words = nn.Embedding(num_tokens, word_dim, padding_idx=PADDING)
    nn.init.uniform_(words.weight, -0.1, 0.1)
    with torch.no_grad():
        words.weight[PADDING] = 0
    return words


def _has_own_recurrence(tokens: Tensor) -> bool:
    # Other devices have fast kernels for nn.GRU, and mixed precision has its own types.
    return tokens.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


class ReadingOrder(NamedTuple):
    """The order in which words are read: all first words, longest sentences first, then all second ones, ..."""

    sentence: Tensor
    """(b,) sentences, longest first."""
    place: Tensor
    """(2, n) places of the n words in a flat (b * l) array, forwards and backwards through each sentence."""
    sizes: list[int]
    """Number of sentences that have a word left, at each step."""


def reading_order(lengths: Tensor, longest: int) -> ReadingOrder:
    """The order for sentences in rows of `longest` words.

    >>> reading_order(torch.tensor([1, 3]), 3)
    ReadingOrder(sentence=tensor([1, 0]), place=tensor([[3, 0, 4, 5],
            [5, 0, 4, 3]]), sizes=[2, 1, 1])
    """
    lengths, sentence = lengths.sort(descending=True, stable=True)
    step = torch.arange(longest)
    has_word = lengths > step.unsqueeze(1)
    forth = step.unsqueeze(1).expand_as(has_word)
    back = lengths - 1 - forth
    place = torch.stack([(longest * sentence + word)[has_word] for word in (forth, back)])
    sizes = has_word.sum(1)
    return ReadingOrder(sentence, place, sizes[sizes > 0].tolist())


def last_states(network: nn.GRU, words: Tensor, order: ReadingOrder) -> Tensor:
    """(b, 2 h) the last states of a network of one layer in both directions, over words (2, n, w) in order."""
    weights = (
        torch.stack([getattr(network, f"{name}_l0{direction}") for direction in ("", "_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    states: Tensor = _Recurrence.apply(words, order.sizes, *weights)  # type: ignore[no-untyped-call]
    return states.transpose(0, 1).flatten(1)[order.sentence.argsort()]


class _Recurrence(torch.autograd.Function):
    """r = sigma(W_r x + U_r h), z = sigma(W_z x + U_z h), c = tanh(W_c x + r U_c h), next h = (1 - z) c + z h."""

    @staticmethod
    def forward(
        ctx: Any, words: Tensor, sizes: list[int], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
    ) -> Tensor:
        hidden = w_hh.shape[2]
        gates = torch.baddbmm(b_ih.unsqueeze(1), words, w_ih.mT)
        before, recurrent = gates.new_empty(*gates.shape[:2], hidden), torch.empty_like(gates[..., :hidden])
        h, w_hh_t = gates.new_zeros(2, sizes[0], hidden), w_hh.mT.contiguous()
        for at, now in _slices(sizes):
            state = before[:, at].copy_(h[:, now])
            part = torch.baddbmm(b_hh.unsqueeze(1), state, w_hh_t)
            r_z, c = gates[:, at, : 2 * hidden], gates[:, at, 2 * hidden :]
            r_z.add_(part[..., : 2 * hidden]).sigmoid_()
            r, z = r_z.chunk(2, 2)
            recurrent[:, at] = part[..., 2 * hidden :]
            c.addcmul_(r, recurrent[:, at]).tanh_()
            torch.lerp(c, state, z, out=h[:, now])
        ctx.sizes = sizes
        ctx.save_for_backward(words, w_ih, w_hh, gates, before, recurrent)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        words, w_ih, w_hh, gates, before, recurrent = ctx.saved_tensors
        hidden = w_hh.shape[2]
        r, z, c = gates.chunk(3, 2)
        # The factors of the gradient of a state, for all steps at once: for the sums in r, in z, in U_c h and in c.
        # The first three give the gradient of U h, the first two and the last that of W x.
        of_c = (1 - c * c).mul_(1 - z)
        parts = torch.cat([recurrent * r * (1 - r) * of_c, (before - c) * z * (1 - z), of_c * r, of_c], 2)
        dh = grad.clone()
        for at, now in reversed(_slices(ctx.sizes)):
            d = dh[:, now]
            parts[:, at].unflatten(2, (4, hidden)).mul_(d.unsqueeze(2))
            d.mul_(z[:, at]).baddbmm_(parts[:, at, : 3 * hidden], w_hh)
        of_states, of_gates, of_new = parts[..., : 3 * hidden], parts[..., : 2 * hidden], parts[..., 3 * hidden :]
        return (
            torch.baddbmm(of_gates @ w_ih[:, : 2 * hidden], of_new, w_ih[:, 2 * hidden :]),
            None,
            torch.cat([of_gates.mT @ words, of_new.mT @ words], 1),
            of_states.mT @ before,
            torch.cat([of_gates.sum(1), of_new.sum(1)], 1),
            of_states.sum(1),
        )


def _slices(sizes: list[int]) -> list[tuple[slice, slice]]:
    """At each step: which of all words are read, and the states of which sentences change."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [(slice(end - size, end), slice(0, size)) for end, size in zip(ends, sizes, strict=True)]
