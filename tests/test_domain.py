"""The record of a domain decides what is read, and runs of a domain that nobody described are shown all the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.control.domain import CONTROL
from debiased_contrastive.domain import Metric, number_at, unknown_domain
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.images.domain import IMAGES
from debiased_contrastive.report import groups
from debiased_contrastive.report.page import render_report
from debiased_contrastive.runs import Run
from debiased_contrastive.text.domain import TEXT
from tests.report.folders import evaluation, page, rows, settings, write_run
from tests.report.outline import Outline


def sound_run(folder: Path, kind: str, seed: int, level: float) -> Run:
    """A run of a domain that is not in this package."""
    its_settings = settings(kind, seed) | {"domain": "sound <loud>", "data": {"name": "birds"}}
    probe: dict[str, Any] = {
        "songs": {"top1": level, "names": ["wren"]},
        "pitch": 12,
        "alignment": 0.3,
        "note": "x",
    }
    return write_run(folder, its_settings, its_evaluation=probe, metrics=[{"step": 1, "loss": 2.0}])


def test_runs_of_an_unknown_domain_show_whatever_can_be_read(tmp_path: Path) -> None:
    levels = {"biased": 0.7, "debiased": 0.72, "unbiased": 0.75}
    runs = [
        sound_run(tmp_path / f"{kind}{seed}", kind, seed, level + seed / 1000)
        for kind, level in levels.items()
        for seed in range(2)
    ]
    found = rows(runs)
    assert [row.main.key for row in found] == ["songs.top1"] * 3
    assert found[0].measures["pitch"].mean == 12
    assert found[1].gap_closed == pytest.approx(0.4)
    outline = Outline(page(runs, title="Sound"))
    assert outline.open == []
    text = outline.text.replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "3 settings of contrastive training on sound <loud> for 40 epochs, 2 seeds each.",
        "songs.top1 and pitch: as its evaluation calls it.",
        "Result, mean ± 95 % interval over seeds",
        "Sampling bias costs 0.050 ± 0.000 points here",
        "Alignment",
    ):
        assert words in text, words
    assert 'aria-label="Loss by step.' in page(runs, title="Sound")


def test_an_unknown_domain_without_an_evaluation(tmp_path: Path) -> None:
    run = sound_run(tmp_path / "run", "biased", 0, 0.7)
    (run.folder / "evaluation.json").unlink()
    assert "No run has been evaluated yet" in page([run], title="Sound")


def test_without_any_record_every_run_is_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings("biased"), its_evaluation=evaluation(0.7))
    content = render_report([run], title="Nothing known", domains=())
    assert "linear.top1" in content
    assert Outline(content).open == []


def test_the_named_domain_decides_and_not_the_settings(tmp_path: Path) -> None:
    its_settings = settings("biased") | {"domain": "text", "camera": {}, "task": "walker-walk"}
    (row,) = rows([write_run(tmp_path / "run", its_settings, its_evaluation={"return": {"mean": 400.0}})])
    assert row.domain is TEXT
    assert "return" not in row.measures


def test_a_run_that_names_its_domain_is_a_seed_of_those_that_do_not(tmp_path: Path) -> None:
    old = write_run(tmp_path / "old", settings("biased", 0), its_evaluation=evaluation(0.7))
    new = write_run(tmp_path / "new", {"domain": "images", **settings("biased", 1)}, its_evaluation=evaluation(0.8))
    (row,) = rows([old, new])
    assert row.seeds == 2
    assert row.label == "biased"


def test_the_same_settings_in_two_domains_are_two_rows(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / domain, settings("biased") | {"domain": domain}, its_evaluation=evaluation(0.7))
        for domain in ("images", "sound")
    ]
    assert [row.domain.name for row in rows(runs)] == ["images", "sound"]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_records_agree_with_themselves(domain: Any) -> None:
    keys = [metric.key for metric in domain.results]
    assert len(set(keys)) == len(keys)
    assert set(domain.mains) <= set(domain.results)
    # Nothing that a run may lack, or hold instead, is an error.
    broken: list[dict[str, Any]] = [
        {},
        {key: [1] for key in ("data", "text", "task", "objective", "training", "encoder")},
    ]
    for content in broken:
        assert isinstance(domain.describe_data(content), str)
        assert domain.published(content) is None
        assert isinstance(domain.describe_published([content]), str)
        assert all(metric.read(content, [content], content) is None for metric in domain.results)


def test_data_in_words() -> None:
    assert IMAGES.describe_data({"data": {"name": "cifar10", "classes": [3]}}) == "1 class of CIFAR-10"
    assert IMAGES.describe_data({"data": {"name": "stl10", "classes": []}}) == "STL-10"
    assert IMAGES.describe_data({"data": {"name": "fashion-mnist"}}) == "Fashion-MNIST"
    assert TEXT.describe_data({"text": {"path": "/home/somebody/books.txt"}}) == "books.txt"
    assert TEXT.describe_data({"text": {"path": None}}) == "novels of Jane Austen"
    assert CONTROL.describe_data({"task": "walker-walk"}) == "walker-walk"


def test_a_metric_is_read_from_its_place() -> None:
    content = json.loads('{"a": {"b": 1, "top1": 2}, "c": {"accuracy": 3}, "d": NaN}')
    assert Metric("x", "", "", place=("a", "b")).read({}, [], content) == 1
    assert Metric("a", "", "").read({}, [], content) == 2
    assert Metric("c", "", "").read({}, [], content) == 3
    assert Metric("d", "", "").read({}, [], content) is None
    assert number_at(content, "a", "b", "c") is None
    assert (
        Metric("x", "", "", compute=lambda _settings, metrics, _evaluation: len(metrics)).read({}, [{}, {}], {})
        == 2
    )


def test_domains_keep_the_order_in_which_they_are_handed_in(tmp_path: Path) -> None:
    text = write_run(tmp_path / "t", {"text": {"path": "x"}}, its_evaluation={"tasks": {"MR": {"accuracy": 0.7}}})
    image = write_run(tmp_path / "i", settings("biased"), its_evaluation=evaluation(0.7))
    found = rows([text, image])
    assert groups.present_domains(found, DOMAINS) == (IMAGES, TEXT)
    assert [metric.key for metric in groups.result_metrics(found, DOMAINS)][-1] == "MR"
    assert unknown_domain("x", []).mains[0].heading == "Result"
