"""The options of the labs about few labels: which rows, how many labels, how much to pretrain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqlab.data.builtin import write_stress_tables
from seqlab.data.files import find
from seqlab.data.read import DataConfig
from seqlab.data.store import cache_folder
from seqlab.errors import UserError
from seqlab.labs.lab import train_once
from seqlab.labs.rows import LabelledRows, read_rows, write_jsonl
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

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
OPTIONS = {"unlabelled": "", "test": "", "labels": "", "minutes": None, "epochs": None}
"""What these labs can be asked beside what every lab can; what each is when it is not given."""


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
    def of(given: Mapping[str, Any], pretrained: bool = False) -> LabOptions:
        """Everything that can be refused is refused here, before anything is written.

        `given` are all options of the lab; pretrained: whether there is a body already, of any size.
        """
        quick, minutes, epochs = given["quick"], given["minutes"], given["epochs"]
        data, test, texts = (names_of(given[name]) for name in ("data", "test", "unlabelled"))
        refuse_senseless(minutes, epochs, data, test, texts)
        told = dict(given["settings"] or {})
        tuning = {key: value for key, value in told.items() if not key.startswith(PRETRAIN)}
        pretraining = {key.removeprefix(PRETRAIN): told[key] for key in told.keys() - tuning.keys()}
        reading = reading_of(tuning)
        tuning = ({"training.rate": QUICK_RATE} if quick and not pretrained else {}) | tuning
        find(texts)  # refuses files that are not there
        if data:
            rows = read_rows(data, test, reading)
        else:
            train, _, tested = write_stress_tables(cache_folder().parent / "builtin")
            rows = read_rows([str(train)], [str(tested)], reading)
            pretraining = LETTERS | {"task.context": 128} | pretraining
            tuning = {"training.batch_tokens": LETTERS_AT_ONCE} | tuning
        counts = parse_counts(given["labels"] or (QUICK_LABELS if quick else LABELS), rows)
        return LabOptions(quick=quick, builtin=not data, rows=rows, unlabelled=texts, counts=counts,
                          seeds=given["seeds"], minutes=minutes or (None if quick else MINUTES),
                          epochs=epochs, tuning=tuning, pretraining=pretraining)  # fmt: skip

    @property
    def choices(self) -> dict[str, Any]:
        """What runs have to agree in to stand in one table."""
        told = ("quick", "minutes", "epochs", "pretraining")
        return {"rows": self.rows.mark, "unlabelled": list(self.unlabelled), "settings": self.tuning,
                **{name: getattr(self, name) for name in told}}  # fmt: skip

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

    def pretrain(
        self, model: str, folder: Path, data: Path, progress: Progress, own: Mapping[str, Any] | None = None
    ) -> None:
        """Pretrain a preset, with settings of its `own`, on the text without labels; all on equal budgets."""
        texts = self.unlabelled or (str(write_jsonl(data / "texts.jsonl", self.rows.texts())),)
        budget = {"training.minutes": self.minutes} if self.minutes else {"training.steps": QUICK_STEPS}
        small = (
            {**QUICK.get(model, {}), "training.batch_tokens": 2048, "task.context": 128} if self.quick else {}
        )
        overrides = {"data.train": texts, **budget, "training.baseline": False, **small, **(own or {}),
                     **self.pretraining}  # fmt: skip
        train_once(TrainRequest(task="pretrain", preset=model, overrides=overrides), folder, progress)


def reading_of(settings: Mapping[str, Any]) -> DataConfig:
    """How labelled files are read; what is said of a model is left for later, when there is one."""
    early = {key: value for key, value in settings.items() if not key.startswith("model.")}
    return TrainRequest(task="classify", overrides=early).settings().data


def refuse_senseless(
    minutes: float | None, epochs: int | None, data: Sequence[str], test: Sequence[str], texts: Sequence[str]
) -> None:
    """No budget, or files that belong to none."""
    for name, value in (("--minutes", minutes), ("--epochs", epochs)):
        if value is not None and value <= 0:
            what = f"{name} is {value:g}."
            raise UserError(what=what, why="Nothing would be trained.", fix=f"Give {name} 1 or more.")
    if (test or texts) and not data:
        option = "--test" if test else "--unlabelled"
        raise UserError(
            what=f"{option} is given without --data.", why="Without --data the lab has data of its own.",
            fix=f"Name labelled rows, too: --data reviews.csv {option} ...",
        )  # fmt: skip


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
