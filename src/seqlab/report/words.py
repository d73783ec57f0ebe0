"""What the report, the model card and the summary call the things of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Piece:
    """A word of an example, with what was meant and said of it."""

    text: str
    meant: str
    said: str


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example that went wrong."""

    text: str
    meant: str = ""
    said: str = ""
    pieces: tuple[Piece, ...] = ()
    """Its words, where each of them was answered for."""
    picture: np.ndarray | None = None
    """What was read, where that is a picture: H W 3."""
    score: float
    """By which it is one of the worst: what the table of the report calls it."""


@dataclass(frozen=True)
class WorstTable:
    """The table of what went most wrong."""

    title: str
    header: tuple[str, ...]
    """What was read; where there is something to compare with, what was meant and what was said; the score by
    which it is one of the worst."""
    note: str
    digits: int | None = None
    """Of that score after the point; None: as many as it needs."""
    wide: bool = False
    """Whether all three columns hold texts."""

    @property
    def compares(self) -> bool:
        return len(self.header) == 4


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a task, for one run of it."""

    purpose: str
    """What the model does: "writes a text for a text"."""
    counted: str = "examples"
    """What the amounts of data are of."""
    scored: str = "examples"
    """What is scored one by one."""
    summed: str = ""
    """The same in the summary of a training; empty: as in the report."""
    worst: WorstTable
    shell: tuple[str, ...]
    """Commands to type in the run folder."""
    explain: str = 'seqlab explain . "a text of yours" --out map.html'
    needs_maps: bool = False
    """Whether a model without attention has nothing to explain."""
    python: tuple[str, ...]
    """Lines of Python, where `run` is the run."""
    limits: tuple[str, ...] = ()
    """What it can't do, beside what no model can."""
    when_behind: str = "use it"
    """What to do where a baseline is better."""
    written: str = ""
    """How each text that is scored was written: a sentence, or nothing."""
    drawn: int | None = None
    """How many metrics are drawn over the steps; None: all that are logged."""


OFTEN = "Often these are mistakes in the data, or texts that say too little: worth reading first."
SEEN = "Often these are mistakes in the data, or pictures that show too little: worth looking at first."
HEARD = "Often these are mistakes in the data, or recordings that say too little: worth hearing first."
SURPRISING = (
    "Names, other languages and mistakes in the data are what a language model does not predict: "
    "worth reading first."
)
