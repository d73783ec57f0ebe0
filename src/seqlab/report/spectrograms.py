"""What a model listened to in a recording: its spectrogram, and below it a line of weights over the same time
for the answer, or for each piece that was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seqlab.report.explanation import Explanation, Map

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


def as_wide(picture: np.ndarray, pieces: Sequence[str]) -> np.ndarray:
    """The spectrogram with white behind it, where the last piece has fewer frames than the others."""
    each = len(pieces[0].split(" "))
    lacks = max(0, each * len(pieces) - picture.shape[1])
    return np.pad(picture, ((0, 0), (0, lacks), (0, 0)), constant_values=255)


def _begin(piece: str) -> str:
    """When the first of the frames of a piece begins."""
    return piece.split(" ", 1)[0]


def _ticks(count: int, most: int = 8) -> list[int]:
    """Places at equal distances, from the first on."""
    return list(range(0, count, -(-count // most)))


def figure_of_sound(explanation: Explanation) -> Any:
    """The spectrogram, and the first of the maps below it."""
    from matplotlib.figure import Figure

    assert explanation.picture is not None
    [one, *_] = [one for one in explanation.maps if lines_of(one)]
    lines = lines_of(one)
    below = max(0.4, 0.22 * len(lines))
    high = 2.0 + below + 0.9
    figure = Figure(figsize=(INCHES, high), dpi=150, facecolor="white")
    figure.text(0.01, 1 - 0.25 / high, explanation.label, fontsize=11, weight="bold", parse_math=False)
    above = figure.add_axes((0.08, (below + 0.5) / high, 0.9, 2.0 / high))
    above.imshow(as_wide(explanation.picture, one.pieces), aspect="auto", interpolation="nearest")
    above.set_axis_off()
    table = np.stack([weights for _, weights in lines])
    axes = figure.add_axes((0.08, 0.4 / high, 0.9, below / high))
    colours, least = ("RdBu", -np.abs(table).max()) if one.signed else ("Oranges", 0.0)
    axes.imshow(table, aspect="auto", interpolation="nearest", cmap=colours, vmin=least, vmax=-least or None)
    axes.set_yticks(range(len(lines)), [name[:12] for name, _ in lines], fontsize=7, parse_math=False)
    ticks = list(_labels(one))
    axes.set_xticks([place for place, _ in ticks], [f"{time} s" for _, time in ticks], fontsize=7)
    return figure


def _labels(one: Map) -> Iterator[tuple[float, str]]:
    for place in _ticks(len(one.pieces)):
        yield place - 0.5, _begin(one.pieces[place])
