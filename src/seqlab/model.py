"""How parts are joined: read → encode → pool → answer. Widths are passed on here, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from seqlab.encoders import Lstm
from seqlab.inputs import Tokens
from seqlab.outputs import Linear, Mean
from seqlab.parts import Batch, Cost, EncoderConfig, Facts, HeadConfig, InputConfig, Output, PoolConfig


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Any input with any encoder, pool and head."""

    input: InputConfig = Tokens()
    encoder: EncoderConfig = Lstm()
    pool: PoolConfig = Mean()
    head: HeadConfig = Linear()


class Model(nn.Module):
    """One answer for each row of a batch."""

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
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


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def sketch(config: ModelConfig, facts: Facts) -> Model:
    """The model without memory for its weights: enough to count and to name them."""
    with torch.device("meta"):
        return Model(config, facts)
