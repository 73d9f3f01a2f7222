"""tau_plus="auto": it follows tau_eff and tau_cap, keeps off the floor, and goes on where it stopped."""

import copy
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import debiased_contrastive as dc
from debiased_contrastive.losses.auto import ANCHORS_PER_LOOK, AVERAGE_DECAY, CALLS_PER_LOOK
from debiased_contrastive.objectives.estimator import effective_tau_plus, guess_log_mean_negatives, largest_tau_plus
from debiased_contrastive.objectives.statistics import from_logits
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means
from studies.auto_tau_plus import (
    TEMPERATURES,
    WORLDS,
    compare,
    is_closer,
    read_worlds,
)

RESULTS = Path(__file__).parents[2] / "results/auto_tau_plus"
Batch = tuple[Tensor, Tensor, Tensor]


def auto_of(loss: dc.DebiasedNTXentLoss | dc.DebiasedInfoNCELoss) -> dc.AutoTauPlus:
    assert isinstance(loss.tau_plus, dc.AutoTauPlus)
    return loss.tau_plus


def share_of(loss: dc.DebiasedNTXentLoss | dc.DebiasedInfoNCELoss) -> float:
    share = auto_of(loss).of_cap
    assert share is not None
    return share


def batches(count: int, b: int = 160, seed: int = 0) -> list[Batch]:
    """Queries, keys around them, and unlabeled samples, of ten classes."""
    generator = torch.Generator().manual_seed(seed)
    world = VonMisesFisherWorld(random_means(10, 16, generator), 60.0)
    queries = [world.sample(b, generator)[0] for _ in range(count)]
    return [(x, world.surrogates(x, 240.0, generator), world.sample(b, generator)[0]) for x in queries]


def test_the_share_is_a_moving_average_of_the_median() -> None:
    t = 0.2
    given = batches(CALLS_PER_LOOK + 1)
    loss = dc.DebiasedInfoNCELoss(t, dc.AutoTauPlus(0.1, warm_up=0))
    for batch in given:
        loss(*batch)
    shares = []
    for x, y, u in (given[0], given[CALLS_PER_LOOK]):
        x, y = x[:ANCHORS_PER_LOOK], y[:ANCHORS_PER_LOOK]
        statistics = from_logits((x * y).sum(1) / t, x @ u.T / t, None, lower=-1 / t, beta=0)
        tau_eff = effective_tau_plus(statistics, guess_log_mean_negatives(x @ u.T / t, 0.1))
        shares.append(float((tau_eff / largest_tau_plus(statistics)).median()))
    assert share_of(loss) == pytest.approx(AVERAGE_DECAY * shares[0] + (1 - AVERAGE_DECAY) * shares[1], rel=1e-9)
    x, y, u = given[CALLS_PER_LOOK]
    tau_cap = largest_tau_plus(from_logits((x * y).sum(1) / t, x @ u.T / t, None, lower=-1 / t, beta=0))
    used = (share_of(loss) * tau_cap).clamp(max=0.1)
    assert loss.diagnostics.tau_plus == pytest.approx(float(used.mean()), rel=1e-9)
    assert loss.diagnostics.floored == 0


@pytest.mark.parametrize("t", [0.5, 0.2, 0.1, 0.07])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_anchor_is_on_the_floor(t: float, dtype: torch.dtype) -> None:
    for loss in (
        dc.DebiasedNTXentLoss(t, dc.AutoTauPlus(0.1, warm_up=0)),
        dc.DebiasedInfoNCELoss(t, dc.AutoTauPlus(0.1, warm_up=0), symmetric=True),
    ):
        for x, y, _ in batches(3):
            value = loss(x.to(dtype), y.to(dtype))
            assert loss.diagnostics.floored == 0
            assert 0 < loss.diagnostics.tau_plus < 0.1
            assert value.isfinite()


def test_warm_up_is_the_biased_loss_and_the_word_has_one() -> None:
    loss = dc.DebiasedNTXentLoss(0.5, "auto")
    assert (auto_of(loss).prior, auto_of(loss).warm_up) == (0.1, 100)
    auto_of(loss).warm_up = 3
    for call, (x, y, _) in enumerate(batches(5, b=20), 1):
        biased = dc.DebiasedNTXentLoss(0.5, 0.0)(x, y)
        assert (loss(x, y) == biased) == (call <= 3)
        assert (loss.diagnostics.tau_plus == 0) == (call <= 3)


