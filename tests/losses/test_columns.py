"""Hard negatives, pairs that do not exist, popularity, and batches in which nothing is left."""

import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import debiased_contrastive as dc
from debiased_contrastive.kernels.log_mean import Kernel
from tests.losses.cases import embeddings, knowledge, views

KERNELS: tuple[Kernel, ...] = ("dense", "tiled")
kernels = pytest.mark.parametrize("kernel", KERNELS)
B, D, M = 5, 4, 2


def reference(
    query: Tensor,
    key: Tensor,
    t: float,
    tau_plus: float,
    *,
    hard: Tensor | None = None,
    exclude: Tensor | None = None,
    log_q: Tensor | None = None,
) -> Tensor:
    """All logits at once, with what does not exist at -inf, by the function of logits."""
    query, key = F.normalize(query, dim=1), F.normalize(key, dim=1)
    columns = key if hard is None else torch.cat([key, F.normalize(hard, dim=-1).flatten(0, 1)])
    logits = query @ columns.T / t
    if log_q is not None:
        logits = logits - log_q
    positive = logits.diagonal()
    absent = torch.eye(*logits.shape, dtype=torch.bool)
    if exclude is not None:
        absent = absent | exclude
    lower = -1 / t - (0.0 if log_q is None else float(log_q.max()))
    unlabeled = logits.masked_fill(absent, -math.inf)
    return dc.contrastive_loss(positive, unlabeled, tau_plus=tau_plus, lower=lower, reduction="none")


@kernels
@settings(max_examples=40)
@given(
    hard=st.booleans(), masked=st.booleans(), popular=st.booleans(), t=st.sampled_from([0.02, 0.2, 1.0]),
    tau_plus=st.sampled_from([0.0, 0.05, 0.4]), seed=st.integers(0, 99),
)  # fmt: skip
def test_info_nce_equals_all_logits_at_once(
    kernel: Kernel, hard: bool, masked: bool, popular: bool, t: float, tau_plus: float, seed: int
) -> None:
    query, key = views(B, D, 2, seed=seed)
    more = embeddings(B, M, D, seed=seed + 1) if hard else None
    n = B * (1 + M) if hard else B
    generator = torch.Generator().manual_seed(seed)
    exclude = torch.rand(B, n, generator=generator) < 0.3 if masked else None
    if exclude is not None:
        exclude[:, (torch.arange(B) + 1) % B] &= ~torch.eye(B, dtype=torch.bool)  # somebody is left
    log_q = torch.rand(n, generator=generator, dtype=torch.float64).clamp(min=1e-3).log() if popular else None
    loss = dc.DebiasedInfoNCELoss(t, tau_plus, kernel=kernel, reduction="none")
    got = loss(query, key, hard_negatives=more, exclude=exclude, log_q=log_q)
    want = reference(query, key, t, tau_plus, hard=more, exclude=exclude, log_q=log_q)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    inputs = [z for z in (query, key, more) if z is not None]
    d_got, d_want = (torch.autograd.grad(each.sum(), inputs, retain_graph=True) for each in (got, want))
    for g, w in zip(d_got, d_want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-10)


@kernels
def test_both_directions(kernel: Kernel) -> None:
    """Keys as anchors meet no hard negatives and no popularity; a pair that is excluded is so by its own row."""
    query, key, hard = *views(B, D, 2), embeddings(B, M, D, seed=9)
    exclude = torch.zeros(B, B * (1 + M), dtype=torch.bool)
    exclude[0, 1] = exclude[2, 4] = exclude[3, B + 2] = True
    log_q = torch.linspace(-4, -1, B * (1 + M), dtype=torch.float64)
    one = dc.DebiasedInfoNCELoss(0.2, 0.05, kernel=kernel, reduction="none")
    both = dc.DebiasedInfoNCELoss(0.2, 0.05, symmetric=True, kernel=kernel, reduction="none")
    got = both(query, key, hard_negatives=hard, exclude=exclude, log_q=log_q)
    queries = one(query, key, hard_negatives=hard, exclude=exclude, log_q=log_q)
    keys = one(key, query, exclude=exclude[:, :B])
    torch.testing.assert_close(got, torch.cat([queries, keys]))
    got = both(query, key, exclude=exclude[:, :B])
    torch.testing.assert_close(got, torch.cat([one(query, key, exclude=exclude[:, :B]), keys]))


