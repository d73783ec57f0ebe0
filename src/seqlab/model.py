"""How parts are joined: read → encode → answer. Widths are passed on here, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from seqlab.decoders import Answering
from seqlab.encoders import Lstm
from seqlab.errors import UserError
from seqlab.inputs import Tokens
from seqlab.inputs.tokens import TokenInput
from seqlab.outputs import Linear, Mean, Vocabulary
from seqlab.parts import (
    Batch,
    Cost,
    DecoderConfig,
    EncoderConfig,
    Facts,
    Filling,
    HeadConfig,
    InputConfig,
    Output,
    PoolConfig,
    State,
    Writing,
)
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Any input with any encoder; then a pool and a head, or a decoder. A language model is a decoder alone."""

    input: InputConfig | None = Tokens()
    """How a batch becomes vectors; empty: there is nothing to read."""
    encoder: EncoderConfig | None = Lstm()
    """How vectors become states."""
    pool: PoolConfig | None = Mean()
    """How the states of a row become one vector; empty where a decoder reads them all."""
    head: HeadConfig | None = Linear()
    """How that vector becomes an answer."""
    places: HeadConfig | None = None
    """A head at every position that has an answer of its own: words to be filled in."""
    decoder: DecoderConfig | None = None
    """What writes a sequence of its own; with it there is no pool and no head."""
    shared: bool | None = None
    """One matrix for the tokens that are read and those that are written; empty: where they have one vocabulary and width."""

    def __post_init__(self) -> None:
        if self.decoder is not None and (self.pool or self.head or self.places):
            raise ValueError("a model has heads, or a decoder, not both. Leave pool, head and places empty.")
        if (self.pool is None) != (self.head is None):
            raise ValueError("a pool needs a head, and a head a pool.")
        if self.decoder is None and self.head is None and self.places is None:
            raise ValueError("a model without a decoder needs a pool and a head.")
        if (self.input is None) != (self.encoder is None):
            raise ValueError("an input needs an encoder (it may be of kind none), and an encoder an input.")
        if self.decoder is None and self.input is None:
            raise ValueError("a model without a decoder needs an input.")


class Model(nn.Module):
    """One answer for each row of a batch."""

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
        assert config.input and config.encoder and config.pool and config.head
        self.input = config.input.build(facts)
        self.encoder = config.encoder.build(self.input.width)
        self.pool = config.pool.build(self.encoder.width)
        self.head = config.head.build(self.pool.width, facts.outputs)

    def forward(self, batch: Batch) -> Output:
        states = self.encoder(self.input(batch))
        pooled = self.pool(states)
        return Output(states, pooled, self.head(pooled.vector))

    def costs(self, length: int) -> list[Cost]:
        """One entry a layer, in the order in which a sequence of `length` positions passes them."""
        inner = self.input.length_after(length)
        last = self.encoder.length_after(inner)
        parts = {"input": self.input, "encoder": self.encoder, "pool": self.pool, "head": self.head}
        lengths = (length, inner, last, 1)
        return [cost.below(name) for (name, part), at in zip(parts.items(), lengths, strict=True) for cost in part.costs(at)]


