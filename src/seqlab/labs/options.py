"""The options of the labs about few labels: the rows in their parts, how many labels, how much to pretrain.

Rows are parted once: some to validate on, some (or a file) to test on, and a pool. A seed decides the order
of the pool, and the first n of that order are the labels that every side gets.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.data.builtin import write_stress_tables
from seqlab.data.cells import Cells
from seqlab.data.files import find
from seqlab.data.read import DataConfig, Table
from seqlab.data.store import cache_folder
from seqlab.data.survey import held_out, text_hash
from seqlab.errors import UserError
from seqlab.files import write_text
from seqlab.labs.lab import train_once
from seqlab.settings import TrainRequest
from seqlab.tasks.classify import Classify
from seqlab.training.progress import Progress

MOST_VALID, MOST_TESTED = 1000, 2000
"""Rows to validate on, and to test on where no test file is given, at the most; and at the most a tenth each.
Every epoch is validated on, so more of them would cost more time than a few labels do."""
PRETRAIN = "pretrain."
"""What stands before the settings of the pretraining."""
READING = ("data.columns", "data.header", "data.encoding", "data.quotes", "data.on_bad", "data.longest_line")
"""Settings for reading the labelled files; the rows that runs get are written anew."""
LETTERS = {"data.tokens.kind": "characters"}
"""The built-in data is words, which are read letter by letter."""
LETTERS_AT_ONCE, GRAMS_AT_ONCE = 256, 1152
"""In a batch of the built-in words: letters, special tokens included, of about twenty words; and for bow
grams, of about sixty."""
READS = {
    "model.input.width": 64,
    "model.input.scale": 0.125,
    "model.encoder.layers": 2,
    "model.encoder.feed_forward": 256,
}
WRITES = {"model.decoder.width": 64, "model.decoder.body.layers": 2, "model.decoder.body.feed_forward": 256}
APART = {"model.input.width": 64, "model.input.scale": 0.125, "model.encoder.body.width": 64}
QUICK: dict[str, dict[str, Any]] = {
    "bert": READS,
    "roberta": READS,
    "gpt": WRITES,
    "bart": READS | WRITES,
    "elmo": APART,
    "blank-bilstm": APART,
    "blank-bilstm-halves": APART,
}
"""Sizes for --quick, about 0.1 million weights above the vectors of the tokens."""
QUICK_STEPS, QUICK_LABELS, QUICK_SEEDS = 1600, "500,2000", 2
QUICK_RATE = 2e-3
"""Of the fine-tuning of such small models, on all sides."""
LABELS, SEEDS, MINUTES = "500,2000", 5, 30.0


# Rows -------------------------------------------------------------------------------------------------------


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


# The options ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabOptions:
    """The options that both labs have, checked."""

    quick: bool
    builtin: bool
    rows: LabelledRows
    unlabelled: tuple[str, ...]
    """Files of text; none: the texts of the pool."""
    counts: tuple[int, ...]
    seeds: int
    minutes: float | None
    """For each pretraining; none: QUICK_STEPS steps."""
    epochs: int | None
    tuning: dict[str, Any]
    """Settings of the fine-tuning, the same for every side."""
    pretraining: dict[str, Any]
    """Settings of the pretraining."""

    @staticmethod
    def of(
        *,
        quick: bool,
        data: str | Sequence[str],
        unlabelled: str | Sequence[str],
        test: str | Sequence[str],
        labels: str,
        seeds: int | None,
        minutes: float | None,
        epochs: int | None,
        settings: Mapping[str, Any] | None,
        pretrained: bool = False,
    ) -> LabOptions:
        """Everything that can be refused is refused here, before anything is written.

        pretrained: whether there is a body already, which may be of any size.
        """
        seeds = (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds
        for name, value in (("--seeds", seeds), ("--minutes", minutes), ("--epochs", epochs)):
            if value is not None and value <= 0:
                raise UserError(
                    what=f"{name} is {value:g}.",
                    why="Nothing would be trained.",
                    fix=f"Give {name} 1 or more.",
                )
        if (test or unlabelled) and not data:
            given = "--test" if test else "--unlabelled"
            raise UserError(
                what=f"{given} is given without --data.", why="Without --data the lab has data of its own.",
                fix=f"Name labelled rows, too: --data reviews.csv {given} ...",
            )  # fmt: skip
        told = dict(settings or {})
        pretraining = {
            key.removeprefix(PRETRAIN): value for key, value in told.items() if key.startswith(PRETRAIN)
        }
        tuning = {key: value for key, value in told.items() if not key.startswith(PRETRAIN)}
        early = {
            key: value for key, value in tuning.items() if not key.startswith("model.")
        }  # the model is yet to come
        reading = TrainRequest(task="classify", overrides=early).settings().data
        tuning = ({"training.rate": QUICK_RATE} if quick and not pretrained else {}) | tuning
        texts = names_of(unlabelled)
        find(texts)  # refuses files that are not there
        if data:
            rows = read_rows(names_of(data), names_of(test), reading)
        else:
            train, _, tested = write_stress_tables(cache_folder().parent / "builtin")
            rows = read_rows([str(train)], [str(tested)], reading)
            pretraining = LETTERS | {"task.context": 128} | pretraining
            tuning = {"training.batch_tokens": LETTERS_AT_ONCE} | tuning
        return LabOptions(
            quick=quick,
            builtin=not data,
            rows=rows,
            unlabelled=texts,
            seeds=seeds,
            epochs=epochs,
            tuning=tuning,
            counts=parse_counts(labels or (QUICK_LABELS if quick else LABELS), rows),
            pretraining=pretraining,
            minutes=minutes or (None if quick else MINUTES),
        )

    @property
    def choices(self) -> dict[str, Any]:
        """What runs have to agree in to stand in one table."""
        return {
            "quick": self.quick,
            "rows": self.rows.mark,
            "unlabelled": list(self.unlabelled),
            "minutes": self.minutes,
            "epochs": self.epochs,
            "settings": self.tuning,
            "pretraining": self.pretraining,
        }

    @property
    def seeds_told(self) -> str:
        return "one seed" if self.seeds == 1 else f"{self.seeds} seeds"

    @property
    def budget(self) -> str:
        """Of each pretraining."""
        return f"{self.minutes:g} minutes" if self.minutes else f"{QUICK_STEPS} steps"

    def epochs_for(self, count: int) -> int:
        """Passes over so many labels: the same for every side."""
        return self.epochs or (10 if count <= 5000 else 4)

    def pretrain(self, model: str, folder: Path, data: Path, progress: Progress) -> None:
        """Pretrain a preset on the text without labels; equal budgets for all presets."""
        texts = self.unlabelled or (str(write_jsonl(data / "texts.jsonl", self.rows.texts())),)
        budget = {"training.minutes": self.minutes} if self.minutes else {"training.steps": QUICK_STEPS}
        small = (
            {**QUICK.get(model, {}), "training.batch_tokens": 2048, "task.context": 128} if self.quick else {}
        )
        overrides = {"data.train": texts, **budget, "training.baseline": False, **small, **self.pretraining}
        train_once(TrainRequest(task="pretrain", preset=model, overrides=overrides), folder, progress)


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,) if names else ()
    return tuple(names)


def parse_counts(labels: str, rows: LabelledRows) -> tuple[int, ...]:
    """How many labels, from few to many: "500,2000,all"."""
    counts = []
    for word in labels.split(","):
        if word.strip() != "all" and not word.strip().isdigit():
            raise UserError(
                what=f'--labels: "{word.strip()}" is not a number of labels.',
                why="Numbers, or all, with commas between them.",
                fix="For instance: --labels 500,2000,all",
            )
        counts.append(len(rows.pool) if word.strip() == "all" else int(word))
    most, least = len(rows.pool), max(2, len(rows.labels))
    if wrong := [count for count in counts if not least <= count <= most]:
        held = f"{len(rows.valid):,} more are kept to validate on"
        raise UserError(
            what=(
                f"--labels: {wrong[0]:,} are asked for; there are {most:,} rows with {len(rows.labels)}"
                " different labels."
            ),
            why=f"Each label has to occur among them once, so at least {least}, and no row twice; {held}.",
            fix=f"For instance: --labels {max(least, most // 4)},all",
        )
    return tuple(sorted(set(counts)))