def test_popularity_is_the_correction_of_recommenders() -> None:
    """Yi et al. (2019): a cross entropy over s - log q, in which the key's own column is corrected, too."""
    query, key = (F.normalize(z, dim=1) for z in views(B, D, 2))
    log_q = torch.linspace(-5, -1, B, dtype=torch.float64)
    want = F.cross_entropy(query @ key.T / 0.1 - log_q, torch.arange(B))
    torch.testing.assert_close(dc.DebiasedInfoNCELoss(0.1, 0.0)(query, key, log_q=log_q), want)
    # A constant changes nothing but the count of the samples' weight, which is the positive's, too.
    same = torch.full((B,), -3.0, dtype=torch.float64)
    loss = dc.DebiasedInfoNCELoss(0.1, 0.01)
    torch.testing.assert_close(loss(query, key, log_q=same), loss(query, key))


@kernels
def test_popularity_of_negatives_leaves_the_key_alone(kernel: Kernel) -> None:
    query, key = views(B, D, 2)
    for shape in ((7,), (B, 7)):
        negatives = embeddings(*shape, D, seed=3)
        log_q = embeddings(*shape, seed=4).detach() - 3
        logits = torch.einsum(
            "bd,...nd->bn" if len(shape) == 1 else "bd,bnd->bn",
            F.normalize(query, dim=1),
            F.normalize(negatives, dim=-1),
        )
        positive = (F.normalize(query, dim=1) * F.normalize(key, dim=1)).sum(1) / 0.2
        lower = -5 - float(log_q.max())
        want = dc.contrastive_loss(positive, logits / 0.2 - log_q, tau_plus=0.1, lower=lower, reduction="none")
        loss = dc.DebiasedInfoNCELoss(0.2, 0.1, kernel=kernel, reduction="none")
        torch.testing.assert_close(loss(query, key, negatives, log_q=log_q), want)


def test_the_floor_with_popularity_is_the_least_that_a_logit_can_be() -> None:
    """A query against samples that are all opposite to it, the most popular among them: g cannot be less."""
    query = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    negatives = -query[:1].expand(3, 2)
    log_q = torch.tensor([-1.0, -1.0, -1.0], dtype=torch.float64)
    loss = dc.DebiasedInfoNCELoss(0.5, 0.4, reduction="none")
    value = loss(query, query, negatives, log_q=log_q)
    floor = math.exp(-2 + 1)
    assert loss.diagnostics.floored == 1
    torch.testing.assert_close(value, torch.full((2,), math.log1p(3 * floor / math.exp(2)), dtype=torch.float64))


