"""What is in the data: rows, lengths, labels, and everything that may be wrong with them, found in one pass.

Of a text only a 64-bit hash and its length are kept, about 30 bytes a row, so a survey may be larger than the
memory.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import Bad, Row, Table

KEPT_FAULTS = 1000
SHOWN = 10
"""Faults, labels' places and the like that are named one by one; the rest is counted."""
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Problem:
    """Something a person should know about the data."""

    severity: Severity
    what: str
    place: Place | None
    fix: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" if self.place else self.what


class Walk:
    """The good rows of a table, one after the other; where each stands and what the others lack is kept.

    A bad row ends it with its error, unless the table skips them (data.on_bad=skip) or all are to be kept.
    """

    def __init__(self, table: Table, keep_all: bool) -> None:
        self.table, self.keep_all = table, keep_all
        self.skipped = table.config.on_bad == "skip"
        """Whether bad rows are left out or an error."""
        self.faults: list[Bad] = []
        """The first thousand."""
        self.bad = 0
        self._names: dict[str, int] = {}
        self._files, self._lines = array("I"), array("I")

    def __iter__(self) -> Iterator[dict[str, str]]:
        for row in self.table:
            if isinstance(row, Row):
                self._files.append(self._names.setdefault(row.place.file, len(self._names)))
                self._lines.append(row.place.line)
                yield row.cells
                continue
            if not (self.skipped or self.keep_all):
                raise row.error()
            self.bad += 1
            if len(self.faults) < KEPT_FAULTS:
                self.faults.append(row)

    def place(self, row: int) -> Place:
        return Place(list(self._names)[self._files[row]], self._lines[row])


class Look(ABC):
    """What a field finds out about the rows of one data set, in one pass."""

    characters: int = 0

    @abstractmethod
    def see(self, cells: Cells, mark: int) -> None:
        """The next good row; `mark` is the hash of what is read."""


class NoLook(Look):
    """There is nothing to find out."""

    def see(self, cells: Cells, mark: int) -> None:
        pass


@dataclass(frozen=True)
class Split:
    """One data set after one pass: a number for each good row, in the order of the rows, and what its fields
    found."""

    name: str
    walk: Walk
    """Where the rows stand, and what is wrong with the bad ones."""
    hashes: NDArray[np.uint64]
    """Of what is read: equal texts have equal ones."""
    looks: Mapping[str, Any]
    """What each field found, by its name."""

    @property
    def rows(self) -> int:
        return len(self.hashes)

    def place(self, row: int) -> Place:
        return self.walk.place(row)

    @property
    def repeated(self) -> int:
        """Rows whose text stood in an earlier row."""
        return self.rows - len(np.unique(self.hashes))


Splits = Mapping[str, Split]
"""All data sets of a run; the first one is the training data."""


def first_of(splits: Splits) -> Split:
    return next(iter(splits.values()))


# What is told of every data set -----------------------------------------------------------------------------


def faults(splits: Splits) -> Iterator[Problem]:
    """The rows that can't be used."""
    for name, split in splits.items():
        severity: Severity = "warning" if split.walk.skipped else "error"
        for bad in split.walk.faults:
            yield Problem(severity, bad.what, bad.place, bad.fix)
        if split.walk.bad > len(split.walk.faults):
            more = f"{name}: {split.walk.bad - len(split.walk.faults):,} more rows are faulty."
            yield Problem(severity, more, None, "Mend the first ones and look again.")


def too_few(splits: Splits, labels: NDArray[np.int64] | None = None) -> Iterator[Problem]:
    """Splits without a row, and training rows of which none could be held out."""
    for name, split in splits.items():
        if not split.rows:
            place = split.walk.faults[0].place if split.walk.faults else None
            yield Problem(
                "error", f"{name}: not a single row can be used.", place, "Mend them, or name another file."
            )
    train = first_of(splits)
    if "valid" not in splits and train.rows and (train.walk.skipped or not train.walk.bad):
        held = held_out(train.hashes, labels=labels)
        if held.all() or not held.any():
            yield Problem(
                "error",
                f"too few rows to hold some out for validation: {train.rows:,}.",
                train.place(0),
                "Add rows, or name others to validate on: --valid FILE",
            )


def leaks(splits: Splits) -> Iterator[Problem]:
    """Rows of one split that read the same as rows of another."""
    names = list(splits)
    for place, two in enumerate(names):
        for one in names[:place]:
            shared = np.flatnonzero(np.isin(splits[two].hashes, splits[one].hashes))
            if len(shared):
                found = f"1 row of {two} is" if len(shared) == 1 else f"{len(shared):,} rows of {two} are"
                yield Problem(
                    "warning",
                    f"{found} also in {one}: scores on {two} look better than they are.",
                    splits[two].place(int(shared[0])),
                    f"Remove them from {one}.",
                )


def by_severity(problems: Sequence[Problem]) -> list[Problem]:
    """Errors first, then warnings."""
    return sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))


def headline(split: Split, what: str) -> str:
    """How many rows there are, and where."""
    names = [source.name for source in split.walk.table.sources]
    return f"{split.name}: {split.rows:,} {what} in {names[0] if len(names) == 1 else f'{len(names)} files'}"


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Problems for a person to read, each with what to do about it."""
    lines: list[str] = []
    for severity in SEVERITIES:
        these = [problem for problem in problems if problem.severity == severity]
        if these:
            lines += ["", f"{len(these):,} {severity}{'s' if len(these) > 1 else ''}"]
            for problem in these[:SHOWN]:
                lines += [f"  {problem}", f"    {problem.fix}"]
            if len(these) > SHOWN:
                lines.append(f"  ... and {len(these) - SHOWN:,} more")
    return lines or ["", "Nothing is wrong with it."]


def text_hash(text: str, text2: str | None = None) -> int:
    """64 bits that equal texts share, the same in every process; white space around a text does not count."""
    whole = text.strip() if text2 is None else f"{text.strip()}\0{text2.strip()}"
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=8).digest(), "little")


def held_out(
    hashes: NDArray[np.uint64], share: float = 0.1, most: int = 2000, labels: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Which rows to validate on: those with the smallest hashes, so the same texts every time, in whatever
    order.

    Equal texts fall on the same side. With `labels`, texts of a label that would have no training row stay
    there.
    """
    wanted = max(1, min(most, round(share * len(hashes))))
    unique, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    chosen = np.cumsum(sizes) <= wanted
    if len(unique) > 1 and not chosen.any():
        chosen[0] = True
    mask = chosen[group]
    if labels is not None:
        lost = np.setdiff1d(labels[mask], labels[~mask])
        chosen[group[mask & np.isin(labels, lost)]] = False
        mask = chosen[group]
    return mask
