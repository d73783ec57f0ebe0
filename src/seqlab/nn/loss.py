"""The loss of a vocabulary, in chunks: scores are made, turned into their gradient and forgotten."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

CHUNK = 4_000_000
"""Scores that are there at once, about: 16 MB, which the caches of a CPU and its memory allocator like."""


def linear_cross_entropy(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Σ −log softmax(states weightᵀ + bias)[target], as F.cross_entropy(..., reduction="sum",
    label_smoothing=smoothing).

    The gradient is formed in the same pass, chunk by chunk, so the scores (N V) are never there at once: less
    memory, and about 8 % of a training step saved, most of it page faults.
    """
    if torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad):
        total: Tensor = _Loss.apply(states, weight, bias, targets, smoothing)
        return total
    return _passes(states, weight, bias, targets, smoothing, None)


def sampled_cross_entropy(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    samples: int | None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """As `linear_cross_entropy`, but against about `samples` symbols instead of all: an estimate, for large
    vocabularies.

    Z = Σ exp(score) is exact over the targets of all states and the first samples/2 symbols, which are the
    most common ones; what the others add is estimated from samples/2 of them. So E[Ẑ] = Z; log Ẑ, and so the
    loss, is a little too low by Jensen's inequality. Jean et al. 2015 draw all symbols by their frequency,
    and correct for that. What is drawn follows from states and targets, so threads and resuming don't change
    it.
    """
    symbols = weight.shape[0]
    if samples is None or samples >= symbols:
        return linear_cross_entropy(states, weight, bias, targets, smoothing)
    mark = int(states.detach()[0, 0].float().view(torch.int32)) + int(targets.sum())
    some, shift, places = candidates(targets, symbols, samples, torch.Generator().manual_seed(mark))
    shift = shift.to(states) if bias is None else shift.to(states) + bias[some]
    return linear_cross_entropy(states, functional.embedding(some, weight), shift, places, smoothing)


def candidates(
    targets: Int[Tensor, " N"], symbols: int, samples: int, generator: torch.Generator
) -> tuple[Int[Tensor, " K"], Float[Tensor, " K"], Int[Tensor, " N"]]:
    """Symbols to compare with, the logarithm of how many each stands for, and where the targets are among
    them."""
    common = torch.arange(samples // 2, device=targets.device)
    sure, inverse = torch.unique(torch.cat([targets, common]), return_inverse=True)
    free = torch.ones(symbols, dtype=torch.bool, device=targets.device)
    free[sure] = False
    rest = free.nonzero().flatten()
    drawn = rest[torch.randperm(len(rest), generator=generator)[: samples // 2].to(rest.device)]
    shift = torch.zeros(len(sure) + len(drawn), device=targets.device)
    shift[len(sure) :] = math.log(len(rest) / max(1, len(drawn))) if len(rest) else 0.0
    return torch.cat([sure, drawn]), shift, inverse[: len(targets)]


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        grads = (
            torch.empty_like(states),
            torch.zeros_like(weight),
            None if bias is None else torch.zeros_like(bias),
        )
        total = _passes(states, weight, bias, targets, smoothing, grads)
        ctx.save_for_backward(*(grad for grad in grads if grad is not None))
        return total

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        # The saved tensors are this function's alone and serve one backward pass, so they are scaled in
        # place.
        states, weight, *rest = (grad.mul_(above[0]) for grad in ctx.saved_tensors)
        return states, weight, rest[0] if rest else None, None, None


Grads = tuple[Tensor, Tensor, Tensor | None]


def _passes(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    grads: Grads | None,
) -> Tensor:
    """The loss; where `grads` are given, its gradients by states, weight and bias are written into them."""
    symbols = weight.shape[0]
    rows = max(1, CHUNK // symbols)
    total = states.new_zeros(())
    for start in range(0, len(states), rows):
        some, meant = states[start : start + rows], targets[start : start + rows].unsqueeze(1)
        scores = some @ weight.T if bias is None else torch.addmm(bias, some, weight.T)
        top = scores.amax(dim=1, keepdim=True)  # n 1
        wanted = scores.gather(1, meant)
        total -= (1 - smoothing) * wanted.sum()
        if smoothing:
            total -= smoothing * scores.mean(dim=1).sum()
        shares = scores.sub_(top).exp_()  # in place: passes over memory count
        whole = shares.sum(dim=1, keepdim=True)
        total += (whole.log() + top).sum()
        if grads is None:
            continue
        by_score = shares.div_(whole)
        if smoothing:
            by_score -= smoothing / symbols
        by_score.scatter_add_(1, meant, by_score.new_full(meant.shape, smoothing - 1))
        torch.mm(by_score, weight, out=grads[0][start : start + rows])
        grads[1].addmm_(by_score.T, some)
        if grads[2] is not None:
            grads[2].add_(by_score.sum(dim=0))
    return total
