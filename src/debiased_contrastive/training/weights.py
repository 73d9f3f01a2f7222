"""An encoder on disk: weights as safetensors, settings as JSON, nothing that could run code."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from debiased_contrastive.files import check_is_file, file_digest, read_json, write_atomically
from debiased_contrastive.training.state import check_finite, state_difference

_WEIGHTS = "encoder.safetensors"
_DESCRIPTION = "encoder.json"


def save_encoder(
    folder: Path, encoder: nn.Module, settings: Mapping[str, Any], *, beside: Sequence[str] = ()
) -> None:
    """Write `encoder.safetensors` and `encoder.json` to a folder, each whole or not at all.

    `settings` is whatever rebuilds the encoder, as JSON can hold it; tuples come back as lists. `beside` names
    files of the folder that the encoder is nothing without, such as a vocabulary: they must not change either.
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
    write_atomically(folder / _DESCRIPTION, f"{text}\n")


def load_encoder_weights(folder: Path, encoder: nn.Module) -> dict[str, Any]:
    """The settings that `save_encoder` wrote, after copying the weights into an encoder built from them.

    Where a file is missing or damaged, or a name or shape differs, it raises and the encoder stays as it was.
    """
    folder = Path(folder)
    description = _description(folder / _DESCRIPTION)
    check_is_file(folder / _WEIGHTS)
    weights = (folder / _WEIGHTS).read_bytes()
    digest = hashlib.sha256(weights).hexdigest()
    if digest != description["sha256"]:
        raise ValueError(
            f"{folder / _WEIGHTS} must be the file that {_DESCRIPTION} describes, {description['bytes']} bytes "
            f"with sha256 {description['sha256']}; got {len(weights)} bytes with {digest}: it is truncated, "
            "damaged or of another export, save the encoder again"
        )
    _check_beside(folder, description)
    tensors = _load(weights, folder / _WEIGHTS)
    difference = state_difference(encoder.state_dict(), tensors)
    if difference:
        raise ValueError(
            f"{folder / _WEIGHTS} must have the encoder's names and shapes; {difference}: build the encoder "
            f"with the settings in {_DESCRIPTION}"
        )
    check_finite(tensors, f"in {folder / _WEIGHTS}")
    encoder.load_state_dict(tensors)
    settings: dict[str, Any] = description["settings"]
    return settings


def _load(weights: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return load(weights)
    except SafetensorError as error:
        raise ValueError(f"{path} holds no weights ({error}): restore it from a copy") from None


def _check_beside(folder: Path, description: Mapping[str, Any]) -> None:
    for name, digest in description.get("beside", {}).items():
        if file_digest(folder / name) != digest:
            raise ValueError(
                f"{folder / name} is not the file that the encoder was saved with: restore it from a copy"
            )


def _tensors(encoder: nn.Module) -> dict[str, Tensor]:
    """The state as separate contiguous tensors; safetensors refuses shared and strided memory."""
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


def _description(path: Path) -> dict[str, Any]:
    """The content of `encoder.json`, checked so far as the loader reads it."""
    description = read_json(path)
    kinds = {"settings": dict, "bytes": int, "sha256": str}
    is_whole = all(isinstance(description.get(name), kind) for name, kind in kinds.items())
    if not is_whole or not isinstance(description.get("beside", {}), dict):
        raise ValueError(f"{path} must hold settings, bytes and sha256, as save_encoder writes; save it again")
    return description
