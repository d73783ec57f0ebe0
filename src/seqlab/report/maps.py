"""Explanations as HTML: coloured text, viewers of what has two axes, and what stands beside attention."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from seqlab.report import chart, overlays, viewer
from seqlab.report.chart import Curve, line_chart
from seqlab.report.deletion import Deletion
from seqlab.report.evaluate import number
from seqlab.report.explanation import Explanation, Map
from seqlab.report.html import asset, notebook, page, shortened
from seqlab.report.rollout import overlap_of_hops
from seqlab.report.viewer import panels_beside, panels_of, spaced, viewer_html

MOST_GRAMS = 24

CSS = asset("maps.css") + viewer.CSS + overlays.CSS + chart.CSS
SCRIPT = viewer.SCRIPT


# Pages ------------------------------------------------------------------------------------------------------


def html_page(explanation: Explanation) -> str:
    """A document of its own."""
    title = f"{explanation.label}: {shortened(explanation.text, 60)}"
    body = f'<h1>What the model looked at</h1>\n<div class="card">{html_part(explanation)}</div>'
    return page(title, body, CSS, SCRIPT)


def html_pages(title: str, explanations: Sequence[Explanation]) -> str:
    """Several of them in one document."""
    cards = "".join(f'<div class="card">{html_part(one)}</div>' for one in explanations)
    return page(title, f"<h1>{escape(title)}</h1>\n{cards}", CSS, SCRIPT)


def html_notebook(explanation: Explanation) -> str:
    """A cell's output."""
    return notebook(html_part(explanation), CSS, SCRIPT)


def html_part(explanation: Explanation) -> str:
    """A piece of a page that has our CSS and SCRIPT: the answer, the method and every map."""
    best = sorted(explanation.scores.items(), key=lambda item: -item[1])[:5]
    scores = " ".join(
        f'<span class="soft small">{escape(label)} {number(score)}</span>' for label, score in best
    )
    parts = [f'<p class="answer"><b>{escape(explanation.label)}</b> {scores}</p>']
    if explanation.note:
        parts.append(f'<p class="small soft">{escape(explanation.note)}</p>')
    if explanation.picture is not None or any(one.kind == "alignment" for one in explanation.maps):
        parts.append(f'<p class="w">{escape(explanation.text)}</p>')
    if explanation.picture is not None and any(one.grid for one in explanation.maps):
        parts.append(overlays.image_html(explanation.picture, "as it was read"))
    if explanation.picture is None:
        looked = any(one.kind == "matrix" for one in explanation.maps)
        parts += [
            _DRAW[one.kind](one)
            for place, one in enumerate(explanation.maps)
            # what each piece receives stands in the viewer, too
            if one.kind in _DRAW
            and not (looked and place == 0 and one.kind == "tokens" and "receives" in one.name)
        ]
    parts += [viewer_html(one) for one in panels_of(explanation)]
    return "\n".join([*parts, _beside(explanation)])


# Beside attention -------------------------------------------------------------------------------------------


def _beside(explanation: Explanation) -> str:
    """Attributions, and how the answer falls when pieces go; or why there are none."""
    found = explanation.beside
    if not found.note and not found.maps:
        return ""
    note = f'<p class="small soft">{escape(found.note)}</p>'
    if not found.maps:
        return note
    pictured = explanation.picture is not None
    drawn = "" if pictured else "".join(_DRAW[one.kind](one) for one in found.maps)
    drawn += "".join(viewer_html(one) for one in panels_beside(explanation))
    curves = _deletion(found.deletion) if found.deletion else ""
    return f"<section><h2>Beside it: what each piece adds</h2>{note}{drawn}{curves}</section>"


def _deletion(found: Deletion) -> str:
    """The curves, and how high each is on average."""
    shares = (found.gone / found.gone[-1]).tolist()
    curves = [Curve("", shares, curve.tolist()) for curve in found.curves.values()]
    band = list(zip(*found.band.tolist(), strict=True))
    chance = Curve("", shares, found.mean.tolist(), colour="--soft", band=band)
    drawn = line_chart(
        found.followed, [*curves, chance], across="share of the pieces that are gone", span=(0, 1)
    )
    rows = "".join(
        f'<tr><td class="l"><i class="swatch c{place}"></i>{escape(name)}</td><td>{area:.3f}</td></tr>'
        for place, (name, area) in enumerate(found.areas.items(), 1)
    )
    areas = found.random_areas
    told = (
        f"Pieces are hidden, the weightiest first: the earlier the curve falls, the better it knew what the"
        f" answer rests on. Grey: {len(areas)} random orders, their mean ± standard deviation."
    )
    return (
        f'<h3>How the answer falls</h3><p class="small soft">{told}</p><div class="fall">{drawn}'
        '<table><thead><tr><th class="l">order</th><th>mean height</th></tr></thead>'
        f'<tbody>{rows}<tr><td class="l"><i class="swatch"></i>random</td>'
        f"<td>{areas.mean():.3f} ± {areas.std(ddof=1):.3f}</td></tr></tbody></table></div>"
    )


