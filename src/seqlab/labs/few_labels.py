"""The same task learnt from the same few labelled rows by several sides: what `transfer` and `objectives`
share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seqlab.config import dump
from seqlab.encoders import Lstm, Stack
from seqlab.folder import METRICS, SCORES
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.options import GRAMS_AT_ONCE, LETTERS, READING, LabOptions
from seqlab.labs.picture import Line, Panel
from seqlab.labs.rows import write_jsonl
from seqlab.labs.trials import Trial, train_each
from seqlab.training.progress import Progress
from seqlab.transfer import PretrainedRun

BOW = "bow"


# Learning ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arm:
    """One arm of the comparison: a model that learns the task."""

    name: str
    body: Path | None = None
    """A pretrained run, whose architecture and tokenizer it has; none: the bag of words."""
    new: bool = False
    """Whether its weights are new all the same."""
    bilstm: bool = False
    """Whether a new LSTM in both directions reads the states of the body."""


@dataclass(frozen=True)
class Learnt:
    """What came of one run."""

    accuracy: float
    """Of the best checkpoint, on the test rows."""
    by_epoch: tuple[float, ...]
    """On the validation rows, after each epoch."""


@dataclass(frozen=True)
class Comparison:
    """All runs of a lab: every side, with every number of labels, with every seed."""

    options: LabOptions
    folder: Path
    progress: Progress

    def learn(self, sides: Sequence[Arm]) -> dict[tuple[str, int], tuple[Learnt, ...]]:
        """Train what is not trained yet, and give everything: one entry a seed."""
        options = self.options
        if shared := options.rows.shared:
            self.progress.say(
                f"Warning: {shared:,} of {len(options.rows.test):,} test rows have a text that is learnt"
                " from, too."
            )
        every = {
            (side, count, seed): self.trial(side, count, seed)
            for seed in range(options.seeds) for count in options.counts for side in sides
        }  # fmt: skip
        for (side, count, seed), far in train_each(every, self.at_once, self.work):
            accuracy = self.read(side, count, seed).accuracy
            self.progress.say(
                f"{count:,} labels, seed {seed}, {side.name}: test accuracy {accuracy:.3f}   {far}"
            )
        cells = [(side, count) for side in sides for count in options.counts]
        return {
            (side.name, count): tuple(self.read(side, count, seed) for seed in range(options.seeds))
            for side, count in cells
        }

    def work(self, key: tuple[Arm, int, int]) -> float:
        """About how long a run takes, in rows that are learnt from; to score one takes a third of that."""
        side, count, _ = key
        if side.body is None:
            return float(count)  # a little, whatever the model
        epochs, rows = self.options.epochs_for(count), self.options.rows
        return epochs * (count + len(rows.valid) / 3) + len(rows.test) / 3

    def rows_file(self, count: int, seed: int) -> Path:
        """The labels of a seed; all of them are the same with every seed."""
        if count == len(self.options.rows.pool):
            return write_jsonl(self.folder / "data" / "all.jsonl", self.options.rows.pool)
        path = self.folder / "data" / f"{count}-{seed}.jsonl"
        return path if path.exists() else write_jsonl(path, self.options.rows.order(seed)[:count])

    def trial(self, side: Arm, count: int, seed: int) -> Trial:
        """What a run is asked for. Sides with a body have the same settings; only the weights that they start
        from differ."""
        data, rows, folder = self.folder / "data", self.options.rows, str(self.run_folder(side, count, seed))
        overrides: dict[str, Any] = {
            "data.train": (str(self.rows_file(count, seed)),),
            "data.valid": (str(write_jsonl(data / "valid.jsonl", rows.valid)),),
            "data.test": (str(write_jsonl(data / "test.jsonl", rows.test)),),
            "training.seed": seed, "training.baseline": False, "training.threads": 1,
        }  # fmt: skip
        if side.body is None:
            letters = {**LETTERS, "training.batch_tokens": GRAMS_AT_ONCE} if self.options.builtin else {}
            return Trial(folder, overrides | letters, preset=BOW)
        epochs = self.options.epochs_for(count)
        overrides |= {
            "training.epochs": epochs,
            "training.validations": epochs,
            "training.patience": epochs + 1,
        }
        overrides |= {key: value for key, value in self.options.tuning.items() if not key.startswith(READING)}
        if side.bilstm:
            overrides["model.encoder"] = dump(with_bilstm(PretrainedRun(side.body)))
        if side.new:
            return Trial(folder, overrides, like=str(side.body))
        return Trial(folder, overrides | {"transfer.start": str(side.body)})

    @property
    def at_once(self) -> int:
        """Trials side by side: one a core, or one with the threads that were asked for."""
        return 1 if "training.threads" in self.options.tuning else torch.get_num_threads()

    def run_folder(self, side: Arm, count: int, seed: int) -> Path:
        return self.folder / "trials" / f"{side.name.replace(' ', '-')}-{count}-{seed}"

    def read(self, side: Arm, count: int, seed: int) -> Learnt:
        """A finished run, from its files."""
        folder = self.run_folder(side, count, seed)
        scores = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        metrics = [json.loads(line) for line in (folder / METRICS).read_text(encoding="utf-8").splitlines()]
        return Learnt(scores["metrics"]["accuracy"]["value"], tuple(row["valid_accuracy"] for row in metrics))


def with_bilstm(source: PretrainedRun) -> Stack:
    """The encoder of a body with an LSTM above it that reads its states from both ends."""
    reader, body = source.reader()
    return Stack(encoders=(body, Lstm(width=reader.width // 2, directions="both")))


# Telling ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """What all runs came to."""

    learnt: Mapping[tuple[str, int], tuple[Learnt, ...]]

    def tested(self, side: str, count: int) -> Spread:
        return Spread(tuple(one.accuracy for one in self.learnt[side, count]))

    def change(self, one: str, two: str, count: int) -> Spread:
        """Test accuracy of one side less that of another, seed by seed."""
        return self.tested(one, count).minus(self.tested(two, count))

    def after(self, side: str, count: int, epoch: int) -> Spread:
        """Validation accuracy after an epoch, counted from 1."""
        return Spread(tuple(one.by_epoch[epoch - 1] for one in self.learnt[side, count]))

    def epochs(self, side: str, count: int) -> int:
        return min(len(one.by_epoch) for one in self.learnt[side, count])

    def curve(self, side: str, count: int) -> list[Spread]:
        return [self.after(side, count, epoch) for epoch in range(1, self.epochs(side, count) + 1)]

    def settled(self, side: str, count: int) -> Spread:
        """Epochs until a run is within a point of its best on the validation rows."""
        runs = [one.by_epoch for one in self.learnt[side, count]]
        near = [[value >= max(some) - 0.01 for value in some] for some in runs]
        return Spread(tuple(1.0 + some.index(True) for some in near))

    def fall(self, side: str, count: int) -> Spread:
        """The largest fall of a run from one epoch to the next; 0 where there is none."""
        pairs = [list(itertools.pairwise(one.by_epoch)) for one in self.learnt[side, count]]
        return Spread(tuple(max([0.0, *(before - after for before, after in some)]) for some in pairs))

    def panels(self, sides: Sequence[str], counts: Sequence[int]) -> tuple[Panel, ...]:
        """Accuracy by epoch, a chart for each number of labels."""
        panels = []
        for count in counts:
            curves = {side: self.curve(side, count) for side in sides}
            lines = tuple(
                Line(
                    side,
                    list(range(1, len(curve) + 1)),
                    [one.mean for one in curve],
                    [one.deviation for one in curve],
                )
                for side, curve in curves.items()
            )
            panels.append(Panel(f"{count:,} labels", "epoch", "validation accuracy", lines))
        return tuple(panels)

    def to_json(self) -> dict[str, Any]:
        cells = [
            {
                "side": side, "labels": count, "test_accuracy": self.tested(side, count).to_json(),
                "valid_accuracy_by_epoch": [one.to_json() for one in self.curve(side, count)],
            }
            for side, count in self.learnt
        ]  # fmt: skip
        return {"cells": cells}


def by_epoch(results: Results, sides: Sequence[str], counts: Sequence[int]) -> ResultTable:
    """Validation accuracy after each epoch; shorter runs have empty cells at the end."""
    longest = max(results.epochs(side, count) for side in sides for count in counts)
    rows = [(f"{count:,}", side, *map(str, results.curve(side, count))) for count in counts for side in sides]
    header = ("labels", "side", *(f"epoch {epoch}" for epoch in range(1, longest + 1)))
    return ResultTable(
        "Validation accuracy by epoch", header, tuple(row + ("",) * (len(header) - len(row)) for row in rows)
    )


LEVEL = 0.05
"""Fewer points than this are shown as none."""


def told_difference(change: Spread, who: str, other: str) -> str:
    """What a paired difference says: who is ahead, by how much, and whether seeds alone could have made
    it."""
    points, margin, seeds = 100 * change.mean, 100 * change.margin, len(change.values)
    lead = f"{who} is {abs(points):.1f} points {'behind' if points < 0 else 'ahead of'} {other}"
    if seeds == 1:
        return f"{lead}, though one seed can't tell that from chance"
    interval = f"95 % interval {points - margin:+.1f} to {points + margin:+.1f}"
    if abs(points) < LEVEL:
        return f"{who} is level with {other} ({interval})"
    if abs(points) > margin:
        return f"{lead} ({interval})"
    return f"{lead}, though {seeds} seeds can't tell that from chance ({interval})"
