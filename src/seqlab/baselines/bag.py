"""A linear model over TF-IDF weighted n-grams of words, learnt from the same rows: what many would use
instead."""

from __future__ import annotations

import copy
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from seqlab import rules
from seqlab.answers.answer import Judged, Known
from seqlab.answers.row import RowAnswer
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.config import Tree, build, dump, write_yaml
from seqlab.data.batches import chunks
from seqlab.data.readings import reading
from seqlab.data.store import Store, StoreWriter, cached_store
from seqlab.fields.text import TextField
from seqlab.files import write_json, write_text
from seqlab.folder import CONFIG, FACTS, FORMAT, WEIGHTS
from seqlab.model import Model, ModelConfig
from seqlab.report.evaluate import duration
from seqlab.training.budget import Budget
from seqlab.training.checkpoint import load_weights
from seqlab.training.loop import TrainConfig, Training
from seqlab.training.progress import Progress
from seqlab.training.validation import Validation

MODEL: Tree = {
    "input": {"kind": "bag"},
    "encoder": {"kind": "none"},
    "pool": {"kind": "mean"},
    "head": {"kind": "direct"},
}
SHARE = 0.1
"""Of a budget in minutes, what the baseline may take at the most."""
CHARACTERS_A_SECOND = 4_000_000
"""Characters that are turned into n-grams in a second, about."""


class BagOfNGrams(Baseline):
    """The preset `bow`, with default settings."""

    name = "bow"
    answer: RowAnswer[Any]

    def __init__(self, answer: RowAnswer[Any], text: TextField, model: Model) -> None:
        super().__init__(answer)
        self.text, self.model = text, model
        known = replace(answer.known, fields=(text, *answer.known.fields[1:]))
        self.own: RowAnswer[Any] = type(answer)(known, answer.target)

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline | None:
        answer = lesson.answer
        assert isinstance(answer, RowAnswer)
        if not worth_it(answer.known, lesson):
            return None
        text, store = _grams(lesson, answer)
        torch.manual_seed(lesson.seed)
        bag = cls(answer, text, cls._model(answer, text))
        training = bag._fit(lesson, store, folder)
        bag._save(lesson, training, folder)
        return cls.load(answer, folder)

    @classmethod
    def load(cls, answer: RowAnswer[Any], folder: Path) -> Baseline | None:
        if not (folder / WEIGHTS).exists():
            return None
        text = _reader(answer)
        text.load(folder, answer.facts.learnt)
        model = cls._model(answer, text)
        load_weights(model, folder / WEIGHTS)
        return cls(answer, text, model.eval())

    @staticmethod
    def _model(answer: RowAnswer[Any], text: TextField) -> Model:
        return Model(build(ModelConfig, MODEL, "bow"), replace(answer.parts, symbols=text.symbols))

    def judge(self, part: Store) -> Judged:
        return self.own.judge(self.model, self._encoded(part), "whole", self.answer.known.decode)

    def _encoded(self, part: Store) -> Store:
        """The n-grams of the rows of a store that kept its texts, and what they are compared with."""
        cells = [self.text.cells_of(text) for text in self.answer.reads.texts(part)]
        return Store(self.text.encode(cells, None, keep=False).values, part.arrays)

    def _save(self, lesson: Lesson, training: TrainConfig, folder: Path) -> None:
        """What makes the folder a run of its own, which can be asked like any other."""
        self.text.save(folder)
        facts = replace(self.answer.facts, symbols=self.text.symbols, cut={})  # it reads whole texts
        write_json(folder / FACTS, {"format": FORMAT, **facts.to_json()})
        tree = {
            "task": lesson.task | {key: 0.0 for key in ("smoothing", "penalty") if key in lesson.task},
            "data": dump(self.answer.known.data),
            "model": MODEL,
            "training": dump(training),
        }
        write_text(folder / CONFIG, write_yaml(tree))

    def _fit(self, lesson: Lesson, train: Store, folder: Path) -> TrainConfig:
        exercise, valid = self.own.exercise(train), self._encoded(lesson.stores["valid"])
        tokens = rules.gram_batch(lesson.all_rows, lesson.answer.facts.words)
        plan = exercise.plan(tokens, lesson.seed)
        batches, rows = len(plan.epoch(0)), lesson.stores["valid"].rows
        steps, minutes = max(1, round(lesson.epochs * batches)), None
        if lesson.minutes is not None:
            steps, minutes = max(1, int(rules.STRETCH * lesson.epochs * batches)), SHARE * lesson.minutes
        scored = lesson.stores["test"].rows if "test" in lesson.stores else rows
        budget = Budget(
            steps=steps, minutes=minutes, started=time.monotonic(), reserve=0.0, scorings=1.2 + scored / rows
        )
        config = TrainConfig(
            steps=None if minutes else steps,
            minutes=minutes,
            seed=lesson.seed,
            workers=1,
            batch_tokens=tokens,
            **rules.BAG_TRAINING,
        )

        def validate(model: nn.Module) -> Validation:
            assert isinstance(model, Model)
            return self.own.validation(self.own.judge(model, valid, "watched", self.answer.known.decode))

        Training(
            self.model,
            [(1.0, self.own.objective())],
            config,
            plan,
            load=exercise.batch,
            validate=validate,
            budget=budget,
            folder=folder,
            progress=Progress(quiet=True),
        ).run()
        shutil.rmtree(folder / "resume")
        return config


def worth_it(known: Known, lesson: Lesson) -> bool:
    """Unless the model itself is a bag, or this one would eat up the minutes before the first step."""
    if known.model.input is None or known.model.input.kind == "bag":
        return False
    seconds = lesson.characters / CHARACTERS_A_SECOND
    if lesson.minutes is None or seconds < SHARE * 60.0 * lesson.minutes:
        return True
    lesson.say(
        f"The baseline bow is left out: reading this much text for it would take about {duration(seconds)}."
    )
    return False


def _reader(answer: RowAnswer[Any]) -> TextField:
    """The text of a task, read as n-grams."""
    text = copy.copy(answer.reads)
    assert isinstance(text, TextField)
    text.reads = "grams"
    return text


def _grams(lesson: Lesson, answer: RowAnswer[Any]) -> tuple[TextField, Store]:
    """N-grams learnt from the training rows, and these rows as such."""
    text = _reader(answer)
    text.reading = reading(
        "grams", answer.known.data, outputs=max(1, len(answer.facts.learnt.get("labels", ())))
    )
    text.reading.train(text.text_of(cells) for cells in lesson.rows())
    targets = np.asarray(lesson.stores["train"].arrays["target"])

    def write(writer: StoreWriter) -> None:
        done = 0
        for rows in chunks(lesson.rows(), text.chunk):
            writer.append(
                text.encode(rows, None, keep=False).values, {"target": targets[done : done + len(rows)]}
            )
            done += len(rows)

    return text, cached_store(f"{answer.facts.fingerprint}-grams", write)
