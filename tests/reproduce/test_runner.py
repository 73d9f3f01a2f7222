"""The runner: jobs that any process can do, results of other settings, runs that were killed, shares, flags."""

import json
import pickle
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import ImageTraining
from debiased_contrastive.reproduce.item import Request
from debiased_contrastive.reproduce.names import NAMES, load_item
from debiased_contrastive.reproduce.results import means_by_part, shorten
from debiased_contrastive.reproduce.runner import Job, choose_rows, fill
from debiased_contrastive.runs import Run
from studies import gap
from studies.command import main, take_share
from tests.reproduce.work import curve, double
from tests.studies.test_gap import tiny

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
IN_ANOTHER_PROCESS = """
import json, pickle, sys, torch
from pathlib import Path
torch.set_num_threads(1)
jobs = pickle.loads(Path(sys.argv[1]).read_bytes())
print(json.dumps([job.make(Path(sys.argv[2])) for job in jobs]))
"""


def start(jobs: list[Job], folder: Path) -> subprocess.Popen[str]:
    """Do jobs in another process, which knows nothing but their pickled form."""
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    words = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(folder / "jobs"), str(folder / "runs")]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def small_job(**training: Any) -> Job:
    numbers: dict[str, Any] = {"epochs": 3, "batch": 20, "log_every": 1, "accelerator": "cpu", **training}
    return Job("one-seed0", curve, replace(tiny(), training=ImageTraining(**numbers)), "images")


def test_a_job_is_done_by_another_process_from_its_pickled_form(tmp_path: Path) -> None:
    jobs = [small_job(), Job("plain", partial(double, 21))]
    done = start(jobs, tmp_path)
    out, err = done.communicate(timeout=300)
    assert done.returncode == 0, err
    trained, plain = json.loads(out)
    assert trained == json.loads(json.dumps(jobs[0].make(tmp_path / "here")))
    assert plain == {"result": 42}


def test_every_job_is_small_and_survives_pickling() -> None:
    for _, job in committed_jobs():
        content = pickle.dumps(job)
        assert len(content) < 5000
        again = pickle.loads(content)
        assert (again.name, again.settings, again.domain) == (job.name, job.settings, job.domain)


def test_a_killed_run_continues(tmp_path: Path) -> None:
    job = small_job(epochs=100, log_every=25)
    killed = start([job], tmp_path)
    try:
        limit = time.monotonic() + 240
        while not list((tmp_path / "runs").rglob("checkpoint-*.pt")):
            assert killed.poll() is None, killed.communicate()[1]
            assert time.monotonic() < limit
            time.sleep(0.02)
    finally:
        killed.kill()
        killed.communicate()
    run = Run(tmp_path / "runs" / job.name)
    assert not run.is_finished, "it was killed too late to test anything"
    begun = run.environment["command"]
    fill([job], tmp_path / "out", tmp_path / "runs")
    assert run.is_finished
    assert run.environment["command"] == begun, "the same run, not a new one"
    found = json.loads((tmp_path / "out" / "one-seed0.json").read_text())
    whole = json.loads(json.dumps(job.make(tmp_path / "whole")))
    assert [line["step"] for line in found["course"]] == [1, *range(25, 401, 25)]
    assert found["course"] == whole["course"]


def test_results_of_other_settings_are_refused_before_any_work(tmp_path: Path) -> None:
    job, runs = small_job(), tmp_path / "runs"
    fill([job], tmp_path, runs)
    path = tmp_path / "one-seed0.json"
    before = path.read_bytes()
    # Where data lie, what is logged and on which device it runs is no difference.
    elsewhere = replace(job.settings.data, root=tmp_path)
    training = replace(job.settings.training, log_every=7, accelerator="auto")
    fill([replace(job, settings=replace(job.settings, data=elsewhere, training=training))], tmp_path, runs)
    # Nor is what an earlier version did not know, or knew beside.
    content = json.loads(before)
    content["settings"]["objective"].pop("auto")
    content["settings"]["encoder"]["pair"] = False
    path.write_text(json.dumps(content))
    fill([job], tmp_path, runs)
    path.write_bytes(before)
    other = replace(job, settings=replace(job.settings, training=replace(job.settings.training, epochs=4)))
    with pytest.raises(
        ValueError, match=r"one-seed0.json is of other settings \(training.epochs is 3 instead of 4\)"
    ):
        fill([Job("before", partial(double, 1)), other], tmp_path, runs)
    assert path.read_bytes() == before
    assert not (tmp_path / "before.json").exists()


