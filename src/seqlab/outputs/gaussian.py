"""The head that answers with normal distributions: a mean for each number, and a variance if learned."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from seqlab.outputs.heads import Linear, LinearHead
from seqlab.parts import Cost, Head, Reply

SMALLEST, LARGEST = -14.0, 7.0
"""Of the logarithm of a variance: it neither vanishes where all is predicted nor runs away."""


@dataclass(frozen=True, kw_only=True)
class Gaussian(Linear, kind="gaussian"):
    """A linear layer for the mean of each number, and another for the logarithm of its variance."""

    def build(self, width_in: int, outputs: int) -> GaussianHead:
        return GaussianHead(self, width_in, outputs)


@dataclass(frozen=True)
class GaussianReply(Reply):
    """Means (N C), which are the scores, and the logarithms of variances (N C); None: all variances are 1."""

    log_variance: Float[Tensor, "N C"] | None = None


class GaussianHead(Head):
    """States (N D) to normal distributions (N C each): μ = W h + b, log σ² = V h + c. σ begins at 1.

    Without a learned variance −log p is the squared error, but for a constant and a factor of 2.
    """

    def __init__(self, config: Linear, width_in: int, outputs: int, learned: bool = True) -> None:
        super().__init__()
        self.mean = LinearHead(config, width_in, outputs)
        self.spread = nn.Linear(width_in, outputs) if learned else None
        if self.spread is not None:
            nn.init.zeros_(self.spread.weight)
            nn.init.zeros_(self.spread.bias)

    def forward(self, states: Float[Tensor, "N D"]) -> GaussianReply:
        logs = None if self.spread is None else self.spread(states).clamp(SMALLEST, LARGEST)
        return GaussianReply(self.mean(states).vectors, log_variance=logs)

    def costs(self, length: int) -> list[Cost]:
        costs = [cost.below("mean") for cost in self.mean.costs(length)]
        if self.spread is None:
            return costs
        size, outputs = self.spread.weight.numel(), self.spread.out_features
        return [
            *costs,
            Cost(
                name="spread",
                parameters=size + outputs,
                parameters_formula="d·c + c",
                work=length * size,
                work_formula="d·c" if length == 1 else "n·d·c",
                memory=length * (self.spread.in_features + outputs),
            ),
        ]
