"""The notebook as a page: its cells, and the outputs that were committed with it."""

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_name("notebook.ipynb")


def notebook_page() -> str:
    """Markdown of the whole notebook."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(_cell(cell) for cell in cells) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```py\n{source}\n```", *(_output(output) for output in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    if "text" in output:
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    picture = "".join(output["data"]["image/png"]).strip()
    return f'<img alt="what the cell draws" src="data:image/png;base64,{picture}">'
