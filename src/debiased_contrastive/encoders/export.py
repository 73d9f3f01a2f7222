"""An encoder on disk: weights as safetensors, settings as JSON, nothing that could run code."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from debiased_contrastive.encoders.state import state_difference
from debiased_contrastive.files import write_atomically

_WEIGHTS = "encoder.safetensors"
_DESCRIPTION = "encoder.json"


def save_encoder(folder: Path, encoder: nn.Module, settings: Mapping[str, Any]) -> None:
    """Write `encoder.safetensors` and `encoder.json` to a folder, each whole or not at all.

    `settings` is whatever rebuilds the encoder, as JSON can hold it; tuples come back as lists.
    """
    weights = save(_tensors(encoder))
    # The digest ties the two files together: a crash between the writes is noticed when loading.
    digest = hashlib.sha256(weights).hexdigest()
    try:
        text = json.dumps({"settings": dict(settings), "bytes": len(weights), "sha256": digest}, indent=2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings must be values that JSON can hold; {error}: convert it first") from None
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _WEIGHTS, weights)
    write_atomically(folder / _DESCRIPTION, f"{text}\n")


def load_encoder_weights(folder: Path, encoder: nn.Module) -> dict[str, Any]:
    """The settings that `save_encoder` wrote, after copying the weights into an encoder built from them.

    Where a file is missing or damaged, or a name or shape differs, it raises and the encoder stays as it was.
    """
    folder = Path(folder)
    description = _description(folder / _DESCRIPTION)
    weights = _content(folder / _WEIGHTS)
    digest = hashlib.sha256(weights).hexdigest()
    if digest != description["sha256"]:
        raise ValueError(
            f"{folder / _WEIGHTS} must be the file that {_DESCRIPTION} describes, {description['bytes']} bytes "
            f"with sha256 {description['sha256']}; got {len(weights)} bytes with {digest}: it is truncated, "
            "damaged or of another export, save the encoder again"
        )
    tensors = load(weights)
    difference = state_difference(encoder.state_dict(), tensors)
    if difference:
        raise ValueError(
            f"{folder / _WEIGHTS} must have the encoder's names and shapes; {difference}: build the encoder "
            f"with the settings in {_DESCRIPTION}"
        )
    encoder.load_state_dict(tensors)
    settings: dict[str, Any] = description["settings"]
    return settings


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


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: expected an encoder that save_encoder wrote; save it again")
    return path.read_bytes()


def _description(path: Path) -> dict[str, Any]:
    """The content of `encoder.json`, checked so far as the loader reads it."""
    content = _content(path)
    try:
        description = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: no JSON, {error}; save the encoder again") from None
    keys = {"settings", "bytes", "sha256"}
    if not isinstance(description, dict) or not keys <= description.keys():
        raise ValueError(f"{path} must hold settings, bytes and sha256, as save_encoder writes; save it again")
    return description
