"""The viewer of maps with two axes, or over a picture or a recording: what it is handed, as compact JSON.

A viewer shows panels, each a table of weights of the same rows by the same columns: the heads of the layers,
and what these come to. One panel is large; a row and a column of it are picked. viewer.js draws, and computes
nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from seqlab.report.explanation import RECEIVED, Explanation, Map
from seqlab.report.html import asset
from seqlab.report.overlays import data_uri
from seqlab.report.rollout import maximum_of_layers, mean_of_layers, rollout
from seqlab.report.spectrograms import as_wide

CSS = asset("viewer.css")
SCRIPT = "".join(
    f"{{\n{asset(name)}}}\n" for name in ("viewer_parts.js", "viewer_map.js", "viewer_lines.js", "viewer.js")
)
"""Each in a block of its own; the later ones use the earlier ones."""
MOST_NUMBERS = 6_000_000
"""A viewer carries at most so many weights (a byte each); beyond it, heads are averaged."""
Over = Literal["text", "picture", "time"]
"""What the columns are: pieces of a text, slots of a picture, or times of a recording."""
Groups = dict[str, dict[str, Float[np.ndarray, "Q K"]]]
"""Panels by the name of their group, mostly a layer, and their own."""


@dataclass(frozen=True, kw_only=True)
class Panels:
    """What one viewer shows."""

    title: str
    told: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    groups: Groups
    over: Over = "text"
    same: bool = False
    """Whether rows and columns are the same pieces."""
    signed: bool = False
    grid: tuple[int, int] | None = None
    picture: np.ndarray | None = None


# What is shown ----------------------------------------------------------------------------------------------


def panels_of(explanation: Explanation) -> list[Panels]:
    """A viewer for the self-attention, one for the alignment and, over a picture or a recording, for all
    other maps."""
    over: Over = "text"
    if explanation.picture is not None:
        over = "picture" if any(one.grid for one in explanation.maps) else "time"
    found = []
    if aligned := [one for one in explanation.maps if one.kind == "alignment"]:
        found.append(_aligned(aligned, over))
    layers = [one for one in explanation.maps if one.kind == "matrix"]
    if over != "text":
        lines = [one for one in explanation.maps if one.kind in ("tokens", "hops")]
        # what each piece receives is what the viewer of self-attention begins with
        found += [_lines([one], over) for one in lines if not (layers and one.name == RECEIVED)]
    if layers:
        found.append(_self_attention(layers, over))
    return [_with_picture(one, explanation) for one in found]


def panels_beside(explanation: Explanation) -> list[Panels]:
    """One viewer for all attributions to what was seen or heard; those of a text are coloured text."""
    if explanation.picture is None or not explanation.beside.maps:
        return []
    over: Over = "picture" if explanation.beside.maps[0].grid else "time"
    return [_with_picture(_lines(explanation.beside.maps, over), explanation)]


def _self_attention(layers: Sequence[Map], over: Over) -> Panels:
    pieces = layers[0].pieces
    groups, note = grouped_panels([one.weights for one in layers], rolled=True)
    told = "A row for each piece that looks, a column for each piece that it looks at." + note
    return Panels(
        title="self-attention", told=told, rows=pieces, columns=pieces, groups=groups, over=over, same=True,
        grid=layers[0].grid,
    )  # fmt: skip


def _aligned(maps: Sequence[Map], over: Over) -> Panels:
    first, *layers = maps
    groups, note = grouped_panels([one.weights for one in layers or [first]], rolled=False)
    told = first.unit or "A row for each piece that was written, a column for each piece that was read."
    return Panels(
        title=first.name, told=told + note, rows=first.written, columns=first.pieces, groups=groups,
        over=over, grid=first.grid,
    )  # fmt: skip


def _lines(maps: Sequence[Map], over: Over) -> Panels:
    """Maps that have a line of weights, or one a hop, over the same pieces."""
    first = maps[0]
    lines = np.atleast_2d(first.weights)
    hops = tuple(f"hop {number}" for number in range(1, len(lines) + 1)) if first.kind == "hops" else ("",)
    told = (
        "Blue speaks for the answer, orange against it."
        if first.signed
        else "The weights of each row add up to 1."
    )
    return Panels(
        title="" if maps[1:] else first.name, told=told, rows=hops, columns=first.pieces, over=over,
        signed=first.signed,
        groups={"": {one.name if maps[1:] else "": np.atleast_2d(one.weights) for one in maps}},
        grid=first.grid,
    )  # fmt: skip


def _with_picture(one: Panels, explanation: Explanation) -> Panels:
    picture = explanation.picture
    if picture is not None and one.over == "time":
        picture = as_wide(picture, one.columns)
    return Panels(**{**vars(one), "picture": picture})


def grouped_panels(weights: Sequence[Float[np.ndarray, "_ Q K"]], rolled: bool) -> tuple[Groups, str]:
    """The heads of each layer, and before them what all come to; fewer where that is more than a page
    carries, and a sentence about it."""
    groups: Groups = {}
    note = ""
    if len(weights) * len(weights[0]) == 1:
        return {"": {"": weights[0][0], **({"rollout": rollout(weights)} if rolled else {})}}, ""
    every = {"mean": mean_of_layers(weights), "maximum": maximum_of_layers(weights)}
    groups["all layers" if len(weights) > 1 else "all heads"] = (
        every | {"rollout": rollout(weights)} if rolled else every
    )
    numbers = sum(layer.size for layer in weights)
    if numbers > MOST_NUMBERS:
        note = (
            f" Its heads have {numbers:,} weights, more than a page can carry: of each layer the mean of its"
        )
        note += " heads is shown; map.json has them all."
    for number, layer in enumerate(weights, 1):
        heads = {f"head {head}": one for head, one in enumerate(layer, 1)} if not note else {}
        mean = {"mean of heads": layer.mean(axis=0)} if len(weights) > 1 and (len(layer) > 1 or note) else {}
        groups[f"layer {number}"] = heads | mean
    return groups, note


# How it is handed over --------------------------------------------------------------------------------------


def viewer_html(one: Panels) -> str:
    """An element that viewer.js fills. Without a script it says where the numbers are."""
    title = f"<h3>{escape(one.title)}</h3>" if one.title else ""
    return (
        f'<div class="viewer">{title}<p class="small soft">{escape(one.told)}</p>'
        '<p class="unscripted small">A script of this page draws this map, and it has not run. The numbers'
        " are in what <code>explain --out map.json</code> writes.</p>"
        f'<script type="application/json">{in_script(viewer_data(one))}</script></div>'
    )


def in_script(tree: Any) -> str:
    """JSON for a script element, which nothing in it can end."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def viewer_data(one: Panels) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "rows": _named(one.rows),
        "columns": _named(one.columns),
        "over": one.over,
        "same": one.same,
        "signed": one.signed,
        "groups": [
            {"name": name, "panels": [{"name": panel, **coded(some)} for panel, some in panels.items()]}
            for name, panels in one.groups.items()
            if panels
        ],
    }
    if one.picture is not None:
        tree |= {"picture": data_uri(one.picture), "size": [one.picture.shape[1], one.picture.shape[0]]}
    return tree | ({"grid": list(one.grid)} if one.grid else {})


def coded(weights: Float[np.ndarray, "Q K"]) -> dict[str, Any]:
    """A byte for each weight, as its size beside the largest of its row, and the largest of each row; below
    zero 128 is zero."""
    tops = np.abs(weights).max(axis=1)
    shares = weights / np.where(tops > 0, tops, 1.0)[:, None]
    signed = bool((weights < 0).any())
    code = 128 + 127 * shares if signed else 255 * shares
    data = np.rint(code).astype(np.uint8).tobytes()
    tree = {"tops": [float(f"{top:.4g}") for top in tops], "bytes": base64.b64encode(data).decode()}
    return tree | ({"signed": True} if signed else {})


def _named(pieces: Sequence[str]) -> dict[str, Any]:
    """What the pieces are called, and whether there is a gap before each."""
    tight, words = spaced(pieces)
    return {
        "tight": tight,
        "words": [word for _, word in words],
        "gaps": "".join("1" if gap else "0" for gap, _ in words),
    }


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
