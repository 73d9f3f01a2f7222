"""Our NTXentLoss where pytorch-metric-learning expects its own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import debiased_contrastive as dc

pytest.importorskip("pytorch_metric_learning", reason="needs the extra metric-learning")

from pytorch_metric_learning import distances, losses, miners, reducers, samplers, trainers
from pytorch_metric_learning.utils import loss_and_miner_utils as pairs_of

from debiased_contrastive.integrations.pytorch_metric_learning import NTXentLoss

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4])


def embeddings(seed: int = 0, rows: int = len(LABELS)) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 6, generator=generator, dtype=torch.float64).requires_grad_()


def value_and_gradient(loss: nn.Module, *arguments: Any, z: Tensor) -> tuple[Tensor, Tensor]:
    value = loss(z, *arguments)
    return value.detach(), torch.autograd.grad(value, z)[0]


def assert_same(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], tolerance: float = 1e-12) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"reducer": reducers.PerAnchorReducer()},
        {"reducer": reducers.ThresholdReducer(low=1.0)},
        {"distance": distances.LpDistance()},
        {"distance": distances.LpDistance(normalize_embeddings=False, power=2)},
        {"distance": distances.DotProductSimilarity(normalize_embeddings=False)},
    ],
)
def test_without_correction_it_is_its_peer(parts: dict[str, Any], temperature: float) -> None:
    z = embeddings()
    ours, theirs = NTXentLoss(temperature, tau_plus=0.0, **parts), losses.NTXentLoss(temperature, **parts)
    assert_same(value_and_gradient(ours, LABELS, z=z), value_and_gradient(theirs, LABELS, z=z))


@pytest.mark.parametrize("miner", [miners.MultiSimilarityMiner(0.3), miners.PairMarginMiner(0.1, 0.9)])
def test_pairs_of_a_miner(miner: Any) -> None:
    z = embeddings()
    pairs = miner(z, LABELS)
    ours, theirs = NTXentLoss(0.2, tau_plus=0.0), losses.NTXentLoss(0.2)
    assert_same(value_and_gradient(ours, LABELS, pairs, z=z), value_and_gradient(theirs, LABELS, pairs, z=z))


def test_triplets_become_pairs_that_count_once() -> None:
    z = embeddings()
    a, p, n = miners.TripletMarginMiner(0.5)(z, LABELS)
    positive, negative = torch.stack([a, p], 1).unique(dim=0), torch.stack([a, n], 1).unique(dim=0)
    assert len(positive) < len(a)
    once = (*positive.T, *negative.T)
    ours, theirs = NTXentLoss(0.2, tau_plus=0.0), losses.NTXentLoss(0.2)
    assert_same(value_and_gradient(ours, LABELS, (a, p, n), z=z), value_and_gradient(theirs, LABELS, once, z=z))


@pytest.mark.parametrize("on_floor", ["clamp", "biased", "smooth", "cap_tau"])
def test_two_views_are_the_debiased_loss(on_floor: Any) -> None:
    z, w = embeddings(0, 8), embeddings(1, 8)
    ours = losses.SelfSupervisedLoss(NTXentLoss(0.3, 0.1, on_floor=on_floor, beta=0.5))
    core = dc.DebiasedNTXentLoss(0.3, 0.1, on_floor=on_floor, beta=0.5)
    assert_same(value_and_gradient(ours, w, z=z), value_and_gradient(core, w, z=z))
    assert ours.loss.diagnostics.num_unlabeled == core.diagnostics.num_unlabeled == 14
    assert ours.loss.diagnostics.tau_cap_median == pytest.approx(core.diagnostics.tau_cap_median, rel=1e-12)


@pytest.mark.parametrize(("distance", "least"), [(distances.CosineSimilarity(), -1), (distances.LpDistance(), -2)])
def test_all_positives_of_an_anchor_correct_each_of_its_pairs(distance: Any, least: float) -> None:
    z, t = embeddings(), 0.5
    logits = (1 if distance.is_inverted else -1) * distance(z) / t
    wanted = []
    for a, p, *_ in zip(*pairs_of.get_all_pairs_indices(LABELS)[:2], strict=True):
        mates = (LABELS[a] == LABELS) & (torch.arange(len(LABELS)) != a)
        others = logits[a][LABELS[a] != LABELS]
        wanted.append(
            dc.contrastive_loss(
                logits[a, p][None], others[None], logits[a][mates][None], tau_plus=0.2, lower=least / t
            )
        )
    ours = NTXentLoss(t, 0.2, on_floor="clamp", distance=distance)
    torch.testing.assert_close(ours(z, LABELS), torch.stack(wanted).mean(), rtol=1e-12, atol=1e-12)


def test_a_memory_across_batches() -> None:
    def memory(loss: nn.Module) -> nn.Module:
        wrapped: nn.Module = losses.CrossBatchMemory(loss, embedding_size=6, memory_size=30)
        return wrapped

    ours, theirs = memory(NTXentLoss(0.2, tau_plus=0.0)), memory(losses.NTXentLoss(0.2))
    debiased = memory(NTXentLoss(0.2, tau_plus=0.1))
    for step in range(4):
        z = embeddings(step)
        peer = value_and_gradient(theirs, LABELS, z=z)
        assert_same(value_and_gradient(ours, LABELS, z=z), peer)
        assert debiased(z, LABELS).item() != pytest.approx(peer[0].item())


def test_a_learnt_temperature() -> None:
    z, t = embeddings(), nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    ours, theirs = NTXentLoss(t, tau_plus=0.0), losses.NTXentLoss(t)
    assert dict(ours.named_parameters()) == {"objective.temperature": t}
    (mine,), (peers,) = (torch.autograd.grad(loss(z, LABELS), [t]) for loss in (ours, theirs))
    assert_same((mine,), (peers,))


def test_a_temperature_that_changes_in_training() -> None:
    z, loss = embeddings(), NTXentLoss(0.5)
    loss.temperature = 0.2
    assert loss(z, LABELS) == NTXentLoss(0.2)(z, LABELS) != NTXentLoss(0.5)(z, LABELS)
    loss.temperature = -0.2
    with pytest.raises(ValueError, match=r"temperature must be positive and finite; got -0\.2"):
        loss(z, LABELS)


def test_half_precision_is_computed_in_float32() -> None:
    z = embeddings().detach().bfloat16()
    loss = NTXentLoss(0.07, 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = loss(z.requires_grad_(), LABELS)
    mixed.backward()
    torch.testing.assert_close(mixed, loss(z.float(), LABELS), rtol=1e-6, atol=0)
    assert z.grad is not None
    assert z.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one", "no negatives", "no positives"])
def test_a_batch_without_pairs_costs_nothing(labels: list[int]) -> None:
    z = embeddings(rows=len(labels))
    value, gradient = value_and_gradient(NTXentLoss(), torch.tensor(labels), z=z)
    assert value == 0
    assert not gradient.any()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar:UserWarning")
def test_its_trainer_trains_with_it() -> None:
    torch.manual_seed(0)
    labels = torch.arange(96) % 6
    inputs = 2 * torch.eye(6, 10)[labels] + torch.randn(96, 10)
    trunk = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    loss = NTXentLoss(0.2, tau_plus="auto")
    before = loss(trunk(inputs), labels).item()
    trainers.MetricLossOnly(
        models={"trunk": trunk},
        optimizers={"trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=1e-2)},
        batch_size=24,
        loss_funcs={"metric_loss": loss},
        dataset=list(zip(inputs, labels, strict=True)),
        mining_funcs={"tuple_miner": miners.MultiSimilarityMiner()},
        sampler=samplers.MPerClassSampler(labels, m=4, length_before_new_iter=96),
        dataloader_num_workers=0,
    ).train(num_epochs=4)
    assert loss.eval()(trunk(inputs), labels).item() < before
    again = NTXentLoss(0.2, tau_plus="auto")
    again.load_state_dict(loss.state_dict())
    # Four epochs of four steps, and one call before.
    assert [each.get_submodule("objective.tau_plus").calls for each in (loss, again)] == [17, 17]


def test_it_shows_its_settings_and_refuses_wrong_ones() -> None:
    shown = repr(NTXentLoss(nn.Parameter(torch.tensor(0.1)), 0.05))
    assert "temperature=0.1, tau_plus=0.05, on_floor=cap_tau, beta=0.0)" in shown
    for wrong in ({"temperature": 0.0}, {"tau_plus": 1.0}, {"on_floor": "none"}, {"beta": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            NTXentLoss(**wrong)
