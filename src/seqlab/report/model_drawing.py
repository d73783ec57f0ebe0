"""A model drawn as boxes, read → encode → answer, with the shapes of what flows on the arrows.

SVG whose colours are those of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from torch import nn

from seqlab.decoders import WritingDecoder
from seqlab.model import Model
from seqlab.parts import Facts, Numbers
from seqlab.report.html import asset
from seqlab.report.layer_costs import LayerCost, layer_costs
from seqlab.seq import Nested

CSS = asset("model_drawing.css")
BOX, GAP, LINE, TOP = 208, 124, 16, 12
LINES = 6
"""Layers that a box names, at most."""


@dataclass(frozen=True)
class Box:
    """A part of a model: its name, how many parameters it has, and what is in it."""

    name: str
    parameters: int
    inside: tuple[str, ...]
    into: str
    """The shape of what comes in."""

    @property
    def height(self) -> int:
        return 44 + LINE * len(self.inside)


@dataclass(frozen=True)
class DrawnFlow:
    """Boxes from left to right, and the shape of what comes out of the last."""

    boxes: tuple[Box, ...]
    out: str
    joins: int | None = None
    """The box of the first flow whose output this flow begins with; None: with what is read or written."""
    memory: str = ""
    """The shape of what its second box looks at, which is the output of the first flow."""


def flows_of(model: Model, facts: Facts, length: int) -> list[DrawnFlow]:
    """What is drawn: the way from the input to the first answer, and ways that branch off from it."""
    layers = layer_costs(model, length)
    flows: list[DrawnFlow] = []
    if model.input is not None and model.encoder is not None:
        [read, *_] = model.input.imagined(1, length).values()
        if isinstance(read, Nested):
            sizes: tuple[object, ...] = (read.mask.shape[1], read.inner.mask.shape[1])
        else:
            sizes = tuple(read.values.shape[1:])
        inner = model.input.length_after(length)
        after = model.encoder.length_after(inner)
        boxes = [
            _box("input", layers, shape(*sizes)),
            _box("encoder", layers, shape(inner, model.input.width)),
        ]
        boxes = [box for box in boxes if box.inside or box.name == "input"]
        states = shape(after, model.encoder.width)
        if model.pool is not None and model.head is not None:
            head = _box("head", layers, shape(model.pool.width))
            flows.append(DrawnFlow((*boxes, _box("pool", layers, states), head), shape(facts.outputs["row"])))
            if model.places is not None:
                places = (_box("places", layers, states),)
                flows.append(DrawnFlow(places, f"N × {facts.outputs['places']:,}", joins=len(boxes) - 1))
        elif model.places is not None:
            boxes.append(_box("places", layers, states))
            flows.append(DrawnFlow(tuple(boxes), f"N × {facts.outputs['places']:,}"))
        else:
            flows.append(DrawnFlow(tuple(boxes), states))
    if model.decoder is not None:
        flows.append(_writing(model, layers, length, flows[0].out if flows else ""))
    return flows


def _writing(model: Model, layers: Sequence[LayerCost], length: int, memory: str) -> DrawnFlow:
    """The decoder: what has been written becomes vectors, a body reads them, and an answer is given."""
    decoder = model.decoder
    assert isinstance(decoder, WritingDecoder)
    answer = "decoder.numbers" if isinstance(decoder.written, Numbers) else "decoder.vocabulary"
    ends = ("decoder.embedding", answer)
    body = [one for one in layers if one.name.startswith("decoder.") and not one.name.startswith(ends)]
    if isinstance(decoder.written, Numbers):
        fed, said = shape(length, decoder.written.written + decoder.written.beside), decoder.written.written
    else:
        fed, said = shape(length), decoder.written
    states = next(one for one in decoder.answer.modules() if isinstance(one, nn.Linear)).in_features
    inside = _summary(body, "decoder.")
    boxes = (
        _box("decoder.embedding", layers, fed),
        Box("decoder", sum(one.parameters for one in body), inside, shape(length, decoder.config.width)),
        _box(answer, layers, shape(length, states)),
    )
    return DrawnFlow(boxes, shape(length, said), memory=memory)


def shape(*sizes: object) -> str:
    """Axes of a batch: B × 128 × 512."""
    return " × ".join(["B", *(f"{size:,}" if isinstance(size, int) else str(size) for size in sizes)])


def _box(name: str, layers: Sequence[LayerCost], into: str) -> Box:
    mine = [layer for layer in layers if layer.name == name or layer.name.startswith(f"{name}.")]
    return Box(name, sum(layer.parameters for layer in mine), _summary(mine, f"{name}."), into)


def _summary(layers: Sequence[LayerCost], before: str) -> tuple[str, ...]:
    """Alike layers together: 6 × attention 4d² + biases."""
    counts: dict[tuple[str, str], int] = {}
    for layer in layers:
        name = layer.name.removeprefix(before) if layer.name != before.rstrip(".") else ""
        name = re.sub(r"(layers|encoders|body|hidden|stages)\.|\b\d+\.?", "", name).strip(".")
        name = {"ahead": "forward", "back": "backward"}.get(name, name)
        if layer.forward or layer.parameters_formula != "0":
            key = (name, "" if layer.parameters_formula == "0" else layer.parameters_formula)
            counts[key] = counts.get(key, 0) + 1
    lines = [
        " ".join(part for part in (f"{count} ×" if count > 1 else "", name, formula) if part)
        for (name, formula), count in counts.items()
    ]
    return tuple(
        lines if len(lines) <= LINES else [*lines[: LINES - 1], f"and {len(lines) - LINES + 1} more"]
    )


def draw_model(flows: Sequence[DrawnFlow], title: str) -> str:
    """The flows below each other as one SVG."""
    parts: list[str] = []
    height = TOP
    places: list[list[tuple[float, float]]] = []
    for number, flow in enumerate(flows):
        tallest = max(box.height for box in flow.boxes)
        middle = height + tallest / 2
        left = GAP + (0 if flow.joins is None else (flow.joins + 1) * (BOX + GAP))
        row: list[tuple[float, float]] = []
        for box in flow.boxes:
            joined = flow.joins is not None and box is flow.boxes[0]
            parts += [_drawn(box, left, middle), "" if joined else _arrow(left - GAP, left, middle, box.into)]
            row.append((left, middle))
            left += BOX + GAP
        places.append(row)
        parts.append(_arrow(left - GAP, left, middle, flow.out))
        if number and flow.joins is not None:
            parts.append(_branch(places[0][flow.joins], row[0]))
        if number and flow.memory:
            x, y = places[0][-1]
            parts.append(
                _memory((x + BOX + GAP / 2, y), (row[1][0] + BOX / 2, middle - flow.boxes[1].height / 2))
            )
        height += tallest + 48
    wide = max(len(flow.boxes) + (0 if flow.joins is None else flow.joins + 1) for flow in flows)
    width = wide * (BOX + GAP) + GAP
    return (
        f'<svg class="model" viewBox="0 0 {width} {height - 32}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _drawn(box: Box, left: float, middle: float) -> str:
    top = middle - box.height / 2
    lines = [
        f'<rect x="{left}" y="{top:g}" width="{BOX}" height="{box.height}" rx="8"/>',
        f'<text class="name" x="{left + 12}" y="{top + 19:g}">{escape(box.name)}</text>',
        f'<text class="soft" x="{left + 12}" y="{top + 35:g}">{box.parameters:,} parameters</text>',
    ]
    lines += [
        f'<text x="{left + 12}" y="{top + 37 + LINE * number:g}">{escape(line)}</text>'
        for number, line in enumerate(box.inside, 1)
    ]
    return "".join(lines)


def _arrow(start: float, end: float, y: float, label: str) -> str:
    return _tip(f"M{start + 3:g} {y:g}H{end - 8:g}", end, y) + (
        f'<text class="shape" x="{(start + end) / 2 - 3:g}" y="{y - 7:g}" text-anchor="middle">'
        f"{escape(label)}</text>"
    )


def _tip(path: str, x: float, y: float) -> str:
    """A line that ends at (x, y), going right."""
    return f'<path d="{path}"/><path class="tip" d="M{x - 9:g} {y - 4:g}l8 4l-8 4z"/>'


def _branch(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From behind a box down to one of the next row, which stands to its right."""
    x, y = start[0] + BOX + 18, end[1]
    return _tip(f"M{x:g} {start[1]:g}V{y:g}H{end[0] - 8:g}", end[0], y)


def _memory(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the output of the encoder down into the decoder."""
    (x, y), (to, top) = start, end
    half = top - 20
    return (
        f'<path d="M{x:g} {y:g}V{half:g}H{to:g}V{top - 8:g}"/>'
        f'<path class="tip" d="M{to - 4:g} {top - 9:g}l4 8l4 -8z"/>'
        f'<text class="soft" x="{to + 8:g}" y="{half + 13:g}">looks at</text>'
    )
