"""A lab is a function from what it works with to what it found.

    def study(work: Work) -> Finding: ...
    run = lab("gradients", study, seeds=(2, 5))

The frame gives it a folder that a stopped lab goes on in, makes the page, and tells what was done.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from seqlab.errors import UserError
from seqlab.labs.lab import Outcome, ResultTable, at_work, choose_place, train_once
from seqlab.labs.picture import Drawing
from seqlab.run import Run, load
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """What a lab found out."""

    title: str
    verdict: str
    """What the numbers say, computed from them; a line for each question."""
    tables: tuple[ResultTable, ...]
    """The first is the one to print."""
    panels: tuple[Drawing, ...]
    numbers: Mapping[str, Any]
    """Everything, for table.json."""
    notes: tuple[str, ...] = ()
    """What was done, and what it can't tell."""
    next: str = ""
    """A command to paste; by default the same lab, whole."""


@dataclass(frozen=True)
class Work:
    """What a lab works with."""

    folder: Path
    quick: bool
    seeds: int
    data: tuple[str, ...]
    """Files of the user; none: what the lab makes itself."""
    settings: Mapping[str, Any]
    """Dotted keys for every run that it trains."""
    progress: Progress
    asked: Any = None
    """What `ask` of the lab made of its options."""

    def of(self, quick: T, whole: T) -> T:
        """One of two sizes."""
        return quick if self.quick else whole

    def train(self, name: str, task: str, preset: str, overrides: Mapping[str, Any]) -> Run:
        """A run of its own in the lab's folder, trained unless it is there already."""
        folder = self.folder / "trials" / name
        train_once(TrainRequest(task=task, preset=preset, overrides={**overrides, **self.settings}), folder,
                   self.progress)  # fmt: skip
        return load(folder)


Study = Callable[[Work], Finding]
Ask = Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], Any]]
"""From all options to what runs in one folder have to agree in, and to what the study works with. It refuses
what can't work, before anything is written."""


@dataclass(frozen=True)
class Lab:
    """A study with its name, and how many seeds it takes, quick and whole."""

    name: str
    study: Study
    seeds: tuple[int, int] = (1, 1)
    own_data: bool = False
    """Whether it can be asked about the user's files (--data)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of its own, and what each is where it is not given."""
    ask: Ask | None = None
    """None: everything that was asked for has to agree."""
    __signature__: inspect.Signature = field(init=False)

    def __post_init__(self) -> None:
        names = ["quick", "seeds", "out", "settings", "quiet", *(["data"] if self.own_data else [])]
        names += self.options
        keywords = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        object.__setattr__(self, "__signature__", inspect.Signature(keywords))

    def __call__(
        self,
        *,
        quick: bool = False,
        seeds: int | None = None,
        data: str | Sequence[str] = "",
        out: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        quiet: bool = False,
        **more: Any,
    ) -> Outcome:
        """Do the study, write everything into a folder and give back what was found."""
        count = seeds if seeds is not None else self.seeds[0 if quick else 1]
        if count < 1:
            raise UserError(
                what=f"--seeds is {count}.", why="Nothing would be measured.", fix="Give --seeds 1 or more."
            )
        files = (data,) if isinstance(data, str) and data else tuple(data)
        given = {"quick": quick, "seeds": count, "data": list(files), "settings": dict(settings or {})}
        assert not more.keys() - self.options.keys(), f"{self.name} has other options"
        given |= {**self.options, **more}
        choices, asked = self.ask(given) if self.ask else (given, None)
        folder = choose_place(self.name, out, choices)
        work = Work(folder, quick, count, files, settings or {}, Progress(quiet=quiet), asked)
        with at_work(folder, self.name, choices):
            found = self.study(work)
            after = found.next or f"seqlab lab {self.name}" + ("" if quick else " --quick")
            outcome = Outcome(self.name, folder, found.title, found.verdict, found.tables, found.panels,
                              found.notes, found.numbers, after)  # fmt: skip
            if missing := outcome.write():
                work.progress.say(missing)
        return outcome


def lab(
    name: str,
    study: Study,
    seeds: tuple[int, int] = (1, 1),
    own_data: bool = False,
    options: Mapping[str, Any] | None = None,
    ask: Ask | None = None,
) -> Lab:
    """What `seqlab lab NAME` runs."""
    return Lab(name, study, seeds, own_data, options or {}, ask)
