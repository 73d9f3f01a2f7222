"""An encoder on disk: weights as safetensors, settings as JSON, nothing that could run code."""

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from debiased_contrastive.files import check_is_file, file_digest, read_json, write_atomically
from debiased_contrastive.runs import ENCODER, SETTINGS, Run, settings_difference

_WEIGHTS = "encoder.safetensors"
_MAX_NAMES = 4
"""Names that a message lists at most."""
Module = TypeVar("Module", bound=nn.Module)
Value = TypeVar("Value")


def state_difference(expected: Mapping[str, object], given: Mapping[str, object]) -> str:
    """Describe in one line what is missing, unexpected or of another shape in `given`; empty where nothing is.

    PyTorch's own report has a line for each weight, and appears after the first ones were overwritten.

    >>> state_difference({"weight": torch.zeros(2), "bias": torch.zeros(1)}, {"weight": torch.zeros(3)})
    'missing: bias; other shapes: weight (3,) instead of (2,)'
    """
    shapes = (
        f"{name} {_shape(given[name])} instead of {_shape(value)}"
        for name, value in expected.items()
        # A module reads its own extra state, whose shape may change as it learns.
        if name in given and not name.endswith("_extra_state") and _shape(given[name]) != _shape(value)
    )
    parts = {
        "missing": _shorten(name for name in expected if name not in given),
        "unexpected": _shorten(name for name in given if name not in expected),
        "other shapes": _shorten(shapes),
    }
    return "; ".join(f"{title}: {names}" for title, names in parts.items() if names)


def with_current_names(module: nn.Module, state: dict[str, Value]) -> dict[str, Value]:
    """Rename the weights that an older version saved to the names that the module has today.

    A module lists them in its attribute `renamed`, from the old name of each of its parts to the new one.
    """
    renamed: Mapping[str, str] = getattr(module, "renamed", {})
    if not renamed:
        return state
    parts = ((name.partition("."), value) for name, value in state.items())
    return {f"{renamed.get(first, first)}{dot}{rest}": value for (first, dot, rest), value in parts}


def check_finite(state: Mapping[str, object], where: str) -> None:
    """Raise where weights are not finite: training would never recover. `where` ends the sentence."""
    for name, value in state.items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(
                f"the training diverged: {name} is not finite {where}; start again with a lower learning rate"
            )


