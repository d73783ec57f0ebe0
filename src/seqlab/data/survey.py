"""What is in the data: rows, lengths, labels, and everything that may be wrong with them, found in one pass.

Of a text only a 64-bit hash and its length are kept, about 30 bytes a row, so a survey may be larger than the memory.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.data.files import Place
from seqlab.data.read import Bad, Row, Table

KEPT_FAULTS = 1000
SHOWN = 10
"""Faults, labels' places and the like that are named one by one; the rest is counted."""
SHOWN_LABELS = 30
BAR = 30
NO_LABEL = -1
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


@dataclass(frozen=True)
class Rows:
    """One data set: a number for each good row, in the order of the rows."""

    name: str
    walk: Walk
    """Where the rows stand, and what is wrong with the bad ones."""
    hashes: NDArray[np.uint64]
    """Of what is read: equal texts have equal ones."""
    characters: int

    @property
    def rows(self) -> int:
        return len(self.hashes)

    def place(self, row: int) -> Place:
        return self.walk.place(row)


@dataclass(frozen=True)
class Split(Rows):
    """Rows with a text (or a pair of texts, which are hashed together) and a label or a number."""

    words: NDArray[np.uint32]
    labels: NDArray[np.int64]
    """Place of the label in Survey.labels; labels that training does not have come after them. -1: no label."""
    numbers: NDArray[np.float64]
    """The targets, where they are numbers."""
    pair: bool

    @property
    def longest(self) -> Place | None:
        return self.place(int(self.words.argmax())) if self.rows else None

    def length(self, share: float) -> int:
        """So many words or fewer have this share of the texts."""
        return int(np.quantile(self.words, share, method="inverted_cdf")) if self.rows else 0

    @property
    def repeated(self) -> int:
        """Rows whose text stood in an earlier row."""
        return self.rows - len(np.unique(self.hashes))


