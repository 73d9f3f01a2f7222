"""Knowledge about classes in the losses: equal to loops, and the laws of soft membership hold."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import debiased_contrastive as dc
from debiased_contrastive.kernels.log_mean import Kernel
from tests.losses.cases import embeddings, knowledge, views
from tests.reference import knowledge as reference

KERNELS: tuple[Kernel, ...] = ("dense", "tiled")
kernels = pytest.mark.parametrize("kernel", KERNELS)


def check(got: Tensor, want: list[float] | Tensor) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def table(p: Tensor, codes: Tensor, w: Tensor, form: str) -> list[list[float]]:
    if form == "membership":
        return reference.of_membership(p.tolist(), p.tolist())
    if form == "partitions":
        return reference.of_partitions(codes.tolist(), codes.tolist())
    result: list[list[float]] = (1 - w).tolist()
    return result


@kernels
@settings(max_examples=60)
@given(
    b=st.integers(3, 7),
    form=st.sampled_from(["membership", "partitions", "weights"]),
    temperature=st.sampled_from([0.02, 0.2, 1.0]),
    strength=st.sampled_from([0.0, 0.4, 1.0, 1.7]),
    attraction=st.sampled_from([0.0, 0.5, 2.0]),
    above=st.sampled_from([0.0, 0.3, 1.0]),
    beta=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 99),
)
def test_nt_xent_equals_the_loop(
    kernel: Kernel,
    b: int,
    form: str,
    temperature: float,
    strength: float,
    attraction: float,
    above: float,
    beta: float,
    seed: int,
) -> None:
    z = views(b, 4, 2, seed=seed)
    p, codes, w = knowledge(b, seed=seed)
    known = {"membership": p, "partitions": codes, "weights": w}
    q = table(p, codes, w, form)
    loss = dc.DebiasedNTXentLoss(temperature, beta=beta, kernel=kernel, reduction="none")
    want = reference.nt_xent(
        [view.tolist() for view in z], q, temperature,
        strength=[strength] * b, attraction=attraction, above=above, beta=beta,
    )  # fmt: skip
    rest: dict[str, Any] = {"strength": strength, "attraction": attraction, "attraction_above": above}
    check(loss(*z, **{form: known[form]}, **rest), want)


@kernels
@pytest.mark.parametrize("normalize", [True, False])
def test_each_input_may_have_its_own_strength(kernel: Kernel, normalize: bool) -> None:
    z = tuple(0.3 * view for view in views(6, 4, 2))
    p, _, w = knowledge(6, seed=1)
    strength = torch.linspace(0, 1.2, 6, dtype=torch.float64)
    loss = dc.DebiasedNTXentLoss(0.3, normalize=normalize, kernel=kernel, reduction="none")
    for given_form, q in (({"membership": p}, p @ p.T), ({"weights": w}, 1 - w)):
        want = reference.nt_xent(
            [view.tolist() for view in z], q.tolist(), 0.3, strength=strength.tolist(), normalize=normalize
        )
        check(loss(*z, **given_form, strength=strength), want)


@kernels
@pytest.mark.parametrize("form", ["membership", "partitions", "weights"])
@pytest.mark.parametrize("where", ["batch", "queue", "own"])
def test_info_nce_equals_the_loop(kernel: Kernel, form: str, where: str) -> None:
    query, key = views(5, 4, 2)
    p, codes, w = knowledge(5, seed=2)
    own: dict[str, Tensor] = {"membership": p, "partitions": codes, "weights": w}
    q = table(p, codes, w, form)
    negatives: Tensor | None = None
    call: dict[str, Any] = {form: own[form]}
    if where != "batch":
        count = 7
        negatives = embeddings(count, 4, seed=3) if where == "queue" else embeddings(5, count, 4, seed=3)
        rows = 1 if where == "queue" else 5
        more = dict(zip(("membership", "partitions"), knowledge(rows * count, seed=4)[:2], strict=True))
        if form == "weights":
            call = {"weights": knowledge(5, count, seed=5)[2]}
            q = (1 - call["weights"]).tolist()
        else:
            of_rows = more[form].view(rows, count, -1)
            call[f"negative_{form}"] = of_rows[0] if where == "queue" else of_rows
            make = reference.of_membership if form == "membership" else reference.of_partitions
            q = [make([own[form][i].tolist()], of_rows[i % rows].tolist())[0] for i in range(5)]
    columns = None if negatives is None else negatives.expand(5, -1, -1).tolist()
    for rest in ({}, {"strength": 0.6, "attraction": 0.7, "attraction_above": 0.2}):
        words = {"strength": rest.get("strength", 1.0), "attraction": rest.get("attraction", 0.0)}
        want = reference.info_nce(
            query.tolist(), key.tolist(), columns, q, 0.2, **words, above=rest.get("attraction_above", 0.5)
        )
        loss = dc.DebiasedInfoNCELoss(0.2, kernel=kernel, reduction="none")
        check(loss(query, key, negatives, **call, **rest), want)


@kernels
def test_symmetric_is_both_directions(kernel: Kernel) -> None:
    query, key = views(6, 4, 2)
    p, codes, w = knowledge(6, seed=7)
    strength = torch.linspace(0.2, 1.0, 6, dtype=torch.float64)
    settings: dict[str, Any] = {"attraction": 0.5, "attraction_above": 0.2, "kernel": kernel, "reduction": "none"}
    one, both = dc.DebiasedInfoNCELoss(0.2, **settings), dc.DebiasedInfoNCELoss(0.2, symmetric=True, **settings)
    for rest in ({"membership": p}, {"partitions": codes}, {"weights": w}, {"membership": p, "strength": strength}):
        want = torch.cat([one(query, key, **rest), one(key, query, **rest)])
        torch.testing.assert_close(both(query, key, **rest), want)


@pytest.mark.parametrize("form", ["membership", "partitions", "weights"])
@pytest.mark.parametrize("exclude_own", [False, True])
def test_a_bank_equals_queries_with_their_own_negatives(form: str, exclude_own: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    bank = torch.nn.functional.normalize(torch.randn(9, 4, generator=generator, dtype=torch.float64), dim=1)
    ids, places = torch.tensor([0, 4, 2]), torch.randint(9, (3, 6), generator=generator)
    query = embeddings(3, 4, seed=1)
    p, codes, _ = knowledge(9, seed=2)
    w = knowledge(3, 6, seed=3)[2]
    of_bank: dict[str, Any] = {
        "membership": {"membership": p},
        "partitions": {"partitions": codes},
        "weights": {"weights": w},
    }
    of_batch: dict[str, Any] = {
        "membership": {"membership": p[ids], "negative_membership": p[places]},
        "partitions": {"partitions": codes[ids], "negative_partitions": codes[places]},
        "weights": {"weights": w},
    }
    own = {"ids": ids, "negative_ids": places} if exclude_own else {}
    rest: dict[str, Any] = {"strength": 0.8, "attraction": 0.5, "attraction_above": 0.2, "reduction": "none"}
    of_queries = dc.DebiasedInfoNCELoss(0.3, **rest)
    want = of_queries(query, bank[ids], bank[places], **of_batch[form], **own)
    loss = dc.DebiasedBankLoss(0.3, exclude_own=exclude_own, **rest)
    got = loss([query, query], [bank, bank], ids=ids, places=places, **of_bank[form])
    torch.testing.assert_close(got, want.repeat_interleave(2))
    for name in ("mean_q", "effective_number", "covariance", "entropy"):
        seen, wanted = getattr(loss.diagnostics, name), getattr(of_queries.diagnostics, name)
        assert (seen is None) == (wanted is None) == (name == "entropy" and form != "membership")
        assert seen is None or seen == pytest.approx(wanted)
    words = {name: rest.pop(name) for name in ("strength", "attraction", "attraction_above")}
    plain = dc.DebiasedBankLoss(0.3, exclude_own=exclude_own, **rest)
    torch.testing.assert_close(plain([query], [bank], ids=ids, places=places, **of_bank[form], **words), want)


# The laws; numbers are those of the identities that docs/membership.md lists.


@kernels
@settings(max_examples=40)
@given(b=st.integers(3, 12), t=st.sampled_from([0.01, 0.1, 0.5]), seed=st.integers(0, 999))
def test_law_1_it_is_the_papers_estimator_with_the_class_itself_as_positives(
    kernel: Kernel, b: int, t: float, seed: int
) -> None:
    """(E_u - tau_i E+) / (1 - tau_i) with tau_i = mean q and E+ = sum q e^s / sum q."""
    z = views(b, 4, 2, seed=seed)
    p = knowledge(b, seed=seed)[0]
    q, e, others = pairs(z, p @ p.T, t)
    tau = (q * others).sum(1) / others.sum(1)
    e_plus = (q * e * others).sum(1) / (q * others).sum(1).clamp(min=1e-300)
    g = ((e * others).sum(1) / others.sum(1) - tau * e_plus) / (1 - tau)
    torch.testing.assert_close(implied_g(kernel, t, z, membership=p), g, rtol=1e-7, atol=0)


@kernels
@settings(max_examples=40)
@given(
    b=st.integers(3, 12),
    t=st.sampled_from([0.1, 0.5]),
    strength=st.sampled_from([0.3, 1.0]),
    seed=st.integers(0, 999),
)
def test_law_2_g_is_the_mean_minus_a_covariance(
    kernel: Kernel, b: int, t: float, strength: float, seed: int
) -> None:
    z = views(b, 4, 2, seed=seed)
    p = knowledge(b, seed=seed)[0]
    q, e, others = pairs(z, strength * (p @ p.T), t)
    n = others.sum(1)
    mean_q, mean_e = (q * others).sum(1) / n, (e * others).sum(1) / n
    covariance = (q * e * others).sum(1) / n - mean_q * mean_e
    want = mean_e - covariance / (1 - mean_q)
    torch.testing.assert_close(implied_g(kernel, t, z, membership=p, strength=strength), want, rtol=1e-8, atol=0)


@pytest.mark.filterwarnings("ignore:labels, ids, masks or weights leave")
@kernels
@settings(max_examples=60)
@given(
    b=st.integers(2, 12), t=st.sampled_from([0.005, 0.05, 0.5]), sure=st.sampled_from([0.0, 1e-9, 1e-4, 0.5]),
    dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 999),
)  # fmt: skip
def test_law_3_g_lies_between_the_samples_at_any_temperature(
    kernel: Kernel, b: int, t: float, sure: float, dtype: torch.dtype, seed: int
) -> None:
    """Without a floor, also where nearly all samples are nearly surely of the anchor's class."""
    z = tuple(view.detach().to(dtype) for view in views(b, 4, 2, seed=seed))
    p = torch.full((b, 2), sure, dtype=dtype)
    p[:, 0] = 1 - p[:, 1] - sure * torch.rand(b, generator=torch.Generator().manual_seed(seed)).to(dtype)
    p.clamp_(0, 1)
    loss = dc.DebiasedNTXentLoss(t, kernel=kernel, reduction="none")
    loss(*z, membership=p)
    assert loss._record is not None
    statistics = loss._record.statistics
    flat = torch.nn.functional.normalize(torch.stack(z, 1).flatten(0, 1).double(), dim=1)
    image = torch.arange(2 * b) // 2
    logits = (flat @ flat.T / t).masked_fill(image[:, None] == image, math.nan)
    low, high = (
        getattr(logits.nan_to_num(nan=bad), f"a{end}")(1) for bad, end in ((math.inf, "min"), (-math.inf, "max"))
    )
    there = torch.as_tensor(statistics.num_unlabeled).expand(2 * b) > 0
    margin = 2e-6 / t if dtype == torch.float32 else 1e-9 / t
    log_g = statistics.log_mean_unlabeled.double()
    assert ((log_g >= low - margin) & (log_g <= high + margin))[there].all()


