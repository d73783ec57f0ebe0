"""Deletion curves: how an answer's probability falls as the pieces that should matter most go first, beside
random orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

Probabilities = Callable[[Float[Tensor, "K P"]], Float[np.ndarray, " K"]]
"""From how much of each of P pieces is kept, in K copies of an example, to a probability of each copy."""
LONG = 128
"""Of more pieces than that, curves have fewer points and there are fewer random orders."""


@dataclass(frozen=True)
class Deletion:
    """Curves (C), from the whole example to nothing of it."""

    followed: str
    """What falls, in words."""
    gone: Int[np.ndarray, " C"]
    """How many pieces are gone, from 0 to all."""
    curves: Mapping[str, Float[np.ndarray, " C"]]
    """For each way to order the pieces."""
    orders: Float[np.ndarray, "O C"]
    """For each random order."""

    @property
    def mean(self) -> Float[np.ndarray, " C"]:
        """Over the random orders."""
        mean: np.ndarray = self.orders.mean(axis=0)
        return mean

    @property
    def spread(self) -> Float[np.ndarray, " C"]:
        """Standard deviation over the random orders."""
        spread: np.ndarray = self.orders.std(axis=0, ddof=1)
        return spread

    @property
    def band(self) -> Float[np.ndarray, "2 C"]:
        """Mean − and + standard deviation of the random orders, as far as there are such probabilities."""
        edges: np.ndarray = np.clip([self.mean - self.spread, self.mean + self.spread], 0.0, 1.0)
        return edges

    @property
    def areas(self) -> dict[str, float]:
        """The mean height of each curve: the lower, the earlier it falls."""
        return {name: float(self.area(curve)) for name, curve in self.curves.items()}

    @property
    def random_areas(self) -> Float[np.ndarray, " O"]:
        return self.area(self.orders)

    def area(self, curves: Float[np.ndarray, "... C"]) -> Float[np.ndarray, ...]:
        """∫ over the share of the pieces that are gone, by trapezoids."""
        shares = self.gone / self.gone[-1]
        areas: np.ndarray = ((curves[..., 1:] + curves[..., :-1]) / 2 * np.diff(shares)).sum(axis=-1)
        return areas

    def to_json(self) -> dict[str, Any]:
        return {
            "followed": self.followed,
            "gone": self.gone.tolist(),
            "curves": {name: curve.tolist() for name, curve in self.curves.items()},
            "areas": self.areas,
            "random": {
                "mean": self.mean.tolist(),
                "spread": self.spread.tolist(),
                "areas": self.random_areas.tolist(),
            },
        }


def deletion(
    probability: Probabilities, followed: str, weights: Mapping[str, Float[np.ndarray, " P"]], seed: int = 0
) -> Deletion:
    """The curve of each way to weigh the pieces: the largest weight goes first, of equal ones the first."""
    places = len(next(iter(weights.values())))
    points, random = (20, 10) if places <= LONG else (10, 5)
    gone = np.unique(np.rint(np.linspace(0, places, points + 1)).astype(np.int64))
    draw = np.random.default_rng(seed)
    orders = [np.argsort(-weight, kind="stable") for weight in weights.values()]
    orders += [draw.permutation(places) for _ in range(random)]
    kept = torch.cat([kept_after(order, gone) for order in orders])
    curves = probability(kept).reshape(len(orders), len(gone))
    named = dict(zip(weights, curves, strict=False))
    return Deletion(followed, gone, named, curves[len(weights) :])


def kept_after(order: Int[np.ndarray, " P"], gone: Int[np.ndarray, " C"]) -> Float[Tensor, "C P"]:
    """1 for each piece that is left when so many of an order are gone, else 0."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return torch.from_numpy((ranks >= gone[:, None]).astype(np.float32))
