"""Tokens: each id becomes a learned vector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from seqlab.config import Positive, PositiveFloat, Probability
from seqlab.nn.layers import Dropout, keep_mask
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Nested, Seq, imagined_ids

FIELD = "text"


@dataclass(frozen=True, kw_only=True)
class Tokens(InputConfig, kind="tokens"):
    """One learned vector for each token."""

    width: Positive = 128
    """Width of the vectors."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a vector while training."""
    word_dropout: Probability = 0.0
    """Probability of dropping a whole token's vector while training."""
    scale: PositiveFloat = 0.1
    """Spread of the vectors at the start."""
    segments: Positive | None = None
    """How many parts of an example are told apart by a vector each; empty: as many as the data has."""

    def build(self, facts: Facts) -> TokenInput:
        return TokenInput(self, facts)


class TokenInput(Input):
    """Ids of the field "text" (B T) to vectors (B T width). Id 0 is padding, id 1 an unknown token.

    For pairs of texts, the vector of its segment is added to each token's (ids in the field "segments", B T).
    """

    def __init__(self, config: Tokens, facts: Facts) -> None:
        super().__init__()
        self.width = config.width
        self.embedding = nn.Embedding(facts.symbols[FIELD], config.width)
        segments = config.segments or facts.segments
        self.segments = nn.Embedding(segments, config.width) if segments > 1 else None
        self.word_dropout = config.word_dropout
        self.dropout = Dropout(config.dropout)
        for table in (self.embedding, self.segments):
            if table is not None:
                nn.init.normal_(table.weight, std=config.scale)

    def forward(self, batch: Batch) -> Seq:
        tokens = batch.inputs[FIELD]
        assert isinstance(tokens, Seq)
        segments = batch.inputs.get("segments")  # without them all is the first segment
        assert segments is None or isinstance(segments, Seq)
        values = self.embedding(tokens.values)
        if self.segments is not None:
            values = values + (
                self.segments.weight[0] if segments is None else self.segments(segments.values)
            )
        if self.training and self.word_dropout:
            values = values * keep_mask(
                (*values.shape[:2], 1), self.word_dropout, values, self.dropout.generator
            )
        return Seq(self.dropout(values), tokens.mask, segments=None if segments is None else segments.values)

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_ids(rows, length, self.embedding.num_embeddings)}

    def costs(self, length: int) -> list[Cost]:
        rows = self.embedding.num_embeddings
        costs = [
            Cost(name="embedding", parameters=rows * self.width, parameters_formula="V·d", memory=length)
        ]
        if self.segments is not None:
            parameters = self.segments.num_embeddings * self.width
            costs.append(
                Cost(name="segments", parameters=parameters, parameters_formula="s·d", memory=length)
            )
        return costs
