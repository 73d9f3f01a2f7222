"""Each wrong call gets one line that says what must hold, what came, and what to do."""

import math
from typing import Any

import pytest
import torch

import debiased_contrastive as dc

Z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
NAN = Z.clone()
NAN[1:3, 0] = math.nan
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize("loss", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau_plus": 1.5}, r"tau_plus must lie in \[0, 1\); got 1.5"),
        ({"temperature": 0.0}, "temperature must be positive and finite; got 0.0"),
        ({"temperature": -1}, "temperature must be positive and finite; got -1"),
        ({"temperature": math.nan}, "temperature must be positive"),
        ({"temperature": torch.ones(2)}, r"temperature must be one number; got a tensor of shape \(2,\)"),
        ({"on_floor": "zero"}, "on_floor must be one of 'clamp'"),
        ({"kernel": "triton"}, "kernel must be one of 'auto', 'dense', 'tiled'; got 'triton'"),
        ({"reduction": "median"}, "reduction must be one of"),
        ({"beta": -0.5}, "beta must be a finite number >= 0"),
        ({"relative_floor": 0.1}, "relative_floor is for normalize=False"),
        ({"relative_floor": 1.0, "normalize": False}, r"relative_floor must lie in \[0, 1\)"),
    ],
)
def test_settings_fail_when_the_loss_is_made(loss: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        loss(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("views", "rest", "message"),
    [
        ((Z, Z[:3]), {}, r"view 1 must have shape \(4, 3\); got \(3, 3\)"),
        ((Z, Z, Z[:, :2]), {}, r"view 2 must have shape \(4, 3\); got \(4, 2\)"),
        ((Z[0], Z[0]), {}, r"view 0 must have shape \(b, d\); got \(3,\)"),
        ((Z.long(), Z), {}, "view 0 must be floating-point; got torch.int64"),
        ((Z.numpy(), Z), {}, "view 0 must be a torch.Tensor; got ndarray"),
        ((Z, Z), {"labels": [0, 1, 0, 1]}, "labels must be a torch.Tensor; got list"),
        ((Z, Z), {"labels": LABELS > 0}, "labels must be integers; got torch.bool"),
        ((Z, Z), {"temperature": "0.5"}, "temperature must be a float or a tensor; got '0.5'"),
        ((Z, NAN), {}, "view 1 has NaN or inf in 2 of 4 rows"),
        ((Z / 0, Z), {}, "view 0 has NaN or inf in 4 of 4 rows"),
        ((Z, Z.to("meta")), {}, "view 0 is on cpu, view 1 on meta"),
        ((Z, Z), {"labels": LABELS[:3]}, r"labels must have shape \(4,\), one for each sample; got \(3,\)"),
        ((Z, Z), {"labels": LABELS.float()}, "labels must be integers; got torch.float32"),
        ((Z, Z), {"labels": LABELS - 1}, "labels must be >= 0; got -1: the oracle needs every label"),
        ((Z, Z), {"labels": 0 * LABELS}, "labels, ids and masks must leave some anchor an unlabeled sample; got 8 of 8 anchors"),
        ((Z, Z), {"labels": LABELS, "positive_labels": LABELS}, "exclude each other; got both: pass one"),
        ((Z, Z), {"tau_plus": torch.full((8,), 0.1)}, r"shape \(b,\) = \(4,\); got shape \(8,\)"),
        ((Z, Z), {"tau_plus": 1.0}, r"tau_plus must lie in \[0, 1\); got 1.0"),
        ((Z, Z), {"temperature": 0.0}, "temperature must be positive"),
    ],
)  # fmt: skip
def test_nt_xent(views: tuple[torch.Tensor, ...], rest: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dc.DebiasedNTXentLoss()(*views, **rest)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "rest", "message"),
    [
        ((Z, Z[:3]), {}, r"key must have shape \(4, 3\); got \(3, 3\)"),
        ((Z, Z, Z[:0]), {}, r"at least one sample; got shape \(0, 3\): an empty queue must be filled first"),
        ((Z, Z, Z[:, :2]), {}, "query has shape .4, 3., negatives .4, 2."),
        ((Z, Z, Z.expand(3, 4, 3)), {}, r"negatives must have shape \(4, k, d\); got \(3, 4, 3\)"),
        ((Z, Z, Z[0]), {}, r"negatives must have shape \(k, d\); got \(3,\)"),
        ((Z, Z, dc.NegativeQueue(4, 3)), {}, "negatives must be a torch.Tensor.*pass its .embeddings"),
        ((Z, Z, NAN), {}, "negatives has NaN or inf in 2 of 4 rows"),
        ((Z, NAN), {}, "key has NaN or inf in 2 of 4 rows"),
        ((Z, Z), {"extra_keys": Z}, r"extra_keys must have shape \(4, m - 1, 3\); got \(4, 3\)"),
        ((Z, Z), {"labels": LABELS[:2]}, r"labels must have shape \(4,\)"),
        ((Z, Z), {"labels": 0 * LABELS}, "labels, ids and masks must leave some anchor an unlabeled sample; got 4 of 4 anchors"),
        ((Z, Z, Z), {"labels": LABELS}, "negative_labels must be given exactly when both labels and negatives are"),
        ((Z, Z), {"negative_labels": LABELS}, "negative_labels must be given exactly when"),
        ((Z, Z, Z), {"labels": LABELS, "negative_labels": LABELS[:2]}, r"negative_labels must have shape \(4,\)"),
        ((Z, Z), {"ids": 0 * LABELS}, "labels, ids and masks must leave some anchor an unlabeled sample"),
    ],
)  # fmt: skip
def test_info_nce(inputs: tuple[torch.Tensor, ...], rest: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dc.DebiasedInfoNCELoss()(*inputs, **rest)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kernel", ["dense", "tiled"])
def test_products_that_overflow_are_named(kernel: Any) -> None:
    with pytest.raises(ValueError, match="products of these embeddings, divided by the temperature, overflow"):
        dc.DebiasedNTXentLoss(normalize=False, kernel=kernel)(Z * 1e25, Z * 1e25)
    with pytest.raises(ValueError, match="overflow"):
        dc.DebiasedInfoNCELoss(temperature=1e-40, kernel=kernel)(Z, Z)


def test_one_key_is_enough() -> None:
    query, key = torch.eye(3), torch.eye(3)
    loss = dc.DebiasedInfoNCELoss(0.5)
    torch.testing.assert_close(loss(query, key, extra_keys=torch.zeros(3, 0, 3)), loss(query, key))


def test_symmetric_takes_no_negatives() -> None:
    with pytest.raises(ValueError, match="got negatives: pass negatives=None"):
        dc.DebiasedInfoNCELoss(symmetric=True)(Z, Z, Z)


def test_finite_embeddings_whose_sum_overflows_are_fine() -> None:
    z = torch.full((4, 3), 3e38)
    z[1] *= -1
    z[2, 0] = 0
    assert dc.DebiasedNTXentLoss()(z, z).isfinite()


@pytest.mark.parametrize("loss", [dc.DebiasedNTXentLoss, dc.DebiasedInfoNCELoss])
def test_gathering_needs_a_process_group(loss: Any) -> None:
    with pytest.raises(RuntimeError, match="needs an initialised process group, there is none"):
        loss(gather_distributed=True)(Z, Z)