@kernels
def test_hard_negatives_with_ids_labels_and_knowledge(kernel: Kernel) -> None:
    query, key, hard = *views(B, D, 2), embeddings(B, M, D, seed=9)
    loss = dc.DebiasedInfoNCELoss(0.3, 0.05, kernel=kernel, reduction="none")
    flat = torch.cat([key, hard.flatten(0, 1)])
    own = torch.arange(B)
    of_hard = torch.tensor([[1, -1], [0, 3], [-1, -1], [2, 3], [9, 4]])
    everything = {"ids": own, "negative_ids": torch.cat([own, of_hard.flatten()])}
    torch.testing.assert_close(
        loss(query, key, hard_negatives=hard, ids=own, negative_ids=of_hard), loss(query, key, flat, **everything)
    )
    nobody = {"ids": own, "negative_ids": torch.cat([own, torch.full((B * M,), -1)])}
    torch.testing.assert_close(loss(query, key, hard_negatives=hard, ids=own), loss(query, key, flat, **nobody))
    labels, of_hard = own % 3, torch.arange(B * M).view(B, M) % 3
    oracle = loss(query, key, flat, labels=labels, negative_labels=torch.cat([labels, of_hard.flatten()]), **nobody)
    got = loss(query, key, hard_negatives=hard, labels=labels, negative_labels=of_hard)
    torch.testing.assert_close(got, oracle)
    p, more = knowledge(B, seed=1)[0], knowledge(B * M, seed=2)[0].view(B, M, -1)
    rest: dict[str, Any] = {"attraction": 0.5, "attraction_above": 0.2}
    want = loss(
        query, key, flat, membership=p, negative_membership=torch.cat([p, more.flatten(0, 1)]), **nobody, **rest
    )
    torch.testing.assert_close(
        loss(query, key, hard_negatives=hard, membership=p, negative_membership=more, **rest), want
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_batch_of_one_has_loss_0_and_a_graph(reduction: Any) -> None:
    for loss, count in (
        (dc.DebiasedNTXentLoss(reduction=reduction), 2),
        (dc.DebiasedInfoNCELoss(reduction=reduction), 1),
        (dc.DebiasedInfoNCELoss(symmetric=True, reduction=reduction), 2),
    ):
        z0, z1 = torch.randn(1, 4, requires_grad=True), torch.randn(1, 4, requires_grad=True)
        with pytest.warns(UserWarning, match="a batch of one has no unlabeled samples, so its loss is 0"):
            value = loss(z0, z1)
        assert value.shape == ((count,) if reduction == "none" else ())
        assert (value == 0).all()
        value.sum().backward()
        assert z0.grad is not None
        assert (z0.grad == 0).all()
        figures = loss.diagnostics
        assert (figures.num_unlabeled, figures.floored, figures.tau_cap_low, loss.biased_loss) == (0, 0, 1, 0)
    hard = torch.randn(1, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dc.DebiasedInfoNCELoss(tau_plus=0.0)(z0, z1, hard_negatives=hard) > 0


@kernels
@pytest.mark.parametrize(
    "settings", [{}, {"beta": 0.5, "on_floor": "biased"}, {"tau_plus": "auto"}, {"decoupled": True}]
)
def test_a_batch_of_one_with_hard_negatives_leaves_the_keys_alone(kernel: Kernel, settings: dict[str, Any]) -> None:
    """Keys have no other query; the query has its hard negatives."""
    query, key = views(1, 4, 2)
    hard = embeddings(1, 3, 4, seed=9)
    whole, one_way = (
        dc.DebiasedInfoNCELoss(0.5, kernel=kernel, reduction="none", symmetric=symmetric, **settings)
        for symmetric in (True, False)
    )
    with pytest.warns(UserWarning, match="leave 1 of 2 anchors without unlabeled samples") as caught:
        of_query, of_key = whole(query, key, hard_negatives=hard)
    assert caught[0].filename == __file__, "the line that called the loss"
    torch.testing.assert_close(of_query, one_way(query, key, hard_negatives=hard)[0])
    assert of_key == 0
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(of_query + of_key, (query, key, hard)))


@kernels
@pytest.mark.parametrize("name", ["labels", "exclude"])
def test_what_a_call_was_told_may_change_before_the_backward_or_raises(kernel: Kernel, name: str) -> None:
    query, key = views(B, D, 2)
    given = {"labels": torch.tensor([0, 1, 0, 2, 1]), "exclude": torch.eye(B, dtype=torch.bool).roll(1, 0)}[name]
    loss = dc.DebiasedInfoNCELoss(0.5, 0.0 if name == "labels" else 0.1, kernel=kernel)
    wanted = torch.autograd.grad(loss(query, key, **{name: given}), query)
    value = loss(query, key, **{name: given})
    given.zero_()
    if name == "labels":
        torch.testing.assert_close(torch.autograd.grad(value, query), wanted, rtol=0, atol=0)
    elif kernel == "tiled":
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(value, query)


@kernels
def test_an_anchor_without_samples_has_loss_0_and_the_others_theirs(kernel: Kernel) -> None:
    query, key = views(B, D, 2)
    exclude = torch.zeros(B, B, dtype=torch.bool)
    exclude[2] = True
    loss = dc.DebiasedInfoNCELoss(0.2, 0.05, kernel=kernel, checks="always", reduction="none")
    with pytest.warns(UserWarning, match="leave 1 of 5 anchors without unlabeled samples: nothing repels them"):
        losses = loss(query, key, exclude=exclude)
    assert losses[2] == 0
    torch.testing.assert_close(losses[[0, 1, 3, 4]], loss(query, key)[[0, 1, 3, 4]])
    grads = torch.autograd.grad(losses.sum(), (query, key))
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][2] == 0).all()
    with pytest.raises(
        ValueError, match="must leave some anchor an unlabeled sample; got 5 of 5 anchors without any"
    ):
        loss(query, key, exclude=torch.ones(B, B, dtype=torch.bool))