@kernels
@settings(max_examples=30)
@given(b=st.integers(4, 12), t=st.sampled_from([0.05, 0.5]), seed=st.integers(0, 999))
def test_law_4_one_hot_is_the_oracle_equal_rows_are_biased_columns_may_be_permuted(
    kernel: Kernel, b: int, t: float, seed: int
) -> None:
    z = views(b, 4, 2, seed=seed)
    labels = torch.randint(3, (b,), generator=torch.Generator().manual_seed(seed))
    labels[:2] = torch.tensor([0, 1])
    loss = dc.DebiasedNTXentLoss(t, kernel=kernel, reduction="none")
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    oracle = loss(*z, labels=labels)
    same = (labels[:, None] == labels).double()
    for known in ({"membership": one_hot}, {"partitions": labels[:, None]}, {"weights": 1 - same}):
        torch.testing.assert_close(loss(*z, **known), oracle, rtol=1e-12, atol=1e-12)
    biased = loss(*z, tau_plus=0.0)
    equal_rows = torch.tensor([0.2, 0.5, 0.1], dtype=torch.float64).expand(b, 3)
    torch.testing.assert_close(loss(*z, membership=equal_rows), biased, rtol=1e-10, atol=1e-10)
    p = knowledge(b, seed=seed)[0]
    torch.testing.assert_close(loss(*z, membership=p), loss(*z, membership=p[:, [2, 0, 1]]), rtol=1e-12, atol=1e-12)
    for known in ({"membership": p}, {"partitions": labels[:, None]}, {"weights": 1 - same}):
        assert torch.equal(loss(*z, **known, strength=0.0), biased), "bit for bit"


