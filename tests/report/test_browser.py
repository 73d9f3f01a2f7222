"""A browser shows the page: tables, pictures, and nothing wider than a phone."""

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

from tests.report.folders import demo_runs, page

MEASURE = """<script>
const page = document.documentElement, boxes = [...document.querySelectorAll("figure > svg")];
page.dataset.sideways = page.scrollWidth - page.clientWidth;
page.dataset.widths = boxes.map(box => Math.round(box.getBoundingClientRect().width)).join(" ");
page.dataset.letters = Math.min(...[...document.querySelectorAll("figure > svg text")].map(
  text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));
</script>"""
"""Added to a copy whose policy was taken away: the page itself runs no script."""


FRAME = """<!DOCTYPE html><body><iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>onload = () => Object.assign(document.body.dataset, frames[0].document.documentElement.dataset)</script>"""
"""A window of any width: those of a browser cannot be as narrow as a phone."""


def dom(content: str, folder: Path) -> str:
    """The document as a browser understood it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not on the PATH: install it to see the page in a browser")
    file = folder / "page.html"
    file.write_text(content, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    run = subprocess.run(
        [chromium, *options, "--window-size=1300,900", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return run.stdout


def test_the_page_in_a_browser(tmp_path: Path) -> None:
    content = page(demo_runs(tmp_path / "runs", seeds=2), title="In a <browser>")
    shown = dom(content.replace("</body>", "<script>document.title = 'ran'</script></body>"), tmp_path)
    # The policy holds even against a script inside the page.
    assert "<title>In a &lt;browser&gt;</title>" in shown
    assert shown.count("<figure>") == 7
    assert shown.count('role="img"') == 7
    assert len(re.findall(r'<tr><th scope="row"><svg.*?</svg>', shown)) == 2 * 5
    assert "debiased, τ⁺&nbsp;=&nbsp;0.1, M&nbsp;=&nbsp;4" in shown


@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_can_be_read(tmp_path: Path, width: int) -> None:
    content = page(demo_runs(tmp_path / "runs", seeds=1), title="Fits")
    free = re.sub(r"<meta http-equiv.*?>", "", content).replace("</body>", f"{MEASURE}</body>")
    shown = dom(FRAME.format(width=width, page=escape(free)), tmp_path)
    measured = dict(re.findall(r'data-(\w+)="([^"]*)"', shown[shown.index("<body") : shown.index("<iframe")]))
    assert measured["sideways"] == "0"
    widths = [int(number) for number in measured["widths"].split()]
    assert len(widths) == 7
    assert all(300 < number < width for number in widths)
    assert float(measured["letters"]) > 8.5
