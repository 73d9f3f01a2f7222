"""Every encoder as an ONNX graph: onnxruntime computes what torch computes, for any batch and length."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from debiased_contrastive.images.frozen import ImageEncoder
from debiased_contrastive.images.networks import make_encoder
from debiased_contrastive.images.presets import CMC_PRESETS, DEMO_SETTINGS
from debiased_contrastive.images.settings import SimCLREncoder
from debiased_contrastive.integrations.onnx import write_onnx
from debiased_contrastive.text.frozen import SentenceEncoder
from debiased_contrastive.text.quickthoughts import make_method
from debiased_contrastive.text.settings import Text, TextSettings, Towers
from debiased_contrastive.text.vocabulary import make_tokenizer, tokenise

onnxruntime: Any = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")


def run(file: Path, **inputs: torch.Tensor) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found: np.ndarray[Any, Any] = session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]
    return found


@pytest.mark.parametrize("name", ["small", "resnet18", "cmc"])
def test_images(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings: Any = CMC_PRESETS["cmc-small"].settings if name == "cmc" else DEMO_SETTINGS
    if name == "resnet18":
        settings = replace(settings, encoder=SimCLREncoder("resnet18", width=4))
    encoder = ImageEncoder(make_encoder(settings), settings)
    assert write_onnx(encoder, tmp_path / "encoder.onnx") < 1e-5
    side = settings.views.size
    pixels = torch.randint(256, (5, len(settings.views.mean), side, side), dtype=torch.uint8)
    np.testing.assert_allclose(
        run(tmp_path / "encoder.onnx", pixels=pixels), encoder(pixels).numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["gru", "bag", "transformer"])
def test_sentences(name: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer([f"w{k}" for k in range(20)])
    settings = TextSettings(text=Text(longest=12), towers=Towers(name, 6, 8))
    encoder = SentenceEncoder(make_method(settings, tokenizer.get_vocab_size()), tokenizer, 12)
    assert write_onnx(encoder, tmp_path / "encoder.onnx") < 1e-5
    sentences = ["w1", "w2 w3 never w5", " ".join(f"w{k}" for k in range(12)), "w7 w7", ""]
    rows = tokenise(tokenizer, sentences, 12)
    found = run(tmp_path / "encoder.onnx", tokens=rows.tokens, lengths=rows.lengths)
    np.testing.assert_allclose(found, encoder.encode(sentences).numpy(), rtol=1e-4, atol=1e-5)


def test_other_modules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be one that load_encoder gave; got a Linear"):
        write_onnx(torch.nn.Linear(2, 2), tmp_path / "encoder.onnx")
    assert not (tmp_path / "encoder.onnx").exists()
