"""Texts with blanks, written [MASK]: what stands around each, which pieces could stand there, and how likely
each is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from tokenizers import decoders
from torch import Tensor

from seqlab.answers.exercises import INFERENCE_TOKENS, answered, padded
from seqlab.data.batches import Rows, chunks, in_order
from seqlab.data.corrupt import FIRST
from seqlab.data.tokenizers import CLS, MASK, SEP, SPECIAL, Tokenizer
from seqlab.errors import UserError
from seqlab.inference import predicted
from seqlab.model import Model
from seqlab.parts import Batch, Output, Places, Reply
from seqlab.seq import Nested, Seq

BLANK = SPECIAL[MASK]
RANKED = 5
"""Candidates that are given for a blank."""
ROWS = 4096
"""Rows that are made ready together."""


@dataclass(frozen=True)
class Cloze:
    """A text cut at its blanks."""

    ids: np.ndarray
    """The whole text, [MASK] at each blank."""
    parts: tuple[str, ...]
    """The text before the first blank, between each two, and after the last. A space that a piece would carry
    is left out."""
    spaced: tuple[bool, ...]
    """For each blank: whether a space stood before it that a piece has to bring."""
    alone: tuple[bool, ...]
    """For each blank: whether it stands alone as a word, with no letter or digit close to it."""

    @property
    def blanks(self) -> np.ndarray:
        return np.flatnonzero(self.ids == MASK)


@dataclass(frozen=True)
class Candidate:
    """A piece that could stand in a blank, and its probability among all pieces of text."""

    id: int
    token: str
    score: float


class TokenTexts:
    """What the pieces of a vocabulary are as text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        decoder = tokenizer.inner.decoder
        self.marked_spaces = isinstance(decoder, decoders.Metaspace)
        self.carries = self.marked_spaces or isinstance(decoder, decoders.ByteLevel)
        """Whether a piece carries the space before it: so do subwords."""
        self.letters = isinstance(decoder, decoders.Fuse)
        """Whether pieces are single characters, spaces among them."""

    @cached_property
    def texts(self) -> list[str]:
        """What each id adds to a text (V)."""
        numbers = range(self.tokenizer.size)
        tokens = [self.tokenizer.inner.id_to_token(number) or "" for number in numbers]
        if self.marked_spaces:
            return [token.replace("▁", " ") for token in tokens]
        if not self.carries:
            return tokens
        decoded: list[str] = self.tokenizer.inner.decode_batch(
            [[number] for number in numbers], skip_special_tokens=True
        )
        return decoded

    @cached_property
    def spaced(self) -> Bool[np.ndarray, " V"]:
        """Which ids carry a space."""
        return np.array([self.carries and text.startswith(" ") for text in self.texts])

    @cached_property
    def whole(self) -> Bool[np.ndarray, " V"]:
        """Which ids are letters and digits from their beginning to their end, but for a space before them."""
        bare = [text.removeprefix(" ") for text in self.texts]
        return np.array([bool(text) and text[0].isalnum() and text[-1].isalnum() for text in bare])

    def cut(self, text: str) -> Cloze:
        """A text and its blanks, as the training text was read: a piece brings its own space, so none stays
        before a blank."""
        apart = text.split(BLANK)
        last = len(apart) - 1
        parts, spaced, ids = [], [], []
        for place, part in enumerate(apart):
            bare = part.removesuffix(" ") if self.carries and place < last else part
            parts.append(bare)
            spaced.append(bare != part or (self.marked_spaces and place == 0 and not bare))
            ids += [*self._encode(bare, after_blank=place > 0), *([MASK] if place < last else [])]
        alone = [self._alone(apart, place) for place in range(last)]
        return Cloze(np.array(ids, np.int64), tuple(parts), tuple(spaced[:last]), tuple(alone))

    def _encode(self, part: str, after_blank: bool) -> list[int]:
        first: list[int] = []
        if self.marked_spaces and after_blank:
            # Such pieces have a space before every text; what goes on right after a blank has none, so it is
            # cut by itself.
            inner, close = self.tokenizer.inner, re.match(r"[^ ]*", part)
            assert close is not None
            first = [piece.id for piece in inner.model.tokenize(inner.normalizer.normalize_str(close[0]))]
            part = part[close.end() :]
        rest: list[int] = self.tokenizer.encode([part], empty=True).values.tolist()
        return first + rest

    @staticmethod
    def _alone(apart: Sequence[str], place: int) -> bool:
        before, after = apart[place], apart[place + 1]
        left = before[-1].isspace() if before else place == 0
        right = not after[0].isalnum() if after else place + 2 == len(apart)
        return left and right

    def fits(self, cloze: Cloze, number: int) -> Bool[np.ndarray, " V"]:
        """Which pieces are listed for a blank: all but special tokens; for one that stands alone as a word,
        those that are a word.

        In a vocabulary of subwords a piece is a word there if it is all letters and digits and brings a space
        just where one stood. What follows the blank begins something new, so that no further piece is needed.
        Characters are all listed. Where fewer pieces fit than are listed, all but special tokens do.
        """
        every = np.arange(self.tokenizer.size) >= FIRST
        if self.letters or not cloze.alone[number]:
            return every
        words = every & self.whole
        if self.carries:
            words &= self.spaced == cloze.spaced[number]
        return words if words.sum() >= RANKED else every

    def fill(self, cloze: Cloze, ids: Sequence[int]) -> str:
        """The text with these pieces put in."""
        told = (
            "".join(part + self.texts[number] for part, number in zip(cloze.parts, ids, strict=False))
            + cloze.parts[-1]
        )
        return told.removeprefix(" ") if self.marked_spaces and not cloze.parts[0] else told

    def ranked(
        self, probabilities: Float[np.ndarray, " V"], fits: Bool[np.ndarray, " V"]
    ) -> tuple[Candidate, ...]:
        """The likeliest of the pieces that fit."""
        order = np.argsort(np.where(fits, -probabilities, 1.0), kind="stable")[: min(RANKED, int(fits.sum()))]
        return tuple(
            Candidate(number, self.shown(number), float(probabilities[number])) for number in order.tolist()
        )

    def shown(self, number: int) -> str:
        """A piece without the space it carries; one that is nothing but space stays."""
        return self.texts[number].strip() or self.texts[number]


