"""A bag of n-grams: one vector for the whole text, whatever its order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from seqlab.config import Positive, PositiveFloat
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class Bag(InputConfig, kind="bag"):
    """The weighted sum of one learned vector for each n-gram's bucket."""

    reads = "grams"

    width: Positive | None = None
    """Width of the vectors; when empty, one number a class, which with the head "direct" is a linear model."""
    scale: PositiveFloat = 0.1
    """Spread of the vectors at the start; without a width they start at zero."""

    def build(self, facts: Facts) -> BagInput:
        return BagInput(self, facts)


class BagInput(Input):
    """Bucket ids of the field "grams" (B T) and their "weights" (B T) to one slot: Σ weight · row(bucket), B 1 width."""

    def __init__(self, config: Bag, facts: Facts) -> None:
        super().__init__()
        self.width = config.width or facts.outputs
        self.embedding = nn.Parameter(torch.zeros(facts.symbols["grams"], self.width))
        if config.width is not None:
            nn.init.normal_(self.embedding, std=config.scale)

    def forward(self, batch: Batch) -> Seq:
        grams, weights = batch.inputs["grams"], batch.inputs["weights"]
        assert isinstance(grams, Seq) and isinstance(weights, Seq)
        total = F.embedding_bag(grams.values, self.embedding, mode="sum", per_sample_weights=weights.zeroed)
        return Seq(total.unsqueeze(1), grams.mask[:, :1])    # no row is empty, so its first position is real

    def length_after(self, length: int) -> int:
        return 1

    def costs(self, length: int) -> list[Cost]:
        rows = self.embedding.shape[0]
        work = length * self.width
        size = rows * self.width
        return [Cost(name="", parameters=size, parameters_formula="V·d", work=work, work_formula="nd", memory=2 * length)]