@kernels
@settings(max_examples=30)
@given(b=st.integers(3, 10), rho=st.floats(0, 0.4), pi=st.floats(0.5, 1.0), seed=st.integers(0, 999))
def test_law_5_a_calibration_that_knows_no_class_is_a_strength(
    kernel: Kernel, b: int, rho: float, pi: float, seed: int
) -> None:
    z = views(b, 4, 2, seed=seed)
    p = knowledge(b, seed=seed)[0]
    loss = dc.DebiasedNTXentLoss(0.3, kernel=kernel, reduction="none")
    calibrated = rho + (pi - rho) * (p @ p.T)
    got = loss(*z, membership=p, strength=(pi - rho) / (1 - rho))
    torch.testing.assert_close(got, loss(*z, weights=1 - calibrated), rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(k=st.integers(2, 6), copies=st.integers(2, 4), sharpness=st.floats(0, 1))
def test_law_6_a_balanced_membership_has_the_same_mean_at_every_sharpness(
    k: int, copies: int, sharpness: float
) -> None:
    """Mean q is 1/k over all samples, the anchor with itself included."""
    sharp = torch.eye(k, dtype=torch.float64).repeat(copies, 1)
    p = sharpness * sharp + (1 - sharpness) / k
    torch.testing.assert_close((p @ p.T).mean(1), torch.full((k * copies,), 1 / k, dtype=torch.float64))


@kernels
def test_gradients_are_those_of_the_weighted_softmax_and_knowledge_has_none(kernel: Kernel) -> None:
    """d/ds+ = -sigma, d/ds_ij = sigma pi_ij, of each anchor."""
    query, key, queue = *views(4, 5, 2), embeddings(6, 5, seed=2)
    p = knowledge(4, seed=1)[0].requires_grad_()
    of_queue = knowledge(6, seed=2)[0]
    loss = dc.DebiasedInfoNCELoss(0.3, normalize=False, kernel=kernel, reduction="sum")
    value = loss(query, key, queue, membership=p, negative_membership=of_queue)
    d_key, d_queue = torch.autograd.grad(value, (key, queue), retain_graph=True)
    (of_knowledge,) = torch.autograd.grad(value, (p,), allow_unused=True)
    assert of_knowledge is None
    logits, positive = query @ queue.T / 0.3, (query * key).sum(1) / 0.3
    w = 1 - p @ of_queue.T
    pi = w * logits.exp() / (w * logits.exp()).sum(1, keepdim=True)
    g = (w * logits.exp()).sum(1) / w.sum(1)
    sigma = 6 * g / (positive.exp() + 6 * g)
    torch.testing.assert_close(d_key, -sigma[:, None] * query / 0.3)
    torch.testing.assert_close(d_queue, (sigma[:, None] * pi).T @ query / 0.3)


@kernels
@pytest.mark.parametrize("share_known", [1.0, 0.6])
def test_attraction_without_elimination_is_supcon(kernel: Kernel, share_known: float) -> None:
    """Khosla et al. (2020), L_out: the mean over all mates of the log-softmax; unknown samples have their view alone."""
    b, t = 10, 0.3
    z = views(b, 6, 2)
    labels = torch.arange(b) % 3
    labels[torch.arange(b) >= share_known * b] = -1
    known = torch.nn.functional.one_hot(labels.clamp(min=0), 3).double() * (labels >= 0)[:, None]
    flat = torch.nn.functional.normalize(torch.cat(z), dim=1)
    logits = (flat @ flat.T / t).masked_fill(torch.eye(2 * b, dtype=torch.bool), -math.inf)
    log_prob = logits.log_softmax(1)
    of_anchor = labels.repeat(2)
    mates = (of_anchor[:, None] == of_anchor) & (of_anchor >= 0)[:, None]
    mates |= torch.arange(2 * b)[:, None] % b == torch.arange(2 * b) % b
    mates &= ~torch.eye(2 * b, dtype=torch.bool)
    want = -torch.where(mates, log_prob, 0.0).sum(1) / mates.sum(1)
    loss = dc.DebiasedNTXentLoss(t, strength=0.0, attraction=1.0, kernel=kernel, reduction="none")
    torch.testing.assert_close(loss(*z, membership=known), want, rtol=1e-12, atol=1e-12)
    got, wanted = (
        torch.autograd.grad(each.mean(), z[0], retain_graph=True)[0] for each in (loss(*z, membership=known), want)
    )
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


@kernels
@settings(max_examples=40)
@given(
    b=st.integers(3, 10), t=st.sampled_from([0.05, 0.5]), strength=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    attraction=st.sampled_from([0.1, 0.5, 1.0, 3.0]), seed=st.integers(0, 999),
)  # fmt: skip
def test_attraction_is_a_cross_entropy_so_it_is_bounded_from_below(
    kernel: Kernel, b: int, t: float, strength: float, attraction: float, seed: int
) -> None:
    """Never below the log of all targets together: no anchor gains by pushing its own positive away."""
    z = views(b, 4, 2, seed=seed)
    p = knowledge(b, seed=seed)[0]
    loss = dc.DebiasedNTXentLoss(t, strength=strength, attraction=attraction, kernel=kernel, reduction="none")
    q, _, others = pairs(z, p @ p.T, t)
    targets = 1 + attraction * torch.where(q > 0.5, q, 0.0).mul(others).sum(1)
    losses = loss(*z, membership=p, attraction_above=0.5)
    assert (losses >= targets.log() - 1e-9).all()


def test_with_all_labels_and_attraction_views_and_mates_come_together() -> None:
    """Trained by the loss alone, at full strength: own views end as near to each other as mates do."""
    torch.manual_seed(0)
    labels = torch.arange(24) % 3
    known = torch.nn.functional.one_hot(labels, 3).float()
    z = torch.nn.Parameter(torch.randn(2, 24, 8))
    loss, optimiser = dc.DebiasedNTXentLoss(0.2, attraction=0.5), torch.optim.Adam([z], lr=0.05)
    for _ in range(300):
        optimiser.zero_grad()
        loss(*z, membership=known).backward()
        optimiser.step()
    z0, z1 = torch.nn.functional.normalize(z.detach(), dim=2)
    mates = (labels[:, None] == labels) & ~torch.eye(24, dtype=torch.bool)
    assert (z0 * z1).sum(1).mean() > 0.95
    assert (z0 @ z1.T)[mates].mean() > 0.95


@kernels
def test_knowledge_may_change_before_the_backward(kernel: Kernel) -> None:
    query, key, queue = *views(4, 5, 2), embeddings(6, 5, seed=2)
    p, of_queue = knowledge(4, seed=1)[0], knowledge(6, seed=2)[0]
    loss = dc.DebiasedInfoNCELoss(0.3, kernel=kernel)

    def gradient(change: float) -> Tensor:
        own, others = p.clone(), of_queue.clone()
        value = loss(query, key, queue, membership=own, negative_membership=others)
        own.mul_(change)
        others.mul_(change)
        return torch.autograd.grad(value, query)[0]

    assert torch.equal(gradient(1.0), gradient(0.0))
    assert loss.diagnostics.mean_q == pytest.approx(float((p @ of_queue.T).mean()))


def test_a_strength_of_each_input_is_read_only_where_something_is_known() -> None:
    loss = dc.DebiasedNTXentLoss(0.3, strength=torch.ones(6))
    z = views(5, 4, 2)
    assert loss(*z).isfinite()
    with pytest.raises(ValueError, match=r"strength must be one number or have shape \(b,\) = \(5,\)"):
        loss(*z, membership=knowledge(5, seed=1)[0])
    half = [view.detach().half() for view in views(6, 4, 2)]
    p = knowledge(6, seed=1)[0]
    many = dc.DebiasedNTXentLoss(0.3)(*half, membership=p, strength=torch.full((6,), 1e5))
    torch.testing.assert_close(many, dc.DebiasedNTXentLoss(0.3)(*half, membership=p, strength=1e5))


@kernels
def test_an_anchor_without_any_weight_has_loss_0_and_no_gradient(kernel: Kernel) -> None:
    z = views(4, 5, 2)
    w = torch.ones(4, 4, dtype=torch.float64)
    w[2] = 0.0
    loss = dc.DebiasedNTXentLoss(0.2, kernel=kernel, checks="always", reduction="none")
    with pytest.warns(UserWarning, match="leave 2 of 8 anchors without unlabeled samples"):
        losses = loss(*z, weights=w).view(2, 4)
    assert (losses[:, 2] == 0).all()
    assert (losses[:, [0, 1, 3]] > 0).all()
    of_third = torch.autograd.grad(losses[:, 2].sum(), z, retain_graph=True)
    assert all((grad == 0).all() for grad in of_third)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(losses.mean(), z))
    everything = torch.zeros(4, 3, dtype=torch.float64)
    everything[:, 0] = 1.0
    with pytest.warns(UserWarning, match="leave 8 of 8 anchors"):
        nothing = loss(*z, membership=everything)
    assert (nothing == 0).all()
    assert all((grad == 0).all() for grad in torch.autograd.grad(nothing.sum(), z))
    assert (
        math.isfinite(loss.diagnostics.effective_number or math.nan) is False
        or loss.diagnostics.effective_number == 0
    )


