"""The project keeps its own rules: imports, documents, examples, mutants, quoted results."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.audit import sentence
from benchmarks.bank import markdown as bank_table
from benchmarks.control import markdown as agents_speed
from benchmarks.control import sentence_of as agents_sentence
from benchmarks.sentence_tasks import markdown as tasks_table
from benchmarks.table import markdown
from benchmarks.text_training import sentence_of as text_speed
from debiased_contrastive import paper
from debiased_contrastive.report.analyses import markdown as theory_table
from debiased_contrastive.report.numbers import mean_cell
from debiased_contrastive.reproduce import table1, table2, table3
from debiased_contrastive.reproduce.names import load_item
from debiased_contrastive.reproduce.results import read_results
from figures.gains import force_share, gains
from figures.panel import Point
from studies import control_steps
from studies.auto_tau_plus import is_closer, read_worlds
from studies.auto_tau_plus import markdown as auto_table
from studies.cifar10_priors import markdown as cifar10_prior_table
from studies.gap import markdown as gap_table
from studies.priors import markdown as prior_table
from studies.sentence_floors import markdown as floors_table
from tests.mutants import MUTANTS, PACKAGE

ROOT = Path(__file__).parents[1]
NAME = "debiased_contrastive"
CORE = {"objectives", "kernels", "negatives", "losses"}
LEAVES = {"runs", "files", "paper", "domain", "numerics", "tables"}
DOMAIN = CORE | {"training", "evaluation", "membership"} | LEAVES
ROOMS = {
    "objectives": {"objectives", "numerics"},
    "kernels": {"objectives", "kernels", "numerics"},
    "negatives": {"objectives", "kernels", "negatives", "numerics"},
    "losses": CORE | {"numerics"},
    "prior": {"prior"},
    "membership": {"membership", "evaluation", "numerics", "tables"},
    "auditing": {"auditing", "prior", "membership", "objectives", "numerics", "files", "tables", "report"},
    "theory": {"theory", "objectives", "numerics"},
    "evaluation": {"evaluation", "objectives", "numerics"},
    "training": {"training", "objectives", "runs", "files", "numerics"},
    "images": {"images"} | DOMAIN,
    "text": {"text"} | DOMAIN,
    "control": {"control"} | DOMAIN,
    "report": {"report", "runs", "files", "domain"},
    "integrations": {"integrations", "images", "text", "training", "runs", "files"} | CORE,
    "encoders.py": {"domains", "domain", "runs"},
    "domains.py": {"images", "text", "control"},
    "paper.py": set(),
    "domain.py": {"runs", "training"},  # training for types alone
    "numerics.py": set(),
    "files.py": set(),
    "tables.py": {"files"},
    "runs.py": {"files"},
}
EXTRAS = {
    "training": {"lightning_fabric", "safetensors", "pytorch_lightning"},
    "images": {"lightning_fabric", "numpy", "PIL", "sklearn", "datasets", "timm"},
    "text": {"lightning_fabric", "numpy", "tokenizers"},
    "control": {"lightning_fabric", "numpy", "dm_control", "PIL", "av"},
    "reproduce": {"lightning_fabric", "PIL", "dask", "distributed"},
    "report": {"matplotlib", "jinja2"},
    "cli": {"tyro", "rich", "numpy", "lightning_fabric"},
    "theory": {"scipy"},
    "prior": {"numpy", "scipy", "sklearn"},
    "membership": {"numpy", "scipy"},
    "auditing": {"numpy"},
    "integrations": {
        "sentence_transformers",
        "pytorch_metric_learning",
        "open_clip",
        "lightly",
        "mteb",
        "onnxruntime",
        "onnxscript",
        "numpy",
    },
    "tables.py": {"numpy", "pyarrow", "safetensors"},
    "files.py": {"pyarrow"},
    "domain.py": {"lightning_fabric"},  # for types alone
}
"""What a room may import beside torch and the standard library: the extra of its domain."""


def imports(file: Path) -> set[str]:
    """What a file imports when it is loaded or used; what only type checkers read does not count."""
    names, waiting = set(), list(ast.parse(file.read_text()).body)
    while waiting:
        node: ast.AST = waiting.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names.add(node.module or "")
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)  # type: ignore[arg-type]
    return names


def test_imports_follow_the_way_of_the_data() -> None:
    files = list((ROOT / PACKAGE).rglob("*.py"))
    assert len(files) > 15
    for file in files:
        room = file.relative_to(ROOT / PACKAGE).parts[0]
        for name in imports(file):
            top, *rest = name.split(".")
            if top == NAME and room in ROOMS:
                assert rest, f"{file} imports the package from inside"
                assert rest[0] in ROOMS[room], f"{room}/ must not import {rest[0]}/: {file}"
            elif top != NAME:
                # Run directories are read where no torch is wanted.
                torch = set() if room in ("files.py", "runs.py", "paper.py", "report", "prior") else {"torch"}
                allowed = torch | EXTRAS.get(room, set()) | set(sys.stdlib_module_names)
                assert top in allowed, f"{file} imports {top}"


def test_an_integration_is_small_and_imports_its_own_library_alone() -> None:
    """`debiased export` alone imports any, when it is asked to, so no library is needed but by those who use it."""
    files = list((ROOT / PACKAGE / "integrations").rglob("*.py"))
    assert len(files) > 4
    for file in files:
        library = file.relative_to(ROOT / PACKAGE / "integrations").parts[0].removesuffix(".py")
        assert len(file.read_text().splitlines()) <= 120, file
        foreign = {name.split(".")[0] for name in imports(file)} & (EXTRAS["integrations"] - {"numpy"})
        # onnx.py imports onnxruntime and onnxscript.
        assert all(name.startswith(library) for name in foreign), file
    others = set((ROOT / PACKAGE).rglob("*.py")) - {*files, ROOT / PACKAGE / "cli/export.py"}
    assert not any(name.startswith(f"{NAME}.integrations") for file in others for name in imports(file))


def modules_after(statements: str) -> set[str]:
    """The modules that a fresh Python has loaded after these statements and had not before."""
    script = f"import sys; before = set(sys.modules); {statements}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_losses_bring_nothing_but_torch() -> None:
    losses = f"import {NAME} as dc; [getattr(dc, name) for name in dc.__all__ if name not in dc._EXTRAS]"
    loaded = {name.split(".")[0] for name in modules_after(f"import torch; before = set(sys.modules); {losses}")}
    assert loaded <= {NAME, "torch", *sys.stdlib_module_names}


@pytest.mark.parametrize("module", ["", ".runs", ".report", ".objectives.checks", ".training.settings"])
def test_torch_is_not_loaded_until_it_is_needed(module: str) -> None:
    assert "torch" not in modules_after(f"import {NAME}{module}; dir({NAME})")


def test_the_public_face_is_lazy_and_whole() -> None:
    package = importlib.import_module(NAME)
    assert {*package.__all__, "__version__"} <= set(dir(package))
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{NAME}' has no attribute 'debias'"):
        _ = package.debias
    with pytest.raises(ImportError, match="cannot import name 'debias'"):
        exec(f"from {NAME} import debias")


@pytest.mark.parametrize(("name", "module", "extra"), [
    ("audit", "scipy", "prior"), ("force_share", "scipy", "prior"), ("images_from_dataset", "PIL", "vision"),
])  # fmt: skip
def test_a_name_without_its_extra_is_refused_in_one_line(name: str, module: str, extra: str) -> None:
    script = f"import sys; sys.modules['{module}'] = None; import {NAME} as dc; dc.{name}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    message = run.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: dc.{name} needs {module}")
    assert message.endswith(f"which is missing: pip install 'debiased-contrastive[{extra}]'")


def test_every_symbol_and_test_of_the_paper_map_exists() -> None:
    rows = re.findall(
        r"^\|.*\| `([\w.]+)` \| `([\w/.]+)::(\w+)` \|$", (ROOT / "docs/paper-map.md").read_text(), re.M
    )
    table = [line for line in (ROOT / "docs/paper-map.md").read_text().splitlines() if line.startswith("|")]
    assert len(rows) == len(table) - 2 >= 20
    for symbol, file, test in rows:
        module, name = symbol.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), symbol
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), f"{file}::{test}"


def test_the_simclr_example_of_the_readme_is_about_ten_lines() -> None:
    block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 12


def test_the_table_of_the_theory_is_that_of_its_results() -> None:
    record = json.loads((ROOT / "results/theory/theory.json").read_text())
    document = (ROOT / "docs/theory.md").read_text()
    assert theory_table(record) in document
    assert all(claim["holds"] for claim in record["claims"])
    wrong = [claim["name"] for claim in record["claims"] if claim["verdict"] == "printed fails, corrected holds"]
    assert wrong == ["Theorem 3, temperature", "Lemma A.4, slope"]
    assert "Two printed statements fail" in (ROOT / "README.md").read_text()


def test_the_table_of_cifar10_is_that_of_its_results() -> None:
    folder = ROOT / "results/cifar10_small"
    assert gap_table(folder) in (ROOT / "docs/images.md").read_text()
    cells = {line.split(" | ")[0]: line.split(" | ") for line in gap_table(folder).splitlines()}
    cost, won = (
        cells[f"| {name}"] for name in ("unbiased, all labels", "debiased, positives by 100% of the labels")
    )
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"sampling bias costs {cost[4][1:]} points" in readme
    assert f"{won[4]} ({won[6].split(' %')[0]} % of the gap)" in readme
    runs = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    assert len(runs) == 33
    assert {run["settings"]["data"]["root"] for run in runs} == {None}
    assert not any(run["modified"] for run in runs)


def test_the_tables_of_text_are_those_of_its_results() -> None:
    document, novels = (ROOT / "docs/text.md").read_text(), ROOT / "results/novels"
    for made, folder in ((table2.markdown, novels), (table2.course_markdown, novels),
                         (floors_table, ROOT / "results/sentence_floors")):  # fmt: skip
        assert made(folder) in document
    speed = text_speed(json.loads((ROOT / "results/text_training.json").read_text()))
    assert speed in " ".join(document.split())
    assert (ROOT / "results/demo_text.txt").read_text() in document
    runs = [json.loads(path.read_text()) for path in novels.glob("*.json")]
    assert len(runs) == 15
    assert {run["sentences"] for run in runs} == {491_546}


def test_the_tables_of_control_are_those_of_its_results() -> None:
    document, folder = (ROOT / "docs/control.md").read_text(), ROOT / "results/control"
    for task in ("cartpole-swingup", "walker-walk"):
        assert table3.returns_markdown(folder / task) in document
        assert control_steps.markdown(json.loads((folder / f"steps-{task}.json").read_text())) in document
        runs = [json.loads(path.read_text()) for path in (folder / task).glob("*.json")]
        assert len(runs) == 12
        assert {len([line for line in run["course"] if "return" in line]) for run in runs} == {8}
    assert table3.floors_markdown(folder / "cartpole-swingup") in document
    speed = json.loads((ROOT / "results/control_speed.json").read_text())
    assert agents_speed(speed) in document
    assert agents_sentence(speed) in document


def test_the_tables_of_multiview_coding_are_those_of_its_results() -> None:
    document, folder = (ROOT / "docs/cmc.md").read_text(), ROOT / "results/cmc"
    assert table1.markdown(folder) in document
    assert table1.floors_markdown(folder) in document
    order = table1.thirds_markdown(ROOT / "results/cmc_order")
    assert order
    assert order in document
    assert bank_table(json.loads((ROOT / "results/bank.json").read_text())) in document
    runs = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    rows = table1.ROWS.keys() - {"auto", "epochs"}
    asked = {f"{name}-seed{seed}" for name in rows for seed in range(3)}
    assert asked <= set(runs)
    assert not any(run["modified"] for run in runs.values())
    assert {run["settings"]["data"]["root"] for run in runs.values()} == {None}


def test_the_table_of_priors_is_that_of_its_results() -> None:
    folder = ROOT / "results/priors"
    assert len(list(folder.glob("*.json"))) == 20
    assert prior_table(folder) in (ROOT / "docs/prior.md").read_text()


def test_the_table_of_cifar10_priors_is_that_of_its_results() -> None:
    folder = ROOT / "results/cifar10_priors"
    assert len(list(folder.glob("*.json"))) == 8
    assert cifar10_prior_table(folder) in (ROOT / "docs/prior.md").read_text()
    records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    assert not any(record["modified"] for record in records)
    estimates = [one for record in records for one in record["estimates"][1:-1]]
    assert len(estimates) == 40
    assert all(one["warnings"] for one in estimates), "the document says that all of them warn"


def test_the_table_of_auto_is_that_of_its_results() -> None:
    folder = ROOT / "results/auto_tau_plus"
    assert auto_table(folder) in (ROOT / "docs/prior.md").read_text()
    nearest = [is_closer(record) for record in read_worlds(folder) if record["world"]["surrogate"] is not None]
    assert nearest == [True] * 32, "the document says so"
    sizes = [
        record["auto"]["gradient_size"]
        for record in read_worlds(folder)
        if record["world"]["name"] != "two" or record["temperature"] > 0.1
    ]
    assert all(0.5 < size < 2 for size in sizes), "the document says so"
    assert "in 32 of 32 cases" in (ROOT / "docs/prior.md").read_text()


def test_the_time_of_an_audit_is_that_of_its_results() -> None:
    results = json.loads((ROOT / "results/audit.json").read_text())
    assert results["rows"] == 1_000_000
    for page in ("prior", "audit"):
        assert sentence(results) in (ROOT / f"docs/{page}.md").read_text()


def test_the_demo_in_the_readme_is_its_results() -> None:
    assert (ROOT / "results/demo.txt").read_text() in (ROOT / "README.md").read_text()


def test_the_gains_in_the_readme_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text()
    images, banks = (read_results(ROOT / f"results/{name}", "biased") for name in ("cifar10_small", "cmc"))
    assert f"| {mean_cell(gains(images, 'tau-0.1', 'linear_top1'), '+')} (CIFAR10, 5 classes)" in readme
    assert f"| {mean_cell(gains(banks, 'tau-0.01-biased', 'linear_top1'), '+')} (Tiny ImageNet)" in readme
    six = re.search(
        r"^\| tau_plus 0.01 \|.*\| (\S+ ± \S+) \| 3 \|$", table2.markdown(ROOT / "results/novels"), re.M
    )
    assert six is not None
    assert f"| {six[1]} (76 novels)" in readme
    published = [
        paper.published_number(data, kind, tau_plus=tau)
        for data, tau in (("stl10", 0.1), ("imagenet100", 0.01))
        for kind in ("debiased", "biased")
    ]
    assert None not in published
    stl10, imagenet = (own - biased for own, biased in (published[:2], published[2:]))  # type: ignore[operator]
    assert f"| {stl10:+.2f} (STL10)" in readme
    assert f"| {imagenet:+.2f} (ImageNet-100)" in readme
    closed = {one.label: f"{one.y:.0f}" for one in force_share(ROOT / "results")[0].what if isinstance(one, Point)}
    weak, strong = closed["10 % of the labels"], closed["10 % of the labels, strength 2"]
    assert f"close {weak} % of the kNN gap, {strong} % at strength 2" in " ".join(readme.split())


@pytest.mark.parametrize("name", ["figure2", "few-shot", "figure5", "figure4c"])
def test_the_figures_of_the_paper_are_those_of_their_results(name: str) -> None:
    item, document = load_item(name), (ROOT / "docs/paper-figures.md").read_text()
    folder = item.folder(ROOT / "results", "small")
    assert all(make(folder) in document for make in item.tables)
    assert all(f"- {line}\n" in document for line in item.judge(read_results(folder)).splitlines())


def test_the_verdicts_quote_the_results() -> None:
    folders = ("cifar10_small", "cmc", "figure2-small", "figure4c-small")
    images, banks, bias, views = (read_results(ROOT / f"results/{name}", "biased") for name in folders)
    linear, knn = (mean_cell(gains(images, "tau-0.1", key), "+") for key in ("linear_top1", "knn"))
    claims, readme = ((ROOT / name).read_text() for name in ("docs/claims.md", "README.md"))
    assert f"{linear} linear, {knn} kNN" in claims
    cost, few = (mean_cell(gains(bias, "unbiased", key), "+") for key in ("linear_top1", "few_shot_10"))
    assert f"**reproduced**: {cost} linear on five classes of CIFAR10, {few} with ten labels" in claims
    lost, apart = (mean_cell(gains(bias, "debiased", key), "+") for key in ("linear_top1", "mean_classifier"))
    assert f"{lost} linear at the true share" in claims
    assert f"{apart} by the nearest class mean" in claims
    more = mean_cell(gains(views, "M-4", "linear_top1"), "+")
    twin = mean_cell(gains({**views, "biased": views["biased-views-4"]}, "M-4", "linear_top1"), "+")
    assert f"M = 4 is {more} above biased training, and {twin} above biased training with the same views" in claims
    assert f"| {more}; beside the same views uncorrected {twin} |" in readme
    answer = " ".join((ROOT / "docs/paper-figures.md").read_text().split())
    assert f"all labels gain {cost[1:]} points in the linear probe, and {few[1:]} points where ten labels" in answer
    assert (
        f"the true share of the class it loses {lost[1:]} points. With four more views there is a gain of {more[1:]}"
        in answer
    )
    assert f"{mean_cell(gains(banks, 'tau-0.01-biased', 'linear_top1'), '+')} on a hundred classes" in claims


def test_the_speed_in_the_readme_is_that_of_the_results() -> None:
    found = json.loads((ROOT / "results/benchmarks.json").read_text())["rows"]
    rows = {(one["contender"], one["pairs"]): one for one in found}
    for pairs in (256, 1024, 4096, 32768):
        cells = [rows[name, pairs] for name in ("ours", "lightly", "paper-formula", "pml-supcon")]
        shown = [
            "over 4 GiB"
            if "skipped" in one
            else f"{1e3 * one['seconds']:,.{int(pairs < 1024)}f} ms, {one['extra_mib']:,.0f} MiB"
            for one in cells
        ]
        assert f"| {pairs:,} | {' | '.join(shown)} |" in (ROOT / "README.md").read_text()


def test_the_readme_is_one_screen_after_another_and_no_book() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert len([word for word in text.split() if re.search(r"\w", word)]) <= 900


def test_links_and_commands_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = document.read_text()
        # The reference is made when the site is built, which checks these links.
        for link, part in re.findall(r"\]\((?!http|(?:\.\./)?reference/)([^)#]+)(?:#([^)]+))?\)", text):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
            if part:
                headings = re.findall(r"^#+ (.+)$", (document.parent / link).read_text(), re.M)
                places = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert part in places, f"{document.name}: {link}#{part}"
        for command in re.findall(r"\bmake ([a-z-]+)\b(?=[`\s]*(?:#|`|\n|$))", text):
            assert command in targets, f"{document.name}: make {command}"


def test_the_public_face_is_the_documented_one() -> None:
    package = importlib.import_module(NAME)
    for name in (
        "contrastive_loss", "decoupled_loss", "inclusion_exclusion_loss", "asymptotic_loss",
        "DebiasedNTXentLoss", "DebiasedInfoNCELoss", "NegativeQueue", "Diagnostics",
        "AutoTauPlus", "audit", "force_share", "load_encoder", "images_from_dataset", "train_images",
    ):  # fmt: skip
        assert getattr(package, name).__doc__


def test_the_version_stands_in_one_place_and_is_that_of_the_changelog() -> None:
    version = importlib.import_module(NAME).__version__
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version", "readme"]' in project
    assert f'path = "{PACKAGE}/__init__.py"' in project
    assert not re.search(r"^version = ", project, re.M)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    assert first.split(",")[0] == version
    assert "### Numbers changed" in (ROOT / "CHANGELOG.md").read_text()


def test_every_mutant_changes_one_place() -> None:
    assert len(MUTANTS) >= 20
    for mutant in MUTANTS:
        text = (ROOT / PACKAGE / mutant.path).read_text()
        assert text.count(mutant.old) == 1, f"{mutant.path}: {mutant.old!r}"
        assert mutant.old != mutant.new
        ast.parse(text.replace(mutant.old, mutant.new))


def test_the_quoted_results_are_the_committed_ones() -> None:
    for name in ("benchmarks", "views", "training", "probe"):
        results = json.loads((ROOT / f"results/{name}.json").read_text())
        assert markdown(results) in (ROOT / "docs/benchmarks.md").read_text(), name
    tasks = json.loads((ROOT / "results/sentence_tasks.json").read_text())
    assert tasks_table(tasks) in (ROOT / "docs/benchmarks.md").read_text()
    assert (ROOT / "results/false_negatives.txt").read_text() in (ROOT / "docs/when-it-helps.md").read_text()


def test_the_example_runs_and_refuses_nonsense() -> None:
    command = [sys.executable, "examples/false_negatives.py", "--seeds", "1"]
    run = subprocess.run(
        [*command, "--steps", "2", "--batch", "16"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()[2:]] == [
        "biased",
        "debiased",
        "half",
        "unbiased",
    ]
    run = subprocess.run([*command, "--steps", "0"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "at least 1" in run.stderr