def test_a_checkpoint_keeps_calls_and_share() -> None:
    given = batches(25, b=24)

    def make() -> dc.DebiasedInfoNCELoss:
        return dc.DebiasedInfoNCELoss(0.2, dc.AutoTauPlus(0.1, warm_up=5))

    whole, first, second = make(), make(), make()
    want = [whole(*batch) for batch in given]
    for batch in given[:13]:
        first(*batch)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert [second(*batch) for batch in given[13:]] == want[13:]
    assert copy.deepcopy(second)(*given[0]) == second(*given[0])
    assert dc.DebiasedInfoNCELoss(0.2, 0.1).state_dict() == {}


def test_evaluation_leaves_it_as_it_is() -> None:
    loss = dc.DebiasedNTXentLoss(0.5, dc.AutoTauPlus(warm_up=0))
    x, y, _ = batches(1)[0]
    assert loss.eval()(x, y) == dc.DebiasedNTXentLoss(0.5, 0.0)(x, y)
    assert auto_of(loss).calls == 0
    loss.train()(x, y)
    kept = loss.state_dict()
    loss.eval()(y, x)
    assert [*loss.state_dict()] == [*kept]
    assert all(torch.equal(value, kept[name]) for name, value in loss.state_dict().items())


def test_calls_without_gradients_do_not_count() -> None:
    """Trainers of other libraries evaluate under no_grad, and never call eval() of a loss."""
    loss = dc.DebiasedNTXentLoss(0.5, dc.AutoTauPlus(warm_up=0))
    x, y, _ = batches(1)[0]
    with torch.no_grad():
        loss(x, y)
    assert (auto_of(loss).calls, auto_of(loss).of_cap) == (0, None)
    loss(x, y)
    assert auto_of(loss).calls == 1


def test_its_state_is_a_tensor_and_states_of_earlier_versions_are_read() -> None:
    loss = dc.DebiasedNTXentLoss(0.5, dc.AutoTauPlus(warm_up=0))
    assert all(isinstance(value, torch.Tensor) for value in loss.state_dict().values())
    fresh = dc.AutoTauPlus()
    fresh.set_extra_state(dc.AutoTauPlus().get_extra_state())
    assert (fresh.calls, fresh.of_cap) == (0, None)
    fresh.set_extra_state({"calls": 7, "of_cap": 0.25})
    again = dc.AutoTauPlus()
    again.set_extra_state(fresh.get_extra_state())
    assert (again.calls, again.of_cap) == (7, 0.25)


def test_the_call_takes_precedence_and_labels_need_none() -> None:
    loss = dc.DebiasedNTXentLoss(0.5, "auto")
    x, y, _ = batches(1)[0]
    assert loss(x, y, tau_plus=0.05) == dc.DebiasedNTXentLoss(0.5, 0.05)(x, y)
    labels = torch.arange(len(x)) % 5
    assert loss(x, y, labels=labels) == dc.DebiasedNTXentLoss(0.5, 0.05)(x, y, labels=labels)
    assert auto_of(loss).calls == 0


def test_queues_own_negatives_and_ids_are_looked_at() -> None:
    x, y, u = batches(1)[0]
    ids = torch.arange(len(x))
    own = u.expand(len(x), -1, -1).clone()
    calls: list[dict[str, Any]] = [
        {"negatives": u},
        {"negatives": own},
        {"negatives": u, "ids": ids, "negative_ids": ids.flip(0)},
        {"negatives": u, "ids": ids, "negative_ids": torch.full_like(ids, -1)},
    ]
    shares = []
    for arguments in calls:
        loss = dc.DebiasedInfoNCELoss(0.2, dc.AutoTauPlus(warm_up=0))
        loss(x, y, **arguments)
        shares.append(share_of(loss))
    assert shares[0] == pytest.approx(shares[1], rel=1e-9)
    assert shares[0] == shares[3] != shares[2]


