"""A made-up shop: what it sold each day, with a trend, a week, a year and holidays."""

from __future__ import annotations

import csv
import math
import random
from datetime import date, timedelta
from pathlib import Path

FIRST, DAYS, AHEAD, SEEN = date(2021, 1, 1), 1460, 14, 56
"""When the shop opened, how many days are known, how many come, and days that a forecast may look back."""
WEEK = (0, 2, 4, 8, 20, 34, -12)
"""What each day of the week sells more, from Monday on."""


def days_of_sales() -> list[tuple[str, float, int]]:
    """Date, sales and whether it is a holiday: four years, and the days that come."""
    draw = random.Random(11)
    total = DAYS + AHEAD
    holidays = [draw.random() < 0.05 for _ in range(total + 1)]
    rows, drift = [], 0.0
    for number in range(total):
        day = FIRST + timedelta(days=number)
        drift = 0.7 * drift + draw.gauss(0, 3)
        sales = 100 + 0.03 * number + WEEK[day.weekday()] + 12 * math.sin(2 * math.pi * number / 365.25)
        sales += 30 * holidays[number + 1] - 45 * holidays[number]  # people buy the day before
        rows.append((day.isoformat(), round(sales + drift, 1), int(holidays[number])))
    return rows


def write_sales(folder: Path) -> tuple[Path, Path]:
    """Two tables: all that is known, and the end of it with the holidays of the days that come."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = days_of_sales()
    known = [(day, f"{sales}", holiday) for day, sales, holiday in rows[:DAYS]]
    coming = [(day, "", holiday) for day, _, holiday in rows[DAYS:]]
    paths = folder / "sales.csv", folder / "coming.csv"
    for path, some in zip(paths, (known, known[-SEEN:] + coming), strict=True):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("date", "sales", "holiday"), *some])
    return paths
