"""Documents of sentences, as pretraining reads them: where a document ends, where a sentence ends, pairs of segments.

In a store the sentences of a document stand one after the other, and the mark [SEP] after the last one. So any stretch
of the store's ids is a stretch of text, in which [SEP] says that another document begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from seqlab.data import sentences
from seqlab.data.batches import Plan, Rows, cut
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.text import SEP, Tokenizer


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
    """The text in parts, one a sentence, which put together are the text again; what is between two is the second's."""
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


# Pairs of segments ---------------------------------------------------------------------------------------------------

Row = tuple[int, int, int, int, int]
A_START, A_SIZE, B_START, B_SIZE, NEXT = range(5)
"""Columns of a row of pairs: where each segment starts and how many ids it has, and whether the second follows the first."""


class Pairs(Plan):
    """Two segments of sentences: half of the seconds follow their firsts in the text, half are from elsewhere.

    As Devlin et al. 2019: a document is cut into stretches of about `room` ids, each is cut in two between sentences, and
    with a chance of one half a stretch of another document replaces its second part, which then begins the next stretch.
    Only stretches of two and more sentences are used, so that both halves are of one kind. For the same reason and unlike
    there, a second from elsewhere begins with any sentence that has another before it in its document: a heading or an
    opening would give it away. A first segment that is too long loses its beginning, a second one its end.
    """

    def __init__(self, store: Ragged, room: int, budget: int, seed: int) -> None:
        assert store.outer is not None
        super().__init__(np.full(1, room + 3), budget, seed)
        self.starts = np.asarray(store.offsets, np.int64)
        """Where each sentence starts; the mark at the end of a document belongs to no segment."""
        self.outer = np.asarray(store.outer, np.int64)
        self.seconds = np.delete(np.arange(len(self.starts) - 1), self.outer[:-1])
        """The sentences with another before them in their document: what a second may begin with."""
        self.ids = store.values
        self.room = room

    @property
    def usable(self) -> bool:
        """Whether any document has two sentences, and there is another place to take a second from."""
        return len(self.seconds) > 1

    def epoch(self, number: int) -> list[Rows]:
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, number])))
        rows = np.array(list(self._pairs(random)), np.int64).reshape(-1, 5)
        sizes = rows[:, A_SIZE] + rows[:, B_SIZE] + 3
        order = np.argsort(sizes + random.random(len(sizes)), kind="stable")
        batches = cut(order, sizes, self.budget, None)
        return [rows[batches[place]] for place in random.permutation(len(batches))]

    def _pairs(self, random: np.random.Generator) -> Iterator[Row]:
        starts, outer = self.starts, self.outer.tolist()
        for document in random.permutation(len(outer) - 1).tolist():
            first, last = outer[document], outer[document + 1]                 # sentences of this document
            while last - first > 1:
                room = self.room if random.random() > 0.1 else int(random.integers(2, self.room + 1))
                stop = int(np.searchsorted(starts, starts[first] + room, side="right")) - 1
                stop = min(max(stop, first + 2), last)
                middle = int(random.integers(first + 1, stop))
                if random.random() < 0.5:
                    yield self._row(first, middle, middle, stop, document, 1)
                    first = stop
                else:
                    left = room - int(starts[middle] - starts[first])
                    other, start, end = self._elsewhere(document, middle, left, random)
                    yield self._row(first, middle, start, end, other, 0)
                    first = middle

    def _elsewhere(self, document: int, middle: int, room: int, random: np.random.Generator) -> tuple[int, int, int]:
        """A stretch of about `room` ids that does not begin like what follows here: of another document, where there is one."""
        outer, starts = self.outer, self.starts
        before = int(outer[document]) - document                               # seconds of earlier documents
        here = int(outer[document + 1] - outer[document]) - 1
        others = len(self.seconds) - here
        for tries in itertools.count():
            place = int(random.integers(others or here))
            start = int(self.seconds[place + here if others and place >= before else place])
            if start != middle and (tries > 20 or not self._same(start, middle)):
                break
        other = int(np.searchsorted(outer, start, side="right")) - 1
        stop = int(np.searchsorted(starts, starts[start] + room, side="right")) - 1
        return other, start, int(min(max(stop, start + 1), outer[other + 1]))

    def _same(self, one: int, two: int) -> bool:
        """Whether two sentences have the same ids; the mark at a document's end is not among them."""
        first, second = (self.ids[self.starts[place] : self.starts[place + 1]] for place in (one, two))
        return bool(np.array_equal(first[first != SEP], second[second != SEP]))

    def _row(self, first: int, middle: int, start: int, end: int, other: int, follows: int) -> Row:
        """Sentences first to middle, and start to end of the document `other`."""
        starts = self.starts
        a, b = int(starts[first]), int(starts[start])
        a_size = int(starts[middle]) - a
        b_size = int(starts[end]) - b - int(end == self.outer[other + 1])     # without the mark at the document's end
        keep = min(a_size, max(self.room // 2, self.room - b_size))
        return a + a_size - keep, keep, b, min(b_size, self.room - keep), follows


def sentence_starts(offsets: NDArray[np.int64], start: int, size: int) -> NDArray[np.int64]:
    """Where sentences begin within a stretch of the ids, counted from its start."""
    low, high = np.searchsorted(offsets, [start, start + size])
    return np.asarray(offsets[low:high], np.int64) - start
