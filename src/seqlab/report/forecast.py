"""Forecasts drawn: the past, what is said with its interval, and what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from seqlab.errors import UserError
from seqlab.files import write_text, written_beside
from seqlab.report import chart, html
from seqlab.report.explanation import NO_PROBABILITY, Attributions, Explanation, Map

MOST = 8
"""Targets that are drawn."""
WIDTH, HEIGHT = 720, 240


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One window: T steps of the past and H steps that are forecast, of C targets, in the data's units."""

    title: str
    names: tuple[str, ...]
    past: Float[np.ndarray, "T C"]
    said: Float[np.ndarray, "H C"]
    low: Float[np.ndarray, "H C"]
    high: Float[np.ndarray, "H C"]
    came: Float[np.ndarray, "H C"] | None = None
    coverage: float = 0.9
    times: tuple[str, ...] = ()
    """Of the first step, of the last one of the past and of the last of all, where they are known."""

    @property
    def marks(self) -> dict[int, str]:
        """What is written below some steps: 0 is the last of the past."""
        steps, ahead = len(self.past), len(self.said)
        words = self.times or (f"{steps - 1} steps before", "the last step", f"{ahead} steps on")
        return dict(zip((1 - steps, 0, ahead), words, strict=True))

    def html(self) -> str:
        """A chart for each target, one below the other."""
        charts = [self._chart(place) for place in range(min(MOST, len(self.names)))]
        more = len(self.names) - len(charts)
        rest = f'<p class="small soft">and {more} more targets</p>' if more else ""
        return f'<div class="card forecast"><h3>{escape(self.title)}</h3>{"".join(charts)}{rest}</div>'

    def _chart(self, place: int) -> str:
        past, said, low, high = (one[:, place] for one in (self.past, self.said, self.low, self.high))
        came = None if self.came is None else self.came[:, place]
        if not len(past):
            return _alone(self.names[place], said, came)
        steps = len(past)
        ahead = np.arange(1, len(said) + 1)
        every = np.concatenate([past, low, high, *([came] if came is not None else [])])
        y_ticks = chart.ticks(float(np.nanmin(every)), float(np.nanmax(every)), 4)
        x_from, x_to, y_from, y_to = -steps + 1, len(said), y_ticks[0], y_ticks[-1]

        def at(x: Any, y: Any) -> str:
            across = 56 + (x - x_from) / (x_to - x_from) * (WIDTH - 70)
            return f"{across:.1f},{HEIGHT - 34 - (y - y_from) / (y_to - y_from) * (HEIGHT - 64):.1f}"

        def line(xs: Sequence[float], ys: Sequence[float], kind: str) -> str:
            return f'<polyline class="{kind}" points="{" ".join(map(at, xs, ys))}"/>'

        parts = []
        for tick in y_ticks:
            x, y = at(x_from, tick).split(",")
            parts.append(
                f'<line x1="{x}" x2="{WIDTH - 14}" y1="{y}" y2="{y}" class="rule"/>'
                f'<text x="48" y="{float(y) + 4:.1f}" text-anchor="end" class="soft">'
                f"{chart.tick_text(tick, y_ticks)}</text>"
            )
        now = at(0, y_from).split(",")[0]
        parts.append(f'<line x1="{now}" x2="{now}" y1="30" y2="{HEIGHT - 34}" class="now"/>')
        joined = np.concatenate([[past[-1]], said])
        band = [*map(at, ahead, high), *map(at, ahead[::-1], low[::-1])]
        parts.append(f'<polygon class="band" points="{" ".join(band)}"/>')
        parts.append(line(np.arange(-steps + 1, 1).tolist(), past.tolist(), "past"))
        if came is not None:
            parts.append(line(np.arange(len(said) + 1).tolist(), [past[-1], *came.tolist()], "came"))
        parts.append(line(np.arange(len(said) + 1).tolist(), joined.tolist(), "said"))
        legend = ["past", "prediction", f"{100 * self.coverage:g} % interval"] + (
            ["what came"] if came is not None else []
        )
        kinds = ["past", "said", "band", "came"]
        words, right = "", 150 + 7 * len(self.names[place])
        for kind, word in zip(kinds, legend, strict=False):
            words += (
                f'<rect class="key {kind}" x="{right}" y="6" width="14" height="8"/>'
                f'<text x="{right + 19}" y="14" class="soft">{word}</text>'
            )
            right += 34 + 7 * len(word)
        places = [(float(at(x, y_from).split(",")[0]), word) for x, word in self.marks.items()]
        for number, (across, word) in enumerate(places):
            if number == 1 and min(places[2][0] - across, across - places[0][0]) < 8 * len(word):
                continue  # it would stand upon another one
            anchor = "end" if number else "start"
            parts.append(
                f'<text x="{across}" y="{HEIGHT - 14}" text-anchor="{anchor}" class="soft">'
                f"{escape(word)}</text>"
            )
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.names[place])}"'
            f' class="chart wide"><text x="0" y="14" font-weight="600">{escape(self.names[place])}</text>'
            f"{words}{''.join(parts)}</svg>"
        )

    def draw(self, axes: Any, place: int) -> None:
        """One target on axes of matplotlib."""
        steps = len(self.past)
        ahead = np.arange(1, len(self.said) + 1)
        axes.plot(np.arange(-steps + 1, 1), self.past[:, place], color="#555", label="past")
        axes.fill_between(
            ahead, self.low[:, place], self.high[:, place], color="#3b6fd4", alpha=0.2, linewidth=0,
            label=f"{100 * self.coverage:g} % interval",
        )  # fmt: skip
        start = self.past[-1:, place]
        axes.plot(
            np.arange(len(ahead) + 1), [*start, *self.said[:, place]], color="#3b6fd4", label="prediction"
        )
        if self.came is not None:
            axes.plot(
                np.arange(len(ahead) + 1), [*start, *self.came[:, place]], color="#c2571a", label="what came"
            )
        axes.set_xticks(list(self.marks), list(self.marks.values()), fontsize=8)
        axes.set_title(f"{self.title}: {self.names[place]}", loc="left", fontsize=10)
        axes.axvline(0, color="#bbb", linewidth=0.8)
        axes.grid(True, color="#eee")


