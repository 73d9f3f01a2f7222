"""The page is whole, harmless and always the same."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import debiased_contrastive.report.plots as plots
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.images.domain import FEW_SHOT
from debiased_contrastive.report.numbers import DASH
from debiased_contrastive.report.page import render_report, write_report
from debiased_contrastive.runs import Run
from tests.report.folders import CLASSES, cloud, course, demo_runs, evaluation, page, settings, write_run
from tests.report.outline import Outline, cells

HOSTILE = "<script>alert('$x$')</script>\"><img src=x onerror=alert(1)> & {0} $ \\frac 中"


def test_the_table_shows_what_was_measured(tmp_path: Path) -> None:
    accuracies = {"biased": (0.70, 0.71, 0.72), "debiased": (0.72, 0.73, 0.74), "unbiased": (0.75, 0.76, 0.77)}
    runs = [
        write_run(tmp_path / f"{kind}{seed}", settings(kind, seed), its_evaluation=evaluation(accuracy))
        for kind, some in accuracies.items()
        for seed, accuracy in enumerate(some)
    ]
    content = page(runs, title="Numbers")
    headings = [
        name.replace("\N{NON-BREAKING HYPHEN}", "-")
        for name in re.findall(r'<th scope="col".*?>(.*?)</th>', content)
    ]
    assert headings[:6] == ["Objective", "Seeds", "Linear top-1", "kNN", "Mean classifier", "Gap closed"]
    assert cells(content, "biased") == ["3", "71.0 ± 2.5", "69.0 ± 2.5", "66.0 ± 2.5", DASH]
    assert cells(content, "debiased, τ⁺\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0.1") == [
        "3",
        "73.0 ± 2.5",
        "71.0 ± 2.5",
        "68.0 ± 2.5",
        "40 %",
    ]


def test_the_column_that_the_page_is_about_comes_first_and_a_meaning_once(tmp_path: Path) -> None:
    levels = {"few_shot": {"1": 0.4, "5": 0.5}}
    runs = [
        write_run(tmp_path / kind, settings(kind), its_evaluation=evaluation(0.7, **levels))
        for kind in ("biased", "unbiased")
    ]
    content = render_report(runs, title="Few", domains=DOMAINS, main=FEW_SHOT[5])
    assert re.findall(r'<th scope="col".*?>(.*?)</th>', content)[2] == FEW_SHOT[5].heading
    assert content.count("nearest class mean of so few, over 100 draws.") == 1
    assert "to unbiased in the column 5 labels a class," in content


def test_settings_that_differ_go_downwards_where_they_are_many(tmp_path: Path) -> None:
    def heading(folder: Path, **objective: Any) -> list[str]:
        runs = [
            write_run(folder / "a", settings("biased")),
            write_run(folder / "b", settings("debiased", **objective)),
        ]
        found = re.search("<caption><span>Settings that differ.*?</thead>", page(runs, title="Settings"), re.S)
        assert found is not None
        return re.findall(r'<th scope="col">(.*?)</th>', found[0])

    assert heading(tmp_path / "few") == ["Objective", "objective.kind", "objective.tau_plus"]
    assert heading(tmp_path / "many", beta=0.5)[:2] == ["Setting", "biased"]


def test_every_part_is_there_and_well_formed(tmp_path: Path) -> None:
    content = page(demo_runs(tmp_path), title="Demo")
    outline = Outline(content)
    assert outline.open == []
    assert content.count("<figure>") == content.count("</figcaption></figure>") == 1 + 3 + 3
    assert [attributes.get("id") for tag, attributes in outline.tags if tag == "section"] == [
        "results", "embeddings", "training", "plane", "origin",
    ]  # fmt: skip
    pictures = [attributes for tag, attributes in outline.tags if attributes.get("role") == "img"]
    assert len(pictures) == 7
    assert all(attributes["aria-label"] for attributes in pictures)
    for svg in re.findall(r"<svg.*?</svg>", content, re.S):
        ElementTree.fromstring(svg)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    # One legend for all embeddings.
    assert all(content.count(f"</span>{name}</li>") == 1 for name in CLASSES)
    for words in ("debiased train --preset demo --seed 2", "training.learning_rate", "2.13.0", "Images per second"):
        assert words in outline.text


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    content = page(demo_runs(tmp_path, seeds=1), title="Demo")
    outline = Outline(content)
    assert not {tag for tag, _ in outline.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "a",
    }
    for _, attributes in outline.tags:
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", content)
    assert set(re.findall(r'https?://[^"\s]+', content)) <= {"http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in content


def test_whatever_a_run_writes_stays_text(tmp_path: Path) -> None:
    runs = []
    for seed, preset in enumerate((HOSTILE, HOSTILE, "plain")):
        its_settings = settings("biased", seed) | {"preset": preset, HOSTILE: {HOSTILE: HOSTILE}}
        run = write_run(
            tmp_path / f"<b>{seed}",
            its_settings,
            its_evaluation=evaluation(0.7) | {HOSTILE: HOSTILE},
            metrics=course(0, level=2, floored=0.1, epochs=2),
            tsne=cloud(0, 1.0, [HOSTILE, *CLASSES]),
        )
        (run.folder / "environment.json").write_text(f'{{"command": ["{"<i>"}"], "<u>": "<s>"}}')
        runs.append(run)
    for section in ("data", "encoder", "objective", "training"):
        its_settings = settings("debiased") | {section: dict.fromkeys(settings("biased")[section], HOSTILE)}
        runs.append(write_run(tmp_path / section, its_settings, its_evaluation=evaluation(0.7)))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "settings.json").write_text('"<script>"')
    runs.append(Run(tmp_path / "broken"))
    content = page(runs, title=HOSTILE)
    outline = Outline(content)
    assert outline.open == []
    allowed = (
        "html head meta title style body header h1 h2 h3 p main section div ul li span table caption thead tbody tr th "
        "td figure figcaption details summary pre svg g path use defs clippath rect line text"
    )
    assert {tag for tag, _ in outline.tags} <= set(allowed.split())
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    assert outline.text.replace("\N{NO-BREAK SPACE}", " ").count(HOSTILE) > 10
    for svg in re.findall(r"<svg.*?</svg>", content, re.S):
        ElementTree.fromstring(svg)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = demo_runs(tmp_path, seeds=2)
    content = page(runs, title="Demo")
    assert page(runs, title="Demo") == content
    assert page(runs[::-1], title="Demo").count("<figure>") == content.count("<figure>")
    script = (
        "import sys; from pathlib import Path; from debiased_contrastive.report.page import write_report; "
        "from debiased_contrastive.domains import DOMAINS; "
        "from debiased_contrastive.runs import Run; "
        "write_report([Run(Path(name)) for name in sys.argv[2:]], Path(sys.argv[1]), title='Demo', domains=DOMAINS)"
    )
    out = tmp_path / "again.html"
    names = [str(run.folder) for run in runs]
    subprocess.run([sys.executable, "-c", script, str(out), *names], check=True)
    assert out.read_text(encoding="utf-8") == content


def test_the_file_appears_whole(tmp_path: Path) -> None:
    out = tmp_path / "page" / "report.html"
    out.parent.mkdir()
    write_report(demo_runs(tmp_path / "runs", seeds=1), out, title="Demo", domains=DOMAINS)
    assert out.read_text(encoding="utf-8").endswith("</html>\n")
    assert [entry.name for entry in out.parent.iterdir()] == ["report.html"]


def test_many_points_become_pixels_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "MAX_MARKS", 100)
    run = write_run(tmp_path / "run", settings("biased"), tsne=cloud(0, 1.0))
    assert "data:image/png;base64," in page([run], title="Pixels")


def test_the_paper_stands_beside_ours_with_a_warning(tmp_path: Path) -> None:
    runs = []
    for kind, top1 in (("biased", 0.79), ("debiased", 0.83)):
        its_settings = settings(kind) | {"data": {"name": "stl10"}}
        runs.append(write_run(tmp_path / kind, its_settings, its_evaluation=evaluation(top1)))
    content = page(runs, title="STL-10")
    assert cells(content, "biased")[-1] == "80.15"
    assert "The setting here differs, so compare differences, not levels: encoder small, epochs 40." in content
    assert "Open diamonds are the paper" in content
    for run in runs:
        its_settings = run.settings | {"encoder": {"name": "resnet50"}, "training": {"epochs": 400, "batch": 256}}
        (run.folder / "settings.json").write_text(json.dumps(its_settings))
    assert "The setting here differs" not in page(runs, title="STL-10")


def test_reports_are_made_without_torch_and_tables_without_pictures() -> None:
    folder = Path(plots.__file__).parent
    for file in folder.glob("*.py"):
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert names <= {"debiased_contrastive", "matplotlib", "jinja2", *sys.stdlib_module_names}, file
    script = "import sys, debiased_contrastive.report.words; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_pages_and_domains_load_no_torch() -> None:
    names = "debiased_contrastive.report.page, debiased_contrastive.report.analyses, debiased_contrastive.cli"
    script = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_figures_are_the_only_markup() -> None:
    template = (Path(plots.__file__).parent / "page.html.j2").read_text()
    assert re.findall(r"\S+ \| safe\b", template) == ["one.svg | safe"]
    assert "autoescape" not in template


def test_a_folder_whose_name_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    without_seed = {key: value for key, value in settings("biased").items() if key != "seed"}
    run = write_run(tmp_path / "odd\udcff", without_seed, its_evaluation=evaluation(0.7), tsne=cloud(0, 1.0))
    content = page([run], title="Odd \udcff")
    assert content.encode().count(b"odd\\udcff") == 2, "the folder, and the seed that it stands for"
    assert "<h1>Odd \\udcff</h1>" in content