def test_the_correction_is_a_constant_for_gradients() -> None:
    """Each anchor's gradient is that of InfoNCE with as many samples as give this value of the loss."""
    x, y, u = (z.requires_grad_() for z in batches(1, b=30)[0])
    loss = dc.DebiasedInfoNCELoss(0.2, dc.AutoTauPlus(warm_up=0))
    value = loss(x, y, u)
    value.backward()
    got = [z.grad.clone() for z in (x, y, u) if z.grad is not None]
    for z in (x, y, u):
        z.grad = None
    unit = torch.nn.functional.normalize
    logits, positive = unit(x) @ unit(u).T / 0.2, (unit(x) * unit(y)).sum(1) / 0.2
    statistics = from_logits(positive, logits, None, lower=-5.0, beta=0)
    tau_plus = (share_of(loss) * largest_tau_plus(statistics)).clamp(max=0.1)
    g = (logits.exp().mean(1) - tau_plus * positive.exp()) / (1 - tau_plus)
    samples = len(u) * (g / logits.exp().mean(1)).detach()
    want = torch.nn.functional.softplus(logits.logsumexp(1) - math.log(len(u)) + samples.log() - positive).mean()
    want.backward()
    assert value.item() == pytest.approx(want.item(), rel=1e-9)
    for z, grad in zip((x, y, u), got, strict=True):
        assert z.grad is not None
        assert torch.allclose(z.grad, grad, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("b", [3, 20, 127, 128, 129])
def test_every_batch_size_is_looked_at_in_both_directions(b: int) -> None:
    loss = dc.DebiasedInfoNCELoss(0.2, dc.AutoTauPlus(warm_up=0), symmetric=True)
    x, y, _ = batches(1, b=b)[0]
    assert loss(x, y).isfinite()
    assert dc.DebiasedNTXentLoss(0.2, dc.AutoTauPlus(warm_up=0))(x, y).isfinite()


def test_what_untrained_embeddings_say_is_forgotten() -> None:
    first, rest = batches(20, b=40, seed=1), batches(3, b=40)
    collapsed = [(torch.ones_like(x), torch.ones_like(y), torch.ones_like(u)) for x, y, u in first]
    shares = []
    for before in (first, collapsed):
        loss = dc.DebiasedInfoNCELoss(0.2, dc.AutoTauPlus(warm_up=20))
        for batch in [*before, *rest]:
            loss(*batch)
        shares.append(share_of(loss))
    assert shares[0] == shares[1]


@pytest.mark.parametrize(("arguments", "line"), [
    ({"prior": 0.0}, r"prior must lie in \(0, 1\); got 0.0"),
    ({"prior": "0.1"}, r"prior must lie in \(0, 1\); got '0.1'"),
    ({"prior": 10}, r"prior must lie in \(0, 1\); got 10"),
    ({"warm_up": -1}, r"warm_up must be a whole number of calls, at least 0; got -1"),
    ({"warm_up": 2.5}, r"warm_up must be a whole number of calls, at least 0; got 2.5"),
])  # fmt: skip
def test_bad_settings_get_one_line(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        dc.AutoTauPlus(**arguments)


def test_a_wrong_word_gets_one_line() -> None:
    with pytest.raises(ValueError, match=r"tau_plus must be a number in \[0, 1\), .* or 'auto'; got 'Auto'"):
        dc.DebiasedNTXentLoss(0.5, "Auto")  # type: ignore[arg-type]
    assert "AutoTauPlus(prior=0.1, warm_up=100)" in str(dc.DebiasedNTXentLoss(0.5, "auto"))


@pytest.mark.parametrize("t", TEMPERATURES)
def test_it_is_nearest_to_the_unbiased_loss_with_stand_ins(t: float) -> None:
    record = compare(WORLDS[0], t)
    assert is_closer(record)
    assert record["auto"]["floored"] < 0.05
    kept = json.loads((RESULTS / f"ten-{t}.json").read_text())
    assert record["auto"]["loss"] == pytest.approx(kept["auto"]["loss"], rel=1e-3)


def test_the_results_hold_in_every_world_with_stand_ins() -> None:
    records = read_worlds(RESULTS)
    assert len(records) == len(WORLDS) * len(TEMPERATURES)
    for record in records:
        assert record["auto"]["floored"] < 0.05
        assert is_closer(record) or record["world"]["surrogate"] is None
