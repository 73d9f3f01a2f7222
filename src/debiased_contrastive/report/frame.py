"""The frame of every page: one that needs nothing but itself."""

from importlib.resources import files

from debiased_contrastive.report.markup import paragraph, text

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Whatever a run may have written into a name, the browser loads and runs nothing."""


def document(title: str, what: str, found: str, body: str) -> str:
    """A whole page: what it is about, what was found, in words; then the body, as markup."""
    style = files("debiased_contrastive.report").joinpath("page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{text(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
{paragraph(what, "what")}
{paragraph(found, "lead")}
</header>
<main>
{body}
</main>
</body>
</html>
"""
