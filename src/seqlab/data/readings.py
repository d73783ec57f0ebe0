"""How a text becomes numbers, by what the model's input reads: tokens, sentences, characters or grams.

A `Reading` is learnt from the training texts, saved in the run, and turns texts into named fields:

    tokens      text: ids; of a pair also segments: 0 for the first text and [SEP], 1 for the second
    sentences   text: nested ids, sentences of words
    characters  text: ids of words; characters: nested ids, the characters of each word
    grams       grams: buckets of hashed 1-2-grams; weights: their TF-IDF weights
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqlab.data import sentences
from seqlab.data.hashed_grams import Document, HashedGrams
from seqlab.data.read import DataConfig
from seqlab.data.store import Ragged, concatenate, marked, offsets_of
from seqlab.data.tokenizers import CLS, EOS, SEP, SPECIAL, CharacterTokens, Tokenizer, texts_to_learn_from
from seqlab.errors import UserError
from seqlab.folder import TOKENIZER

CHARACTERS = "tokenizer.characters.json"
GRAMS = "grams.safetensors"

AnyPiece = TypeVar("AnyPiece")


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as numbers."""

    fields: dict[str, Ragged]
    cut: int
    """How many of the texts were longer than what is kept of them."""


class Reading(ABC):
    """One way to turn texts into fields. It is ready after `train` or `load`."""

    names: ClassVar[tuple[str, ...]] = ("text",)
    """The fields that it makes, at the most."""

    def __init__(self, config: DataConfig, outputs: int, ends: bool) -> None:
        self.config, self.outputs, self.ends = config, outputs, ends

    @property
    @abstractmethod
    def symbols(self) -> dict[str, int]:
        """How many different ids each field of ids has."""

    @abstractmethod
    def train(self, texts: Iterable[Document]) -> Reading:
        """Learn vocabularies from the training texts, read once; each is a text or a pair of texts."""

    @abstractmethod
    def encode(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> EncodedTexts:
        """The fields of these texts, or of these pairs of texts."""

    @abstractmethod
    def pieces(self, text: str, text2: str | None = None) -> list[list[str]]:
        """What stands at each position of the first field, for display: one list, or one for each
        sentence."""

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    def saved(self, folder: Path) -> Reading:
        """The same, once it is in the folder."""
        self.save(folder)
        return self

    @abstractmethod
    def load(self, folder: Path) -> Reading: ...


def reading(reads: str, config: DataConfig, *, outputs: int = 2, ends: bool = False) -> Reading:
    """The reading for an input that reads tokens, sentences, characters or grams. It has yet to be trained or
    loaded.

    outputs: how many numbers the model gives, which bounds the table of grams. ends: texts are kept whole,
    and [EOS] stands after each, as where another text is written for it.
    """
    if reads not in READINGS:
        raise UserError(
            what=f"model.input reads {reads}, but these data are text.",
            why="Its numbers are not those of words or characters.",
            fix="Set model.input.kind=tokens.",
        )
    return READINGS[reads](config, outputs, ends)


class TokensReading(Reading):
    """Pieces in a row; of a long text a third of what is kept comes from its head, the rest from its tail."""

    names: ClassVar[tuple[str, ...]] = ("text", "segments")
    tokenizer: Tokenizer

    @property
    def symbols(self) -> dict[str, int]:
        return {"text": self.tokenizer.size}

    def train(self, texts: Iterable[Document]) -> Reading:
        self.tokenizer = self.config.tokens.train(_flat(texts))
        return self

    def encode(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> EncodedTexts:
        first = self.tokenizer.encode(texts)
        if texts2 is None:
            kept = shorten(first, self._room)
            return EncodedTexts({"text": marked(kept, *self._marks)}, _shortened(first, kept))
        second = self.tokenizer.encode(texts2)
        text, most, most2 = join_pairs(first, second, self._room)
        before, after = self._marks
        segments = marked(Ragged(_segments(most, most2), text.offsets), [0] * len(before), [1] * len(after))
        return EncodedTexts(
            {"text": marked(text, before, after), "segments": segments},
            _cut_pairs(first, second, most, most2),
        )

    @property
    def _marks(self) -> tuple[list[int], list[int]]:
        """What stands before and after a text, or a pair of texts."""
        if self.ends:
            return [], [EOS]
        return {"none": ([], []), "cls": ([CLS], [SEP]), "sep": ([SEP], [SEP])}[self.config.marks]

    @property
    def _room(self) -> int:
        """Tokens that are kept beside the special ones."""
        if self.ends:
            return sys.maxsize
        return max(3, self.config.length - sum(map(len, self._marks)))

    def pieces(self, text: str, text2: str | None = None) -> list[list[str]]:
        first = self.tokenizer.pieces(text)
        before, after = ([SPECIAL[mark] for mark in marks] for marks in self._marks)
        if text2 is None:
            return [[*before, *_shorten_pieces(first, self._room), *after]]
        second = self.tokenizer.pieces(text2)
        most, most2 = _shares_of(first, second, self._room)
        return [
            [*before, *_shorten_pieces(first, most), SPECIAL[SEP], *_shorten_pieces(second, most2), *after]
        ]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def load(self, folder: Path) -> Reading:
        self.tokenizer = Tokenizer.load(folder / TOKENIZER)
        return self


class SentencesReading(TokensReading):
    """Sentences of words. A sentence that is too long goes on in the next one; of too many the middle ones
    go.

    Of a pair: the sentences of the first text, a sentence that is only [SEP], the sentences of the second.
    """

    def encode(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> EncodedTexts:
        first = self._sentences(texts)
        order = Ragged(
            np.arange(len(first.offsets) - 1), _outer(first)
        )  # of each example the numbers of its sentences
        if texts2 is None:
            kept = shorten(order, self.config.sentences)
            inner = Ragged(first.values, first.offsets).take(kept.values)
            return EncodedTexts(
                {"text": Ragged(inner.values, inner.offsets, kept.offsets)}, _shortened(order, kept)
            )
        second = self._sentences(texts2)
        order2 = Ragged(np.arange(len(second.offsets) - 1) + len(order.values), _outer(second))
        mark = len(order.values) + len(order2.values)  # the [SEP] sentence comes last in the pool
        kept, most, most2 = join_pairs(order, order2, self.config.sentences, mark)
        pool = concatenate(
            [Ragged(part.values, part.offsets) for part in (first, second)] + [Ragged.of([[SEP]], np.int64)]
        )
        inner = pool.take(kept.values)
        return EncodedTexts(
            {"text": Ragged(inner.values, inner.offsets, kept.offsets)},
            _cut_pairs(order, order2, most, most2),
        )

    def _sentences(self, texts: Sequence[str]) -> Ragged:
        """All sentences of all texts, nested, wrapped but not cut."""
        apart = [sentences.split(text) or [text] for text in texts]
        flat = self.tokenizer.encode([sentence for some in apart for sentence in some])
        most, sizes = self.config.sentence_length, flat.sizes()
        parts = -(-sizes // most)
        lengths = np.full(parts.sum(), most, np.int64)
        lengths[np.cumsum(parts) - 1] = sizes - (parts - 1) * most
        per_text = offsets_of(np.fromiter(map(len, apart), np.int64, len(apart)))
        return Ragged(flat.values, offsets_of(lengths), offsets_of(parts)[per_text])

    def pieces(self, text: str, text2: str | None = None) -> list[list[str]]:
        first = self._piece_rows(text)
        if text2 is None:
            return _shorten_pieces(first, self.config.sentences)
        second = self._piece_rows(text2)
        most, most2 = _shares_of(first, second, self.config.sentences)
        return [*_shorten_pieces(first, most), [SPECIAL[SEP]], *_shorten_pieces(second, most2)]

    def _piece_rows(self, text: str) -> list[list[str]]:
        most = self.config.sentence_length
        rows = [self.tokenizer.pieces(sentence) for sentence in sentences.split(text) or [text]]
        return [row[start : start + most] for row in rows for start in range(0, len(row), most)]


class CharactersReading(TokensReading):
    """Words, and the characters of each word as it is written."""

    names: ClassVar[tuple[str, ...]] = ("text", "segments", "characters")
    characters: Tokenizer

    @property
    def symbols(self) -> dict[str, int]:
        return {"text": self.tokenizer.size, "characters": self.characters.size}

    def train(self, texts: Iterable[Document]) -> Reading:
        some = list(texts_to_learn_from(_flat(texts)))
        self.tokenizer = self.config.tokens.train(some)
        self.characters = CharacterTokens().train(some)
        return self

    def encode(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> EncodedTexts:
        encoded = super().encode(texts, texts2)
        others = [None] * len(texts) if texts2 is None else texts2
        words = [
            word for text, other in zip(texts, others, strict=True) for word in self.pieces(text, other)[0]
        ]
        numbers: dict[str, int] = {}
        order = np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int64, len(words))
        spelt = self.characters.encode([word[: self.config.word_length] for word in numbers])
        inner = shorten(spelt, self.config.word_length).take(
            order
        )  # a sign outside the vocabulary may be several pieces
        nested = Ragged(inner.values, inner.offsets, encoded.fields["text"].offsets)
        return EncodedTexts({**encoded.fields, "characters": nested}, encoded.cut)

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.characters.save(folder / CHARACTERS)

    def load(self, folder: Path) -> Reading:
        super().load(folder)
        self.characters = Tokenizer.load(folder / CHARACTERS)
        return self


class GramsReading(Reading):
    """Hashed 1-2-grams of words, or of letters where tokens are characters, with TF-IDF weights. Texts are
    read whole."""

    names: ClassVar[tuple[str, ...]] = ("grams", "weights")
    grams: HashedGrams

    @property
    def symbols(self) -> dict[str, int]:
        return {"grams": self.grams.size}

    def train(self, texts: Iterable[Document]) -> Reading:
        self.grams = HashedGrams.train(
            texts, self.outputs, letters=isinstance(self.config.tokens, CharacterTokens)
        )
        return self

    def encode(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> EncodedTexts:
        grams, weights = self.grams.encode(
            list(texts) if texts2 is None else list(zip(texts, texts2, strict=True))
        )
        return EncodedTexts({"grams": grams, "weights": weights}, 0)

    def pieces(self, text: str, text2: str | None = None) -> list[list[str]]:
        return [self.grams.names(text if text2 is None else (text, text2))]

    def save(self, folder: Path) -> None:
        self.grams.save(folder / GRAMS)

    def load(self, folder: Path) -> Reading:
        self.grams = HashedGrams.load(folder / GRAMS)
        return self


READINGS: dict[str, type[Reading]] = {
    "tokens": TokensReading,
    "sentences": SentencesReading,
    "characters": CharactersReading,
    "grams": GramsReading,
}


# Shortening and joining -------------------------------------------------------------------------------------


def shorten(rows: Ragged, most: int | NDArray[np.int64]) -> Ragged:
    """At most so many values of each row: of a longer one a third of them from its head, the rest from its
    tail."""
    sizes = rows.sizes()
    keep = np.minimum(sizes, most)
    if (keep == sizes).all():
        return rows
    heads = np.where(keep < sizes, keep // 3, keep)
    place = np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], sizes)
    kept = (place < np.repeat(heads, sizes)) | (place >= np.repeat(sizes - keep + heads, sizes))
    return Ragged(rows.values[kept], offsets_of(keep))


def shares(
    sizes: NDArray[np.int64], sizes2: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of each text of a pair is kept: half of the room each, and what one does not need goes to the
    other."""
    half = most // 2
    first = np.minimum(sizes, np.maximum(half, most - sizes2))
    second = np.minimum(sizes2, most - first)
    return np.maximum(first, 1), np.maximum(second, 1)


def _shares_of(first: Sequence[object], second: Sequence[object], most: int) -> tuple[int, int]:
    """The shares of one pair, beside the [SEP] between its texts."""
    one, two = shares(np.array([len(first)]), np.array([len(second)]), most - 1)
    return int(one[0]), int(two[0])


def join_pairs(
    first: Ragged, second: Ragged, most: int, mark: int = SEP
) -> tuple[Ragged, NDArray[np.int64], NDArray[np.int64]]:
    """Rows of: first, [SEP], second, each text cut to its share of `most`; and the shares."""
    most1, most2 = shares(first.sizes(), second.sizes(), most - 1)
    offsets = offsets_of(most1 + 1 + most2)
    values = np.full(offsets[-1], mark, np.int64)
    segments = _segments(most1, most2)
    marks = offsets[:-1] + most1
    segments[marks] = 2
    values[segments == 0] = shorten(first, most1).values
    values[segments == 1] = shorten(second, most2).values
    return Ragged(values, offsets), most1, most2


def _segments(most1: NDArray[np.int64], most2: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for the first text and the [SEP] after it, 1 for the second."""
    lengths = np.stack([most1 + 1, most2], axis=1).ravel()
    return np.repeat(np.tile(np.array([0, 1]), len(most1)), lengths)


def _shortened(before: Ragged, after: Ragged) -> int:
    return int(np.count_nonzero(before.sizes() > after.sizes()))


def _cut_pairs(first: Ragged, second: Ragged, most: NDArray[np.int64], most2: NDArray[np.int64]) -> int:
    return int(np.count_nonzero((first.sizes() > most) | (second.sizes() > most2)))


def _outer(nested: Ragged) -> NDArray[np.int64]:
    assert nested.outer is not None
    return nested.outer


def _shorten_pieces(pieces: list[AnyPiece], most: int) -> list[AnyPiece]:
    """The same positions as `shorten` keeps."""
    if len(pieces) <= most:
        return pieces
    head = most // 3
    return pieces[:head] + pieces[len(pieces) - (most - head) :]


def _flat(texts: Iterable[Document]) -> Iterator[str]:
    for text in texts:
        if isinstance(text, str):
            yield text
        else:
            yield from text