class Filler(nn.Module):
    """An id for each position of a batch that lacks one and, where there is a pool and a head, an answer for each row."""

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
        assert config.input and config.encoder and config.places
        self.input = config.input.build(facts)
        self.encoder = config.encoder.build(self.input.width)
        if not self.encoder.keeps_length:
            raise UserError(
                what=f'model.encoder of kind "{config.encoder.kind}" gives fewer states than there are positions.',
                why="Each position to be filled needs a state of its own.",
                fix="Set the stride to 1, or choose an encoder that keeps the length: lstm, gru, transformer.",
            )
        self.pool = config.pool.build(self.encoder.width) if config.pool else None
        self.head = config.head.build(self.pool.width, facts.outputs) if config.head and self.pool else None
        if not isinstance(config.places, Vocabulary):
            raise UserError(
                what=f'model.places is of kind "{config.places.kind}".',
                why="What is filled in is an id of the vocabulary.",
                fix="Set model.places.kind=vocabulary.",
            )
        self.places = config.places.build_for(self.encoder.width, facts.symbols["text"], self.input.width)
        if self.places.tied:
            self._tie()

    def _tie(self) -> None:
        table = self.input.embedding if isinstance(self.input, TokenInput) else None
        if table is None or table.weight.shape != self.places.output.weight.shape:
            width, scored = "none" if table is None else table.embedding_dim, self.places.output.in_features
            raise UserError(
                what=f"model.places.tied is true, but it scores vectors of width {scored}, and the tokens have {width}.",
                why="A tied vocabulary has the matrix of the tokens that are read.",
                fix="Set model.places.transform=linear, which makes states as wide as the tokens, or model.places.tied=false.",
            )
        self.places.output.weight = table.weight

    def forward(self, batch: Batch) -> Filling:
        assert batch.places is not None and batch.answers is not None
        read = self.input(batch)
        states = self.encoder(read)
        vectors = self.places.vectors(states.values.flatten(0, 1).index_select(0, batch.places))
        answers = batch.answers.repeat(len(vectors) // max(1, len(batch.answers))) if self.places.halves else batch.answers
        reply = self.head(self.pool(states).vector) if self.pool is not None and self.head is not None else None
        return Filling(read, states, vectors, answers, self.places.output, reply)

    def costs(self, length: int) -> list[Cost]:
        """One entry a layer; the vocabulary is asked at every position."""
        inner = self.input.length_after(length)
        parts = {"input": (self.input, length), "encoder": (self.encoder, inner), "places": (self.places, length)}
        parts |= {"pool": (self.pool, inner), "head": (self.head, 1)} if self.pool is not None and self.head is not None else {}
        return [cost.below(name) for name, (part, at) in parts.items() for cost in part.costs(at)]


class Writer(nn.Module):
    """A sequence for each row of a batch: a decoder, and what it reads, if anything."""

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
        assert config.decoder is not None
        self.input = config.input.build(facts) if config.input else None
        self.encoder = config.encoder.build(self.input.width) if config.encoder and self.input else None
        self.decoder = config.decoder.build(self.encoder.width if self.encoder else None, facts.symbols["written"])
        self.shared = self._share(config.shared, facts.joint)

    def _share(self, wanted: bool | None, joint: bool) -> bool:
        """Whether both sides have one matrix now."""
        mine = self.input.embedding if isinstance(self.input, TokenInput) else None
        theirs = self.decoder.embedding if isinstance(self.decoder, Answering) else None
        fits = mine is not None and theirs is not None and mine.weight.shape == theirs.weight.shape
        if not (joint and fits if wanted is None else wanted):
            return False
        if mine is None or theirs is None or not fits:
            sizes = " and ".join("none" if one is None else " × ".join(map(str, one.weight.shape)) for one in (mine, theirs))
            raise UserError(
                what=f"model.shared is true, but the matrices of what is read and what is written differ: {sizes}.",
                why="They can be one only when both sides have the same vocabulary and the same width.",
                fix="Set model.shared=false, or the same width in model.input and model.decoder with a joint vocabulary.",
            )
        mine.weight = theirs.weight
        return True

    def remember(self, batch: Batch) -> Seq | None:
        """What the decoder reads (B T D); None for a language model."""
        if self.input is None or self.encoder is None:
            return None
        states: Seq = self.encoder(self.input(batch))
        return states

    def forward(self, batch: Batch, carried: State | None = None) -> Writing:
        """Teacher forcing: every id is fed, and the states at the real positions come back.

        `carried` is where the rows of the batch before this one ended.
        """
        assert batch.written is not None
        ids, mask = batch.written.values, batch.written.mask[:, 1:]
        state = carried or self.decoder.start(self.remember(batch), len(ids))
        states, state = self.decoder.advance(ids[:, :-1], state)
        meant = ids[:, 1:]
        if mask.device.type == "cpu" and bool(mask.all()):
            return Writing(states.flatten(0, 1), meant.flatten(), self.decoder.vocabulary, state)
        return Writing(states[mask], meant[mask], self.decoder.vocabulary, state)

    def costs(self, length: int) -> list[Cost]:
        """One entry a layer; read and written sequences have `length` positions each."""
        costs: list[Cost] = []
        if self.input is not None and self.encoder is not None:
            inner = self.input.length_after(length)
            costs += [cost.below("input") for cost in self.input.costs(length)]
            costs += [cost.below("encoder") for cost in self.encoder.costs(inner)]
        written = self.decoder.costs(length)
        if self.shared:
            written[0] = replace(written[0], parameters=0, parameters_formula="the input's")
        return [*costs, *(cost.below("decoder") for cost in written)]


AnyModel = Model | Filler | Writer


def build_model(config: ModelConfig, facts: Facts) -> AnyModel:
    """The model that these settings describe."""
    if config.decoder is not None:
        return Writer(config, facts)
    return Model(config, facts) if config.places is None else Filler(config, facts)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def sketch(config: ModelConfig, facts: Facts) -> AnyModel:
    """The model without memory for its weights: enough to count and to name them."""
    with torch.device("meta"):
        return build_model(config, facts)
