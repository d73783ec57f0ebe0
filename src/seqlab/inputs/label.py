"""A label that is read: one vector for each of the labels, in one slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from seqlab.config import Positive, Probability
from seqlab.nn.layers import Dropout
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Nested, Seq, imagined_ids

FIELD = "label"


@dataclass(frozen=True, kw_only=True)
class LabelSlot(InputConfig, kind="label"):
    """One learned vector for each label."""

    reads: ClassVar[str] = "label"
    width: Positive = 32
    """Width of the vectors."""
    dropout: Probability = 0.0
    """Chance of dropping a feature of a vector while training."""

    def build(self, facts: Facts) -> LabelInput:
        return LabelInput(self, facts)


class LabelInput(Input):
    """Numbers of the field "label" (B 1) to vectors (B 1 width)."""

    def __init__(self, config: LabelSlot, facts: Facts) -> None:
        super().__init__()
        self.width = config.width
        self.embedding = nn.Embedding(facts.symbols[FIELD], config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: Batch) -> Seq:
        read = batch.inputs[FIELD]
        assert isinstance(read, Seq)
        return read.with_values(self.dropout(self.embedding(read.values)))

    def length_after(self, length: int) -> int:
        return 1

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_ids(rows, 1, self.embedding.num_embeddings)}

    def costs(self, length: int) -> list[Cost]:
        size = self.embedding.num_embeddings * self.width
        return [Cost(name="embedding", parameters=size, parameters_formula="C·d", memory=self.width)]