def _alone(name: str, said: Float[np.ndarray, " H"], came: Float[np.ndarray, " H"] | None) -> str:
    """What was written beside what was meant, with no past."""
    curves = [chart.Curve("written", range(1, len(said) + 1), said.tolist())]
    if came is not None:
        curves.append(chart.Curve("meant", range(1, len(came) + 1), came.tolist()))
    return chart.line_chart(name, curves)


CSS = html.asset("forecast.css")


def save(pictures: Sequence[Curves], path: Path) -> None:
    """All of them in one .html or .png, whole or not at all."""
    if path.suffix.lower() == ".html":
        body = "<h1>Forecast</h1>\n" + "\n".join(one.html() for one in pictures)
        write_text(path, html.page("Forecast", body, chart.CSS + CSS, ""))
        return
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(
            what="matplotlib is not installed.",
            why="A .png is drawn with it; .html needs nothing more.",
            fix='pip install "seqlab[plot]"',
        ) from None
    drawn = [(one, place) for one in pictures for place in range(min(MOST, len(one.names)))][: 3 * MOST]
    figure = Figure(figsize=(9, 2.6 * len(drawn)), dpi=120, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for number, (one, place) in enumerate(drawn):
        axes = figure.add_subplot(len(drawn), 1, number + 1)
        one.draw(axes, place)
        if not number:
            axes.legend(loc="upper left", fontsize=8)
    with written_beside(path) as beside:
        figure.savefig(beside, format="png")


def explained(
    weights: Float[np.ndarray, " T"],
    past: Float[np.ndarray, "T C"],
    said: Float[np.ndarray, "H C"],
    names: tuple[str, ...],
) -> Explanation:
    """What each step of the window adds to the sum of the forecasts."""
    pieces = tuple(" ".join(f"{number:.4g}" for number in step) for step in past.tolist())
    first = ", ".join(f"{number:.4g}" for number in said[:4, 0].tolist())
    return Explanation(
        text=f"{len(past)} steps of {', '.join(names)}",
        label=f"{first}{', ...' if len(said) > 4 else ''}",
        scores={},
        maps=(
            Map(
                name="what each step adds to the sum of the forecasts",
                kind="tokens",
                weights=weights,
                pieces=pieces,
                signed=True,
            ),
        ),
        method="gradient × input",
        note="Shown is gradient × input: to first order what each step adds, on the model's own scale.",
        beside=Attributions(note=NO_PROBABILITY),
    )