@dataclass(frozen=True)
class Survey:
    """All splits, and what they have to do with each other."""

    target: Literal["label", "number"]
    splits: dict[str, Split]
    labels: list[str]
    """Of the training rows: numbers by size, else by alphabet."""
    unseen: list[str]
    """Labels that only other splits have."""
    length: int
    """Words kept of a text (data.length)."""
    _conflicts: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def train(self) -> Split:
        return next(iter(self.splits.values()))

    def counts(self, name: str) -> dict[str, int]:
        """Rows of each label of a split."""
        labels = self.splits[name].labels
        names = self.labels + self.unseen
        counts = np.bincount(labels[labels >= 0], minlength=len(names))
        return {label: int(count) for label, count in zip(names, counts, strict=True) if count or label in self.labels}

    def shared(self, one: str, two: str) -> int:
        """Rows of split `two` whose text is also in split `one`."""
        return int(np.isin(self.splits[two].hashes, self.splits[one].hashes).sum())

    def problems(self) -> list[Problem]:
        """Everything worth telling, errors first."""
        labels = None if self.target == "number" else self.train.labels
        found = [*faults(self.splits), *too_few(self.splits, labels), *self._label_problems(), *self._repeats()]
        return by_severity([*found, *leaks(self.splits), *self._lengths()])

    def _label_problems(self) -> Iterator[Problem]:
        if self.target == "number" or not (self.train.labels >= 0).any():
            return
        counts = self.counts(self.train.name)
        if len(counts) == 1:
            yield Problem(
                "error", f'every row has the same label, "{self.labels[0]}".', self.train.place(0),
                "A classifier needs rows of at least two labels. If another column holds the label: data.columns.label=...",
            )
        if len(counts) > max(50, self.train.rows / 2):
            yield Problem(
                "warning", f"nearly every row has a label of its own: {len(counts):,} labels in {self.train.rows:,} rows.", None,
                "If the label is a number: task.target=number. If another column holds it: data.columns.label=...",
            )
        rare = [label for label, count in counts.items() if count < 5]
        if rare and 1 < len(counts) <= self.train.rows / 2:
            shown = ", ".join(f'"{label}" ({counts[label]})' for label in rare[:SHOWN])
            few = f"{len(rare)} labels have fewer than 5 training rows: {shown}."
            yield Problem("warning", few, None, "Add rows, or merge labels.")
        plain: dict[str, str] = {}
        for label in self.labels:
            if (twin := plain.setdefault(" ".join(label.lower().split()), label)) != label:
                alike = f'labels "{twin}" and "{label}" differ in capitals or spaces alone.'
                yield Problem("warning", alike, None, "Write them alike.")
        yield from self._unseen_labels()

    def _unseen_labels(self) -> Iterator[Problem]:
        for split in self.splits.values():
            for number, label in enumerate(self.unseen, len(self.labels)):
                rows = np.flatnonzero(split.labels == number)
                if len(rows):
                    yield Problem(
                        "error", f'the label "{label}" does not occur in the training data ({split.name}: {len(rows):,} rows).',
                        split.place(int(rows[0])), "Add training rows with it, mend its spelling, or remove these rows.",
                    )

    def _repeats(self) -> Iterator[Problem]:
        for split in self.splits.values():
            conflicts = self._conflicts.get(split.name, np.zeros(0, np.int64))
            if len(conflicts):
                places = ", ".join(str(split.place(int(row))) for row in conflicts[1:SHOWN])
                yield Problem(
                    "warning", f"{split.name}: {len(conflicts):,} rows have a text that also has another label, as at {places}.",
                    split.place(int(conflicts[0])), "Decide for one label.",
                )
            if split.repeated:
                share = 100 * split.repeated / split.rows
                repeated = f"{split.name}: {split.repeated:,} rows ({share:.1f} %) repeat an earlier text."
                yield Problem("note", repeated, None, "Remove them if that is not meant.")

    def _lengths(self) -> Iterator[Problem]:
        for split in self.splits.values():
            over = int((split.words > self.length).sum())
            if over:
                share = 100 * over / split.rows
                yield Problem(
                    "note", f"{split.name}: {over:,} texts ({share:.1f} %) are longer than {self.length} words and will be cut.",
                    split.longest, f"Head and tail are kept. To keep more: data.length={min(split.length(0.99), 4096)}",
                )

    def lines(self) -> list[str]:
        """All of it, for a person to read."""
        lines: list[str] = []
        for split in self.splits.values():
            lines.append(headline(split, "pairs of texts" if split.pair else "rows"))
            if split.rows:
                lines.append(
                    f"  words: half of the texts have up to {split.length(0.5):,}, 95 % up to {split.length(0.95):,}; "
                    f"the longest has {int(split.words.max()):,} ({split.longest})"
                )
                lines += self._target_lines(split)
        return lines + problem_lines(self.problems())

    def _target_lines(self, split: Split) -> list[str]:
        if self.target == "number" and len(split.numbers):
            low, half, high = np.quantile(split.numbers, [0, 0.5, 1])
            mean, spread = split.numbers.mean(), split.numbers.std()
            return [f"  numbers: from {low:g} to {high:g}, half up to {half:g}, mean {mean:g}, standard deviation {spread:g}"]
        counts = {label: count for label, count in self.counts(split.name).items() if count}
        if not counts:
            return ["  no labels"]
        width, most = min(30, max(map(len, counts))), max(counts.values())
        lines = [f"  {len(counts)} labels"]
        for label, count in list(counts.items())[:SHOWN_LABELS]:
            bar = "█" * max(1, round(BAR * count / most))
            lines.append(f"    {label[:30]:<{width}}  {count:>9,}  {100 * count / split.rows:5.1f} %  {bar}")
        return lines if len(counts) <= SHOWN_LABELS else [*lines, f"    ... and {len(counts) - SHOWN_LABELS} more"]


# What every survey tells ------------------------------------------------------------------------------------------


def faults(splits: Mapping[str, Rows]) -> Iterator[Problem]:
    """The rows that can't be used."""
    for name, split in splits.items():
        severity: Severity = "warning" if split.walk.skipped else "error"
        for bad in split.walk.faults:
            yield Problem(severity, bad.what, bad.place, bad.fix)
        if split.walk.bad > len(split.walk.faults):
            more = f"{name}: {split.walk.bad - len(split.walk.faults):,} more rows are faulty."
            yield Problem(severity, more, None, "Mend the first ones and look again.")


def too_few(splits: Mapping[str, Rows], labels: NDArray[np.int64] | None = None) -> Iterator[Problem]:
    """Splits without a row, and training rows of which none could be held out."""
    for name, split in splits.items():
        if not split.rows:
            place = split.walk.faults[0].place if split.walk.faults else None
            yield Problem("error", f"{name}: not a single row can be used.", place, "Mend them, or name another file.")
    train = next(iter(splits.values()))
    if "valid" not in splits and train.rows and (train.walk.skipped or not train.walk.bad):
        held = held_out(train.hashes, labels=labels)
        if held.all() or not held.any():
            yield Problem(
                "error", f"too few rows to hold some out for validation: {train.rows:,}.", train.place(0),
                "Add rows, or name others to validate on: --valid FILE",
            )


