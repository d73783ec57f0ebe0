"""How an exercise was done, counted: by a model, or by the n-grams that stand beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional

from seqlab.data.documents import NEXT
from seqlab.data.store import Store
from seqlab.data.text import EOS, PAD
from seqlab.inference import predicted
from seqlab.likelihood import sums
from seqlab.model import Model
from seqlab.parts import Batch, Output, Reply, meant
from seqlab.seq import Seq
from seqlab.tasks.exercises import Answered, Continue, Everywhere, Exercise, PairedBlanks, answered
from seqlab.tasks.ngrams import NGrams

HITS, NATS, PIECES, RIGHT, ASKED = range(5)
"""Columns of a tally: pieces found, their nats, pieces asked for; rows judged rightly, and rows."""


@dataclass(frozen=True)
class Tally:
    """How an exercise was done: one row of counts for each block, or pair of segments."""

    rows: np.ndarray
    nats: np.ndarray
    """Where every piece of the text is foreseen: the nats of each of the first ones, in their order; else empty."""

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


Found = tuple[Answered, np.ndarray | None]
"""What is made of a batch: its answers one by one and, of pairs, whether the second is said to follow (B)."""


def scored(model: Model, exercise: Exercise, most: int | None) -> Tally:
    """The exercise done by the model, on the first `most` ids of its text; hidden is what chance hides at seed 0."""

    def judged(output: Output, batch: Batch) -> tuple[Batch, Found]:
        return batch, (answered(output, batch), _argmax(output.answers.get("row")))

    found = predicted(model, exercise.fixed(most), exercise.batch, judged)
    return _counted(exercise, most, ((rows, batch, one) for rows, (batch, one) in found))


def foreseen(ngrams: NGrams, exercise: Exercise, most: int | None) -> Tally:
    """The same by n-grams: each piece from those before it in its block, as they are before anything is hidden.

    Of pairs, the answer that is commoner among them.
    """
    follows = [rows[:, NEXT] for rows in exercise.fixed(most)] if isinstance(exercise, PairedBlanks) else [np.zeros(1)]
    common = int(np.concatenate(follows).mean() > 0.5)

    def judged(batch: Batch) -> Found:
        return gram_answered(ngrams, batch), np.full(batch.size, common) if "row" in batch.targets else None

    batches = ((rows, exercise.batch(rows)) for rows in exercise.fixed(most))
    return _counted(exercise, most, ((rows, batch, judged(batch)) for rows, batch in batches))


def gram_answered(ngrams: NGrams, batch: Batch) -> Answered:
    """The answers of n-grams to a batch. A mark that no text has stands before each row, so that rows do not mix."""
    written = batch.targets.get("written")
    read = written or batch.inputs["text"]
    assert isinstance(read, Seq)
    wanted, values = read.mask.clone(), read.values.clone()
    if written is not None:
        wanted[:, 0] = False                                    # fed, not written
    else:
        wanted[:] = False
        wanted.view(-1)[batch.places.positions] = True
        values.view(-1)[batch.places.positions] = batch.places.values
    real = functional.pad(read.mask, (1, 0), value=True)
    ids, asked = (functional.pad(one, (1, 0), value=PAD)[real].numpy() for one in (values, wanted))
    rows = torch.arange(len(values)).unsqueeze(1).expand_as(values)[wanted]
    return Answered(ngrams.nats(ids)[asked], (ngrams.guesses(ids) == ids)[asked], rows.numpy())


def _counted(exercise: Exercise, most: int | None, judged: Iterable[tuple[np.ndarray, Batch, Found]]) -> Tally:
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
    return Tally(np.concatenate(tallies), nats)


def _argmax(reply: Reply | None) -> np.ndarray | None:
    return None if reply is None else reply.scores.argmax(dim=-1).cpu().numpy()


def _without_end(found: Answered, written: Seq) -> Answered:
    """Pieces of text alone: where a block ends says nothing about text."""
    kept = (written.values[:, 1:][written.mask[:, 1:]] != EOS).cpu().numpy()
    return replace(found, nats=found.nats[kept], hits=found.hits[kept], rows=found.rows[kept])
