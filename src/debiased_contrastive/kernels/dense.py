"""The log-sum-exps of all logits at once: the oracle of the tiled kernel, and faster on small shapes."""

import torch
from torch import Tensor

from debiased_contrastive.kernels.mask import Absent
from debiased_contrastive.kernels.product import product


def log_sum_exp(rows: Tensor, columns: Tensor, absent: Absent, scales: tuple[float, ...]) -> Tensor:
    """log sum_j exp(scale_k rows_i . columns_j) over the present columns, shape (k, a).

    rows (a, d); columns (n, d), shared by all rows, or (a, n, d), each row's own.
    """
    logits = logits_of(rows, columns, absent)
    return torch.stack([torch.logsumexp(scale * logits, 1) for scale in scales])


def log_sum_exp_both(
    rows: Tensor, columns: Tensor, absent: Absent, scales: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """The same over columns for each row (k, a), and over rows for each column (k, n)."""
    logits = logits_of(rows, columns, absent)
    return (
        torch.stack([torch.logsumexp(scale * logits, 1) for scale in scales]),
        torch.stack([torch.logsumexp(scale * logits, 0) for scale in scales]),
    )


def logits_of(rows: Tensor, columns: Tensor, absent: Absent) -> Tensor:
    """(a, n) logits, -inf where a column is absent."""
    shared = columns.dim() == 2
    logits = product(rows, columns) if shared else product(rows.unsqueeze(1), columns).squeeze(1)
    return absent.remove_(logits, slice(0, logits.shape[0]), slice(0, logits.shape[1]))
