"""The head that says an id of the vocabulary: which word belongs at a position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seqlab.config import PositiveFloat
from seqlab.nn.layers import ACTIVATIONS, Activation, start_linear
from seqlab.parts import Cost, Head, HeadConfig, Reply


@dataclass(frozen=True, kw_only=True)
class Vocabulary(HeadConfig, kind="vocabulary"):
    """A score for each id of the vocabulary."""

    transform: Literal["none", "linear", "dense"] = "dense"
    """Between state and vocabulary: nothing; a matrix; or a matrix with bias, activation and norm, as in
    BERT."""
    activation: Activation = "gelu"
    """Of the dense transform."""
    epsilon: PositiveFloat = 1e-5
    """Added to the variance in the norm of the dense transform."""
    tied: bool = True
    """The vocabulary's matrix is that of the tokens that are read."""
    bias: bool = True
    """A bias for each id."""
    halves: bool = False
    """The two halves of a state, one for each direction of reading, answer by themselves."""

    def build(self, width_in: int, outputs: int) -> VocabularyHead:
        return VocabularyHead(self, width_in, outputs, width_in)

    def build_for(self, width_in: int, outputs: int, tokens: int) -> VocabularyHead:
        """With scores from vectors as wide as those of the tokens, where it has a transform that makes them
        so."""
        return VocabularyHead(self, width_in, outputs, width_in if self.transform == "none" else tokens)


class VocabularyHead(Head):
    """States (N D) to vectors (N E), and those to scores (N V): e[w] · vector + b[w].

    BERT: vector = norm(gelu(W h + b)). The blank model of SPEC R8: vector = W→ h→ + W← h←, one matrix over
    both. With halves each direction has its part of that matrix and gives a vector of its own: (N D) to (2N
    E).
    """

    def __init__(self, config: Vocabulary, width_in: int, outputs: int, width: int) -> None:
        super().__init__()
        self.config = config
        self.tied, self.halves = config.tied, config.halves
        dense = config.transform == "dense"
        if config.halves and config.transform == "none":
            width //= 2
        self.transform = nn.Linear(width_in, width, bias=dense) if config.transform != "none" else None
        self.norm = nn.LayerNorm(width, config.epsilon) if dense else None
        self.output = nn.Linear(width, outputs, bias=config.bias)
        if self.transform is not None:
            start_linear(self.transform)
        nn.init.normal_(self.output.weight, std=width**-0.5)
        if config.bias:
            nn.init.zeros_(self.output.bias)

    def vectors(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "M E"]:
        """What the vocabulary scores."""
        if self.transform is None:
            return torch.cat(states.chunk(2, dim=-1)) if self.halves else states
        if self.halves:
            sides = zip(states.chunk(2, dim=-1), self.transform.weight.chunk(2, dim=-1), strict=True)
            made = torch.cat([functional.linear(side, weight, self.transform.bias) for side, weight in sides])
        else:
            made = self.transform(states)
        if self.norm is None:
            return made
        normed: Tensor = self.norm(ACTIVATIONS[self.config.activation](made))
        return normed

    def forward(self, states: Float[Tensor, "N D"]) -> Reply:
        return Reply(
            self.vectors(states), self.output.weight, self.output.bias, directions=2 if self.halves else 1
        )

    def costs(self, length: int) -> list[Cost]:
        costs = []
        if self.transform is not None:
            size, width = self.transform.weight.numel(), self.transform.out_features
            extra = 3 * width if self.norm is not None else 0
            costs.append(
                Cost(
                    name="transform",
                    parameters=size + extra,
                    parameters_formula="d·e + 3e" if extra else "d·e",
                    work=length * size,
                    work_formula="n·d·e",
                    memory=length * width,
                )
            )
        width, symbols = self.output.in_features, self.output.out_features
        own = 0 if self.tied else symbols * width
        formula = ("the input's" if self.tied else "V·e") + (" + V" if self.config.bias else "")
        costs.append(
            Cost(
                name="output",
                parameters=own + self.config.bias * symbols,
                parameters_formula=formula,
                work=length * width * symbols * (1 + self.halves),
                work_formula="2n·e·V" if self.halves else "n·e·V",
                memory=length * width,
            )
        )
        return costs


class Symbols(nn.Linear, Head):
    """A score for each id of a vocabulary, straight from the states (N E): e[w] · h + b[w]. The answer of a
    decoder of ids."""

    def forward(self, states: Float[Tensor, "N E"]) -> Reply:  # type: ignore[override]
        return Reply(states, self.weight, self.bias)

    def costs(self, length: int) -> list[Cost]:
        bias = self.out_features if self.bias is not None else 0
        return [
            Cost(
                name="",
                parameters=self.weight.numel() + bias,
                parameters_formula="V·d" + (" + V" if bias else ""),
                work=length * self.weight.numel(),
                work_formula="n·d·V",
                memory=length * self.in_features,
            )
        ]
