"""Labelled rows in three parts: some to validate on, some (or a file) to test on, and a pool.

They are parted once. A seed decides the order of the pool, and the first n of that order are the labels that
every side of a comparison gets.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from seqlab.data.cells import Cells
from seqlab.data.read import DataConfig, Table
from seqlab.data.survey import held_out, text_hash
from seqlab.errors import UserError
from seqlab.files import write_text
from seqlab.tasks.classify import Classify

MOST_VALID, MOST_TESTED = 1000, 2000
"""Rows to validate on, and to test on where no test file is given, at the most; and at the most a tenth each.
Every epoch is validated on, so more of them would cost more time than a few labels do."""


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows (text, text2 where there is one, label) in three parts that share no text, unless a test
    file does with the others."""

    pool: list[Cells]
    valid: list[Cells]
    test: list[Cells]

    @cached_property
    def labels(self) -> list[str]:
        return sorted({row["label"] for row in self.pool})

    @property
    def shared(self) -> int:
        """Test rows whose text also stands elsewhere; none where no test file was given."""
        known = {row["text"] for row in [*self.pool, *self.valid]}
        return sum(row["text"] in known for row in self.test)

    @property
    def mark(self) -> str:
        """Changes with any row."""
        whole = json.dumps([self.pool, self.valid, self.test], ensure_ascii=False)
        return hashlib.blake2b(whole.encode(), digest_size=8).hexdigest()

    def texts(self) -> list[Cells]:
        """The texts of the pool without their labels, shuffled: of rows that are sorted, neighbours would
        tell too much."""
        texts = [text for row in self.pool for text in (row["text"], row.get("text2")) if text]
        return [{"text": text} for text in random.Random(0).sample(texts, len(texts))]

    def order(self, seed: int) -> list[Cells]:
        """The pool shuffled, with one row of each label first, so that any beginning that is long enough has
        them all."""
        order = random.Random(seed).sample(self.pool, len(self.pool))
        first: dict[str, int] = {}
        for place, row in enumerate(order):
            first.setdefault(row["label"], place)
        ahead = set(first.values())
        return [order[place] for place in first.values()] + [
            row for place, row in enumerate(order) if place not in ahead
        ]


def read_rows(data: Sequence[str], test: Sequence[str], reading: DataConfig) -> LabelledRows:
    """The rows of labelled files; the parts are decided by the texts alone, so they are the same every
    time."""
    rows = _read(data, reading)
    if test:
        rest, tested = rows, _read(test, reading)
    else:
        rest, tested = _parted(rows, data, MOST_TESTED)
    pool, valid = _parted(rest, data, MOST_VALID)
    found = LabelledRows(pool, valid, tested)
    if strange := sorted({row["label"] for row in [*valid, *tested]} - set(found.labels)):
        raise UserError(
            what=(
                f'{", ".join(test or data)}: the label "{strange[0]}" does not occur among the rows to learn'
                " from."
            ),
            why="No model can give a label that it has not seen.",
            fix="Add rows with it to --data, or remove it from --test.",
        )
    return found


def _read(names: Sequence[str], reading: DataConfig) -> list[Cells]:
    roles = [role for field in Classify().fields(reading) for role in field.roles()]
    return [dict(row.cells) for row in Table(names, reading, roles).rows()]


def _parted(rows: list[Cells], names: Sequence[str], most: int) -> tuple[list[Cells], list[Cells]]:
    """Most of the rows, and those that are held out, a tenth and so many at the most."""
    if len(rows) < 10:
        raise UserError(
            what=f"{', '.join(names)}: there are only {len(rows)} labelled rows.",
            why="Some are needed to learn from, some to validate on and some to test on.",
            fix="Give more rows.",
        )
    numbers = {label: place for place, label in enumerate(sorted({row["label"] for row in rows}))}
    hashes = np.array([text_hash(row["text"], row.get("text2")) for row in rows], np.uint64)
    held = held_out(hashes, most=most, labels=np.array([numbers[row["label"]] for row in rows]))
    kept, out = ([rows[place] for place in np.flatnonzero(mask)] for mask in (~held, held))
    return kept, out


def write_jsonl(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """A .jsonl file, unless it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path
