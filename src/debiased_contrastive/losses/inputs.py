"""Checks of the embeddings, labels, ids and masks that users pass, and the cast to the dtype of arithmetic."""

import inspect
import math
import warnings
from collections.abc import Mapping
from numbers import Real

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Share, is_anywhere
from debiased_contrastive.numerics import number_like, working_dtype
from debiased_contrastive.objectives.losses import check_tensor
from debiased_contrastive.objectives.statistics import Statistics

_OURS = ("debiased_contrastive.", "torch.")


def check_embeddings(named: Mapping[str, Tensor], *, look: bool) -> None:
    """Raise unless all are floating-point embeddings on one device with one feature size d; finite, with `look`."""
    first_name, first = next(iter(named.items()))
    for name, z in named.items():
        if not z.is_floating_point():
            raise ValueError(f"{name} must be floating-point; got {z.dtype}: pass embeddings, not indices")
        if z.device != first.device:
            raise ValueError(
                f"all embeddings must be on one device; {first_name} is on {first.device}, "
                f"{name} on {z.device}: move them with .to({str(first.device)!r})"
            )
        if z.shape[-1] != first.shape[-1]:
            raise ValueError(
                f"all embeddings must have the same number of features; {first_name} has shape "
                f"{tuple(first.shape)}, {name} {tuple(z.shape)}: they must come from projectors of one width"
            )
    # A sum is finite only if every term is. So one wait for the device serves all of them; which of them it was is
    # asked only where one is not finite.
    if not look or math.isfinite(sum(z.detach().sum(dtype=working_dtype(z)) for z in named.values())):
        return
    for name, z in named.items():
        rows = z.flatten(0, -2)
        bad = int((~rows.isfinite().all(-1)).sum())
        if bad:
            raise ValueError(
                f"embeddings must be finite; {name} has NaN or inf in {bad} of {len(rows)} rows: the encoder "
                "diverged or overflowed in half precision"
            )


def check_shape(name: str, tensor: Tensor, shape: tuple[int | str, ...], remedy: str) -> None:
    """Raise unless `tensor` is one and has `shape`, in which a letter stands for any positive size."""
    check_tensor(name, tensor)
    if tensor.shape == shape:
        return
    fits = tensor.dim() == len(shape) and all(
        size == want if isinstance(want, int) else size > 0 for size, want in zip(tensor.shape, shape, strict=False)
    )
    if not fits:
        wanted = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"{name} must have shape {wanted}; got {tuple(tensor.shape)}: {remedy}")


def check_both_or_neither(name: str, own: object, others: str, samples: object, of_others: object) -> None:
    """Raise unless negative_`name` is given, not None, exactly where `name` and the samples `others` both are."""
    if (own is not None and samples is not None) == (of_others is not None):
        return
    parts = {name: own, others: samples, f"negative_{name}": of_others}
    got = ", ".join(f"{part} {'missing' if value is None else 'given'}" for part, value in parts.items())
    raise ValueError(
        f"negative_{name} must be given exactly when both {name} and {others} are; got {got}: pass both or neither"
    )


def check_codes(
    name: str, codes: Tensor | None, shape: tuple[int, ...], like: Tensor, *, lowest: int | None = None
) -> Tensor | None:
    """A copy of the codes as int64; raise unless they are integers of that shape, where `like` is.

    lowest: look at their values, none of which may be smaller.
    """
    if codes is None:
        return None
    check_tensor(name, codes)
    if codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        raise ValueError(f"{name} must be integers; got {codes.dtype}: convert with .long()")
    if tuple(codes.shape) != shape:
        raise ValueError(
            f"{name} must have shape {shape}, one for each sample; got {tuple(codes.shape)}: take them from the "
            "same batch as the embeddings"
        )
    if codes.device != like.device:
        raise ValueError(
            f"{name} must be on the device of the embeddings; got {codes.device}: move them with "
            f".to({str(like.device)!r})"
        )
    # A copy, since the backward reads them again: by then a queue may hold others.
    codes = codes.to(torch.int64, copy=True)
    if lowest is not None and codes.numel() and int(codes.min()) < lowest:
        raise ValueError(
            f"{name} must be >= {lowest}; got {int(codes.min())}: the oracle needs every label, "
            "DebiasedNTXentLoss takes partly known ones as positive_labels, -1 for unknown"
        )
    return codes


def check_exclude(exclude: Tensor | None, query: Tensor, columns: int | None) -> Tensor | None:
    """The mask; raise unless it is boolean with a row for each query, and so many columns where that is known."""
    if exclude is None:
        return None
    check_tensor("exclude", exclude)
    fits = exclude.dim() == 2 and len(exclude) == len(query) and columns in (None, exclude.shape[1])
    if exclude.dtype != torch.bool or not fits or exclude.device != query.device:
        raise ValueError(
            f"exclude must be boolean with shape ({len(query)}, {'n' if columns is None else columns}) on "
            f"{query.device}, a column for each sample that queries are compared with; got {exclude.dtype} "
            f"{tuple(exclude.shape)} on {exclude.device}: True leaves a pair out"
        )
    return exclude


