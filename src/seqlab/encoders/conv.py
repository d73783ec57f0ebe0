"""The convolutional encoder: each state is made from k neighbours, layer after layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.errors import UserError
from seqlab.nn.layers import ACTIVATIONS, Activation, Dropout, listed
from seqlab.parts import Cost, Encoder, EncoderConfig, State
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class Conv(EncoderConfig, kind="conv"):
    """Layers of convolution over positions."""

    layers: Positive = 1
    """How many layers: at stride 1 they see 1 + layers·(kernel - 1) positions, kernel^layers where dilation
    grows."""
    width: Positive = 128
    """Width of the states."""
    kernel: Positive = 3
    """How many positions one state is made from; of an even number, the one more is before it."""
    stride: Literal[1, 2] = 1
    """2 halves the length at every layer."""
    dilation: Literal["none", "growing"] = "none"
    """growing: these positions lie 1 apart in the first layer, kernel apart in the second, then kernel²;
    none: they are neighbours in every layer."""
    activation: Activation = "relu"
    """After every layer."""
    dropout: Probability = 0.0
    """Probability of dropping a feature before each layer but the first while training."""
    causal: bool = False
    """Look at positions up to t alone, instead of on both sides."""
    residual: bool = False
    """Add a layer's input to its result, where the sizes agree."""

    def build(self, width_in: int) -> ConvEncoder:
        return ConvEncoder(self, width_in)

    def as_causal(self) -> Conv:
        if self.stride != 1:
            raise UserError(
                what=f"The body of a decoder is a conv with stride {self.stride}.",
                why="A decoder needs one state for each position that it writes.",
                fix="Set model.decoder.body.stride=1.",
            )
        return replace(self, causal=True)


class ConvEncoder(Encoder):
    """States (B T' D) from vectors (B T D_in): T' is T at stride 1 and is halved, rounded up, by each layer
    at stride 2.

    L_{l+1}[t] = σ(Σ_Δ W_{l+1}[Δ] L_l[s·t + r·Δ] + b_{l+1}) for Δ = -⌊k/2⌋ ... ⌈k/2⌉ - 1, so that an even
    kernel sees one position more before t than after it; or for Δ = -(k-1) ... 0 when causal. The dilation r
    of layer l (from 0) is k^l where it grows, else 1. Padding is set to zero before every layer. SPEC's C1
    subtracts its B, so b is -B.
    """

    layers: Sequence[nn.Conv1d]

    def __init__(self, config: Conv, width_in: int) -> None:
        super().__init__()
        self.config = config
        self.width = config.width
        self.causal = config.causal and config.stride == 1
        self.keeps_length = config.stride == 1
        self.activate = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout)
        widths = [width_in] + [config.width] * (config.layers - 1)
        self.layers = listed(self._layer(width) for width in widths)
        growing = config.dilation == "growing"
        self.dilations = [config.kernel**number if growing else 1 for number in range(config.layers)]

    def _layer(self, width_in: int) -> nn.Conv1d:
        layer = nn.Conv1d(width_in, self.width, self.config.kernel)
        nn.init.kaiming_normal_(
            layer.weight, nonlinearity="tanh" if self.config.activation == "tanh" else "relu"
        )
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        return layer

    def forward(self, x: Seq) -> Seq:
        kernel, stride = self.config.kernel, self.config.stride
        left = kernel - 1 if self.config.causal else kernel // 2
        for number, (layer, apart) in enumerate(zip(self.layers, self.dilations, strict=True)):
            if number > 0:
                x = x.with_values(self.dropout(x.values))
            around = (0, 0, left * apart, (kernel - 1 - left) * apart)
            states = self._slide(layer, F.pad(x.zeroed, around), apart)  # B T' D
            if self.config.residual and states.shape == x.values.shape:
                states = states + x.values
            segments = None if x.segments is None else x.segments[:, ::stride]
            x = replace(x.with_values(states), mask=x.mask[:, ::stride], segments=segments)
        return x

    def _slide(self, layer: nn.Conv1d, padded: Float[Tensor, "B T D"], apart: int) -> Float[Tensor, "B S E"]:
        # Vectors side by side are an image of one line with its channels last, which conv2d takes as it lies
        # and conv1d would copy: about 10 % slower.
        image, weight = padded.transpose(1, 2).unsqueeze(2), layer.weight.unsqueeze(2)  # B D_in 1 T
        found = F.conv2d(image, weight, layer.bias, stride=(1, self.config.stride), dilation=(1, apart))
        return self.activate(found.squeeze(2).transpose(1, 2))

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        weight, reach = self.layers[0].weight, self.config.kernel - 1
        return State(
            {},
            {
                f"inputs.{n}": weight.new_zeros(rows, reach * apart, one.in_channels)
                for n, (one, apart) in enumerate(zip(self.layers, self.dilations, strict=True))
            },
        )

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        assert self.causal
        count, moving = values.shape[1], {}
        for number, (layer, apart) in enumerate(zip(self.layers, self.dilations, strict=True)):
            if number > 0:
                values = self.dropout(values)
            seen = torch.cat([state.moving[f"inputs.{number}"], values], dim=1)
            moving[f"inputs.{number}"] = seen[:, count:]  # as far back as the next position reaches
            states = self._slide(layer, seen, apart)
            values = states + values if self.config.residual and states.shape == values.shape else states
        return values, State(state.fixed, moving, state.done + count)

    def length_after(self, length: int) -> int:
        for _ in self.layers:
            length = -(-length // self.config.stride)
        return length

    def costs(self, length: int) -> list[Cost]:
        costs = []
        kernel = self.config.kernel
        for number, layer in enumerate(self.layers):
            after = -(-length // self.config.stride)
            costs.append(
                Cost(
                    name=f"layers.{number}",
                    parameters=kernel * layer.in_channels * self.width + self.width,
                    parameters_formula="k·d_in·d + d",
                    work=kernel * after * layer.in_channels * self.width,
                    work_formula="k·n·d_in·d",
                    longest_path=self._path(length),
                    memory=length * layer.in_channels + after * self.width,
                )
            )
            length = after
        return costs

    def _path(self, length: int) -> int:
        """Layers like these between two ends of so many positions (SPEC M1): n/k, or log_k n where dilation
        grows."""
        kernel = self.config.kernel
        if self.config.dilation == "none" or kernel == 1:
            return -(-length // kernel)
        layers = 1
        while kernel**layers < length:
            layers += 1
        return layers
