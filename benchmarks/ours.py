"""What `seqlab train` makes of settings, up to its first step: the candidate called seqlab of the benchmarks
that measure steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from seqlab.model import Model
from seqlab.session import make_plan
from seqlab.settings import Settings, TrainRequest, completed
from seqlab.tasks.prepare import Files, Prepared
from seqlab.training.budget import Budget
from seqlab.training.loop import Training
from seqlab.training.progress import Progress
from seqlab.training.validation import Validation

Changes = dict[str, object]
"""Settings by their dotted keys."""


@dataclass(frozen=True)
class Ours:
    """Settings, data made ready, and a training that has taken no step."""

    settings: Settings
    prepared: Prepared
    training: Training

    @staticmethod
    def of(task: str, preset: str, changes: Changes) -> Ours:
        wishes = TrainRequest(task=task, preset=preset, overrides=changes)
        first = wishes.settings()
        files = Files(first.task, first.data)
        settings = completed(wishes.settings(files.size), files.size)
        prepared = files.prepare(settings.data, settings.model, settings.decode)
        training = Training(
            Model(settings.model, prepared.answer.parts),
            settings.task.objectives(settings.model),
            settings.training,
            make_plan(settings, prepared),
            load=prepared.load,
            validate=_never,
            budget=Budget(steps=sys.maxsize),
            folder=Path("nowhere"),
            progress=Progress(quiet=True),
        )
        return Ours(settings, prepared, training)

    @property
    def symbols(self) -> int:
        """Size of the vocabulary of what is written."""
        return self.prepared.facts.symbols["written"]

    def step(self) -> int:
        """One step of the training loop: a batch from the store, loss in chunks, clipping, fused AdamW,
        averaged weights. How many tokens it learnt from."""
        before = self.training.counters.tokens
        self.training.take_step()
        return self.training.counters.tokens - before


def _never(_: object) -> Validation:
    raise AssertionError("nothing is validated here")
