"""A browser shows the page: tables, pictures, and nothing wider than a phone."""

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

from tests.report.folders import demo_runs, page, settings, write_run

MEASURE = """<script>
const page = document.documentElement, boxes = [...document.querySelectorAll("figure > svg")];
page.dataset.sideways = page.scrollWidth - page.clientWidth;
page.dataset.widths = boxes.map(box => Math.round(box.getBoundingClientRect().width)).join(" ");
page.dataset.hidden = [...document.querySelectorAll("table, li, pre")].filter(
  one => !one.checkVisibility()).length;
page.dataset.colours = [...new Set([...document.querySelectorAll("figure > svg text")].map(
  text => getComputedStyle(text).fill))].join(" and ") + " on " + getComputedStyle(document.body).backgroundColor;
page.dataset.letters = Math.min(...[...document.querySelectorAll("figure > svg text")].map(
  text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));
</script>"""
"""Added to a copy whose policy was taken away: the page itself runs no script."""


FRAME = """<!DOCTYPE html><body><iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>onload = () => Object.assign(document.body.dataset, frames[0].document.documentElement.dataset)</script>"""
"""A window of any width: those of a browser cannot be as narrow as a phone."""


def dom(content: str, folder: Path, *flags: str) -> str:
    """The document as a browser understood it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not on the PATH: install it to see the page in a browser")
    file = folder / "page.html"
    file.write_text(content, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", *flags]
    run = subprocess.run(
        [chromium, *options, "--window-size=1300,900", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return run.stdout


def measure(content: str, folder: Path, width: int, *flags: str) -> dict[str, str]:
    """What the script found in a window of that width."""
    free = re.sub(r"<meta http-equiv.*?>", "", content).replace("</body>", f"{MEASURE}</body>")
    shown = dom(FRAME.format(width=width, page=escape(free)), folder, *flags)
    return dict(re.findall(r'data-(\w+)="([^"]*)"', shown[shown.index("<body") : shown.index("<iframe")]))


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
    measured = measure(page(demo_runs(tmp_path / "runs", seeds=1), title="Fits"), tmp_path, width)
    assert measured["sideways"] == "0"
    widths = [int(number) for number in measured["widths"].split()]
    assert len(widths) == 7
    assert all(300 < number < width for number in widths)
    assert float(measured["letters"]) > 8.5


def test_paper_shows_everything(tmp_path: Path) -> None:
    runs = demo_runs(tmp_path / "runs", seeds=1)
    known = {"source": "classifier", "form": "consensus", "known": 0.1, "strength": 2, "attraction": 0.5}
    further = ("num_classes", "warm_up", "refresh", "neighbours", "attraction_above", "temperature")
    membership = {"membership": known | dict.fromkeys(further, 10)}
    runs.append(write_run(tmp_path / "runs/known", settings("debiased") | membership))
    content = page(runs, title="Printed")
    # What lies between the margins of A4, in pixels.
    assert measure(content, tmp_path, 680)["hidden"] != "0", "a screen folds the settings away"
    measured = measure(content.replace("@media print", "@media all"), tmp_path, 680)
    assert (measured["sideways"], measured["hidden"]) == ("0", "0")


@pytest.mark.parametrize(
    ("scheme", "colours"),
    [("0", "rgb(230, 234, 236) on rgb(20, 24, 27)"), ("1", "rgb(29, 35, 39) on rgb(255, 255, 255)")],
)
def test_letters_of_pictures_follow_the_page_into_the_dark(tmp_path: Path, scheme: str, colours: str) -> None:
    content = page(demo_runs(tmp_path / "runs", seeds=1), title="Dark")
    flag = f"--blink-settings=preferredColorScheme={scheme}"
    assert measure(content, tmp_path, 1200, flag)["colours"] == colours
