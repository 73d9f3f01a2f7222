"""A report is there even where runs are not complete, and says what is missing."""

import re
from pathlib import Path

import pytest

from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.report.numbers import DASH
from debiased_contrastive.report.page import write_report
from debiased_contrastive.runs import Run
from tests.report.folders import cloud, course, evaluation, page, settings, write_run
from tests.report.outline import Outline, cells


def test_no_runs_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^a report needs at least one readable run; got none: name folders .*$"):
        write_report([], tmp_path / "report.html", title="Nothing", domains=DOMAINS)
    with pytest.raises(ValueError, match=r"got .*settings\.json is missing: the folder is not a complete run"):
        page([Run(tmp_path / "absent")], title="Nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_just_started(tmp_path: Path) -> None:
    content = page([write_run(tmp_path / "run", settings("biased"))], title="Started")
    assert "No run has been evaluated yet" in content
    assert "No run has logged any metrics yet." in content
    assert "<figure>" not in content
    assert Outline(content).open == []


def test_a_single_seed_shows_a_dash_for_its_interval(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings("biased"), its_evaluation=evaluation(0.7))
    content = page([run], title="One")
    assert cells(content, "biased") == ["1", f"70.0 ± {DASH}", f"68.0 ± {DASH}", f"65.0 ± {DASH}"]
    assert "nan" not in Outline(content).text.lower()


def test_only_neighbours_were_measured(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings("biased"), its_evaluation={"knn": 0.5})
    content = page([run], title="Few")
    assert cells(content, "biased") == ["1", f"50.0 ± {DASH}"]


def test_damage_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path / name,
            settings("biased", seed),
            its_evaluation=evaluation(0.7),
            metrics=course(seed, level=2, floored=0.1, epochs=3),
            tsne=cloud(0, 1.0),
        )
        for seed, name in enumerate(("sound", "evaluation", "list", "metrics", "tsne", "settings"))
    ]
    (tmp_path / "evaluation" / "evaluation.json").write_text('{"linear": ')
    (tmp_path / "list" / "evaluation.json").write_text("[]")
    (tmp_path / "metrics" / "metrics.jsonl").write_text('{"step": 0, "epoch": 0, "loss": 1.0}\n{"st\n{"step": 2}\n')
    (tmp_path / "tsne" / "tsne.json").write_text('{"points": [[0, 1]], "labels": []}')
    (tmp_path / "settings" / "settings.json").write_text("{")
    text = Outline(page([*runs, Run(tmp_path / "absent")], title="Damage")).text
    for words in (
        "evaluation/evaluation.json is not JSON",
        "list/evaluation.json must hold a JSON object; it holds a list",
        "metrics.jsonl has 1 lines that cannot be read",
        "tsne.json must hold one finite point and one label per sample",
        "settings.json is not JSON",
        "absent/settings.json is missing",
        "2 runs had no such number yet",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("points", "labels"), [([[0, float("nan")]], [0]), ([[0, 1]], [-1]), ([[0, 1]], [10**9]), ([[0]], [0]), (1, 2)]
)
def test_embeddings_that_cannot_be_drawn(tmp_path: Path, points: object, labels: object) -> None:
    tsne = {"points": points, "labels": labels, "class_names": ["a"]}
    content = page([write_run(tmp_path / "run", settings("biased"), tsne=tsne)], title="Odd")
    assert "it is not drawn" in content
    assert 'id="plane"' not in content


def test_classes_without_a_name_and_more_than_colours(tmp_path: Path) -> None:
    tsne = {"points": [[i, i] for i in range(25)], "labels": list(range(25)), "class_names": ["a"]}
    content = page([write_run(tmp_path / "run", settings("biased"), tsne=tsne)], title="Many")
    keys = re.findall(r'<span class="dot" style="color: (#\w+)" aria-hidden="true">(.)</span>([^<]+)<', content)
    assert [name for *_, name in keys] == ["a", *(f"class {label}" for label in range(1, 25))]
    assert len({(colour, letter) for colour, letter, _ in keys}) == 25
