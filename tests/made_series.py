"""Series that tests make for themselves: a week that comes again, a trend, noise, and holidays."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np

START = date(2023, 1, 1)


def season(steps: int, seed: int = 0, begin: int = 0, base: float = 50.0) -> list[float]:
    """A period of 7 steps, a trend and noise."""
    draw = random.Random(seed)
    noise = [draw.gauss(0, 1) for _ in range(begin + steps)]
    return [
        round(base + 0.05 * t + 10 * math.sin(2 * math.pi * t / 7) + noise[t], 4)
        for t in range(begin, begin + steps)
    ]


def days(steps: int, begin: int = 0) -> list[str]:
    return [(START + timedelta(days=begin + t)).isoformat() for t in range(steps)]


def table(header: Sequence[str], columns: Sequence[Sequence[object]]) -> str:
    """A table as text, from its columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def plain(steps: int = 240, seed: int = 0) -> str:
    """One column."""
    return table(["load"], [season(steps, seed)])


def dated(steps: int = 240, seed: int = 0, ahead: int = 0) -> str:
    """Sales, which are more on holidays, which are known ahead; and visitors, which are not. For the last
    `ahead` days only holidays are told."""
    draw = random.Random(seed + 1)
    holidays = [int(draw.random() < 0.1) for _ in range(steps)]
    sales = [one + 20 * holiday for one, holiday in zip(season(steps, seed), holidays, strict=True)]
    visitors = [round(one / 2 + draw.gauss(0, 1), 4) for one in sales]
    for column in (sales, visitors):
        column[steps - ahead :] = [""] * ahead
    return table(["date", "sales", "visitors", "holiday"], [days(steps), sales, visitors, holidays])


def long(steps: int = 160, names: Sequence[str] = ("north", "south", "west")) -> str:
    """Several series, one below the other, on scales of their own."""
    columns: list[list[object]] = [[], [], []]
    for place, name in enumerate(("north", "south", "west")):
        if name in names:
            columns[0] += [name] * steps
            columns[1] += days(steps)
            columns[2] += season(steps, place, base=50.0 * 10**place)
    return table(["unique_id", "ds", "y"], columns)


def signals(rows: int = 160) -> str:
    """Slow and fast waves of 5 to 20 steps, with which of both they are."""
    draw = random.Random(0)
    values, labels = [], []
    for _ in range(rows):
        label, phase = draw.choice(["slow", "fast"]), draw.uniform(0, 6)
        wave = [math.sin(phase + (0.4 if label == "slow" else 1.6) * t) for t in range(draw.randint(5, 20))]
        values.append(" ".join(f"{one + draw.gauss(0, 0.1):.3f}" for one in wave))
        labels.append(label)
    return table(["values", "label"], [values, labels])


def autoregression(steps: int, seed: int = 0) -> np.ndarray:
    """x_t = 0.6 x_{t-1} − 0.3 x_{t-2} + ε_t, ε standard normal."""
    noise = np.random.default_rng(seed).standard_normal(steps + 100)
    found = np.zeros(steps + 100)
    for t in range(2, len(found)):
        found[t] = 0.6 * found[t - 1] - 0.3 * found[t - 2] + noise[t]
    return found[100:]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def curves(count: int = 120) -> str:
    """size · sin(speed · t) beside its size and speed, a JSON object a row."""
    draw = random.Random(4)
    rows = []
    for _ in range(count):
        size, speed = round(draw.uniform(0.5, 2), 3), round(draw.uniform(0.3, 0.8), 3)
        values = [round(size * math.sin(speed * t), 4) for t in range(6)]
        rows.append(json.dumps({"vector": [size, speed], "values": values}) + "\n")
    return "".join(rows)