def momentum_copy(module: Module) -> Module:
    """A deep copy whose parameters ask for no gradient, in the same training mode."""
    return copy.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def momentum_update_(target: nn.Module, source: nn.Module, momentum: float) -> None:
    """Move `target` towards `source` in place: parameters to momentum * target + (1 - momentum) * source.

    Buffers are copied: a batch norm's statistics are averages already, and its counter is an integer.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must lie in [0, 1]; got {momentum}: 0.99 to 0.999 is usual, 0 copies")
    mine, theirs = _parameters_and_buffers(target), _parameters_and_buffers(source)
    difference = state_difference(mine, theirs)
    if difference:
        raise ValueError(
            f"source must have the target's names and shapes; {difference}: pass the module that "
            "momentum_copy was given, without wrappers such as DistributedDataParallel"
        )
    for name, value in mine.items():
        if isinstance(value, nn.Parameter):
            value.lerp_(theirs[name].to(value), 1 - momentum)
        else:
            value.copy_(theirs[name])


def _parameters_and_buffers(module: nn.Module) -> dict[str, Tensor]:
    # Unlike a state dict, with the buffers that are not persistent.
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _shorten(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MAX_NAMES} more" if len(every) > _MAX_NAMES else ""
    return ", ".join(every[:_MAX_NAMES]) + more


def save_encoder(
    folder: Path, encoder: nn.Module, settings: Mapping[str, Any], *, beside: Sequence[str] = ()
) -> None:
    """Write `encoder.safetensors` and `encoder.json` to a folder, each whole or not at all.

    Args:
        folder: Where the files go; it is made if it is not there.
        encoder: The module whose state is saved.
        settings: Whatever rebuilds the encoder, as JSON can hold it; tuples come back as lists.
        beside: Names of files in the folder that the encoder needs, such as a vocabulary; their digests are saved
            too.
    """
    check_finite(encoder.state_dict(), "at the end")
    weights = save(_tensors(encoder))
    folder = Path(folder)
    # The digest ties the two files together: a crash between the writes is noticed when loading.
    digest = hashlib.sha256(weights).hexdigest()
    try:
        description = {"settings": dict(settings), "bytes": len(weights), "sha256": digest}
        others = {"beside": {name: file_digest(folder / name) for name in beside}} if beside else {}
        text = json.dumps({**description, **others}, indent=2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings must be values that JSON can hold; {error}: convert it first") from None
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _WEIGHTS, weights)
    write_atomically(folder / ENCODER, f"{text}\n")


def load_encoder_weights(folder: Path, encoder: nn.Module) -> dict[str, Any]:
    """Copy the weights that `save_encoder` wrote into an encoder that was built from its settings.

    Args:
        folder: The folder with both files.
        encoder: Takes the weights; it stays as it was where this raises.

    Returns:
        The settings.

    Raises:
        ValueError: A file is damaged, or a name or shape differs. A missing file is a FileNotFoundError.
    """
    folder = Path(folder)
    description = _read_description(folder / ENCODER)
    check_is_file(folder / _WEIGHTS)
    weights = (folder / _WEIGHTS).read_bytes()
    digest = hashlib.sha256(weights).hexdigest()
    if digest != description["sha256"]:
        raise ValueError(
            f"{folder / _WEIGHTS} must be the file that {ENCODER} describes, {description['bytes']} bytes "
            f"with sha256 {description['sha256']}; got {len(weights)} bytes with {digest}: it is truncated, "
            "damaged or of another export, save the encoder again"
        )
    for name, expected in description.get("beside", {}).items():
        if file_digest(folder / name) != expected:
            raise ValueError(
                f"{folder / name} is not the file that the encoder was saved with: restore it from a copy"
            )
    try:
        tensors = with_current_names(encoder, load(weights))
    except SafetensorError as error:
        raise ValueError(f"{folder / _WEIGHTS} holds no weights ({error}): restore it from a copy") from None
    difference = state_difference(encoder.state_dict(), tensors)
    if difference:
        raise ValueError(
            f"{folder / _WEIGHTS} must have the encoder's names and shapes; {difference}: build the encoder "
            f"with the settings in {ENCODER}"
        )
    check_finite(tensors, f"in {folder / _WEIGHTS}")
    encoder.load_state_dict(tensors)
    settings: dict[str, Any] = description["settings"]
    return settings


def _tensors(encoder: nn.Module) -> dict[str, Tensor]:
    """Copy the state to separate contiguous tensors: safetensors refuses shared and strided memory."""
    state: dict[str, object] = encoder.state_dict()
    tensors = {}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"everything in the encoder's state_dict must be a tensor; got {name}, a {type(value).__name__}: "
                "return a tensor from get_extra_state"
            )
        tensors[name] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    return tensors


def _read_description(path: Path) -> dict[str, Any]:
    description = read_json(path)
    kinds = {"settings": dict, "bytes": int, "sha256": str}
    is_whole = all(isinstance(description.get(name), kind) for name, kind in kinds.items())
    if not is_whole or not isinstance(description.get("beside", {}), dict):
        raise ValueError(f"{path} must hold settings, bytes and sha256, as save_encoder writes; save it again")
    return description


def load_trained(run: Run, module: nn.Module) -> None:
    """Put the weights of a finished run into a module that was built from its settings."""
    if difference := settings_difference(load_encoder_weights(run.folder, module), run.settings):
        raise ValueError(
            f"{run.folder / SETTINGS} was changed after training, {difference}: restore it from {ENCODER}"
        )
