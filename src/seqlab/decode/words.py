"""No run of words twice, where words are made up of several ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


class WordParts:
    """How ids make up words. A word begins at each id, unless it continues one behind an id that can be
    continued, or stands behind a space by itself."""

    def __init__(
        self,
        letters: Sequence[str],
        continues: Sequence[bool],
        can_continue: Sequence[bool],
        space: Sequence[bool],
    ) -> None:
        self.letters, self.continues, self.can_continue, self.space = letters, continues, can_continue, space
        self.spelt: defaultdict[str, list[int]] = defaultdict(list)
        """The ids with these letters."""
        for number, some in enumerate(letters):
            self.spelt[some].append(number)

    def begins(self, number: int, before: int) -> bool:
        """Whether an id begins a word, given the id before it."""
        return not (self.space[before] or (self.continues[number] and self.can_continue[before]))

    def words(self, ids: Sequence[int]) -> list[str]:
        """The words that ids make up; the last one may be a part of a word."""
        words: list[str] = []
        for place, number in enumerate(ids):
            if place == 0 or self.begins(number, ids[place - 1]):
                words.append("")
            words[-1] += self.letters[number]
        return words

    def repeating(self, ids: Sequence[int], size: int) -> list[int]:
        """The ids that would make up, after these, a word that ends a run of `size` words for the second
        time."""
        words, last = self.words(ids), ids[-1]
        found = [
            number
            for word in _following(words, size - 1, len(words))
            for number in self.spelt.get(word, ())
            if self.begins(number, last)
        ]
        begun = words[-1]
        for word in _following(words, size - 1, len(words) - 1):
            if word.startswith(begun):
                rest = self.spelt.get(word[len(begun) :], ())
                found += [number for number in rest if not self.begins(number, last)]
        return found


def _following(words: Sequence[str], count: int, end: int) -> set[str]:
    """What stands among the first `end` words behind the `count` words that end there."""
    if end < count:
        return set()
    now = words[end - count : end]
    return {words[place] for place in range(count, end) if words[place - count : place] == now}


def forbid_word_repeats(
    scores: Float[Tensor, "N V"], history: Int[Tensor, "N P"], size: int, parts: WordParts
) -> None:
    """Set to -inf, in place, every id that would make up a word which ends a run of `size` words that
    `history` has already, however the word is cut.

    So a word that begins with the letters of the repeated one can be written only where its first ids end
    elsewhere: what comes after an id is not known when it is chosen.
    """
    for row, ids in enumerate(history.tolist()):
        if found := parts.repeating(ids, size):
            scores[row, found] = -torch.inf
