"""What the package index shows: README.md with whole addresses, each of a file that exists."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def hatch_build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook of the build, beside a stand-in for hatchling, which is there only while a package is built."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_index_page_are_whole(hatch_build: ModuleType) -> None:
    hook = hatch_build.CustomMetadataHook()
    hook.root = str(ROOT)
    metadata: dict[str, dict[str, str]] = {}
    hook.update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", metadata["readme"]["text"])
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links)
    inside = [link.split("/main/")[1] for link in links if "/main/" in link]
    assert inside
    assert all((ROOT / path).exists() for path in inside)
    (picture,) = [link for link in links if link.endswith("headline.svg")]
    assert picture.startswith("https://raw.githubusercontent.com/")


def test_what_the_archive_of_sources_holds_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    (included,) = re.findall(r"sdist\]\ninclude = \[(.+)\]", project)
    names = re.findall(r'"/([^"]+)"', included)
    assert {"src", "hatch_build.py", "README.md", "LICENSE"} <= set(names)
    assert all((ROOT / name).exists() for name in names)
    assert "results" not in names, "megabytes that no installation needs"
