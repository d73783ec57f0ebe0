"""The whole tree of settings of a run, put together from a preset, a file and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from seqlab import rules, tasks
from seqlab.config import Tree
from seqlab.data.read import DataConfig
from seqlab.decode import DecodeConfig
from seqlab.encoders import Conv, Transformer
from seqlab.model import ModelConfig
from seqlab.request import Request, known_preset, known_task
from seqlab.tasks.task import Size, TaskConfig
from seqlab.training.layer_rates import TransferConfig
from seqlab.training.loop import TrainConfig
from seqlab.training.workers import WORKER_TOKENS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that a person can choose; what the data decides is in facts.json."""

    task: TaskConfig = tasks.DEFAULT
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainConfig = TrainConfig()
    transfer: TransferConfig = TransferConfig()
    decode: DecodeConfig = DecodeConfig()


class TrainRequest(Request):
    """What a user asked for, before the data is known."""

    @classmethod
    def of(cls, request: Request) -> TrainRequest:
        return cls(**vars(request))

    def settings(self, size: Size | None = None) -> Settings:
        """The settings for data of this size. Called once before the data is read, to refuse mistakes
        early."""
        return self.built(lambda task, preset: self._preset(task, preset, size or Size()), Settings)

    def _preset(self, task: str, preset: str, size: Size) -> Tree:
        kind = task_class(task)
        tables = kind.tables(size)
        reads, usual = self.reads(tables, kind.choice), self.usual(kind.default, kind.instead)
        return known_preset(task, preset, tables, reads, usual, kind.choice)

    def depend_on_speed(self, size: Size) -> bool:
        """Whether a speed that is not known yet would make other settings on a slow machine than on a fast
        one."""
        if size.minutes is None or size.speed is not None:
            return False
        slow, fast = (self.settings(replace(size, speed=speed)) for speed in (1e-9, 1e12))
        return slow != fast

    def model_name(self, settings: Settings) -> str:
        """What to call the model in the name of a folder: its preset, or the encoder that a settings file
        asks for."""
        if start := settings.transfer.start:
            return f"from-{Path(start).name}"
        if self.preset or self.tree is None:
            return self.preset or self.usual(settings.task.default, settings.task.instead)
        return (settings.model.encoder or settings.model.decoder or settings.task).kind


def task_classes() -> dict[str, type[TaskConfig]]:
    """All tasks by name, the one that is meant where none is named first."""
    return dict(sorted(TaskConfig.kinds.items(), key=lambda one: one[0] != tasks.DEFAULT.kind))


def task_class(name: str) -> type[TaskConfig]:
    """The task of this name; a UserError where there is none."""
    tasks = task_classes()
    return tasks[known_task(name, tasks)]


def completed(settings: Settings, size: Size) -> Settings:
    """The settings with every empty number that follows from the size of the data filled in."""
    training = settings.training
    tokens = training.batch_tokens or rules.batch(size.words)
    workers = training.workers or usual_workers(settings, training.threads or torch.get_num_threads(), tokens)
    rate = training.rate or rules.usual_rate(training.optimiser)
    pull = rules.usual_decay(training.optimiser) if training.weight_decay is None else training.weight_decay
    filled = replace(training, batch_tokens=tokens, rate=rate, weight_decay=pull, workers=workers)
    return replace(settings, training=replace(filled, speed=size.speed))


def usual_workers(settings: Settings, threads: int, tokens: int) -> int:
    """How many workers share a step: every thread is one, unless rows can't be shared out or batches are too
    small for that.

    Threads within one operation wait for one another thousands of times a step, workers once. So a core that
    another process takes costs workers little more than that core, and threads most of their speed. In a bag
    of words a step is mostly the optimiser's, and gradients of so large a table are better not made twice.
    (benchmarks/recipes.md)
    """
    task, model = settings.task, settings.model
    compared = any(objective.compares for _, objective in task.objectives(model))
    if compared or task.carries(model) or settings.training.device != "cpu":
        return 1
    if model.input is not None and model.input.kind == "bag":
        return 1
    if any(
        isinstance(part, Conv) for part in (model.encoder, model.body)
    ):  # 0.7 to 0.9 of the speed of threads
        return 1
    return threads if looks_everywhere(model) or tokens >= WORKER_TOKENS * threads else 1


def looks_everywhere(model: ModelConfig) -> bool:
    """Whether it is a Transformer, whose many small products use several workers better than several
    threads."""
    return any(isinstance(part, Transformer) for part in (model.encoder, model.body))


def planned(settings: Settings, rows: int, batches_an_epoch: int) -> Settings:
    """The settings with the budget in steps, unless it is in minutes: what config.yaml shows."""
    training = settings.training
    if training.steps or training.minutes:
        return settings
    epochs = training.epochs or settings.task.epochs(rows)
    steps = max(1, round(epochs * batches_an_epoch / training.accumulate))
    return replace(settings, training=replace(training, epochs=None, steps=steps))
