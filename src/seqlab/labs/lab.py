"""What every lab shares: a folder that a stopped lab goes on in, and what it ends in: a table, a picture, a
verdict."""

from __future__ import annotations

import base64
import json
import math
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from seqlab.errors import Stopped, UserError
from seqlab.files import write_json, write_text
from seqlab.folder import CONFIG, SCORES, refuse_taken
from seqlab.labs.picture import Drawing, draw, simple_chart
from seqlab.report import chart, html
from seqlab.report.evaluate import aligned
from seqlab.session import resume, train_anew
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

LAB, TABLE, PICTURE, PAGE = "lab.json", "table.json", "picture.png", "index.html"
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""What leaves 2.5 % of Student's t above it, for 1 to 10 degrees of freedom."""


# What a lab ends in -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultTable:
    """Cells as they are written."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    """Columns of words, which start at the left."""

    def markdown(self) -> str:
        rule = tuple("---" if place in self.left else "---:" for place in range(len(self.header)))
        lines = [self.header, rule, *self.rows]
        return "\n".join([f"## {self.title}", "", *("| " + " | ".join(cells) + " |" for cells in lines)])

    def __str__(self) -> str:
        return f"{self.title}\n{aligned([self.header, *self.rows], self.left)}"

    def html(self) -> str:
        table = html.table(self.header, self.rows, self.left)
        return f'<h2>{escape(self.title)}</h2><div class="card">{table}</div>'


@dataclass(frozen=True)
class Outcome:
    """What a lab found out, and where it is written."""

    name: str
    folder: Path
    title: str
    verdict: str
    tables: tuple[ResultTable, ...]
    """The first is the one to print."""
    panels: tuple[Drawing, ...]
    notes: tuple[str, ...]
    """What was done, and what it can't tell."""
    numbers: Mapping[str, Any]
    """Everything, for table.json."""
    next: str
    """A command to paste."""

    def __str__(self) -> str:
        first = self.tables[0]
        page = f"Everything: {self.folder / PAGE}"
        return "\n".join([str(first), "", self.verdict, "", page, f"Next: {self.next}"])

    def write(self) -> str:
        """Write table.md, the picture, the page and, last, table.json. What to say where there is no
        picture."""
        tables, notes = (
            (table.markdown() for table in self.tables),
            "\n".join(f"- {note}" for note in self.notes),
        )
        write_text(
            self.folder / "table.md", "\n\n".join([f"# {self.title}", self.verdict, *tables, notes]) + "\n"
        )
        drawn = draw(self.panels, self.folder / PICTURE)
        write_text(self.folder / PAGE, self.page(drawn))
        write_json(self.folder / TABLE, {"lab": self.name, "verdict": self.verdict, **self.numbers})
        return (
            ""
            if drawn
            else f'matplotlib is not installed, so there is no {PICTURE}: pip install "seqlab[plot]"'
        )

    def page(self, drawn: bool) -> str:
        """One file that needs no other: the picture is in it, or simpler charts where it could not be
        drawn."""
        if drawn:
            coded = base64.b64encode((self.folder / PICTURE).read_bytes()).decode()
            picture = (
                f'<img alt="{escape(self.panels[0].title)}" style="max-width:100%"'
                f' src="data:image/png;base64,{coded}">'
            )
        else:
            picture = "".join(simple_chart(panel) for panel in self.panels)
        body = [
            f"<h1>{escape(self.title)}</h1>",
            *(f"<p>{escape(part)}</p>" for part in self.verdict.split("\n")),
        ]
        body += [f'<div class="card">{picture}</div>', *(table.html() for table in self.tables)]
        body += ["<h2>Notes</h2><ul>", *(f"<li>{escape(note)}</li>" for note in self.notes), "</ul>"]
        return html.page(self.title, "\n".join(body), chart.CSS)


# Where it works ---------------------------------------------------------------------------------------------


