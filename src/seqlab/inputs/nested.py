"""Nested inputs: each position is itself a sequence, read by an input, an encoder and a pool of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqlab.config import Positive
from seqlab.encoders.recurrent import Gru
from seqlab.inputs.tokens import FIELD, Tokens
from seqlab.nn.layers import listed
from seqlab.outputs.pools import Attention, AttentionPool
from seqlab.parts import Attends, Batch, Cost, EncoderConfig, Facts, Input, InputConfig, PoolConfig
from seqlab.seq import Nested, Seq

WORDS, READER, WEIGHTS = Tokens(width=100), Gru(width=50, directions="both"), Attention(hidden=100)
"""What happens inside a sentence, unless told otherwise: the word level of Yang et al. 2016, with narrower
word vectors."""

LETTERS = 6
"""A word is taken to have this many characters where costs are told."""


@dataclass(frozen=True, kw_only=True)
class NestedConfig(InputConfig, kind="nested"):
    """One vector for each sentence of a document, or for each word from its characters."""

    of: Literal["sentences", "characters"] = "sentences"
    """What an example consists of: sentences of words, or words of characters."""
    inner: InputConfig = WORDS
    """Reads the words of a sentence, or the characters of a word."""
    encoder: EncoderConfig = READER
    """Runs inside each sentence or word."""
    pool: PoolConfig = WEIGHTS
    """Makes one vector of each sentence or word."""
    words: InputConfig | None = None
    """With of: characters, also read each word whole and put its vector beside the one from its
    characters."""

    def __post_init__(self) -> None:
        if self.words is not None and self.of == "sentences":
            raise ValueError(
                "words goes with of: characters; sentences are read word by word already. Leave words empty."
            )

    @property
    def reads(self) -> str:  # type: ignore[override]
        return self.of

    def build(self, facts: Facts) -> NestedInput:
        return NestedInput(self, facts)


@dataclass(frozen=True, kw_only=True)
class NestedContextConfig(InputConfig, kind="nested-context"):
    """One state for each sentence of a document, where the attention inside a sentence knows the sentences
    before it."""

    reads = "sentences"

    inner: InputConfig = WORDS
    """Reads the words of a sentence."""
    encoder: EncoderConfig = READER
    """Runs inside each sentence."""
    pool: Attention = WEIGHTS
    """Makes one vector of each sentence, in view of the document so far."""
    width: Positive = 50
    """Width of the document's state in one direction."""
    context: Literal["forward", "both"] = "both"
    """Read the sentences forward, or also backward with a pool and a state of their own."""

    def build(self, facts: Facts) -> NestedContextInput:
        return NestedContextInput(self, facts)


class Inner(Input):
    """What nested inputs share: all real inner sequences of a batch, encoded in a few groups of like
    length."""

    def __init__(self, inner: InputConfig, encoder: EncoderConfig, facts: Facts, symbols: str) -> None:
        super().__init__()
        self.inner = inner.build(Facts(symbols={FIELD: facts.symbols[symbols]}, outputs=facts.outputs))
        self.encoder = encoder.build(self.inner.width)

    def encoded(self, rows: Seq) -> Iterator[tuple[Seq, Int[Tensor, " G"]]]:
        """Groups of inner rows (N W) as states (G W' D), with the numbers of these rows.

        Sorted by length and cut into √N / 4 groups, 400 sentences take half the time; more groups lose to
        narrow batches what they save (measured with a GRU, N from 64 to 1000). Recorded attention keeps one
        group in reading order.
        """
        recording = any(isinstance(module, Attends) and module.tape is not None for module in self.modules())
        groups = 1 if recording else max(1, round(math.sqrt(rows.rows) / 4))
        lengths = rows.lengths
        order = (
            torch.arange(rows.rows, device=lengths.device)
            if groups == 1
            else lengths.argsort(descending=True, stable=True)
        )
        for group in order.chunk(groups):
            longest = int(lengths[group].max())
            part = Seq(rows.values[group, :longest], rows.mask[group, :longest])
            yield self.encoder(self.inner(Batch({FIELD: part}, group))), group

    def imagined_rows(self, rows: int, each: int, length: int) -> Nested:
        """So many outer rows of `each` inner ones of this length."""
        inner = self.inner.imagined(rows * each, length)[FIELD]
        assert isinstance(inner, Seq)
        return Nested(inner, torch.ones(rows, each, dtype=torch.bool))

    def inner_costs(self, rows: int, length: int) -> list[Cost]:
        """Costs of `rows` inner sequences of this length, which run side by side."""
        costs = [cost.below("inner") for cost in self.inner.costs(length)]
        costs += [cost.below("encoder") for cost in self.encoder.costs(self.inner.length_after(length))]
        return [many(cost, rows) for cost in costs]


