"""Pools: the states of a row become one vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seqlab.config import Positive, Probability
from seqlab.nn.attention import masked_softmax
from seqlab.nn.layers import Dropout, start_linear
from seqlab.parts import Attends, Cost, Pool, PoolConfig, Pooled
from seqlab.seq import Seq


@dataclass(frozen=True, kw_only=True)
class Last(PoolConfig, kind="last"):
    """The last state."""

    def build(self, width_in: int) -> LastPool:
        return LastPool(width_in)


@dataclass(frozen=True, kw_only=True)
class First(PoolConfig, kind="first"):
    """The first state."""

    def build(self, width_in: int) -> FirstPool:
        return FirstPool(width_in)


@dataclass(frozen=True, kw_only=True)
class Mean(PoolConfig, kind="mean"):
    """The mean of all states."""

    def build(self, width_in: int) -> MeanPool:
        return MeanPool(width_in)


@dataclass(frozen=True, kw_only=True)
class Max(PoolConfig, kind="max"):
    """The greatest value of each feature."""

    def build(self, width_in: int) -> MaxPool:
        return MaxPool(width_in)


@dataclass(frozen=True, kw_only=True)
class MeanMax(PoolConfig, kind="mean+max"):
    """The mean of all states and the greatest value of each feature, side by side."""

    def build(self, width_in: int) -> MeanMaxPool:
        return MeanMaxPool(width_in)


@dataclass(frozen=True, kw_only=True)
class Pair(PoolConfig, kind="pair"):
    """The means of both texts of a pair, how far they differ, and their product."""

    def build(self, width_in: int) -> PairPool:
        return PairPool(width_in)


@dataclass(frozen=True, kw_only=True)
class Attention(PoolConfig, kind="attention"):
    """Average the states with learned weights."""

    hidden: Positive = 64
    """Width of the layer that scores each state."""
    bias: bool = True
    """A bias in that layer."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a state while training."""

    def build(self, width_in: int) -> AttentionPool:
        return AttentionPool(self, width_in)


@dataclass(frozen=True, kw_only=True)
class Structured(PoolConfig, kind="structured"):
    """Several weighted means side by side, each free to look at something else."""

    hops: Positive = 4
    """How many means."""
    hidden: Positive = 64
    """Width of the layer that scores each state."""
    dropout: Probability = 0.0
    """Probability of dropping a feature of a state while training."""

    def build(self, width_in: int) -> StructuredPool:
        return StructuredPool(self, width_in)


def mean(x: Seq) -> Float[Tensor, "B D"]:
    """Over real positions."""
    return x.zeroed.sum(dim=1) / x.lengths.unsqueeze(1)


def greatest(x: Seq) -> Float[Tensor, "B D"]:
    """Of each feature, over real positions."""
    return x.values.masked_fill(~x.mask.unsqueeze(-1), -torch.inf).amax(dim=1)


class PlainPool(Pool):
    """A pool without parameters: states (B T D) to one vector a row (B D)."""

    def __init__(self, width_in: int) -> None:
        super().__init__()
        self.width = width_in

    def costs(self, length: int) -> list[Cost]:
        return []


class LastPool(PlainPool):
    """The encoder's summary where it gave one, else the state at the last real position."""

    def forward(self, x: Seq) -> Pooled:
        if x.summary is not None:
            return Pooled(vector=x.summary)
        return Pooled(vector=x.values[torch.arange(x.rows, device=x.values.device), x.lengths - 1])


class FirstPool(PlainPool):
    """The state at the first position."""

    def forward(self, x: Seq) -> Pooled:
        return Pooled(vector=x.values[:, 0])


class MeanPool(PlainPool):
    """The mean over real positions."""

    def forward(self, x: Seq) -> Pooled:
        return Pooled(vector=mean(x))


class MaxPool(PlainPool):
    """The greatest value of each feature over real positions."""

    def forward(self, x: Seq) -> Pooled:
        return Pooled(vector=greatest(x))


