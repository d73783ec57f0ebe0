"""A matrix for each channel: the linear forecast, every series from its own window."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.parts import Cost, Facts, Head, HeadConfig, Reply


@dataclass(frozen=True, kw_only=True)
class Channels(HeadConfig, kind="channels"):
    """A matrix for each channel, from the steps of its own window (input of kind window) to its answers."""

    def build(self, width_in: int, outputs: int) -> ChannelsHead:
        return ChannelsHead(width_in, 1, 1, outputs)

    def build_with(self, width_in: int, outputs: int, facts: Facts) -> ChannelsHead:
        return ChannelsHead(facts.window, facts.features["values"], facts.channels, outputs)


class ChannelsHead(Head):
    """A window (N T·F), step after step, to horizons of its first C features (N H·C), step after step.

    y_c = W_c [x_c; others] + b_c, where `others` are the features beyond the first C, such as the calendar.
    Zeng et al. 2023 learn one matrix for all channels in their LTSF-Linear, or one each; theirs for the trend
    and the rest of a series (DLinear) is the same function of the window as one matrix. Weights begin at 1/T,
    so that the first forecast is the mean of the window.
    """

    def __init__(self, steps: int, features: int, channels: int, outputs: int) -> None:
        super().__init__()
        self.steps, self.features, self.channels = steps, features, channels
        inputs = steps * (1 + features - channels)
        self.weight = nn.Parameter(torch.zeros(channels, inputs, outputs // channels))
        self.bias = nn.Parameter(torch.zeros(channels, outputs // channels))
        with torch.no_grad():
            self.weight[:, :steps] = 1 / steps

    def forward(self, states: Float[Tensor, "N W"]) -> Reply:
        windows = states.view(len(states), self.steps, self.features)
        own = windows[..., : self.channels].permute(2, 0, 1)  # C N T
        if self.features > self.channels:
            others = windows[..., self.channels :].flatten(1).expand(self.channels, -1, -1)
            own = torch.cat([own, others], dim=-1)
        said = torch.baddbmm(self.bias.unsqueeze(1), own, self.weight)  # C N H
        return Reply(said.permute(1, 2, 0).flatten(1))

    def costs(self, length: int) -> list[Cost]:
        size = self.weight.numel()
        return [
            Cost(
                name="",
                parameters=size + self.bias.numel(),
                parameters_formula="c·t·h + c·h",
                work=size,
                work_formula="c·t·h",
                memory=self.steps * self.features,
            )
        ]
