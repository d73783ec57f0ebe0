"""The costs of models as one page: each drawn as boxes, with its tables below. No network, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from seqlab.files import write_text
from seqlab.model import Model
from seqlab.parts import Facts
from seqlab.report import html, model_drawing
from seqlab.report.beside import SideBySide
from seqlab.report.cost import Inspection
from seqlab.report.lengths import HEADER, Sweep, both_of

CSS = model_drawing.CSS + html.asset("cost_page.css")


@dataclass(frozen=True)
class PageModel:
    """A model and what is told of it."""

    inspection: Inspection
    model: Model
    facts: Facts
    measured: Sequence[str] = ()
    """Sentences of what was measured."""


def write_page(path: Path, shown: Sequence[PageModel], sweep: Sweep | None = None) -> None:
    """One file, whole or not at all."""
    write_text(path, cost_page(shown, sweep))


def cost_page(shown: Sequence[PageModel], sweep: Sweep | None = None) -> str:
    names = both_of([one.inspection.name for one in shown])
    parts = [f"<h1>What {escape(names)} cost{'s' if len(shown) == 1 else ''}</h1>"]
    beside = SideBySide([one.inspection for one in shown])
    if len(shown) > 1:
        parts += ["<h2>Side by side</h2>", _scrolled(html.table(beside.header, beside.rows()))]
    if rows := beside.published_rows():
        left = range(len(beside.header))
        table = html.table(("", *beside.header[1:]), rows, left=left)
        parts += ["<h2>As published, and by the formula</h2>", _scrolled(table, "prose")]
    if sweep is not None:
        parts += _lengths(sweep)
    for one in shown:
        parts += _model(one, alone=len(shown) == 1)
    return html.page(f"Costs of {names}", "\n".join(parts), CSS)


def _model(one: PageModel, alone: bool) -> list[str]:
    name = one.inspection.name
    flows = model_drawing.flows_of(one.model, one.facts, one.inspection.length)
    parts = [] if alone else [f"<h2>{escape(name)}</h2>"]
    parts.append(f'<div class="card scroll">{model_drawing.draw_model(flows, f"The parts of {name}")}</div>')
    parts.append(
        '<p class="small soft">B examples of a batch; then positions, and features of each; N places that are'
        " asked for. Layers that are alike stand together.</p>"
    )
    parts += [f"<p>{escape(line)}</p>" for line in one.measured]
    layers = one.inspection.to_html()
    parts.append(layers if alone else f"<details><summary>Layer by layer</summary>{layers}</details>")
    return parts


def _lengths(sweep: Sweep) -> list[str]:
    parts = ["<h2>By length</h2>"]
    for number, name in enumerate(sweep.names):
        title = f"<h3>{escape(name)}</h3>" if len(sweep.names) > 1 else ""
        parts.append(title + _scrolled(html.table(HEADER, sweep.rows(number), left=())))
    return [*parts, *(f"<p>{escape(line)}</p>" for line in sweep.crossings)]


def _scrolled(table: str, kind: str = "") -> str:
    return f'<div class="scroll {kind}">{table}</div>'
