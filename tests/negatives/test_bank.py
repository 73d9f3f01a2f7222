"""The bank follows what is stored, after the backward of what was read, and continues bit for bit."""

import copy

import pytest
import torch
from torch.nn import functional as F

from debiased_contrastive.kernels.bank import bank_logits
from debiased_contrastive.negatives.bank import MemoryBank, draw_places


def made(size: int = 6, dim: int = 3, momentum: float = 0.5) -> MemoryBank:
    return MemoryBank(size, dim, momentum=momentum, generator=torch.Generator().manual_seed(0))


def test_rows_follow_by_hand() -> None:
    bank = made(3, 2, momentum=0.75)
    bank.storage.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    bank.store(torch.tensor([0]), torch.tensor([[0.0, 5.0]]))
    # 0.75 (1, 0) + 0.25 (0, 1), of unit length; the length of what is stored does not count.
    expected = torch.tensor([3.0, 1.0]) / 10**0.5
    assert torch.allclose(bank.embeddings[0], expected)
    assert torch.equal(bank.embeddings[1:], torch.tensor([[0.0, 1.0], [0.6, 0.8]]))


def test_all_rows_have_length_one() -> None:
    bank = made(50, 8)
    for step in range(5):
        ids = torch.randperm(50, generator=torch.Generator().manual_seed(step))[:20]
        bank.store(ids, 3 * torch.randn(20, 8))
    assert torch.allclose(bank.embeddings.norm(dim=1), torch.ones(50))


def test_what_is_stored_waits_for_the_backward() -> None:
    bank = made()
    anchors, places = torch.randn(2, 3, requires_grad=True), torch.tensor([[0, 1], [2, 2]])
    before = bank.embeddings.clone()
    logits = bank_logits(anchors, bank.embeddings, places)
    bank.store(torch.tensor([0, 2]), torch.randn(2, 3))
    logits.sum().backward()
    assert anchors.grad is not None
    assert torch.allclose(anchors.grad, before[places].sum(1))
    assert not torch.equal(bank.embeddings, before)


def test_a_checkpoint_holds_what_waits_and_changes_nothing() -> None:
    bank = made()
    bank.store(torch.tensor([3, 4]), torch.randn(2, 3))
    state = copy.deepcopy(bank.state_dict())
    other = made(momentum=0.5)
    other.store(torch.tensor([0]), torch.randn(1, 3))
    assert torch.equal(bank.storage, made().storage)
    other.load_state_dict(state)
    assert torch.equal(other.embeddings, bank.embeddings)
    assert not torch.equal(bank.embeddings, made().embeddings)


def test_its_own_copy_is_kept() -> None:
    bank, z = made(), torch.randn(1, 3)
    expected = F.normalize(0.5 * bank.embeddings[2] + 0.5 * F.normalize(z[0], dim=0), dim=0)
    bank.store(torch.tensor([2]), z)
    z.zero_()
    assert torch.allclose(bank.embeddings[2], expected)


def test_places_come_back_with_the_seed_and_repeat() -> None:
    def drawn() -> torch.Tensor:
        return draw_places(4, 10, 2000, torch.Generator().manual_seed(3))

    assert torch.equal(drawn(), drawn())
    assert drawn().unique().tolist() == list(range(10))
    share = drawn().flatten().bincount() / drawn().numel()
    assert (share - 0.1).abs().max() < 0.015


def test_what_waits_goes_where_the_bank_is() -> None:
    bank = made()
    bank.store(torch.tensor([2]), torch.tensor([[0.0, 0.0, 1.0]]))
    # As where a checkpoint was read on another device.
    bank.double()
    assert bank.embeddings.dtype == torch.float64
    # A wider type would take a narrower one in unasked, the other way round it is refused.
    bank.store(torch.tensor([0]), torch.eye(bank.storage.shape[1], dtype=torch.float64)[:1])
    assert bank.to(torch.bfloat16).embeddings.dtype == torch.bfloat16
    assert not torch.equal(bank.embeddings[2].float(), made().embeddings[2])


@pytest.mark.parametrize(
    ("ids", "z", "message"),
    [
        (torch.tensor([6]), torch.zeros(1, 3), r"ids must lie in 0\.\.5"),
        (torch.tensor([-1]), torch.zeros(1, 3), r"ids must lie in 0\.\.5"),
        (torch.tensor([3, 3]), torch.zeros(2, 3), "1 different ones of 2"),
        (torch.tensor([0.0]), torch.zeros(1, 3), "stores ids"),
        (torch.tensor([0]), torch.zeros(1, 4), r"z \(b, 3\)"),
        (torch.tensor([0]), torch.full((1, 3), torch.nan), "z must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(ids: torch.Tensor, z: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made().store(ids, z)


@pytest.mark.parametrize(("size", "dim", "momentum"), [(1, 3, 0.5), (4, 0, 0.5), (4, 3, 1.0), (4, 3, -0.1)])
def test_sizes_are_checked(size: int, dim: int, momentum: float) -> None:
    with pytest.raises(ValueError, match=r"bank needs at least|momentum must lie"):
        made(size, dim, momentum)


def test_no_samples_are_no_contrast() -> None:
    with pytest.raises(ValueError, match="at least 1 unlabeled"):
        draw_places(2, 5, 0, torch.Generator())


def test_membership_and_partitions_are_kept_for_each_sample() -> None:
    bank = MemoryBank(5, 3, classes=2, partitions=1, generator=torch.Generator().manual_seed(0))
    p = torch.tensor([[0.2, 0.8], [1.0, 0.0]])
    bank.store(torch.tensor([3, 1]), torch.randn(2, 3), membership=p, partitions=torch.tensor([[7], [8]]))
    bank.store(torch.tensor([1, 2]), torch.randn(2, 3))
    assert bank.membership is not None
    assert bank.partitions is not None
    assert torch.equal(bank.membership[[3, 1]], p), "an update without knowledge keeps what was stored"
    assert bank.partitions[:, 0].tolist() == [-1, 8, -1, 7, -1]
    again = MemoryBank(5, 3, classes=2, partitions=1, generator=torch.Generator().manual_seed(1))
    again.load_state_dict(bank.state_dict())
    assert again.partitions is not None
    assert torch.equal(again.partitions, bank.partitions)
    plain = MemoryBank(5, 3, generator=torch.Generator().manual_seed(1))
    assert plain.membership is None
    assert plain.partitions is None
    with pytest.raises(ValueError, match=r"membership must be probabilities of shape \(2, 0\)"):
        plain.store(torch.tensor([1, 2]), torch.randn(2, 3), membership=p)


def test_what_waits_is_a_tensor_and_dicts_of_earlier_versions_are_read() -> None:
    def make() -> MemoryBank:
        return MemoryBank(5, 3, generator=torch.Generator().manual_seed(0))

    bank, again, old = make(), make(), make()
    assert bank.get_extra_state().shape == (0, 4)
    ids, z = torch.tensor([3, 1]), torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    bank.store(ids, z)
    again.load_state_dict(bank.state_dict())
    old.set_extra_state({"ids": ids, "z": z})
    want = bank.embeddings
    assert torch.equal(again.embeddings, want)
    assert torch.equal(old.embeddings, want)
    old.set_extra_state({})
    assert torch.equal(old.embeddings, want)
