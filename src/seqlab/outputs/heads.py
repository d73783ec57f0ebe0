"""Heads: states become scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.errors import UserError
from seqlab.nn.layers import ACTIVATIONS, Activation, Dropout, listed, start_linear
from seqlab.parts import Cost, Head, HeadConfig, Reply


@dataclass(frozen=True, kw_only=True)
class Linear(HeadConfig, kind="linear"):
    """A linear layer, after hidden layers if wanted."""

    dropout: Probability = 0.0
    """Probability of dropping a feature before each layer while training."""
    hidden: tuple[Positive, ...] = ()
    """Widths of layers before the last one."""
    activation: Activation = "relu"
    """After each hidden layer."""
    bias: bool = True
    """A bias for each score."""

    def build(self, width_in: int, outputs: int) -> Head:
        return LinearHead(self, width_in, outputs)


@dataclass(frozen=True, kw_only=True)
class Direct(HeadConfig, kind="direct"):
    """The states are the scores already; a bias is added."""

    def build(self, width_in: int, outputs: int) -> DirectHead:
        if width_in != outputs:
            raise UserError(
                what=f'The head "direct" needs {outputs} features, one for each score, and gets {width_in}.',
                why="It has no weights: each feature is a score.",
                fix="Use head.kind=linear, or an input of kind bag without a width.",
            )
        return DirectHead(outputs)


class LinearHead(Head):
    """Scores (N C) from states (N D): W h + b, with hidden layers in between where asked."""

    hidden: Sequence[nn.Linear]

    def __init__(self, config: Linear, width_in: int, outputs: int) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout)
        widths = [width_in, *config.hidden]
        self.hidden = listed(nn.Linear(before, after) for before, after in itertools.pairwise(widths))
        self.output = nn.Linear(widths[-1], outputs, bias=config.bias)
        for layer in (*self.hidden, self.output):
            start_linear(layer)

    def forward(self, states: Float[Tensor, "N D"]) -> Reply:
        for layer in self.hidden:
            states = self.activate(layer(self.dropout(states)))
        return Reply(self.output(self.dropout(states)))

    def costs(self, length: int) -> list[Cost]:
        named = [(f"hidden.{number}", layer) for number, layer in enumerate(self.hidden)] + [
            ("output", self.output)
        ]
        costs = []
        for name, layer in named:
            size, bias = layer.in_features * layer.out_features, layer.bias is not None
            costs.append(
                Cost(
                    name=name,
                    parameters=size + bias * layer.out_features,
                    parameters_formula="d·c + c" if bias else "d·c",
                    work=length * size,
                    work_formula="d·c" if length == 1 else "n·d·c",
                    memory=length * (layer.in_features + layer.out_features),
                )
            )
        return costs


class DirectHead(Head):
    """Scores (N C) from states (N C): s + b."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, states: Float[Tensor, "N C"]) -> Reply:
        return Reply(states + self.bias)

    def costs(self, length: int) -> list[Cost]:
        return [Cost(name="", parameters=len(self.bias), parameters_formula="c")]
