"""Explanations as pictures, .png or .svg: coloured text, a square for each layer of attention, and curves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from seqlab.errors import UserError
from seqlab.report import overlays, spectrograms
from seqlab.report.deletion import Deletion
from seqlab.report.evaluate import number
from seqlab.report.explanation import Explanation, Map
from seqlab.report.maps import MOST_GRAMS, rows_of, shades_of, top_of
from seqlab.report.viewer import spaced

FAMILY = "monospace"
LINE = 114
"""Characters on a line of a picture; at 9.5 points a character is 0.0794 inches wide."""
SQUARE = 4.6
"""Inches of a square and what stands around it."""


def drawn(explanation: Explanation, ending: Literal["png", "svg"]) -> bytes:
    """The maps as one picture. An .svg has its words as text, and is the same bytes each time."""
    try:
        import matplotlib.figure
    except ImportError:
        raise UserError(
            what="matplotlib is not installed.",
            why="Pictures of maps are drawn with it; .html and .json need nothing more.",
            fix='pip install "seqlab[plot]"',
        ) from None
    if explanation.picture is None:
        figure = _text_and_squares(explanation)
    elif any(one.grid for one in explanation.maps):
        figure = overlays.figure_of_pictures(explanation)
    else:
        figure = spectrograms.figure_of_sound(explanation)
    made = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "seqlab"}):
        figure.savefig(made, format=ending, metadata={"Date": None} if ending == "svg" else None)
    return made.getvalue()


def _text_and_squares(explanation: Explanation) -> Any:
    """Lines of coloured text in a monospaced font; below them a square for each layer of attention, and the
    deletion curves."""
    from matplotlib.figure import Figure

    lines = list(_lines(explanation))
    squares = [one for one in explanation.maps if one.kind in ("matrix", "alignment")]
    fallen = explanation.beside.deletion
    below = -(-(len(squares) + (fallen is not None)) // 2) * SQUARE
    height = 0.27 * (len(lines) + 1)
    figure = Figure(figsize=(9.6, height + below), dpi=150, facecolor="white")
    share = height / (height + below)
    axes = figure.add_axes((0.02, 1 - share, 0.96, share))
    axes.set(xlim=(0, 9.6 * 0.96 / 0.0794), ylim=(len(lines) + 0.5, -0.5))
    axes.axis("off")
    for row, line in enumerate(lines):
        for start, word, colour, bold in line:
            shape = {"boxstyle": "square,pad=0.12", "facecolor": colour, "edgecolor": "none"}
            weight, box = "bold" if bold else "normal", shape if colour else None
            axes.text(
                start, row, word, weight=weight, bbox=box, family=FAMILY, fontsize=9.5, va="center",
                parse_math=False,
            )  # fmt: skip

    def place(order: int) -> tuple[float, float, float]:
        down = (order // 2 + 1) * SQUARE - 0.8
        return 0.1 + 0.47 * (order % 2), 1 - share - down / (height + below), 0.36

    for order, one in enumerate(squares):
        _grid(figure, one, place(order))
    if fallen is not None:
        _fall(figure, fallen, place(len(squares)))
    return figure


def _fall(figure: Any, fallen: Deletion, place: tuple[float, float, float]) -> None:
    """The deletion curves, beside the mean of the random ones and their standard deviation."""
    left, bottom, size = place
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left, bottom, size, size * width / height))
    shares = fallen.gone / fallen.gone[-1]
    axes.fill_between(shares, *fallen.band, color="#999999", alpha=0.3, linewidth=0)
    axes.plot(shares, fallen.mean, color="#777777", label="random")
    for name, curve in fallen.curves.items():
        axes.plot(shares, curve, label=name)
    axes.set_title(fallen.followed, fontsize=9, parse_math=False)
    axes.set_xlabel("share of the pieces that are gone", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)


_Line = list[tuple[float, str, Any, bool]]


def _lines(explanation: Explanation) -> Iterator[_Line]:
    """Lines of (column, text, background, bold)."""
    score = explanation.scores.get(explanation.label)
    yield [
        (0, f"{explanation.label}  {number(score)}" if score is not None else explanation.label, None, True)
    ]
    if explanation.note:
        yield [(0, explanation.note[:LINE], None, False)]
    for one in (*explanation.maps, *explanation.beside.maps):
        if one.kind in ("matrix", "alignment"):
            continue
        yield []
        yield [(0, one.name, None, True)]
        if one.kind == "document":
            shades = shades_of(one)
            top = max(top_of(shade) for shade in shades)
            for weight, pieces, shade in zip(one.weights, one.sentences, shades, strict=True):
                yield from _wrapped(pieces, shade / top, f"{weight:.3f}", one.signed)
        elif one.kind == "grams":
            order = np.argsort(-np.abs(one.weights), kind="stable")[:MOST_GRAMS]
            for place in order:
                weight = float(one.weights[place])
                colour = _colour(weight / top_of(one.weights), signed=True)
                yield [(0, f"{weight:+.3f}", None, False), (8, one.pieces[place][:LINE], colour, False)]
        else:
            rows = np.atleast_2d(one.weights)
            names = [name[:24] for name in rows_of(one)] if one.kind == "hops" else [""]
            for name, row in zip(names, rows, strict=True):
                room = max(map(len, names)) + 2
                yield from _wrapped(one.pieces, row / top_of(rows), name, one.signed, room)


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
