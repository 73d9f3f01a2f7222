"""What is saved comes back, and what is damaged is refused with the encoder untouched."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from debiased_contrastive.images.encoders import resnet18, small_convnet
from debiased_contrastive.negatives.queue import NegativeQueue
from debiased_contrastive.training.weights import load_encoder_weights, save_encoder

SETTINGS = {"encoder": "small_convnet", "width": 4, "mean": [0.5, 0.25], "note": "τ⁺ = 0.1", "none": None}


class Tied(nn.Module):
    """Shared, strided, empty, scalar and half-precision values in one module."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, dtype=torch.bfloat16)
        self.second = nn.Linear(3, 3, dtype=torch.bfloat16)
        self.second.weight = self.first.weight
        self.strided = nn.Parameter(torch.randn(4, 6).t())
        self.register_buffer("empty", torch.zeros(0, 2))
        self.register_buffer("scalar", torch.tensor(7))
        self.queue = NegativeQueue(4, 2)


def small() -> nn.Module:
    return small_convnet(width=4, feature_dim=8)


def resnet() -> nn.Module:
    encoder = resnet18(width=4, stem="cifar")
    convert_conv2d_weight_memory_format(encoder, torch.channels_last)
    return encoder


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("make", [small, resnet, Tied])
def test_any_module_comes_back_bit_for_bit(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder, other = make(), make()
    strides = [value.stride() for value in other.parameters()]
    save_encoder(tmp_path / "a" / "b", encoder, SETTINGS)
    assert load_encoder_weights(tmp_path / "a" / "b", other) == SETTINGS
    for name, value in encoder.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
        assert other.state_dict()[name].dtype == value.dtype, name
    assert [value.stride() for value in other.parameters()] == strides
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["encoder.json", "encoder.safetensors"]


def test_a_second_export_replaces_the_first(tmp_path: Path) -> None:
    first, second, third = small(), small(), small()
    save_encoder(tmp_path, first, {"epoch": 1})
    save_encoder(tmp_path, second, {"epoch": 2})
    assert load_encoder_weights(tmp_path, third) == {"epoch": 2}
    assert all(map(torch.equal, third.state_dict().values(), second.state_dict().values()))


def test_a_crash_in_the_middle_leaves_the_first_export_or_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_encoder(tmp_path, small(), {"epoch": 1})
    replace = os.replace
    done: list[Path] = []

    def failing(source: Path, goal: Path) -> None:
        if len(done) == allowed:
            raise OSError("disk gone")
        done.append(goal)
        replace(source, goal)

    monkeypatch.setattr(os, "replace", failing)
    for allowed in (0, 1):
        done.clear()
        with pytest.raises(OSError, match="disk gone"):
            save_encoder(tmp_path, small(), {"epoch": 2})
        assert sorted(os.listdir(tmp_path)) == ["encoder.json", "encoder.safetensors"]
        if allowed == 0:
            assert load_encoder_weights(tmp_path, small()) == {"epoch": 1}
        else:
            with pytest.raises(ValueError, match="or of another export"):
                load_encoder_weights(tmp_path, small())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("encoder.safetensors", Path.unlink, r"encoder.safetensors is missing: restore it"),
        ("encoder.json", Path.unlink, r"encoder.json is missing: restore it"),
        ("encoder.safetensors", truncate, r"encoder.safetensors must be the file .*it is truncated"),
        ("encoder.safetensors", flip, r"encoder.safetensors must be the file .*damaged"),
        ("encoder.safetensors", empty, r"got 0 bytes"),
        ("encoder.json", truncate, r"encoder.json is not JSON"),
        ("encoder.json", empty, r"encoder.json is empty"),
        ("encoder.json", lambda path: path.write_bytes(b"\xff{}"), r"encoder.json must be UTF-8; byte 0 is not"),
        ("encoder.json", lambda path: path.write_text("{}"), r"must hold settings, bytes and sha256"),
        ("encoder.json", lambda path: path.write_text("[1]"), r"must hold a JSON object; it holds a list"),
    ],
)
def test_a_damaged_export_is_one_clear_line(
    tmp_path: Path, name: str, damage: Callable[[Path], object], message: str
) -> None:
    save_encoder(tmp_path, small(), SETTINGS)
    damage(tmp_path / name)
    encoder = small()
    before = state(encoder)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        load_encoder_weights(tmp_path, encoder)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert all(map(torch.equal, encoder.state_dict().values(), before.values()))


def test_an_encoder_of_another_shape_is_refused_and_stays(tmp_path: Path) -> None:
    save_encoder(tmp_path, small(), SETTINGS)
    encoder = small_convnet(width=4, feature_dim=16)
    before = state(encoder)
    with pytest.raises(
        ValueError, match=r"names and shapes; other shapes: .* instead of .*settings in encoder.json"
    ):
        load_encoder_weights(tmp_path, encoder)
    assert all(map(torch.equal, encoder.state_dict().values(), before.values()))


class Remembering(nn.Module):
    def get_extra_state(self) -> dict[str, int]:
        return {"step": 3}


def test_what_the_files_cannot_hold_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"settings must be values that JSON can hold; .*Path"):
        save_encoder(tmp_path, small(), {"data": tmp_path})
    with pytest.raises(ValueError, match="must be a tensor; got _extra_state, a dict"):
        save_encoder(tmp_path, Remembering(), {})
    assert not os.listdir(tmp_path)
    plain = json.loads(json.dumps(SETTINGS))
    save_encoder(tmp_path, small(), plain)
    assert json.loads((tmp_path / "encoder.json").read_text())["settings"] == plain
