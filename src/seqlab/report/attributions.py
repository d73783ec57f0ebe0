"""What each piece adds to the score of an answer: gradient × input, integrated gradients and occlusion, of
any function of how much of each piece is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Score = Callable[[Float[Tensor, "K P"]], Float[Tensor, " K"]]
"""From how much of each of P pieces is kept, in K copies of an example, to the score of each copy."""
FEWEST, MOST = 16, 256
"""Points on the way of integrated gradients."""
CLOSE = 0.01
"""How far the sum of integrated gradients may be from the difference of the scores, as a share of it."""
HIDDEN = 128
"""Groups of neighbours that are hidden one by one, at the most."""


@dataclass(frozen=True)
class Integrated:
    """Integrated gradients, and what they should add up to."""

    weights: Float[np.ndarray, " P"]
    whole: float
    """The score of the example."""
    nothing: float
    """The score of the baseline: the example with all its pieces faded."""
    points: int
    """Where on the way between both the gradient was taken."""

    @property
    def rest(self) -> float:
        """What the weights lack of the difference of both scores."""
        return self.whole - self.nothing - float(self.weights.sum())


def gradient_times_input(score: Score, places: int) -> Float[np.ndarray, " P"]:
    """∂ score / ∂ kept at 1, which is Σ gradient · vector: what each piece adds, to first order."""
    return _gradients(score, torch.ones(1, places))[0].double().numpy()


def integrated_gradients(score: Score, places: int) -> Integrated:
    """∫ ∂ score / ∂ kept along the straight way from nothing (0) to the example (1).

    Sundararajan et al. 2017, section 3. By Gauss–Legendre quadrature, with twice as many points until the sum
    is within 1 % of the difference of the scores at both ends (completeness). The paper takes equal steps,
    which need more points.
    """
    with torch.no_grad():
        nothing, whole = score(torch.tensor([[0.0], [1.0]]).expand(2, places)).double().tolist()
    points, enough = FEWEST, CLOSE * abs(whole - nothing) + 1e-4
    while True:
        nodes, shares = np.polynomial.legendre.leggauss(points)
        along = torch.tensor((nodes + 1) / 2, dtype=torch.float32)
        gradients = _gradients(score, along.unsqueeze(1).expand(points, places)).double().numpy()
        found = Integrated(shares / 2 @ gradients, whole, nothing, points)
        if points >= MOST or abs(found.rest) <= enough:
            return found
        points *= 2


@torch.no_grad()
def occlusion(score: Score, places: int) -> Float[np.ndarray, " P"]:
    """How far the score falls when a piece is hidden, all others staying.

    Of more than HIDDEN pieces so many neighbours are hidden together that there are no more groups than that;
    they share what their group adds.
    """
    size = -(-places // HIDDEN)
    groups = torch.arange(places) // size
    kept = 1.0 - (torch.arange(int(groups.max()) + 1).unsqueeze(1) == groups).float()  # G P
    scores = score(torch.cat([torch.ones(1, places), kept])).double()
    falls = (scores[0] - scores[1:])[groups]
    shared: np.ndarray = (falls.cpu() / torch.bincount(groups)[groups]).numpy()
    return shared


def _gradients(score: Score, kept: Float[Tensor, "K P"]) -> Float[Tensor, "K P"]:
    with torch.enable_grad():
        leaf = kept.clone().requires_grad_()
        [gradient] = torch.autograd.grad(score(leaf).sum(), [leaf])
    return gradient.detach().cpu()
