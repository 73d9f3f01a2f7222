"""The recurrence that is written out: nn.GRU over packed sentences is the oracle, for values and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from debiased_contrastive.text.towers import GRUTower, last_states, reading_order


def network(w: int = 3, h: int = 4) -> nn.GRU:
    torch.manual_seed(w + h)
    return nn.GRU(w, h, batch_first=True, bidirectional=True).double()


def own(gru: nn.GRU, words: Tensor, lengths: Tensor) -> Tensor:
    order = reading_order(lengths, words.shape[1])
    return last_states(gru, words.flatten(0, 1)[order.place], order)


def oracle(gru: nn.GRU, words: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    last: Tensor = gru(packed)[1]
    return last.transpose(0, 1).flatten(1)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(0, 2))
def test_values_and_gradients_are_those_of_nn_gru(lengths: list[int], more: int) -> None:
    gru = network()
    words = torch.randn(len(lengths), max(lengths) + more, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(len(lengths), 8, dtype=torch.float64)
    found = []
    for states_of in (own, oracle):
        states = states_of(gru, words, torch.tensor(lengths))
        found.append([states, *torch.autograd.grad((states * weight).sum(), [words, *gru.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradcheck() -> None:
    gru, lengths = network(), torch.tensor([2, 4, 1])
    words = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda words: own(gru, words, lengths), [words])


def test_a_second_derivative_is_refused() -> None:
    words = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    states = own(network(), words, torch.tensor([2])).square().sum()
    (grad,) = torch.autograd.grad(states, [words], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_the_tower_has_it_and_padding_counts_for_nothing() -> None:
    torch.manual_seed(0)
    tower = GRUTower(9, 3, 4)
    tokens, lengths = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2])
    expected = oracle(tower.recurrent, tower.words(tokens), lengths)
    torch.testing.assert_close(tower(tokens, lengths), expected)
    torch.testing.assert_close(tower(torch.tensor([[1, 2, 3], [4, 5, 8]]), lengths), expected)


def test_in_mixed_precision_the_tower_is_nn_gru() -> None:
    tower, calls = GRUTower(9, 3, 4), []
    tower.recurrent.register_forward_hook(lambda *_: calls.append(1))
    tokens, lengths = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2])
    tower(tokens, lengths)
    assert not calls
    with torch.autocast("cpu", dtype=torch.bfloat16):
        tower(tokens, lengths)
    assert calls
