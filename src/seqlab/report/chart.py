"""Small charts as inline SVG. Colours are the page's, so they follow its light and dark scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from seqlab.report.html import asset

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 32, 40
COLOURS = ("--c1", "--c2", "--c3", "--c4")
CSS = asset("chart.css")


@dataclass(frozen=True)
class Curve:
    """One line of a chart; points that are not finite numbers are left out."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = ""
    """A variable of the page; empty: that of its place."""
    band: Sequence[tuple[float, float]] = ()
    """Lowest and highest value of a band around the line, at each point."""

    @property
    def points(self) -> list[tuple[float, float]]:
        return [
            (x, y) for x, y in zip(self.xs, self.ys, strict=True) if math.isfinite(x) and math.isfinite(y)
        ]


@dataclass(frozen=True)
class Bar:
    """One bar, with the interval around its value."""

    name: str
    value: float
    low: float
    high: float
    strong: bool = False
    shown: str = ""
    """The value as it is written; empty: with three decimals."""


def line_chart(
    title: str,
    curves: Sequence[Curve],
    across: str = "step",
    span: tuple[float, float] | None = None,
    best: tuple[float, float] | None = None,
    log: bool = False,
) -> str:
    """Curves over a common axis that reaches over `span` at least. `best` is a point to mark.

    `log`: values that are all above zero and span more than a factor of 100 go by powers of ten.
    """
    points = [point for curve in curves for point in curve.points]
    if not points:
        return ""
    xs, ys = [*(x for x, _ in points), *(span or ())], [y for _, y in points]
    for curve in curves:
        ys += [edge for edges in curve.band for edge in edges]
    x_ticks = ticks(min(xs), max(xs))
    powers = log and min(ys) > 0 and max(ys) > 100 * min(ys)
    y_ticks = powers_of_ten(min(ys), max(ys)) if powers else ticks(min(ys), max(ys))
    height: Callable[[float], float] = math.log10 if powers else float
    x_from, x_to, y_from, y_to = x_ticks[0], x_ticks[-1], height(y_ticks[0]), height(y_ticks[-1])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - x_from) / (x_to - x_from) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (height(y) - y_from) / (y_to - y_from) * (HEIGHT - TOP - BOTTOM),
        )

    words = [power_text(tick) if powers else tick_text(tick, y_ticks) for tick in y_ticks]
    grid = grid_of(x_ticks, dict(zip(y_ticks, words, strict=True)), at)
    parts = [grid, f'<text x="{LEFT}" y="{HEIGHT - 4}" class="soft">{escape(across)}</text>']
    legend = WIDTH - RIGHT
    for place, curve in reversed(list(enumerate(curves))):
        if not curve.points:
            continue
        colour = curve.colour or COLOURS[place % len(COLOURS)]
        parts.append(_band(curve, at, colour))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in thinned(curve.points)))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="var({colour})" stroke-width="2" '
            'stroke-linejoin="round"/>'
        )
        if len(curve.points) == 1:
            x, y = at(*curve.points[0])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var({colour})"/>')
        parts.append(
            f'<text x="{legend}" y="14" text-anchor="end" '
            f'style="fill:var({colour})">{escape(curve.name)}</text>'
        )
        legend -= 7 * len(curve.name) + 14
    if best:
        x, y = at(*best)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="best"/>')
    return svg_of(title, HEIGHT, parts)


def _band(curve: Curve, at: Callable[[float, float], tuple[float, float]], colour: str) -> str:
    """What lies around a line."""
    if not curve.band:
        return ""
    edges = list(zip(curve.xs, curve.band, strict=True))
    around = [(x, high) for x, (_, high) in edges] + [(x, low) for x, (low, _) in reversed(edges)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in around))
    return f'<polygon points="{path}" fill="var({colour})" opacity=".2"/>'


