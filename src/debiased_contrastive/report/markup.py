"""Pieces of HTML. Everything that comes from a run goes through `text`, which escapes it."""

from collections.abc import Iterable, Sequence
from html import escape

from debiased_contrastive.report.palette import Stroke


def text(value: object) -> str:
    """Any value as harmless text, also inside the quotes of an attribute.

    >>> text('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    # A name of a folder may be no Unicode, which no page can hold.
    return escape(str(value).encode("utf-8", "backslashreplace").decode(), quote=True)


def words(value: str) -> str:
    """Harmless text whose formulas and percentages stay on one line."""
    return text(value).replace(" = ", "&nbsp;=&nbsp;").replace(" %", "&nbsp;%")


def section(name: str, heading: str, *content: str) -> str:
    """A part of the page, nothing where it has no content."""
    inside = "\n".join(filter(None, content))
    return f'<section id="{name}">\n<h2>{heading}</h2>\n{inside}\n</section>' if inside else ""


def paragraph(content: str, style: str = "") -> str:
    """Words, not markup, as a paragraph."""
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{words(content)}</p>" if content else ""


def listed(lines: Iterable[str]) -> str:
    """Lines of words as a list."""
    items = "".join(f"<li>{words(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def figure(svg: str, caption: str, heading: str = "") -> str:
    """A picture with its caption."""
    head = f"<h3>{words(heading)}</h3>" if heading else ""
    return f"<figure>{head}{svg}<figcaption>{words(caption)}</figcaption></figure>"


def grid(figures: Sequence[str], style: str) -> str:
    """Pictures side by side where there is room."""
    return f'<div class="grid {style}">{"".join(figures)}</div>' if figures else ""


def details(heading: str, content: str) -> str:
    """What is folded away until someone asks."""
    return f"<details><summary>{text(heading)}</summary>{content}</details>" if content else ""


def table(caption: str, headings: Sequence[tuple[str, str]], body: Iterable[Sequence[str]]) -> str:
    """A table in a box of its own that scrolls; headings as (words, explanation), cells as markup, names first."""
    # top-1 is one word.
    head = "".join(
        f'<th scope="col"{_title(why)}>{text(name).replace("-", "&#8209;")}</th>' for name, why in headings
    )
    lines = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in body
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>'
        f"<caption><span>{text(caption)}</span></caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>"
    )


def _title(explanation: str) -> str:
    return f' title="{text(explanation)}"' if explanation else ""


def line_key(stroke: Stroke) -> str:
    """A short piece of a line, for legends."""
    dash = " ".join(f"{1.7 * length:g}" for length in stroke.dash)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        '<svg class="key" viewBox="0 0 22 8" aria-hidden="true"><line x1="1" y1="4" x2="21" y2="4" '
        f'stroke="{stroke.colour}" stroke-width="2.4"{dashed}/></svg>'
    )


def dot_key(colour: str, letter: str) -> str:
    """A coloured letter, for legends."""
    return f'<span class="dot" style="color: {colour}" aria-hidden="true">{letter}</span>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Keys, as markup, with their names."""
    items = "".join(f"<li>{key}{words(name)}</li>" for key, name in entries)
    return f'<ul class="legend">{items}</ul>'
