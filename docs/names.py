"""The reference of Python names: one page of the public face, one page for each room, written by mkdocstrings."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src/debiased_contrastive"
LEFT_OUT = {"cli"}
"""Its commands have a page of their own."""


def _modules(room: Path) -> list[Path]:
    return sorted(path for path in room.rglob("*.py") if path.stem not in ("__init__", "__main__"))


ROOMS = sorted(
    [path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name not in LEFT_OUT] + ["encoders"]
)
"""Every folder of the package that has names of its own, and the one file that the public face names."""


def first_sentence(text: str) -> str:
    """The first line of a docstring.

    >>> first_sentence("A loss. Of two views.")
    'A loss.'
    >>> first_sentence("A loss (Eq. 8). Of two views.")
    'A loss (Eq. 8).'
    """
    line = text.strip().splitlines()[0]
    return re.split(r"(?<!Eq)\. ", line)[0].rstrip(".") + "."


def _docstring(module: Path, name: str) -> str:
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
    raise ValueError(f"{module} must define {name}, which the package names: correct _HOMES")


def public_names() -> dict[str, str]:
    """The names of `import debiased_contrastive as dc`, with the module of each."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    homes = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    )
    found: dict[str, str] = ast.literal_eval(homes)
    return found


def names_page() -> str:
    """A table of the public face."""
    rows = []
    for name, home in sorted(public_names().items(), key=lambda pair: pair[0].lower()):
        room, _, _ = home.partition(".")
        what = first_sentence(_docstring(PACKAGE / f"{home.replace('.', '/')}.py", name)).replace("|", "\\|")
        rows.append(f"| [`dc.{name}`]({room}.md#debiased_contrastive.{home}.{name}) | {what} |")
    return "\n".join([
        "# Names",
        "",
        "`import debiased_contrastive as dc` gives these names. Each is loaded at its first use, and brings torch.",
        "`dc.audit` and `dc.force_share` need the extra `prior`. Everything else is imported from its module.",
        "",
        "| name | what it is |",
        "|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def room_page(room: str) -> str:
    """Every public name of a room, module by module."""
    folder = PACKAGE / room
    if not folder.is_dir():
        return f"# `{room}`\n\n::: {PACKAGE.name}.{room}\n"
    doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    parts = [f"# `{room}`", "", doc, ""]
    for module in _modules(folder):
        dotted = ".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts)
        parts += [f"::: {dotted}", ""]
    return "\n".join(parts)
