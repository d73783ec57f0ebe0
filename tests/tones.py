"""Recordings that tests make for themselves: sequences of pitches, each a letter."""

import random
from pathlib import Path

import numpy as np

RATE = 8000
PITCHES = {"a": 300, "b": 500, "c": 800, "d": 1300, "e": 2100}
"""Hertz."""


def melody(letters: str, draw: random.Random, rate: int = RATE) -> np.ndarray:
    """A tone for each letter, of 0.06 to 0.1 seconds, with a little noise."""
    noise = np.random.default_rng(draw.randrange(2**32))
    tones = []
    for letter in letters:
        count = int(rate * draw.uniform(0.06, 0.1))
        shape = np.hanning(count) ** 0.5
        tones.append(0.3 * shape * np.sin(2 * np.pi * PITCHES[letter] * np.arange(count) / rate))
    whole = np.concatenate(tones)
    return whole + 0.003 * noise.standard_normal(len(whole))


def words(count: int, longest: int, seed: int) -> list[str]:
    """Words of the letters, in which no letter follows itself."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        word = ""
        for _ in range(draw.randint(1, longest)):
            word += draw.choice([letter for letter in PITCHES if letter != word[-1:]])
        found.append(word)
    return found


def packed(path: Path, texts: list[str], seed: int = 0, **columns: list[str]) -> Path:
    """An .npz with the melody of each text."""
    draw = random.Random(seed)
    clips = [np.rint(32767 * melody(text, draw)).astype(np.int16) for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(clip) for clip in clips])])
    np.savez(path, audio=np.concatenate(clips), offsets=offsets, rate=RATE, **columns)
    return path


def write_clips(folder: Path, texts: list[str], seed: int = 0, rate: int = RATE) -> list[Path]:
    """A .wav file with the melody of each text."""
    import soundfile

    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}-{text}.wav" for number, text in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        soundfile.write(path, melody(text, draw, rate), rate)
    return paths
