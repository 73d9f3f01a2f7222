"""Shows doctests and formulas of docstrings as code: Markdown would take prompts for quotations, and join lines."""

import re
from typing import Any

import griffe


def fence(text: str) -> str:
    r"""The docstring with a fence around each doctest and each formula.

    >>> fence("A mean.\n\nmean = sum_i x_i / n\n\nIt is 0 for n = 0.").split("\n\n")[1]
    '```text\nmean = sum_i x_i / n\n```'
    """
    first, *blocks = text.split("\n\n")
    return "\n\n".join([first, *map(_fence_block, blocks)])


def _fence_block(block: str) -> str:
    if block.startswith(">>> "):
        return f"```pycon\n{block.rstrip()}\n```"
    return f"```text\n{block.rstrip()}\n```" if _is_formula(block) else block


def _is_formula(block: str) -> bool:
    """Whether a paragraph is set in columns, or has signs of arithmetic and is no sentence."""
    lines = block.rstrip().splitlines()
    if not lines or re.match(r"\s|[-*#`]+ |```|\d+\. |\w+:$", lines[0]):
        return False
    is_sentence = re.search(r"[.:;,!?`]$", lines[-1]) is not None
    has_signs = re.search(r" [=/+*-] |\^", block) is not None
    return all("  " in line for line in lines) or (has_signs and not is_sentence)


class Doctests(griffe.Extension):
    """Applied to every object whose docstring is shown."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Fence the doctests and formulas of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)
