"""What mkdocs makes beside the written pages: the reference, links to files outside, places for line breaks."""

import re
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
CODE = re.compile(r"(<code>)([^<]{25,})(</code>)")
BREAKS = re.compile(r"(?<=[./(=])(?=\w)|(?<=::)|(?<=[a-z0-9])(?=_[a-z])")
WORD_BREAK = "<wbr>"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a page for each room to the section Reference: a room that is new needs no line anywhere."""
    pages: list[Any] = next(section["Reference"] for section in config.nav or [] if "Reference" in section)
    pages.append({"Rooms": [{room: f"reference/{room}.md"} for room in ROOMS]})
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
    """Let long code in a table break after a dot, a slash or a bracket instead of amid a word."""

    def breakable(match: re.Match[str]) -> str:
        return f"{match[1]}{BREAKS.sub(WORD_BREAK, match[2])}{match[3]}"

    return CELL.sub(lambda cell: CODE.sub(breakable, cell[0]), html)
