"""Recurrent encoders: rnn, gru and lstm, any depth, forward, backward or both ways."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.errors import UserError
from seqlab.nn.layers import Dropout, listed
from seqlab.parts import Cost, Encoder, EncoderConfig, State
from seqlab.seq import Seq, reverse


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(EncoderConfig):
    """What rnn, gru and lstm have in common."""

    width: Positive = 128
    """Width of the state of one direction."""
    layers: Positive = 1
    """Depth: layer l reads the states of layer l - 1."""
    directions: Literal["forward", "backward", "both"] = "forward"
    """Which way to read; the states of both ways are put side by side."""
    dropout: Probability = 0.0
    """Probability of dropping a feature between two layers while training."""

    def build(self, width_in: int) -> RecurrentEncoder:
        return RecurrentEncoder(self, width_in)

    @abstractmethod
    def cell(self, width_in: int) -> nn.RNNBase:
        """One layer that reads forward."""

    def as_causal(self) -> RecurrentConfig:
        if self.directions != "forward":
            raise UserError(
                what=f'The body of a decoder is a {self.kind} that reads "{self.directions}".',
                why="What is written later can't be read before it is there.",
                fix="Set model.decoder.body.directions=forward.",
            )
        return self


@dataclass(frozen=True, kw_only=True)
class Rnn(RecurrentConfig, kind="rnn"):
    """h_t = f(V h_{t-1} + U x_t + b)."""

    activation: Literal["tanh", "relu"] = "tanh"
    """f of the formula."""

    def cell(self, width_in: int) -> nn.RNNBase:
        return nn.RNN(width_in, self.width, nonlinearity=self.activation, batch_first=True)


@dataclass(frozen=True, kw_only=True)
class Gru(RecurrentConfig, kind="gru"):
    """Gated recurrent unit (Cho et al. 2014)."""

    def cell(self, width_in: int) -> nn.RNNBase:
        return nn.GRU(width_in, self.width, batch_first=True)


@dataclass(frozen=True, kw_only=True)
class Lstm(RecurrentConfig, kind="lstm"):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gate)."""

    def cell(self, width_in: int) -> nn.RNNBase:
        return nn.LSTM(width_in, self.width, batch_first=True)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class RecurrentEncoder(Encoder):
    """States (B T D) from vectors (B T D_in), by torch's fused layers over padded rows.

    Packed sequences run at 0.6 of the speed. Forward, padding on the right never reaches a real state;
    backward, each row is turned at its true length, read forward and turned back. So the states equal those
    of packed sequences. Like torch's layers, a cell has two biases (one beside U, one beside V), where one
    would do.

    `summary` (B D) holds the last layer's final states: forward at the last real position, backward at the
    first.
    """

    ahead: Sequence[nn.RNNBase]
    back: Sequence[nn.RNNBase]

    def __init__(self, config: RecurrentConfig, width_in: int) -> None:
        super().__init__()
        self.config = config
        self.width = config.width * (2 if config.directions == "both" else 1)
        self.causal = config.directions == "forward"
        widths = [width_in] + [self.width] * (config.layers - 1)
        ahead, back = config.directions != "backward", config.directions != "forward"
        self.ahead = listed(config.cell(width) for width in widths if ahead)
        self.back = listed(config.cell(width) for width in widths if back)
        self.dropout = Dropout(config.dropout)
        for cell in (*self.ahead, *self.back):
            _start(cell)

    def forward(self, x: Seq) -> Seq:
        for layer in range(self.config.layers):
            if layer > 0:
                x = x.with_values(self.dropout(x.values))
            found = [cell(x.values)[0] for cell in self.ahead[layer : layer + 1]]
            for cell in self.back[layer : layer + 1]:
                turned = x.with_values(cell(reverse(x).values)[0])
                found.append(reverse(turned).values)
            x = x.with_values(torch.cat(found, dim=-1) if len(found) > 1 else found[0])
        return x.with_values(x.values, summary=self._summary(x))

    def _summary(self, x: Seq) -> Float[Tensor, "B D"]:
        last = x.values[torch.arange(x.rows, device=x.values.device), x.lengths - 1]
        first = x.values[:, 0]
        if self.config.directions == "both":
            return torch.cat([last[:, : self.config.width], first[:, self.config.width :]], dim=-1)
        return last if self.causal else first

    def begin(self, rows: int, memory: Seq | None = None) -> State:
        weight = next(self.ahead[0].parameters())
        parts = ("state", "cell") if self.config.kind == "lstm" else ("state",)
        names = [f"{part}.{layer}" for layer in range(self.config.layers) for part in parts]
        return State({}, {name: weight.new_zeros(rows, self.config.width) for name in names})

    def extend(self, values: Float[Tensor, "B U D"], state: State) -> tuple[Float[Tensor, "B U E"], State]:
        assert self.causal
        moving: dict[str, Tensor] = {}
        for layer, cell in enumerate(self.ahead):
            if layer > 0:
                values = self.dropout(values)
            last = state.moving[f"state.{layer}"].unsqueeze(0)  # 1 B D, as torch's layers want it
            if self.config.kind == "lstm":
                values, (last, inner) = cell(values, (last, state.moving[f"cell.{layer}"].unsqueeze(0)))
                moving[f"cell.{layer}"] = inner.squeeze(0)
            else:
                values, last = cell(values, last)
            moving[f"state.{layer}"] = last.squeeze(0)
        return values, State(state.fixed, moving, state.done + values.shape[1])

    def costs(self, length: int) -> list[Cost]:
        costs = []
        gates, width = GATES[self.config.kind], self.config.width
        for name, cells in (("ahead", self.ahead), ("back", self.back)):
            for layer, cell in enumerate(cells):
                costs.append(
                    Cost(
                        name=f"{name}.{layer}",
                        parameters=gates * width * (cell.input_size + width + 2),
                        parameters_formula=f"{gates}d(d_in + d + 2)" if gates > 1 else "d(d_in + d + 2)",
                        work=gates * length * width * width,
                        work_formula=f"{gates}nd²" if gates > 1 else "nd²",
                        projections=gates * length * cell.input_size * width,
                        sequential_steps=length,
                        longest_path=length,
                        memory=(gates + 1) * length * width,
                    )
                )
        return costs


@torch.no_grad()
def _start(cell: nn.RNNBase) -> None:
    """Xavier for the input, orthogonal for the state, gate by gate; an LSTM forgets nothing at the start."""
    width = cell.hidden_size
    for name, tensor in cell.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(tensor)
        for gate in tensor.split(width) if name.startswith("weight") else ():
            (nn.init.xavier_uniform_ if name == "weight_ih_l0" else nn.init.orthogonal_)(gate)
        if name == "bias_ih_l0" and isinstance(cell, nn.LSTM):
            tensor[width : 2 * width].fill_(1.0)  # the gates' order is input, forget, cell, output