def test_settings_of_the_module_are_overridden_by_the_call() -> None:
    z = views(6, 4, 2)
    p = knowledge(6, seed=1)[0]
    words: dict[str, Any] = {"strength": 0.4, "attraction": 0.7, "attraction_above": 0.2}
    want = dc.DebiasedNTXentLoss(0.3)(*z, membership=p, **words)
    torch.testing.assert_close(dc.DebiasedNTXentLoss(0.3, **words)(*z, membership=p), want)
    assert "strength=0.4, attraction=0.7, attraction_above=0.2" in repr(dc.DebiasedNTXentLoss(0.3, **words))
    # Without knowledge these settings mean nothing.
    torch.testing.assert_close(dc.DebiasedNTXentLoss(0.3, 0.1, **words)(*z), dc.DebiasedNTXentLoss(0.3, 0.1)(*z))


@kernels
def test_diagnostics_computed_by_hand(kernel: Kernel) -> None:
    z = views(7, 5, 2)
    p, codes, _ = knowledge(7, seed=5)
    loss = dc.DebiasedNTXentLoss(0.4, strength=0.8, kernel=kernel)
    loss(*z, membership=p)
    q, e, others = pairs(z, p @ p.T, 0.4)
    w = (1 - 0.8 * q) * others
    seen = loss.diagnostics
    assert seen.mean_q == pytest.approx(((q * others).sum(1) / others.sum(1)).mean().item())
    assert seen.effective_number == pytest.approx((w.sum(1) ** 2 / w.square().sum(1)).mean().item())
    assert seen.effective_number is not None
    assert seen.mean_q is not None
    assert seen.effective_number >= 12 * (1 - 0.8 * seen.mean_q)
    mean_q, mean_e = ((part * others).sum(1) / 12 for part in (q, e))
    covariance = ((q * e * others).sum(1) / 12 - mean_q * mean_e) / mean_e
    assert seen.covariance == pytest.approx(covariance.mean().item())
    rest = 1 - p.sum(1, keepdim=True)
    assert seen.entropy == pytest.approx(
        -torch.special.xlogy(torch.cat([p, rest], 1), torch.cat([p, rest], 1)).sum(1).mean().item()
    )
    loss(*z, partitions=codes)
    assert loss.diagnostics.entropy is None
    loss(*z)
    assert loss.diagnostics.mean_q is None


