"""Which examples go together: batches of similar length, of at most so many padded positions.

The batches of an epoch follow from (seed, epoch) alone, so training can go on at any step, and any process
can work out the batches of all the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seqlab.data.store import Ragged, pad_rows
from seqlab.seq import Nested, Seq

Rows = NDArray[np.int64]
Seeds = tuple[int, int]
"""The seed of the run and the epoch: all that random choices follow from, beside the row itself."""
FIXED: Seeds = (0, 0)
Item = TypeVar("Item")

JITTER = 0.1
"""How much longer a row may seem when rows are sorted by length: enough to give each epoch other batches."""


@dataclass(frozen=True)
class Position:
    """How far training has come: `index` batches of epoch `epoch` are done. `dataclasses.asdict` gives it to
    JSON."""

    epoch: int = 0
    index: int = 0


class Plan:
    """All batches of all epochs."""

    carries = False
    """True when the rows of a batch go on where those of the batch before it ended."""

    def __init__(
        self,
        sizes: NDArray[np.int64],
        budget: int,
        seed: int,
        most_rows: int | None = None,
        beside: NDArray[np.int64] | None = None,
    ) -> None:
        """sizes: positions of each row. budget: rows × longest row of a batch, at most (a longer row comes
        alone).

        beside: positions that each row has on its other side; the longer side is what counts for the budget.
        """
        self.sizes = np.asarray(sizes, np.int64)
        self.beside = None if beside is None else np.asarray(beside, np.int64)
        self.longer = self.sizes if self.beside is None else np.maximum(self.sizes, self.beside)
        self.budget, self.seed, self.most_rows = budget, seed, most_rows
        self._made: tuple[int, list[Rows]] | None = None

    def epoch(self, number: int) -> list[Rows]:
        """The row numbers of each batch; those of the epoch that was asked for last are at hand."""
        if self._made is None or self._made[0] != number:
            self._made = number, self.batches(number)
        return self._made[1]

    def batches(self, number: int) -> list[Rows]:
        """The row numbers of each batch of an epoch, every row once."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, number])))
        noise = random.random(len(self.sizes))
        jittered = self.sizes * (1 + JITTER * noise) + noise
        if self.beside is None:
            order = np.argsort(jittered, kind="stable")
        # rows of one size by their other side, up and down in turn, so that neighbours are always alike
        else:
            turns = np.where(jittered.astype(np.int64) % 2, 1, -1)
            order = np.lexsort((turns * (self.beside + noise), jittered.astype(np.int64)))
        batches = cut_into_batches(order, self.longer, self.budget, self.most_rows)
        return [batches[place] for place in random.permutation(len(batches))]

    def after(self, position: Position) -> Iterator[tuple[Position, Rows]]:
        """Endless batches from there on, each with the position reached once it is done."""
        epoch, done = position.epoch, position.index
        while True:
            batches = self.epoch(epoch)
            for index in range(done, len(batches)):
                last = index + 1 == len(batches)
                yield Position(epoch + 1, 0) if last else Position(epoch, index + 1), batches[index]
            epoch, done = epoch + 1, 0


def in_order(sizes: NDArray[np.int64], budget: int, most_rows: int | None = None) -> list[Rows]:
    """Batches for prediction, shortest rows first: the caller puts the answers back by row number."""
    sizes = np.asarray(sizes, np.int64)
    return cut_into_batches(np.argsort(sizes, kind="stable"), sizes, budget, most_rows)


def cut_into_batches(order: Rows, sizes: NDArray[np.int64], budget: int, most_rows: int | None) -> list[Rows]:
    """The rows in this order, cut so that rows × longest stays within the budget wherever a batch has two
    rows."""
    ordered = sizes[order]
    batches: list[Rows] = []
    start = 0
    while start < len(order):
        most = max(1, budget // max(1, int(ordered[start])))
        some = ordered[start : start + min(most, most_rows or most)]
        padded = np.maximum.accumulate(some) * np.arange(
            1, len(some) + 1
        )  # never falls, so the first row too many ends it
        count = max(1, int(np.searchsorted(padded, budget, side="right")))
        batches.append(order[start : start + count])
        start += count
    return batches


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    chunk: list[Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def inputs(fields: Mapping[str, Ragged], rows: Rows) -> dict[str, Seq | Nested]:
    """These rows of every field, padded: what a batch gives to a model."""
    return {name: pad_rows(ragged, rows) for name, ragged in fields.items()}
