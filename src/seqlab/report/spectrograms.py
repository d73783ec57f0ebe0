"""What a model listened to in a recording: its spectrogram, and below it a line of weights over the same time
for the answer, or for each piece that was written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape

import numpy as np

from seqlab.report.attention import Explanation, Map
from seqlab.report.html import asset
from seqlab.report.overlays import data_uri

CSS = asset("spectrograms.css")
INCHES = 9.0
"""How wide a picture of them is."""


def lines_of(one: Map) -> list[tuple[str, np.ndarray]]:
    """The lines of a map with their names; heads are averaged. Nothing where it is not over time alone."""
    if one.kind == "alignment":
        named = [piece.strip() or "␣" for piece in one.written]
        return list(zip(named, one.weights.mean(axis=0), strict=True))
    if one.kind == "hops":
        return [(f"hop {number}", row) for number, row in enumerate(one.weights, 1)]
    return [("", one.weights)] if one.kind == "tokens" else []


def spectrogram_html(explanation: Explanation) -> str:
    """All maps over the spectrogram: the first one open, the others behind a click."""
    assert explanation.picture is not None
    shown = [one for one in explanation.maps if lines_of(one)]
    parts = []
    for place, one in enumerate(shown):
        title, drawn = escape(one.name), _drawn(one, data_uri(_as_wide(explanation.picture, one)))
        parts.append(
            f"<h3>{title}</h3>{_legend(one)}{drawn}"
            if place == 0
            else f"<details><summary>{title}</summary>{drawn}</details>"
        )
    return f'<p class="small soft">{escape(explanation.text)}</p>' + "".join(parts)


def _as_wide(picture: np.ndarray, one: Map) -> np.ndarray:
    """The spectrogram with white behind it, where the last piece has fewer frames than the others."""
    each = len(one.pieces[0].split(" "))
    lacks = max(0, each * len(one.pieces) - picture.shape[1])
    return np.pad(picture, ((0, 0), (0, lacks), (0, 0)), constant_values=255)


def _drawn(one: Map, picture: str) -> str:
    rows = [f'<b></b><img src="{picture}" alt="spectrogram, the highest band on top">']
    for name, weights in lines_of(one):
        top = float(np.abs(weights).max(initial=0.0)) or 1.0
        cells = "".join(
            f'<i{_against(weight)} style="--w:{abs(weight) / top:.2f}"'
            f' title="{_begin(piece)} s: {weight:.3f}"></i>'
            for piece, weight in zip(one.pieces, weights.tolist(), strict=True)
        )
        rows.append(f"<b>{escape(name)}</b><div>{cells}</div>")
    ticks = _ticks(len(one.pieces))
    times = "".join(
        f'<span style="flex:{after - place}">{escape(_begin(one.pieces[place]))}</span>'
        for place, after in zip(ticks, [*ticks[1:], len(one.pieces)], strict=True)
    )
    rows.append(f"<b>s</b><p>{times}</p>")
    return f'<div class="heard{" signed" if one.signed else ""}">{"".join(rows)}</div>'


def _against(weight: float) -> str:
    return ' class="n"' if weight < 0 else ""


def _begin(piece: str) -> str:
    """When the first of the frames of a piece begins."""
    return piece.split(" ", 1)[0]


def _ticks(count: int, most: int = 8) -> list[int]:
    """Places at equal distances, from the first on."""
    return list(range(0, count, -(-count // most)))


def _legend(one: Map) -> str:
    if one.signed:
        return '<p class="small soft">Blue speaks for the answer, orange against it.</p>'
    each = " for each piece that was written" if one.kind == "alignment" else ""
    return f'<p class="small soft">The darker, the more it was listened to{each}; weights add up to 1.</p>'


def draw_png(explanation: Explanation) -> bytes:
    """The first of the maps as one .png file."""
    from matplotlib.figure import Figure

    assert explanation.picture is not None
    [one, *_] = [one for one in explanation.maps if lines_of(one)]
    lines = lines_of(one)
    below = max(0.4, 0.22 * len(lines))
    high = 2.0 + below + 0.9
    figure = Figure(figsize=(INCHES, high), dpi=150, facecolor="white")
    figure.text(0.01, 1 - 0.25 / high, explanation.label, fontsize=11, weight="bold", parse_math=False)
    above = figure.add_axes((0.08, (below + 0.5) / high, 0.9, 2.0 / high))
    above.imshow(_as_wide(explanation.picture, one), aspect="auto", interpolation="nearest")
    above.set_axis_off()
    table = np.stack([weights for _, weights in lines])
    axes = figure.add_axes((0.08, 0.4 / high, 0.9, below / high))
    colours, least = ("RdBu", -np.abs(table).max()) if one.signed else ("Oranges", 0.0)
    axes.imshow(table, aspect="auto", interpolation="nearest", cmap=colours, vmin=least, vmax=-least or None)
    axes.set_yticks(range(len(lines)), [name[:12] for name, _ in lines], fontsize=7, parse_math=False)
    ticks = list(_labels(one))
    axes.set_xticks([place for place, _ in ticks], [f"{time} s" for _, time in ticks], fontsize=7)
    made = io.BytesIO()
    figure.savefig(made, format="png")
    return made.getvalue()


def _labels(one: Map) -> Iterator[tuple[float, str]]:
    for place in _ticks(len(one.pieces)):
        yield place - 0.5, _begin(one.pieces[place])
