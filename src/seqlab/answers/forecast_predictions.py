"""How the future of a series is forecast, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """How a series is forecast, as the task's settings say."""

    window: int
    horizon: int
    level: str
    """What each window is read relative to: none, mean or last."""
    coverage: float
    """Share of what comes that intervals are to hold."""
    intervals: str
    """conformal, or learned."""
    trajectories: int


@dataclass(frozen=True)
class SeriesForecast:
    """The next steps of one series, in the data's units."""

    values: tuple[tuple[float, ...], ...]
    """H steps of C targets."""
    low: tuple[tuple[float, ...], ...] = ()
    high: tuple[tuple[float, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"values": _plain(self.values)}
        return tree | ({"low": _plain(self.low), "high": _plain(self.high)} if self.low else {})

    def shown(self) -> str:
        steps = [" ".join(f"{number:.5g}" for number in step) for step in self.values]
        return ", ".join(steps)

    def columns(self) -> dict[str, Any]:
        return {"values": self.shown()}


@dataclass(frozen=True)
class StepForecast:
    """One step of a forecast: a row of a table."""

    cells: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.columns()

    def shown(self) -> str:
        return "\t".join(
            f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in self.cells.values()
        )

    def columns(self) -> dict[str, Any]:
        return {name: _short(cell) for name, cell in self.cells.items()}


def _plain(steps: Sequence[Sequence[float]]) -> list[Any]:
    """Steps as JSON has them: plain numbers where each has one."""
    rounded = [[_short(number) for number in step] for step in steps]
    return [step[0] for step in rounded] if all(len(step) == 1 for step in rounded) else rounded


def _short(cell: Any) -> Any:
    """A number to seven digits, whatever its unit: models compute no more of them."""
    return float(f"{cell:.7g}") if isinstance(cell, float) else cell
