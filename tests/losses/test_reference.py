"""Both modules equal loops over lists of vectors, for every option, and the relations between them hold."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import debiased_contrastive as dc
from debiased_contrastive.kernels.log_mean import Kernel
from debiased_contrastive.objectives.checks import OnFloor
from tests.losses.cases import embeddings, views
from tests.reference import batches

KERNELS: tuple[Kernel, ...] = ("dense", "tiled")
FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


def lists(*tensors: Tensor) -> list[Any]:
    return [tensor.tolist() for tensor in tensors]


def check(got: Tensor, want: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=60)
@given(
    b=st.integers(2, 6),
    num_views=st.integers(2, 4),
    temperature=st.sampled_from([0.02, 0.07, 0.2, 0.5, 1.0]),
    tau_plus=st.sampled_from([0.0, 0.003, 0.1, 0.37]),
    beta=st.sampled_from([0.0, 1.0]),
    on_floor=st.sampled_from(FLOORS),
    normalize=st.booleans(),
    every_positive=st.booleans(),
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
    normalize: bool,
    every_positive: bool,
    seed: int,
) -> None:
    z = views(b, 4, num_views, seed=seed)
    loss = dc.DebiasedNTXentLoss(
        temperature,
        tau_plus,
        on_floor=on_floor,
        beta=beta,
        normalize=normalize,
        kernel=kernel,
        reduction="none",
    )
    if not normalize:
        z = tuple(0.1 * view for view in z)  # a loop in linear space overflows beyond e^709
    want = batches.nt_xent(
        lists(*z),
        temperature,
        [tau_plus] * b,
        normalize=normalize,
        on_floor=on_floor,
        beta=beta,
        every_positive=every_positive,
    )
    check(loss(*z, every_positive=every_positive), want)


def test_the_biased_loss_with_every_view_as_a_positive_is_a_mean_of_softplus() -> None:
    z = views(5, 4, 4, seed=1)
    loss = dc.DebiasedNTXentLoss(0.5, 0.0)
    unit = torch.stack(z).double()
    unit = unit / unit.norm(dim=-1, keepdim=True)
    terms = []
    for k in (0, 1):
        for i in range(5):
            others = torch.cat([unit[0][torch.arange(5) != i], unit[1][torch.arange(5) != i]])
            log_sum = (others @ unit[k, i] / 0.5).logsumexp(0)
            terms += [
                torch.nn.functional.softplus(log_sum - unit[w, i] @ unit[k, i] / 0.5) for w in range(4) if w != k
            ]
    torch.testing.assert_close(loss(*z, every_positive=True), torch.stack(terms).mean())
    # Two views have one positive each, so nothing changes, bit for bit.
    assert torch.equal(loss(z[0], z[1], every_positive=True), loss(z[0], z[1]))
    with pytest.raises(ValueError, match="every_positive and attraction both add positives"):
        loss(*z, membership=torch.eye(5, dtype=torch.float64), attraction=0.1, every_positive=True)


@pytest.mark.parametrize("kernel", KERNELS)
def test_nt_xent_with_labels_per_input_tau_and_known_positives(kernel: Kernel) -> None:
    z = views(7, 4, 3)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    known = torch.tensor([0, -1, 2, 0, 1, -1, -1])  # 2 and 1 have no partner, two are unknown
    taus = torch.linspace(0, 0.4, 7, dtype=torch.float64)
    loss = dc.DebiasedNTXentLoss(0.3, 0.2, kernel=kernel, reduction="none")
    check(loss(*z, labels=labels), batches.nt_xent(lists(*z), 0.3, [0.2] * 7, labels=labels.tolist()))
    hard = dc.DebiasedNTXentLoss(0.3, 0.2, beta=0.8, kernel=kernel, reduction="none")
    check(hard(*z, labels=labels), batches.nt_xent(lists(*z), 0.3, [0.2] * 7, beta=0.8, labels=labels.tolist()))
    check(loss(*z, tau_plus=taus), batches.nt_xent(lists(*z), 0.3, taus.tolist()))
    want = batches.nt_xent(lists(*z), 0.3, [0.2] * 7, positive_labels=known.tolist())
    check(loss(*z, positive_labels=known), want)
    assert loss.diagnostics.num_positives == pytest.approx((2 * 2 + 5 * 2) / 7)


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=40)
@given(
    b=st.integers(2, 5),
    temperature=st.sampled_from([0.02, 0.1, 0.5]),
    tau_plus=st.sampled_from([0.0, 0.01, 0.2]),
    beta=st.sampled_from([0.0, 1.0]),
    on_floor=st.sampled_from(FLOORS),
    extra=st.integers(0, 2),
    where=st.sampled_from(["batch", "queue", "bank"]),
    seed=st.integers(0, 99),
)
def test_info_nce_equals_the_loop(
    kernel: Kernel,
    b: int,
    temperature: float,
    tau_plus: float,
    beta: float,
    on_floor: OnFloor,
    extra: int,
    where: str,
    seed: int,
) -> None:
    query, key = views(b, 4, 2, seed=seed)
    loss = dc.DebiasedInfoNCELoss(
        temperature, tau_plus, on_floor=on_floor, beta=beta, kernel=kernel, reduction="none"
    )
    more = embeddings(b, extra, 4, seed=seed + 7) if extra else None
    negatives = {"batch": None, "queue": embeddings(6, 4, seed=3), "bank": embeddings(b, 5, 4, seed=3)}[where]
    rows = None if negatives is None else (negatives.expand(b, -1, -1) if where == "queue" else negatives)
    want = batches.info_nce(
        query.tolist(),
        key.tolist(),
        temperature,
        [tau_plus] * b,
        negatives=None if rows is None else rows.tolist(),
        extra_keys=None if more is None else more.tolist(),
        on_floor=on_floor,
        beta=beta,
    )
    check(loss(query, key, negatives, extra_keys=more), want)


@pytest.mark.parametrize("kernel", KERNELS)
def test_info_nce_with_labels_and_ids(kernel: Kernel) -> None:
    query, key = views(4, 3, 2)
    queue, bank = embeddings(6, 3, seed=3), embeddings(4, 5, 3, seed=4)
    labels, ids = torch.tensor([0, 1, 0, 2]), torch.tensor([10, 11, -1, 13])
    queue_labels, queue_ids = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([13, 10, 10, -1, 11, 77])
    bank_labels = torch.arange(20).view(4, 5) % 3
    bank_ids = torch.tensor([10, 11, -1, 13, 10]).repeat(4, 1)
    loss = dc.DebiasedInfoNCELoss(0.2, 0.1, kernel=kernel, reduction="none")
    tau = [0.1] * 4
    q, k = lists(query, key)
    check(loss(query, key, labels=labels), batches.info_nce(q, k, 0.2, tau, labels=labels.tolist()))
    # The same sample twice in a batch, and an anchor whose id nobody knows.
    twice = torch.tensor([5, 5, -1, -1])
    check(loss(query, key, ids=twice), batches.info_nce(q, k, 0.2, tau, ids=twice.tolist()))
    for negatives, of_labels, of_ids in ((queue, queue_labels, queue_ids), (bank, bank_labels, bank_ids)):
        rows = negatives if negatives.dim() == 3 else negatives.expand(4, -1, -1)
        reference: dict[str, Any] = {
            "negatives": rows.tolist(),
            "ids": ids.tolist(),
            "negative_ids": of_ids.expand(rows.shape[:2]).tolist(),
        }
        got = loss(query, key, negatives, ids=ids, negative_ids=of_ids)
        check(got, batches.info_nce(q, k, 0.2, tau, **reference))
        reference |= {"labels": labels.tolist(), "negative_labels": of_labels.expand(rows.shape[:2]).tolist()}
        got = loss(query, key, negatives, ids=ids, negative_ids=of_ids, labels=labels, negative_labels=of_labels)
        check(got, batches.info_nce(q, k, 0.2, tau, **reference))


@pytest.mark.parametrize("kernel", KERNELS)
def test_symmetric_is_both_directions(kernel: Kernel) -> None:
    query, key = views(5, 3, 2)
    extra = embeddings(5, 2, 3, seed=8)
    labels = torch.tensor([0, 0, 1, 2, 1])
    taus = torch.linspace(0, 0.3, 5, dtype=torch.float64)
    one = dc.DebiasedInfoNCELoss(0.2, 0.1, kernel=kernel, reduction="none")
    both = dc.DebiasedInfoNCELoss(0.2, 0.1, symmetric=True, kernel=kernel, reduction="none")
    for rest in ({}, {"labels": labels}, {"tau_plus": taus}, {"ids": labels}):
        want = torch.cat([one(query, key, **rest), one(key, query, **rest)])
        torch.testing.assert_close(both(query, key, **rest), want)
    want = torch.cat([one(query, key, extra_keys=extra), one(key, query)])
    torch.testing.assert_close(both(query, key, extra_keys=extra), want)
    mean = dc.DebiasedInfoNCELoss(0.2, 0.1, symmetric=True)(query, key)
    torch.testing.assert_close(mean, (one(query, key).mean() + one(key, query).mean()) / 2)


def test_without_tau_plus_they_are_cross_entropies() -> None:
    """NT-Xent as a cross entropy over 2b - 1 logits; InfoNCE over b, as CLIP writes it."""
    z0, z1 = views(6, 4, 2)
    z = torch.nn.functional.normalize(torch.cat([z0, z1]), dim=1)
    logits = (z @ z.T / 0.5).fill_diagonal_(-torch.inf)
    partner = torch.arange(12).roll(6)
    want = torch.nn.functional.cross_entropy(logits, partner)
    torch.testing.assert_close(dc.DebiasedNTXentLoss(0.5, tau_plus=0.0)(z0, z1), want)
    logits = z[:6] @ z[6:].T / 0.1
    clip = torch.nn.functional.cross_entropy(logits, torch.arange(6))
    clip = (clip + torch.nn.functional.cross_entropy(logits.T, torch.arange(6))) / 2
    torch.testing.assert_close(dc.DebiasedInfoNCELoss(0.1, 0.0, symmetric=True)(z0, z1), clip)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_known_positives_of_all_with_their_own_share_are_the_unbiased_oracle(kernel: Kernel, seed: int) -> None:
    z = views(12, 4, 2, seed=seed)
    labels = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3])  # the last has nobody
    share = (labels[:, None] == labels).sum(1) - 1
    loss = dc.DebiasedNTXentLoss(0.5, kernel=kernel, reduction="none")
    semi = loss(*z, positive_labels=labels, tau_plus=share.double() / 11)
    assert loss.diagnostics.floored == 0
    torch.testing.assert_close(semi, loss(*z, labels=labels), rtol=1e-10, atol=1e-10)


def test_the_unbiased_oracle_is_masking_with_n_kept() -> None:
    z0, z1 = views(6, 4, 2)
    labels = torch.tensor([0, 1, 0, 1, 2, 2])
    z = torch.nn.functional.normalize(torch.cat([z0, z1]), dim=1)
    logits = z @ z.T / 0.5
    twice = labels.repeat(2)
    masked = logits.masked_fill(twice[:, None] == twice, -torch.inf)
    present = (masked > -torch.inf).sum(1)
    positive = logits[torch.arange(12), torch.arange(12).roll(6)]
    # contrastive_loss counts the present samples; Eq. 2 keeps N = 10.
    counted = dc.contrastive_loss(positive, masked, reduction="none")
    want = torch.log1p(counted.expm1() * 10 / present)
    torch.testing.assert_close(dc.DebiasedNTXentLoss(0.5, reduction="none")(z0, z1, labels=labels), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("temperature", "tau_plus"), [(0.5, 0.1), (0.07, 0.0005), (0.05, 0.0002)])
def test_half_precision_embeddings_lose_only_their_own_rounding(
    dtype: torch.dtype, temperature: float, tau_plus: float
) -> None:
    z = [view.detach().to(dtype).requires_grad_() for view in views(64, 32, 2)]
    exact = [view.detach().double().requires_grad_() for view in z]
    loss = dc.DebiasedNTXentLoss(temperature, tau_plus, kernel="tiled")
    got, want = loss(*z), loss(*exact)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
    d_got, d_want = torch.autograd.grad(got, z), torch.autograd.grad(want, exact)
    for g, w in zip(d_got, d_want, strict=True):
        assert g.dtype == dtype
        assert (g.double() - w).norm() < 1e-2 * w.norm()


@pytest.mark.parametrize(("temperature", "tau_plus"), [(0.5, 0.1), (0.1, 0.002), (0.07, 0.002), (0.07, 0.0005)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_is_accurate_at_low_temperature(kernel: Kernel, temperature: float, tau_plus: float) -> None:
    exact = [view.detach().requires_grad_() for view in views(128, 64, 2)]
    z = [view.detach().float().requires_grad_() for view in exact]
    loss = dc.DebiasedNTXentLoss(temperature, tau_plus, kernel=kernel)
    d_got, d_want = torch.autograd.grad(loss(*z), z), torch.autograd.grad(loss(*exact), exact)
    for g, w in zip(d_got, d_want, strict=True):
        assert (g.double() - w).norm() < 5e-6 * w.norm()
