"""Formal languages of SPEC L1: random strings, and at each position what a reader has to know by then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DEPTH = 12
"""Brackets that are open at once, at the most."""
OPEN = 0.5
"""Chance that a bracket opens where one may also close."""


@dataclass(frozen=True)
class Strings:
    """Random strings of one length, with what is asked at each of their positions."""

    ids: np.ndarray
    """N n: from 1 on."""
    labels: np.ndarray
    """N n: of the string up to there."""
    depths: np.ndarray
    """N n: brackets open there, and 0 where there are none to look for: after a bracket that opens, the
    answer stands at the position itself."""

    def take(self, rows: np.ndarray) -> Strings:
        """These strings."""
        return Strings(self.ids[rows], self.labels[rows], self.depths[rows])


LANGUAGES = {"parity": (2, 2), "(aa)*": (1, 2), "Dyck-1": (2, 2), "Dyck-2": (4, 3)}
"""How many symbols each has, and how many answers."""


def draw(language: str, rows: int, length: int, seed: int) -> Strings:
    """parity: is the number of ones odd? (aa)*: is the length odd? Dyck-1: may a bracket close here? Dyck-2:
    none, a round or a square one?"""
    random = np.random.default_rng(seed)
    if language == "parity":
        ones = random.integers(0, 2, (rows, length))
        return Strings(ones + 1, ones.cumsum(axis=1) % 2, np.zeros_like(ones))
    if language == "(aa)*":
        same = np.ones((rows, length), np.int64)
        return Strings(same, same.cumsum(axis=1) % 2, np.zeros_like(same))
    return _brackets(1 if language == "Dyck-1" else 2, rows, length, random)


def _brackets(kinds: int, rows: int, length: int, random: np.random.Generator) -> Strings:
    """Beginnings of balanced strings: a bracket of kind k opens by the id 2k + 1 and closes by 2k + 2."""
    opens, drawn = random.random((rows, length)) < OPEN, random.integers(0, kinds, (rows, length))
    ids, labels, depths = (np.zeros((rows, length), np.int64) for _ in range(3))
    for row in range(rows):
        stack: list[int] = []
        for place in range(length):
            opened = not stack or (len(stack) < DEPTH and bool(opens[row, place]))
            if opened:
                stack.append(int(drawn[row, place]))
                ids[row, place] = 2 * stack[-1] + 1
            else:
                ids[row, place] = 2 * stack.pop() + 2
            labels[row, place] = stack[-1] + 1 if stack else 0
            depths[row, place] = 0 if opened else len(stack)
    return Strings(ids, labels, depths)
