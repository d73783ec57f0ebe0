"""Decoders small enough to try everything with, and searches written plainly from their definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seqlab.decode import DecodeConfig, Hypothesis, SpecialIds, decode
from seqlab.decoders import Attending, Causal
from seqlab.encoders import Conv, Lstm, Transformer
from seqlab.nn.positions import Rotary
from seqlab.outputs.vocabulary import Symbols
from seqlab.parts import Cost, Decoder, DecoderConfig, State
from seqlab.seq import Seq, mask_of

SYMBOLS, WIDTH = 6, 3
MARKS = SpecialIds(start=1, end=2, banned=(0, 1))
"""Ids 0 (padding) and 1 are never written; 3, 4, 5 are words."""


# Decoders ---------------------------------------------------------------------------------------------------


class Table(Decoder):
    """The next id depends on the last two ids, by a table, and on the mean of the memory."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.table = nn.Parameter(2 * torch.randn(SYMBOLS, SYMBOLS, SYMBOLS))
        self.bridge = nn.Linear(WIDTH, SYMBOLS, bias=False)
        self.vocabulary = Symbols(SYMBOLS, SYMBOLS, bias=False)
        nn.init.eye_(self.vocabulary.weight)

    def start(self, memory: Seq | None, rows: int) -> State:
        context = torch.zeros(rows, SYMBOLS) if memory is None else self.bridge(mean(memory))
        return State({"context": context.to(self.table.dtype)}, {"last": torch.zeros(rows, dtype=torch.long)})

    def advance(self, fed: Tensor, state: State) -> tuple[Tensor, State]:
        last = torch.cat([state.moving["last"].unsqueeze(1), fed], dim=1)
        states = self.table[last[:, :-1], last[:, 1:]] + state.fixed["context"].unsqueeze(1)
        return states, State(state.fixed, {"last": fed[:, -1]}, state.done + fed.shape[1])

    @property
    def answer(self) -> Symbols:
        return self.vocabulary

    def costs(self, length: int) -> list[Cost]:
        return []


