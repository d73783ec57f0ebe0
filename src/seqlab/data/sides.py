"""What is in the two sides of pairs of texts: their lengths, and where they hardly belong together."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.survey import SHOWN, Look, Problem, Split, Splits, first_of, text_hash

APART = 3.0
"""A pair is suspect when one side is so many times as long as the other sides of the data let expect."""
SPREAD = 5.0
"""Or so many times the usual deviation, where lengths have little to do with each other, as in questions and
answers."""
SHORT = 40
"""Characters up to which a pair may be of any shape: short texts are of all lengths."""


class SideLook(Look):
    """Words and characters of one side of a pair of texts, and hashes of its texts."""

    def __init__(self, role: str) -> None:
        self.role = role
        self._words, self._letters, self._marks = array("I"), array("I"), array("Q")

    def see(self, cells: Cells, mark: int) -> None:
        text = cells[self.role]
        self._words.append(len(text.split()))
        self._letters.append(letters := len(text.strip()))
        self._marks.append(text_hash(text))
        self.characters += letters

    @property
    def words(self) -> NDArray[np.uint32]:
        return np.array(self._words, np.uint32)

    @property
    def letters(self) -> NDArray[np.uint32]:
        return np.array(self._letters, np.uint32)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        return np.array(self._marks, np.uint64)


def side_line(split: Split, side: str) -> str:
    """The lengths of the texts of one side."""
    look: SideLook = split.looks[side]
    line = split.place(int(look.words.argmax())).line
    words, characters = _size_quantiles(look.words), _size_quantiles(look.letters)
    return f"  {side}: {words} words (line {line}); {characters} characters"


def pair_problems(splits: Splits, one: str, two: str) -> Iterator[Problem]:
    """What a person should know about pairs of the texts of two sides."""
    for split in splits.values():
        copies = np.flatnonzero(split.hashes == split.looks[two].hashes)
        if len(copies):
            what = f"in {_share(len(copies), split)} the {two} is the {one} itself{_more(split, copies)}."
            fix = "Remove them, unless copying is meant: a model learns from them to copy."
            yield Problem("warning", f"{split.name}: {what}", split.place(int(copies[0])), fix)
    for split in splits.values():
        suspects = apart(split.looks[one].letters, split.looks[two].letters)
        if len(suspects):
            what = (
                f"in {_share(len(suspects), split)} one side is far longer than the"
                f" other{_more(split, suspects)}."
            )
            fix = (
                "Look at them: lines may have slipped, or a text be cut off. Remove those that do not say the"
                " same."
            )
            yield Problem("warning", f"{split.name}: {what}", split.place(int(suspects[0])), fix)
    for split in splits.values():
        yield from _repeats(split, two)
    yield from _too_long(first_of(splits), one, two)


def apart(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Rows whose sides have numbers of characters that hardly belong together, the worst first.

    The logarithm of their ratio is far from its median: by more than log 3 and by more than five times what
    is usual (the median deviation, as a standard deviation), in a pair that is not short.
    """
    if not len(first):
        return np.zeros(0, np.int64)
    ratio = np.log(second / first)
    off = np.abs(ratio - np.median(ratio))
    most = max(math.log(APART), SPREAD * 1.4826 * float(np.median(off)))
    suspects = np.flatnonzero((off > most) & (np.maximum(first, second) > SHORT))
    return suspects[np.argsort(-off[suspects], kind="stable")]


def _repeats(split: Split, two: str) -> Iterator[Problem]:
    if not split.rows:
        return
    different = np.unique(np.stack([split.hashes, split.looks[two].hashes]), axis=1)
    if repeated := split.rows - different.shape[1]:
        what = f"{split.name}: in {_share(repeated, split)} an earlier pair comes again."
        yield Problem("note", what, None, "Remove them if that is not meant.")
    if several := int((np.unique(different[0], return_counts=True)[1] > 1).sum()):
        what = f"{split.name}: different targets have the same source, for {several:,} of the sources."
        yield Problem("note", what, None, "Nothing has to be done: when scored, each counts as a reference.")


def _too_long(train: Split, one: str, two: str) -> Iterator[Problem]:
    longest, most = np.maximum(train.looks[one].words, train.looks[two].words), train.walk.table.config.length
    if over := int((longest > most).sum()):
        what = f"in {_share(over, train)} a side has more than {most} words; they will not be trained on."
        fix = f"To train on more of them: data.length={2 * min(int(np.quantile(longest, 0.99)), 2048)}"
        yield Problem("note", f"{train.name}: {what}", train.place(int(longest.argmax())), fix)


def _share(count: int, split: Split) -> str:
    return f"{count:,} row{'' if count == 1 else 's'} ({100 * count / split.rows:.1f} %)"


def _more(split: Split, rows: Sequence[int] | NDArray[np.int64]) -> str:
    """Where else it is so."""
    others: list[Place] = [split.place(int(row)) for row in rows[1:SHOWN]]
    return f", as at {', '.join(map(str, others))}" if others else ""


def _size_quantiles(sizes: NDArray[np.uint32]) -> str:
    half, most = (int(size) for size in np.quantile(sizes, [0.5, 0.95], method="inverted_cdf"))
    return f"half have up to {half:,}, 95 % up to {most:,}, the longest {int(sizes.max()):,}"
