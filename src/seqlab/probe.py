"""How fast this machine would train a model: real steps of the training loop on rows that are made up."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seqlab.errors import UserError
from seqlab.memory import available
from seqlab.model import Model
from seqlab.parts import Facts
from seqlab.report.amounts import memory, short
from seqlab.report.cost import Inspection
from seqlab.report.evaluate import duration
from seqlab.settings import Settings, completed
from seqlab.tasks.task import Size
from seqlab.training.budget import Budget
from seqlab.training.imagined import ImaginedPlan, ImaginedRows
from seqlab.training.loop import Training
from seqlab.training.progress import Progress
from seqlab.training.speed import batches_a_second
from seqlab.training.validation import Validation

SECONDS = 10.0
"""How long steps are taken."""
SPARE = 200e6
"""Bytes that torch and this program take without a model."""


@dataclass(frozen=True)
class Probe:
    """What was measured."""

    tokens_a_second: float
    rows: int
    """Rows of a batch."""
    length: int
    workers: int
    epoch_rows: int
    """Rows of an epoch."""
    read: int
    """Tokens of a row that training counts: those that are written where something is."""

    @property
    def epoch_seconds(self) -> float:
        return self.epoch_rows * self.read / self.tokens_a_second

    def facts(self) -> dict[str, str]:
        return {
            "tokens a second here": short(self.tokens_a_second),
            f"an epoch of {self.epoch_rows:,} rows": duration(self.epoch_seconds),
        }

    def lines(self) -> list[str]:
        each = (
            f"{self.rows:,} rows of {self.length:,}, {self.workers} worker{'s' if self.workers > 1 else ''}"
        )
        return [
            f"Measured on this machine ({each}): {short(self.tokens_a_second)} tokens a second;"
            f" an epoch of {self.epoch_rows:,} such rows takes {duration(self.epoch_seconds)}."
        ]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "epoch_seconds": self.epoch_seconds}


def probe(settings: Settings, facts: Facts, inspection: Inspection, epoch_rows: int) -> Probe:
    """Some seconds of training steps. The settings may leave open what follows from the size of the data."""
    length = inspection.length
    settings = completed(settings, Size(rows=epoch_rows, words=length))
    training = settings.training
    assert training.batch_tokens is not None and training.workers is not None
    rows = max(1, training.batch_tokens // length)
    room = refuse_too_large(inspection, training.workers)
    if room is not None:  # a step keeps about twice what the ledger counts of each row
        rows = max(1, min(rows, int(room / (2 * max(1, inspection.kept)))))
    threads = torch.get_num_threads()
    torch.set_num_threads(training.threads or threads)
    try:
        with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(training.seed)
            return _measured(settings, facts, length, rows, epoch_rows, Path(folder))
    finally:
        torch.set_num_threads(threads)


def _measured(
    settings: Settings, facts: Facts, length: int, rows: int, epoch_rows: int, folder: Path
) -> Probe:
    began = time.monotonic()
    task, training = settings.task, settings.training
    model = Model(settings.model, facts).to(training.device)
    objectives, carries = task.objectives(settings.model), task.carries(settings.model)
    imagined = ImaginedRows(model, facts, objectives, length, task.asked, carries)
    trainer = Training(
        model,
        objectives,
        training,
        ImaginedPlan(length, 1, carries),
        load=imagined.batch,
        validate=lambda _: Validation(0.0, 0.0, {}),
        budget=Budget(steps=sys.maxsize),
        folder=folder,
        progress=Progress(quiet=True),
    )
    alone = 1 / batches_a_second(trainer, 0.0)  # one row, to know how many can be tried
    left = max(1.0, SECONDS - (time.monotonic() - began))
    rows = max(1, min(rows, int(left / 4 / alone)))
    trainer.plan, trainer.stream, trainer.carried = ImaginedPlan(length, rows, carries), None, None
    tokens, steps = trainer.counters.tokens, trainer.counters.step
    speed = batches_a_second(trainer, left)
    each = (trainer.counters.tokens - tokens) / max(1, trainer.counters.step - steps)
    return Probe(
        tokens_a_second=speed * each / training.accumulate,
        rows=rows,
        length=length,
        workers=trainer.workers.count,
        epoch_rows=epoch_rows,
        read=round(each / rows / training.accumulate),
    )


def refuse_too_large(inspection: Inspection, workers: int) -> float | None:
    """By the ledger's own estimate: weights and their average, gradients of each worker, what the optimiser
    keeps, and one example. Gives the bytes that are left, where that is known."""
    needed = 4 * inspection.total * (2 + workers + inspection.moments) + inspection.kept + SPARE
    there = available()
    if there is not None and needed > there:
        raise UserError(
            what=f"Training {inspection.name} takes {memory(needed)}, and {memory(there)} are free.",
            why=f"--probe takes real steps: {inspection.total:,} parameters with their gradients, their"
            f" average and the optimiser's memory, and {memory(inspection.kept)} for one row of"
            f" {inspection.length:,} positions.",
            fix="Leave --probe out, or inspect a smaller model: fewer layers, a smaller width or --length.",
        )
    return None if there is None else there - needed
