"""Baselines of language models: what most often followed the last few symbols."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn import functional

from seqlab.answers.answer import Judged
from seqlab.answers.continuation import ContinuationAnswer, ScoredText
from seqlab.answers.documents import DocumentsAnswer, Done
from seqlab.answers.exercise_counts import BatchAnswers, ExerciseCounts, counted
from seqlab.answers.exercises import Answered, DocumentExercise, PairedBlanks
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.baselines.ngrams import NGrams
from seqlab.data.documents import NEXT
from seqlab.data.tokenizers import BOS, PAD
from seqlab.likelihood import sums
from seqlab.parts import Batch
from seqlab.seq import Seq

ORDERS = {"character": 6, "word": 3, "subword": 3}
"""How long the n-grams are, by what an id stands for."""


class NGramBaseline(Baseline):
    """N-grams that are counted in the training ids."""

    does = "what most often followed the last few symbols"
    ids: ClassVar[str]
    """What the ids are called in a store, and in the facts."""

    def __init__(self, answer: Any, ngrams: NGrams) -> None:
        super().__init__(answer)
        self.ngrams = ngrams

    @property
    def name(self) -> str:
        return f"{self.ngrams.order}-gram"

    @classmethod
    def order(cls, answer: Any) -> int:
        """How long they are."""
        return 3

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline:
        symbols = lesson.answer.facts.symbols[cls.ids]
        ngrams = NGrams.train(
            lesson.stores["train"].fields[cls.ids].values, symbols, cls.order(lesson.answer)
        )
        ngrams.save(folder)
        return cls(lesson.answer, ngrams)

    @classmethod
    def load(cls, answer: Any, folder: Path) -> Baseline | None:
        return cls(answer, NGrams.load(folder)) if folder.exists() else None


class TextGrams(NGramBaseline):
    """Of a language model's text."""

    ids = "written"
    answer: ContinuationAnswer

    @classmethod
    def order(cls, answer: ContinuationAnswer) -> int:
        return ORDERS[answer.learnt.unit]

    def judge(self, part: ScoredText) -> Judged:
        nats = self.ngrams.nats(part.written.values)
        if self.answer.by_rows:
            nats = np.where(part.written.values == BOS, 0.0, nats)
        return Judged(sums(nats, part.written.offsets), part.units)


class DocumentGrams(NGramBaseline):
    """Of documents, for whatever exercise is made of them."""

    ids = "text"
    answer: DocumentsAnswer

    def judge(self, part: Done) -> Judged:
        return Judged(*part.for_metrics(guessed(self.ngrams, part.exercise, part.most)))


def guessed(ngrams: NGrams, exercise: DocumentExercise, most: int | None) -> ExerciseCounts:
    """How n-grams do an exercise: each token from those before it in its block, as they are before anything
    is hidden.

    Of pairs, the answer that is commoner among them.
    """
    follows = (
        [rows[:, NEXT] for rows in exercise.fixed(most)]
        if isinstance(exercise, PairedBlanks)
        else [np.zeros(1)]
    )
    common = int(np.concatenate(follows).mean() > 0.5)

    def judged(batch: Batch) -> BatchAnswers:
        return gram_answered(ngrams, batch), np.full(batch.size, common) if "row" in batch.targets else None

    batches = ((rows, exercise.batch(rows)) for rows in exercise.fixed(most))
    return counted(exercise, most, ((rows, batch, judged(batch)) for rows, batch in batches))


def gram_answered(ngrams: NGrams, batch: Batch) -> Answered:
    """The answers of n-grams to a batch. An id that no text has stands before each row, so that rows do not
    mix."""
    written = batch.targets.get("written")
    read = written or batch.inputs["text"]
    assert isinstance(read, Seq)
    wanted, values = read.mask.clone(), read.values.clone()
    if written is not None:
        wanted[:, 0] = False  # fed, not written
    else:
        wanted[:] = False
        wanted.view(-1)[batch.places.positions] = True
        values.view(-1)[batch.places.positions] = batch.places.values
    real = functional.pad(read.mask, (1, 0), value=True)
    ids, asked = (functional.pad(one, (1, 0), value=PAD)[real].numpy() for one in (values, wanted))
    rows = torch.arange(len(values)).unsqueeze(1).expand_as(values)[wanted]
    return Answered(ngrams.nats(ids)[asked], (ngrams.guesses(ids) == ids)[asked], rows.numpy())
