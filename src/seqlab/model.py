"""How parts are joined: read → encode → answer. Widths are passed on here, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seqlab.decoders import WritingDecoder
from seqlab.encoders import Lstm
from seqlab.encoders.both_ways import BothWaysEncoder
from seqlab.errors import UserError
from seqlab.inputs import Tokens
from seqlab.inputs.tokens import TokenInput
from seqlab.nn.positions import Learned
from seqlab.outputs import Linear, Mean, Vocabulary
from seqlab.parts import (
    Batch,
    Cost,
    DecoderConfig,
    EncoderConfig,
    Facts,
    Head,
    HeadConfig,
    InputConfig,
    Output,
    Part,
    PoolConfig,
    Reply,
    State,
)
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Any input with any encoder; then a pool and a head, or a decoder. A language model is a decoder
    alone."""

    input: InputConfig | None = Tokens()
    """How a batch becomes vectors; empty: there is nothing to read."""
    encoder: EncoderConfig | None = Lstm()
    """How vectors become states."""
    pool: PoolConfig | None = Mean()
    """How the states of a row become one vector; empty where a decoder reads them all."""
    head: HeadConfig | None = Linear()
    """How that vector becomes an answer."""
    places: HeadConfig | None = None
    """A head at every position that has an answer of its own: ids to be filled in, or one label for each
    position."""
    decoder: DecoderConfig | None = None
    """What writes a sequence of its own; with it there is no pool and no head."""
    shared: bool | None = None
    """One matrix for the tokens that are read and those that are written; empty: where they have one
    vocabulary and width."""

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

    @property
    def body(self) -> EncoderConfig | None:
        """What reads the ids inside the decoder."""
        return getattr(self.decoder, "body", None)

    @property
    def learned_positions(self) -> int | None:
        """How many positions the decoder knows, where they are learned."""
        positions = getattr(self.body, "positions", None)
        return positions.length if isinstance(positions, Learned) else None


