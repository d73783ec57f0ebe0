"""Sources and targets of words, as ids: what labs about writing learn from."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqlab.answers.exercises import padded
from seqlab.answers.searching import NEVER
from seqlab.data.batches import Rows
from seqlab.data.read import DataConfig, Table
from seqlab.data.tokenizers import BOS, EOS, SPECIAL
from seqlab.decode import DecodeConfig, Hypothesis, SpecialIds, by_length, decode, decode_all
from seqlab.errors import UserError
from seqlab.fields.source import SOURCE
from seqlab.fields.target import TARGET
from seqlab.likelihood import decoder_of
from seqlab.model import Model
from seqlab.objectives import CrossEntropy
from seqlab.parts import Batch

SPECIAL_IDS = SpecialIds(start=BOS, end=EOS, banned=NEVER)
FIRST = len(SPECIAL)
"""The id of word 0."""
Words = Sequence[int]


@dataclass(frozen=True)
class IdPairs:
    """Words by number, from 0 on."""

    sources: Sequence[Words]
    targets: Sequence[Words]

    def batch(self, rows: Rows) -> Batch:
        """Some of the pairs, padded: each text ends in [EOS], what is written begins with [BOS]."""
        read = padded([np.array([*(FIRST + word for word in self.sources[row]), EOS]) for row in rows])
        told = padded([np.array([BOS, *(FIRST + word for word in self.targets[row]), EOS]) for row in rows])
        return Batch({"text": read}, torch.from_numpy(rows), {"written": told})

    def loss(self, model: Model, rows: Rows, smoothing: float = 0.0) -> Tensor:
        """−log p of an id of the targets of these rows, [EOS] included."""
        batch = self.batch(rows)
        term = CrossEntropy("written", smoothing)(model(batch), batch)
        return term.total / term.count

    def write(self, model: Model, how: DecodeConfig) -> list[Hypothesis]:
        """What a model writes for each source; its ids are numbers of words."""
        sizes = np.array([len(source) + 1 for source in self.sources])
        found = search_ids(model, sizes, self.batch, how)
        return [words_of(best[0]) for best in found]


def search_ids(
    model: Model, sizes: np.ndarray, batch_of: Callable[[Rows], Batch], how: DecodeConfig
) -> list[list[Hypothesis]]:
    """What decoding finds for each source, where every id is a word and there is no tokenizer."""

    def one(rows: Sequence[int]) -> list[list[Hypothesis]]:
        batch = batch_of(np.array(rows))
        read = next(iter(batch.inputs.values()))
        return decode(
            decoder_of(model),
            model.encoded(batch)[1],
            SPECIAL_IDS.opening([[]] * len(rows)),
            config=how,
            special=SPECIAL_IDS,
            longest=how.limits(read.mask.sum(dim=1)),
            numbers=list(rows),
        )

    return decode_all(by_length(sizes.tolist()), one, how.workers)


def words_of(found: Hypothesis) -> Hypothesis:
    """The same with numbers of words instead of ids."""
    ids, after = (tuple(number - FIRST for number in some) for some in (found.ids, found.after))
    return Hypothesis(ids, found.score, found.logp, found.finished, after)


def repetition(texts: Sequence[Words]) -> float:
    """The share of all words that are the word before them again: "suis suis suis" has 2 of 3."""
    words = sum(len(text) for text in texts)
    again = sum(one == two for text in texts for one, two in itertools.pairwise(text))
    return again / max(1, words)


def epochs_of(count: int, rows: int, at_once: int, seed: int) -> list[Rows]:
    """The rows of each step of so many epochs, shuffled anew in each."""
    generator = np.random.default_rng(seed)
    steps: list[Rows] = []
    for _ in range(count):
        order = generator.permutation(rows)
        steps += [order[begin : begin + at_once] for begin in range(0, rows, at_once)]
    return steps


# Texts ------------------------------------------------------------------------------------------------------

Texts = list[tuple[str, str]]
COMMON = 3000
"""Words of a side that are told apart; the others are UNKNOWN."""
UNKNOWN = "(rare)"


def read_texts(names: Sequence[str], least: int) -> Texts:
    """The different pairs of texts in the user's files, shuffled."""
    rows = Table(names, DataConfig(), (SOURCE, TARGET)).rows()
    pairs = sorted({(row.cells["source"], row.cells["target"]) for row in rows})
    if len(pairs) < least:
        raise UserError(
            what=f"{', '.join(names)}: there are only {len(pairs):,} different pairs.",
            why="Some are needed to learn from, and enough to test on.",
            fix=f"Give {least:,} pairs or more, or leave --data out.",
        )
    random.Random(0).shuffle(pairs)
    return pairs


class WordNumbers:
    """Words between spaces as numbers, the commonest first; 0 is UNKNOWN."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts = Counter(word for text in texts for word in text.split())
        common = sorted(counts, key=lambda word: (-counts[word], word))[:COMMON]
        self.words = [UNKNOWN, *common]
        self.numbers = {word: number for number, word in enumerate(self.words)}

    def numbered(self, text: str) -> list[int]:
        return [self.numbers.get(word, 0) for word in text.split()]

    def text(self, numbers: Words) -> str:
        return " ".join(self.words[number] for number in numbers)
