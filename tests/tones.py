"""Recordings that tests make for themselves: sequences of pitches, each a letter."""

from __future__ import annotations

import random
from pathlib import Path

from seqlab.data.tones import RATE, melody
from seqlab.data.tones import sung_words as words
from seqlab.data.tones import write_packed as packed

__all__ = ["RATE", "melody", "packed", "words", "write_clips"]


def write_clips(folder: Path, texts: list[str], seed: int = 0, rate: int = RATE) -> list[Path]:
    """A .wav file with the melody of each text."""
    import soundfile

    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}-{text}.wav" for number, text in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        soundfile.write(path, melody(text, draw, rate), rate)
    return paths