# Coloured text ----------------------------------------------------------------------------------------------


def _tokens(one: Map) -> str:
    top = top_of(one.weights)
    return _heading(one, top) + _read(_text(one.pieces, one.weights / top, one.weights, one.signed))


def _hops(one: Map) -> str:
    top = top_of(one.weights)
    rows = "".join(
        f'<div class="hop{" named" if one.written else ""}"><b>{escape(name)}</b>'
        f"{_text(one.pieces, row / top, row, one.signed)}</div>"
        for name, row in zip(rows_of(one), one.weights, strict=True)
    )
    lines = len(one.weights)
    overlap = (
        ""
        if one.written or lines < 2
        else (
            f'<p class="small soft">overlap of the hops: mean cosine {overlap_of_hops(one.weights):.3f}'
            " (1: all look at the same)</p>"
        )
    )
    return _heading(one, top) + _read(rows) + overlap


def rows_of(one: Map) -> Sequence[str]:
    """What the rows of a map with several are called."""
    return one.written or [f"hop {number}" for number in range(1, len(one.weights) + 1)]


def _document(one: Map) -> str:
    """A bar for every sentence. Words are coloured by √(sentence weight) · word weight, as in the HAN
    paper."""
    shades = shades_of(one)
    top, widest = max(top_of(shade) for shade in shades), top_of(one.weights)
    rows = []
    for weight, pieces, shade, words in zip(one.weights, one.sentences, shades, one.words, strict=True):
        side = "" if not one.signed else " for" if weight >= 0 else " against"
        rows.append(
            f'<div class="sentence"><div class="track{side}">'
            f'<i style="width:{100 * abs(weight) / widest:.1f}%"></i></div>'
            f'<span class="num">{number(float(weight))}</span>'
            f"{_text(pieces, shade / top, words, one.signed)}</div>"
        )
    return _heading(one, top, "word weight × √sentence weight" if not one.signed else "") + _read(
        "".join(rows)
    )


def shades_of(one: Map) -> list[np.ndarray]:
    return [
        words if one.signed else np.sqrt(weight) * words
        for weight, words in zip(one.weights, one.words, strict=True)
    ]


def _grams(one: Map) -> str:
    """The n-grams that weigh most, those for the answer beside those against it."""
    top = top_of(one.weights)
    order = np.argsort(-np.abs(one.weights), kind="stable")[:MOST_GRAMS]
    columns = []
    for sign, side in ((1, "for"), (-1, "against")):
        rows = "".join(
            f'<div class="gram"><span>{escape(one.pieces[place])}</span><div class="track {side}">'
            f'<i style="width:{100 * abs(one.weights[place]) / top:.1f}%"></i></div>'
            f'<span class="num">{one.weights[place]:+.3f}</span></div>'
            for place in order
            if sign * one.weights[place] > 0
        )
        columns.append(f"<div><h3>{side} the answer</h3>{rows or '<p class=soft>none</p>'}</div>")
    rest = len(one.weights) - len(order)
    more = f'<p class="small soft">{rest:,} more with less weight</p>' if rest else ""
    return f'<h3>{escape(one.name)}</h3><div class="grams">{"".join(columns)}</div>{more}'


def _read(lines: str) -> str:
    """Lines of pieces that viewer.js makes readable by keyboard and ear, piece by piece and as a table."""
    return f'<div class="lines">{lines}</div>'


def _heading(one: Map, top: float, unit: str = "") -> str:
    return f"<h3>{escape(one.name)}</h3>" + _legend(
        top, one.signed, unit or one.unit or ("" if one.signed else "share of the attention")
    )


def _legend(top: float, signed: bool, unit: str) -> str:
    if signed:
        return (
            f'<div class="legend">against the answer −{number(top)}<span class="ramp signed"></span>'
            f"+{number(top)} for the answer</div>"
        )
    ramp = '0<span class="ramp"></span>'
    return (
        f'<div class="legend">{ramp}<span class="most">{number(top)}</span><span>{escape(unit)}</span></div>'
    )


def _text(pieces: Sequence[str], shades: np.ndarray, weights: np.ndarray, signed: bool) -> str:
    """The pieces, each as dark as its shade (−1 to 1), with its weight as a tooltip."""
    tight, words = spaced(pieces)
    spans = []
    for (gap, word), shade, weight in zip(words, shades, weights, strict=True):
        turned = ' class="n"' if shade < 0 else ""
        spans.append(
            f'{gap}<span{turned} style="--w:{abs(shade):.3f}" title="{weight:.4f}">{escape(word)}</span>'
        )
    kinds = ("w" + " tight" * tight + " signed" * signed).strip()
    return f'<p class="{kinds}">{"".join(spans)}</p>'


def top_of(weights: np.ndarray) -> float:
    """The largest size of a weight, or 1 when all are 0."""
    return float(np.abs(weights).max(initial=0.0)) or 1.0


_DRAW = {"tokens": _tokens, "hops": _hops, "document": _document, "grams": _grams}
