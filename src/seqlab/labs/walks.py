"""Walks on a clock of ten: 7 9 3 5 9 1 begins at 7 and goes on by 2 and 4 in turn.

A vector says where a walk begins, its two steps and its length, so a walk is a sequence or a vector.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

STEPS, LENGTHS = (1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9, 10)
GROUPS = (10, len(STEPS), len(STEPS), len(LENGTHS))
"""The parts of a vector: each has a 1 at its choice and 0 elsewhere."""


@dataclass(frozen=True)
class ClockWalk:
    """One walk, and all that is asked about it."""

    begin: int
    steps: tuple[int, int]
    length: int

    @cached_property
    def sums(self) -> list[int]:
        """Before they are brought to the clock."""
        return [
            self.begin + sum(self.steps) * (place // 2) + self.steps[0] * (place % 2)
            for place in range(self.length)
        ]

    @cached_property
    def numbers(self) -> list[int]:
        return [one % 10 for one in self.sums]

    @cached_property
    def vector(self) -> list[float]:
        chosen = (
            self.begin,
            STEPS.index(self.steps[0]),
            STEPS.index(self.steps[1]),
            LENGTHS.index(self.length),
        )
        return [
            float(place == one) for one, size in zip(chosen, GROUPS, strict=True) for place in range(size)
        ]

    @cached_property
    def passed(self) -> list[int]:
        return [one // 10 % 3 for one in self.sums]

    @cached_property
    def landings(self) -> list[int]:
        return [two % 10 for one, two in itertools.pairwise(self.sums) if two // 10 > one // 10]


@cache
def walks() -> list[ClockWalk]:
    """All of them, shuffled, always in the same way."""
    every = [
        ClockWalk(begin, steps, length)
        for begin in range(10)
        for steps in itertools.product(STEPS, STEPS)
        for length in LENGTHS
    ]
    return [every[place] for place in np.random.default_rng(0).permutation(len(every))]
