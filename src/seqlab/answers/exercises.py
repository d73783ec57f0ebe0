"""What a model learns from text alone: five kinds of exercise, each of which makes batches out of documents.

    causal              what comes next
    masked              what was masked (Devlin et al. 2019); with `next`, also whether two segments follow
    each other blank, both-ways    what stands at each position, from all that is around it (SPEC R8), or from
    each side apart (ELMo) denoise             the text itself, from a noisy copy (Lewis et al. 2020)

What is random follows from the seed of the run, the epoch and the row alone, so that neither batch-mates nor
resuming change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from seqlab.answers.answer import Exercise
from seqlab.data.batches import FIXED, Plan, Seeds, in_order
from seqlab.data.corrupt import Masked, Noise, corrupt, mask, row_random
from seqlab.data.documents import A_SIZE, A_START, B_SIZE, B_START, NEXT, SegmentPairs, sentence_starts
from seqlab.data.store import Ragged
from seqlab.data.stream import START, WIDTH, Blocks, stretches
from seqlab.data.tokenizers import BOS, CLS, EOS, SEP, Tokenizer
from seqlab.errors import UserError
from seqlab.likelihood import judge
from seqlab.parts import Batch, Output, Places, meant
from seqlab.seq import Seq, mask_of

INFERENCE_TOKENS = 8_192
"""Padded ids in a batch when nothing has to be kept for a backward pass."""
SHORT = 0.1
"""Share of the texts to be repaired that are cut at the end of a sentence."""


@dataclass(frozen=True)
class VocabularyFacts:
    """What an exercise has to know of the tokens."""

    symbols: int
    continues_word: np.ndarray
    """V: True for a token that does not start a word by itself, if the token before it can be continued."""
    can_continue: np.ndarray
    """V: True for a token that a next one may extend."""

    @staticmethod
    def of(tokenizer: Tokenizer) -> VocabularyFacts:
        return VocabularyFacts(tokenizer.size, *tokenizer.word_parts())

    def begins(self, ids: np.ndarray) -> np.ndarray:
        """Where a word begins."""
        before = np.concatenate([[False], self.can_continue[ids[:-1]]])
        begins: np.ndarray = ~(self.continues_word[ids] & before)
        return begins


@dataclass(frozen=True)
class Noises:
    """How much is hidden, and how."""

    share: float = 0.15
    whole_words: bool = False
    kinds: tuple[Noise, ...] = ("infill", "permute")
    span: float = 3.0


@dataclass(frozen=True)
class DocumentExercise(Exercise):
    """Batches out of documents (nested: sentences of ids)."""

    text: Ragged
    vocabulary: VocabularyFacts
    context: int
    """Ids that are seen at once, special tokens included."""
    noises: Noises

    special = 2
    """How many of the ids that are seen are special tokens around the text."""

    @property
    def length(self) -> int:
        return len(self.text.values)

    def plan(self, budget: int, seed: int) -> Plan:
        return Blocks(self.length, self.context - self.special, budget // self.context, seed)

    def fixed(self, most: int | None) -> Iterator[np.ndarray]:
        """The text from its beginning on, block after block, up to so many ids: to compare models on. A row a
        block."""
        length = self.length if most is None else min(most, self.length)
        width = self.context - self.special
        starts = np.arange(0, length, width)
        rows = np.stack([starts, np.minimum(width, length - starts), np.zeros_like(starts)], axis=1)
        for some in in_order(rows[:, WIDTH], INFERENCE_TOKENS):
            yield rows[some]

    def ids(self, row: np.ndarray) -> np.ndarray:
        """The ids of a block."""
        return np.asarray(self.text.values[row[START] : row[START] + row[WIDTH]], np.int64)


class Continue(DocumentExercise):
    """Predict each id from those before it; [SEP] stands before the first."""

    special = 0

    def batch(self, rows: np.ndarray, seeds: Seeds = FIXED) -> Batch:
        if len(np.unique(rows[:, WIDTH])) == 1:
            ids = torch.from_numpy(stretches(self.text.values, rows, SEP))
            written = Seq(ids, torch.ones(ids.shape, dtype=torch.bool))
        else:
            before = [self.text.values[row[START] - 1] if row[START] else SEP for row in rows]
            written = padded(
                [np.concatenate([[first], self.ids(row)]) for first, row in zip(before, rows, strict=True)]
            )
        return Batch({}, torch.from_numpy(rows[:, START]), {"written": written})


class Blanks(DocumentExercise):
    """[CLS] text [SEP], some pieces of it masked."""

    def batch(self, rows: np.ndarray, seeds: Seeds = FIXED) -> Batch:
        texts = [np.concatenate([[CLS], self.ids(row), [SEP]]) for row in rows]
        return self.masked(texts, rows[:, START], seeds)

    def masked(self, texts: Sequence[np.ndarray], numbers: np.ndarray, seeds: Seeds) -> Batch:
        """Texts, each with some of its pieces hidden at random."""
        made = [
            self._mask(ids, row_random(*seeds, int(number)))
            for ids, number in zip(texts, numbers, strict=True)
        ]
        shown = padded([one.shown for one in made])
        width = shown.mask.shape[1]
        places = np.concatenate([row * width + one.places for row, one in enumerate(made)])
        answers = torch.from_numpy(np.concatenate([one.answers for one in made]))
        return Batch(
            {"text": shown}, torch.from_numpy(numbers), {"places": Places(torch.from_numpy(places), answers)}
        )

    def _mask(self, ids: np.ndarray, random: np.random.Generator) -> Masked:
        begins = self.vocabulary.begins(ids) if self.noises.whole_words else None
        return mask(ids, random, share=self.noises.share, symbols=self.vocabulary.symbols, begins=begins)


class PairedBlanks(Blanks):
    """[CLS] x [SEP] y [SEP], some pieces masked; y follows x in the text, or is from elsewhere."""

    def plan(self, budget: int, seed: int) -> Plan:
        plan = SegmentPairs(self.text, self.context - 3, budget, seed)
        if not plan.usable:
            raise UserError(
                what="No text has two sentences.",
                why="Whether a sentence follows another one can be learnt only from texts with several.",
                fix="Leave it out with task.objective=masked, or give longer texts.",
            )
        return plan

    def batch(self, rows: np.ndarray, seeds: Seeds = FIXED) -> Batch:
        def stretch(start: int, size: int) -> np.ndarray:
            return np.asarray(self.text.values[start : start + size], np.int64)

        texts, segments = [], []
        for row in rows.tolist():
            first, second = stretch(row[A_START], row[A_SIZE]), stretch(row[B_START], row[B_SIZE])
            texts.append(np.concatenate([[CLS], first, [SEP], second, [SEP]]))
            segments.append(np.repeat([0, 1], [len(first) + 2, len(second) + 1]))
        made = self.masked(texts, rows[:, A_START], seeds)
        inputs = {**made.inputs, "segments": padded(segments)}
        target = torch.from_numpy(rows[:, NEXT].copy())
        return Batch(inputs, made.rows, {"row": target, **made.targets})

    def fixed(self, most: int | None) -> Iterator[np.ndarray]:
        found = 0
        for rows in self.plan(INFERENCE_TOKENS, 0).epoch(0):
            yield rows
            found += int((rows[:, A_SIZE] + rows[:, B_SIZE]).sum())
            if most is not None and found >= most:
                return


class Everywhere(DocumentExercise):
    """Every id of the text has to be found, by a model that is not shown it at its own place."""

    special = 0

    def batch(self, rows: np.ndarray, seeds: Seeds = FIXED) -> Batch:
        text = padded([self.ids(row) for row in rows])
        places = text.mask.flatten().nonzero().squeeze(1)
        target = Places(places, text.values.flatten()[places])
        return Batch({"text": text}, torch.from_numpy(rows[:, START]), {"places": target})


class Repair(DocumentExercise):
    """A noisy copy is read, the text itself is written.

    A tenth of the blocks end with one of their sentences: a model that only ever saw full blocks would write
    one for every text, however short.
    """

    def batch(self, rows: np.ndarray, seeds: Seeds = FIXED) -> Batch:
        read, written = [], []
        for row in rows:
            ids, random = self.ids(row), row_random(*seeds, int(row[START]))
            starts = sentence_starts(self.text.offsets, int(row[START]), len(ids))
            ends, noises = starts[starts > 0], self.noises
            if len(ends) and random.random() < SHORT:
                ids = ids[: random.choice(ends)]
            noisy = corrupt(ids, starts, random, kinds=noises.kinds, share=noises.share, span=noises.span)
            read.append(np.concatenate([noisy, [EOS]]))
            written.append(np.concatenate([[BOS], ids, [EOS]]))
        return Batch({"text": padded(read)}, torch.from_numpy(rows[:, START]), {"written": padded(written)})


def padded(rows: Sequence[np.ndarray]) -> Seq:
    """Rows of ids as one padded batch."""
    lengths = torch.tensor([len(row) for row in rows])
    real = mask_of(lengths)
    values = torch.zeros(real.shape, dtype=torch.long)
    values[real] = torch.from_numpy(np.concatenate(rows).astype(np.int64))
    return Seq(values, real)


# How well it is done ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    """What a model made of the places of a batch that have an answer."""

    nats: np.ndarray
    """−log p of each answer."""
    hits: np.ndarray
    """Whether it was held likeliest."""
    rows: np.ndarray
    """The row of each."""


def answered(output: Output, batch: Batch) -> Answered:
    """The answers at places, or those written, one by one. Of two directions: mean nats, and what both hold
    likeliest."""
    if "written" in batch.targets:
        real = batch.written.mask[:, 1:]
        rows = torch.arange(len(real)).unsqueeze(1).expand_as(real)[real.cpu()]
        return Answered(*judge(output.answers["written"], meant(batch.written)), rows.numpy())
    assert output.states is not None
    rows = batch.places.positions.cpu() // output.states.mask.shape[1]
    return Answered(*judge(output.answers["places"], batch.places.values), rows.numpy())
