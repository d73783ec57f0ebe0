"""Explanations drawn: coloured text as HTML, the same as a picture."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from seqlab.errors import UserError
from seqlab.report import alignment, overlays, spectrograms
from seqlab.report.attention import Explanation, Map
from seqlab.report.evaluate import number
from seqlab.report.html import asset, notebook, page, shortened

MOST_NUMBERS = 6_000_000
"""A page carries at most so many self-attention weights (a byte each); beyond it, heads are averaged."""
MOST_GRAMS = 24

CSS = asset("maps.css") + alignment.CSS + overlays.CSS + spectrograms.CSS
SCRIPT = asset("maps.js") + alignment.SCRIPT


# HTML -------------------------------------------------------------------------------------------------------


def html_page(explanation: Explanation) -> str:
    """A document of its own."""
    title = f"{explanation.label}: {shortened(explanation.text, 60)}"
    body = f'<h1>What the model looked at</h1>\n<div class="card">{html_part(explanation)}</div>'
    return page(title, body, CSS, SCRIPT)


def html_pages(title: str, explanations: Sequence[Explanation]) -> str:
    """Several of them in one document."""
    cards = "".join(f'<div class="card">{html_part(one)}</div>' for one in explanations)
    return page(title, f"<h1>{escape(title)}</h1>\n{cards}", CSS, SCRIPT)


def _over_space(explanation: Explanation) -> bool:
    """Whether the pieces of its maps are places in a picture; in a spectrogram they are times."""
    return any(one.grid for one in explanation.maps)


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
    if explanation.picture is not None:
        over = overlays.overlays_html if _over_space(explanation) else spectrograms.spectrogram_html
        return "\n".join([*parts, over(explanation)])
    matrices = [one for one in explanation.maps if one.kind == "matrix"]
    if alignments := [one for one in explanation.maps if one.kind == "alignment"]:
        parts += [f'<p class="w">{escape(explanation.text)}</p>', alignment.alignment_table(alignments)]
    for one in explanation.maps:
        if one.kind == "tokens" and matrices and one is explanation.maps[0]:
            parts.append(_matrix(matrices, one))
        elif one.kind not in ("matrix", "alignment"):
            parts.append(_DRAW[one.kind](one))
    if matrices and explanation.maps[0].kind != "tokens":
        parts.append(_matrix(matrices, None))
    return "\n".join(parts)


def _tokens(one: Map) -> str:
    top = _top(one.weights)
    return _heading(one, top) + _text(one.pieces, one.weights / top, one.weights, one.signed)


def _hops(one: Map) -> str:
    top = _top(one.weights)
    rows = "".join(
        f'<div class="hop{" named" if one.written else ""}"><b>{escape(name)}</b>'
        f"{_text(one.pieces, row / top, row, one.signed)}</div>"
        for name, row in zip(_rows_of(one), one.weights, strict=True)
    )
    return _heading(one, top) + rows


def _rows_of(one: Map) -> Sequence[str]:
    """What the rows of a map with several are called."""
    return one.written or [f"hop {number}" for number in range(1, len(one.weights) + 1)]


def _document(one: Map) -> str:
    """A bar for every sentence. Words are coloured by √(sentence weight) · word weight, as in the HAN
    paper."""
    shades = _shades(one)
    top, widest = max(_top(shade) for shade in shades), _top(one.weights)
    rows = []
    for weight, pieces, shade, words in zip(one.weights, one.sentences, shades, one.words, strict=True):
        side = "" if not one.signed else " for" if weight >= 0 else " against"
        rows.append(
            f'<div class="sentence"><div class="track{side}">'
            f'<i style="width:{100 * abs(weight) / widest:.1f}%"></i></div>'
            f'<span class="num">{number(float(weight))}</span>'
            f"{_text(pieces, shade / top, words, one.signed)}</div>"
        )
    return _heading(one, top, "word weight × √sentence weight" if not one.signed else "") + "".join(rows)


def _shades(one: Map) -> list[np.ndarray]:
    return [
        words if one.signed else np.sqrt(weight) * words
        for weight, words in zip(one.weights, one.words, strict=True)
    ]


def _grams(one: Map) -> str:
    """The n-grams that weigh most, those for the answer beside those against it."""
    top = _top(one.weights)
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


def _matrix(matrices: Sequence[Map], received: Map | None) -> str:
    """Self-attention: the text shows what each piece receives; pointing at a piece shows where it looks."""
    weights = [one.weights for one in matrices]  # H Q K each
    if sum(layer.size for layer in weights) > MOST_NUMBERS:
        weights = [layer.mean(axis=0, keepdims=True) for layer in weights]
    shown = (
        np.mean([layer.mean(axis=(0, 1)) for layer in weights], axis=0)
        if received is None
        else received.weights
    )
    top = _top(shown)
    layers = []
    for layer in weights:
        rows = layer.max(axis=2, keepdims=True)
        coded = np.rint(255 * layer / np.where(rows > 0, rows, 1)).astype(np.uint8)
        layers.append(
            {
                "heads": layer.shape[0],
                "size": layer.shape[1],
                "top": [round(float(row), 6) for row in rows.ravel()],
                "bytes": base64.b64encode(coded.tobytes()).decode(),
            }
        )
    controls = (
        '<div class="controls" hidden><label>layer <select>'
        '<option value="">mean of all</option></select></label>'
        '<label>head <select><option value="">mean of all</option></select></label>'
        "<span>Point at a piece to see where it looks.</span></div>"
    )
    return (
        '<div class="matrix"><h3>attention each piece receives, on average</h3>'
        f"{_legend(top, False, 'share of the attention')}{controls}"
        f"{_text(matrices[0].pieces, shown / top, shown, False)}"
        '<div class="rows" hidden><canvas></canvas>'
        '<p class="small soft">A row for each piece and a column for each piece<br>'
        "it can look at, in reading order. Point at a row<br>to see it in the text above.</p></div>"
        f'<script type="application/json">{json.dumps({"layers": layers})}</script></div>'
    )


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


def spaced(pieces: Sequence[str]) -> tuple[bool, list[tuple[str, str]]]:
    """Whether pieces touch, and each with the gap before it.

    Single characters touch; subwords touch unless they begin with a mark for a space (Ġ or ▁); words never
    do.
    """
    marks = ("Ġ", "▁", " ")
    if any(piece.startswith(marks) for piece in pieces):
        return True, [
            (" " if piece.startswith(marks) else "", piece.lstrip("Ġ▁ ") or "␣") for piece in pieces
        ]
    if len(pieces) > 1 and all(len(piece) == 1 for piece in pieces):
        return True, [("", piece) for piece in pieces]
    return False, [(" ", piece) for piece in pieces]


def _top(weights: np.ndarray) -> float:
    """The largest size of a weight, or 1 when all are 0."""
    return float(np.abs(weights).max(initial=0.0)) or 1.0


_DRAW = {"tokens": _tokens, "hops": _hops, "document": _document, "grams": _grams}


# A picture --------------------------------------------------------------------------------------------------

FAMILY = "monospace"
LINE = 114
"""Characters on a line of a picture; at 9.5 points a character is 0.0794 inches wide."""


def png(explanation: Explanation) -> bytes:
    """The maps as one picture: lines of coloured text in a monospaced font, and a grid for each
    self-attention layer."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(
            what="matplotlib is not installed.",
            why="Pictures of maps are drawn with it; .html and .json need nothing more.",
            fix='pip install "seqlab[plot]"',
        ) from None
    if explanation.picture is not None:
        return (overlays.draw if _over_space(explanation) else spectrograms.draw_png)(explanation)
    lines = list(_lines(explanation))
    grids = [one for one in explanation.maps if one.kind in ("matrix", "alignment")]
    below = -(-len(grids) // 2) * 4.6
    height = 0.27 * (len(lines) + 1)
    figure = Figure(figsize=(9.6, height + below), dpi=150, facecolor="white")
    share = height / (height + below)
    axes = figure.add_axes((0.02, 1 - share, 0.96, share))
    axes.set(xlim=(0, 9.6 * 0.96 / 0.0794), ylim=(len(lines) + 0.5, -0.5))
    axes.axis("off")
    for row, line in enumerate(lines):
        for start, word, colour, bold in line:
            style = (
                {"boxstyle": "square,pad=0.12", "facecolor": colour, "edgecolor": "none"} if colour else None
            )
            weight = "bold" if bold else "normal"
            axes.text(
                start,
                row,
                word,
                family=FAMILY,
                fontsize=9.5,
                va="center",
                weight=weight,
                bbox=style,
                parse_math=False,
            )
    for place, one in enumerate(grids):
        _grid(
            figure,
            one,
            (0.1 + 0.47 * (place % 2), 1 - share - ((place // 2 + 1) * 4.6 - 0.8) / (height + below), 0.36),
        )
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


_Line = list[tuple[float, str, Any, bool]]


def _lines(explanation: Explanation) -> Iterator[_Line]:
    """Lines of (column, text, background, bold)."""
    score = explanation.scores.get(explanation.label)
    yield [
        (0, f"{explanation.label}  {number(score)}" if score is not None else explanation.label, None, True)
    ]
    if explanation.note:
        yield [(0, explanation.note[:LINE], None, False)]
    for one in explanation.maps:
        if one.kind in ("matrix", "alignment"):
            continue
        yield []
        yield [(0, one.name, None, True)]
        if one.kind == "document":
            shades = _shades(one)
            top = max(_top(shade) for shade in shades)
            for weight, pieces, shade in zip(one.weights, one.sentences, shades, strict=True):
                yield from _wrapped(pieces, shade / top, f"{weight:.3f}", one.signed)
        elif one.kind == "grams":
            order = np.argsort(-np.abs(one.weights), kind="stable")[:MOST_GRAMS]
            for place in order:
                weight = float(one.weights[place])
                colour = _colour(weight / _top(one.weights), signed=True)
                yield [(0, f"{weight:+.3f}", None, False), (8, one.pieces[place][:LINE], colour, False)]
        else:
            rows = np.atleast_2d(one.weights)
            names = [name[:24] for name in _rows_of(one)] if one.kind == "hops" else [""]
            for name, row in zip(names, rows, strict=True):
                room = max(map(len, names)) + 2
                yield from _wrapped(one.pieces, row / _top(rows), name, one.signed, room)


def _wrapped(
    pieces: Sequence[str], shades: np.ndarray, name: str, signed: bool, room: int = 8
) -> Iterator[_Line]:
    """Coloured text, broken into lines, with a name before the first, which has so much room."""
    _, words = spaced(pieces)
    begin = room if name else 0
    line: _Line = [(0, name, None, False)] if name else []
    column = float(begin)
    for (gap, word), shade in zip(words, shades.tolist(), strict=True):
        column += bool(gap) and column > begin
        if column + len(word) > LINE and column > begin:
            yield line
            line, column = [], float(begin)
        line.append((column, word, _colour(shade, signed), False))
        column += len(word)
    yield line


def _colour(shade: float, signed: bool) -> tuple[float, float, float, float] | None:
    """Amber for attention; blue for the answer and orange-red against it. As on the page."""
    if abs(shade) < 0.01:
        return None
    if not signed:
        return 1.0, 0.67, 0.08, min(1.0, shade)
    return (0.2, 0.55, 0.91, min(1.0, shade)) if shade > 0 else (0.94, 0.39, 0.24, min(1.0, -shade))


def _grid(figure: Any, one: Map, place: tuple[float, float, float]) -> None:
    """The mean over heads of one layer: rows look at columns."""
    left, bottom, size = place
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left, bottom, size, size * width / height))
    axes.imshow(one.weights.mean(axis=0), cmap="Oranges", vmin=0, aspect="auto")
    axes.set_title(one.name + (" (mean of heads)" if len(one.weights) > 1 else ""), fontsize=9)
    across, down = (
        [word[:12] for _, word in spaced(pieces)[1]] for pieces in (one.pieces, one.written or one.pieces)
    )
    if max(len(across), len(down)) <= 40:
        axes.set_xticks(range(len(across)), across, rotation=90, fontsize=7, parse_math=False)
        axes.set_yticks(range(len(down)), down, fontsize=7, parse_math=False)
