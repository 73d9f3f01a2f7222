"""Runs on text in sentence-transformers and MTEB, and `debiased export`: the same vectors everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import debiased_contrastive as dc
from benchmarks.contenders import load_torchvision
from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import new_run
from debiased_contrastive.text.frozen import SentenceEncoder
from tests.cli.test_cli import error_of
from tests.test_encoders import folder as folder

load_torchvision()
SENTENCES = ["sea1 sea2 town3", "town4", "never seen", "sea1 " * 20, ""]


def vectors_of(run: Path) -> torch.Tensor:
    encoder = dc.load_encoder(run)
    assert isinstance(encoder, SentenceEncoder)
    return encoder.encode(SENTENCES)


def test_sentence_transformers_loads_what_is_exported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library: Any = pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is missing")
    out = tmp_path / "model"
    main(["export", str(folder / "text"), "--to", "sentence-transformers", "--out", str(out)])
    assert "trust_remote_code=True" in capsys.readouterr().out
    model = library.SentenceTransformer(str(out), trust_remote_code=True, device="cpu")
    wanted = vectors_of(folder / "text")
    np.testing.assert_allclose(model.encode(SENTENCES, batch_size=2), wanted.numpy(), rtol=1e-6, atol=1e-6)
    assert model.get_embedding_dimension() == wanted.shape[1]
    assert str(folder) not in (out / "settings.json").read_text(), "no paths of this machine"
    torch.testing.assert_close(vectors_of(out), wanted)
    model.save(str(tmp_path / "again"), create_model_card=False)
    again = library.SentenceTransformer(str(tmp_path / "again"), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(again.encode(SENTENCES), model.encode(SENTENCES))
    line = error_of(["export", str(folder / "text"), "--to", "sentence-transformers", "--out", str(out)], capsys)
    assert "must be a folder that is empty or not there yet" in line


def test_mteb_calls_it(folder: Path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb.models import EncoderProtocol
    from torch.utils.data import DataLoader

    from debiased_contrastive.integrations.mteb import MTEBEncoder

    encoder = dc.load_encoder(folder / "text")
    assert isinstance(encoder, SentenceEncoder)
    assert isinstance(MTEBEncoder(encoder), EncoderProtocol)
    model: Any = MTEBEncoder(encoder)
    wanted = vectors_of(folder / "text").numpy()
    batches: Any = DataLoader([{"text": sentence} for sentence in SENTENCES], batch_size=2)  # type: ignore[arg-type]
    found = model.encode(
        batches, task_metadata=None, hf_split="test", hf_subset="default", prompt_type=None, batch_size=8
    )
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(model.encode(SENTENCES), wanted)
    similarity = model.similarity(found, found)
    torch.testing.assert_close(similarity.diagonal(), torch.ones(len(found)))
    torch.testing.assert_close(model.similarity_pairwise(found, found[::-1].copy()), similarity.flip(1).diagonal())


def test_export_to_onnx_and_what_it_refuses(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("onnxruntime", "onnxscript"):
        pytest.importorskip(name, reason="the extra onnx is not installed")
    main(["export", str(folder / "images"), "--out", str(tmp_path / "new" / "encoder.onnx")])
    assert "computes what torch does; the largest difference seen is" in capsys.readouterr().out
    assert (tmp_path / "new" / "encoder.onnx").stat().st_size > 1000
    new_run(tmp_path / "agent", {"camera": {}}, "control")
    for run, words in (
        (folder / "images", "is a run on images: sentence-transformers takes runs on text"),
        (tmp_path / "agent", "is a run on control: there are encoders of images and text alone"),
        (tmp_path / "nowhere", "holds no run"),
    ):
        line = error_of(["export", str(run), "--to", "sentence-transformers", "--out", str(tmp_path / "x")], capsys)
        assert words in line
