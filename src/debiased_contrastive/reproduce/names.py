"""The names of all figures, tables and questions, and the way from a name to its file."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from debiased_contrastive.reproduce.item import Item

NAMES = (
    "figure2", "figure4a", "figure4b", "figure4c", "figure5", "table1", "table2", "table3",
    "semi-supervised", "few-shot", "positives", "imbalance",
)  # fmt: skip
"""Those of the paper, then the questions that it leaves open."""


def load_item(name: str) -> "Item":
    """The item of a name, from the file that is named after it."""
    item: Item = import_module(f"debiased_contrastive.reproduce.{name.replace('-', '_')}").ITEM
    return item
