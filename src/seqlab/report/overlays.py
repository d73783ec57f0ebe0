"""What a model looked at in a picture: once for each word that was written, or once for an answer,
darkened where less weight lies."""

from __future__ import annotations

import base64
import struct
import textwrap
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from seqlab.report.explanation import Explanation, Map
from seqlab.report.html import asset

CSS = asset("overlays.css")
DARKEST = 0.75
"""How much of the light goes where no weight lies."""


def png_of(pixels: np.ndarray) -> bytes:
    """A picture (H W 3, bytes) as a .png file, so that no page needs more than numpy."""
    height, width = pixels.shape[:2]
    lines = np.zeros(
        (height, 1 + 3 * width), np.uint8
    )  # a zero before each line: its bytes are no differences
    lines[:, 1:] = np.ascontiguousarray(pixels, np.uint8).reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def data_uri(pixels: np.ndarray) -> str:
    """A picture that a page carries itself."""
    return f"data:image/png;base64,{base64.b64encode(png_of(pixels)).decode()}"


def image_html(pixels: np.ndarray, name: str) -> str:
    """A small picture with the end of its name."""
    shown, end = escape(name, quote=True), escape(name.rpartition("/")[2])
    return (
        f'<img class="picture" src="{data_uri(pixels)}" alt="{shown}" title="{shown}">'
        f'<div class="small soft">{end}</div>'
    )


def views(one: Map) -> list[tuple[str, np.ndarray]]:
    """The names and weights (Y X) of the pictures that show a map; heads are averaged. None where it is not
    over a grid."""
    if one.grid is None or one.kind not in ("tokens", "hops", "alignment"):
        return []
    weights = one.weights.mean(axis=0) if one.kind == "alignment" else np.atleast_2d(one.weights)
    names: Sequence[str] = [""]
    if one.kind == "hops":
        names = [f"hop {place + 1}" for place in range(len(weights))]
    if one.written:
        names = [piece.strip() or "␣" for piece in one.written]
    return list(zip(names, weights.reshape(-1, *one.grid), strict=True))


# A picture of them ------------------------------------------------------------------------------------------

ACROSS = 6
"""Views side by side."""
SIDE, GAP, HEAD = 1.6, 0.26, 0.25
"""Inches of a view, of its name above it, and of a line of text."""
LEAST = 3.2
"""Inches that the answer and the names of maps have, at least."""
LETTERS = 12
"""Of the answer, in an inch."""
View = tuple[str, np.ndarray | None, bool]
"""A name, weights over a picture, and whether they have signs; without weights, the picture alone."""


def figure_of_pictures(explanation: Explanation) -> Any:
    """The picture as it was read, and the views of each map and attribution."""
    from matplotlib.figure import Figure

    assert explanation.picture is not None
    blocks = _blocks(explanation)
    across = min(ACROSS, max(len(some) for _, some in blocks))
    wide = max(LEAST, across * SIDE)
    told = textwrap.wrap(explanation.label, int(wide * LETTERS), max_lines=4, placeholder=" …") or [""]
    rows = sum(-(-len(some) // across) for _, some in blocks)
    high = HEAD * (len(told) + len(blocks)) + rows * (SIDE + GAP) + 0.1
    figure = Figure(figsize=(wide, high), dpi=150, facecolor="white")
    above = 0.06
    for line in told:
        figure.text(0.01, 1 - above / high, line, fontsize=10, weight="bold", va="top", parse_math=False)
        above += HEAD
    for title, some in blocks:
        figure.text(0.01, 1 - above / high, title, fontsize=8, va="top", parse_math=False)
        above += HEAD
        for place, (name, weights, signed) in enumerate(some):
            column = place % across
            above += SIDE + GAP if column == 0 else 0.0
            left, bottom = (column + 0.02) * SIDE / wide, 1 - above / high
            box = (left, bottom, 0.96 * SIDE / wide, 0.96 * SIDE / high)
            axes = figure.add_axes(box, label=f"{title} {place}")
            _view(axes, explanation.picture, weights, signed)
            axes.set_title(name[:20], fontsize=7, parse_math=False, pad=2, loc="left")
    return figure


def _blocks(explanation: Explanation) -> list[tuple[str, list[View]]]:
    """The name of each map, and its views; before the first of them the picture alone."""
    blocks: list[tuple[str, list[View]]] = []
    for one in (*explanation.maps, *explanation.beside.maps):
        if some := [(name, weights, one.signed) for name, weights in views(one)]:
            plain: list[View] = [] if blocks else [("as it was read", None, False)]
            blocks.append((one.name, [*plain, *some]))
    return blocks


def _view(axes: Any, picture: np.ndarray, weights: np.ndarray | None, signed: bool) -> None:
    height, width = picture.shape[:2]
    place = (0, width, height, 0)
    axes.imshow(picture, extent=place, interpolation="nearest")
    axes.axis("off")
    if weights is None:
        return
    share = weights / (float(np.abs(weights).max()) or 1.0)
    colour = np.zeros((*share.shape, 4))
    colour[..., 3] = DARKEST * (np.abs(share) if signed else 1 - share)
    if signed:
        colour[..., :3] = np.where(share[..., None] > 0, (0.2, 0.55, 0.91), (0.94, 0.39, 0.24))
    axes.imshow(colour, extent=place, interpolation="nearest")
