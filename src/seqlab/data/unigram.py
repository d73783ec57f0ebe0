"""Which pieces a unigram tokenizer has, and how likely each is (Kudo 2018, "Subword Regularization", section
3.2).

All substrings that are common enough start as pieces. Expectation-maximisation over every way of cutting
every word estimates their probabilities, and the least expected quarter is dropped, until as many are left as
are wanted. Where we differ: a piece is dropped for its low expected count, not for the likelihood lost
without it; only the most common words are read. Sums run in a fixed order, so the same words give the same
pieces with the same scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LONGEST_PIECE = 16
LONGEST_WORD = 32
"""Longer words (or text without spaces) are learnt from in parts of this many characters."""
MOST_WORDS = 60_000
ROUNDS = 2
"""Rounds of expectation-maximisation between two prunings."""


def learn_pieces(words: Mapping[str, int], wanted: int) -> list[tuple[str, float]]:
    """(piece, log probability), most likely first; single characters always stay, so seen text is never
    unknown."""
    common = _parts(words)
    pieces, weights = _seeds(common, 8 * wanted)
    lattice = _Lattice.of(list(common), pieces)
    counts = np.array(list(common.values()), np.float64)
    single = np.array([len(piece) == 1 for piece in pieces])
    alive = np.ones(len(pieces), bool)
    expected = np.array(weights, np.float64)
    while True:
        for _ in range(ROUNDS):
            expected = np.where(
                alive, np.maximum(lattice.expect(expected / expected.sum(), counts), 1e-9), 0.0
            )
        if alive.sum() <= max(wanted, single.sum()):
            break
        target = max(wanted, int(single.sum()), int(0.75 * alive.sum()))
        droppable = np.flatnonzero(alive & ~single)
        order = droppable[
            np.argsort(expected[droppable], kind="stable")
        ]  # ties: the piece that sorts first goes first
        alive[order[: int(alive.sum()) - target]] = False
        expected[~alive] = 0.0
    logs = np.log(expected[alive] / expected.sum())
    kept = [piece for piece, stays in zip(pieces, alive, strict=True) if stays]
    return sorted(
        zip(kept, (round(float(log), 6) for log in logs), strict=True), key=lambda pair: (-pair[1], pair[0])
    )


def _parts(words: Mapping[str, int]) -> dict[str, int]:
    """The most common words, cut to a bounded length, in a fixed order."""
    common: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(0, len(word), LONGEST_WORD):
            common[word[start : start + LONGEST_WORD]] += count
    best = sorted(common.items(), key=lambda pair: (-pair[1], pair[0]))
    rare_characters = {character for word, _ in best for character in word}
    kept = dict(best[:MOST_WORDS])
    for character in sorted(rare_characters - {character for word in kept for character in word}):
        kept[character] = 1
    return kept


def _seeds(words: Mapping[str, int], most: int) -> tuple[list[str], list[int]]:
    """Every character, and the substrings that cover most text, with their counts; sorted by text."""
    counts: dict[str, int] = {}
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + LONGEST_PIECE) + 1):
                part = word[start:end]
                counts[part] = counts.get(part, 0) + count
    single = [part for part in counts if len(part) == 1]
    longer = [part for part, count in counts.items() if len(part) > 1 and count > 1]
    longer.sort(key=lambda part: (-counts[part] * len(part), part))
    pieces = sorted(single + longer[:most])
    return pieces, [counts[piece] for piece in pieces]


@dataclass(frozen=True)
class _Lattice:
    """Every place where a piece fits into a word, as edges from one position of the word to a later one."""

    words: int
    word: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    piece: NDArray[np.int64]
    length: NDArray[np.int64]
    """Characters of each word."""

    @staticmethod
    def of(words: list[str], pieces: list[str]) -> _Lattice:
        number = {piece: place for place, piece in enumerate(pieces)}
        edges = [
            (row, start, end, found)
            for row, word in enumerate(words)
            for start in range(len(word))
            for end in range(start + 1, min(len(word), start + LONGEST_PIECE) + 1)
            if (found := number.get(word[start:end])) is not None
        ]
        word, start, end, piece = np.array(edges, np.int64).reshape(-1, 4).T.copy()
        return _Lattice(
            len(words), word, start, end, piece, np.array([len(word) for word in words], np.int64)
        )

    def expect(self, probability: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """How often each piece is used, over all ways of cutting all words (forward-backward)."""
        longest = int(self.length.max())
        by_end, by_start = np.argsort(self.end, kind="stable"), np.argsort(self.start, kind="stable")
        chance = probability[self.piece]
        forward = np.zeros((longest + 1, self.words))
        forward[0] = 1.0
        ends = np.searchsorted(self.end[by_end], np.arange(longest + 2))
        for place in range(1, longest + 1):
            edges = by_end[ends[place] : ends[place + 1]]
            inflow = forward[self.start[edges], self.word[edges]] * chance[edges]
            forward[place] = np.bincount(self.word[edges], inflow, self.words)
        backward = np.zeros((longest + 1, self.words))
        backward[self.length, np.arange(self.words)] = 1.0
        starts = np.searchsorted(self.start[by_start], np.arange(longest + 1))
        for place in range(longest - 1, -1, -1):
            edges = by_start[starts[place] : starts[place + 1]]
            outflow = backward[self.end[edges], self.word[edges]] * chance[edges]
            backward[place] += np.bincount(self.word[edges], outflow, self.words)
        whole = backward[0]  # probability of each word
        use = forward[self.start, self.word] * chance * backward[self.end, self.word] / whole[self.word]
        return np.bincount(self.piece, use * counts[self.word], len(probability)).astype(np.float64)
