"""The rooms of the package: who imports whom, and how many files one run passes from flag to page.

    python -m benchmarks.rooms

reads the imports, draws docs/rooms.svg, counts the files of one small run, and puts the counts into docs/design.md.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "debiased_contrastive"
PICTURE, DOCUMENT = ROOT / "docs" / "rooms.svg", ROOT / "docs" / "design.md"
Imports = dict[str, set[str]]

PLACES: dict[str, tuple[float, int]] = {
    "cli": (6.7, 0),
    "reproduce": (6.7, 1),
    "encoders": (9.35, 1),
    "domains": (6.7, 2),
    "integrations": (4.4, 2),
    "images": (1.7, 3),
    "text": (3.5, 3),
    "control": (5.3, 3),
    "auditing": (10.6, 3),
    "theory": (12.55, 3),
    "negatives": (0.9, 4),
    "membership": (2.5, 4),
    "losses": (4.1, 4),
    "training": (5.7, 4),
    "paper": (7.75, 4),
    "report": (9.35, 4),
    "prior": (10.95, 4),
    "evaluation": (2.5, 5),
    "kernels": (4.1, 5),
    "domain": (6.72, 5),
    "objectives": (12.55, 6),
    "numerics": (4.1, 7),
    "runs": (8.4, 6),
    "tables": (10.3, 6),
    "files": (8.4, 7),
}
"""Column and row of each room; imports go from a row to a lower one, and columns leave room for arrows."""
WORDS = {
    "reproduce": "figures and tables",
    "encoders": "load_encoder",
    "domains": "the list of them",
    "cli": "the command line",
    "integrations": "other libraries",
    "images": "Section 5.1",
    "text": "Section 5.2",
    "control": "Section 5.3",
    "auditing": "embeddings in files",
    "theory": "lemmas, theorems",
    "evaluation": "frozen features",
    "losses": "the calls you make",
    "training": "fit, checkpoints",
    "report": "runs to one page",
    "prior": "estimates of tau_plus",
    "membership": "who shares a class",
    "negatives": "queue, memory bank",
    "kernels": "embeddings to means",
    "paper": "published numbers",
    "domain": "the record of one",
    "objectives": "Sections 3 and 4",
    "runs": "the run directory",
    "numerics": "dtypes, seeds",
    "files": "atomic writes",
    "tables": "rows in files",
}
COLOURS = {
    "images": "#1f6fb2", "text": "#b2561f", "control": "#3b8a3e", "auditing": "#8a3b86", "theory": "#8a6d1f",
    "cli": "#444444", "reproduce": "#444444",
}  # fmt: skip
"""Of the arrows that leave a room; those of the others are grey."""
COLUMN, ROW, BOX_WIDTH, BOX_HEIGHT = 90, 104, 138, 58
SLOT = 13
"""Between two arrows that leave or reach a room."""


def read_imports() -> tuple[Imports, dict[str, int]]:
    """Which rooms each room imports, and how many files it has; imports for types alone do not count."""
    found: Imports = {}
    files: dict[str, int] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        files[room] = files.get(room, 0) + (path.name != "__init__.py")
        rooms = {name.split(".")[1] for name in _names(ast.parse(path.read_text())) if "." in name}
        found.setdefault(room, set()).update(rooms - {room})
    return found, files


def _names(tree: ast.AST) -> Iterator[str]:
    """The modules of the package that a piece of code imports, also inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE.name}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE.name}."):
            yield str(node.module)
        yield from _names(node)


def without_shortcuts(imports: Imports) -> Imports:
    """The imports that no chain of others implies; there must be no way back to where a chain began."""

    def reach(room: str, way: tuple[str, ...] = ()) -> set[str]:
        if room in way:
            raise ValueError(f"rooms must not import each other in a circle; got {' > '.join((*way, room))}")
        below = imports.get(room, set())
        return below.union(*(reach(one, (*way, room)) for one in below))

    return {room: {one for one in below if not any(one in reach(other) for other in below)}
            for room, below in imports.items()}  # fmt: skip


