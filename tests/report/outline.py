"""What a page holds, as a parser sees it."""

import re
from html.parser import HTMLParser

VOID = {"meta"}


class Outline(HTMLParser):
    """Every tag with its attributes, all text, and whether what opens closes."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def cells(content: str, label: str) -> list[str]:
    """The cells of the row of that name in the first table."""
    found = re.search(rf'<tr><th scope="row">(?:<svg.*?</svg>)?{re.escape(label)}</th>(.*?)</tr>', content)
    assert found is not None, label
    plain = (re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", found[1]))
    return [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in plain]