class MeanMaxPool(PlainPool):
    """Mean and maximum side by side (B 2D): what a text is about, and whether anything in it stands out.

    Howard and Ruder 2018, section 3.3, have the last state beside them.
    """

    def __init__(self, width_in: int) -> None:
        super().__init__(width_in)
        self.width = 2 * width_in

    def forward(self, x: Seq) -> Pooled:
        return Pooled(vector=torch.cat([mean(x), greatest(x)], dim=1))


class PairPool(PlainPool):
    """u, v, |u − v|, u ∗ v side by side (B 4D), u and v being the means over the first and the second text of
    a pair.

    The features of Conneau et al. 2017. What two texts have in common is a product of theirs; a linear layer
    above the first state alone can't see it before the layers below have learnt to bring it there. Without a
    second text v is 0.
    """

    def __init__(self, width_in: int) -> None:
        super().__init__(width_in)
        self.width = 4 * width_in

    def forward(self, x: Seq) -> Pooled:
        second = torch.zeros_like(x.mask) if x.segments is None else (x.segments == 1) & x.mask
        both = torch.stack([x.mask & ~second, second], dim=1).to(x.values)  # B 2 T
        means = both @ x.zeroed / both.sum(dim=2, keepdim=True).clamp(min=1.0)  # B 2 D
        one, two = means.unbind(dim=1)
        return Pooled(vector=torch.cat([one, two, (one - two).abs(), one * two], dim=1))


class AttentionPool(Pool, Attends):
    """One vector per row: states (B T D) become their weighted mean (B D).

    The weights are softmax(v · tanh(W h + b)) over real positions, as in Yang et al. 2016, section 2.2. The
    scoring layer may have any width; the paper makes it as wide as the states. With `context`, for a loop
    that calls `weigh` with a vector c (B C) beside the states, they are softmax(v · tanh(W h + W_c c + b)).
    """

    def __init__(self, config: Attention, width_in: int, context: int = 0) -> None:
        super().__init__()
        self.width = width_in
        self.dropout = Dropout(config.dropout)
        self.hidden = nn.Linear(width_in, config.hidden, bias=config.bias)
        self.context = nn.Linear(context, config.hidden, bias=False) if context else None
        self.score = nn.Linear(config.hidden, 1, bias=False)
        for layer in (self.hidden, self.context, self.score):
            if layer is not None:
                start_linear(layer)

    def forward(self, x: Seq) -> Pooled:
        states = self.dropout(x.values)
        pooled = self.weigh(states, self.hidden(states), x.mask)
        if self.tape is not None and pooled.weights is not None:
            self.tape.append(pooled.weights.unsqueeze(2).detach())  # B 1 1 T
        return pooled

    def weigh(
        self,
        states: Float[Tensor, "B T D"],
        scored: Float[Tensor, "B T E"],
        mask: Bool[Tensor, "B T"],
        context: Float[Tensor, "B C"] | None = None,
    ) -> Pooled:
        """The second half of `forward`, for a loop over contexts: `scored` is W h + b, computed once for all
        of them."""
        if self.context is not None:
            assert context is not None, "built for a context, called without one"
            scored = scored + self.context(context).unsqueeze(1)
        weights = masked_softmax(
            self.score(torch.tanh(scored)).squeeze(-1), mask
        )  # B T, padding gets exactly 0
        vector = torch.einsum("bt,btd->bd", weights, states)
        return Pooled(vector=vector, weights=weights.unsqueeze(1))  # one hop: B 1 T

    def costs(self, length: int) -> list[Cost]:
        hidden, bias = self.hidden.out_features, self.hidden.bias is not None
        context = 0 if self.context is None else self.context.in_features
        return [
            Cost(
                name="",
                parameters=hidden * (self.width + context + bias + 1),
                parameters_formula="e(d + 1)" + (" + e" if bias else "") + (" + ec" if context else ""),
                work=length * self.width,
                work_formula="nd",
                projections=length * hidden * (self.width + 1) + hidden * context,
                over=length,
                memory=length * (self.width + hidden),
            )
        ]


