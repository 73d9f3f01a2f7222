"""The numbers of a corpus and the words of a run are the ones that were written, or are told apart from them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.runs import Run
from tests.cli.test_cli import error_of
from tests.faults.conftest import SENTENCES, write_text


def change_valid_ids(cache: Path) -> None:
    tokens = np.load(cache / "tokens.npy")
    tokens[:20] = tokens[:20][::-1]
    np.save(cache / "tokens.npy", tokens)


def change_ids_out_of_range(cache: Path) -> None:
    tokens = np.load(cache / "tokens.npy")
    tokens[5] = 10_000
    np.save(cache / "tokens.npy", tokens)


def put_a_pipe(cache: Path) -> None:
    (cache / "tokens.npy").unlink()
    os.mkfifo(cache / "tokens.npy")


@pytest.mark.parametrize(
    "damage",
    [
        change_valid_ids,
        change_ids_out_of_range,
        put_a_pipe,
        lambda cache: (cache / "offsets.npy").write_bytes(b""),
        lambda cache: (cache / "corpus.json").write_text("[" * 5000),
        lambda cache: (cache / "tokenizer.json").write_text("{}"),
    ],
    ids=["valid ids", "out of range", "pipe", "empty", "deep", "tokeniser"],
)
def test_a_damaged_token_cache_is_made_anew_with_a_line(
    damage: Callable[[Path], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_text(tmp_path / "text.txt")
    main([*SENTENCES, "--corpus", str(text), "--out", str(tmp_path / "one")])
    (cache,) = tmp_path.glob("text.txt.tokens-*")
    damage(cache)
    capsys.readouterr()
    main([*SENTENCES, "--corpus", str(text), "--out", str(tmp_path / "two")])
    assert f"{cache} is damaged and is made anew" in capsys.readouterr().err
    weights = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    main([*SENTENCES, "--corpus", str(text), "--out", str(tmp_path / "three")])
    assert "is damaged" not in capsys.readouterr().err


def test_exchanged_words_of_a_vocabulary_are_one_line(
    text_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = text_run / "vocabulary.json"
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    first, second = sorted(words, key=words.__getitem__)[2:4]
    words[first], words[second] = words[second], words[first]
    path.write_text(json.dumps(content))
    (tmp_path / "new.txt").write_text("word1 and word2\n")
    line = error_of(["embed", str(text_run), "--sentences", str(tmp_path / "new.txt"), "--out", "z.npy"], capsys)
    assert f"{path} is not the file that the encoder was saved with" in line


def test_a_run_that_knew_no_digest_of_its_vocabulary_still_encodes(text_run: Path, tmp_path: Path) -> None:
    path = text_run / "encoder.json"
    content = json.loads(path.read_text())
    assert content.pop("beside").keys() == {"vocabulary.json"}
    path.write_text(json.dumps(content))
    (tmp_path / "new.txt").write_text("word1 and word2\n")
    main(["embed", str(text_run), "--sentences", str(tmp_path / "new.txt"), "--out", str(tmp_path / "z.npy"), "-q"])
    assert np.load(tmp_path / "z.npy").shape == (1, 24)


def test_a_link_that_points_to_itself_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    line = error_of([*SENTENCES, "--corpus", str(tmp_path / "loop.txt"), "--out", str(tmp_path / "run")], capsys)
    assert "loop.txt must be a file or a folder of text" in line
    line = error_of(["train", "folder", "--data.root", str(tmp_path / "loop.txt")], capsys)
    assert "loop.txt is not a folder" in line
    assert not (tmp_path / "run").exists()


def test_a_changed_vocabulary_stops_a_resume(text_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text_run / "encoder.json").unlink()
    (text_run / "vocabulary.json").write_text("{}")
    with pytest.raises(SystemExit, match="2"):
        main(["resume", str(text_run), "--quiet"])
    assert "this one has other words than vocabulary.json" in capsys.readouterr().err.splitlines()[-1]
    assert not Run(text_run).is_finished
