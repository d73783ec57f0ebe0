"""How words that are apart already become numbers, one position to be answered for each word.

    tokens      text: an id for each word
    characters  text: an id for each word; characters: nested ids, the characters of each word
    pieces      text: ids of subwords; first: where the first piece of each word stands

Words are cut into pieces where data.tokens is not of kind words: a pretrained body has learnt subwords.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from seqlab.data.read import DataConfig
from seqlab.data.readings import CHARACTERS, shorten
from seqlab.data.store import Ragged, marked, offsets_of
from seqlab.data.tokenizers import CLS, SEP, SPECIAL, UNK, CharacterTokens, Tokenizer, WordTokens
from seqlab.errors import UserError
from seqlab.folder import TOKENIZER

Sentences = Sequence[Sequence[str]]
MARKS: dict[str, tuple[list[int], list[int]]] = {
    "none": ([], []),
    "cls": ([CLS], [SEP]),
    "sep": ([SEP], [SEP]),
}
"""What stands before and after a row of pieces, by data.marks."""


class WordReading:
    """Words to ids. It is ready after `train` or `load`."""

    def __init__(self, config: DataConfig, reads: str) -> None:
        self.config, self.reads = config, reads
        self.whole = isinstance(config.tokens, WordTokens)
        """Whether each word is one position."""
        if reads not in ("tokens", "characters") or (reads == "characters" and not self.whole):
            raise UserError(
                what=f'model.input reads {reads}, and data.tokens is of kind "{config.tokens.kind}".',
                why="Each word is answered for: it is read as one token, with its characters or without, or"
                " in pieces, of which the first answers.",
                fix="Set model.input.kind=tokens, or data.tokens.kind=words.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that a model reads."""
        return ("text", "characters") if self.reads == "characters" else ("text",)

    @property
    def symbols(self) -> dict[str, int]:
        sizes = {"text": self.tokenizer.size}
        return sizes | {"characters": self.characters.size} if self.reads == "characters" else sizes

    def train(self, rows: Iterable[Sequence[str]]) -> WordReading:
        some = [list(words) for words in rows]
        self.tokenizer = self.config.tokens.train_words(some)
        if self.reads == "characters":
            self.characters = CharacterTokens().train(word for words in some for word in words)
        return self

    def encode(self, rows: Sentences) -> dict[str, Ragged]:
        if not self.whole:
            return self._pieces(rows)
        sizes = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
        numbers: dict[str, int] = {}
        flat = (numbers.setdefault(word, len(numbers)) for words in rows for word in words)
        order = np.fromiter(flat, np.int64, int(sizes[-1]))
        ids = np.array(self.tokenizer.ids(list(numbers)), np.int64)
        fields = {"text": Ragged(ids[order], sizes)}
        if self.reads == "characters":
            most = self.config.word_length
            spelt = self.characters.encode([word[:most] for word in numbers])
            inner = shorten(spelt, most).take(order)
            fields["characters"] = Ragged(inner.values, inner.offsets, sizes)
        return fields

    def pieces(self, words: Sequence[str]) -> list[str]:
        """What stands at each position, for display."""
        if self.whole:
            return list(words)
        before, after = ([SPECIAL[mark] for mark in marks] for marks in MARKS[self.config.marks])
        return [*before, *(piece.strip() for piece in self.tokenizer.pieces(" ".join(words))), *after]

    def _pieces(self, rows: Sentences) -> dict[str, Ragged]:
        """Subwords of the words joined by spaces; a word begins with the first piece that reaches into it."""
        texts = [" ".join(words) for words in rows]
        before, after = MARKS[self.config.marks]
        ids, firsts = [], []
        encodings = self.tokenizer.inner.encode_batch(texts, add_special_tokens=False)
        for words, found in zip(rows, encodings, strict=True):
            starts = offsets_of(np.array([len(word) + 1 for word in words]))[:-1]
            ends = np.array([end for _, end in found.offsets] or [1])
            places = np.minimum(np.searchsorted(ends, starts, side="right"), len(ends) - 1)
            ids.append(found.ids or [UNK])
            firsts.append((places + len(before)).tolist())
        text = marked(Ragged.of(ids, np.int64), before, after)
        return {"text": text, "first": Ragged.of(firsts, np.int64)}

    @property
    def longest(self) -> int:
        """Positions of a row to learn from, at the most: of pieces as many as their body has learnt."""
        return sys.maxsize if self.whole else self.config.length

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if self.reads == "characters":
            self.characters.save(folder / CHARACTERS)

    def load(self, folder: Path) -> WordReading:
        self.tokenizer = Tokenizer.load(folder / TOKENIZER)
        if self.reads == "characters":
            self.characters = Tokenizer.load(folder / CHARACTERS)
        return self
