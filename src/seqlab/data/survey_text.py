"""What is in running text, or in rows of text: how much, of which characters, and what may be wrong with it; in one pass.

Of a line or row only a 64-bit hash, its length and its place are kept, about 24 bytes.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.data.files import Place
from seqlab.data.read import Table
from seqlab.data.stream import Text, held_at_the_end
from seqlab.data.survey import (
    SHOWN,
    Problem,
    Rows,
    Severity,
    Walk,
    by_severity,
    faults,
    headline,
    held_out,
    leaks,
    problem_lines,
    text_hash,
    too_few,
)

ODD = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ufeff\ufffe\uffff\ue000-\uf8ff]")
"""Control codes, the sign for an undecodable character, marks of byte order, characters for private use."""
TELLING = 40
"""Characters from which on a line of running text is hardly there twice by chance."""
LONG = 10_000
"""Characters from which on a line or row is worth a note."""
LEAST = 1_000
"""Characters of running text below which nothing is worth learning."""
LEAST_HELD = 50
"""Characters to validate on, at least."""


@dataclass(frozen=True)
class Texts(Rows):
    """One data set: lines of running text, or rows. A line that is too short to tell has the hash 0."""

    flow: Literal["text", "rows"]
    sizes: NDArray[np.int64]
    """Characters of each line or row."""
    words: int
    counts: Counter[str]
    """How often each character stands there."""
    odd: list[Place]
    """Where the first odd characters are."""

    @property
    def repeated(self) -> float:
        """The share of rows, or of lines that can tell, that stood there before."""
        some = self.hashes[self.hashes != 0]
        return 1 - len(np.unique(some)) / len(some) if len(some) else 0.0

    @property
    def longest(self) -> int:
        """The number of the longest row; a part of a line counts as one."""
        return int(self.sizes.argmax())


def look_at(name: str, table: Table, keep_all_faults: bool = False) -> Texts:
    """One pass over a table of texts, or over running text."""
    sizes, hashes = array("q"), array("Q")
    counts: Counter[str] = Counter()
    odd: list[Place] = []
    words = 0
    running = isinstance(table, Text)
    walk = Walk(table, keep_all_faults)
    for number, cells in enumerate(walk):
        text = cells["text"]
        sizes.append(len(text))
        hashes.append(text_hash(text) if not running or len(text) >= TELLING else 0)
        words += len(text.split())
        counts.update(text)
        if len(odd) < SHOWN and ODD.search(text):
            odd.append(walk.place(number))
    lengths = np.array(sizes, np.int64)
    return Texts(
        name, walk, np.array(hashes, np.uint64), int(lengths.sum()), "text" if running else "rows", lengths, words, counts, odd
    )


@dataclass(frozen=True)
class TextSurvey:
    """All splits, and what they have to do with each other. The first is the training data."""

    splits: Mapping[str, Texts]
    cuts: bool = True
    """Whether rows that are too long lose their end; else they are read in blocks."""

    @property
    def train(self) -> Texts:
        return next(iter(self.splits.values()))

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Which of the training lines or rows are held out, where no validation data is given."""
        train = self.train
        if "valid" in self.splits or not train.rows:
            return np.zeros(train.rows, bool)
        return held_at_the_end(train.sizes) if train.flow == "text" else held_out(train.hashes)

    def problems(self) -> list[Problem]:
        """Everything worth telling, errors first."""
        running = self.train.flow == "text"
        little = self._too_little() if running else too_few(self.splits)
        shared = self._leaks() if running else leaks(self.splits)
        return by_severity([*faults(self.splits), *little, *self._odd(), *self._long(), *self._repeats(), *shared])

    def _too_little(self) -> Iterator[Problem]:
        train = self.train
        for split in self.splits.values():
            least = LEAST if split is train else LEAST_HELD
            if split.characters < least:
                little = f"{split.name}: there is too little text: {_many(split.characters, 'character')}."
                fix = f"There have to be at least {least:,}; a model learns something useful from about 100,000 on."
                yield Problem("error", little, split.place(0) if split.rows else None, fix)
        if "valid" not in self.splits and train.characters >= LEAST and train.sizes[self.held].sum() < LEAST_HELD:
            little = f"the text has {_many(train.rows, 'line')}, of which none can be held out for validation."
            yield Problem("error", little, train.place(0), "Name another text to validate on: --valid FILE")

    def _odd(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if not split.odd:
                continue
            strange = Counter({one: count for one, count in split.counts.items() if ODD.match(one)})
            named = ", ".join(f"{shown(one)} ({_many(count, 'time')})" for one, count in strange.most_common(5))
            places = ", ".join(map(str, split.odd[1:4]))
            yield Problem(
                "warning", f"{split.name}: there are odd characters: {named}{'; also at ' + places if places else ''}.",
                split.odd[0], "The model would learn to write them: remove them, or check data.encoding.",
            )

    def _long(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if self.cuts and split.flow == "rows" and split.rows and split.sizes.max() > LONG:
                long = f"{split.name}: the longest text has {split.sizes.max():,} characters."
                yield Problem("note", long, split.place(split.longest), "Its end is cut off after data.length ids.")
            elif split.flow == "text" and split.characters > LONG * max(1, split.counts["\n"]):
                long = f"{split.name}: a line has {split.characters // max(1, split.counts[chr(10)]):,} characters on average."
                yield Problem("note", long, split.place(0), "That is fine if the text is meant to have hardly any lines.")

    def _repeats(self) -> Iterator[Problem]:
        for split in self.splits.values():
            if split.repeated >= 0.01:
                kind = f"lines of {TELLING} and more characters" if split.flow == "text" else "rows"
                severity: Severity = "warning" if split.repeated >= 0.2 else "note"
                told = f"{split.name}: {100 * split.repeated:.1f} % of the {kind} repeat an earlier one."
                yield Problem(severity, told, None, "Remove them if that is not meant: a model learns them by heart.")

    def _leaks(self) -> Iterator[Problem]:
        """Lines of one text that also stand in another; what is held out is a text of its own."""
        parts = {name: (split, np.arange(split.rows)) for name, split in self.splits.items()}
        if self.held.any():
            parts[self.train.name] = (self.train, np.flatnonzero(~self.held))
            parts["valid"] = (self.train, np.flatnonzero(self.held))
        for two, (theirs, rows) in parts.items():
            rows = rows[theirs.hashes[rows] != 0]
            mine, others = parts[self.train.name]
            shared = rows[np.isin(theirs.hashes[rows], mine.hashes[others])]
            if two != self.train.name and len(shared) >= max(1, 0.01 * len(rows)):
                share = f"{100 * len(shared) / len(rows):.1f} % of the lines of {two} with {TELLING} and more characters"
                yield Problem(
                    "warning", f"{share} are also in {self.train.name}: scores on {two} look better than they are.",
                    theirs.place(int(shared[0])), "Remove them there, or name another text with --valid.",
                )

    def lines(self) -> list[str]:
        """All of it, for a person to read."""
        lines: list[str] = []
        for split in self.splits.values():
            lines.append(headline(split, "lines" if split.flow == "text" else "rows"))
            if split.rows:
                shares = {one: 100 * count / split.characters for one, count in split.counts.most_common(8)}
                common = ", ".join(f"{shown(one)} {share:.1f} %" for one, share in shares.items())
                lines += [
                    f"  {_many(split.characters, 'character')}, {_many(split.words, 'word')}",
                    f"  {_many(len(split.counts), 'different character')}; the commonest: {common}",
                    f"  the longest {'line' if split.flow == 'text' else 'text'} has "
                    f"{split.sizes.max():,} characters ({split.place(split.longest)})",
                ]
        if self.held.any():
            share = 100 * self.train.sizes[self.held].sum() / self.train.characters
            first = self.train.place(int(np.flatnonzero(self.held)[0]))
            what = f"the text from {first} on" if self.train.flow == "text" else _many(int(self.held.sum()), "row")
            lines.append(f"held out for validation: {what}, {share:.1f} % of the characters")
        return lines + problem_lines(self.problems())


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shown(character: str) -> str:
    """A character as it can be printed: itself, its name or its number."""
    if character in " \n\t":
        return {" ": "space", "\n": "line end", "\t": "tab"}[character]
    if ODD.match(character) or unicodedata.category(character)[0] in "CZ":
        return f"U+{ord(character):04X}"
    return character
