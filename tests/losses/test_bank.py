"""The loss against banks is that of its rows, by loops, with the gradient of rows that were looked up."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import debiased_contrastive as dc
from debiased_contrastive.objectives.checks import OnFloor
from tests.reference import equations

ON_FLOOR: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


def drawn(b: int, n: int, k: int, d: int, views: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    banks = [F.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1) for _ in range(views)]
    ids = torch.randperm(n, generator=generator)[:b]
    queries = [bank[ids] + 0.4 * torch.randn(b, d, generator=generator, dtype=torch.float64) for bank in banks]
    places = torch.randint(n, (b, k), generator=generator)
    return {"queries": queries, "banks": banks, "ids": ids, "places": places}


@settings(max_examples=50, deadline=None)
@given(
    b=st.integers(1, 5),
    k=st.integers(1, 8),
    views=st.integers(1, 2),
    temperature=st.sampled_from([0.07, 0.5]),
    tau_plus=st.sampled_from([0.0, 0.01, 0.3]),
    on_floor=st.sampled_from(ON_FLOOR),
    seed=st.integers(0, 99),
)
def test_the_loss_by_loops(
    b: int, k: int, views: int, temperature: float, tau_plus: float, on_floor: OnFloor, seed: int
) -> None:
    given_ = drawn(b, 9, k, 3, views, seed)
    loss = dc.DebiasedBankLoss(temperature, tau_plus, on_floor=on_floor, reduction="none")
    found = loss(**given_).tolist()
    expected = []
    for i, own in enumerate(given_["ids"].tolist()):
        for query, bank in zip(given_["queries"], given_["banks"], strict=True):
            logits = (bank @ F.normalize(query[i], dim=0) / temperature).tolist()
            unlabeled = [logits[place] for place in given_["places"][i].tolist()]
            expected.append(
                equations.debiased(logits[own], unlabeled, [logits[own]], tau_plus, -1 / temperature, on_floor)
            )
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("exclude_own", [False, True])
@pytest.mark.parametrize("tau_plus", [0.0, 0.05])
def test_it_is_info_nce_with_rows_looked_up(exclude_own: bool, tau_plus: float) -> None:
    given_ = drawn(6, 8, 20, 4, 1, seed=1)
    query = given_["queries"][0].requires_grad_()
    bank, ids, places = given_["banks"][0], given_["ids"], given_["places"]
    assert bool((places == ids.unsqueeze(1)).any())
    own = {"ids": ids, "negative_ids": places} if exclude_own else {}
    expected = dc.DebiasedInfoNCELoss(0.2, tau_plus, on_floor="biased")(query, bank[ids], bank[places], **own)
    found = dc.DebiasedBankLoss(0.2, tau_plus, exclude_own=exclude_own)([query], [bank], ids=ids, places=places)
    assert torch.allclose(found, expected, atol=1e-12)
    ours, theirs = (torch.autograd.grad(value, query)[0] for value in (found, expected))
    assert torch.allclose(ours, theirs, atol=1e-12)


def test_no_gradient_reaches_a_bank() -> None:
    given_ = drawn(4, 9, 12, 3, 1, seed=5)
    bank, query = given_["banks"][0].requires_grad_(), given_["queries"][0].requires_grad_()
    dc.DebiasedBankLoss(0.3, 0.02)(**given_).backward()
    assert bank.grad is None
    assert query.grad is not None


def test_two_views_are_anchors_of_one_loss() -> None:
    given_ = drawn(4, 9, 12, 3, 2, seed=2)
    loss = dc.DebiasedBankLoss(0.3, 0.02)
    both = loss(**given_)
    assert loss.diagnostics.num_unlabeled == 12
    alone = [
        loss([query], [bank], ids=given_["ids"], places=given_["places"])
        for query, bank in zip(given_["queries"], given_["banks"], strict=True)
    ]
    assert torch.allclose(both, sum(alone) / 2)


def test_each_pair_may_have_its_own_tau_plus() -> None:
    given_ = drawn(3, 9, 12, 3, 2, seed=3)
    tau_plus = torch.tensor([0.0, 0.01, 0.02])
    found = dc.DebiasedBankLoss(0.3, tau_plus, reduction="none")(**given_).view(3, 2)
    for i, one in enumerate(tau_plus.tolist()):
        expected = dc.DebiasedBankLoss(0.3, one, reduction="none")(**given_).view(3, 2)
        assert torch.allclose(found[i], expected[i])


def test_an_automatic_tau_plus_sees_both_views() -> None:
    loss = dc.DebiasedBankLoss(0.2, dc.AutoTauPlus(0.1, warm_up=0))
    loss(**drawn(8, 30, 40, 4, 2, seed=4))
    assert 0 < loss.diagnostics.tau_plus < 0.1
    assert loss.diagnostics.floored == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": [], "banks": []}, "each view needs the bank of another; got 0 views and 0 banks"),
        ({"banks": [torch.eye(9, 3)]}, r"banks\[0\] must be torch.float64 on cpu"),
        ({"banks": [torch.full((9, 3), 7.0, dtype=torch.float64)]}, r"banks\[0\] must hold unit vectors"),
        ({"banks": []}, "each view needs the bank of another; got 1 views and 0 banks"),
        ({"ids": torch.tensor([0, 9])}, r"ids must lie in 0\.\.8"),
        ({"places": torch.tensor([[0], [-1]])}, r"places must lie in 0\.\.8"),
        ({"places": torch.tensor([0, 1])}, r"places must have shape \(2, k\)"),
        ({"queries": [torch.full((2, 3), torch.nan)]}, r"queries\[0\] has NaN"),
        ({"queries": [torch.zeros(2, 4)]}, r"banks\[0\] must have shape"),
        ({"queries": torch.zeros(2, 3)}, "queries must be a list, one entry for each view; got a Tensor"),
        ({"banks": torch.eye(9, 3)}, "banks must be a list, one entry for each view; got a Tensor"),
        (
            {"banks": [dc.MemoryBank(9, 3, generator=torch.Generator())]},
            r"banks\[0\] must be a torch.Tensor; got MemoryBank",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dc.DebiasedBankLoss()(**{**drawn(2, 9, 4, 3, 1, seed=0), **change})


def test_an_anchor_that_meets_itself_alone_is_refused() -> None:
    given_ = drawn(2, 9, 4, 3, 1, seed=0)
    given_["places"] = given_["ids"].unsqueeze(1).expand(2, 4)
    with pytest.raises(ValueError, match="labels, ids and masks must leave some anchor an unlabeled sample"):
        dc.DebiasedBankLoss(exclude_own=True)(**given_)


SCRIPT = """
import ctypes, json, torch, debiased_contrastive as dc
torch.set_num_threads(1)

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024

def step(b):
    loss([z[:b] for z in queries], banks, ids=torch.arange(b), places=places[:b]).backward()

n, b, k, d = 126_689, 128, 16_384, 128
banks = [torch.nn.functional.normalize(torch.randn(n, d), dim=1) for _ in range(2)]
queries = [torch.randn(b, d, requires_grad=True) for _ in range(2)]
places = torch.randint(n, (b, k))
loss = dc.DebiasedBankLoss()
step(2)
ctypes.CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
step(b)
print(json.dumps(status("VmHWM") - before))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the peak from Linux's /proc")
def test_imagenet_100_with_16384_samples_needs_less_than_200_mib() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    # Logits of both views are 16 MiB; rows looked up would be 1 GiB for each.
    assert 16 < json.loads(run.stdout) < 200