# What a model is shown --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A row of ids as a model reads it, with its special tokens; where something is asked for; and what
    belongs there, if known."""

    ids: np.ndarray
    places: np.ndarray
    answers: np.ndarray | None = None
    segments: np.ndarray | None = None
    cut: int = 0
    """How many pieces were left out because they are too many."""


def around(ids: np.ndarray, blanks: np.ndarray, room: int) -> tuple[np.ndarray, int]:
    """As many ids as there is room for, the blanks in their middle; and how many are left out before them."""
    if len(ids) <= room:
        return ids, 0
    first, last = (int(blanks[0]), int(blanks[-1])) if len(blanks) else (0, 0)
    if last - first >= room:
        raise UserError(
            what=f"The first and the last {BLANK} of a text are {last - first:,} pieces apart.",
            why=(
                f"This model sees {room:,} pieces at once (task.context), and more than that it has never"
                " learnt to read."
            ),
            fix=f"Give the parts of the text one by one, each with its own {BLANK}.",
        )
    start = min(max(0, (first + last + 1 - room) // 2), len(ids) - room)
    return ids[start : start + room], start


def bracketed(ids: np.ndarray, blanks: np.ndarray, room: int) -> Shown:
    """[CLS] text [SEP]."""
    some, start = around(ids, blanks, room - 2)
    return Shown(np.concatenate([[CLS], some, [SEP]]), blanks - start + 1, cut=len(ids) - len(some))


def paired(first: np.ndarray, second: np.ndarray, room: int) -> Shown:
    """[CLS] x [SEP] y [SEP]. As in training, a first segment that is too long loses its beginning, a second
    one its end."""
    room -= 3
    keep = min(len(first), max(room // 2, room - len(second)))
    one, two = first[len(first) - keep :], second[: room - keep]
    cut = len(first) + len(second) - len(one) - len(two)
    ids = np.concatenate([[CLS], one, [SEP], two, [SEP]])
    places = np.flatnonzero(ids == MASK)
    if len(places) < int((first == MASK).sum() + (second == MASK).sum()):
        raise UserError(
            what=f"A pair has a {BLANK} beyond what this model sees.",
            why=(
                f"It sees {room:,} pieces at once (task.context): the end of the first text and the beginning"
                " of the second."
            ),
            fix="Shorten the texts.",
        )
    return Shown(ids, places, segments=np.repeat([0, 1], [len(one) + 2, len(two) + 1]), cut=cut)


def each_hidden(ids: np.ndarray, room: int) -> Iterator[Shown]:
    """[CLS] text [SEP] once for each piece, which is masked; of a long text, what is around it."""
    width = min(len(ids), room - 2)
    for place in range(len(ids)):
        start = min(max(0, place - width // 2), len(ids) - width)
        some = ids[start : start + width].copy()
        some[place - start] = MASK
        yield Shown(
            np.concatenate([[CLS], some, [SEP]]), np.array([place - start + 1]), ids[place : place + 1]
        )


def all_at_once(ids: np.ndarray, room: int) -> Iterator[Shown]:
    """The bare text, in blocks; everything is asked for."""
    for part in in_blocks(ids, room):
        yield Shown(part, np.arange(len(part)), part)


def in_blocks(ids: np.ndarray, room: int) -> list[np.ndarray]:
    return [ids[start : start + room] for start in range(0, len(ids), room)]


def blank_batch(rows: Sequence[Shown]) -> Batch:
    text = padded([row.ids for row in rows])
    width = text.mask.shape[1]
    places = np.concatenate([number * width + row.places for number, row in enumerate(rows)]).astype(np.int64)
    answers = np.concatenate(
        [np.zeros(len(row.places), np.int64) if row.answers is None else row.answers for row in rows]
    )
    inputs: dict[str, Seq | Nested] = {"text": text}
    if any(row.segments is not None for row in rows):
        segments = [
            np.zeros(len(row.ids), np.int64) if row.segments is None else row.segments for row in rows
        ]
        inputs["segments"] = padded(segments)
    target = Places(torch.from_numpy(places), torch.from_numpy(answers))
    return Batch(inputs, torch.arange(len(rows)), {"places": target})


# What it makes of it ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """The answer for one row: the candidates for each place and, of a model that judges pairs, how likely
    NotNext and IsNext."""

    blanks: tuple[tuple[Candidate, ...], ...]
    follows: tuple[float, ...] | None = None


Rank = Callable[[int, int, np.ndarray], tuple[Candidate, ...]]
"""The row, which of its places, and the probability of each id there (V) → the candidates."""


def ask(model: Model, rows: Sequence[Shown], rank: Rank) -> list[Said]:
    """What the model would put at the places of each row, in order."""
    said: dict[int, Said] = {}
    for some, (found, follows) in predicted(model, alike(rows), partial(_batch_of, rows), _chances):
        probabilities = iter(found)
        for number, place in enumerate(some.tolist()):
            blanks = tuple(
                rank(place, blank, next(probabilities)) for blank in range(len(rows[place].places))
            )
            said[place] = Said(blanks, None if follows is None else tuple(follows[number]))
    return [said[row] for row in range(len(rows))]


def alike(rows: Sequence[Shown]) -> list[Rows]:
    """Numbers of rows that share a batch."""
    return in_order(np.array([len(row.ids) for row in rows]), INFERENCE_TOKENS)


def _batch_of(rows: Sequence[Shown], some: Rows) -> Batch:
    return blank_batch([rows[place] for place in some])


def _chances(output: Output, _: Batch) -> tuple[Float[np.ndarray, "P V"], list[list[float]] | None]:
    """The probability of each id at each place and, of a model that judges pairs, of each of its two
    answers."""
    row = output.answers.get("row")
    probabilities = piece_scores(output.answers["places"]).softmax(dim=-1).cpu().numpy()
    return probabilities, None if row is None else row.scores.softmax(dim=-1).tolist()


def piece_scores(reply: Reply) -> Float[Tensor, "P V"]:
    """Scores of all ids at each place, special tokens at −∞; of two directions, what both together hold
    likely."""
    logs = reply.scores.float()
    logs = logs.log_softmax(dim=-1) if reply.directions == 1 else logs
    marks = torch.arange(logs.shape[1], device=logs.device) < FIRST
    return logs.masked_fill(marks, -torch.inf)


def fill_all(model: Model, tokens: TokenTexts, texts: Sequence[Cloze], room: int) -> list[tuple[Said, int]]:
    """Candidates for the blanks of texts without special tokens around them, and how many pieces of each text
    were left out.

    A model that has never seen a mask fills the blanks from left to right: each is asked for with the best
    pieces in those before it, and without those after it. What stands at a blank itself it does not see.
    """
    cut = [around(text.ids, text.blanks, room)[0] for text in texts]
    found: list[list[tuple[Candidate, ...]]] = [[] for _ in texts]
    for number in range(max(len(text.blanks) for text in texts)):
        asked = [row for row, text in enumerate(texts) if len(text.blanks) > number]
        rows = [next_blank(cut[row], [best[0].id for best in found[row]]) for row in asked]

        def rank(place: int, _: int, probabilities: np.ndarray) -> tuple[Candidate, ...]:
            return tokens.ranked(probabilities, tokens.fits(texts[asked[place]], number))  # noqa: B023 it is called before they change

        for row, said in zip(asked, ask(model, rows, rank), strict=True):
            found[row].append(said.blanks[0])
    return [
        (Said(tuple(blanks)), len(text.ids) - len(some))
        for blanks, text, some in zip(found, texts, cut, strict=True)
    ]


def next_blank(ids: np.ndarray, filled: Sequence[int]) -> Shown:
    """The first blanks filled, the next one asked for, those after it left out."""
    blanks = np.flatnonzero(ids == MASK)
    some = ids.copy()
    some[blanks[: len(filled)]] = filled
    place = int(blanks[len(filled)])
    return Shown(np.delete(some, blanks[len(filled) + 1 :]), np.array([place]))


def blank_nats(model: Model, rows: Iterable[Shown]) -> np.ndarray:
    """−log p of the answers of all rows, one after the other."""
    found: list[np.ndarray] = []
    for some in chunks(rows, ROWS):
        nats: dict[int, np.ndarray] = {}
        for places, judged in predicted(model, alike(some), partial(_batch_of, some), answered):
            nats |= {
                place: judged.nats[judged.rows == number] for number, place in enumerate(places.tolist())
            }
        found += [nats[place] for place in range(len(some))]
    return np.concatenate(found)
