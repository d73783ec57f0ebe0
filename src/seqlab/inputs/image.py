"""Pictures as sequences of slots: patches under one linear layer, or the grid of a small residual CNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.nn.grid_positions import GridPositionConfig, NoGridPositions
from seqlab.nn.layers import Dropout, listed
from seqlab.parts import Batch, Cost, Facts, Input, InputConfig
from seqlab.seq import Nested, Seq

FIELD = "image"
GROUPS = 8
"""Into which a norm divides the features, where they can be divided so."""


@dataclass(frozen=True, kw_only=True)
class Patches(InputConfig, kind="patches"):
    """A linear layer over each square patch of a picture, as in the Vision Transformer."""

    reads: ClassVar[str] = "image"
    width: Positive = 64
    """Width of the vectors."""
    patch: Positive = 8
    """Pixels on each side of a patch."""
    positions: GridPositionConfig = field(default_factory=NoGridPositions)
    """How a patch knows its row and column: sinusoidal, learned or none."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a vector while training."""

    def build(self, facts: Facts) -> PatchInput:
        return PatchInput(self, facts)


@dataclass(frozen=True, kw_only=True)
class Grid(InputConfig, kind="grid"):
    """A small residual CNN, trained from scratch: each slot of its last layer is a vector."""

    reads: ClassVar[str] = "image"
    channels: tuple[Positive, ...] = (32, 64, 128)
    """Features of each stage; the last ones are the width of the vectors."""
    blocks: Positive = 1
    """Residual blocks of a stage, of two convolutions each."""
    least: Positive = 6
    """The first convolution and each stage but the first halve the sides, the later ones rather than the
    earlier ones, as long as so many slots are left on each."""
    positions: GridPositionConfig = field(default_factory=NoGridPositions)
    """How a slot knows its row and column: sinusoidal, learned or none."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a vector while training."""

    def build(self, facts: Facts) -> GridInput:
        return GridInput(self, facts)


def pixels_of(batch: Batch) -> Float[Tensor, "B C H W"]:
    """Bytes (B H W C) of the field "image" as numbers from −1 to 1, with the channels before the lines.

    They lie in memory as they came, which convolutions on a CPU like best.
    """
    read = batch.inputs[FIELD]
    assert isinstance(read, Seq)
    pixels: Tensor = read.values.permute(0, 3, 1, 2)
    return pixels.float() / 127.5 - 1


def imagined_pixels(rows: int, side: int, channels: int) -> Seq:
    """Black pictures (B H W C), H = W = `side`."""
    pixels = torch.zeros(rows, side, side, channels, dtype=torch.uint8)
    return Seq(pixels, torch.ones(rows, side, dtype=torch.bool))


def slots(x: Float[Tensor, "B D Y X"]) -> Seq:
    """A grid as a sequence, line after line; every slot is real."""
    rows, _, height, width = x.shape
    mask = torch.ones(rows, height * width, dtype=torch.bool, device=x.device)
    return Seq(x.flatten(2).transpose(1, 2), mask, grid=(height, width))