def committed_jobs() -> Iterable[tuple[Path, Job]]:
    """Jobs of results that are committed, and where these are."""
    given = {"scale": "small", "seeds": 5, "data": Path("data"), "task_data": Path("tasks")}
    for name in NAMES:
        item = load_item(name)
        requests = [Request(**given)]  # type: ignore[arg-type]
        if name == "table3":
            requests.append(replace(requests[0], task="walker-walk", frames=80_000))
        for request in requests:
            yield from ((item.folder(RESULTS, "small") / f"{job.name}.json", job) for job in item.jobs(request))
    for job in gap.make_jobs(PRESETS["cifar10-small"].settings, 3):
        yield RESULTS / "cifar10_small" / f"{job.name}.json", job


def test_committed_results_are_of_todays_settings() -> None:
    found = Counter[str]()
    for path, job in committed_jobs():
        if path.exists():
            job.check(path)
            found[path.relative_to(RESULTS).parts[0]] += 1
    assert found["cifar10_small"] == 33
    assert found["cmc"] == 27
    assert found["novels"] == 15
    assert found["control"] == 24
    assert found["membership"] >= 16
    shorter = load_item("table1").jobs(Request("small", 1, epochs=10, data=Path("x")))
    biased, epochs = choose_rows(shorter, ["biased", "epochs"])
    for job in (biased, epochs):
        job.check(RESULTS / "cmc_order" / f"{job.name}.json")
    with pytest.raises(ValueError, match=r"training\.epochs is 30 instead of 10"):
        biased.check(RESULTS / "cmc" / "biased-seed0.json")


def test_shares_cover_all_jobs_once_and_nonsense_is_refused() -> None:
    items = range(10)
    assert sorted(item for part in range(3) for item in take_share(items, f"{part}/3")) == list(items)
    for wrong in ("3/3", "1", "a/b", "-1/2", "0/0"):
        with pytest.raises(ValueError, match=re.escape(f"--share must be K/N with K from 0 to N - 1; got {wrong}")):
            take_share(items, wrong)


def test_rows_are_chosen_by_name_and_unknown_ones_are_refused() -> None:
    jobs = [Job(name, double) for name in ("task/biased-seed0", "task/tau-0.1-seed0", "task/biased-seed1")]
    assert [job.name for job in choose_rows(jobs, ["biased"])] == ["task/biased-seed0", "task/biased-seed1"]
    assert choose_rows(jobs, None) == jobs
    with pytest.raises(ValueError, match=r"--rows must be of biased, tau-0\.1; got unbiased"):
        choose_rows(jobs, ["biased", "unbiased"])


def test_a_study_prints_its_tables_and_says_in_a_line_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main("studies.gap", ["--tables", str(RESULTS / "cifar10_small")])
    assert capsys.readouterr().out == gap.markdown(RESULTS / "cifar10_small")
    for words, message in (
        (["--tables", str(tmp_path)], "must hold biased and unbiased runs to compare with"),
        (["--out", str(tmp_path), "--rows", "none"], "--rows must be of biased, unbiased, tau-0.05"),
        (["--out", str(tmp_path), "--workers", "0"], "workers must be at least 1; got 0"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main("studies.gap", words)
        assert stopped.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("gap: ")
        assert message in line
    with pytest.raises(SystemExit):
        main("studies.gap", ["--help"])
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--tables", "--share", "--seeds", "--rows", "--workers"))


def test_a_curve_is_shortened_and_cut_in_fifths() -> None:
    lines = [{"step": step, "loss": step / 3, "other": 1} for step in range(1, 101)]
    few = shorten(lines, ("step", "loss"), points=10)
    assert [line["step"] for line in few] == list(range(10, 101, 10))
    assert few[0] == {"step": 10, "loss": 3.3333}
    assert shorten([], ("step",), points=60) == []
    assert [line["step"] for line in shorten(lines[:7], ("step",), points=3)] == [3, 6, 7]
    steps = [{"step": step, "x": float(step > 20)} for step in range(1, 101)]
    assert means_by_part(steps, "x", 5) == [0, 1, 1, 1, 1]