class Recurrent(Decoder):
    """A GRU that starts from the mean of the memory and sees it again at every step."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.bridge = nn.Linear(WIDTH, 8)
        self.cell = nn.GRU(WIDTH, 8, batch_first=True)
        self.vocabulary = Symbols(8, SYMBOLS)
        nn.init.normal_(self.vocabulary.weight, std=3.0)

    def start(self, memory: Seq | None, rows: int) -> State:
        context = torch.zeros(rows, WIDTH) if memory is None else mean(memory)
        context = context.to(self.embedding.weight.dtype)
        return State({"context": context}, {"hidden": torch.tanh(self.bridge(context))})

    def advance(self, fed: Tensor, state: State) -> tuple[Tensor, State]:
        inputs = self.embedding(fed) + state.fixed["context"].unsqueeze(1)
        states, hidden = self.cell(inputs, state.moving["hidden"].unsqueeze(0).contiguous())
        return states, State(state.fixed, {"hidden": hidden.squeeze(0)}, state.done + fed.shape[1])

    @property
    def answer(self) -> Symbols:
        return self.vocabulary

    def costs(self, length: int) -> list[Cost]:
        return []


def mean(memory: Seq) -> Tensor:
    return memory.zeroed.sum(dim=1) / memory.lengths.unsqueeze(1)


class Case(NamedTuple):
    """How to make a decoder with SYMBOLS ids, and whether it is to read a memory (of vectors of WIDTH)."""

    make: Callable[[bool], Decoder]
    reads: bool


def built(config: DecoderConfig) -> Callable[[bool], Decoder]:
    return lambda reads: config.build(WIDTH if reads else None, SYMBOLS)


LAYER = Transformer(layers=1, heads=2, feed_forward=12)
DECODERS: dict[str, Case] = {
    "table": Case(Table, True),
    "table without memory": Case(Table, False),
    "recurrent": Case(Recurrent, True),
    "recurrent without memory": Case(Recurrent, False),
    "transformer": Case(built(Causal(width=8, bias=True, body=LAYER)), True),
    "transformer without memory": Case(built(Causal(width=8, bias=True, body=LAYER)), False),
    "transformer rotary": Case(
        built(Causal(width=8, bias=True, body=replace(LAYER, positions=Rotary()))), True
    ),
    "lstm that looks": Case(built(Attending(width=8, bias=True, body=Lstm(width=8, layers=2))), True),
    "conv without memory": Case(built(Causal(width=8, bias=True, body=Conv(width=8))), False),
}
every_decoder = pytest.mark.parametrize("name", DECODERS)


def made(name: str, rows: int, seed: int = 0) -> tuple[Decoder, Seq | None]:
    """A decoder and a memory for so many rows, of different lengths, in double precision."""
    torch.manual_seed(seed)
    decoder = DECODERS[name].make(DECODERS[name].reads).double().eval()
    lengths = torch.arange(rows) % 4 + 1
    memory = Seq(torch.randn(rows, int(lengths.max()), WIDTH, dtype=torch.double), mask_of(lengths))
    return decoder, memory if DECODERS[name].reads else None


def row_of(memory: Seq | None, row: int) -> Seq | None:
    """One row of a memory without its padding."""
    if memory is None:
        return None
    length = int(memory.lengths[row])
    return Seq(memory.values[row : row + 1, :length], memory.mask[row : row + 1, :length])


def limits(*longest: int) -> Tensor:
    return torch.tensor(longest)


def found_by(decoder, memory, longest, prefixes=None, **how) -> list[list[Hypothesis]]:
    """What the settings `how` find, for each row."""
    special = how.pop("special", MARKS)
    opening = special.opening(prefixes or [[]] * len(longest))
    numbers = how.pop("numbers", range(len(longest)))
    return decode(
        decoder,
        memory,
        opening,
        config=DecodeConfig(**how),
        special=special,
        longest=longest,
        numbers=numbers,
    )


# The same searches, plainly ---------------------------------------------------------------------------------


class Plain:
    """log p of the next id after a list of ids, computed anew each time."""

    def __init__(self, decoder: Decoder, memory: Seq | None) -> None:
        self.decoder, self.memory = decoder, memory
        self.known: dict[tuple[int, ...], list[float]] = {}

    def next(self, ids: tuple[int, ...]) -> list[float]:
        if ids not in self.known:
            with torch.no_grad():
                states, _ = self.decoder.advance(torch.tensor([ids]), self.decoder.start(self.memory, 1))
                self.known[ids] = self.decoder.answer(states[:, -1]).scores[0].log_softmax(-1).tolist()
        return self.known[ids]


ALLOWED = [id for id in range(SYMBOLS) if id not in MARKS.banned]


def as_found(written: tuple[int, ...], logp: float, alpha: float) -> Hypothesis:
    finished = written[-1] == MARKS.end
    return Hypothesis(written[:-1] if finished else written, logp / len(written) ** alpha, logp, finished)


def ranked(found: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(found, key=lambda one: (not one.finished, -one.score))


def plain_beam(
    plain: Plain, opening: tuple[int, ...], longest: int, beam: int, alpha: float
) -> list[Hypothesis]:
    """All that a beam finds when nothing stops it before the limit: finished ones keep their place."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[Hypothesis] = []
    for _ in range(longest):
        grown = [(logp + plain.next(opening + ids)[id], (*ids, id)) for logp, ids in live for id in ALLOWED]
        grown = sorted(grown, reverse=True)[: beam - len(found)]
        found += [as_found(ids, logp, alpha) for logp, ids in grown if ids[-1] == MARKS.end]
        live = [(logp, ids) for logp, ids in grown if ids[-1] != MARKS.end]
    return ranked(found + [as_found(ids, logp, alpha) for logp, ids in live])


def every_text(plain: Plain, longest: int, alpha: float) -> list[Hypothesis]:
    """All texts that can be written within the limit, best first."""
    words = [id for id in ALLOWED if id != MARKS.end]
    texts = [
        (*ids, MARKS.end) for length in range(longest) for ids in itertools.product(words, repeat=length)
    ]
    texts += list(itertools.product(words, repeat=longest))
    logp = [sum(plain.next((MARKS.start, *ids[:place]))[id] for place, id in enumerate(ids)) for ids in texts]
    return ranked([as_found(ids, total, alpha) for ids, total in zip(texts, logp, strict=True)])


def assert_same(found: list[Hypothesis], meant: list[Hypothesis]) -> None:
    """The same texts in the same order; two that are equally likely (the same steps in another order) may
    change places."""
    assert [one.finished for one in found] == [one.finished for one in meant]
    for mine, theirs in zip(found, meant, strict=True):
        assert mine.ids == theirs.ids or math.isclose(mine.score, theirs.score, rel_tol=1e-12)
    assert_close([one.score for one in found], [one.score for one in meant])
    assert_close([one.logp for one in found], [one.logp for one in meant])