class StructuredPool(Pool, Attends):
    """R weighted means of the states (B T D), side by side (B R·D): M = A H with A = softmax(W_2 tanh(W_1
    Hᵀ)).

    As in Lin et al. 2017, section 2.1, without biases. One hop is attention pooling without bias.
    """

    def __init__(self, config: Structured, width_in: int) -> None:
        super().__init__()
        self.width = config.hops * width_in
        self.dropout = Dropout(config.dropout)
        self.hidden = nn.Linear(width_in, config.hidden, bias=False)
        self.score = nn.Linear(config.hidden, config.hops, bias=False)
        start_linear(self.hidden)
        start_linear(self.score)

    def forward(self, x: Seq) -> Pooled:
        states = self.dropout(x.values)
        scores = self.score(torch.tanh(self.hidden(states))).transpose(1, 2)  # B R T
        weights = masked_softmax(scores, x.mask.unsqueeze(1))
        if self.tape is not None:
            self.tape.append(weights.unsqueeze(2).detach())  # B R 1 T
        return Pooled(vector=(weights @ states).flatten(1), weights=weights)

    def costs(self, length: int) -> list[Cost]:
        hidden, hops, width = self.hidden.out_features, self.score.out_features, self.hidden.in_features
        return [
            Cost(
                name="",
                parameters=hidden * (width + hops),
                parameters_formula="e(d + r)",
                work=hops * length * width,
                work_formula="rnd",
                projections=length * hidden * (width + hops),
                over=length,
                memory=length * (width + hidden + hops),
            )
        ]


def overlap_penalty(weights: Float[Tensor, "B R T"]) -> Float[Tensor, " B"]:
    """‖A Aᵀ − I‖_F² of each row: 0 when the hops look at different single positions (Lin et al. 2017, section
    2.2)."""
    overlap = weights @ weights.transpose(1, 2)  # B R R
    return (overlap - torch.eye(weights.shape[1], device=weights.device)).square().sum(dim=(1, 2))


def hop_products(weights: Float[Tensor, "B R T"]) -> Float[Tensor, " B"]:
    """The mean off-diagonal entry of G = A Aᵀ: 1 when all hops look at one and the same position, 0 when no
    two share one. It is small, too, where all hops are alike but flat: 1/T for uniform ones."""
    return _mean_apart(weights @ weights.transpose(1, 2))


def hop_cosine(weights: Float[Tensor, "B R T"]) -> Float[Tensor, " B"]:
    """The mean cosine between two hops, g_ij / √(g_ii g_jj) with G = A Aᵀ: 1 when all hops are alike, however
    flat they are, 0 when no two share a position."""
    unit = weights / weights.norm(dim=2, keepdim=True).clamp(min=1e-12)
    return _mean_apart(unit @ unit.transpose(1, 2))


def _mean_apart(products: Float[Tensor, "B R R"]) -> Float[Tensor, " B"]:
    """The mean over pairs of two different hops; 0 where there is one hop."""
    hops = products.shape[1]
    own = products.diagonal(dim1=1, dim2=2).sum(dim=1)
    return (products.sum(dim=(1, 2)) - own) / max(hops * (hops - 1), 1)


def kl_penalty(weights: Float[Tensor, "B R T"]) -> Float[Tensor, " B"]:
    """Minus the mean KL divergence between two hops of a row: 0 when all hops are the same, lower the more
    they differ.

    It has no natural end (hops can always part further), and costs a logarithm of every weight. Weights below
    1e-8 count as 1e-8 inside the logarithm.
    """
    hops = weights.shape[1]
    logs = weights.clamp(min=1e-8).log()
    crossed = weights @ logs.transpose(1, 2)  # B R R: Σ_t a_i log a_j
    own = crossed.diagonal(dim1=1, dim2=2).sum(dim=1)
    return (crossed.sum(dim=(1, 2)) - hops * own) / max(hops * (hops - 1), 1)