class PatchInput(Input):
    """Pictures (B H W C) to vectors (B Y·X width): W [the p·p·C numbers of a patch] + b, Y = ⌈H/p⌉.

    A picture that can't be cut evenly is continued at its lower and right edge with grey.
    """

    def __init__(self, config: Patches, facts: Facts) -> None:
        super().__init__()
        self.width, self.patch = config.width, config.patch
        self.linear = nn.Conv2d(facts.features[FIELD], config.width, config.patch, config.patch)
        nn.init.xavier_uniform_(self.linear.weight.view(config.width, -1))
        assert self.linear.bias is not None
        nn.init.zeros_(self.linear.bias)
        self.positions = config.positions.build(config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: Batch) -> Seq:
        pixels = pixels_of(batch)
        height, width = pixels.shape[2:]
        even = F.pad(pixels, (0, -width % self.patch, 0, -height % self.patch))
        read = slots(self.positions(self.linear(even)))
        return read.with_values(self.dropout(read.values))

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_pixels(rows, length, self.linear.in_channels)}

    def length_after(self, length: int) -> int:
        """Slots of a picture of `length` lines and as many columns."""
        return (-(-length // self.patch)) ** 2

    def costs(self, length: int) -> list[Cost]:
        slots, weights = self.length_after(length), self.linear.weight.numel()
        return [
            Cost(
                name="linear",
                parameters=weights + self.width,
                parameters_formula="p²·c·d + d",
                work=slots * weights,
                work_formula="n·p²·c·d",
                memory=slots * weights // self.width,
            ),
            self.positions.cost(),
        ]


def conv3(width_in: int, width: int, kernel: int = 3) -> nn.Conv2d:
    """A convolution without bias, as a norm follows it."""
    layer = nn.Conv2d(width_in, width, kernel, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def norm_of(width: int) -> nn.GroupNorm:
    """Over groups of the features of one picture, so that no picture of a batch changes another one."""
    return nn.GroupNorm(GROUPS if width % GROUPS == 0 else 1, width)


class ResidualBlock(nn.Module):
    """y = ReLU(N(W₂ ∗ ReLU(N(W₁ ∗ x))) + S x), as He et al. 2016, with group norms (Wu and He 2018) in place
    of batch norms. S is the identity, or a linear layer where the sizes differ."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.first, self.second = conv3(width_in, width), conv3(width, width)
        self.first_norm, self.second_norm = norm_of(width), norm_of(width)
        self.short = conv3(width_in, width, 1) if width_in != width else None

    def forward(self, x: Float[Tensor, "B D H W"], stride: int) -> Float[Tensor, "B E Y X"]:
        y = F.conv2d(x, self.first.weight, stride=stride, padding=1)
        y = F.relu(self.first_norm(y))
        y = self.second_norm(self.second(y))
        x = F.avg_pool2d(x, stride, ceil_mode=True) if stride > 1 else x
        return F.relu(y + (x if self.short is None else self.short(x)))


class GridInput(Input):
    """Pictures (B H W C) to vectors (B Y·X width), SPEC C2: a convolution, then stages of residual blocks.

    The first convolution and the first block of each stage but the first halve both sides, rounded up, as far
    as `least` slots are left on each; small pictures are halved late, where more is known of each slot.
    """

    stages: Sequence[Sequence[ResidualBlock]]

    def __init__(self, config: Grid, facts: Facts) -> None:
        super().__init__()
        first, *_ = widths = config.channels
        self.width, self.least = widths[-1], config.least
        self.stem, self.stem_norm = conv3(facts.features[FIELD], first), norm_of(first)
        before = [first, *widths[:-1]]
        self.stages = listed(
            listed(ResidualBlock(old if block == 0 else new, new) for block in range(config.blocks))
            for old, new in zip(before, widths, strict=True)
        )
        self.positions = config.positions.build(self.width)
        self.dropout = Dropout(config.dropout)

    def strides(self, side: int) -> list[int]:
        """By how much the first convolution and each stage divide a side."""
        most, halvings = len(self.stages), 0
        while halvings < most and -(-side // 2) >= self.least:
            side, halvings = -(-side // 2), halvings + 1
        first, *others = [1] * (most - halvings) + [2] * halvings
        return [first, 1, *others]

    def forward(self, batch: Batch) -> Seq:
        x = pixels_of(batch)
        first, *others = self.strides(min(x.shape[2:]))
        x = F.relu(self.stem_norm(F.conv2d(x, self.stem.weight, stride=first, padding=1)))
        for stage, stride in zip(self.stages, others, strict=True):
            for block, layer in enumerate(stage):
                x = layer(x, 1 if block else stride)
        read = slots(self.positions(x))
        return read.with_values(self.dropout(read.values))

    def imagined(self, rows: int, length: int) -> dict[str, Seq | Nested]:
        return {FIELD: imagined_pixels(rows, length, self.stem.in_channels)}

    def _sides(self, length: int) -> list[int]:
        """Of what the first convolution makes, and of what each stage makes."""
        sides: list[int] = []
        for stride in self.strides(length):
            length = -(-length // stride)
            sides.append(length)
        return sides

    def length_after(self, length: int) -> int:
        return self._sides(length)[-1] ** 2

    def costs(self, length: int) -> list[Cost]:
        sides = self._sides(length)
        stem = self.stem.weight.numel()
        costs = [
            Cost(
                name="stem",
                parameters=stem + 2 * self.stem.out_channels,
                parameters_formula="9·c·d + 2d",
                work=sides[0] ** 2 * stem,
                work_formula="n·9·c·d",
                memory=length**2 * self.stem.in_channels + 2 * sides[0] ** 2 * self.stem.out_channels,
            )
        ]
        for number, (stage, side) in enumerate(zip(self.stages, sides[1:], strict=True)):
            for block, layer in enumerate(stage):
                old, new = layer.first.in_channels, layer.first.out_channels
                weights = 9 * new * (old + new) + (0 if layer.short is None else old * new)
                costs.append(
                    Cost(
                        name=f"stages.{number}.{block}",
                        parameters=weights + 4 * new,
                        parameters_formula="9·d·(d_in + d)"
                        + ("" if layer.short is None else " + d_in·d")
                        + " + 4d",
                        work=side**2 * weights,
                        work_formula="n·9·d·(d_in + d)",
                        longest_path=-(-length // 3),
                        memory=side**2 * 5 * new,
                    )
                )
        return [*costs, self.positions.cost()]
