"""CMC's loss is that of its embeddings against the banks as they stood, and the banks follow, by hand."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn import functional as F

import debiased_contrastive as dc
from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.encoders import Pair
from tests.group import in_group

N, B, K, DIM = 10, 4, 12, 3


def made(tau_plus: float = 0.02) -> CMC:
    torch.manual_seed(0)
    encoders = (nn.Sequential(nn.Flatten(), nn.Linear(4 * channels, 5), nn.Tanh()) for channels in (1, 2))
    banks = [dc.MemoryBank(N, DIM, generator=torch.Generator().manual_seed(view)) for view in range(2)]
    heads = nn.Linear(5, DIM), nn.Linear(5, DIM)
    loss = dc.DebiasedBankLoss(0.3, tau_plus)
    return CMC(Pair(*encoders, feature_dim=10), heads, loss, (banks[0], banks[1]))


def batch(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "views": torch.randn(1, B, 3, 2, 2, generator=generator),
        "ids": torch.randperm(N, generator=generator)[:B],
        "places": torch.randint(N, (B, K), generator=generator),
    }


def embedded(method: CMC, views: Tensor) -> tuple[Tensor, Tensor]:
    """What the toy networks compute, by hand."""
    weights = method.state_dict()

    def of(name: str, head: int, x: Tensor) -> Tensor:
        hidden = torch.tanh(
            x.flatten(1) @ weights[f"encoder.{name}.1.weight"].T + weights[f"encoder.{name}.1.bias"]
        )
        z: Tensor = hidden @ weights[f"heads.{head}.weight"].T + weights[f"heads.{head}.bias"]
        return z

    return of("first", 0, views[0][:, :1]), of("others", 1, views[0][:, 1:])


def rows(method: CMC, view: int) -> Tensor:
    bank = method.banks[view]
    assert isinstance(bank, dc.MemoryBank)
    return bank.embeddings.clone()


@pytest.mark.parametrize("tau_plus", [0.0, 0.02])
def test_each_view_meets_the_bank_of_the_other(tau_plus: float) -> None:
    method, given = made(tau_plus), batch(1)
    luminance, colour = embedded(method, given["views"])
    banks = rows(method, 0), rows(method, 1)
    loss = dc.DebiasedInfoNCELoss(0.3, tau_plus, on_floor="biased")
    ids, places = given["ids"], given["places"]
    expected = loss(luminance, banks[1][ids], banks[1][places]) + loss(colour, banks[0][ids], banks[0][places])
    found = method(**given)
    assert torch.allclose(found, expected, atol=1e-6)
    found.backward()
    assert all(weight.grad is not None and bool(weight.grad.any()) for weight in method.parameters())
    for view, z in enumerate((luminance, colour)):
        follow = banks[view].clone()
        follow[ids] = F.normalize(0.5 * follow[ids] + 0.5 * F.normalize(z, dim=1), dim=1)
        assert torch.allclose(rows(method, view), follow, atol=1e-6)


def test_an_evaluation_changes_nothing() -> None:
    method = made().eval()
    before = rows(method, 0)
    method(**batch(1))
    assert torch.equal(rows(method, 0), before)


def test_a_copy_that_was_saved_goes_on_bit_for_bit() -> None:
    whole, first = made(), made()
    expected = [whole(**batch(step)).item() for step in range(4)]
    assert [first(**batch(step)).item() for step in range(2)] == expected[:2]
    second = made(0.02)
    second.load_state_dict(first.state_dict())
    assert [second(**batch(step)).item() for step in range(2, 4)] == expected[2:]


def test_features_are_those_of_both() -> None:
    method, views = made(), batch(0)["views"][0]
    features = method.encoder(views)
    assert features.shape == (B, 10)
    assert torch.equal(features, torch.cat(method.encoder.parts(views), 1))


def share_of(given: dict[str, Tensor], rank: int) -> dict[str, Tensor]:
    """Half of a batch."""
    part = slice(2 * rank, 2 * rank + 2)
    return {"views": given["views"][:, part], "ids": given["ids"][part], "places": given["places"][part]}


def compare(rank: int, alone: CMC) -> None:
    """Three steps of a method whose networks stand still: what banks hold, and what auto learnt, is the same."""
    auto, method = dc.AutoTauPlus(0.1, warm_up=0), made()
    method.loss = dc.DebiasedBankLoss(0.3, auto, gather_distributed=True)
    for seed in range(3):
        method(**share_of(batch(seed), rank))
    for view in range(2):
        torch.testing.assert_close(rows(method, view), rows(alone, view), rtol=0, atol=1e-6)
        everywhere = [torch.empty(N, DIM) for _ in range(2)]
        dist.all_gather(everywhere, rows(method, view))
        assert torch.equal(*everywhere)
    assert auto.of_cap is not None
    learnt = [torch.zeros(1, dtype=torch.float64) for _ in range(2)]
    dist.all_gather(learnt, torch.tensor([auto.of_cap], dtype=torch.float64))
    assert torch.equal(*learnt)


def work(rank: int, rendezvous: str) -> None:
    alone = made()
    for seed in range(3):
        alone(**batch(seed))
    in_group(rank, 2, rendezvous, lambda: compare(rank, alone))


def test_every_process_holds_the_banks_of_one(tmp_path: Path) -> None:
    spawn(work, args=(str(tmp_path / "rendezvous"),), nprocs=2)
