"""How an exercise was done, counted: by a model, or by a baseline beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from seqlab.answers.exercises import Answered, Continue, DocumentExercise, Everywhere, answered
from seqlab.data.store import Store
from seqlab.data.tokenizers import EOS
from seqlab.inference import predicted
from seqlab.likelihood import sums
from seqlab.model import Model
from seqlab.parts import Batch, Output, Reply, meant
from seqlab.seq import Seq

HITS, NATS, PIECES, RIGHT, ASKED = range(5)
"""Columns of a tally: pieces found, their nats, pieces asked for; rows judged rightly, and rows."""


@dataclass(frozen=True)
class ExerciseCounts:
    """How an exercise was done: one row of counts for each block, or pair of segments."""

    rows: np.ndarray
    nats: np.ndarray
    """Where every token of the text is predicted: the nats of each of the first ones, in their order; else
    empty."""

    @property
    def loss(self) -> float:
        """Nats for each piece."""
        return float(self.rows[:, NATS].sum() / max(1.0, self.rows[:, PIECES].sum()))

    def for_metrics(self, offsets: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the task's metrics take: the nats of each sentence and its units, or the counts twice.

        `offsets` are those of the sentences, `units` their characters and words (N 2).
        """
        return by_sentence(self.nats, offsets, units) if len(self.nats) else (self.rows, self.rows)


def sentence_units(store: Store) -> np.ndarray:
    """Characters and words of each sentence (N 2)."""
    return np.stack([store.arrays["characters"], store.arrays["words"]], axis=1).astype(np.int64)


def by_sentence(nats: np.ndarray, offsets: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nats of each whole sentence that was scored, and its characters, words and pieces (N 3)."""
    count = max(1, int(np.searchsorted(offsets, len(nats), side="right")) - 1)
    offsets = np.minimum(np.asarray(offsets[: count + 1], np.int64), len(nats))
    return sums(nats, offsets), np.concatenate([units[:count], np.diff(offsets)[:, None]], axis=1)


BatchAnswers = tuple[Answered, np.ndarray | None]
"""What is made of a batch: its answers one by one and, of pairs, whether the second is said to follow (B)."""


def scored(model: Model, exercise: DocumentExercise, most: int | None) -> ExerciseCounts:
    """The exercise done by the model, on the first `most` ids of its text; hidden is what seed 0 hides."""

    def judged(output: Output, batch: Batch) -> tuple[Batch, BatchAnswers]:
        return batch, (answered(output, batch), _argmax(output.answers.get("row")))

    found = predicted(model, exercise.fixed(most), exercise.batch, judged)
    return counted(exercise, most, ((rows, batch, one) for rows, (batch, one) in found))


def counted(
    exercise: DocumentExercise, most: int | None, judged: Iterable[tuple[np.ndarray, Batch, BatchAnswers]]
) -> ExerciseCounts:
    everywhere = isinstance(exercise, Continue | Everywhere)
    nats = np.zeros(min(exercise.length, most or exercise.length) if everywhere else 0)
    tallies = []
    for rows, batch, (found, said) in judged:
        if "written" in batch.targets:
            found = _without_end(found, batch.written)
        counts = np.zeros((len(rows), 5))
        np.add.at(counts[:, HITS], found.rows, found.hits)
        np.add.at(counts[:, NATS], found.rows, found.nats)
        np.add.at(counts[:, PIECES], found.rows, 1)
        if said is not None:
            counts[:, RIGHT], counts[:, ASKED] = said == meant(batch.targets["row"]).cpu().numpy(), 1
        for row, (start, width, _) in enumerate(rows.tolist() if everywhere else ()):
            nats[start : start + width] = found.nats[found.rows == row]
        tallies.append(counts)
    return ExerciseCounts(np.concatenate(tallies), nats)


def _argmax(reply: Reply | None) -> np.ndarray | None:
    return None if reply is None else reply.scores.argmax(dim=-1).cpu().numpy()


def _without_end(found: Answered, written: Seq) -> Answered:
    """Pieces of text alone: where a block ends says nothing about text."""
    kept = (written.values[:, 1:][written.mask[:, 1:]] != EOS).cpu().numpy()
    return replace(found, nats=found.nats[kept], hits=found.hits[kept], rows=found.rows[kept])
