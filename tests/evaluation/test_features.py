"""Rows of any scale have a direction, and sums that overflow are no fault of the features."""

import pytest
import torch

from debiased_contrastive.evaluation.features import check_features, top_hits, unit_rows


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1.0, 1e30])
def test_unit_rows_at_any_scale(scale: float) -> None:
    rows = unit_rows(scale * torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    torch.testing.assert_close(rows, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_half_precision_is_widened_first() -> None:
    rows = unit_rows(torch.tensor([[60000.0, 60000.0]], dtype=torch.float16))
    torch.testing.assert_close(rows, torch.full((1, 2), 0.5**0.5))
    assert unit_rows(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64


def test_finite_features_whose_sum_overflows_pass() -> None:
    check_features("z", torch.full((4, 2), 3e38))
    with pytest.raises(
        ValueError, match="z must be finite; got NaN or inf in 1 of 4 rows, the first is row 1, counted from 0"
    ):
        check_features("z", torch.tensor([[1.0], [torch.inf], [2.0], [3.0]]))


def test_hits_are_counted() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    assert [int(top_hits(logits, torch.tensor([1, 1]), k)) for k in (1, 2, 3)] == [0, 2, 2]
