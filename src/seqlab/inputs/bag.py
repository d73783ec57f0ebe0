"""A bag of n-grams: one vector for the whole text, whatever its order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqlab.config import Positive, PositiveFloat
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Nested, Seq, imagined_ids


@dataclass(frozen=True, kw_only=True)
class Bag(InputConfig, kind="bag"):
    """The weighted sum of one learned vector for each n-gram's bucket."""

    reads = "grams"

    width: Positive | None = None
    """Width of the vectors; when empty, one number a class, which with the head "direct" is a linear
    model."""
    scale: PositiveFloat = 0.1
    """Spread of the vectors at the start; without a width they start at zero."""

    def build(self, facts: Facts) -> BagInput:
        return BagInput(self, facts)


class WeightedSum(torch.autograd.Function):
    """Σ weight · row, for each row of ids (B T) → (B D).

    torch's own backward pass sorts all ids of a batch first; adding each gradient where it belongs is 8 times
    faster.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(ids, weights)
        ctx.rows = table.shape[0]
        return F.embedding_bag(ids, table, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ids, weights = ctx.saved_tensors
        [gradient] = gradients  # B D
        each = (weights.unsqueeze(-1) * gradient.unsqueeze(1)).flatten(0, 1)  # B·T D
        return gradient.new_zeros(ctx.rows, gradient.shape[1]).index_add_(0, ids.flatten(), each), None, None


class BagInput(Input):
    """Bucket ids of the field "grams" (B T) and their "weights" (B T) to one slot: Σ weight · row(bucket), B
    1 width."""

    def __init__(self, config: Bag, facts: Facts) -> None:
        super().__init__()
        self.width = config.width or facts.outputs["row"]
        self.embedding = nn.Parameter(torch.zeros(facts.symbols["grams"], self.width))
        if config.width is not None:
            nn.init.normal_(self.embedding, std=config.scale)

    def forward(self, batch: Batch) -> Seq:
        grams, weights = batch.inputs["grams"], batch.inputs["weights"]
        assert isinstance(grams, Seq) and isinstance(weights, Seq)
        total = WeightedSum.apply(self.embedding, grams.values, weights.zeroed)
        return Seq(total.unsqueeze(1), grams.mask[:, :1])  # no row is empty, so its first position is real

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        grams = imagined_ids(rows, length, self.embedding.shape[0])
        return {"grams": grams, "weights": grams.with_values(torch.ones(rows, length))}

    def length_after(self, length: int) -> int:
        return 1

    def costs(self, length: int) -> list[Cost]:
        rows = self.embedding.shape[0]
        work = length * self.width
        size = rows * self.width
        return [
            Cost(
                name="",
                parameters=size,
                parameters_formula="V·d",
                work=work,
                work_formula="nd",
                over=length,
                memory=2 * length,
            )
        ]
