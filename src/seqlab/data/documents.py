"""Documents of sentences, as pretraining reads them: where a document ends, where a sentence ends, pairs of
segments.

In a store the sentences of a document stand one after the other, and [SEP] after the last one. So
any stretch of the store's ids is a stretch of text, in which [SEP] says that another document begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqlab.data import sentences
from seqlab.data.batches import Plan, Rows, cut_into_batches
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.tokenizers import SEP, Tokenizer


def documents(texts: Iterable[str], running: bool) -> Iterator[str]:
    """Each text is a document; in running text, whose texts are lines, a blank line ends one."""
    if not running:
        yield from texts
        return
    lines: list[str] = []
    for line in texts:
        if not line.isspace():
            lines.append(line)
        elif lines:
            yield "".join(lines)
            lines = []
    if lines:
        yield "".join(lines)


def cut_sentences(text: str) -> list[str]:
    """The text in parts, one a sentence, which put together are the text again; what is between two is the
    second's."""
    ends, place = [], 0
    for sentence in sentences.split(text):
        place = text.index(sentence, place) + len(sentence)
        ends.append(place)
    edges = [0, *ends[:-1], len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def encode_documents(tokenizer: Tokenizer, texts: list[str]) -> tuple[Ragged, list[str]]:
    """Documents of sentences of ids, nested, each document with [SEP] after it; and all their sentences."""
    apart = [cut_sentences(text) for text in texts]
    flat = [sentence for some in apart for sentence in some]
    rows = tokenizer.encode(flat)
    outer = offsets_of(np.array([len(some) for some in apart], np.int64))
    sizes = rows.sizes()
    sizes[outer[1:] - 1] += 1
    offsets = offsets_of(sizes)
    values = np.full(offsets[-1], SEP, np.int64)
    inside = np.ones(len(values), bool)
    inside[offsets[outer[1:]] - 1] = False
    values[inside] = rows.values
    return Ragged(values, offsets, outer), flat


# Pairs of segments ------------------------------------------------------------------------------------------

A_START, A_SIZE, B_START, B_SIZE, NEXT = range(5)
"""Columns of a row of pairs: where each segment starts and how many ids it has, and whether the second
follows the first."""
NEAR = 16
"""So many stretches with seconds of about the same length are looked at for one to exchange them with."""


class SegmentPair(NamedTuple):
    """Sentences of a document: `first` up to `middle` are the first segment, `middle` up to `stop` the
    second."""

    first: int
    middle: int
    stop: int
    document: int


class SegmentPairs(Plan):
    """Two segments of sentences: half of the seconds follow their firsts in the text, half are from
    elsewhere.

    As Devlin et al. 2019: a document is cut into stretches of about `room` ids, and each is cut in two
    between sentences. Only stretches of two and more sentences are used. Unlike there, half of the stretches
    then exchange their seconds, two and two of different documents whose seconds are about as long. So the
    seconds are the same ones on both sides: neither an opening nor a heading, neither a length nor the end of
    a document gives away which are from elsewhere. A first segment that is too long loses its beginning, a
    second one its end.
    """

    def __init__(self, store: Ragged, room: int, budget: int, seed: int) -> None:
        assert store.outer is not None
        super().__init__(np.full(1, room + 3), budget, seed)
        self.starts = np.asarray(store.offsets, np.int64)
        """Where each sentence starts; the [SEP] at the end of a document belongs to no segment."""
        self.outer = np.asarray(store.outer, np.int64)
        self.ids = store.values
        self.room = room

    @property
    def usable(self) -> bool:
        """Whether two sentences have another before them in their document, so that there may be something to
        exchange."""
        return len(self.starts) - len(self.outer) > 1

    def batches(self, number: int) -> list[Rows]:
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, number])))
        cuts = list(self._stretches(random))
        rows = np.array(
            [self._row(one, cuts[other]) for one, other in zip(cuts, self._whose(cuts, random), strict=True)]
        )
        rows = rows.astype(np.int64).reshape(-1, 5)
        sizes = rows[:, A_SIZE] + rows[:, B_SIZE] + 3
        order = np.argsort(sizes + random.random(len(sizes)), kind="stable")
        batches = cut_into_batches(order, sizes, self.budget, None)
        return [rows[batches[place]] for place in random.permutation(len(batches))]

    def _stretches(self, random: np.random.Generator) -> Iterator[SegmentPair]:
        starts, outer = self.starts, self.outer.tolist()
        for document in random.permutation(len(outer) - 1).tolist():
            first, last = outer[document], outer[document + 1]  # sentences of this document
            while last - first > 1:
                room = self.room if random.random() > 0.1 else int(random.integers(2, self.room + 1))
                stop = int(np.searchsorted(starts, starts[first] + room, side="right")) - 1
                stop = min(max(stop, first + 2), last)
                yield SegmentPair(first, int(random.integers(first + 1, stop)), stop, document)
                first = stop

    def _whose(self, cuts: Sequence[SegmentPair], random: np.random.Generator) -> list[int]:
        """For each pair the index of the one whose second segment it gets; about half of them are swapped,
        two and two."""
        chosen = random.permutation(len(cuts))[: 2 * int(len(cuts) / 4 + random.random())]
        sizes = np.array([self.starts[some.stop] - self.starts[some.middle] for some in cuts], np.int64)
        alone: list[int] = chosen[np.argsort(sizes[chosen], kind="stable")].tolist()
        whose = list(range(len(cuts)))
        for apart in (True, False):  # within a document, where nothing else is left
            waiting: list[int] = []
            for one in alone:
                near = range(max(0, len(waiting) - NEAR), len(waiting))
                place = next(
                    (place for place in near if self._strange(cuts[one], cuts[waiting[place]], apart)), None
                )
                if place is None:
                    waiting.append(one)
                else:
                    other = waiting.pop(place)
                    whose[one], whose[other] = other, one
            alone = waiting
        return whose

    def _strange(self, one: SegmentPair, other: SegmentPair, apart: bool) -> bool:
        """Whether their seconds begin with different sentences and, if that is asked, are of different
        documents."""
        if apart and one.document == other.document:
            return False
        first, second = (
            self.ids[self.starts[middle] : self.starts[middle + 1]] for middle in (one.middle, other.middle)
        )
        return not np.array_equal(
            first[first != SEP], second[second != SEP]
        )  # the [SEP] at a document's end is no part

    def _row(self, one: SegmentPair, other: SegmentPair) -> tuple[int, int, int, int, int]:
        """The first of one and the second of the other."""
        starts = self.starts
        a, b = int(starts[one.first]), int(starts[other.middle])
        a_size = int(starts[one.middle]) - a
        ended = other.stop == self.outer[other.document + 1]  # then its [SEP] stands before the stop
        b_size = int(starts[other.stop]) - b - int(ended)
        keep = min(a_size, max(self.room // 2, self.room - b_size))
        return a + a_size - keep, keep, b, min(b_size, self.room - keep), int(one.middle == other.middle)


def sentence_starts(offsets: NDArray[np.int64], start: int, size: int) -> NDArray[np.int64]:
    """Where sentences begin within a stretch of the ids, counted from its start."""
    low, high = np.searchsorted(offsets, [start, start + size])
    return np.asarray(offsets[low:high], np.int64) - start
