"""Running text: files as one stream of characters, line ends included, and the batches that are cut from it.

A stream is read line by line; a line, its end included, is a piece, and a very long line is several. Their
ids stand one after the other in a store, so that any stretch of the text is a slice of one long array.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.batches import Plan, Rows
from seqlab.data.files import Lines, Place
from seqlab.data.read import Bad, DataConfig, Role, Row, Table
from seqlab.data.store import Ragged
from seqlab.data.tokenizers import BOS, UNK, Tokenizer
from seqlab.errors import UserError

LONGEST_PIECE = 4096
"""Characters of a piece, at most; a longer line is cut before a space."""
HELD = 0.1
"""Share of the text, at its end, that is held out for validation."""


TEXT = Role(
    "text", ("text", "sentence", "content", "document", "word", "name", "line", "body", "message"), True
)
"""The column of a table that holds the texts."""


# From files to pieces ---------------------------------------------------------------------------------------


class RunningTable(Table):
    """Running text as a table: all files are one text, and its rows are the lines, each with its end.

    A file ends with the end of a line, unless it is the last. A line of more than 4,096 characters is several
    rows.
    """

    def __init__(self, names: Sequence[str], config: DataConfig) -> None:
        super().__init__(names, config, [TEXT])
        for source in self.sources:
            if source.format not in ("txt", ""):
                raise UserError(
                    what=f"{source.name}: this is a table, but task.flow is text.",
                    why=(
                        "Running text is read from .txt files, line ends included; each row of a table is a"
                        " text of its own."
                    ),
                    fix="Save the text as .txt, or train with task.flow=rows.",
                )

    @functools.cached_property
    def found(self) -> dict[str, str]:
        return {"text": "text"}

    def __iter__(self) -> Iterator[Row | Bad]:
        for source in self.sources:
            place, text, blank = Place(source.name, 1), "", True
            for number, line in Lines(source, self.config.encoding, self.config.longest_line):
                place = Place(source.name, number)
                if line is None:
                    yield self._too_long(source, number)
                    continue
                for text in cut_line(line[:-2] + "\n" if line.endswith("\r\n") else line):
                    blank = blank and text.isspace()
                    yield Row(place, {"text": text}, {"text": text})
            if blank:
                raise UserError(
                    what=f"{source.name}: this file is empty.",
                    why="There is nothing to read.",
                    fix="Check that it was written or downloaded in full.",
                )
            if not text.endswith("\n") and source is not self.sources[-1]:
                yield Row(place, {"text": "\n"}, {"text": "\n"})


def cut_line(line: str, most: int = LONGEST_PIECE) -> Iterator[str]:
    """A line in parts of at most so many characters, each cut before a space if there is one in its second
    half."""
    while len(line) > most:
        space = line.rfind(" ", most // 2, most)
        end = most if space < 0 else space
        yield line[:end]
        line = line[end:]
    if line:
        yield line


def held_at_the_end(sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pieces are held out: those that begin in the last tenth of the characters."""
    starts = np.cumsum(sizes) - sizes
    held: NDArray[np.bool_] = starts >= (1 - HELD) * sizes.sum()
    return held


# From pieces to ids -----------------------------------------------------------------------------------------


def encode_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
    """Ids of pieces of a stream; a piece without any (a blank line, to a tokenizer that drops line ends) has
    an empty row."""
    return tokenizer.encode(texts, empty=True)


def encode_text(tokenizer: Tokenizer, text: str) -> NDArray[np.int64]:
    """The ids of a text as they would stand in a stream."""
    return np.asarray(encode_pieces(tokenizer, split_text(text)).values, np.int64)


def split_text(text: str) -> list[str]:
    """A text as the pieces it would have in a file."""
    lines = text.split("\n")
    whole = [line + "\n" for line in lines[:-1]] + [lines[-1]]
    return [part for line in whole for part in cut_line(line)]


def keeps_lines(tokenizer: Tokenizer) -> bool:
    """Whether the ends of lines are among the ids."""
    return bool(tokenizer.encode(["\n"], empty=True).sizes()[0])


def opening_of(tokenizer: Tokenizer) -> int:
    """What stands before the first id of a stream: the end of a line, where lines are kept, else a full stop.

    Both are known from the training text, which BOS would not be: a stream starts only once.
    """
    for text in ("\n", "."):
        ids = tokenizer.encode([text], empty=True).values
        if len(ids) and ids[-1] != UNK:
            return int(ids[-1])
    return BOS


# Batches ----------------------------------------------------------------------------------------------------

START, WIDTH, FOLLOWS = range(3)
"""Columns of a batch of a stream (B 3): where each row starts, how many ids it has, whether it goes on from
the last batch."""


class Streams(Plan):
    """Parallel streams for truncated backpropagation: each row goes on where the same row of the batch before
    it ended.

    The text is a ring, cut into `rows` stretches of equal length from a place that (seed, epoch) decides. A
    step takes the next `context` ids of every stretch, or a little fewer, so that all steps of an epoch are
    alike.
    """

    carries = True

    def __init__(self, length: int, context: int, rows: int, seed: int) -> None:
        self.rows = max(1, min(rows, length // context))
        super().__init__(np.full(self.rows, context), self.rows * context, seed)
        self.length, self.context = length, context

    def batches(self, number: int) -> list[Rows]:
        stretch = self.length // self.rows
        steps = -(-stretch // self.context)
        edges = np.rint(np.linspace(0, stretch, steps + 1)).astype(np.int64)
        first = int(_random(self.seed, number).integers(self.length)) + stretch * np.arange(self.rows)
        return [
            np.stack(
                [(first + edge) % self.length, np.full(self.rows, end - edge), np.full(self.rows, step > 0)],
                axis=1,
            )
            for step, (edge, end) in enumerate(itertools.pairwise(edges))
        ]


class Blocks(Plan):
    """Blocks of `context` ids, each by itself, in a new order and cut at other places in every epoch.

    Less than two blocks' worth of ids is left out of an epoch, at both ends of the text.
    """

    def __init__(self, length: int, context: int, rows: int, seed: int) -> None:
        self.rows, self.context = max(1, rows), min(context, length)
        super().__init__(np.full(self.rows, self.context), self.rows * self.context, seed)
        self.length = length

    def batches(self, number: int) -> list[Rows]:
        random = _random(self.seed, number)
        count = max(1, self.length // self.context - 1)
        first = int(random.integers(self.length - count * self.context + 1))
        starts = first + self.context * random.permutation(count)
        blocks = np.stack([starts, np.full(count, self.context), np.zeros(count, np.int64)], axis=1)
        return np.array_split(blocks, -(-count // self.rows))


def _random(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))


def stretches(ids: NDArray[Any], rows: Rows, opening: int) -> NDArray[np.int64]:
    """The ids of a batch (B W+1): of each row the one before it, which is `opening` at the start of the text,
    and its own."""
    width = int(rows[0, WIDTH])
    places = rows[:, START, None] + np.arange(-1, width)
    found = np.asarray(ids[places % len(ids)], np.int64)
    found[rows[:, START] == 0, 0] = opening
    return found
