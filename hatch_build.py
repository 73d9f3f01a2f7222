"""The page of the package index: README.md with addresses in place of paths, since no file lies beside it there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME = "debiased-contrastive/debiased-contrastive"
PICTURES = f"https://raw.githubusercontent.com/{HOME}/main"
FILES = f"https://github.com/{HOME}/blob/main"


def with_whole_links(text: str) -> str:
    """Markdown whose relative links and pictures are addresses in the repository."""
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)([^)]+\))", rf"\g<1>{PICTURES}/\2", text)
    return re.sub(r"(\]\()(?!https?:|#)([^)]+\))", rf"\g<1>{FILES}/\2", text)


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling asks it for what `dynamic` names beside the version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_whole_links(text)}