def bar_chart(title: str, bars: Sequence[Bar], whole: tuple[float, float] | None = None) -> str:
    """Horizontal bars from zero (or from `whole`'s start), with whiskers for the intervals; only of finite
    values."""
    bars = [bar for bar in bars if all(math.isfinite(value) for value in (bar.value, bar.low, bar.high))]
    if not bars:
        return ""
    lows, highs = [bar.low for bar in bars], [bar.high for bar in bars]
    marks = ticks(*(whole or (min(0.0, *lows), max(highs))))
    start, end = marks[0], marks[-1]
    left, row = max(126, 20 + 7 * max(len(bar.name) for bar in bars)), 30  # about 7 for a letter
    height = TOP + row * len(bars) + 26

    def at(value: float) -> float:
        return left + (value - start) / (end - start) * (WIDTH - left - 58)

    parts = [
        f'<line x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="{TOP}" y2="{height - 26}" class="rule"/>'
        f'<text x="{at(mark):.1f}" y="{height - 10}" text-anchor="middle" '
        f'class="soft">{tick_text(mark, marks)}</text>'
        for mark in marks
    ]
    for place, bar in enumerate(bars):
        middle = TOP + row * place + row / 2
        x0, x1 = sorted((at(max(start, min(0.0, end))), at(bar.value)))
        colour, weight = ("--c1", ' font-weight="600"') if bar.strong else ("--soft", "")
        low, high, wide = at(bar.low), at(bar.high), max(1.0, x1 - x0)
        parts.append(
            f'<text x="{left - 10}" y="{middle + 4:.1f}" text-anchor="end"{weight}>{escape(bar.name)}</text>'
            f'<rect x="{x0:.1f}" y="{middle - 8:.1f}" width="{wide:.1f}" height="16" rx="2" '
            f'fill="var({colour})" opacity=".75"/>'
            f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} '
            f'{middle - 5}v10"/>'
            f'<text x="{at(max(bar.high, bar.value)) + 8:.1f}" '
            f'y="{middle + 4:.1f}">{bar.shown or f"{bar.value:.3f}"}</text>'
        )
    return svg_of(title, height, parts)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that enclose low and high, about so many."""
    if high <= low:
        low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    decimals = 12 - math.floor(math.log10(step))  # rounds away what adding up in binary leaves
    return [round(step * place, decimals) for place in range(first, last + 1)]


def powers_of_ten(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten that enclose low and high, evenly apart."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = math.ceil((last - first) / (most - 1))
    return [10.0**power for power in range(first, last + step, step)]


def tick_text(value: float, among: Sequence[float]) -> str:
    """A tick with just the decimals that tell it from its neighbours; thousands as k, millions as M."""
    size, step = max(abs(mark) for mark in among), among[1] - among[0]
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if size >= 10 * unit or (unit == 1e6 and size >= unit):
            return f"{value / unit:g}{letter}" if value else "0"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step, decimals) != round(step, decimals + 1):
        decimals += 1
    return f"{value:,.{min(decimals, 8)}f}"


def power_text(value: float) -> str:
    """A million as 10⁶."""
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def thinned(points: Sequence[tuple[float, float]], limit: int = 300) -> list[tuple[float, float]]:
    """At most so many points: neighbours are averaged, the last is kept."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(len(points) / (limit - 1))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    means = [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups
    ]
    return [*means, points[-1]]


def grid_of(
    x_ticks: Sequence[float], y_ticks: Mapping[float, str], at: Callable[[float, float], tuple[float, float]]
) -> str:
    """Rules with what is written beside them."""
    parts = []
    for tick, words in y_ticks.items():
        _, y = at(x_ticks[0], tick)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="rule"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="soft">{words}</text>'
        )
    for tick in x_ticks:
        x, _ = at(tick, next(iter(y_ticks)))
        words = tick_text(tick, x_ticks)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" class="soft">{words}</text>'
        )
    return "".join(parts)


def svg_of(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}" class="chart">'
        f'<text x="0" y="14" font-weight="600">{escape(title)}</text>{"".join(parts)}</svg>'
    )