def leaks(splits: Mapping[str, Rows]) -> Iterator[Problem]:
    """Rows of one split that read the same as rows of another."""
    names = list(splits)
    for place, two in enumerate(names):
        for one in names[:place]:
            shared = np.flatnonzero(np.isin(splits[two].hashes, splits[one].hashes))
            if len(shared):
                found = f"1 row of {two} is" if len(shared) == 1 else f"{len(shared):,} rows of {two} are"
                yield Problem(
                    "warning", f"{found} also in {one}: scores on {two} look better than they are.",
                    splits[two].place(int(shared[0])), f"Remove them from {one}.",
                )


def by_severity(problems: Sequence[Problem]) -> list[Problem]:
    """Errors first, then warnings."""
    return sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))


def headline(split: Rows, what: str) -> str:
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


# Labels and numbers -----------------------------------------------------------------------------------------------


def survey(
    tables: Mapping[str, Table],
    *,
    target: Literal["label", "number"] = "label",
    text: str = "text",
    text2: str = "text2",
    label: str = "label",
    keep_all_faults: bool = False,
) -> Survey:
    """Read every table once. The first split is the training data; the last arguments name the roles.

    A bad row ends the reading with its error, unless the table skips them (data.on_bad=skip) or all are to be kept.
    """
    numbers: dict[str, int] = {}
    splits: dict[str, Split] = {}
    for name, table in tables.items():
        splits[name] = _read(name, table, numbers, (text, text2, label), target == "number", keep_all_faults)
    first = next(iter(splits.values()))
    seen = np.zeros(len(numbers), bool)
    seen[first.labels[first.labels >= 0]] = True
    names = _sorted([label for label, number in numbers.items() if seen[number]])
    unseen = _sorted([label for label, number in numbers.items() if not seen[number]])
    new = {label: place for place, label in enumerate(names + unseen)}
    order = np.array([*(new[label] for label in numbers), NO_LABEL], np.int64)    # the last entry serves -1
    for split in splits.values():
        split.labels[:] = order[split.labels]
    conflicts = {name: _conflicting(split) for name, split in splits.items()}
    length = next(iter(tables.values())).config.length
    return Survey(target, splits, names, unseen, length, conflicts)


def _read(name: str, table: Table, numbers: dict[str, int], roles: tuple[str, str, str], real: bool, keep_all: bool) -> Split:
    """One pass over a table. `numbers` gives each label its number, in the order they turn up."""
    text, text2, label = roles
    hashes, words, labels, values = array("Q"), array("I"), array("q"), array("d")
    characters = 0
    walk = Walk(table, keep_all)
    for cells in walk:
        one, two = cells[text], cells.get(text2)
        hashes.append(text_hash(one, two))
        words.append(len(one.split()) + (len(two.split()) if two else 0))
        characters += len(one) + (len(two) if two else 0)
        said = cells.get(label)
        if real:
            values.append(float(said) if said else float("nan"))
        labels.append(NO_LABEL if real or not said else numbers.setdefault(said, len(numbers)))
    return Split(
        name, walk, np.array(hashes, np.uint64), characters,
        np.array(words, np.uint32), np.array(labels, np.int64), np.array(values, np.float64), text2 in table.found,
    )


def text_hash(text: str, text2: str | None = None) -> int:
    """64 bits that equal texts share, the same in every process; white space around a text does not count."""
    whole = text.strip() if text2 is None else f"{text.strip()}\0{text2.strip()}"
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=8).digest(), "little")


def _sorted(labels: list[str]) -> list[str]:
    """Numbers by size, unless some are written like codes (007); everything else by alphabet."""
    plain = all(re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", label) for label in labels)
    return sorted(labels, key=lambda label: (float(label) if plain else 0.0, label))


def _conflicting(split: Split) -> NDArray[np.int64]:
    """Rows whose text also stands in a row with another label."""
    order = np.lexsort((split.labels, split.hashes))
    hashes, labels = split.hashes[order], split.labels[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])) if len(hashes) else np.zeros(0, np.int64)
    if not len(starts):
        return np.zeros(0, np.int64)
    differ = np.minimum.reduceat(labels, starts) != np.maximum.reduceat(labels, starts)
    return np.sort(order[np.repeat(differ, np.diff([*starts, len(hashes)]))])


def held_out(
    hashes: NDArray[np.uint64], share: float = 0.1, most: int = 2000, labels: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Which rows to validate on: those with the smallest hashes, so the same texts every time, in whatever order.

    Equal texts fall on the same side. With `labels`, texts of a label that would have no training row stay there.
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
