"""Bad logits get one line: what must hold, what came."""

import math
from typing import Any

import pytest
import torch

import debiased_contrastive as dc

POSITIVE, UNLABELED = torch.zeros(3), torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((POSITIVE, UNLABELED), {"tau_plus": 1.5}, r"tau_plus must lie in \[0, 1\); got 1.5"),
        ((POSITIVE, UNLABELED), {"tau_plus": 1}, r"tau_plus must lie in \[0, 1\); got 1"),
        ((POSITIVE, UNLABELED), {"tau_plus": -0.1}, r"got -0.1"),
        ((POSITIVE, UNLABELED), {"tau_plus": math.nan}, "got nan"),
        ((POSITIVE, UNLABELED), {"tau_plus": torch.tensor([0.1, 2.0, 0.1])}, "got 1 of 3 outside"),
        ((POSITIVE, UNLABELED), {"tau_plus": torch.tensor([0.1, 0.2])}, r"shape \(a,\) = \(3,\); got shape \(2,\)"),
        ((POSITIVE, UNLABELED), {"tau_plus": torch.tensor([0, 0, 0])}, "floating-point tensor"),
        ((POSITIVE, UNLABELED), {"tau_plus": None}, "got None"),
        (([0.0], UNLABELED), {}, "positive must be a torch.Tensor; got list"),
        ((POSITIVE, UNLABELED), {"on_floor": "soft"}, "'clamp', 'biased', 'smooth', 'cap_tau'; got 'soft'"),
        ((POSITIVE, UNLABELED), {"reduction": "max"}, "'mean', 'sum', 'none'; got 'max'"),
        ((POSITIVE, UNLABELED), {"beta": -1.0}, "beta must be a finite number >= 0"),
        ((POSITIVE, UNLABELED), {"lower": math.nan}, "lower must be finite or -inf"),
        ((POSITIVE, UNLABELED), {"lower": torch.zeros(2)}, r"lower must be one number or have shape"),
        ((POSITIVE, torch.zeros(2, 4)), {}, r"unlabeled must have shape \(a, n\).*got \(2, 4\)"),
        ((POSITIVE, torch.zeros(3)), {}, r"unlabeled must have shape"),
        ((POSITIVE, torch.zeros(3, 0)), {}, "not empty"),
        ((POSITIVE, UNLABELED, torch.zeros(3)), {}, r"positives must have shape \(a, m\)"),
        ((torch.zeros(3, 1), UNLABELED), {}, r"positive must have shape \(a,\)"),
        (
            (POSITIVE, UNLABELED.long()),
            {},
            "unlabeled must hold floating-point logits; got dtype torch.int64",
        ),
        ((POSITIVE / 0, UNLABELED), {}, "positive must hold finite logits.*3 of 3 anchors"),
        ((POSITIVE, UNLABELED + math.inf), {}, "unlabeled must hold finite logits"),
        ((POSITIVE, UNLABELED, UNLABELED * math.nan), {}, "positives must hold finite logits"),
        ((POSITIVE, UNLABELED, UNLABELED - math.inf), {}, "at least one present sample for every anchor"),
        ((POSITIVE, UNLABELED.to("meta")), {}, "`positive` is on cpu, unlabeled on meta"),
    ],
)
def test_contrastive_loss_says_what_is_wrong(
    arguments: tuple[torch.Tensor, ...], settings: dict[str, Any], message: str
) -> None:
    for loss in (dc.contrastive_loss, dc.decoupled_loss):
        with pytest.raises(ValueError, match=message) as caught:
            loss(*arguments, **settings)
        assert "\n" not in str(caught.value)


def test_decoupled_loss_needs_a_floor_and_a_sample() -> None:
    with pytest.raises(ValueError, match="needs a finite `lower`"):
        dc.decoupled_loss(POSITIVE, UNLABELED, tau_plus=0.1)
    with pytest.raises(ValueError, match="at least one unlabeled sample"):
        dc.decoupled_loss(POSITIVE, UNLABELED - math.inf)
    assert dc.decoupled_loss(POSITIVE, UNLABELED, tau_plus=0.1, on_floor="biased").isfinite()
    assert dc.decoupled_loss(POSITIVE, UNLABELED, tau_plus=torch.zeros(3)).isfinite()
