"""Every block of Python in README and site runs, every command can be read, every tutorial prints what it shows."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import _parse
from debiased_contrastive.domains import DOMAINS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("docs/from-your-library.md", "docs/recipes.md")
"""Pages whose Python needs other libraries: it runs in tests/integrations."""
OUTPUTS = {path.stem for path in (ROOT / "docs/tutorials/output").glob("*.txt")}
TUTORIALS = {
    script: path
    for path in sorted((ROOT / "docs/tutorials").glob("*.md"))
    for script in re.findall(r'^--8<-- "examples/(\w+)\.py"$', path.read_text(), re.M)
}
"""Pages by the scripts that they include."""
NEEDS = {"clip_captions": "open_clip", "sentence_pairs": "sentence_transformers"}


def blocks(language: str) -> list[tuple[str, str]]:
    """Name of the page, and text, of every block in a language."""
    found = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        found += [(name, text) for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)]
    return found


def commands() -> list[tuple[str, str]]:
    """Name of the page, and the words, of every command in a block of shell; what follows # is a remark."""
    return [
        (name, command.strip())
        for name, text in blocks("bash")
        for line in text.splitlines()
        for command in re.sub(r"\s#.*", "", line).split("&&")
        if command.strip() and not command.startswith("#")
    ]


def test_python_runs(tmp_path: Path) -> None:
    """All in one process, each in a world of its own: to load torch for each would take most of the time."""
    found = [(name, text) for name, text in blocks("python") if name not in ELSEWHERE]
    assert len(found) >= 8
    script = "\n".join(
        f"print({name!r}); exec(compile({text!r}, {name!r}, 'exec'), {{'__name__': 'block'}})"
        for name, text in found
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-300:] + run.stderr


def test_commands_can_be_read() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    part = project[project.index("[project.optional-dependencies]") : project.index("[tool.")]
    extras = re.findall(r"^([a-z-]+) = \[", part, re.M)
    seen = set()
    for page, command in commands():
        # Variables of the environment may come first, and the file that --config names is not there.
        words = shlex.split(re.sub(r"^[A-Z_]+=\S+ |--config \S+", "", command))
        seen.add(words[0])
        if words[0] == "debiased":
            _parse(words[1:], DOMAINS)
        elif words[0] == "torchrun" and "-m" in words:
            _parse(words[words.index("debiased_contrastive.cli") + 1 :], DOMAINS)
        elif words[0].endswith("python") and words[1] == "-m":
            assert importlib.util.find_spec(words[2]) is not None, f"{page}: {command}"
        elif words[0] in ("python", "torchrun"):
            (script,) = [word for word in words if word.endswith(".py")]
            assert (ROOT / script).exists(), f"{page}: {command}"
        elif words[0] == "dask":
            assert importlib.util.find_spec(f"distributed.cli.dask_{words[1]}"), f"{page}: {command}"
        elif words[0] == "pip":
            named = [one for word in words for part in re.findall(r"\[(.+)\]", word) for one in part.split(",")]
            assert set(named) <= set(extras), f"{page}: {command}"
        else:
            known = {"git", "cd", "python3", "make", ".venv/bin/pip", ".venv/bin/python"}
            assert words[0] in known, f"{page}: {command} is checked by no rule of this test: add one"
    assert {"debiased", "python", "pip", "torchrun"} <= seen


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def test_every_tutorial_shows_its_script_its_command_and_its_output() -> None:
    assert len(TUTORIALS) == 9
    assert set(TUTORIALS) == OUTPUTS
    for name, page in TUTORIALS.items():
        text = page.read_text()
        shown = (
            f'```bash\npython examples/{name}.py\n```\n\n```text\n--8<-- "docs/tutorials/output/{name}.txt"\n```'
        )
        assert shown in text, page.name
        assert page.name in (ROOT / "docs/tutorials/index.md").read_text()
    for page in PAGES:
        assert "--8 <" not in page.read_text(), (
            f"{page.name}: a formatter took the line for Python; use {{ .python }}"
        )


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_its_page_shows(name: str) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: it is an extra")
    script = f"examples/{name}.py"
    # Beside a CPU torch, torchvision loads only after its missing operators are defined.
    loads = "import runpy; from benchmarks.contenders import load_torchvision as load; load(); runpy.run_path"
    call = ["-c", f"{loads}({script!r}, run_name='__main__')"] if name in NEEDS else ["-W", "error", script]
    run = subprocess.run(
        [sys.executable, *call],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    wanted = (ROOT / f"docs/tutorials/output/{name}.txt").read_text()
    words = [re.sub(r"\d+(?:\.\d+)?", "#", text).split() for text in (run.stdout, wanted)]
    assert words[0] == words[1], f"write its output anew: python examples/{name}.py"
    # Other processors round otherwise, and training enlarges that.
    assert numbers(run.stdout) == pytest.approx(numbers(wanted), rel=0.05, abs=0.05)


def test_two_processes_print_what_one_does() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run(
        [*torchrun, "examples/several_processes.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == (ROOT / "docs/tutorials/output/several_processes.txt").read_text()
