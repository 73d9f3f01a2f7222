"""What mkdocs makes beside the written pages: the reference, links to files outside, places for line breaks."""

import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.commands import commands_page
from docs.names import ROOMS, names_page, room_page
from docs.notebook import notebook_page

ROOT = Path(__file__).parents[1]
PICTURES = (".svg", ".gif", ".png")
CELL = re.compile(r"<td.*?</td>", re.DOTALL)
CODE = re.compile(r"<code>([^<]{25,})</code>")
PLACES = re.compile(r"(?<=[./])(?!py\b)(?=[A-Za-z])|(?<=[(=])(?=\w)|(?<=::)")
"""Where a name may be broken: after a dot, a slash or a bracket."""
WORDS = re.compile(r"(?<=[a-z0-9])(?=_[a-z])|(?<=[a-z])(?=[A-Z])")
"""Where a part of a name may be broken if it is long itself."""
MODULE = re.compile(r"(?<=doc-module-name\">)[^<]+")
FLAG = re.compile(r"<code>(--[\w.-]+)</code>")
BLOCKS = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
WIDEST = 140
"""Letters in the longest line of a block that is shown as it stands."""
SPANS = re.compile(r"(<code.*?</code>)", re.DOTALL)
UNITS = re.compile(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)|(?<=[≤≥<>=]) (?=-?\d)|(?<=\w) (?== -?\d)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a page for each room to the section Reference: a room that is new needs no line anywhere."""
    pages: list[Any] = next(section["Reference"] for section in config.nav or [] if "Reference" in section)
    pages.append({"Modules": [{room: f"reference/{room}.md"} for room in ROOMS]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the pictures that lie in results/."""
    made = {"reference/names.md": names_page(), "reference/commands.md": commands_page()}
    made["tutorials/notebook.md"] = notebook_page()
    made |= {f"reference/{room}.md": room_page(room) for room in ROOMS}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in PICTURES:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, config: MkDocsConfig, page: Any, **_rest: Any) -> str:
    """Turn links that leave docs/ into addresses in the repository; pictures of results/ are part of the site."""
    up = "../" * page.file.src_uri.count("/")

    def whole(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("results/") and target.endswith(PICTURES):
            return f"]({up}{target})"
        kind = "tree" if (ROOT / target.split("#")[0]).is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/main/{target})"

    return re.sub(rf"\]\({re.escape(up)}\.\./([^)]+)\)", whole, markdown)


def on_page_content(html: str, **_rest: Any) -> str:
    """Break lines at fit places: long names in tables after a dot, no number before its unit."""
    html = MODULE.sub(lambda name: PLACES.sub("<wbr>", name[0]), html)
    parts = BLOCKS.split(CELL.sub(lambda cell: CODE.sub(_breakable, cell[0]), html))
    parts[1::2] = [_folded(part) for part in parts[1::2]]
    parts[::2] = [_joined(FLAG.sub(r'<code class="whole">\1</code>', part)) for part in parts[::2]]
    return "".join(parts)


def _joined(text: str) -> str:
    """Numbers beside their units and signs. Code keeps its spaces, since people copy it."""
    parts = SPANS.split(text)
    parts[::2] = [UNITS.sub("&nbsp;", part) for part in parts[::2]]
    return "".join(parts)


def _folded(block: str) -> str:
    """A block with a line that no screen holds, such as a sentence that a script prints: its lines are folded."""
    longest = max(len(line) for line in unescape(TAG.sub("", block)).split("\n"))
    return block.replace("<pre", '<pre class="folded"', 1) if longest > WIDEST else block


def _breakable(match: re.Match[str]) -> str:
    parts = (WORDS.sub("<wbr>", part) if len(part) > 24 else part for part in PLACES.split(match[1]))
    return f"<code>{'<wbr>'.join(parts)}</code>"