def many(cost: Cost, times: int) -> Cost:
    """The cost of this many side by side: more work, the same steps and paths."""
    return replace(
        cost,
        work=cost.work * times,
        projections=cost.projections * times,
        mixing=cost.mixing * times,
        memory=cost.memory * times,
    )


class NestedInput(Inner):
    """Documents (B S W) to a vector for each sentence (B S D), or words of characters (B T W) to one for each
    word.

    With an encoder and an attention pool on top this is the hierarchical network of Yang et al. 2016. Only
    real inner rows are computed. Its maps (N H Q K) have one entry for each real inner row, in reading order.
    """

    def __init__(self, config: NestedConfig, facts: Facts) -> None:
        super().__init__(
            config.inner, config.encoder, facts, FIELD if config.of == "sentences" else "characters"
        )
        self.of = config.of
        self.pool = config.pool.build(self.encoder.width)
        self.words = config.words.build(facts) if config.words is not None else None
        self.width = self.pool.width + (self.words.width if self.words is not None else 0)

    def forward(self, batch: Batch) -> Seq:
        field = batch.inputs[FIELD if self.of == "sentences" else "characters"]
        assert isinstance(field, Nested)
        vectors, numbers = [], []
        for states, group in self.encoded(field.inner):
            vectors.append(self.pool(states).vector)
            numbers.append(group)
        values = scatter_rows(torch.cat(vectors), torch.cat(numbers), field)
        if self.words is not None:
            values = torch.cat([values, self.words(batch).values], dim=-1)
        return Seq(values, field.mask)

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        field = FIELD if self.of == "sentences" else "characters"
        nested = self.imagined_rows(rows, *inner_shape(self.of, length))
        return {field: nested, **(self.words.imagined(rows, length) if self.words is not None else {})}

    def length_after(self, length: int) -> int:
        return inner_shape(self.of, length)[0]

    def costs(self, length: int) -> list[Cost]:
        """A document of n words is taken as √n sentences of √n words, a word as six characters."""
        rows, each = inner_shape(self.of, length)
        costs = self.inner_costs(rows, each)
        costs += [many(cost.below("pool"), rows) for cost in self.pool.costs(self.encoder.length_after(each))]
        if self.words is not None:
            costs += [cost.below("words") for cost in self.words.costs(length)]
        return costs


def inner_shape(of: str, length: int) -> tuple[int, int]:
    """How many inner sequences of which length stand for `length` words."""
    if of == "characters":
        return length, LETTERS
    sentences = math.isqrt(max(length - 1, 0)) + 1
    return sentences, -(-length // sentences)


def scatter_rows(
    vectors: Float[Tensor, "N D"], numbers: Int[Tensor, " N"], field: Nested
) -> Float[Tensor, "B S D"]:
    """Each inner row's vector at the place of that row; zeros elsewhere."""
    places = field.mask.flatten().nonzero().squeeze(1)  # N: where row n stands
    flat = vectors.new_zeros(field.mask.numel(), vectors.shape[1])
    return flat.index_copy(0, places[numbers], vectors).view(*field.mask.shape, -1)


class NestedContextInput(Inner):
    """Documents (B S W) to the state after each sentence (B S D): hierarchical attention that knows its
    context.

    The words' states come first, for all sentences at once. Then a loop over sentences: the attention over
    the words of sentence i scores them with v · tanh(W h + W_c c + b), where c is the state of a
    sentence-level GRU after sentence i - 1, and the sentence's vector makes the next state. With `context:
    both` a second loop runs from the end, with a pool and a GRU of its own, and the states are put side by
    side.
    """

    readers: Sequence[SentenceReader]

    def __init__(self, config: NestedContextConfig, facts: Facts) -> None:
        super().__init__(config.inner, config.encoder, facts, FIELD)
        ways = (False, True) if config.context == "both" else (False,)
        readers = [SentenceReader(config, self.encoder.width, backward) for backward in ways]
        self.readers = listed(readers)
        self.width = config.width * len(self.readers)

    def forward(self, batch: Batch) -> Seq:
        field = batch.inputs[FIELD]
        assert isinstance(field, Nested)
        words = self._words_by_step(field)
        found = [reader(words, field) for reader in self.readers]
        states = torch.cat(found, dim=-1)
        return Seq(states, field.mask, summary=self._summary(states, field))

    def _words_by_step(self, field: Nested) -> Seq:
        """States of the words (N W D), all first sentences before all second ones: what one step reads lies
        together."""
        values, masks, numbers = [], [], []
        longest = self.encoder.length_after(field.inner.mask.shape[1])
        for states, group in self.encoded(field.inner):
            spare = longest - states.mask.shape[1]
            values.append(F.pad(states.values, (0, 0, 0, spare)))
            masks.append(F.pad(states.mask, (0, spare)))
            numbers.append(group)
        found = torch.cat(numbers).argsort()  # row n is at found[n]
        order = found[reading_order(field).sort().indices]
        return Seq(torch.cat(values)[order], torch.cat(masks)[order])

    def _summary(self, states: Float[Tensor, "B S D"], field: Nested) -> Float[Tensor, "B D"]:
        rows = torch.arange(field.rows, device=states.device)
        last, first = states[rows, field.mask.sum(dim=1) - 1], states[:, 0]
        one = self.width // len(self.readers)
        return torch.cat([last[:, :one], first[:, one:]], dim=-1)

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: self.imagined_rows(rows, *inner_shape("sentences", length))}

    def length_after(self, length: int) -> int:
        return inner_shape("sentences", length)[0]

    def costs(self, length: int) -> list[Cost]:
        """A document of n words is taken as √n sentences of √n words."""
        rows, each = inner_shape("sentences", length)
        costs = self.inner_costs(rows, each)
        for number, reader in enumerate(self.readers):
            costs += [
                cost.below(f"readers.{number}")
                for cost in reader.costs(rows, self.encoder.length_after(each))
            ]
        return costs


