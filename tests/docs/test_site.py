"""The site builds strictly, fetches nothing, and its reference has every name, command and flag."""

import contextlib
import io
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import debiased_contrastive
from debiased_contrastive.cli.commands import COMMANDS
from debiased_contrastive.cli.main import _parse
from debiased_contrastive.domains import DOMAINS
from docs.commands import commands_page
from docs.names import ROOMS, first_sentence, names_page, public_names, room_page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder


def test_it_builds_strictly_and_fetches_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        fetched = re.findall(r'<(?:script|img|iframe|source)[^>]*\ssrc="(https?:[^"]+)"', text)
        fetched += re.findall(
            r'<link[^>]*rel="(?:stylesheet|preload|icon|preconnect)"[^>]*href="(https?:[^"]+)"', text
        )
        assert not fetched, page
        assert "fonts.googleapis" not in text
    assert (site / "search/search_index.json").exists(), "search without a network"


def test_no_line_is_longer_than_a_screen_and_code_can_be_copied(site: Path) -> None:
    seen = 0
    for page in site.rglob("*.html"):
        text = page.read_text()
        for kind, block in re.findall(r"<pre([^>]*)>(.*?)</pre>", text, re.S):
            longest = max(len(line) for line in unescape(re.sub(r"<[^>]*>", "", block)).split("\n"))
            assert longest <= 140 or "folded" in kind, f"{page.name}: a line of {longest} letters is not folded"
            seen += "folded" in kind
        assert not [code for code in re.findall(r"<code[^>]*>(.*?)</code>", text, re.S) if "&nbsp;" in code], (
            page.name
        )
    assert seen >= 2, "the advice of an audit is one long line"
    control = (site / "control.html").read_text()
    assert "N&nbsp;=&nbsp;63" in control, "a number stays beside its name"


def test_every_name_is_on_a_page_of_the_reference(site: Path) -> None:
    for name, home in public_names().items():
        page = (site / f"reference/{home.split('.')[0]}.html").read_text()
        assert f'id="debiased_contrastive.{home}.{name}"' in page
    assert set(public_names()) == set(debiased_contrastive.__all__)


def test_every_flag_of_the_help_is_in_the_reference() -> None:
    text = commands_page()
    presets = [name for domain in DOMAINS for name in domain.presets]
    for words in [[name] for name in COMMANDS if name != "train"] + [["train", name] for name in presets]:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
            _parse([*words, "--help"], DOMAINS)
        flags = set(re.findall(r"(?<![\w-])--[a-z][\w.-]+", shown.getvalue()))
        mine = set(re.findall(r"`(--[a-z][\w.-]+)`", text))
        both = {
            f"--{'.'.join([*flag[2:].split('.')[:-1], 'no-' + flag.split('.')[-1].removeprefix('--')])}"
            for flag in mine
        }
        assert flags - {"--help"} <= mine | both | {flag.replace("no-", "") for flag in mine}, words
    assert all(f"## debiased {name}\n" in text for name in COMMANDS)
    assert all(f"`{name}`" in text for name in presets)


def test_pages_of_the_reference() -> None:
    assert {"losses", "objectives", "membership", "prior", "images"} <= set(ROOMS)
    assert "::: debiased_contrastive.losses.nt_xent" in room_page("losses")
    assert "| [`dc.audit`](auditing.md#debiased_contrastive.auditing.audit.audit) |" in names_page()
    assert first_sentence("A loss. Of two views.\n\nMore.") == "A loss."


def test_doctests_and_formulas_are_shown_as_code() -> None:
    pytest.importorskip("griffe", reason="the site needs the extra docs")
    from docs.doctests import fence

    assert fence("A sum.\n\n>>> 1 + 1\n2") == "A sum.\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert fence("A formula.\n\n    a >>> b") == "A formula.\n\n    a >>> b"
    assert fence("A mean.\n\ng = sum_i x_i / n") == "A mean.\n\n```text\ng = sum_i x_i / n\n```"
    assert fence("A mean.\n\nWith n = 0 it is 0.") == "A mean.\n\nWith n = 0 it is 0."
