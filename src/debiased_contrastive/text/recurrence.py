"""A gated recurrent network over sentences of many lengths, on processors: nn.GRU's numbers in less time.

For packed sentences the gradient of nn.GRU fills a tensor as large as the batch at every time step. Here it is
written out, both directions at once, in memory that is taken once; `results/text_training.json` has the ratio.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Steps(NamedTuple):
    """In which order words are read: longest sentences first, all first words, then all second ones, and so on."""

    sentence: Tensor
    """(b,) sentences, longest first"""
    place: Tensor
    """(2, n) of the n words, in a flat (b * l) array: from the first to the last, and from the last to the first"""
    sizes: list[int]
    """Number of sentences that have a word left, at each step"""


def steps_of(lengths: Tensor, longest: int) -> Steps:
    """The order for sentences in rows of `longest` words.

    >>> steps_of(torch.tensor([1, 3]), 3)
    Steps(sentence=tensor([1, 0]), place=tensor([[3, 0, 4, 5],
            [5, 0, 4, 3]]), sizes=[2, 1, 1])
    """
    lengths, sentence = lengths.sort(descending=True, stable=True)
    step = torch.arange(longest)
    has_word = lengths > step.unsqueeze(1)
    forth = step.unsqueeze(1).expand_as(has_word)
    back = lengths - 1 - forth
    place = torch.stack([(longest * sentence + word)[has_word] for word in (forth, back)])
    sizes = has_word.sum(1)
    return Steps(sentence, place, sizes[sizes > 0].tolist())


def last_states(network: nn.GRU, words: Tensor, steps: Steps) -> Tensor:
    """(b, 2 h) the last states of a network of one layer in both directions, over words (2, n, w) in order."""
    weights = (
        torch.stack([getattr(network, f"{name}_l0{direction}") for direction in ("", "_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    states: Tensor = _Recurrence.apply(words, steps.sizes, *weights)  # type: ignore[no-untyped-call]
    return states.transpose(0, 1).flatten(1)[steps.sentence.argsort()]


class _Recurrence(torch.autograd.Function):
    """r = sigma(W_r x + U_r h), z = sigma(W_z x + U_z h), c = tanh(W_c x + r U_c h), next h = (1 - z) c + z h."""

    @staticmethod
    def forward(
        ctx: Any, words: Tensor, sizes: list[int], into: Tensor, again: Tensor, bias: Tensor, bias_again: Tensor
    ) -> Tensor:
        hidden = again.shape[2]
        gates = torch.baddbmm(bias.unsqueeze(1), words, into.mT)
        before, recurrent = gates.new_empty(*gates.shape[:2], hidden), torch.empty_like(gates[..., :hidden])
        h, again_t = gates.new_zeros(2, sizes[0], hidden), again.mT.contiguous()
        for at, now in _slices(sizes):
            state = before[:, at].copy_(h[:, now])
            part = torch.baddbmm(bias_again.unsqueeze(1), state, again_t)
            r_z, c = gates[:, at, : 2 * hidden], gates[:, at, 2 * hidden :]
            r_z.add_(part[..., : 2 * hidden]).sigmoid_()
            r, z = r_z.chunk(2, 2)
            recurrent[:, at] = part[..., 2 * hidden :]
            c.addcmul_(r, recurrent[:, at]).tanh_()
            torch.lerp(c, state, z, out=h[:, now])
        ctx.sizes = sizes
        ctx.save_for_backward(words, into, again, gates, before, recurrent)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        words, into, again, gates, before, recurrent = ctx.saved_tensors
        hidden = again.shape[2]
        r, z, c = gates.chunk(3, 2)
        # What the gradient of a state is multiplied by, for all steps at once: for the sums in r, in z, in U_c h
        # and in c. The first three are the gradient of U h, the first two and the last that of W x.
        of_c = (1 - c * c).mul_(1 - z)
        parts = torch.cat([recurrent * r * (1 - r) * of_c, (before - c) * z * (1 - z), of_c * r, of_c], 2)
        dh = grad.clone()
        for at, now in reversed(_slices(ctx.sizes)):
            d = dh[:, now]
            parts[:, at].unflatten(2, (4, hidden)).mul_(d.unsqueeze(2))
            d.mul_(z[:, at]).baddbmm_(parts[:, at, : 3 * hidden], again)
        of_states, of_gates, of_new = parts[..., : 3 * hidden], parts[..., : 2 * hidden], parts[..., 3 * hidden :]
        return (
            torch.baddbmm(of_gates @ into[:, : 2 * hidden], of_new, into[:, 2 * hidden :]),
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