@kernels
def test_the_oracle_gives_0_to_an_anchor_whose_every_sample_has_its_class(kernel: Kernel) -> None:
    query, key, negatives = *views(2, D, 2), embeddings(3, D, seed=5)
    loss = dc.DebiasedInfoNCELoss(0.2, kernel=kernel, reduction="none")
    with pytest.warns(UserWarning, match="leave 1 of 2 anchors"):
        losses = loss(query, key, negatives, labels=torch.tensor([0, 1]), negative_labels=torch.zeros(3).long())
    assert losses[0] == 0
    assert losses[1] > 0
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(losses.sum(), (query, key, negatives)))


def test_rare_samples_overflow_nothing() -> None:
    """1/t = 33 alone would be safe to exponentiate in float32, with - log q = 60 it is not."""
    z = [torch.ones(B, D), torch.ones(B, D)]
    log_q = torch.full((B,), -60.0)
    dense, tiled = (dc.DebiasedInfoNCELoss(0.03, 0.0, kernel=kernel)(*z, log_q=log_q) for kernel in KERNELS)
    assert tiled.isfinite()
    torch.testing.assert_close(tiled, dense)


Z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"exclude": torch.zeros(4, 3, dtype=torch.bool)}, r"exclude must be boolean with shape \(4, 4\).*got torch.bool \(4, 3\)"),
        ({"exclude": torch.zeros(4, 4)}, r"exclude must be boolean with shape \(4, n\)"),
        ({"exclude": [[True]]}, "exclude must be a torch.Tensor"),
        ({"log_q": torch.zeros(3)}, r"log_q must be floating-point with shape \(4,\)"),
        ({"log_q": torch.tensor([0.0, -math.inf, 0.0, 0.0])}, "log_q must be finite"),
        ({"log_q": torch.zeros(4), "extra_keys": Z.unsqueeze(1)}, "log_q says nothing of extra_keys"),
        ({"hard_negatives": Z}, r"hard_negatives must have shape \(4, m, 3\); got \(4, 3\)"),
        ({"hard_negatives": Z.unsqueeze(1), "negatives": Z}, "hard_negatives join the keys of the batch; got negatives, too"),
        ({"hard_negatives": Z.unsqueeze(1), "labels": torch.arange(4)}, "negative_labels must be given exactly when"),
        ({"negatives": Z[:2], "exclude": torch.zeros(4, 4, dtype=torch.bool)}, r"exclude must be boolean with shape \(4, 2\)"),
    ],
)  # fmt: skip
def test_wrong_calls_are_one_line(call: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dc.DebiasedInfoNCELoss()(Z, Z, **call)
