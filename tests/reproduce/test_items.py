"""Every item runs at its smallest scale from the command line, shows its table, and says what decides."""

import json
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from torch import Tensor

from debiased_contrastive.cli.main import main
from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.reproduce import simclr_measures
from debiased_contrastive.reproduce.item import ENOUGH_SEEDS, Claim, Request, ScaleName
from debiased_contrastive.reproduce.names import NAMES, load_item
from debiased_contrastive.reproduce.results import read_results
from debiased_contrastive.reproduce.runner import row_name
from tests.cli.test_cli import error_of

ROWS = {
    "figure2": ["biased", "debiased", "unbiased"],
    "figure4a": ["batch40-t0.5-biased", "batch40-t0.5-tau0.1", "batch20-t0.1-decoupling"],
    "figure4b": ["biased", "tau-0.1"],
    "figure4c": ["biased", "M-4", "biased-views-4"],
    "table1": ["biased", "tau-0.01-biased"],
    "table2": ["biased", "tau-0.01", "random-bag"],
    "table3": ["biased", "tau-0.1-M2"],
    "semi-supervised": ["biased", "classifier-10", "cross-entropy-10"],
    "positives": ["crop0.08-colour-biased", "crop0.08-colour-debiased", "crop0.5-plain-unbiased"],
    "imbalance": ["biased", "one", "priors", "unbiased"],
}
"""Rows that go through all of the code of an item; figure5 and few-shot read those of figure2."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduce")


def run(folder: Path, name: str, *flags: str) -> None:
    places = ["--out", str(folder / "out"), "--runs", str(folder / "runs")]
    main(["reproduce", name, "--scale", "smoke", *places, "--workers", "1", "--quiet", *flags])


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_at_its_smallest_scale(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    item, rows = load_item(name), ROWS.get(name, ROWS["figure2"])
    run(folder, name, "--rows", *rows)
    out = capsys.readouterr().out
    assert out.startswith(item.title)
    assert "No verdict: runs of this scale only show that the code works." in out
    (place,) = item.parts(item.folder(folder / "out", "smoke"))
    if name != "figure4a":  # whose batches are smaller at this scale
        assert item.claims[0].differences(read_results(place))
    assert {path.stem for path in place.glob("*.json")} == {f"{row}-seed0" for row in rows}
    assert (place / f"{name}.md").read_text() in out
    if name.startswith("figure") and name != "figure4b":
        assert "<svg" in (place / f"{name}.svg").read_text()
    # What is there is kept.
    stamps = {path: path.stat().st_mtime_ns for path in place.glob("*.json")}
    run(folder, name, "--rows", *rows)
    assert "to do" not in capsys.readouterr().err
    assert stamps == {path: path.stat().st_mtime_ns for path in place.glob("*.json")}


def test_jobs_are_named_once_and_survive_pickling() -> None:
    for name in NAMES:
        item = load_item(name)
        assert (item.name, set(item.scales)) == (name, set(get_args(ScaleName)))
        for scale in get_args(ScaleName):
            jobs = list(item.jobs(Request(scale, 2)))
            assert len({job.name for job in jobs}) == len(jobs)
            again = pickle.loads(pickle.dumps(jobs))
            assert [job.settings for job in again] == [job.settings for job in jobs]
            assert all(len(pickle.dumps(job)) < 5000 for job in jobs)


def claim(**changes: Any) -> Claim:
    return Claim("a beats b", "a", "b", lambda result: result.get("x"), **changes)


@pytest.mark.parametrize(
    ("gains", "published", "wanted"),
    [
        (
            [1.0, 1.2, 0.9, 1.1, 1.3],
            True,
            "a beats b: reproduced at this scale; linear accuracy differs by +1.1 ± 0.2 points over 5 seeds.",
        ),
        ([1.0, -1.2, 0.9, -1.1, 1.3], True, "not reproduced at this scale; "),
        ([-1.0, -1.2, -0.9, -1.1, -1.3], True, "contradicted at this scale; linear accuracy differs by -1.1 ± 0.2"),
        ([1.0, 1.2, 0.9, 1.1, 1.3], False, "a beats b: yes at this scale; "),
        ([1.0, -1.2, 0.9, -1.1, 1.3], False, "no answer at this scale; "),
        ([-1.0, -1.2, -0.9, -1.1, -1.3], False, "a beats b: no at this scale; "),
        ([1.0, 1.2, 0.9, 1.3], True, "no verdict before 5 seeds; so far linear accuracy differs by +1.1 ± 0.3"),
        ([2.0], True, "so far linear accuracy differs by +2.0 points over 1 seed."),
        ([], True, "no verdict yet, a and b have no runs of the same seed."),
    ],
)
def test_the_verdict_is_that_of_the_paired_interval(gains: list[float], published: bool, wanted: str) -> None:
    # Levels differ more between seeds than rows do: only the differences count.
    results = {
        "a": {seed: {"x": 10.0 * seed + gain} for seed, gain in enumerate(gains)},
        "b": {seed: {"x": 10.0 * seed} for seed in range(ENOUGH_SEEDS)},
    }
    assert wanted in claim(is_published=published).judge(results)


@pytest.mark.parametrize("name", NAMES)
def test_claims_are_about_rows_that_there_are(name: str) -> None:
    item = load_item(name)
    for scale in get_args(ScaleName)[1:]:
        rows = {row_name(job) for job in item.jobs(Request(scale, 1))}
        assert {row for claim in item.claims for row in (claim.own, claim.other)} <= rows


def test_a_sentence_begins_with_a_capital_letter() -> None:
    assert all(one.words[0].isupper() for name in NAMES for one in load_item(name).claims)


def test_the_first_step_is_of_one_row_unless_rows_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, "imbalance", "--first-step")
    timed, others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"biased-seed0: first step [\d.]+ s, \d+ steps, so about \d+ (s|min) here", timed)
    assert others == "other rows by --rows: one, priors, unbiased"
    run(folder, "imbalance", "--first-step", "--rows", "one", "unbiased")
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "one-seed0",
        "unbiased-seed0",
    ]


def test_seeds_that_do_not_match_and_numbers_that_are_missing_do_not_count() -> None:
    results = {"a": {0: {"x": 1.0}, 1: {}, 7: {"x": 3.0}}, "b": {0: {"x": 0.5}, 1: {"x": 0.0}}}
    assert claim().differences(results) == [0.5]


def test_the_list_names_everything_with_cost_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = load_item("figure4c")
    place = item.folder(tmp_path, "small")
    place.mkdir()
    (place / "M-4-seed0.json").write_text("{}")
    main(["reproduce", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert all(f"{name:<15}  {load_item(name).title}\n" in out for name in NAMES)
    assert "small  1 of 55 done" in out
    assert "a run takes 2 min on a core" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("figure9", "'figure9' must be one of figure2, figure4a"),
        ("--show", "--show is for one figure or table, got no name: put it before, such as figure4c"),
        ("--rows biased", "--rows is for one figure or table, got no name"),
        ("figure2 --scale large", "large"),
        ("figure2 --scale smoke --rows none", "--rows must be of biased, debiased, unbiased; got none"),
        ("figure2 --seeds 0", "--seeds must be at least 1; got 0"),
        ("figure2 --epochs x", "--epochs must be INT; got x"),
        ("figure2", "figure2 at --scale small needs CIFAR10: pass --data DIR or set DEBIASED_DATA"),
        ("figure4b --first-step", "figure4b at --scale small needs STL10: pass --data DIR or set DEBIASED_DATA"),
        ("figure2 --frames 9", "leave out --frames: it is for table3"),
        ("figure2 --task-data .", "leave out --task-data: it is for table2"),
        ("figure2 --scale smoke --data .", "leave out --data: --scale smoke takes what is in the package"),
        ("table3 --epochs 9", "leave out --epochs: table3 has no such thing"),
        (
            "table3 --scale smoke --frames 99",
            "--frames 99 does not suit: random_steps must be fewer than the steps",
        ),
        ("figure2 --show --first-step", "--show runs nothing and --first-step runs a step"),
        ("figure2 --cluster local:2 --workers 2", "--workers are processes here, --cluster has its own"),
        ("figure2 --scale smoke --show", "figure2-smoke holds no results yet"),
        ("table1", "table1 needs --data DIR, a folder with train and val"),
        ("table2", "table2 needs --data, the text to train on, and --task-data"),
        ("figure2 --data nowhere", "nowhere holds no CIFAR-10"),
        (
            "figure2 --scale smoke --cluster nonsense",
            "--cluster must be local:K or the address of a Dask scheduler",
        ),
    ],
)
def test_mistakes_are_one_line(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIASED_DATA", raising=False)
    assert message in error_of(["reproduce", *words.split(), "--quiet"], capsys).splitlines()[-1]
    assert not list(tmp_path.glob("results/*"))


def test_results_of_other_settings_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(folder, "figure4c", "--rows", "biased")
    capsys.readouterr()
    places = ["--out", str(folder / "out"), "--runs", str(folder / "runs"), "--rows", "biased"]
    error = error_of(["reproduce", "figure4c", "--scale", "smoke", "--epochs", "9", *places], capsys)
    assert "is of other settings (training.epochs is 2 instead of 9)" in error


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_step_of_the_published_setting(name: str) -> None:
    """The first row; skipped where its data are not there."""
    job = next(iter(load_item(name).jobs(Request("paper", 1))))
    try:
        seconds, steps = job.time_first_step()
    except (ValueError, OSError) as error:
        pytest.skip(str(error))
    assert seconds > 0
    assert steps > 1000


def test_probes_of_a_long_tail_learn_from_classes_of_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would call every image of a rare class by the name of a frequent one, whatever the features."""
    sizes = []

    def spy(x: Tensor, labels: Tensor, *rest: Tensor) -> float:
        sizes.append(labels.bincount().tolist())
        return knn_accuracy(x, labels, *rest)

    monkeypatch.setattr(simclr_measures, "knn_accuracy", spy)
    run(tmp_path, "imbalance", "--rows", "biased")
    assert sizes == [[100] * 5] * 2, "head and tail"


def test_a_long_tail_is_what_the_loss_sees(folder: Path) -> None:
    run(folder, "imbalance", "--rows", "one", "priors")
    sizes = load_item("imbalance").scales["smoke"].settings.data.per_class
    assert sizes == (100, 59, 35, 20, 12)
    result = json.loads((folder / "out" / "imbalance-smoke" / "one-seed0.json").read_text())
    assert result["settings"]["data"]["per_class"] == list(sizes)
    assert result["settings"]["objective"]["tau_plus"] == round(sum(n * n for n in sizes) / sum(sizes) ** 2, 4)
    assert {"knn_head", "knn_tail", "linear_head", "few_shot_10_tail"} <= set(result["measures"])
    other = json.loads((folder / "out" / "imbalance-smoke" / "priors-seed0.json").read_text())
    assert other["measures"] != result["measures"]