def draw(imports: Imports, files: Mapping[str, int]) -> str:
    """The picture, as SVG."""
    kept = without_shortcuts(imports)
    width = round(20 + COLUMN * max(column for column, _ in PLACES.values()) + BOX_WIDTH / 2 + 20)
    height = round(ROW * (1 + max(row for _, row in PLACES.values())) + 56)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">',
        "<title>The rooms of debiased_contrastive and what they import</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    (left, middle), (right, _) = _centre("images"), _centre("control")
    lines += [
        f'<rect x="{left - 80:.0f}" y="{middle - 43:.0f}" width="{right - left + 160:.0f}" height="86" '
        'rx="10" fill="#f4f6f8" stroke="#c8d0d8" stroke-dasharray="5 4"/>',
        *(
            f'<text x="{right + 90:.0f}" y="{middle + down:.0f}" font-size="12" fill="#555">{words}</text>'
            for down, words in ((0, "domains"), (16, "never import each other"))
        ),
    ]
    arrows = [(room, one) for room in PLACES for one in PLACES if one in kept.get(room, ())]
    lines += [_arrow(arrows, *arrow) for arrow in arrows]
    lines += [_box(room, imports.get(room, set()), files.get(room, 0)) for room in PLACES]
    lines += [
        f'<text x="20" y="{height - 16}" font-size="12" fill="#333">'
        "An arrow goes from a room to one that it imports. "
        "An import that a chain of arrows already implies is not drawn.</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _centre(room: str) -> tuple[float, float]:
    column, row = PLACES[room]
    return 20 + COLUMN * column, 52 + ROW * row


def _box(room: str, imports: set[str], files: int) -> str:
    (x, y), single = _centre(room), (PACKAGE / f"{room}.py").exists()
    name = f"{room}.py" if single else f"{room}/"
    lines = [(14, "bold", "#000", name), (11.5, "normal", "#333", WORDS[room])]
    if not single:
        lines.append((10.5, "normal", "#555", f"{files} files"))
    top = y + 5 - 8 * (len(lines) - 1)
    words = "".join(
        f'<text x="{x:.0f}" y="{top + 16 * place:.0f}" text-anchor="middle" font-size="{size}" '
        f'font-weight="{weight}" fill="{colour}">{text}</text>'
        for place, (size, weight, colour, text) in enumerate(lines)
    )
    below = ", ".join(one for one in PLACES if one in imports) or "nothing of the package"
    return (
        f"<g><title>{name} imports {below}</title>"
        f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="6" fill="{"#fffbe8" if single else "#ffffff"}" stroke="{COLOURS.get(room, "#555555")}" '
        'stroke-width="1.4"/>'
        f"{words}"
        "</g>"
    )


def _arrow(arrows: Sequence[tuple[str, str]], source: str, target: str) -> str:
    """From the lower edge of a box to the upper edge of another: sideways at once, then straight down."""
    (x0, y0), (x1, y1) = _centre(source), _centre(target)
    x0 += _slot([one for room, one in arrows if room == source], target)
    x1 += _slot([room for room, one in arrows if one == target], source)
    y0, y1 = y0 + BOX_HEIGHT / 2, y1 - BOX_HEIGHT / 2
    turned, bend = y0 + ROW - BOX_HEIGHT - 8, (ROW - BOX_HEIGHT) * 0.6
    colour = COLOURS.get(source, "#888888")
    path = f"M{x0:.1f},{y0:.1f} C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{turned - bend:.1f} {x1:.1f},{turned:.1f}"
    head = f"M{x1 - 4:.1f},{y1 - 8:.1f} L{x1 + 4:.1f},{y1 - 8:.1f} L{x1:.1f},{y1:.1f} Z"
    return (
        f'<path d="{path} V{y1 - 6:.1f}" fill="none" stroke="{colour}" stroke-width="1.3" opacity="0.85"/>'
        f'<path d="{head}" fill="{colour}"/>'
    )


def _slot(others: Sequence[str], other: str) -> float:
    """Where an arrow meets a box, from its middle: arrows lie side by side, in the order of their other ends."""
    ordered = sorted(others, key=_centre)
    return SLOT * (ordered.index(other) - (len(ordered) - 1) / 2)


def count_files() -> dict[str, Any]:
    """The files of the package that one run of SimCLR passes, by a Python of its own, and all their lines."""
    command = [sys.executable, "-c", "from benchmarks.rooms import follow_run; follow_run()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the run must end well; it said: {done.stderr.strip()}")
    passed: list[str] = json.loads(done.stdout.splitlines()[-1])
    return {
        "files": passed,
        "lines": sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in passed),
    }


def follow_run() -> None:
    """Train, judge and report on a few images, and print the files whose functions were called.

    What runs while a file is imported does not count: a file is passed when one of its functions is called later.
    """
    from debiased_contrastive.cli.main import main
    from tests.golden.cases import IMAGES

    passed: set[str] = set()
    importing = 0

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing:
            passed.add(code.co_filename)

    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        sys.setprofile(watch)
        main([*IMAGES, "--out", run])
        main(["evaluate", run, "--quiet"])
        main(["report", run, "--out", f"{folder}/report.html"])
        sys.setprofile(None)
    # Templates of the page have functions, too, by Jinja's doing.
    own = [Path(name) for name in passed if name.startswith(f"{PACKAGE}/") and name.endswith(".py")]
    print(json.dumps(sorted(path.relative_to(PACKAGE).as_posix() for path in own)))


def sentence(counts: Mapping[str, Any]) -> str:
    """What the document quotes."""
    return f"passes {len(counts['files'])} files with about {round(counts['lines'], -2):,} lines"


def quoted(text: str) -> tuple[int, int]:
    """Files and lines, as a text quotes them."""
    found = re.search(r"passes (\d+) files with about ([\d,]+) lines", text)
    if found is None:
        raise ValueError("the text must quote the files and lines of a run: passes N files with about L lines")
    return int(found[1]), int(found[2].replace(",", ""))


def main() -> None:
    """Draw, count, and write both."""
    PICTURE.write_text(draw(*read_imports()), encoding="utf-8")
    counts = count_files()
    text = DOCUMENT.read_text(encoding="utf-8")
    quoted(text)
    pattern = r"passes \d+ files with about [\d,]+ lines"
    DOCUMENT.write_text(re.sub(pattern, sentence(counts), text, count=1), encoding="utf-8")
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
