"""Tokenizers: text ⇄ tokens ⇄ ids, learnt from the data in place and saved as plain `tokenizers` JSON.

The first ids are the same in every tokenizer: [PAD] 0, [UNK] 1, [SEP] 2, [CLS] 3, [MASK] 4, [BOS] 5, [EOS] 6.
The same texts always give the same tokenizer, byte for byte.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from seqlab.config import Positive, Variant
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.unigram import learn_pieces
from seqlab.errors import UserError
from seqlab.files import sha256

SPECIAL = ("[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]", "[BOS]", "[EOS]")
PAD, UNK, SEP, CLS, MASK, BOS, EOS = range(len(SPECIAL))

SAMPLE = 100_000_000
"""Characters of text that a tokenizer learns from, at most: more text does not change the common pieces."""
ENCODED_AT_ONCE = 500
"""Texts handed to the library in one call: larger calls are slower, because their results fill the caches."""

BREAK = r"<[bB][rR]\s*/?>"
WORD = {"marks": r"\w+(?:['’]\w+)*|[^\w\s]", "spaces": r"\n|\S+"}
"""A word, with its inner apostrophes, or a single mark; or: the end of a line, or what stands between white
space."""
CHARACTER = r"[\s\S]"
SPACES = frozenset("Ġ▁Ċĉč")
"""How subwords write a space, a line end, a tab and a carriage return."""
LEFT = frozenset(",.;:!?)]}%…’'»”-–—/")
"""Marks that stand close to the word before them, ..."""
RIGHT = frozenset("([{$#«“‘-–—/")
"""... and those that stand close to the word after them."""


WordSplit = Literal["marks", "spaces"]
_LATIN = re.compile("[\t\n\r -~À-ÖØ-öø-\u012f\u0131-\u024f‘’“”–—…«»]*")
_SPECIAL = re.compile("|".join(map(re.escape, SPECIAL)))


class Tokenizer:
    """Tokens of text and their ids."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner = inner
        self._plain = _PlainWords.of(inner)
        self._letters = _PlainCharacters.of(inner)

    @property
    def size(self) -> int:
        """How many ids there are, the special ones included."""
        return int(self.inner.get_vocab_size())

    def encode(self, texts: Sequence[str], *, empty: bool = False) -> Ragged:
        """Ids, one row a text. A text without a single piece (spaces alone) becomes one [UNK], unless rows
        may be empty."""
        if self._letters and (empty or all(texts)) and (found := self._letters.encode(texts)):
            return found
        rows = [self._plain.ids(text) if self._plain else None for text in texts]
        others = [place for place, row in enumerate(rows) if row is None]
        for start in range(0, len(others), ENCODED_AT_ONCE):
            places = others[start : start + ENCODED_AT_ONCE]
            encodings = self.inner.encode_batch_fast(
                [texts[place] for place in places], add_special_tokens=False
            )
            for place, encoding in zip(places, encodings, strict=True):
                rows[place] = encoding.ids
        return Ragged.of([row or ([] if empty else [UNK]) for row in rows], np.int64)

    def pieces(self, text: str) -> list[str]:
        """The parts of the text as it is written, one for each id of `encode`.

        Of the pieces that share one character (bytes of a rare sign) the first shows it, the others are
        empty.
        """
        spans = self.inner.encode(text, add_special_tokens=False).offsets
        if not spans:
            return [SPECIAL[UNK]]
        before = [(-1, -1), *spans[:-1]]
        return [
            "" if span == last else text[span[0] : span[1]] for span, last in zip(spans, before, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, without the special ones. More ids never change the text of the first
        ones."""
        if self._plain:
            words = (self.inner.id_to_token(number) for number in ids if number >= len(SPECIAL))
            return self._plain.joined(word for word in words if word is not None)
        text = str(self.inner.decode(list(ids), skip_special_tokens=True))
        # Pieces that mark the space before a word mark one at the start of each line, too.
        return text.replace("\n ", "\n") if isinstance(self.inner.decoder, decoders.Metaspace) else text

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces that are already apart, such as the words of a tagged sentence; unknown ones are
        [UNK]."""
        normalizer = self.inner.normalizer
        plain = [
            piece if piece in SPECIAL or normalizer is None else normalizer.normalize_str(piece)
            for piece in pieces
        ]
        found = [self.inner.token_to_id(piece) for piece in plain]
        return [UNK if number is None else number for number in found]

    @property
    def counts_itself(self) -> bool:
        """Whether each token is a unit by itself, a word or a character; subwords make up words."""
        return self._plain is not None or self._letters is not None

    def word_parts(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Two bool arrays over the vocabulary: `continues_word` and `can_continue`.

        A word starts at each token but those that continue a word behind a token that can be continued. Where
        spaces are not kept among the tokens, each token is a word.
        """
        continues_word, can_continue = np.zeros(self.size, bool), np.zeros(self.size, bool)
        if self._plain is None:
            for piece, number in self.inner.get_vocab().items():
                if number >= len(SPECIAL):
                    continues_word[number] = piece[0].isalnum() and piece[0] not in SPACES
                    can_continue[number] = piece[-1].isalnum() and piece[-1] not in SPACES
        return continues_word, can_continue

    def save(self, path: Path) -> None:
        path.write_text(self.inner.to_str(pretty=True), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Tokenizer:
        try:
            return Tokenizer(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise UserError(
                what=f"{path}: there is no such file.",
                why="A run needs its tokenizer to read text the way it was trained.",
                fix="Copy the whole run folder again, or train it again.",
            ) from None
        except Exception as error:  # the library raises plain Exception for a file it can't read
            raise UserError(
                what=f"{path}: this is not a tokenizer: {error}.",
                why="The file was changed or cut short.",
                fix="Copy the whole run folder again, or train it again.",
            ) from None


class _PlainWords:
    """What `WordTokens` finds in text of plain Latin signs, by Python's own regular expressions: the same
    ids, in a third of the time.

    For other signs the two libraries may disagree on what a word is, so such texts (None) are left to the
    slow one.
    """

    _break = re.compile(BREAK)

    def __init__(self, numbers: dict[str, int], lower: bool, split: WordSplit) -> None:
        self.numbers, self.lower, self.split = numbers, lower, split
        self._word = re.compile(WORD[split])

    @staticmethod
    def of(inner: tokenizers.Tokenizer) -> _PlainWords | None:
        """None for a tokenizer of another kind."""
        kinds: list[tuple[bool, WordSplit]] = [
            (lower, split) for lower in (True, False) for split in ("marks", "spaces")
        ]
        for lower, split in kinds:
            if _states(inner) == _states(_words_model(lower, {}, split)):
                return _PlainWords(inner.get_vocab(), lower, split)
        return None

    def words(self, text: str) -> list[str] | None:
        if not _LATIN.fullmatch(text) or ("[" in text and _SPECIAL.search(text)):
            return None
        if "<" in text and self.split == "marks":
            text = self._break.sub("\n", text)
        return self._word.findall(text.lower() if self.lower else text)

    def ids(self, text: str) -> list[int] | None:
        words = self.words(text)
        return None if words is None else list(map(self.numbers.get, words, itertools.repeat(UNK)))

    def joined(self, words: Iterable[str]) -> str:
        """Words as a person writes them: no space before a comma, none inside brackets and quotes, none
        around line ends.

        What the cutting lost stays lost: where the lines ended, and whether a hyphen had spaces around it.
        """
        parts: list[str] = []
        close, quoted = True, False  # whether the next word stands close to the last, or inside quotes
        for word in words:
            if self.split == "spaces":
                tight_before = tight_after = word == "\n"
            elif word == '"':
                tight_before, tight_after, quoted = quoted, not quoted, not quoted
            else:
                tight_before, tight_after = word in LEFT, word in RIGHT
            parts += [word] if close or tight_before else [" ", word]
            close = tight_after
        return "".join(parts)


class _PlainCharacters:
    """The ids of characters from one table: the same as the library gives, some thirty times as fast."""

    def __init__(self, numbers: dict[str, int], lower: bool) -> None:
        known = {ord(piece): number for piece, number in numbers.items() if len(piece) == 1}
        self.lower = lower
        self.table = np.full(
            max(known, default=0) + 2, UNK, np.int64
        )  # the last entry serves all that is beyond
        self.table[list(known)] = list(known.values())

    @staticmethod
    def of(inner: tokenizers.Tokenizer) -> _PlainCharacters | None:
        """None for a tokenizer of another kind."""
        for lower in (True, False):
            if _states(inner) == _states(_characters_model(lower, {})):
                return _PlainCharacters(inner.get_vocab(), lower)
        return None

    def encode(self, texts: Sequence[str]) -> Ragged | None:
        """None where a text has to be composed first (NFC), has a special piece, or capitals beyond the Latin
        ones."""
        whole = "".join(texts)
        if not unicodedata.is_normalized("NFC", whole) or ("[" in whole and _SPECIAL.search(whole)):
            return None
        if self.lower:
            if not _LATIN.fullmatch(whole):
                return None
            whole = whole.lower()
        codes = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), np.uint32)
        return Ragged(
            self.table[np.minimum(codes, len(self.table) - 1)],
            offsets_of(np.array(list(map(len, texts)), np.int64)),
        )


def _states(inner: tokenizers.Tokenizer) -> list[bytes]:
    """How a tokenizer prepares text, to be compared."""
    return [part.__getstate__() for part in (inner.normalizer, inner.pre_tokenizer) if part]


class TokensConfig(Variant):
    """How text is cut into tokens."""

    @abstractmethod
    def train(self, texts: Iterable[str]) -> Tokenizer:
        """The tokenizer that these texts call for. Reads at most a sample of 100 million characters."""

    def train_words(self, rows: Iterable[Sequence[str]]) -> Tokenizer:
        """The same of texts whose words are apart already."""
        return self.train(" ".join(words) for words in rows)


@dataclass(frozen=True, kw_only=True)
class WordTokens(TokensConfig, kind="words"):
    """Whole words and single marks. Rare words are [UNK]."""

    lower: bool = True
    """Whether capitals are read as small letters."""
    split: WordSplit = "marks"
    """marks: words and single marks; line ends are dropped. spaces: what stands between white space, and each
    line end as a word of its own, for texts that are cut already."""
    vocabulary: Positive = 30_000
    """How many different words are known, at most."""
    least: Positive = 2
    """How often a word must stand in the training data to be known."""

    def train(self, texts: Iterable[str]) -> Tokenizer:
        plain, model = _PlainWords({}, self.lower, self.split), _words_model(self.lower, {}, self.split)
        counts: Counter[str] = Counter()
        for text in texts_to_learn_from(texts):
            words = plain.words(text)
            if words is None:
                words = [
                    word
                    for word, _ in model.pre_tokenizer.pre_tokenize_str(model.normalizer.normalize_str(text))
                ]
            counts.update(words)
        return self._counted(counts)

    def train_words(self, rows: Iterable[Sequence[str]]) -> Tokenizer:
        """Each word is a token as it stands, whatever signs it has."""
        found: Counter[str] = Counter()
        for words in rows:
            found.update(words)
        normalizer = _words_model(self.lower, {}, self.split).normalizer
        counts: Counter[str] = Counter()
        for word, count in found.items():
            counts[normalizer.normalize_str(word)] += count
        return self._counted(counts)

    def _counted(self, counts: Counter[str]) -> Tokenizer:
        inner = _words_model(self.lower, _numbered(counts, self.least, self.vocabulary), self.split)
        inner.add_special_tokens(list(SPECIAL))
        return Tokenizer(inner)


@dataclass(frozen=True, kw_only=True)
class CharacterTokens(TokensConfig, kind="characters"):
    """Single characters, spaces included."""

    lower: bool = False
    """Whether capitals are read as small letters."""
    least: Positive = 1
    """How often a character must stand in the training data to be known."""

    def train(self, texts: Iterable[str]) -> Tokenizer:
        normalizer = _normalizer(self.lower)
        counts: Counter[str] = Counter()
        for text in texts_to_learn_from(texts):
            counts.update(normalizer.normalize_str(text))
        inner = _characters_model(self.lower, _numbered(counts, self.least))
        inner.add_special_tokens(list(SPECIAL))
        return Tokenizer(inner)


@dataclass(frozen=True, kw_only=True)
class BpeTokens(TokensConfig, kind="bpe"):
    """Byte-level byte-pair encoding (Sennrich et al. 2016, on bytes): common words whole, rare ones in parts,
    nothing unknown."""

    lower: bool = False
    """Whether capitals are read as small letters."""
    vocabulary: Positive | None = None
    """How many pieces; empty: by the size of the data, 1,000 to 32,000."""

    def train(self, texts: Iterable[str]) -> Tokenizer:
        some = list(texts_to_learn_from(texts))
        inner = tokenizers.Tokenizer(models.BPE())
        if self.lower:
            inner.normalizer = normalizers.Lowercase()
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=(self.vocabulary or vocabulary_for(some)) + len(SPECIAL),
            min_frequency=2,
            special_tokens=list(SPECIAL),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        inner.train_from_iterator(some, trainer)
        return Tokenizer(inner)


@dataclass(frozen=True, kw_only=True)
class UnigramTokens(TokensConfig, kind="unigram"):
    """Pieces of a unigram language model (Kudo 2018): each text is cut where its probability is highest."""

    lower: bool = False
    """Whether capitals are read as small letters."""
    vocabulary: Positive | None = None
    """How many pieces; empty: by the size of the data, 1,000 to 32,000."""

    def train(self, texts: Iterable[str]) -> Tokenizer:
        some = list(texts_to_learn_from(texts))
        normalizer, spaces = _normalizer(self.lower), pre_tokenizers.Metaspace()
        counts: dict[str, int] = {}
        for text in some:
            for word, _ in spaces.pre_tokenize_str(normalizer.normalize_str(text)):
                counts[word] = counts.get(word, 0) + 1
        pieces = learn_pieces(counts, self.vocabulary or vocabulary_for(some))
        inner = tokenizers.Tokenizer(models.Unigram([(piece, 0.0) for piece in SPECIAL] + pieces, unk_id=UNK))
        inner.add_special_tokens(list(SPECIAL))
        inner.normalizer, inner.pre_tokenizer, inner.decoder = normalizer, spaces, decoders.Metaspace()
        return Tokenizer(inner)


@dataclass(frozen=True, kw_only=True)
class FromRun(TokensConfig, kind="run"):
    """The tokenizer of a trained run, as it is: what a pretrained body was trained with."""

    folder: str
    """The run folder."""
    mark: str = ""
    """Hash of its tokenizer.json, so that another one is noticed."""

    def train(self, texts: Iterable[str]) -> Tokenizer:
        path = Path(self.folder) / "tokenizer.json"
        if self.mark and path.exists() and sha256(path) != self.mark:
            raise UserError(
                what=f"{path} is not the tokenizer that data.tokens.mark tells of.",
                why="Its ids may stand for other pieces of text.",
                fix="Start again with --from and the run that you mean.",
            )
        return Tokenizer.load(path)


def _numbered(counts: Counter[str], least: int, most: int | None = None) -> dict[str, int]:
    """Ids: the special pieces, then the others from the most common on; ties go by text."""
    known = sorted(
        (-count, piece) for piece, count in counts.items() if count >= least and piece not in SPECIAL
    )
    pieces = [*SPECIAL, *(piece for _, piece in known[:most])]
    return {piece: number for number, piece in enumerate(pieces)}


def _words_model(lower: bool, numbers: dict[str, int], split: WordSplit = "marks") -> tokenizers.Tokenizer:
    """The tokenizer of whole words with these ids."""
    inner = tokenizers.Tokenizer(models.WordLevel(numbers, unk_token=SPECIAL[UNK]))
    inner.normalizer = _normalizer(lower, breaks=split == "marks")
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(WORD[split]), "removed", invert=True)
    return inner


def _characters_model(lower: bool, numbers: dict[str, int]) -> tokenizers.Tokenizer:
    """The tokenizer of single characters with these ids."""
    inner = tokenizers.Tokenizer(models.WordLevel(numbers, unk_token=SPECIAL[UNK]))
    inner.normalizer, inner.decoder = _normalizer(lower), decoders.Fuse()
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER), "isolated")
    return inner


def vocabulary_for(texts: Sequence[str]) -> int:
    """How many subwords suit this much text: 2 √characters, from 1,000 to 32,000 (4 million characters:
    4,000)."""
    wanted = 2 * math.sqrt(sum(map(len, texts)))
    return int(min(max(round(wanted, -2), 1_000), 32_000))


def _normalizer(lower: bool, breaks: bool = False) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if breaks:
        steps.insert(0, normalizers.Replace(Regex(BREAK), "\n"))
    if lower:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


def texts_to_learn_from(texts: Iterable[str]) -> Iterator[str]:
    """Texts until there are enough characters."""
    seen = 0
    for text in texts:
        yield text
        seen += len(text)
        if seen >= SAMPLE:
            return
