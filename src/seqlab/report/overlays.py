"""What a model looked at in a picture: once for each word that was written, or once for an answer,
darkened where less weight lies."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from seqlab.report.attention import Explanation, Map
from seqlab.report.html import asset

CSS = asset("overlays.css")
DARKEST = 0.75
"""How much of the light goes where no weight lies."""

PLAIN = '<figure><div class="seen"></div><figcaption class="soft">as it was read</figcaption></figure>'


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
    """A small picture with its name."""
    shown = escape(name, quote=True)
    return f'<img class="picture" src="{data_uri(pixels)}" alt="{shown}" title="{shown}">'


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


def overlays_html(explanation: Explanation) -> str:
    """All maps over the picture: the first one open, the others behind a click."""
    assert explanation.picture is not None
    parts = []
    for place, one in enumerate(one for one in explanation.maps if views(one)):
        figures = "".join(_figure(name, weights, one.signed) for name, weights in views(one))
        figures = PLAIN + figures if place == 0 else figures
        shown = f'<div class="views">{figures}</div>'
        title = escape(one.name)
        parts.append(
            f"<h3>{title}</h3>{_legend(one)}{shown}"
            if place == 0
            else f"<details><summary>{title}</summary>{shown}</details>"
        )
    height, width = explanation.picture.shape[:2]
    style = f"--picture:url({data_uri(explanation.picture)});--shape:{width}/{height}"
    return f'<div class="overlays" style="{style}">{"".join(parts)}</div>'


def _legend(one: Map) -> str:
    told = (
        "Blue speaks for the answer, orange against it."
        if one.signed
        else "The brighter, the more it was looked at; the weights of each picture add up to 1."
    )
    return f'<p class="small soft">{told}</p>'


def _figure(name: str, weights: np.ndarray, signed: bool) -> str:
    height, width = weights.shape
    top = float(np.abs(weights).max()) or 1.0
    cells = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" {_shade(weight / top, signed)}>'
        f"<title>{weight:.3f}</title></rect>"
        for y, row in enumerate(weights.tolist())
        for x, weight in enumerate(row)
    )
    return (
        f'<figure><div class="seen"><svg viewBox="0 0 {width} {height}" preserveAspectRatio="none"'
        f' shape-rendering="crispEdges">{cells}</svg></div><figcaption>{escape(name)}</figcaption></figure>'
    )


def _shade(share: float, signed: bool) -> str:
    if not signed:
        return f'class="d" opacity="{DARKEST * (1 - share):.3f}"'
    return f'class="{"n" if share < 0 else "p"}" opacity="{DARKEST * abs(share):.3f}"'


# A picture of them ------------------------------------------------------------------------------------------

ACROSS = 6
"""Views side by side."""
SIDE = 1.6
"""Inches of a view."""


def draw(explanation: Explanation) -> bytes:
    """The same as one .png file."""
    from matplotlib.figure import Figure

    assert explanation.picture is not None
    shown = [(one, views(one)) for one in explanation.maps if views(one)]
    lines = sum(-(-len(some) // ACROSS) for _, some in shown)
    figure = Figure(figsize=(ACROSS * SIDE, lines * (SIDE + 0.4) + 0.4), dpi=150, facecolor="white")
    top = figure.get_size_inches()[1]
    figure.text(0.01, 1 - 0.25 / top, explanation.label, fontsize=10, weight="bold", parse_math=False)
    for number, (one, name, weights, row, column) in enumerate(_placed(shown)):
        bottom = 1 - (0.4 + (row + 1) * (SIDE + 0.4) - 0.1) / top
        place = (column / ACROSS + 0.005, bottom, 1 / ACROSS - 0.01, SIDE / top)
        axes = figure.add_axes(place, label=str(number))
        _view(axes, explanation.picture, weights, one.signed)
        axes.set_title(name or one.name, fontsize=7, parse_math=False, pad=2)
    made = io.BytesIO()
    figure.savefig(made, format="png")
    return made.getvalue()


def _placed(
    shown: Sequence[tuple[Map, list[tuple[str, np.ndarray]]]],
) -> Iterator[tuple[Map, str, np.ndarray, int, int]]:
    """Each view with its row and its column."""
    row = 0
    for one, some in shown:
        for place, (name, weights) in enumerate(some):
            yield one, name, weights, row + place // ACROSS, place % ACROSS
        row += -(-len(some) // ACROSS)


def _view(axes: Any, picture: np.ndarray, weights: np.ndarray, signed: bool) -> None:
    height, width = picture.shape[:2]
    place = (0, width, height, 0)
    axes.imshow(picture, extent=place, interpolation="nearest")
    share = weights / (float(np.abs(weights).max()) or 1.0)
    colour = np.zeros((*share.shape, 4))
    colour[..., 3] = DARKEST * (np.abs(share) if signed else 1 - share)
    if signed:
        colour[..., :3] = np.where(share[..., None] > 0, (0.2, 0.55, 0.91), (0.94, 0.39, 0.24))
    axes.imshow(colour, extent=place, interpolation="nearest")
    axes.axis("off")
