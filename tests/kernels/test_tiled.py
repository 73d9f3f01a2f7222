"""Tiled equals dense in value and gradient, for every option and any size of tile."""

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.kernels import log_mean, tiled, two_views
from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.losses import nt_xent
from tests.losses.cases import CASES, Case, cases, embeddings, views


@pytest.fixture(params=[2, 5, 512])
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setitem(log_mean._TILE, "cpu", request.param)
    if request.param < 512:
        monkeypatch.setattr(two_views, "LARGEST_TILE", 0)
    return int(request.param)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_tiled_equals_dense(case: Case) -> None:
    results = {}
    for kernel in ("dense", "tiled"):
        loss = case.loss(*case.inputs, kernel=kernel)
        results[kernel] = (loss, *torch.autograd.grad(loss, case.inputs, allow_unused=True))
    for got, want in zip(results["tiled"], results["dense"], strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            assert (got - want).norm() <= 1e-10 * want.norm()


DIFFERENTIABLE = [case for case in CASES.values() if "cap_tau" not in case.name]
"""The cap is detached by design, so a finite difference sees more than the gradient."""


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.name)
def test_gradcheck_tiled(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(log_mean._TILE, "cpu", 4)
    assert torch.autograd.gradcheck(lambda *inputs: case.loss(*inputs, kernel="tiled"), case.inputs)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.name)
def test_gradcheck_dense(case: Case) -> None:
    assert torch.autograd.gradcheck(lambda *inputs: case.loss(*inputs, kernel="dense"), case.inputs)


@pytest.mark.parametrize("kernel", ["dense", "tiled"])
@pytest.mark.parametrize("tau_plus", [0.05, 0.9])
@pytest.mark.parametrize("start", [0.5, 0.02])
def test_the_gradient_of_a_learnt_temperature(kernel: str, tau_plus: float, start: float) -> None:
    """Through logits and floor; 0.9 puts anchors on the floor, where only the floor carries it."""
    z0, z1 = (z.detach() for z in views(5, 4, 2))
    queue = embeddings(6, 4, seed=9).detach()

    def losses(temperature: torch.Tensor) -> torch.Tensor:
        settings = {"tau_plus": tau_plus, "kernel": kernel, "temperature": temperature, "reduction": "none"}
        nt_xent = dc.DebiasedNTXentLoss(**settings)(z0, z1)  # type: ignore[arg-type]
        clip = dc.DebiasedInfoNCELoss(symmetric=True, **settings)(z0, z1)  # type: ignore[arg-type]
        moco = dc.DebiasedInfoNCELoss(**settings)(z0, z1, queue)  # type: ignore[arg-type]
        return torch.cat([nt_xent, clip, moco])

    temperature = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(losses, temperature, eps=1e-7)