def reading_order(field: Nested) -> Int[Tensor, " N"]:
    """For each inner row in reading order, its rank when sorted by sentence number first and row second."""
    by_step = torch.zeros_like(field.mask, dtype=torch.int64)
    places = field.mask.T.nonzero()  # sentence and row, step by step
    by_step[places[:, 1], places[:, 0]] = torch.arange(len(places), device=places.device)
    return by_step[field.mask]


class SentenceReader(nn.Module):
    """One pass over the sentences of a batch: a word-level pool that sees the state, and the cell that
    updates it."""

    def __init__(self, config: NestedContextConfig, width_in: int, backward: bool) -> None:
        super().__init__()
        self.backward = backward
        self.pool = AttentionPool(config.pool, width_in, context=config.width)
        self.cell = nn.GRUCell(width_in, config.width)

    def forward(self, words: Seq, field: Nested) -> Float[Tensor, "B S D"]:
        """`words` are the sentences' states (N W E), first sentences first; the result has a state for each
        sentence."""
        values = self.pool.dropout(words.values)
        scored = self.pool.hidden(values)
        counts = field.mask.sum(dim=0).tolist()  # rows that have a sentence s
        steps = list(
            zip(
                values.split(counts),
                scored.split(counts),
                words.mask.split(counts),
                field.mask.T,
                strict=True,
            )
        )
        state = values.new_zeros(field.rows, self.cell.hidden_size)
        states: list[Tensor] = []
        weights: list[Tensor] = []
        for sentence, scores, mask, alive in reversed(steps) if self.backward else steps:
            rows = alive.nonzero().squeeze(1)
            context = state[rows]
            pooled = self.pool.weigh(sentence, scores, mask, context)
            state = state.index_copy(0, rows, self.cell(pooled.vector, context))
            states.append(state)
            assert pooled.weights is not None
            weights.append(pooled.weights)
        if self.backward:
            states.reverse()
            weights.reverse()
        if self.pool.tape is not None:
            maps = torch.cat(weights).detach()[reading_order(field)]
            self.pool.tape.append(maps.unsqueeze(2))  # N 1 1 W, in reading order
        return torch.stack(states, dim=1)

    def costs(self, rows: int, length: int) -> list[Cost]:
        width, width_in = self.cell.hidden_size, self.cell.input_size
        [pool] = self.pool.costs(length)
        return [
            replace(many(pool.below("pool"), rows), sequential_steps=rows),
            Cost(
                name="cell",
                parameters=3 * width * (width_in + width + 2),
                parameters_formula="3d(d_in + d + 2)",
                work=3 * rows * width * width,
                work_formula="3sd²",
                projections=3 * rows * width_in * width,
                sequential_steps=rows,
                longest_path=rows,
                memory=4 * rows * width,
            ),
        ]
