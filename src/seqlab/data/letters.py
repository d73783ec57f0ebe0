"""Which letters of a word write which of its sounds, found from whole words: photo, F OW T OW → F · OW T OW.

Each letter writes no sound, one, or two in a row, from the first sound to the last. How likely a letter
writes what is learnt by a few rounds of expectation and maximisation over all alignments; then each word has
its best one. After Jiampojamarn et al. 2007, where two letters may also write one sound together: here one of
them is silent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SILENT = "·"
"""What a letter says that writes no sound."""
ROUNDS = 5
START = (0.2, 0.7, 0.1)
"""How likely a letter writes no sound, one and two before anything is learnt."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def align(words: Sequence[str], sounds: Sequence[Sequence[str]]) -> list[list[str]]:
    """What each letter of each word writes: a sound, two joined by "+", or SILENT; an empty list for a word
    with more than twice as many sounds as letters."""
    problem = _Problem(words, sounds)
    chances = problem.start()
    for _ in range(ROUNDS):
        chances = problem.better(chances)
    return problem.best(chances)


class _Problem:
    """Words of letters (N L) and their sounds (N S), as numbers from 1 on; 0 is padding."""

    def __init__(self, words: Sequence[str], sounds: Sequence[Sequence[str]]) -> None:
        self.letter_names = sorted(set("".join(words)))
        self.sound_names = sorted({sound for some in sounds for sound in some})
        self.letters = _padded(words, self.letter_names)
        self.sounds = _padded(sounds, self.sound_names)
        self.lengths = (self.sounds > 0).sum(axis=1)
        self.count = len(self.sound_names) + 1
        self.pairs = self.count + self.sounds[:, :-1] * self.count + self.sounds[:, 1:]  # N S-1
        self.events = self.count + self.count**2
        """What a letter may write: 0 nothing, then each sound, then each pair of sounds."""

    def start(self) -> Floats:
        none, one, two = START
        chances = np.full((len(self.letter_names) + 1, self.events), two / self.count**2)
        chances[:, : self.count] = one / self.count
        chances[:, 0] = none
        return chances

    def steps(self, chances: Floats, place: int) -> tuple[Floats, Floats, Floats]:
        """How likely the letter at a place of each word writes nothing (N 1), the sound from each place on
        (N S), and the two from there (N S-1)."""
        letters = self.letters[:, place, None]
        return chances[letters, 0], chances[letters, self.sounds], chances[letters, self.pairs]

    def better(self, chances: Floats) -> Floats:
        """One round: how often each letter is expected to write what, in shares."""
        ahead = [self._first()]
        width = self.letters.shape[1]
        for place in range(width):
            none, one, two = self.steps(chances, place)
            now, longer = ahead[-1], ahead[-1] * none
            longer[:, 1:] += now[:, :-1] * one
            longer[:, 2:] += now[:, :-2] * two
            ahead.append(np.where(self.letters[:, place, None] > 0, longer, now))
        rows = np.arange(len(self.letters))
        total = ahead[-1][rows, self.lengths]
        back = np.zeros_like(ahead[-1])
        back[rows, self.lengths] = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        expected = np.zeros(chances.shape)
        for place in reversed(range(width)):
            none, one, two = self.steps(chances, place)
            now, letters = ahead[place], self.letters[:, place, None]
            real = letters > 0
            for event, share in (
                (np.zeros_like(self.sounds[:, :1]), (now * none * back).sum(axis=1, keepdims=True)),
                (self.sounds, now[:, :-1] * one * back[:, 1:]),
                (self.pairs, now[:, :-2] * two * back[:, 2:]),
            ):
                at = np.broadcast_to(letters, event.shape) * self.events + event
                expected += np.bincount(at.ravel(), (share * real).ravel(), minlength=expected.size).reshape(
                    expected.shape
                )
            shorter = back * none
            shorter[:, :-1] += one * back[:, 1:]
            shorter[:, :-2] += two * back[:, 2:]
            back = np.where(real, shorter, back)
        shares: Floats = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)
        return shares

    def _first(self) -> Floats:
        state = np.zeros((len(self.letters), self.sounds.shape[1] + 1))
        state[:, 0] = 1.0
        return state

    def best(self, chances: Floats) -> list[list[str]]:
        """The likeliest alignment of each word."""
        state, taken = self._first(), []
        for place in range(self.letters.shape[1]):
            none, one, two = self.steps(chances, place)
            ways = np.zeros((3, *state.shape))
            ways[0] = state * none
            ways[1, :, 1:] = state[:, :-1] * one
            ways[2, :, 2:] = state[:, :-2] * two
            real = self.letters[:, place, None] > 0
            taken.append(np.where(real, ways.argmax(axis=0), 0))
            state = np.where(real, ways.max(axis=0), state)
        rows, at = np.arange(len(self.letters)), self.lengths.copy()
        found = state[rows, at] > 0
        written: list[list[str]] = [[] for _ in rows]
        for place in reversed(range(self.letters.shape[1])):
            steps = taken[place][rows, at]
            for row in np.flatnonzero(found & (self.letters[:, place] > 0)).tolist():
                end = int(at[row])
                some = self.sounds[row, end - int(steps[row]) : end].tolist()
                written[row].append("+".join(self.sound_names[sound - 1] for sound in some) or SILENT)
            at = at - steps
        return [some[::-1] for some in written]


def _padded(rows: Sequence[Sequence[str]], names: Sequence[str]) -> Ints:
    """N T numbers from 1 on."""
    numbers = {name: number for number, name in enumerate(names, 1)}
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = [numbers[name] for name in row]
    return padded
