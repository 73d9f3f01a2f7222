"""Training on sentences: resumed as if it had never stopped, learnt, embedded in any order."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric

from debiased_contrastive.runs import Run, new_run
from debiased_contrastive.text.frozen import load_encoder
from debiased_contrastive.text.run import (
    check_corpus,
    read_corpus,
    train,
)
from debiased_contrastive.text.settings import (
    TEXT_PRESETS,
    Text,
    TextObjective,
    TextSettings,
    TextTraining,
    Towers,
    with_corpus,
)
from debiased_contrastive.training.checkpoint import latest_checkpoint
from debiased_contrastive.training.machine import start_fabric
from debiased_contrastive.training.settings import as_json, from_json

OTHER = TextSettings(
    "of mine", 7, Text(Path("a.txt"), 99, 9, True, 3, False, "t", ("a", "b"), Path("b")), Towers("bag", 8, 4, Path("c")),
    TextObjective("biased", 0.2, 0.5, "original", "relative"), TextTraining(2, 8, 0.1, 0.0, clip=1.0),
)  # fmt: skip


def write(path: Path, sentences: int = 200) -> Path:
    """Sentences of two kinds in turns of ten: neighbours share their words."""
    generator = torch.Generator().manual_seed(0)
    kinds = [[f"{kind}{k}" for k in range(12)] for kind in ("sea", "town")]
    lines = []
    for place in range(sentences):
        words = kinds[place // 10 % 2]
        lines.append(" ".join(words[int(k)] for k in torch.randint(12, (5,), generator=generator)))
        lines += [""] if place % 50 == 49 else []
    path.write_text("\n".join(lines) + "\n")
    return path


def settings_of(folder: Path, **changed: object) -> TextSettings:
    settings = TextSettings(
        text=Text(write(folder / "text.txt"), vocabulary=50, longest=8),
        towers=Towers("gru", 8, 6),
        training=TextTraining(
            epochs=3, batch=20, learning_rate=0.01, weight_decay=0.0, accelerator="cpu", log_every=1, clip=5.0
        ),
    )
    return replace(settings, **changed)  # type: ignore[arg-type]


def train_until(settings: TextSettings, run: Run, fabric: Fabric, stop: int | None = None) -> None:
    updates = train(settings, run, fabric, read_corpus(settings))
    for update in updates:
        if update.step == stop:
            updates.close()


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return start_fabric("cpu")


@pytest.mark.parametrize("stop", [1, 13])
def test_a_run_that_is_stopped_ends_as_one_that_was_not(tmp_path: Path, fabric: Fabric, stop: int) -> None:
    settings = settings_of(tmp_path)
    whole, parts = (new_run(tmp_path / name, as_json(settings)) for name in ("whole", "parts"))
    train_until(settings, whole, fabric)
    train_until(settings, parts, fabric, stop)
    assert not parts.is_finished
    train_until(settings, parts, fabric)
    states = [latest_checkpoint(run.folder)[0] for run in (whole, parts)]
    assert states[0] is not None
    assert states[1] is not None
    for name, value in states[0]["module"].items():
        assert torch.equal(value, states[1]["module"][name]), name
    lines = [[line["loss"] for line in run.metrics()] for run in (whole, parts)]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 30


def test_it_learns_what_neighbours_share_and_embeds_it(tmp_path: Path, fabric: Fabric) -> None:
    settings = settings_of(tmp_path, objective=TextObjective(temperature=0.2, tau_plus=0.05))
    run = new_run(tmp_path / "run", as_json(settings))
    train_until(settings, run, fabric)
    losses = [line["loss"] for line in run.metrics()]
    assert losses[-1] < losses[0] - 0.3
    assert all(0 <= line["floored"] <= 1 for line in run.metrics())
    encode = load_encoder(run.folder, torch.device("cpu")).encode
    sentences = ["sea1 sea2 sea3", "town4 town5", "sea7", "town1 town2 town9 town3", "sea4 never seen"]
    vectors = encode(sentences)
    assert vectors.shape == (5, 24)
    similarity = vectors @ vectors.T
    assert similarity[0, 2] > similarity[0, 1]
    assert similarity[1, 3] > similarity[1, 2]
    # Each alone as all together, whatever the others' lengths.
    for place, sentence in enumerate(sentences):
        torch.testing.assert_close(encode([sentence])[0], vectors[place])
    with pytest.raises(ValueError, match="at least one sentence to encode; got none"):
        encode([])


def test_breaks_may_be_ignored(tmp_path: Path, fabric: Fabric) -> None:
    settings = settings_of(tmp_path, training=TextTraining(epochs=1, batch=100, accelerator="cpu", log_every=1))
    losses = []
    for breaks in (True, False):
        chosen = replace(settings, text=replace(settings.text, breaks=breaks))
        run = new_run(tmp_path / str(breaks), as_json(chosen))
        train_until(chosen, run, fabric)
        losses.append(next(iter(run.metrics()))["loss"])
    assert losses[0] != losses[1]


@pytest.mark.parametrize("settings", [OTHER, *(preset.settings for preset in TEXT_PRESETS.values())])
def test_json_and_back(settings: TextSettings) -> None:
    assert from_json(TextSettings, as_json(settings)) == settings


def test_what_cannot_be_trained_is_refused(tmp_path: Path, fabric: Fabric) -> None:
    settings = settings_of(tmp_path)
    with pytest.raises(ValueError, match="at most the 200 that there are to train on; got 201"):
        check_corpus(replace(settings, training=TextTraining(batch=201)), read_corpus(settings), fabric)
    with pytest.raises(ValueError, match="a batch must have at least 4 sentences"):
        check_corpus(replace(settings, training=TextTraining(batch=3)), read_corpus(settings), fabric)
    (tmp_path / "verse.txt").write_text("\n\n".join(f"line {place}" for place in range(30)))
    verse = replace(settings, text=replace(settings.text, path=tmp_path / "verse.txt"))
    with pytest.raises(ValueError, match="a break stands between all: pass"):
        check_corpus(verse, read_corpus(verse), fabric)
    check_corpus(replace(verse, text=replace(verse.text, breaks=False)), read_corpus(verse), fabric)
    run = new_run(tmp_path / "begun", as_json(settings))
    with pytest.raises(FileNotFoundError, match="is not trained yet: finish it with"):
        load_encoder(run.folder, torch.device("cpu"))
    with pytest.raises(ValueError, match="temperature must be positive; got 0"):
        TextObjective(temperature=0.0)
    with pytest.raises(
        ValueError, match="floor must be one of 'zero', 'bound', 'small', 'relative', 'biased', 'cap_tau'"
    ):
        TextObjective(floor="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="floor=bound is that of unit vectors, so it needs a temperature"):
        TextObjective(floor="bound")
    with pytest.raises(ValueError, match="hidden_dim must be a multiple of 4"):
        Towers("transformer", 8, 6)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_corpus(with_corpus(settings, tmp_path / "nowhere.txt"))


def test_training_starts_from_the_vectors_of_a_file(tmp_path: Path, fabric: Fabric) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("sea3 " + " ".join(["0.25"] * 8) + "\n")
    settings = settings_of(tmp_path, towers=Towers("bag", 8, 6, path))
    settings = replace(settings, training=replace(settings.training, epochs=1, learning_rate=1e-9))
    run = new_run(tmp_path / "run", as_json(settings))
    train_until(settings, run, fabric)
    path.unlink()
    state = latest_checkpoint(run.folder)[0]
    assert state is not None
    place = read_corpus(settings).tokenizer.token_to_id("sea3")
    for side in ("left", "right"):
        words = state["module"][f"{side}.words.weight"]
        torch.testing.assert_close(words[place], torch.full((8,), 0.25))
        assert words[2:].abs().max() <= 0.25
    assert load_encoder(run.folder, fabric.device).encode(["sea3"]).shape == (1, 24)


def test_a_run_goes_on_with_its_own_text_alone_and_needs_no_word_vectors(tmp_path: Path, fabric: Fabric) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("sea3 " + " ".join(["0.25"] * 8) + "\n")
    settings = settings_of(tmp_path, towers=Towers("bag", 8, 6, path))
    run = new_run(tmp_path / "run", as_json(settings))
    train_until(settings, run, fabric, 4)
    path.unlink()
    (tmp_path / "other.txt").write_text("\n".join(f"word{place % 40} again" for place in range(200)))
    other = with_corpus(settings, tmp_path / "other.txt")
    with pytest.raises(ValueError, match="must go on with the text that it began with"):
        train_until(other, run, fabric)
    train_until(settings, run, fabric)
    assert run.is_finished
    (run.folder / "vocabulary.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"vocabulary.json is missing: restore it"):
        load_encoder(run.folder, fabric.device)


def test_a_block_without_neighbours_is_passed(tmp_path: Path, fabric: Fabric) -> None:
    lines = [f"word{place % 9} and word{place % 7}" + ("\n" if place >= 40 else "") for place in range(80)]
    (tmp_path / "letters.txt").write_text("\n".join(lines) + "\n")
    settings = settings_of(tmp_path)
    settings = replace(settings, text=replace(settings.text, path=tmp_path / "letters.txt"))
    run = new_run(tmp_path / "run", as_json(settings))
    train_until(settings, run, fabric)
    losses = [line["loss"] for line in run.metrics()]
    assert losses.count(0.0) == 2 * 3
    assert len(losses) == 4 * 3


def test_columns_have_the_names_that_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "text.tsv"
    path.write_text("letter\twords\n" + "".join(f"{place // 5}\tto you {place}\n" for place in range(20)))
    settings = settings_of(tmp_path)
    text = replace(settings.text, path=path, column="words", break_columns=("letter",))
    corpus = read_corpus(replace(settings, text=text))
    assert len(corpus) == 20
    assert corpus.linked(0, 20).tolist() == [place % 5 != 0 for place in range(1, 20)]
