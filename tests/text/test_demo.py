"""The demonstration on text: nothing held out is trained on, two objectives, one table and one page."""

from dataclasses import replace
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.text import demo as text_demo
from debiased_contrastive.text.demo import demo_settings, read_novels
from debiased_contrastive.text.settings import TextSettings, Towers


def test_the_end_of_every_novel_is_held_out_and_not_trained_on(tmp_path: Path) -> None:
    found = read_novels()
    assert len(found.sentences) == 6000
    counts = found.books[found.held_out].bincount()
    assert counts.tolist() == [150] * 6
    settings = demo_settings(tmp_path)["biased"]
    assert settings.text.path is not None
    lines = settings.text.path.read_text().splitlines()
    assert settings.objective.kind == "biased"
    assert len([line for line in lines if line]) == 5100
    # A sentence may stand twice in a novel; one that is only in the held-out part may not stand in the text.
    trained = {found.sentences[place] for place in range(6000) if not found.held_out[place]}
    assert set(filter(None, lines)) == trained
    # Between two novels there is a break, at the end too.
    assert lines.count("") == 6


def test_a_small_demonstration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = text_demo.settings_on

    def small(text: Path) -> TextSettings:
        settings = whole(text)
        training = replace(settings.training, epochs=1, batch=300, accelerator="cpu")
        return replace(settings, towers=Towers("bag", 16, 8), training=training)

    monkeypatch.setattr(text_demo, "settings_on", small)
    main(["demo", "--domain", "text", "--seeds", "1", "--out", str(tmp_path / "demo"), "--quiet"])
    said = capsys.readouterr()
    assert "biased" in said.out
    assert "debiased, τ⁺ = 0.01" in said.out
    # It evaluates by itself, so it asks nobody to.
    assert "next: debiased evaluate" not in said.err
    page = (tmp_path / "demo/report.html").read_text()
    assert "Which novel is this sentence from?" in page
    evaluation = (tmp_path / "demo/debiased-seed0/evaluation.json").read_text()
    assert '"linear"' in evaluation
    # Again: nothing is trained anew.
    main(["demo", "--domain", "text", "--seeds", "1", "--out", str(tmp_path / "demo"), "--quiet"])
    assert (tmp_path / "demo/debiased-seed0/evaluation.json").read_text() == evaluation
