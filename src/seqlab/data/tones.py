"""A language that is sung: each letter is a pitch. Its recordings are made here, for demo and tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 8000
PITCHES = {"a": 300, "b": 500, "c": 800, "d": 1300, "e": 2100}
"""Hertz."""


def melody(letters: str, draw: random.Random, rate: int = RATE) -> NDArray[np.float64]:
    """A tone for each letter, of 0.06 to 0.1 seconds, with a little noise."""
    noise = np.random.default_rng(draw.randrange(2**32))
    tones = []
    for letter in letters:
        count = int(rate * draw.uniform(0.06, 0.1))
        shape = np.hanning(count) ** 0.5
        tones.append(0.3 * shape * np.sin(2 * np.pi * PITCHES[letter] * np.arange(count) / rate))
    whole = np.concatenate(tones)
    return np.asarray(whole + 0.003 * noise.standard_normal(len(whole)))


def sung_words(count: int, longest: int, seed: int) -> list[str]:
    """Words of the letters, in which no letter follows itself."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        word = ""
        for _ in range(draw.randint(1, longest)):
            word += draw.choice([letter for letter in PITCHES if letter != word[-1:]])
        found.append(word)
    return found


def write_packed(path: Path, texts: Sequence[str], seed: int = 0, **columns: Sequence[str | int]) -> Path:
    """An .npz with the melody of each text."""
    draw = random.Random(seed)
    clips = [np.rint(32767 * melody(text, draw)).astype(np.int16) for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(clip) for clip in clips])])
    arrays: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
    arrays |= {"audio": np.concatenate(clips), "offsets": offsets, "rate": np.array(RATE)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path