def choose_place(lab: str, out: str | Path | None, choices: Mapping[str, Any]) -> Path:
    """The folder of a lab. One that was begun with the same choices is gone on with; none is overwritten.

    Without `out`: runs/lab-NAME, numbered when it is taken by a lab that is finished or was asked for
    something else.
    """
    if out is not None:
        folder = Path(out)
        if not folder.exists():
            return refuse_taken(folder)
        if (folder / LAB).exists():
            refuse_other_choices(folder, lab, choices)
            return folder
        raise UserError(
            what=f"{folder} is there already and is not the folder of a lab.",
            why="An existing folder is never overwritten.",
            fix="Choose another --out, for instance: --out runs/mine",
        )
    for number in range(1, 1_000_000):
        folder = Path("runs") / (f"lab-{lab}" if number == 1 else f"lab-{lab}-{number}")
        if not folder.exists() or (begun(folder) == (lab, _plain(choices)) and not (folder / TABLE).exists()):
            return folder
    raise AssertionError("a million labs")


def begun(folder: Path) -> tuple[str, Any]:
    """The lab that a folder belongs to, and what was chosen for it."""
    if not (folder / LAB).exists():
        return "", None
    tree = json.loads((folder / LAB).read_text(encoding="utf-8"))
    return tree["lab"], tree["choices"]


def refuse_other_choices(folder: Path, lab: str, choices: Mapping[str, Any]) -> None:
    """Runs that were trained otherwise can't stand in one table."""
    name, before = begun(folder)
    now = _plain(choices)
    if name != lab:
        what = f"{folder} belongs to the lab {name}."
    elif other := [key for key in {**before, **now} if before.get(key) != now.get(key)]:
        shown = ", ".join(
            f"{key} was {_shown(before.get(key))} and is {_shown(now.get(key))}" for key in other
        )
        what = f"{folder} was begun otherwise: {shown}."
    else:
        return
    raise UserError(
        what=what, why="Only runs that differ in nothing but labels and seed can stand in one table.",
        fix="Choose another --out, or the options that it was begun with.",
    )  # fmt: skip


def _plain(choices: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(choices))


def _shown(value: Any) -> str:
    return "not given" if value in (None, "", [], {}) else str(value)[:60]


@contextmanager
def at_work(folder: Path, lab: str, choices: Mapping[str, Any]) -> Iterator[None]:
    """The folder while a lab works in it: kept when it is stopped, gone when it could not even begin."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_json(folder / LAB, {"lab": lab, "choices": choices})
        yield
    except Stopped as stop:
        fix = f"The same command with --out {folder} goes on there."
        raise Stopped(stop.exit_code - 128, "Stopped; what was trained so far is kept.", fix=fix) from None
    except UserError:
        if new and not any(folder.rglob(SCORES)):
            shutil.rmtree(folder)
        raise


def train_once(wishes: TrainRequest, folder: Path, progress: Progress) -> bool:
    """Train a run unless it is finished; one that was stopped goes on. Whether there was anything to do."""
    if (folder / SCORES).exists():
        return False
    started = time.monotonic()
    if (folder / CONFIG).exists():
        resume(folder, progress, started)
    else:
        train_anew(wishes, folder, progress, started)
    shutil.rmtree(
        folder / "resume", ignore_errors=True
    )  # several times the size of the model, and needed no longer
    return True


# Numbers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """Values over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation, with n − 1 below; 0 for one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of the mean, by Student's t; without end for one value."""
        count = len(self.values)
        return student(count - 1) * self.deviation / math.sqrt(count) if count > 1 else math.inf

    @staticmethod
    def mean_of(some: Sequence[Spread]) -> Spread:
        """The mean of several, seed by seed."""
        return Spread(tuple(map(statistics.mean, zip(*(one.values for one in some), strict=True))))

    def minus(self, other: Spread) -> Spread:
        """Differences seed by seed."""
        return Spread(tuple(one - two for one, two in zip(self.values, other.values, strict=True)))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.deviation:.3f}" if len(self.values) > 1 else f"{self.mean:.3f}"

    @property
    def change(self) -> str:
        """As a difference: +0.045 (+0.030 to +0.060)."""
        low, high = self.mean - self.margin, self.mean + self.margin
        return (
            f"{self.mean:+.3f} ({low:+.3f} to {high:+.3f})" if len(self.values) > 1 else f"{self.mean:+.3f}"
        )

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation, "values": list(self.values)}


def student(freedom: int) -> float:
    """What leaves 2.5 % of Student's t above it: the table, then two terms of its expansion around the
    normal's 1.960."""
    if freedom <= len(T_95):
        return T_95[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
