"""A small language of opinions that we generate, and the command line in this process."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

import pytest

from seqlab import cli

GOOD = ["great", "lovely", "superb", "moving", "funny", "bright"]
BAD = ["dull", "awful", "weak", "boring", "poor", "clumsy"]
PLAIN = ["the", "film", "story", "was", "and", "a", "music", "actor", "scene", "it", "with", "of"]


def opinions(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts of plain words with one or two opinions among them, and the label that these decide."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(["good", "bad"])
        words = draw.choices(PLAIN, k=draw.randint(3, 14))
        for word in draw.sample(GOOD if label == "good" else BAD, draw.randint(1, 2)):
            words.insert(draw.randrange(len(words) + 1), word)
        rows.append((" ".join(words) + ("." if draw.random() < 0.5 else ". it was a film."), label))
    return rows


def write_table(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("text", "label")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def reviews(tmp_path):
    """600 rows to learn from."""
    return write_table(tmp_path / "reviews.csv", opinions(600))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def seqlab(capsys, monkeypatch):
    """The command, run in this process: its exit code, standard output and standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["seqlab", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


SMALL = [
    "model.input.width=16", "training.baseline=false", "training.batch_tokens=512", "training.rate=0.01",
]    # fmt: skip
"""Settings that make a model small enough for a test."""
