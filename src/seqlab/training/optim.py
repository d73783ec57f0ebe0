"""The optimiser, the rate over time and the averaged weights."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor, nn

from seqlab.training.layer_rates import LayerRates

Decay = Literal["linear", "cosine", "none"]
Optimiser = Literal["adamw", "sgd"]


def make_optimiser(
    model: nn.Module,
    rate: float,
    weight_decay: float,
    layer_rates: LayerRates | None = None,
    kind: Optimiser = "adamw",
) -> torch.optim.Optimizer:
    """AdamW or SGD in one fused call. Vectors (biases, norms) are not decayed. Weights of one depth are a
    group of their own."""
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            depth = layer_rates.depth(name) if layer_rates else 0
            groups.setdefault((depth, parameter.dim() > 1), []).append(parameter)
    told = [
        {"params": groups[depth, matrix], "weight_decay": weight_decay if matrix else 0.0, "depth": depth}
        for depth, matrix in sorted(groups, key=lambda key: (key[0], not key[1]))
    ]
    if kind == "sgd":
        return torch.optim.SGD(told, lr=rate, fused=True)
    return torch.optim.AdamW(told, lr=rate, betas=(0.9, 0.98), fused=True)


def rate_factor(progress: float, warmup: float, decay: Decay) -> float:
    """The share of the full rate at `progress` (0 to 1): up during the warm-up, then down to the end."""
    if progress < warmup:
        return (progress + 0.01 * warmup) / (1.01 * warmup)
    rest = min(1.0, (progress - warmup) / max(1e-9, 1.0 - warmup))  # the warm-up may be all there is
    if decay == "none":
        return 1.0
    if decay == "cosine":
        return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * rest))
    return 1.0 - 0.99 * rest


class Average:
    """A running mean of the weights over about the last `share` of all steps so far.

    Its window grows with the run, so that one setting serves a run of a hundred steps and one of a million.
    """

    def __init__(self, model: nn.Module, share: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.share = share

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        mine: list[Tensor] = list(self.model.parameters())
        theirs: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
        newest = 1.0 / (1.0 + self.share * step)  # at step 1 nearly all, later 1 / window
        torch._foreach_lerp_(mine, theirs, newest if self.share else 1.0)
