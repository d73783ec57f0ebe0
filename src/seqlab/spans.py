"""Spans written as one tag for each word: B-PER I-PER O. Which tags are such, which may follow, which spans
they mean.

BIO: a span begins with B and goes on with I. BIOES (also written BILOU): it also ends with E (L), and a span
of one word is S (U). Sequences that break the rules mean what conlleval takes them for: a word that goes on
with nothing begins a span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

Kind = Literal["BIO", "BIOES", "BILOU"]
OUTSIDE = "O"
TAG = re.compile(r"([BIESLU])[-_](.+)", re.DOTALL)
PLAIN = {"L": "E", "U": "S"}
"""The letters of BILOU as those of BIOES."""


class Span(NamedTuple):
    """Words start to end − 1 of a row."""

    start: int
    end: int
    type: str


class SpanFault(NamedTuple):
    """What is wrong with the tags of a row."""

    place: int
    what: str


def kind_of(tags: Sequence[str]) -> Kind | None:
    """How these tags write spans; None where they are no spans, such as parts of speech.

    All but O have to be a letter and a type, and some have to begin a span or go on with one.
    """
    found = [TAG.fullmatch(tag) for tag in tags if tag != OUTSIDE]
    letters = {match[1] for match in found if match}
    if not letters & {"B", "I", "S", "U"} or None in found:
        return None
    if letters & {"L", "U"}:
        return "BILOU" if not letters & {"E", "S"} else None
    return "BIOES" if letters & {"E", "S"} else "BIO"


@dataclass(frozen=True)
class Scheme:
    """Tags that write spans, C of them."""

    tags: tuple[str, ...]

    @cached_property
    def kind(self) -> Kind:
        kind = kind_of(self.tags)
        assert kind is not None, "these tags are no spans"
        return kind

    @cached_property
    def types(self) -> tuple[str, ...]:
        """By alphabet."""
        return tuple(sorted({match[2] for tag in self.tags if (match := TAG.fullmatch(tag))}))

    @property
    def whole(self) -> Scheme:
        """The same with every tag that the rules know for each of its types."""
        letters = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}[self.kind]
        more = [f"{letter}-{type}" for type in self.types for letter in letters]
        return Scheme((*self.tags, *(tag for tag in more if tag not in self.tags)))

    @cached_property
    def letters(self) -> Int[np.ndarray, " C"]:
        """O 0, B 1, I 2, E 3, S 4."""
        found = [TAG.fullmatch(tag) for tag in self.tags]
        plain = [PLAIN.get(match[1], match[1]) if match else OUTSIDE for match in found]
        return np.array(["OBIES".index(letter) for letter in plain], np.int64)

    @cached_property
    def numbers(self) -> Int[np.ndarray, " C"]:
        """Of the type of each tag; O has −1."""
        found = [TAG.fullmatch(tag) for tag in self.tags]
        return np.array([self.types.index(match[2]) if match else -1 for match in found], np.int64)

    # Which sequences there can be ---------------------------------------------------------------------------

    @cached_property
    def opens(self) -> Bool[np.ndarray, " C"]:
        """Whether a tag leaves its span open, so that the next one has to go on with it."""
        return np.isin(self.letters, (1, 2)) & (self.kind != "BIO")

    @cached_property
    def continues(self) -> Bool[np.ndarray, " C"]:
        """Whether a tag goes on with a span, so that one has to stand before it."""
        return np.isin(self.letters, (2, 3))

    @cached_property
    def follows(self) -> Bool[np.ndarray, "C C"]:
        """Whether the second tag may stand right after the first one."""
        same = self.numbers[:, None] == self.numbers
        inside = np.isin(self.letters, (1, 2))[:, None] & same  # a span of the type stands before
        allowed: np.ndarray = np.where(self.continues, inside, ~self.opens[:, None])
        return allowed

    def fault(self, row: Sequence[int] | Int[np.ndarray, " T"]) -> SpanFault | None:
        """The first thing in a row that the rules do not allow."""
        tags = np.asarray(row, np.int64)
        wrong = np.concatenate([self.continues[tags[:1]], ~self.follows[tags[:-1], tags[1:]]])
        if wrong.any():
            place = int(wrong.argmax())
            before = f'"{self.tags[tags[place - 1]]}"' if place else "the beginning of a sentence"
            return SpanFault(place, f'the tag "{self.tags[tags[place]]}" can\'t stand after {before}.')
        if self.opens[tags[-1]]:
            last = self.tags[tags[-1]]
            return SpanFault(
                len(tags) - 1, f'the tag "{last}" at the end of a sentence leaves its span open.'
            )
        return None

    # Which spans they mean ----------------------------------------------------------------------------------

    def bounds(
        self, tags: Int[np.ndarray, " N"], offsets: Int[np.ndarray, " O"]
    ) -> tuple[Int[np.ndarray, " S"], Int[np.ndarray, " S"]]:
        """Where each span of flat rows begins, and where it ends (the place after its last)."""
        letters, numbers = self.letters[tags], self.numbers[tags]
        before = np.concatenate([[-1], letters[:-1]])
        other = np.concatenate([[True], numbers[1:] != numbers[:-1]])
        first = np.zeros(len(tags) + 1, bool)
        first[offsets] = True  # and the end of all
        inside = letters > 0
        begins = inside & (np.isin(letters, (1, 4)) | np.isin(before, (0, 3, 4)) | other | first[:-1])
        breaks = np.concatenate([begins | ~inside, [True]]) | first
        return np.flatnonzero(begins), np.flatnonzero(inside & breaks[1:]) + 1

    def spans(self, row: Sequence[int] | Int[np.ndarray, " T"]) -> list[Span]:
        """The spans of one row."""
        tags = np.asarray(row, np.int64)
        starts, ends = self.bounds(tags, np.array([0, len(tags)]))
        types = [self.types[number] for number in self.numbers[tags[starts]].tolist()]
        return [Span(*one) for one in zip(starts.tolist(), ends.tolist(), types, strict=True)]

    def written(self, spans: Sequence[Span], length: int) -> list[str]:
        """The tags of a row with these spans, by the rules."""
        first, alone, last = tuple({"BIO": "BBI", "BIOES": "BSE", "BILOU": "BUL"}[self.kind])
        tags = [OUTSIDE] * length
        for start, end, type in spans:
            inner = [f"I-{type}"] * (end - start - 2)
            tags[start:end] = (
                [f"{alone}-{type}"] if end - start == 1 else [f"{first}-{type}", *inner, f"{last}-{type}"]
            )
        return tags
