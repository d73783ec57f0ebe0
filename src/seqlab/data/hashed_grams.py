"""Hashed 1-2-grams with TF-IDF weights: what a linear model reads.

A word is hashed to 64 bits, two neighbouring words are mixed into one hash, and the highest bits name a
bucket. The hash is our own, so buckets mean the same in every process. Weights are those of Salton: (1 + log
count) × smoothed inverse document frequency, and each row has length 1.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from seqlab.data.store import Ragged, offsets_of
from seqlab.data.tokenizers import BREAK, WORD
from seqlab.errors import UserError
from seqlab.files import usual_permissions

Document = str | tuple[str, str]
"""A text, or a pair of texts."""

LEAST_BITS, MOST_BITS, MOST_WEIGHTS = 16, 21, 23
"""2^16 to 2^21 buckets, and at most 2^23 buckets × classes."""
LEAST_DOCUMENTS = 2
"""Buckets that fewer training texts fall into tell nothing and are dropped."""
CHUNK = 1_000_000
"""Characters worked on at once."""
REMEMBERED = 500_000
"""Words whose hash is kept."""

_WORD = re.compile(WORD["marks"])
_BREAK = re.compile(BREAK)
_MULTIPLIERS = tuple(
    np.uint64(number) for number in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15)
)
_SECOND_TEXT = np.uint64(0x5851F42D4C957F2D)


def words_of(text: str, letters: bool = False) -> list[str]:
    """The lower-cased words and single marks of a text; or its letters, with a mark at either end."""
    if letters:
        return ["^", *unicodedata.normalize("NFC", text).lower(), "$"]
    if "<" in text:
        text = _BREAK.sub(" ", text)
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


class HashedGrams:
    """Buckets and their inverse document frequencies, 0 for the dropped ones.

    The kept buckets are numbered from 1 on: most grams of a text are rare, so a model has a fraction of the
    weights.
    """

    def __init__(self, idf: NDArray[np.float32], letters: bool = False) -> None:
        self.idf, self.letters = idf, letters
        self.bits = int(math.log2(len(idf)))
        self.numbers = np.cumsum(idf > 0)

    @property
    def size(self) -> int:
        """How many numbers there are: the kept buckets, and 0 for a text without any."""
        return int(self.numbers[-1]) + 1

    @staticmethod
    def train(documents: Iterable[Document], outputs: int, letters: bool = False) -> HashedGrams:
        """Learn document frequencies in one pass. As many buckets as twice the different grams, within the
        bounds."""
        bits = max(LEAST_BITS, min(MOST_BITS, MOST_WEIGHTS - math.ceil(math.log2(max(1, outputs)))))
        frequency = np.zeros(2**bits, np.int64)
        total = 0
        for chunk in _chunks(documents):
            _, buckets, _ = count(chunk, bits, letters)
            frequency += np.bincount(buckets, minlength=2**bits)
            total += len(chunk)
        empty = np.count_nonzero(frequency == 0) / len(frequency)
        different = -len(frequency) * math.log(max(empty, 1e-9))  # linear counting: collisions allowed for
        fewer = min(bits, max(LEAST_BITS, math.ceil(math.log2(max(1.0, 2 * different)))))
        frequency = frequency.reshape(2**fewer, -1).sum(axis=1)  # neighbours share their highest bits
        idf = np.log((1 + total) / (1 + np.minimum(frequency, total))) + 1
        return HashedGrams(np.where(frequency < LEAST_DOCUMENTS, 0.0, idf).astype(np.float32), letters)

    def encode(self, documents: Sequence[Document]) -> tuple[Ragged, Ragged]:
        """(numbers, weights) of each document: every kept bucket once, weights of length 1.

        A document without a known gram has the one number 0 with weight 0.
        """
        parts = [self._encode(chunk) for chunk in _chunks(documents)]
        offsets = offsets_of(np.concatenate([sizes for _, _, sizes in parts]))
        buckets, weights = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
        return Ragged(buckets, offsets), Ragged(weights, offsets)

    def _encode(
        self, chunk: Sequence[Document]
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.int64]]:
        rows, buckets, counts = count(chunk, self.bits, self.letters)
        known = self.idf[buckets] > 0
        rows, buckets, counts = rows[known], buckets[known], counts[known]
        without = np.setdiff1d(np.arange(len(chunk)), rows)
        weights, numbers = (1 + np.log(counts)) * self.idf[buckets].astype(np.float64), self.numbers[buckets]
        if len(without):
            places = np.searchsorted(rows, without)
            rows, numbers, weights = (
                np.insert(rows, places, without),
                np.insert(numbers, places, 0),
                np.insert(weights, places, 0.0),
            )
        sizes = np.bincount(rows, minlength=len(chunk))
        norms = np.sqrt(np.bincount(rows, weights**2, len(chunk)))
        weights = weights / np.maximum(norms, 1e-12)[rows]
        return numbers.astype(np.uint32), weights.astype(np.float32), sizes

    def names(self, document: Document) -> list[str]:
        """The grams of a document behind each bucket that `encode` gives it."""
        found: dict[int, list[str]] = {}
        for second, text in enumerate((document,) if isinstance(document, str) else document):
            words = words_of(text, self.letters)
            hashes = _hashes(words)
            singles, pairs = _buckets(hashes, bool(second), self.bits)
            written = [*words, *(f"{one} {two}" for one, two in itertools.pairwise(words))]
            for bucket, gram in zip(np.concatenate([singles, pairs]).tolist(), written, strict=True):
                if self.idf[bucket] > 0 and gram not in found.setdefault(bucket, []):
                    found[bucket].append(gram)
        return [" / ".join(found[bucket]) for bucket in sorted(found)] or ["[UNK]"]

    def save(self, path: Path) -> None:
        save_file({"idf": self.idf, "letters": np.array([self.letters])}, path)
        usual_permissions(path)

    @staticmethod
    def load(path: Path) -> HashedGrams:
        try:
            saved = load_file(path)
            return HashedGrams(saved["idf"], bool(saved["letters"][0]))
        except (OSError, SafetensorError, KeyError) as error:
            raise UserError(
                what=f"{path}: the weights of the grams can't be read: {error}.",
                why="A run needs them to read text the way it was trained.",
                fix="Copy the whole run folder again, or train it again.",
            ) from None


def count(
    documents: Sequence[Document], bits: int, letters: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(row, bucket, how often) for every bucket of every document, sorted by row and bucket."""
    keys: list[NDArray[np.int64]] = []
    pair = any(not isinstance(document, str) for document in documents)
    for second in (False, True) if pair else (False,):
        texts = [document if isinstance(document, str) else document[second] for document in documents]
        words = [words_of(text, letters) for text in texts]
        rows = np.repeat(np.arange(len(words)), np.fromiter(map(len, words), np.int64, len(words)))
        singles, pairs = _buckets(_hashes(list(itertools.chain.from_iterable(words))), second, bits)
        together = rows[1:] == rows[:-1]
        keys += [rows << bits | singles, (rows[1:] << bits | pairs)[together]]
    unique, counts = np.unique(np.concatenate(keys), return_counts=True)
    return unique >> bits, unique & (2**bits - 1), counts


def _buckets(
    hashes: NDArray[np.uint64], second: bool, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Buckets of the words, and of each two neighbours. The second text of a pair has buckets of its own."""
    salt = _SECOND_TEXT if second else np.uint64(0)
    shift = np.uint64(64 - bits)
    pairs = _mix(hashes[:-1] * _MULTIPLIERS[2] + hashes[1:])
    return (_mix(hashes ^ salt) >> shift).astype(np.int64), (_mix(pairs ^ salt) >> shift).astype(np.int64)


def _mix(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the result depends on every bit given (the finaliser of splitmix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _MULTIPLIERS[0]
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _MULTIPLIERS[1]
    return hashes ^ (hashes >> np.uint64(31))


class _WordHashes(dict[str, int]):
    """The stable 64-bit hash of a word, remembered."""

    def __missing__(self, word: str) -> int:
        if len(self) >= REMEMBERED:
            self.clear()
        self[word] = number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        return number


_remembered = _WordHashes()


def _hashes(words: Sequence[str]) -> NDArray[np.uint64]:
    return np.fromiter(map(_remembered.__getitem__, words), np.uint64, len(words))


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """The documents in lists of about a million characters."""
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document) if isinstance(document, str) else len(document[0]) + len(document[1])
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
