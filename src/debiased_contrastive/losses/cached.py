"""Gradients of batches beyond memory: embeddings first, then their gradients, then the encoder by parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor

from debiased_contrastive.kernels.absent import tiles
from debiased_contrastive.objectives.losses import check_tensor

Input: TypeAlias = Tensor | Mapping[str, Tensor]
Encode: TypeAlias = Callable[..., Tensor]


def cached_backward(
    loss: Callable[..., Tensor],
    encode: Encode | Sequence[Encode],
    *inputs: Input,
    chunk: int,
    backward: Callable[[Tensor], None] = torch.autograd.backward,
    **rest: Any,
) -> Tensor:
    """The backward of loss(encode(x) for x in inputs), with memory for the activations of one chunk at a time.

    The embeddings of the whole batch are computed without a graph; the loss gives their gradients; then each chunk
    is encoded again, with the same random numbers, and its part of the gradient goes through it (Gao et al., 2021).
    Gradients are those of a plain backward, as long as an encoder treats each sample by itself. Batch norm does
    not: it sees chunks, and counts each of them twice in its running means.

    Args:
        loss: A loss of this library, or any function of embeddings; its own parameters get their gradients, too.
        encode: From an input to embeddings (n, d); or a list of such functions, one for each input. Modules under
            DistributedDataParallel send their gradients once, with the last chunk.
        *inputs: Tensors (b, ...), or dicts of them, such as tokens and masks. The loss gets embeddings by place:
            `lambda query, key, hard: loss(query, key, hard_negatives=hard)` gives the third its name.
        chunk: Number of samples that are encoded with a graph at once.
        backward: What calls the backward of the loss: `lambda value: scaler.scale(value).backward()` for half
            precision, or `fabric.backward`.
        **rest: Further arguments of the loss, such as labels or membership.

    Returns:
        The value of the loss, without its graph.

    >>> layer, loss = torch.nn.Linear(3, 2), lambda z0, z1: (z0 - z1).square().mean()
    >>> value = cached_backward(loss, layer, torch.ones(6, 3), torch.zeros(6, 3), chunk=4)
    >>> value.requires_grad, layer.weight.grad is None
    (False, False)
    """
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk must be a whole number of at least 1; got {chunk!r}: as many samples as fit")
    if not torch.is_grad_enabled():
        raise ValueError("cached_backward computes gradients; it got torch.no_grad(): call it outside")
    if not inputs:
        raise ValueError("cached_backward needs the inputs to encode; got none: pass the views of a batch")
    encoders = list(encode) if isinstance(encode, Sequence) else [encode] * len(inputs)
    if len(encoders) != len(inputs):
        raise ValueError(f"there must be one encoder, or one for each input; got {len(encoders)} and {len(inputs)}")
    chunks = [list(_chunks(place, given, chunk)) for place, given in enumerate(inputs)]
    states: list[list[_RandomState]] = [[] for _ in inputs]
    embeddings = [_embed(*each) for each in zip(encoders, chunks, states, strict=True)]
    value = loss(*embeddings, **rest)
    backward(value)
    # Under DDP the gradients of an encoder are sent with the last chunk that it sees.
    last = {id(encoder): place for place, encoder in enumerate(encoders)}
    for place, encoder in enumerate(encoders):
        if embeddings[place].grad is not None:
            _propagate(
                encoder, chunks[place], states[place], embeddings[place].grad, sends=last[id(encoder)] == place
            )
    return value.detach()


@torch.no_grad()
def _embed(encoder: Encode, parts: list[Input], states: list["_RandomState"]) -> Tensor:
    """The embeddings of all parts, without a graph; what each of them draws at random is kept in `states`."""
    rows = []
    for part in parts:
        states.append(_RandomState(part))
        rows.append(_check_rows(encoder(part), part))
    # Up to torch 2.4, autocast would use the weights that it cast here again, and they have no graph.
    torch.clear_autocast_cache()
    return torch.cat(rows).requires_grad_()


def _check_rows(z: object, part: Input) -> Tensor:
    """The embeddings of a part; raise unless they are a tensor with a row for each of its samples."""
    if not isinstance(z, Tensor) or not z.is_floating_point() or z.shape[:1] != _first(part).shape[:1]:
        got = f"{z.dtype} {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(
            f"encode must give floating-point embeddings, a row for each of the {len(_first(part))} samples of a "
            f"chunk; got {got}: pass a function that takes them from what the model returns"
        )
    return z


def _propagate(
    encoder: Encode, parts: list[Input], states: list["_RandomState"], gradient: Tensor | None, *, sends: bool
) -> None:
    """Encode each part again, and let its share of the gradient go through the encoder."""
    assert gradient is not None
    pieces = gradient.split([len(_first(part)) for part in parts])
    for number, (part, state, piece) in enumerate(zip(parts, states, pieces, strict=True), 1):
        is_last = sends and number == len(parts)
        with state.replayed(), nullcontext() if is_last else _without_sending(encoder):
            z = encoder(part)
            # A frozen encoder, or one of keys, has nothing to learn.
            if z.requires_grad:
                z.backward(piece)


class _RandomState:
    """The state of the generators from which an encoder draws, on the CPU and on the device of its input."""

    def __init__(self, part: Input) -> None:
        device = _first(part).device
        self.devices = [device] if device.type == "cuda" else []
        self.cpu = torch.get_rng_state()
        self.cuda = [torch.cuda.get_rng_state(device) for device in self.devices]

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw the same numbers again, and leave the generators as they are now."""
        with torch.random.fork_rng(self.devices):
            torch.set_rng_state(self.cpu)
            for device, state in zip(self.devices, self.cuda, strict=True):
                torch.cuda.set_rng_state(state, device)
            yield


def _chunks(place: int, given: Input, chunk: int) -> Iterator[Input]:
    """The samples of an input, so many at a time."""
    named = given if isinstance(given, Mapping) else {f"inputs[{place}]": given}
    for name, tensor in named.items():
        check_tensor(name, tensor)
    lengths = {name: len(tensor) if tensor.dim() else 0 for name, tensor in named.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(
            f"an input must have tensors of one length, at least 1, a row for each sample; got {lengths}: they are "
            "cut along their first dimension"
        )
    for part in tiles(len(_first(given)), chunk):
        yield given[part] if isinstance(given, Tensor) else {name: rows[part] for name, rows in given.items()}


def _first(given: Input) -> Tensor:
    return given if isinstance(given, Tensor) else next(iter(given.values()))


def _without_sending(encoder: Encode) -> AbstractContextManager[None]:
    """Keep the gradients of this backward on this process; under DDP the last one sends the sum."""
    context: AbstractContextManager[None] = getattr(encoder, "no_sync", nullcontext)()
    return context
