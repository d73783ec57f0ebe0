"""What several layers and heads of attention come to: their mean, their maximum, and rollout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def rollout(layers: Sequence[Float[np.ndarray, "_ T T"]]) -> Float[np.ndarray, "T T"]:
    """How much each position at the top draws from each one that was read, through all layers.

    Ã = Aₗ ⋯ A₂ A₁ with A = (mean of the heads + I) / 2, rows divided by their sum, as in Abnar & Zuidema
    2020, section 3: half of what a layer hands on is its attention, half the residual connection.
    """
    reached = np.eye(layers[0].shape[-1])
    for layer in layers:
        mixed = (layer.astype(np.float64).mean(axis=0) + np.eye(len(reached))) / 2
        reached = mixed / mixed.sum(axis=-1, keepdims=True) @ reached
    return reached


def mean_of_layers(layers: Sequence[Float[np.ndarray, "_ Q K"]]) -> Float[np.ndarray, "Q K"]:
    """The mean over all heads of a layer, and of that over all layers."""
    mean: np.ndarray = np.mean([layer.mean(axis=0) for layer in layers], axis=0)
    return mean


def maximum_of_layers(layers: Sequence[Float[np.ndarray, "_ Q K"]]) -> Float[np.ndarray, "Q K"]:
    """The largest weight that any head of any layer gives. Its rows add up to 1 or more."""
    most: np.ndarray = np.max([layer.max(axis=0) for layer in layers], axis=0)
    return most


def overlap_of_hops(hops: Float[np.ndarray, "R T"]) -> float:
    """The mean cosine of two hops: 1 where all look at the same, 0 where no two look at the same piece."""
    inner = hops @ hops.T
    lengths = np.sqrt(np.diag(inner))
    cosines = inner / np.maximum(np.outer(lengths, lengths), 1e-12)
    return float(cosines[~np.eye(len(hops), dtype=bool)].mean())
