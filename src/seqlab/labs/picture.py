"""The picture of a lab: panels of lines over seeds, and heat maps, side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqlab.report import chart

COLOURS = ("#2563b8", "#d9630b", "#12805c", "#7b4bb7", "#8a6d00", "#5d6470")
ACROSS = 3
"""Panels in a row."""


@dataclass(frozen=True)
class Line:
    """Means over seeds, and how far the seeds lie apart (one standard deviation)."""

    name: str
    xs: Sequence[float]
    means: Sequence[float]
    spreads: Sequence[float] = ()
    """None: nothing is drawn around the line."""


@dataclass(frozen=True)
class Panel:
    """One chart of lines. `log` has the axes, among "x" and "y", that go by powers."""

    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    log: str = ""


@dataclass(frozen=True)
class Heat:
    """One heat map: values (rows columns), the first row on top. `diverging`: zero has its own colour."""

    title: str
    across: str
    up: str
    values: Sequence[Sequence[float]]
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()
    diverging: bool = False


Drawing = Panel | Heat


def draw(drawings: Sequence[Drawing], path: Path) -> bool:
    """The panels side by side; False without matplotlib. Neighbours with the same `up` share their axis."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    across = min(ACROSS, len(drawings))
    down = math.ceil(len(drawings) / across)
    size = (max(6.0, 4.6 * across), 3.8 * down)
    figure = Figure(figsize=size, dpi=120, layout="constrained", facecolor="white")
    alike = all(isinstance(drawing, Panel) for drawing in drawings) and (
        len({(drawing.up, "y" in drawing.log) for drawing in drawings if isinstance(drawing, Panel)}) == 1
    )
    places = figure.subplots(down, across, sharey=alike, squeeze=False).flat
    for place, (axes, drawing) in enumerate(itertools.zip_longest(places, drawings)):
        if drawing is None:
            axes.set_axis_off()
            continue
        if isinstance(drawing, Heat):
            _heat(figure, axes, drawing)
        else:
            _lines(axes, drawing)
        axes.set(title=drawing.title, xlabel=drawing.across)
        if not alike or place % across == 0:
            axes.set_ylabel(drawing.up)
    figure.savefig(path)
    return True


def _lines(axes: Any, panel: Panel) -> None:
    """Means as lines, spreads as bands."""
    for line, colour in zip(panel.lines, itertools.cycle(COLOURS), strict=False):
        if line.spreads:
            pairs = list(zip(line.means, line.spreads, strict=True))
            low, high = [mean - spread for mean, spread in pairs], [mean + spread for mean, spread in pairs]
            axes.fill_between(line.xs, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(line.xs, line.means, color=colour, marker="o", markersize=3, label=line.name)
    if "x" in panel.log:
        axes.set_xscale("log", base=2)
    elif all(float(x).is_integer() for line in panel.lines for x in line.xs):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if "y" in panel.log:
        axes.set_yscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _heat(figure: Any, axes: Any, heat: Heat) -> None:
    """Values as colours, with their scale beside them."""
    most = max(abs(value) for row in heat.values for value in row) if heat.diverging else None
    colours = {"cmap": "RdBu_r", "vmin": -most, "vmax": most} if most is not None else {"cmap": "viridis"}
    image = axes.imshow(heat.values, aspect="auto", interpolation="nearest", **colours)
    figure.colorbar(image, ax=axes, shrink=0.85)
    if heat.columns:
        axes.set_xticks(range(len(heat.columns)), heat.columns, rotation=90 if len(heat.columns) > 8 else 0)
    if heat.rows:
        axes.set_yticks(range(len(heat.rows)), heat.rows)


def simple_chart(drawing: Drawing) -> str:
    """A chart for the page where matplotlib is not installed; of a heat map, its name."""
    if isinstance(drawing, Heat):
        return ""
    curves = [chart.Curve(line.name, line.xs, line.means) for line in drawing.lines]
    return chart.line_chart(drawing.title, curves, drawing.across, log="y" in drawing.log)