def test_half_precision_loses_only_its_own_rounding() -> None:
    z = [view.detach().to(torch.bfloat16) for view in views(64, 32, 2)]
    p = torch.softmax(3 * embeddings(64, 5, seed=1).detach(), 1)
    exact = dc.DebiasedNTXentLoss(0.1)(
        *(view.double() for view in z), membership=p.to(torch.bfloat16).double() * 0.99
    )
    got = dc.DebiasedNTXentLoss(0.1)(*z, membership=(p.to(torch.bfloat16).float() * 0.99))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-6)
    assert dc.DebiasedNTXentLoss(0.1)(*z, membership=torch.softmax(p, 1).to(torch.bfloat16)).isfinite()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_learnt_temperature_has_its_gradient(kernel: Kernel) -> None:
    z0, z1 = (z.detach() for z in views(5, 4, 2))
    p = knowledge(5, seed=1)[0]

    def value(temperature: Tensor) -> Tensor:
        loss = dc.DebiasedNTXentLoss(
            temperature, attraction=0.5, attraction_above=0.2, kernel=kernel, reduction="none"
        )
        result: Tensor = loss(z0, z1, membership=p)
        return result

    assert torch.autograd.gradcheck(value, torch.tensor(0.3, dtype=torch.float64, requires_grad=True))


