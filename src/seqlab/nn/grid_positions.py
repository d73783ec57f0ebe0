"""Where a slot of a picture tells the model its row and column: 2-D sinusoids, learned positions, or none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, PositiveFloat, Variant
from seqlab.errors import UserError
from seqlab.nn.positions import sinusoids
from seqlab.parts import Cost


class GridPositionConfig(Variant):
    """Settings of positions in two dimensions."""

    @abstractmethod
    def build(self, width: int) -> GridPositions: ...


class GridPositions(nn.Module):
    """Vectors (B D Y X) to vectors (B D Y X) that know their row y and their column x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B D Y X"]:
        return x

    def cost(self) -> Cost:
        return Cost(name="positions", parameters=0, parameters_formula="0")


@dataclass(frozen=True, kw_only=True)
class NoGridPositions(GridPositionConfig, kind="none"):
    """No positions: permuting the slots permutes what self-attention makes of them."""

    def build(self, width: int) -> GridPositions:
        return GridPositions(width)


@dataclass(frozen=True, kw_only=True)
class GridSinusoids(GridPositionConfig, kind="sinusoidal"):
    """Fixed sines and cosines, half of the features for the row and half for the column; any grid."""

    base: PositiveFloat = 100.0
    """N of the formula: the slowest wave takes about 2π·N slots. Grids are small, so it is smaller than for
    text."""

    def build(self, width: int) -> GridPositions:
        return SinusoidalGrid(self, width)


@dataclass(frozen=True, kw_only=True)
class LearnedGrid(GridPositionConfig, kind="learned"):
    """One learned vector for each row and one for each column, added up."""

    side: Positive = 64
    """The most rows, and the most columns, that a grid may have."""

    def build(self, width: int) -> GridPositions:
        return LearnedGridPositions(self, width)


def grid_sinusoids(height: int, width: int, features: int, base: float) -> Float[Tensor, "D Y X"]:
    """p[:h, y, x] = sinusoids of y, p[h:, y, x] = sinusoids of x, h = ⌈D/2⌉.

    A step of k rows turns the first half by the rotation R(k) of SPEC T1 and leaves the other half as it is;
    a step of k columns the other way round.
    """
    half = (features + 1) // 2
    rows = sinusoids(height, half, base).T[:, :, None].expand(-1, -1, width)
    columns = sinusoids(width, features - half, base).T[:, None, :].expand(-1, height, -1)
    return torch.cat([rows, columns])


class SinusoidalGrid(GridPositions):
    """Adds them; they are computed anew for each batch, which costs nothing beside the picture."""

    def __init__(self, config: GridSinusoids, width: int) -> None:
        super().__init__(width)
        self.config = config

    def forward(self, x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B D Y X"]:
        height, width = x.shape[2:]
        return x + grid_sinusoids(height, width, self.width, self.config.base).to(x)


class LearnedGridPositions(GridPositions):
    """Two tables of vectors (side D) that training changes."""

    def __init__(self, config: LearnedGrid, width: int) -> None:
        super().__init__(width)
        self.side = config.side
        self.rows = nn.Parameter(torch.empty(config.side, width))
        self.columns = nn.Parameter(torch.empty(config.side, width))
        nn.init.normal_(self.rows, std=0.02)
        nn.init.normal_(self.columns, std=0.02)

    def forward(self, x: Float[Tensor, "B D Y X"]) -> Float[Tensor, "B D Y X"]:
        height, width = x.shape[2:]
        if max(height, width) > self.side:
            raise UserError(
                what=f"A picture has {width} × {height} slots, but {self.side} a side have positions.",
                why="Learned positions end where their tables end (positions.side).",
                fix="Train with a larger model.input.positions.side, or with sinusoidal positions.",
            )
        return x + self.rows[:height].T[:, :, None] + self.columns[:width].T[:, None, :]

    def cost(self) -> Cost:
        return Cost(name="positions", parameters=2 * self.side * self.width, parameters_formula="2·side·d")
