"""What the benchmarks find out: races between candidates, tables with what was wanted beside it, and the
files they go to."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Candidate:
    """Somebody in a race."""

    name: str
    work: Callable[[], int]
    """Does a piece of work; how much it was."""
    note: str = ""
    wanted: float | None = None
    """The first candidate is to be so many times as fast as this one."""
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    """What holds during its turns alone."""


@dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def markdown(self) -> str:
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        table = ["| " + " | ".join(cells) + " |" for cells in lines]
        return "\n".join([f"## {self.title}", "", *table, *(f"\n{note}" for note in self.notes)])

    def shown(self) -> str:
        """For a terminal."""
        lines = [self.header, *self.rows]
        widths = [max(len(cells[place]) for cells in lines) for place in range(len(self.header))]
        table = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
            for cells in lines
        ]
        return "\n".join([self.title, *table, *self.notes, ""])


def race(candidates: Sequence[Candidate], seconds: float, turns: int) -> list[float]:
    """Work a second of each: the median of its turns. They take turns, so that a noisy machine treats them
    alike.

    A turn lasts at least so many seconds, and one piece of work. One piece before the first turn warms up.
    """
    for candidate in candidates:
        with candidate.around():
            candidate.work()
    speeds: list[list[float]] = [[] for _ in candidates]
    for _ in range(turns):
        for candidate, found in zip(candidates, speeds, strict=True):
            with candidate.around():
                done, began = 0, time.perf_counter()
                while not done or time.perf_counter() - began < seconds:
                    done += candidate.work()
                found.append(done / (time.perf_counter() - began))
    return [statistics.median(found) for found in speeds]


def raced(
    title: str,
    unit: str,
    candidates: Sequence[Candidate],
    seconds: float,
    turns: int,
    notes: Sequence[str] = (),
) -> Section:
    """The table of a race: speeds, how many times as fast the first is, and what was wanted."""
    speeds = race(candidates, seconds, turns)
    rows = []
    for place, (candidate, speed) in enumerate(zip(candidates, speeds, strict=True)):
        ratio = speeds[0] / speed
        wanted = (
            f"≥ {candidate.wanted:g}: {verdict(ratio >= candidate.wanted)}"
            if candidate.wanted is not None
            else ""
        )
        rows.append(
            (candidate.name, f"{speed:,.0f}", f"{ratio:.2f}×" if place else "", wanted, candidate.note)
        )
    how = f"Medians of {turns} turns of {seconds:g} s or more, candidates alternating, {machine()}."
    return Section(title, ("", unit, f"{candidates[0].name} is", "wanted", ""), tuple(rows), (*notes, how))


def verdict(reached: bool) -> str:
    return "reached" if reached else "**not reached**"


def machine() -> str:
    """Where it was measured."""
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in info.read_text().splitlines()
        if line.startswith("model name")
    ]
    processor = names[0] if info.exists() and names else platform.processor()
    return f"{torch.get_num_threads()} threads, {processor}, torch {torch.__version__}"


class Book:
    """Tables by name, as JSON to add to and as Markdown to read. A table of the same name replaces the old
    one."""

    def __init__(self, name: str, title: str, order: Sequence[str]) -> None:
        self.path, self.title, self.order = RESULTS / f"{name}.json", title, list(order)

    def add(self, name: str, section: Section) -> None:
        RESULTS.mkdir(exist_ok=True)
        pages = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        pages[name] = asdict(section)
        self.path.write_text(json.dumps(pages, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        sections = [Section(**pages[name]).markdown() for name in self.order if name in pages]
        text = "\n\n".join([f"# {self.title}", *sections]) + "\n"
        self.path.with_suffix(".md").write_text(text, encoding="utf-8")
