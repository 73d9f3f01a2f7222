"""Shows the doctests of docstrings as code: Markdown would take their prompts for quotations."""

import re
from typing import Any

import griffe


def fence_doctests(text: str) -> str:
    """The docstring with a fence around each doctest."""
    blocks = re.split(r"\n\n", text)
    return "\n\n".join(
        f"```pycon\n{block.rstrip()}\n```" if block.startswith(">>> ") else block for block in blocks
    )


class Doctests(griffe.Extension):
    """Applied to every object whose docstring is shown."""

    def on_object(self, *, obj: griffe.Object, **_rest: Any) -> None:
        """Fence the doctests of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fence_doctests(obj.docstring.value)
