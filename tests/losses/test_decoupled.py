"""The modules with decoupled=True: equal to loops, and to the loss of which they are the argument of a softplus."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import debiased_contrastive as dc
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.objectives.checks import OnFloor
from tests.losses.cases import CASES, embeddings, knowledge, views
from tests.reference.batches import similarity
from tests.reference.equations import decoupled

KERNELS: tuple[Kernel, ...] = ("dense", "tiled")
kernels = pytest.mark.parametrize("kernel", KERNELS)
FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


@kernels
@settings(max_examples=40)
@given(
    b=st.integers(2, 6),
    num_views=st.integers(2, 4),
    temperature=st.sampled_from([0.07, 0.5]),
    tau_plus=st.sampled_from([0.0, 0.003, 0.37]),
    beta=st.sampled_from([0.0, 1.0]),
    on_floor=st.sampled_from(FLOORS),
    seed=st.integers(0, 99),
)
def test_nt_xent_equals_the_loop(
    kernel: Kernel,
    b: int,
    num_views: int,
    temperature: float,
    tau_plus: float,
    beta: float,
    on_floor: OnFloor,
    seed: int,
) -> None:
    z = views(b, 4, num_views, seed=seed)
    loss = dc.DebiasedNTXentLoss(
        temperature, tau_plus, beta=beta, on_floor=on_floor, decoupled=True, kernel=kernel, reduction="none"
    )
    rows = [view.tolist() for view in z]
    want = []
    for k in (0, 1):
        for i in range(b):
            s = [[similarity(rows[k][i], other, temperature, True) for other in view] for view in rows]
            unlabeled = [s[w][j] for w in (0, 1) for j in range(b) if j != i]
            positives = [s[w][i] for w in range(num_views) if w != k]
            want.append(decoupled(s[1 - k][i], unlabeled, positives, tau_plus, -1 / temperature, on_floor, beta))
    torch.testing.assert_close(loss(*z), torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@kernels
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.settings.get("attraction")])
def test_of_every_call_the_coupled_loss_is_the_softplus(name: str, kernel: Kernel) -> None:
    case = CASES[name]
    changes: dict[str, Any] = {"kernel": kernel, "reduction": "none"}
    if not case.settings.get("normalize", True):
        changes["on_floor"] = "cap_tau"  # the floor 0 is refused
    coupled = case.loss(*case.inputs, **changes)
    alone = case.loss(*case.inputs, decoupled=True, **changes)
    torch.testing.assert_close(F.softplus(alone), coupled, rtol=1e-9, atol=1e-12)
    inputs = [z for z in case.inputs if z.requires_grad]
    got = torch.autograd.grad((alone.sigmoid().detach() * alone).sum(), inputs)
    for g, w in zip(got, torch.autograd.grad(coupled.sum(), inputs), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-7, atol=1e-12)


@kernels
def test_with_attraction_the_numerator_is_the_mean_of_the_mates(kernel: Kernel) -> None:
    z = views(6, 4, 2)
    p = knowledge(6, seed=1)[0]
    loss = dc.DebiasedNTXentLoss(
        0.3, attraction=0.5, attraction_above=0.2, decoupled=True, kernel=kernel, reduction="none"
    )
    both = F.normalize(torch.cat(z), dim=1)
    e, q = both @ both.T / 0.3, (p @ p.T).repeat(2, 2)
    want = []
    for i in range(12):
        others = [j for j in range(12) if j % 6 != i % 6]
        w = torch.stack([1 - q[i, j] for j in others])
        g = (w * e[i, others].exp()).sum() / w.sum()
        mates = [j for j in others if q[i, j] > 0.2]
        total = 1 + 0.5 * q[i, mates].sum()
        mean = (e[i, (i + 6) % 12] + 0.5 * (q[i, mates] * e[i, mates]).sum()) / total
        want.append((10 * g).log() - mean)
    torch.testing.assert_close(loss(*z, membership=p), torch.stack(want))


@kernels
@pytest.mark.parametrize("where", ["batch", "queue"])
def test_one_positive_with_tau_plus_of_one_in_n_plus_1_is_decoupled(kernel: Kernel, where: str) -> None:
    """Off the floor the debiased loss at tau_plus = 1/(N + 1) is the decoupled one and a constant, log(1 + 1/N)."""
    query, key = views(8, 4, 2, noise=3.0)
    negatives, n = (None, 7) if where == "batch" else (embeddings(20, 4, seed=5), 20)
    loss = dc.DebiasedInfoNCELoss(1.0, 1 / (n + 1), kernel=kernel, reduction="none")
    debiased = loss(query, key, negatives)
    assert loss.diagnostics.floored == 0
    loss.decoupled, loss.tau_plus = True, 0.0
    alone = loss(query, key, negatives)
    torch.testing.assert_close(debiased, alone + math.log(1 + 1 / n))
    for got, want in zip(
        *(torch.autograd.grad(each.sum(), (query, key)) for each in (debiased, alone)), strict=True
    ):
        torch.testing.assert_close(got, want)


@kernels
@pytest.mark.parametrize("tau_plus", [0.0, 0.05, 0.9])  # none, off the floor, on it
def test_gradcheck(kernel: Kernel, tau_plus: float) -> None:
    query, key, hard = *views(4, 3, 2), embeddings(4, 2, 3, seed=3)
    loss = dc.DebiasedInfoNCELoss(0.5, tau_plus, symmetric=True, decoupled=True, beta=0.7, kernel=kernel)
    assert torch.autograd.gradcheck(lambda q, k, h: loss(q, k, hard_negatives=h), (query, key, hard))


def test_against_banks() -> None:
    query, bank = views(3, 4, 1)[0], F.normalize(embeddings(9, 4, seed=2).detach(), dim=1)
    places = torch.arange(15).view(3, 5) % 9
    call: dict[str, Any] = {"ids": torch.arange(3), "places": places}
    coupled, alone = (
        dc.DebiasedBankLoss(0.5, 0.05, decoupled=word, reduction="none")([query], [bank], **call)
        for word in (False, True)
    )
    torch.testing.assert_close(F.softplus(alone), coupled)


def test_the_biased_loss_of_a_call_is_decoupled_too() -> None:
    z = views(8, 5, 2)
    loss, biased = (dc.DebiasedNTXentLoss(0.5, tau_plus, decoupled=True) for tau_plus in (0.1, 0.0))
    assert loss(*z) < biased(*z)
    assert loss.biased_loss == biased(*z).item()
    loss.decoupled = False
    assert loss.biased_loss == biased(*z).item(), "it is of the last call"


def test_an_automatic_tau_plus_goes_with_it() -> None:
    z = views(20, 6, 2)
    coupled, alone = (
        dc.DebiasedNTXentLoss(
            0.2, dc.AutoTauPlus(0.2, warm_up=0), decoupled=word, normalize=False, reduction="none"
        )(*z)
        for word in (False, True)
    )
    torch.testing.assert_close(F.softplus(alone), coupled)


@kernels
def test_an_anchor_without_samples_has_loss_0(kernel: Kernel) -> None:
    query, key = views(4, 3, 2)
    exclude = torch.zeros(4, 4, dtype=torch.bool)
    exclude[1] = True
    loss = dc.DebiasedInfoNCELoss(0.2, 0.0, decoupled=True, kernel=kernel, reduction="none")
    with pytest.warns(UserWarning, match="leave 1 of 4 anchors"):
        losses = loss(query, key, exclude=exclude)
    assert losses[1] == 0
    torch.testing.assert_close(losses[[0, 2, 3]], loss(query, key)[[0, 2, 3]])
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(losses.sum(), (query, key)))


@pytest.mark.parametrize("on_floor", ["clamp", "smooth"])
def test_the_floor_0_is_refused(on_floor: OnFloor) -> None:
    with pytest.raises(
        ValueError, match=f"decoupled=True with normalize=False and on_floor='{on_floor}' has loss minus"
    ):
        dc.DebiasedInfoNCELoss(0.2, 0.1, decoupled=True, normalize=False, on_floor=on_floor)
    fits: list[dict[str, Any]] = [{"tau_plus": 0.0}, {"relative_floor": 0.1}, {"on_floor": "cap_tau"}]
    for fine in fits:
        dc.DebiasedInfoNCELoss(**{"decoupled": True, "normalize": False, "on_floor": on_floor, **fine})
