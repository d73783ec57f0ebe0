"""The look that all pages share: one file, no network, light and dark, readable on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

LIGHT = (
    "--page:#fbfbf9;--card:#fff;--text:#1d2129;--soft:#5d6470;--line:#e1e3e6;--faint:#f1f2f3;--c1:#2563b8;--c2:#d9630b;--c3:#12805c;"
    "--c4:#7b4bb7;--heat:255 170 20;--heat-top:.95;--for:52 140 232;--against:240 100 60;--good:#12704f;--bad:#b3261e"
)
DARK = (
    "--page:#14161a;--card:#1b1e24;--text:#e7e9ec;--soft:#9ba3af;--line:#32373f;--faint:#252a31;--c1:#79aef5;--c2:#f4a259;--c3:#5fc79d;"
    "--c4:#bd9af0;--heat:214 112 0;--heat-top:.85;--for:36 108 200;--against:200 66 30;--good:#6fd3a6;--bad:#ff8f84"
)
BASE = """
*{box-sizing:border-box;-webkit-print-color-adjust:exact;print-color-adjust:exact}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .4rem;letter-spacing:-.01em}
h2{font-size:1.15rem;margin:2.6rem 0 .7rem}h3{font-size:1rem;margin:1.4rem 0 .5rem}
p{margin:.5rem 0}.soft{color:var(--soft)}.small{font-size:.875rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem 1.15rem;margin:.8rem 0;overflow-x:auto}
.card>:last-child{margin-bottom:0}.card>h3:first-child{margin-top:0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}table.wide{width:100%}
th,td{padding:.38rem .8rem;text-align:right;border-bottom:1px solid var(--line);vertical-align:baseline}
th{font-weight:600;color:var(--soft);font-size:.82rem}tbody tr:last-child>*{border-bottom:0}
th:first-child,td:first-child{padding-left:0}th:last-child,td:last-child{padding-right:0}.l{text-align:left}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
details>summary{cursor:pointer;font-weight:600}details[open]>summary{margin-bottom:.7rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.4rem;margin:0}dt{color:var(--soft)}dd{margin:0}
"""
FONT = 'font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif'
PAGE = f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
body{{margin:0;background:var(--page);color:var(--text);{FONT}}}
main{{max-width:60rem;margin:0 auto;padding:2.2rem 1.25rem 4rem}}
@media print{{
:root{{{LIGHT};--page:#fff}}body{{font-size:12px}}main{{max-width:none;padding:0}}.card{{break-inside:avoid}}h2{{break-after:avoid}}}}
"""


def page(title: str, body: str, css: str = "", script: str = "") -> str:
    """A whole HTML document. `body`, `css` and `script` are ours, with every word of a user already escaped."""
    code = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{PAGE}{BASE}{css}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{code}</body>\n</html>\n"
    )


def notebook(part: str, css: str = "", script: str = "") -> str:
    """Part of a page for a notebook's cell, with its colours and rules kept to itself."""
    own = f".seqlab{{{LIGHT};background:var(--page);color:var(--text);{FONT};padding:.8rem 1rem}}"
    dark = f"@media (prefers-color-scheme:dark){{.seqlab{{{DARK}}}}}"
    rules = f"{own}{dark}@scope (.seqlab){{{BASE}{css}}}"
    return f'<div class="seqlab"><style>{rules}</style>{part}<script>{{{script}}}</script></div>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,), wide: bool = False) -> str:
    """Cells are text and get escaped here; those of the columns in `left` start at the left."""
    marks = [' class="l"' if place in left else "" for place in range(len(header))]
    head = "".join(f"<th{mark}>{escape(cell)}</th>" for cell, mark in zip(header, marks, strict=True))
    lines = ["".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(row, marks, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table{" class=wide" if wide else ""}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def shortened(text: str, limit: int = 400) -> str:
    """The beginning and the end of a long text, on one line."""
    if len(text) > 8 * limit:    # the middle goes anyway
        text = text[: 4 * limit] + " " + text[-4 * limit :]
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3].rsplit(" ", 1)[0]
    tail = text[-limit // 3 :].split(" ", 1)[-1]
    return f"{head} … {tail}"