class Model(nn.Module):
    """Read, encode, answer: each row by a pool and a head, each place by a head, or in a sequence that a
    decoder writes."""

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
        self.input = config.input.build(facts) if config.input else None
        self.encoder = config.encoder.build(self.input.width) if config.encoder and self.input else None
        self.pool = config.pool.build(self.encoder.width) if config.pool and self.encoder else None
        self.head = (
            config.head.build_with(self.pool.width, facts.outputs["row"], facts)
            if config.head and self.pool
            else None
        )
        self.places = self._places(config, facts) if config.places else None
        memory = self.encoder.width if self.encoder else None
        self.decoder = config.decoder.build(memory, facts.written) if config.decoder else None
        self.shared = self.decoder is not None and self._share(config.shared, facts.joint)

    def _places(self, config: ModelConfig, facts: Facts) -> Head:
        """The head at places, with the matrix of the tokens where it is tied to them."""
        assert config.places and config.encoder and self.input is not None and self.encoder is not None
        outputs = facts.outputs["places"]
        if not self.encoder.keeps_length:
            raise UserError(
                what=(
                    f'model.encoder of kind "{config.encoder.kind}" gives fewer states than there are'
                    " positions."
                ),
                why="Each position with an answer needs a state of its own.",
                fix=(
                    "Set the stride to 1, or choose an encoder that keeps the length: lstm, gru, transformer."
                ),
            )
        if not isinstance(config.places, Vocabulary):
            return config.places.build_with(self.encoder.width, outputs, facts)
        head = config.places.build_for(self.encoder.width, outputs, self.input.width)
        table = self.input.embedding if isinstance(self.input, TokenInput) else None
        if head.tied and (table is None or table.weight.shape != head.output.weight.shape):
            width, scored = "none" if table is None else table.embedding_dim, head.output.in_features
            raise UserError(
                what=(
                    f"model.places.tied is true, but it scores vectors of width {scored}, and the tokens have"
                    f" {width}."
                ),
                why="A tied vocabulary has the matrix of the tokens that are read.",
                fix=(
                    "Set model.places.transform=linear, which makes states as wide as the tokens, or"
                    " model.places.tied=false."
                ),
            )
        if head.tied and table is not None:
            head.output.weight = table.weight
        return head

    def _share(self, wanted: bool | None, joint: bool) -> bool:
        """Whether what is read and what is written have one matrix now."""
        mine = self.input.embedding if isinstance(self.input, TokenInput) else None
        theirs = self.decoder.table if isinstance(self.decoder, WritingDecoder) else None
        fits = mine is not None and theirs is not None and mine.weight.shape == theirs.weight.shape
        if not (joint and fits if wanted is None else wanted):
            return False
        if mine is None or theirs is None or not fits:
            sizes = " and ".join(
                "none" if one is None else " × ".join(map(str, one.weight.shape)) for one in (mine, theirs)
            )
            raise UserError(
                what=(
                    "model.shared is true, but the matrices of what is read and what is written differ:"
                    f" {sizes}."
                ),
                why="They can be one only when both sides have the same vocabulary and the same width.",
                fix=(
                    "Set model.shared=false, or the same width in model.input and model.decoder with a joint"
                    " vocabulary."
                ),
            )
        mine.weight = theirs.weight
        return True

    def encoded(self, batch: Batch) -> tuple[Seq | None, Seq | None]:
        """The vectors of what is read and the states of the encoder (B T D each); None where there is nothing
        to read."""
        if self.input is None or self.encoder is None:
            return None, None
        read = self.input(batch)
        return read, self.encoder(read)

    def forward(self, batch: Batch, carried: State | None = None) -> Output:
        """All answers that the batch asks for; a row has one always.

        A decoder is fed every id of the target (teacher forcing); `carried` is where the batch before this
        one left it.
        """
        read, states = self.encoded(batch)
        answers: dict[str, Reply] = {}
        pooled = state = None
        if self.pool is not None and self.head is not None:
            assert states is not None
            pooled = self.pool(states)
            answers["row"] = self.head(pooled.vector)
        if self.places is not None:
            assert states is not None
            answers["places"] = self.places(
                states.values.flatten(0, 1).index_select(0, batch.places.positions)
            )
        if self.decoder is not None:
            ids, mask = batch.written.values, batch.written.mask[:, 1:]
            state = carried or self.decoder.start(states, len(ids))
            found, state = self.decoder.advance(ids[:, :-1], state)
            whole = mask.device.type == "cpu" and bool(mask.all())
            answers["written"] = self.decoder.answer(found.flatten(0, 1) if whole else found[mask])
        return Output(answers, read, states, pooled, state)

    def seen(self, batch: Batch) -> Tensor:
        """What is known of each position once it has been read itself (B T D): the last states of the
        encoder.

        An encoder that hides each position from its own state shows it here; a decoder alone reads what
        `text` holds.
        """
        if self.input is None or self.encoder is None:
            assert self.decoder is not None
            text = batch.inputs["text"]
            assert isinstance(text, Seq)
            return self.decoder.advance(text.values, self.decoder.start(None, text.rows))[0]
        read = self.input(batch)
        states = (
            self.encoder.seeing(read) if isinstance(self.encoder, BothWaysEncoder) else self.encoder(read)
        )
        return states.values

    def costs(self, length: int) -> list[Cost]:
        """One entry a layer, in the order in which a sequence of `length` positions passes them.

        The head at places is asked at every position; what is written has `length` positions, too.
        """
        inner = self.input.length_after(length) if self.input else length
        last = self.encoder.length_after(inner) if self.encoder else inner
        parts: dict[str, tuple[Part | None, int]] = {
            "input": (self.input, length),
            "encoder": (self.encoder, inner),
            "places": (self.places, length),
            "pool": (self.pool, last),
            "head": (self.head, 1),
            "decoder": (self.decoder, length),
        }
        costs = [
            cost.below(name)
            for name, (part, at) in parts.items()
            if part is not None
            for cost in part.costs(at)
        ]
        if not self.shared:
            return costs
        tied = [cost.name == "decoder.embedding" for cost in costs]
        return [
            replace(cost, parameters=0, parameters_formula="the input's") if same else cost
            for cost, same in zip(costs, tied, strict=True)
        ]


def device_of(module: nn.Module) -> torch.device:
    """Where a module computes."""
    return next(module.parameters()).device


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def sketch(config: ModelConfig, facts: Facts) -> Model:
    """The model without memory for its weights: enough to count and to name them."""
    with torch.device("meta"):
        return Model(config, facts)
