"""Forecasts as pictures: windows of a report, and the ends of series."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from seqlab.answers.answer import Findings
from seqlab.answers.series_ends import Ends
from seqlab.data.windows import Windows
from seqlab.fields.series import SeriesField
from seqlab.forecast_metrics import Forecasts
from seqlab.report.forecast import Curves
from seqlab.report.words import Example

WORST, DRAWN = 6, 4
"""Windows of a report: those that are furthest off, and those that are drawn."""


@dataclass(frozen=True)
class ForecastPictures:
    """Draws windows of so many steps, and the steps that are forecast of them."""

    field: SeriesField
    window: int
    horizon: int
    coverage: float

    def findings(self, part: Windows, said: Forecasts, meant: Forecasts) -> Findings:
        """The windows that are furthest off, and some that are drawn."""
        errors = ((said.scaled - meant.scaled) ** 2).mean(axis=(1, 2))
        apart = np.arange(0, len(part), max(1, self.horizon))  # windows that do not overlap
        worst = apart[np.argsort(-errors[apart], kind="stable")[:WORST]]
        shown = np.unique(np.linspace(0, len(part) - 1, min(DRAWN, len(part))).astype(np.int64))
        return Findings(
            worst=[Example(text=self.when(part, row), score=float(errors[row])) for row in worst.tolist()],
            pictures=[self.curves(part, row, said, meant).html() for row in shown.tolist()],
        )

    def of_ends(self, ends: Ends, said: Forecasts) -> list[Curves]:
        """The forecast from the end of each series."""
        facts, drawn = self.field.facts, []
        for place, number in enumerate(ends.series.tolist()):
            when = ends.time(facts, place, 1)
            title = " ".join(filter(None, [facts.series[number], f"from {when}" if when else ""]))
            times = tuple(ends.time(facts, place, steps) for steps in (1 - self.window, 0, self.horizon))
            curves = self.curves(ends.windows, place, said, None)
            drawn.append(replace(curves, title=title or "the next steps", times=times if when else ()))
        return drawn

    def when(self, part: Windows, row: int) -> str:
        """Where a forecast begins."""
        first = part.order[part.begins[row] + self.window]
        name = self.field.facts.series[int(part.store.arrays["series"][first])]
        return f"{name} {self.time(part, row, self.window) or f'step {int(first) + 1}'}".strip()

    def time(self, part: Windows, row: int, step: int) -> str:
        """The time of a step of a window, as it is written; empty where there are none."""
        facts = self.field.facts
        if not facts.time_column:
            return ""
        steps = int(part.store.arrays["time"][part.order[part.begins[row] + step]])
        return facts.step.written(facts.step.after(facts.origin, steps))

    def times(self, part: Windows, row: int) -> tuple[str, ...]:
        """Of the first step of a window, of the last that is seen and of the last that is forecast."""
        last = self.window + self.horizon - 1
        found = tuple(self.time(part, row, step) for step in (0, self.window - 1, last))
        return found if all(found) else ()

    def curves(self, part: Windows, row: int, said: Forecasts, meant: Forecasts | None) -> Curves:
        """A window and its forecast, to be drawn."""
        facts, chosen = self.field.facts, np.array([row])
        past = part.values(chosen, 0, self.window)[..., : len(facts.targets)]
        assert said.low is not None and said.high is not None
        return Curves(
            title=self.when(part, row) if meant is not None else "",
            names=facts.targets,
            past=self.field.in_units(past, part.series(chosen))[0],
            said=said.units[row],
            low=said.low[row],
            high=said.high[row],
            came=None if meant is None else meant.units[row],
            coverage=self.coverage,
            times=self.times(part, row) if meant is not None else (),
        )