@pytest.mark.parametrize("bound", [2.0, float("inf")])
def test_sums_with_and_without_a_known_bound(bound: float) -> None:
    """Bounded logits are summed as exponentials, others as logarithms: the same numbers and gradients."""
    rows, columns = embeddings(9, 4, seed=0), embeddings(13, 4, seed=1)
    absent = Absent(same=((torch.arange(9) % 4, torch.arange(13) % 5),))
    scales = (1.5, 0.5)
    want = log_mean.dense_log_sum_exp(rows, columns, absent, scales, both=True)
    got = tiled.log_sum_exp(rows, columns, absent, scales, bound=bound, tile=4, both=True)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    weights = torch.cat([embeddings(2, count, seed=5 + k).detach() for k, count in enumerate((9, 13))], 1)
    for side in (rows, columns):
        (d_want,) = torch.autograd.grad(want, side, weights, retain_graph=True)
        (d_got,) = torch.autograd.grad(got, side, weights, retain_graph=True)
        torch.testing.assert_close(d_got, d_want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("bound", [9.0, float("inf")])
def test_a_row_without_columns_is_minus_infinity_and_has_no_gradient(bound: float) -> None:
    rows, columns = embeddings(3, 4, seed=0), embeddings(5, 4, seed=1)
    absent = Absent(differ=((torch.tensor([0, 7, 1]), torch.tensor([0, 0, 1, 1, 1])),))
    out = tiled.log_sum_exp(rows, columns, absent, (1.0,), bound=bound, tile=2)
    assert out[0, 1] == -float("inf")
    assert out[0, [0, 2]].isfinite().all()
    d_rows, d_columns = torch.autograd.grad(out[0, [0, 2]].sum() + 0 * out[0, 1].exp(), (rows, columns))
    assert (d_rows[1] == 0).all()
    assert d_rows.isfinite().all()
    assert d_columns.isfinite().all()


def test_auto_takes_tiles_for_large_shapes_and_logits_for_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    places = (log_mean, "dense_log_sum_exp"), (tiled, "log_sum_exp"), (nt_xent, "losses_of_views")
    for module, name in places:
        kernel = getattr(module, name)

        def spy(*args: object, _kernel: object = kernel, _name: str = name, **rest: object) -> object:
            taken.append((_name, args[1] is None))
            return _kernel(*args, **rest)  # type: ignore[operator]

        monkeypatch.setattr(module, name, spy)
    dc.DebiasedNTXentLoss()(*views(8, 4, 2))
    dc.DebiasedNTXentLoss()(*views(500, 4, 2))
    dc.DebiasedNTXentLoss()(*views(500, 4, 3))
    dc.DebiasedNTXentLoss()(*views(600, 4, 2))
    names = [name for name, _ in taken]
    assert names == ["dense_log_sum_exp", "losses_of_views", "log_sum_exp", "log_sum_exp"], "one tile is one node"
    assert taken[-1] == ("log_sum_exp", True), "tiles of one side serve both"


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_graph_can_be_walked_twice(beta: float) -> None:
    z = views(6, 4, 2)
    loss = dc.DebiasedNTXentLoss(beta=beta, kernel="tiled")(*z)
    first = torch.autograd.grad(loss, z, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(loss, z), strict=True))


def test_second_derivatives_exist_for_dense_and_are_refused_by_tiled() -> None:
    z0, z1 = views(4, 3, 2)

    def gradient_norm(kernel: str) -> torch.Tensor:
        loss = dc.DebiasedNTXentLoss(kernel=kernel)(z0, z1)  # type: ignore[arg-type]
        (d_z0,) = torch.autograd.grad(loss, z0, create_graph=True)
        return d_z0.square().sum()

    torch.testing.assert_close(gradient_norm("tiled"), gradient_norm("dense"))
    gradient_norm("dense").backward()
    assert z0.grad is not None
    assert z0.grad.isfinite().all()
    with pytest.raises(RuntimeError, match="use kernel='dense' for gradients of gradients"):
        gradient_norm("tiled").backward()
    assert torch.autograd.gradgradcheck(
        lambda *z: dc.DebiasedNTXentLoss(kernel="dense")(*z),
        tuple(z.detach().requires_grad_() for z in (z0, z1)),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kernel", ["dense", "tiled"])
@pytest.mark.parametrize("case", [c for c in cases(40, 8) if "raw" not in c.name], ids=lambda case: case.name)
def test_autocast_does_not_reach_the_products(case: Case, kernel: str, dtype: torch.dtype) -> None:
    """Neither forward nor a backward that is called inside the autocast block."""
    z = tuple(view.detach().float().requires_grad_() for view in case.inputs)
    want = case.loss(*z, kernel=kernel)
    d_want = torch.autograd.grad(want, z, allow_unused=True)
    with torch.autocast("cpu", dtype=dtype):
        got = case.loss(*z, kernel=kernel)
        d_got = torch.autograd.grad(got, z, allow_unused=True)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)
    for g, w in zip(d_got, d_want, strict=True):
        assert (g is None) == (w is None)
        assert g is None or (g - w).norm() <= 1e-5 * w.norm()
