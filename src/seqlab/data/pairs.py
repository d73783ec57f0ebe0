"""What is in pairs of texts: rows, lengths of both sides, and everything that may be wrong with them, found in one pass."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqlab.data.files import Place
from seqlab.data.read import Table
from seqlab.data.survey import (
    SHOWN,
    Problem,
    Rows,
    Walk,
    by_severity,
    faults,
    headline,
    leaks,
    problem_lines,
    text_hash,
    too_few,
)

SIDES = ("source", "target")
APART = 3.0
"""A pair is suspect when one side is so many times as long as the other sides of the data let expect."""
SPREAD = 5.0
"""Or so many times the usual deviation, where lengths have little to do with each other, as in questions and answers."""
SHORT = 40
"""Characters up to which a pair may be of any shape: short texts are of all lengths."""


@dataclass(frozen=True)
class Pairs(Rows):
    """Rows of a source, which is hashed, and a target."""

    targets: NDArray[np.uint64]
    """Hashes of the targets."""
    words: NDArray[np.uint32]
    """N 2: words of the source and of the target."""
    letters: NDArray[np.uint32]
    """N 2: characters of the source and of the target."""

    @cached_property
    def same(self) -> NDArray[np.int64]:
        """Rows whose target is the source."""
        return np.flatnonzero(self.hashes == self.targets)

    @cached_property
    def repeated(self) -> int:
        """Rows whose source and target stood together in an earlier row."""
        return self.rows - len(np.unique(np.stack([self.hashes, self.targets]), axis=1).T) if self.rows else 0

    @cached_property
    def several(self) -> int:
        """Sources that have more than one target."""
        if not self.rows:
            return 0
        different = np.unique(np.stack([self.hashes, self.targets]), axis=1)[0]
        return int((np.unique(different, return_counts=True)[1] > 1).sum())

    @cached_property
    def apart(self) -> NDArray[np.int64]:
        """Rows whose sides have lengths that hardly belong together, the worst first.

        The logarithm of the ratio of their characters is far from its median: by more than log 3 and by more than five
        times what is usual (the median deviation, as a standard deviation), in a pair that is not short.
        """
        if not self.rows:
            return np.zeros(0, np.int64)
        ratio = np.log(self.letters[:, 1] / self.letters[:, 0])
        off = np.abs(ratio - np.median(ratio))
        most = max(math.log(APART), SPREAD * 1.4826 * float(np.median(off)))
        suspects = np.flatnonzero((off > most) & (self.letters.max(axis=1) > SHORT))
        return suspects[np.argsort(-off[suspects], kind="stable")]


@dataclass(frozen=True)
class PairSurvey:
    """All splits, and what they have to do with each other. The first is the training data."""

    splits: dict[str, Pairs]
    length: int
    """Pieces that a side may have (data.length); a word is at least one piece."""

    @property
    def train(self) -> Pairs:
        return next(iter(self.splits.values()))

    def problems(self) -> list[Problem]:
        """Everything worth telling, errors first."""
        found = [*faults(self.splits), *too_few(self.splits), *self._copies(), *self._apart()]
        return by_severity([*found, *leaks(self.splits), *self._repeats(), *self._lengths()])

    def _copies(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if len(split.same):
                what = f"in {_share(len(split.same), split)} the target is the source itself{_more(split, split.same)}."
                fix = "Remove them, unless copying is meant: a model learns from them to copy."
                yield Problem("warning", f"{split.name}: {what}", split.place(int(split.same[0])), fix)

    def _apart(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if len(split.apart):
                what = f"in {_share(len(split.apart), split)} one side is far longer than the other{_more(split, split.apart)}."
                fix = "Look at them: lines may have slipped, or a text be cut off. Remove those that do not say the same."
                yield Problem("warning", f"{split.name}: {what}", split.place(int(split.apart[0])), fix)

    def _repeats(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if split.repeated:
                what = f"{split.name}: in {_share(split.repeated, split)} an earlier pair comes again."
                yield Problem("note", what, None, "Remove them if that is not meant.")
            if split.several:
                what = f"{split.name}: different targets have the same source, for {split.several:,} of the sources."
                yield Problem("note", what, None, "Nothing has to be done: when scored, each counts as a reference.")

    def _lengths(self) -> Iterator[Problem]:
        longest = self.train.words.max(axis=1, initial=0)
        over = int((longest > self.length).sum())
        if over:
            what = f"in {_share(over, self.train)} a side has more than {self.length} words; they will not be trained on."
            fix = f"To train on more of them: data.length={2 * min(int(np.quantile(longest, 0.99)), 2048)}"
            yield Problem("note", f"{self.train.name}: {what}", self.train.place(int(longest.argmax())), fix)

    def lines(self) -> list[str]:
        """All of it, for a person to read."""
        lines: list[str] = []
        for split in self.splits.values():
            lines.append(headline(split, "pairs"))
            for side, name in enumerate(SIDES) if split.rows else ():
                words, letters = split.words[:, side], split.letters[:, side]
                line = split.place(int(words.argmax()))
                lines.append(f"  {name}: {_lengths(words)} words (line {line.line}); {_lengths(letters)} characters")
        return lines + problem_lines(self.problems())


def survey_pairs(tables: Mapping[str, Table], keep_all_faults: bool = False) -> PairSurvey:
    """Read every table once. The first split is the training data.

    A bad row ends the reading with its error, unless the table skips them (data.on_bad=skip) or all are to be kept.
    """
    splits = {name: _read(name, table, keep_all_faults) for name, table in tables.items()}
    return PairSurvey(splits, next(iter(tables.values())).config.length)


def _read(name: str, table: Table, keep_all: bool) -> Pairs:
    hashes, targets, words, letters = array("Q"), array("Q"), array("I"), array("I")
    walk = Walk(table, keep_all)
    for cells in walk:
        source, target = cells["source"], cells["target"]
        hashes.append(text_hash(source))
        targets.append(text_hash(target))
        words.extend((len(source.split()), len(target.split())))
        letters.extend((len(source.strip()), len(target.strip())))
    both = np.array(letters, np.uint32).reshape(-1, 2)
    return Pairs(
        name, walk, np.array(hashes, np.uint64), int(both.sum()),
        np.array(targets, np.uint64), np.array(words, np.uint32).reshape(-1, 2), both,
    )


def _share(count: int, split: Pairs) -> str:
    return f"{count:,} row{'' if count == 1 else 's'} ({100 * count / split.rows:.1f} %)"


def _more(split: Pairs, rows: Sequence[int] | NDArray[np.int64]) -> str:
    """Where else it is so."""
    others: list[Place] = [split.place(int(row)) for row in rows[1:SHOWN]]
    return f", as at {', '.join(map(str, others))}" if others else ""


def _lengths(sizes: NDArray[np.uint32]) -> str:
    half, most = (int(size) for size in np.quantile(sizes, [0.5, 0.95], method="inverted_cdf"))
    return f"half have up to {half:,}, 95 % up to {most:,}, the longest {int(sizes.max()):,}"