def check_log_q(log_q: Tensor | None, query: Tensor, shape: tuple[int, ...], *, look: bool) -> Tensor | None:
    """The log-probabilities without their graph; raise unless they have that shape and, with `look`, are finite."""
    if log_q is None:
        return None
    check_tensor("log_q", log_q)
    if not log_q.is_floating_point() or tuple(log_q.shape) != shape or log_q.device != query.device:
        raise ValueError(
            f"log_q must be floating-point with shape {shape} on {query.device}, one for each sample of this "
            f"process that queries are compared with; got {log_q.dtype} {tuple(log_q.shape)} on {log_q.device}: "
            "the log of the probability to be drawn"
        )
    if look and not bool(log_q.isfinite().all()):
        raise ValueError("log_q must be finite; got NaN or inf: a sample that was drawn has a probability above 0")
    return log_q.detach()


def check_present(present: float | Tensor, share: Share, *, look: bool) -> None:
    """Warn where labels, ids or masks leave an anchor without any unlabeled sample; raise where they leave all so.

    The loss of such an anchor is 0. One of several processes that has nothing left does not stop the others; if
    none has anything, all raise.
    """
    # Several processes ask each other, so all of them must, whoever of them looks at values.
    if not isinstance(present, Tensor) or (share.is_alone and not look):
        return
    if not is_anywhere(bool((present > 0).any()), share, present.device):
        anchors = len(present) // share.sizes[share.rank] * share.total
        raise ValueError(
            f"labels, ids and masks must leave some anchor an unlabeled sample; got {anchors} of {anchors} anchors "
            "without any: use a larger or more varied batch or queue"
        )
    warn_if_empty(present, look=look)


def warn_if_empty(present: float | Tensor, *, look: bool) -> None:
    """Warn where an anchor has no unlabeled sample, or none that weighs anything."""
    if look and isinstance(present, Tensor) and (empty := int((present == 0).sum())):
        warn_caller(
            f"labels, ids, masks or weights leave {empty} of {len(present)} anchors without unlabeled samples: "
            "nothing repels them"
        )


def warn_alone() -> None:
    """Warn of a batch of one; a compiled graph has no way to."""
    if not torch.compiler.is_compiling():
        warn_caller("a batch of one has no unlabeled samples, so its loss is 0: drop_last=True leaves it out")


def warn_caller(message: str) -> None:
    """Warn at the line that called the loss, however many of ours and of torch's lie between."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, stacklevel=depth)


def without_empty(count: float | Tensor, left: float | Tensor) -> float | Tensor:
    """The count of each anchor, but 0 for those that have nothing left."""
    if not isinstance(left, Tensor):
        return count
    return torch.where(left == 0, 0.0, number_like(count, left))


def check_temperature(temperature: float | Tensor, *, look: bool) -> None:
    """Raise unless it is one number; of a tensor, with `look`, and of a float, unless it is positive and finite."""
    if isinstance(temperature, Tensor) and temperature.numel() != 1:
        raise ValueError(
            f"temperature must be one number; got a tensor of shape {tuple(temperature.shape)}: use one for all"
        )
    if not isinstance(temperature, Tensor | Real):
        raise ValueError(f"temperature must be a float or a tensor; got {temperature!r}: 0.5 is SimCLR's")
    if isinstance(temperature, Tensor) and (not look or temperature.is_meta):
        return
    value = float(temperature.detach() if isinstance(temperature, Tensor) else temperature)
    if not 0 < value < math.inf:
        raise ValueError(
            f"temperature must be positive and finite; got {value}: a learnt one is kept positive by "
            "learning its logarithm, temperature = log_temperature.exp()"
        )


def check_logits(statistics: Statistics) -> None:
    """Raise where products of finite embeddings are not finite."""
    means = statistics.log_mean_unlabeled + statistics.log_mean_positives
    if not bool((means.detach().sum() + statistics.positive.detach().sum()).isfinite()):
        raise ValueError(
            "logits must be finite; products of these embeddings, divided by the temperature, overflow: "
            "use normalize=True, smaller embeddings or a higher temperature"
        )


def cast(embeddings: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The embeddings in the working dtype, at least float32, before any product is formed."""
    dtype = working_dtype(*embeddings.values())
    return {name: z.to(dtype) for name, z in embeddings.items()}


def layout(embeddings: Mapping[str, Tensor]) -> dict[str, int]:
    """Numbers that must be the same on every process, by name; zeros and defaults without embeddings."""
    tensors = list(embeddings.values())
    needs_grad = torch.is_grad_enabled() and any(z.requires_grad for z in tensors)
    return {
        "number of features": tensors[0].shape[-1] if tensors else 0,
        "bytes of the working dtype": working_dtype(*tensors).itemsize,
        "need of a gradient": int(needs_grad),
    }
