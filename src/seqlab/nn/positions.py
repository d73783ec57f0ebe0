"""Where a position tells the model that it is one: sinusoidal, learned or rotary positions, or none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Count, Positive, PositiveFloat, Variant
from seqlab.errors import UserError
from seqlab.parts import Cost


def angles(length: int, width: int, base: float, offset: int = 0) -> Float[Tensor, "T half"]:
    """i / base^(2j/width) for positions i = offset, offset + 1, ... and pairs j = 0, 1, ..."""
    places = torch.arange(offset, offset + length, dtype=torch.float64)
    rates = base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return places.unsqueeze(1) * rates


def sinusoids(length: int, width: int, base: float = 10_000.0, offset: int = 0) -> Float[Tensor, "T D"]:
    """p[i, 2j] = sin(i / base^(2j/width)), p[i, 2j+1] = cos of the same, as in Vaswani et al. 2017, section
    3.5."""
    turns = angles(length, width, base, offset)
    return torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(1)[
        :, :width
    ]  # an odd width ends with a sine


class PositionConfig(Variant):
    """Settings of positions."""

    @abstractmethod
    def build(self, width_in: int) -> Positions: ...


class Positions(nn.Module):
    """Vectors (B T D) to vectors that know their place (B T width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B T D"], before: int = 0) -> Float[Tensor, "B T E"]:
        """`before` is how many positions came before the first one here."""
        return x

    def cost(self, length: int) -> Cost:
        return Cost(name="positions", parameters=0, parameters_formula="0")


Mode = Literal["add", "concatenate"]


@dataclass(frozen=True, kw_only=True)
class NoPositions(PositionConfig, kind="none"):
    """No positions: permuting the inputs of self-attention permutes its outputs."""

    def build(self, width_in: int) -> Positions:
        return Positions(width_in)


@dataclass(frozen=True, kw_only=True)
class Sinusoidal(PositionConfig, kind="sinusoidal"):
    """Fixed sines and cosines of falling frequency; any length, no parameters."""

    base: PositiveFloat = 10_000.0
    """N of the formula: the slowest wave takes about 2π·N positions."""
    offset: Count = 0
    """The number of the first position."""
    mode: Mode = "add"
    """Add the positions to the vectors, or put them beside them."""
    width: Positive | None = None
    """Width of concatenated positions; as wide as the vectors when empty."""

    def build(self, width_in: int) -> Positions:
        return SinusoidalPositions(self, width_in)


@dataclass(frozen=True, kw_only=True)
class Learned(PositionConfig, kind="learned"):
    """One learned vector for each position, up to a longest length."""

    length: Positive = 512
    """The most positions a sequence may have."""
    offset: Count = 0
    """The row of the first position; the rows before it stay unused, as in RoBERTa."""
    mode: Mode = "add"
    """Add the positions to the vectors, or put them beside them."""
    width: Positive | None = None
    """Width of concatenated positions; as wide as the vectors when empty."""

    def build(self, width_in: int) -> Positions:
        return LearnedPositions(self, width_in)


@dataclass(frozen=True, kw_only=True)
class Rotary(PositionConfig, kind="rotary"):
    """Queries and keys are turned by an angle that grows with the position, so scores depend on distances
    alone."""

    base: PositiveFloat = 10_000.0
    """N of the formula, as for sinusoids."""
    offset: Count = 0
    """The number of the first position."""

    def build(self, width_in: int) -> Positions:
        return RotaryPositions(self, width_in)


def with_positions(
    x: Float[Tensor, "B T D"], places: Float[Tensor, "T P"], mode: Mode
) -> Float[Tensor, "B T E"]:
    """Vectors and positions, added or side by side."""
    if mode == "add":
        return x + places
    return torch.cat([x, places.expand(x.shape[0], -1, -1)], dim=-1)


def _widths(config: Sinusoidal | Learned, width_in: int) -> tuple[int, int]:
    """Width of the positions, and of what comes out."""
    if config.mode == "add":
        return width_in, width_in
    own = config.width or width_in
    return own, width_in + own


class SinusoidalPositions(Positions):
    """Computed when needed and kept for the longest length seen; never saved."""

    table: Tensor

    def __init__(self, config: Sinusoidal, width_in: int) -> None:
        own, width = _widths(config, width_in)
        super().__init__(width)
        self.config = config
        self.own = own
        self.register_buffer("table", torch.empty(0, own), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], before: int = 0) -> Float[Tensor, "B T E"]:
        end = before + x.shape[1]
        table = self.table
        if table.shape[0] < end:  # twice as long as needed, so that writing one by one seldom gets here
            table = self.table = sinusoids(2 * end, self.own, self.config.base, self.config.offset).to(x)
        return with_positions(
            x, table[before:end], self.config.mode
        )  # not self.table: several threads may write at once


class LearnedPositions(Positions):
    """A table of vectors (rows D) that training changes."""

    def __init__(self, config: Learned, width_in: int) -> None:
        own, width = _widths(config, width_in)
        super().__init__(width)
        self.config = config
        self.table = nn.Parameter(torch.empty(config.length + config.offset, own))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Float[Tensor, "B T D"], before: int = 0) -> Float[Tensor, "B T E"]:
        end, offset = before + x.shape[1], self.config.offset
        if end > self.config.length:
            raise UserError(
                what=f"A sequence has {end} positions, but the model has learned {self.config.length}.",
                why="Learned positions end where their table ends (positions.length).",
                fix=(
                    "Shorten the input, or train with a larger positions.length or with sinusoidal or rotary"
                    " positions."
                ),
            )
        return with_positions(x, self.table[offset + before : offset + end], self.config.mode)

    def cost(self, length: int) -> Cost:
        rows, width = self.config.length + self.config.offset, self.table.shape[1]
        return Cost(name="positions", parameters=rows * width, parameters_formula="rows·d")


class RotaryPositions(Positions):
    """Leaves the vectors alone; `turn` rotates queries and keys (Su et al. 2021).

    Feature j is paired with feature j + half. The paper pairs neighbours: the same up to the order of the
    features.
    """

    turns: Tensor

    def __init__(self, config: Rotary, width_in: int) -> None:
        super().__init__(width_in)
        self.config = config
        self.register_buffer("turns", torch.empty(2, 0, 0), persistent=False)  # cosines and sines: 2 T half

    def turn(self, x: Float[Tensor, "B H T E"], before: int = 0) -> Float[Tensor, "B H T E"]:
        """Each pair of features of position i turned by i times the pair's rate; `before` positions came
        before these."""
        end, width = before + x.shape[2], x.shape[3]
        turns = self.turns
        if turns.shape[1] < end or turns.shape[2] != width // 2:
            each = angles(2 * end, width, self.config.base, self.config.offset)
            turns = self.turns = torch.stack([each.cos(), each.sin()]).to(x)
        cos, sin = turns[:, before:end]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
