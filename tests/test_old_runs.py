"""Run directories of the version before the domains had folders of their own: they go on, and everything reads them.

`tests/old_runs` was written by that version: finished runs, and runs that were stopped (`-cut`).
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from debiased_contrastive.cli.main import main
from tests.golden.cases import KEYS, _write_images, _write_text, machine
from tests.golden.test_golden import GOLDEN

OLD = Path(__file__).parent / "old_runs"


def lines(run: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in ("step", *KEYS) if key in line} for line in found]


def copy(name: str, folder: Path) -> Path:
    return shutil.copytree(OLD / name, folder / name)


@pytest.mark.parametrize("name", ["images", "queue", "cmc", "text", "control"])
def test_a_stopped_run_ends_as_it_would_have(name: str, tmp_path: Path) -> None:
    run, flags = copy(f"{name}-cut", tmp_path), []
    if name == "cmc":
        flags = ["--data-root", str(_write_images(tmp_path / "images"))]
    if name == "text":
        flags = ["--data-root", str(_write_text(tmp_path / "text.txt"))]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        main(["resume", str(run), "--quiet", *flags])
    finally:
        torch.set_num_threads(threads)
    found, wanted = lines(run), lines(OLD / name)
    assert [line["step"] for line in found] == [line["step"] for line in wanted]
    # That version rounded otherwise; that a run is resumed to the last bit is tested with runs of this one.
    rel = 1e-5 if machine() == GOLDEN["machine"] else 1e-3
    for line, other in zip(found, wanted, strict=True):
        assert line == pytest.approx(other, rel=rel, abs=1e-2 * rel)
    assert (run / "encoder.json").is_file()


@pytest.mark.parametrize("name", ["images", "control"])
def test_a_finished_run_is_judged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copy(name, tmp_path)
    before = json.loads((run / "evaluation.json").read_text())
    (run / "evaluation.json").unlink()
    main(["evaluate", str(run), "--quiet"])
    after = json.loads((run / "evaluation.json").read_text())
    # Later versions measure more.
    assert after.keys() == before.keys() | ({"few_shot"} if name == "images" else set())
    if name == "images":
        assert after["knn"] == pytest.approx(before["knn"], abs=0.05)
    else:
        assert after["return"]["mean"] == pytest.approx(before["return"]["mean"], rel=0.05)
    main(["resume", str(run), "--quiet"])
    assert f"{run} is finished" in capsys.readouterr().err


def test_finished_runs_embed(tmp_path: Path) -> None:
    images, text = _write_images(tmp_path / "folder"), _write_text(tmp_path / "text.txt")
    for name, flags in (("images", ["--images", str(images)]), ("text", ["--sentences", str(text)])):
        main(["embed", str(copy(name, tmp_path)), *flags, "--out", str(tmp_path / "z.npy"), "--quiet"])
        assert np.isfinite(np.load(tmp_path / "z.npy")).all()


def test_an_agent_is_filmed(tmp_path: Path) -> None:
    main(["watch", str(copy("control", tmp_path)), "--out", str(tmp_path / "film.gif"), "--size", "32"])
    assert (tmp_path / "film.gif").stat().st_size > 1000


def test_a_page_of_all_of_them(tmp_path: Path) -> None:
    for name in ("images", "text", "control"):
        copy(name, tmp_path / "runs")
    main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    for words in ("Fashion-MNIST", "cartpole-balance", "text.txt", "Linear top-1", "Return"):
        assert words in page
