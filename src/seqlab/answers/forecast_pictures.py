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
            curves = self.curves(ends.windows, place, said, None)
            drawn.append(replace(curves, title=title or "the next steps"))
        return drawn

    def when(self, part: Windows, row: int) -> str:
        """Where a forecast begins."""
        facts = self.field.facts
        first = part.order[part.begins[row] + self.window]
        name = facts.series[int(part.store.arrays["series"][first])]
        if not facts.time_column:
            return f"{name} step {int(first) + 1}".strip()
        steps = int(part.store.arrays["time"][first])
        return f"{name} {facts.step.written(facts.step.after(facts.origin, steps))}".strip()

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
        )
