"""The look that all pages share: one file, no network, light and dark, readable on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources


def asset(name: str) -> str:
    """The text of a .css or .js file of this folder. Pages carry it themselves, so that each is one file."""
    return resources.files("seqlab.report").joinpath(name).read_text(encoding="utf-8")


COLOURS, ELEMENTS = asset("colours.css"), asset("html.css")
DOCUMENT, NOTEBOOK = asset("document.css"), asset("notebook.css")


def page(title: str, body: str, css: str = "", script: str = "") -> str:
    """A whole HTML document. `body`, `css` and `script` are ours, with every word of a user already
    escaped."""
    code = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en" class="seqlab">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{COLOURS}{DOCUMENT}{ELEMENTS}{css}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{code}</body>\n</html>\n"
    )


def notebook(part: str, css: str = "", script: str = "") -> str:
    """Part of a page for a notebook's cell, with its colours and rules kept to itself."""
    rules = f"{COLOURS}{NOTEBOOK}@scope (.seqlab) {{\n{ELEMENTS}{css}}}"
    return f'<div class="seqlab"><style>{rules}</style>{part}<script>{{{script}}}</script></div>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,), wide: bool = False
) -> str:
    """Cells are text and get escaped here; those of the columns in `left` start at the left."""
    marks = [' class="l"' if place in left else "" for place in range(len(header))]
    head = "".join(f"<th{mark}>{escape(cell)}</th>" for cell, mark in zip(header, marks, strict=True))
    lines = [
        "".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<table{' class=wide' if wide else ''}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def shortened(text: str, limit: int = 400) -> str:
    """The beginning and the end of a long text, on one line."""
    if len(text) > 8 * limit:  # the middle goes anyway
        text = text[: 4 * limit] + " " + text[-4 * limit :]
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3].rsplit(" ", 1)[0]
    tail = text[-limit // 3 :].split(" ", 1)[-1]
    return f"{head} … {tail}"
