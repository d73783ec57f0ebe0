"""Time stamps: read in the usual ways, counted in regular steps, and written as they were."""

from __future__ import annotations

import calendar
import functools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FORMATS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%Y-%m",
    "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%Y%m%d",
    "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", "%Y-%m-%dT%H:%M:%S+00:00",
)  # fmt: skip
"""How times are written; a number is a time, too."""
DAY = 86_400
MONTH_AT_LEAST = 28 * DAY
NAMES = {1: "second", 60: "minute", 3600: "hour", DAY: "day", 7 * DAY: "week"}


def style_of(cell: str) -> str | None:
    """The way in which a time is written: a format of strftime, "number", or None where it is no time."""
    text = cell.strip()
    for style in FORMATS:
        if _parsed(text, style) is not None and (style != "%Y%m%d" or len(text) == 8):
            return style
    try:
        float(text)
    except ValueError:
        return None
    return "number"


def seconds_of(cell: str, style: str) -> float | None:
    """Seconds since 1970, or the number itself; None where the cell is not written in this way."""
    text = cell.strip()
    if style != "number":
        return _parsed(text, style)
    try:
        return float(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=65_536)  # a time is read when it is checked and again, and stands in many series
def _parsed(text: str, style: str) -> float | None:
    try:
        return datetime.strptime(text, style).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True)
class Step:
    """The regular distance between two times."""

    style: str = "number"
    unit: Literal["seconds", "months", "numbers"] = "numbers"
    size: float = 1.0
    """Seconds, months or numbers from one time to the next."""
    month_ends: bool = False
    """Whether each time is on the last day of a month."""

    def index(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times counted in steps; whole numbers differ by whole numbers of steps."""
        counted = _months(times) if self.unit == "months" else times
        return np.asarray(counted / self.size, np.float64)

    def after(self, time: float, steps: int) -> float:
        """The time so many steps later."""
        if self.unit != "months":
            return time + steps * self.size
        months = int(_months(np.array([time]))[0]) + round(steps * self.size)
        day, year, month = datetime.fromtimestamp(time, UTC), 1970 + months // 12, months % 12 + 1
        _, last = calendar.monthrange(year, month)
        number = last if self.month_ends else min(day.day, last)
        return day.replace(year=year, month=month, day=number).timestamp()

    def written(self, time: float) -> str:
        """A time as it was written in the data."""
        if self.style == "number":
            return f"{time:.12g}" if time != int(time) else str(int(time))
        return datetime.fromtimestamp(time, UTC).strftime(self.style)

    def __str__(self) -> str:
        if self.unit == "months":
            return {1.0: "month", 3.0: "quarter", 12.0: "year"}.get(self.size, f"{self.size:g} months")
        if self.unit == "numbers":
            return f"{self.size:g}"
        if name := NAMES.get(int(self.size)):
            return name
        size, name = next((s, n) for s, n in reversed(NAMES.items()) if self.size % s == 0)
        return f"{self.size / size:g} {name}s"


def step_of(times: NDArray[np.float64], style: str) -> Step:
    """The commonest distance between neighbours; in months where all times are on one day of a month, or on
    the last."""
    gaps = np.diff(times)
    gaps = gaps[gaps > 0]
    if style == "number":
        return Step(style, "numbers", _commonest(gaps) if len(gaps) else 1.0)
    same = [len(np.unique(one)) == 1 for one in (_since_month(times), _until_month(times))]
    if len(gaps) and gaps.min() >= MONTH_AT_LEAST and any(same):
        months = np.diff(_months(times))
        return Step(style, "months", _commonest(months[months > 0]), month_ends=not same[0])
    return Step(style, "seconds", _commonest(gaps) if len(gaps) else float(DAY))


def _commonest(gaps: NDArray[np.float64]) -> float:
    found, counts = np.unique(gaps, return_counts=True)
    return float(found[counts.argmax()])


def _months(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Months since January 1970."""
    return times.astype("datetime64[s]").astype("datetime64[M]").astype(np.float64)


def _since_month(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds since the month began."""
    stamps = times.astype("datetime64[s]")
    return np.asarray((stamps - stamps.astype("datetime64[M]")).astype(np.float64))


def _until_month(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds until the next month begins."""
    stamps = times.astype("datetime64[s]")
    return np.asarray(((stamps.astype("datetime64[M]") + 1) - stamps).astype(np.float64))


USUAL_PERIODS = {"second": 60, "minute": 60, "hour": 24, "day": 7, "week": 52, "month": 12, "quarter": 4}
SEASONAL = 0.2
"""Correlation of the periods of a series with one another, from which on it has a season."""
BY_CHANCE, EXPECTED = 2.2, 1.0
"""Times 1 / √(pairs of periods): what is asked for where all are tried, and of the calendar's."""
LONGEST = 400
"""Steps of a period, at the most."""
SERIES, NUMBERS = 100, 100_000
"""So many series, or few more, and so many of their numbers are looked at."""


def period_of(series: list[NDArray[np.float64]], step: Step) -> int:
    """Steps after which the series come again; 1 where they have no season.

    Compared are the periods of a series, less their moving average, with one another. The shortest period
    that is about as good as the best is the one: its multiples are as good. The calendar's own period wins
    over one that is found, unless that is clearly better.
    """
    usual = USUAL_PERIODS.get(str(step), 0)
    some = series[:: max(1, len(series) // SERIES)]
    some = [one[np.isfinite(one)][-NUMBERS // len(some) :] for one in some]
    longest = min(max((len(one) for one in some), default=0) // 3, LONGEST)
    tried = range(2, longest + 1)
    alike = np.array([0.0, 0.0, *(_likeness(some, period, BY_CHANCE) for period in tried)])
    if usual in tried and _likeness(some, usual, EXPECTED) > 0.8 * alike.max():
        return usual
    good = alike >= max(0.9 * float(alike.max()), 1e-9)
    for period in np.flatnonzero(good).tolist():
        around = slice(max(2, -(-3 * period // 4)), 5 * period // 4 + 1)
        if alike[period] == alike[around].max():
            return int(period)
    return 1


def _likeness(series: list[NDArray[np.float64]], period: int, chance: float) -> float:
    """Mean correlation of the periods of series with one another; 0 where it is too small to tell."""
    together = sizes = pairs = 0.0
    for one in series:
        if len(one) < 3 * period:
            continue
        rest = one[period // 2 :][: len(one) - period + 1] - _moving_average(one, period)
        count = len(rest) // period
        rest = rest - rest.mean()
        power = float((rest**2).mean())
        if power <= 1e-18 * float(one.var()):
            continue
        table = rest[: count * period].reshape(count, period) / power**0.5
        together += float((table.sum(axis=0) ** 2).sum() - (table**2).sum()) / (count - 1)
        sizes += float((table**2).sum())
        pairs += count * (count - 1) / 2
    found = together / sizes if pairs else 0.0
    return found if pairs and found > max(SEASONAL, chance / pairs**0.5) else 0.0


def _moving_average(numbers: NDArray[np.float64], period: int) -> NDArray[np.float64]:
    """Of as many numbers as a period has, at each of their middles."""
    sums = np.concatenate([[0.0], np.cumsum(numbers - numbers.mean())])
    return np.asarray((sums[period:] - sums[:-period]) / period + numbers.mean())
