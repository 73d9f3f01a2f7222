"""SupCon's call: equal to loops and to the authors' code, and its relations to the other losses hold."""

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
from tests.reference.supcon import supcon

KERNELS: tuple[Kernel, ...] = ("dense", "tiled")
kernels = pytest.mark.parametrize("kernel", KERNELS)
FLOORS: tuple[OnFloor, ...] = ("clamp", "biased", "smooth", "cap_tau")


def features_of(b: int, v: int, *, seed: int = 0) -> Tensor:
    return torch.stack(views(b, 4, v, seed=seed), 1).detach().requires_grad_()


def check(got: Tensor, want: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def authors(features: Tensor, temperature: float, mask: Tensor) -> Tensor:
    """The released code (contrast_mode="all"), with its guard for anchors that have no positive."""
    v = features.shape[1]
    z = torch.cat(torch.unbind(torch.nn.functional.normalize(features, dim=2), 1))
    logits = z @ z.T / temperature
    logits = logits - logits.max(1, keepdim=True).values.detach()
    itself = torch.eye(len(z), dtype=torch.bool)
    mask = mask.repeat(v, v).masked_fill(itself, 0.0)
    log_prob = logits - logits.exp().masked_fill(itself, 0.0).sum(1, keepdim=True).log()
    total = mask.sum(1)
    return -(mask * log_prob).sum(1) / torch.where(total < 1e-6, 1.0, total)


@kernels
@settings(max_examples=50)
@given(
    b=st.integers(2, 6),
    v=st.integers(1, 3),
    temperature=st.sampled_from([0.07, 0.5]),
    tau_plus=st.sampled_from([0.0, 0.01, 0.3]),
    on_floor=st.sampled_from(FLOORS),
    seed=st.integers(0, 99),
)
def test_labels_of_some_equal_the_loop(
    kernel: Kernel, b: int, v: int, temperature: float, tau_plus: float, on_floor: OnFloor, seed: int
) -> None:
    features = features_of(b, v, seed=seed)
    labels = torch.randint(-1, 2, (b,), generator=torch.Generator().manual_seed(seed))
    named = labels.tolist()
    loss = dc.DebiasedSupConLoss(temperature, tau_plus, on_floor=on_floor, kernel=kernel, reduction="none")
    same = [[float(i == j or (x == y and x >= 0)) for j, y in enumerate(named)] for i, x in enumerate(named)]
    known = [[x >= 0 and y >= 0 for y in named] for x in named]
    want = supcon(features.tolist(), same, known, temperature, [tau_plus] * b, on_floor=on_floor)
    check(loss(features, labels), want)


@kernels
@pytest.mark.parametrize("v", [1, 2, 3])
def test_without_tau_plus_it_is_the_released_code(kernel: Kernel, v: int) -> None:
    features = features_of(7, v)
    labels = torch.tensor([0, 1, 2, 0, 1, 0, 5])
    mask = (labels[:, None] == labels).double()
    soft = torch.rand(7, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    soft = torch.where(soft < 0.4, 0.0, soft).fill_diagonal_(1.0)  # not symmetric
    loss = dc.DebiasedSupConLoss(kernel=kernel, reduction="none")
    calls: list[tuple[dict[str, Any], Tensor]] = [
        ({"labels": labels}, mask),
        ({"mask": mask.bool()}, mask),
        ({"mask": soft}, soft),
    ]
    for given_words, same in calls + ([({}, torch.eye(7, dtype=torch.float64))] if v > 1 else []):
        got, want = loss(features, **given_words), authors(features, 0.07, same)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
        (d_got,), (d_want,) = (torch.autograd.grad(each.mean(), features) for each in (got, want))
        torch.testing.assert_close(d_got, d_want, rtol=1e-10, atol=1e-12)


@kernels
@pytest.mark.parametrize("tau_plus", [0.0, 0.05, 0.4])
def test_two_views_without_labels_are_nt_xent(kernel: Kernel, tau_plus: float) -> None:
    features = features_of(6, 2)
    for settings_of_both in ({"reduction": "none"}, {"normalize": False}, {"reduction": "sum"}):
        rest: dict[str, Any] = {"kernel": kernel, **settings_of_both}
        got = dc.DebiasedSupConLoss(0.4, tau_plus, **rest)(features)
        want = dc.DebiasedNTXentLoss(0.4, tau_plus, **rest)(*features.unbind(1))
        torch.testing.assert_close(got, want)


@kernels
def test_what_is_said_twice_is_the_same(kernel: Kernel) -> None:
    features = features_of(6, 2)
    labels = torch.tensor([0, 1, 0, 2, 1, 0])
    unknown = torch.full((6,), -1)
    loss = dc.DebiasedSupConLoss(0.5, 0.1, kernel=kernel, reduction="none")
    torch.testing.assert_close(loss(features, unknown), loss(features))
    torch.testing.assert_close(loss(features, mask=torch.eye(6)), loss(features))
    torch.testing.assert_close(loss(features, mask=torch.zeros(6, 6)), loss(features))
    torch.testing.assert_close(loss(features, labels, tau_plus=0.0), loss(features, labels))  # nothing is unlabeled
    sure = dc.DebiasedSupConLoss(0.07, 0.3, kernel=kernel)
    sure(features, labels)
    assert sure.diagnostics.floored == 0
    taus = torch.full((6,), 0.1, dtype=torch.float64)
    torch.testing.assert_close(loss(features, tau_plus=taus), loss(features))
    # A mask may leave open what labels would deny, so the two differ where tau_plus corrects.
    mask = labels[:, None] == labels
    assert ((loss(features, mask=mask) - loss(features, labels)).abs() > 1e-3).all()


@kernels
def test_of_a_mask_everything_else_is_unlabeled(kernel: Kernel) -> None:
    features = features_of(5, 2)
    labels = [0, 1, 0, 1, 2]
    same = [[float(x == y) for y in labels] for x in labels]
    taus = [0.0, 0.05, 0.1, 0.2, 0.01]
    loss = dc.DebiasedSupConLoss(0.5, kernel=kernel, reduction="none")
    want = supcon(features.tolist(), same, [[False] * 5] * 5, 0.5, taus)
    check(loss(features, mask=torch.tensor(same), tau_plus=torch.tensor(taus, dtype=torch.float64)), want)


@kernels
@pytest.mark.parametrize("call", [{}, {"labels": torch.tensor([0, -1, 0, 1])}, {"mask": torch.eye(4).roll(1, 0)}])
def test_gradcheck(kernel: Kernel, call: dict[str, Tensor]) -> None:
    loss = dc.DebiasedSupConLoss(0.5, 0.05, kernel=kernel)
    assert torch.autograd.gradcheck(lambda z: loss(z, **call), features_of(4, 2))


@kernels
def test_anchors_without_positives_have_loss_0(kernel: Kernel) -> None:
    features = features_of(5, 1)
    loss = dc.DebiasedSupConLoss(0.2, 0.1, kernel=kernel, reduction="none")
    losses = loss(features, torch.tensor([0, 0, 1, -1, -1]))
    assert (losses[2:] == 0).all()
    assert (losses[:2] > 0).all()
    (grad,) = torch.autograd.grad(losses.sum(), features)
    assert grad.isfinite().all()
    lone = embeddings(1, 3, 4, seed=1)
    for labels in (None, torch.tensor([3])):
        value = loss(lone, labels)
        torch.testing.assert_close(value, authors(lone, 0.2, torch.ones(1, 1, dtype=torch.float64)))
    with pytest.warns(UserWarning, match="a batch of one has no unlabeled samples, so its loss is 0"):
        assert (loss(lone[:, :1], torch.tensor([3])) == 0).all()


def test_settings_print_and_scale() -> None:
    features = features_of(4, 2)
    plain, scaled = dc.DebiasedSupConLoss(0.1), dc.DebiasedSupConLoss(0.1, base_temperature=0.07)
    torch.testing.assert_close(scaled(features), plain(features) * 0.1 / 0.07)
    assert repr(scaled) == (
        "DebiasedSupConLoss(temperature=0.1, tau_plus=0.0, base_temperature=0.07, on_floor=clamp, normalize=True, "
        "gather_distributed=False, kernel=auto, checks=first, reduction=mean)"
    )


Z = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"features": Z[:, 0]}, r"features must have shape \(b, v, d\); got \(4, 3\)"),
        ({"features": Z[:, :1]}, "one view of each input has no positives; got neither labels nor a mask"),
        ({"labels": torch.zeros(3).long()}, r"labels must have shape \(4,\)"),
        ({"labels": torch.zeros(4)}, "labels must be integers"),
        ({"labels": torch.zeros(4).long(), "mask": torch.eye(4)}, "labels and mask both say"),
        ({"mask": torch.zeros(4)}, r"mask must have shape \(4, n\)"),
        ({"mask": torch.zeros(4, 3)}, "mask must have a column for each of the 4 inputs"),
        ({"mask": torch.full((4, 4), 2.0)}, r"must lie in \[0, 1\]"),
        ({"tau_plus": 1.0}, "tau_plus must lie in"),
    ],
)
def test_wrong_calls_are_one_line(call: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dc.DebiasedSupConLoss()(**{"features": Z, **call})


@pytest.mark.parametrize(("setting", "message"), [({"tau_plus": "auto"}, "tau_plus must be a number"), ({"base_temperature": 0.0}, "base_temperature must be positive")])  # fmt: skip
def test_wrong_settings_are_one_line(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dc.DebiasedSupConLoss(**setting)


def test_a_batch_of_one_says_that_it_has_no_unlabeled_samples() -> None:
    with pytest.warns(UserWarning, match="a batch of one has no unlabeled samples, so its loss is 0"):
        assert dc.DebiasedSupConLoss()(embeddings(1, 2, 4, seed=1)) == 0