def test_logits_take_weights_and_so_does_the_decoupled_loss() -> None:
    positive, unlabeled = embeddings(4, seed=0), embeddings(4, 6, seed=1)
    w = knowledge(4, 6, seed=2)[2]
    g = (w * unlabeled.exp()).sum(1) / w.sum(1)
    got = dc.contrastive_loss(positive, unlabeled, weights=w, reduction="none")
    torch.testing.assert_close(got, torch.log1p(6 * g * (-positive).exp()))
    torch.testing.assert_close(dc.decoupled_loss(positive, unlabeled, weights=w), ((6 * g).log() - positive).mean())
    tilted = (w * (1.5 * unlabeled).exp()).sum(1) / (w * (0.5 * unlabeled).exp()).sum(1)
    hard = dc.contrastive_loss(positive, unlabeled, weights=w, beta=0.5, reduction="none")
    torch.testing.assert_close(hard, torch.log1p(6 * tilted * (-positive).exp()))
    w[1] = 0.0
    losses = dc.contrastive_loss(positive, unlabeled, weights=w, reduction="none")
    assert losses[1] == 0
    assert torch.autograd.grad(losses.sum(), unlabeled)[0].isfinite().all()
    with pytest.raises(ValueError, match="weights and tau_plus correct the same bias"):
        dc.contrastive_loss(positive, unlabeled, weights=w, tau_plus=0.1)
    with pytest.raises(ValueError, match="every anchor"):
        dc.decoupled_loss(positive, unlabeled, weights=w)


