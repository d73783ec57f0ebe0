"""Real-valued inputs: a vector of numbers at each step, or a whole window of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from seqlab.config import Positive, Probability
from seqlab.nn.layers import Dropout, start_linear
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Nested, Seq

FIELD = "values"


@dataclass(frozen=True, kw_only=True)
class Vectors(InputConfig, kind="vectors"):
    """A linear layer over the numbers of each step."""

    reads: ClassVar[str] = "values"
    width: Positive = 64
    """Width of the vectors."""
    stack: Positive = 1
    """So many neighbouring steps are read as one, side by side: for sequences with many short steps."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a vector while training."""

    def build(self, facts: Facts) -> VectorInput:
        return VectorInput(self, facts)


class VectorInput(Input):
    """Numbers of the field "values" (B T F) to vectors (B ⌈T/stack⌉ width): W [x_t; x_{t+1}; ...] + b.

    Steps that are missing at the end of a row count as zeros.
    """

    def __init__(self, config: Vectors, facts: Facts) -> None:
        super().__init__()
        self.width, self.stack = config.width, config.stack
        self.linear = nn.Linear(config.stack * facts.features[FIELD], config.width)
        self.dropout = Dropout(config.dropout)
        start_linear(self.linear)

    def forward(self, batch: Batch) -> Seq:
        read = batch.inputs[FIELD]
        assert isinstance(read, Seq)
        values, mask = read.zeroed, read.mask
        if self.stack > 1:
            spare = -values.shape[1] % self.stack
            values, mask = F.pad(values, (0, 0, 0, spare)), F.pad(mask, (0, spare))
            values = values.reshape(len(values), -1, self.stack * values.shape[2])
            mask = mask[:, :: self.stack]  # padding is on the right: a group is real where its first step is
        return Seq(self.dropout(self.linear(values)), mask)

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_steps(rows, length, self.linear.in_features // self.stack)}

    def length_after(self, length: int) -> int:
        return -(-length // self.stack)

    def costs(self, length: int) -> list[Cost]:
        inner, size = self.length_after(length), self.linear.in_features * self.width
        return [
            Cost(
                name="linear",
                parameters=size + self.width,
                parameters_formula="f·d + d",
                work=inner * size,
                work_formula="n·f·d",
                memory=inner * self.linear.in_features,
            )
        ]


@dataclass(frozen=True, kw_only=True)
class Window(InputConfig, kind="window"):
    """All steps of a window side by side, as one vector: for models without an order of steps."""

    reads: ClassVar[str] = "values"

    def build(self, facts: Facts) -> WindowInput:
        return WindowInput(facts)


class WindowInput(Input):
    """Numbers of the field "values" (B T F), T the same for all rows, to one slot (B 1 T·F), step by step."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.steps, self.features = facts.window, facts.features[FIELD]
        self.width = self.steps * self.features

    def forward(self, batch: Batch) -> Seq:
        read = batch.inputs[FIELD]
        assert isinstance(read, Seq) and read.values.shape[1] == self.steps, "all rows are whole windows"
        return Seq(read.values.flatten(1).unsqueeze(1), read.mask[:, :1])

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_steps(rows, self.steps, self.features)}

    def length_after(self, length: int) -> int:
        return 1

    def costs(self, length: int) -> list[Cost]:
        return []


def imagined_steps(rows: int, length: int, features: int) -> Seq:
    """Made-up numbers (B T F), every step real."""
    return Seq(torch.zeros(rows, length, features), torch.ones(rows, length, dtype=torch.bool))
