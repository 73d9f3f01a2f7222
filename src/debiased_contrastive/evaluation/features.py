"""Checks of features and labels at the edge of every evaluation, and unit vectors."""

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.numerics import working_dtype


def check_features(name: str, features: Tensor) -> None:
    """Raise unless `features` has shape (n, d) with n, d >= 1 and finite floating-point values."""
    if features.dim() != 2 or 0 in features.shape or not features.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point with shape (n, d), n and d at least 1; got {features.dtype} "
            f"{tuple(features.shape)}: flatten the encoder's output to one row for each sample"
        )
    # A sum is finite only if every term is, and twenty times cheaper to check than every term.
    if bool(features.sum(dtype=working_dtype(features)).isfinite()):
        return
    bad = (~features.isfinite().all(1)).nonzero()
    if len(bad):
        raise ValueError(
            f"{name} must be finite; got NaN or inf in {len(bad)} of {len(features)} rows, the first is row "
            f"{int(bad[0])}, counted from 0: the encoder diverged or overflowed in half precision"
        )


def check_labels(name: str, labels: Tensor, samples: int, num_classes: int | None = None) -> None:
    """Raise unless `labels` holds one integer from 0 to num_classes - 1 for each of the samples."""
    dtype = labels.dtype
    if dtype == torch.bool or dtype.is_floating_point or dtype.is_complex or labels.shape != (samples,):
        raise ValueError(
            f"{name} must be integers, one for each of the {samples} samples; got {dtype} "
            f"{tuple(labels.shape)}: class numbers, not one-hot rows"
        )
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0:
        raise ValueError(f"{name} must be at least 0; got {lowest}: leave out the samples without a label")
    if num_classes is not None and highest >= num_classes:
        raise ValueError(f"{name} must be below num_classes={num_classes}; got {highest}: number classes from 0")


def count_classes(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    num_classes: int | None,
) -> int:
    """The given number of classes, or one more than the largest label; raise if the sets cannot be compared."""
    for name, features in (("train_features", train_features), ("test_features", test_features)):
        check_features(name, features)
    if train_features.shape[1] != test_features.shape[1]:
        raise ValueError(
            f"train_features and test_features must have one width; got {train_features.shape[1]} and "
            f"{test_features.shape[1]}: take both from the same layer of one encoder"
        )
    devices = sorted({str(each.device) for each in (train_features, train_labels, test_features, test_labels)})
    if len(devices) > 1:
        raise ValueError(f"features and labels must be on one device; got {devices}: move them with .to(...)")
    if num_classes is not None and num_classes < 1:
        raise ValueError(f"num_classes must be at least 1; got {num_classes}: None counts them")
    check_labels("train_labels", train_labels, len(train_features), num_classes)
    check_labels("test_labels", test_labels, len(test_features), num_classes)
    return num_classes or 1 + max(int(train_labels.max()), int(test_labels.max()))


def unit_rows(features: Tensor) -> Tensor:
    """The rows at length 1, in the working dtype; a zero row, which has no direction, stays zero."""
    features = features.to(working_dtype(features))
    # Divided by the largest entry first: squares of very small or large features would underflow or overflow.
    largest = features.abs().amax(1, keepdim=True)
    return F.normalize(features / torch.where(largest > 0, largest, 1.0), dim=1)


def top_hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Number of rows whose label is among the k largest logits, as a tensor, so that no device is waited for."""
    return (logits.topk(k, dim=1).indices == labels.unsqueeze(1)).any(1).sum()