Z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
P = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 0.0], [0.2, 0.3]])
CODES = torch.tensor([[0], [1], [-1], [0]])


@pytest.mark.parametrize("loss", [dc.DebiasedNTXentLoss(), dc.DebiasedInfoNCELoss(tau_plus=0.0)])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"membership": P + 0.1}, r"membership must have rows of probabilities, each >= 0, together at most 1; got 2 of 4"),
        ({"membership": P - 0.1}, r"got 2 of 4 rows that are not"),
        ({"membership": P.where(P < 1, math.nan)}, r"got 1 of 4 rows that are not"),
        ({"membership": P[:3]}, r"membership must have shape \(4, k\); got \(3, 2\)"),
        ({"membership": P[:, 0]}, r"membership must have shape \(4, k\); got \(4,\)"),
        ({"membership": P.long()}, "membership must be floating-point"),
        ({"membership": P.tolist()}, "membership must be a torch.Tensor; got list"),
        ({"partitions": P}, "partitions must be integers; got torch.float32"),
        ({"partitions": CODES[:2]}, r"partitions must have shape \(4, B\); got \(2, 1\)"),
        ({"weights": torch.ones(4, 3)}, "weights must have a column for each of the 4 samples"),
        ({"weights": torch.ones(3, 4)}, r"weights must be floating-point with shape \(4, 4\)"),
        ({"weights": torch.full((4, 4), 1.2)}, r"weights must lie in \[0, 1\].* got 16 of 16 outside"),
        ({"weights": torch.full((4, 4), math.nan)}, r"weights must lie in \[0, 1\]"),
        ({"membership": P, "partitions": CODES}, "exclude each other; got membership and partitions: pass one"),
        ({"membership": P, "labels": torch.arange(4)}, "membership takes the place of labels; got both"),
        ({"membership": P, "tau_plus": 0.1}, "membership takes the place of tau_plus; got both"),
        ({"membership": P, "strength": -1.0}, "strength must be a finite number >= 0"),
        ({"membership": P, "strength": math.nan}, "strength must be a finite number >= 0"),
        ({"membership": P, "strength": torch.ones(3)}, r"strength must be one number or have shape \(b,\) = \(4,\)"),
        ({"membership": P, "strength": -torch.ones(4)}, "strength must be finite and >= 0 for every anchor"),
        ({"membership": P, "attraction": -0.5}, "attraction must be a finite number >= 0; got -0.5"),
        ({"membership": P, "attraction_above": 1.5}, r"attraction_above must lie in \[0, 1\]; got 1.5"),
        ({"strength": 0.5}, "strength says how far knowledge about classes is trusted; got it without any: pass membership"),
        ({"attraction": 0.0}, "attraction says how far knowledge"),
        ({"attraction_above": 0.5}, "attraction_above says how far knowledge"),
    ],
)  # fmt: skip
def test_wrong_knowledge_is_one_line(loss: torch.nn.Module, call: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(Z, Z, **call)


def test_wrong_knowledge_of_negatives_is_one_line() -> None:
    loss, queue = dc.DebiasedInfoNCELoss(), torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    for call, message in (
        ({"membership": P}, "negative_membership must be given exactly when both membership and negatives are"),
        (
            {"membership": P, "negative_membership": P},
            r"negative_membership must have shape \(5, 2\); got \(4, 2\)",
        ),
        ({"membership": P, "negative_partitions": CODES}, "negative_partitions does not go with membership"),
        ({"negative_membership": P}, "negative_membership is of the negatives; got none of the anchors"),
        ({"weights": torch.ones(4, 4)}, r"weights must be floating-point with shape \(4, 5\)"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(Z, Z, queue, **call)
    more = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(2))
    hard: tuple[dict[str, Any], ...] = (
        {"membership": P}, {"partitions": CODES}, {"labels": torch.arange(4)},
        {"negative_labels": torch.zeros(4, 2, dtype=torch.long)}, {"negative_ids": torch.zeros(4, 2, dtype=torch.long)},
    )  # fmt: skip
    for call in hard:
        name = next(iter(call)).removeprefix("negative_")
        with pytest.raises(
            ValueError, match=f"negative_{name} must be given exactly when both {name} and hard_negatives are"
        ):
            loss(Z, Z, hard_negatives=more, **call)
    bank = torch.eye(3)
    with pytest.raises(ValueError, match="strength says how far knowledge about classes is trusted"):
        dc.DebiasedBankLoss()([Z], [bank], ids=torch.zeros(4).long(), places=torch.ones(4, 2).long(), strength=1.0)
    with pytest.raises(ValueError, match="membership takes the place of positive_labels"):
        dc.DebiasedNTXentLoss()(Z, Z, membership=P, positive_labels=torch.arange(4))


def test_rows_that_sum_to_a_little_more_than_1_are_rounding() -> None:
    p = torch.tensor([[0.6, 0.4001], [1.0001, 0.0], [0.5, 0.5], [0.0, 1.0]])
    assert dc.DebiasedNTXentLoss()(Z, Z.flip(0), membership=p).isfinite()
    with pytest.raises(ValueError, match="got 1 of 4 rows"):
        dc.DebiasedNTXentLoss()(
            Z, Z, membership=p + torch.tensor([[0.0, 0.0], [0.01, 0.0], [0.0, 0.0], [0.0, 0.0]])
        )


def pairs(z: tuple[Tensor, ...], q: Tensor, t: float) -> tuple[Tensor, Tensor, Tensor]:
    """q, exponentials, and which of the pairs are of different inputs, of all anchors: views 0, then views 1."""
    flat = torch.nn.functional.normalize(torch.cat(z).detach(), dim=1)
    b = len(z[0])
    image = torch.arange(2 * b) % b
    others = (image[:, None] != image).double()
    return q.repeat(2, 2), (flat @ flat.T / t).exp(), others


def implied_g(kernel: Kernel, t: float, z: tuple[Tensor, ...], **known: Any) -> Tensor:
    """g of each anchor, views 0 and then views 1."""
    loss = dc.DebiasedNTXentLoss(t, kernel=kernel, reduction="none")
    loss(*z, **known)
    assert loss._record is not None
    return loss._record.statistics.log_mean_unlabeled.exp().view(-1, 2).T.flatten()
