"""Which hypotheses to go on with: the likeliest. (Or one drawn at random: sample.py.)

Axis letters beside the usual ones: a source has W hypotheses, 1 at the start and K afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 64
"""Ids that are looked at together when the best of a vocabulary are picked."""


class Chosen(NamedTuple):
    """The hypotheses of each source after one more id, best first."""

    totals: Float[Tensor, "B K"]
    """log p so far; -inf where there is no such hypothesis."""
    parents: Int[Tensor, "B K"]
    """Which of the source's hypotheses it goes on from."""
    ids: Int[Tensor, "B K"]
    """What it writes."""


class Choose(ABC):
    """A way to choose."""

    @abstractmethod
    def __call__(
        self, scores: Float[Tensor, "B W V"], totals: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int
    ) -> Chosen:
        """From the log-probability of each next id and what each hypothesis has so far. `rows` says which
        sources of the first batch these are, `step` how many ids they have written."""


class Best(Choose):
    """Choose the likeliest continuations."""

    def __init__(self, beam: int) -> None:
        self.beam = beam

    def __call__(
        self, scores: Float[Tensor, "B W V"], totals: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int
    ) -> Chosen:
        """The best of all W·V continuations of each source.

        Picking from a whole vocabulary is slow. So: the greatest of each block of ids first, which is fast;
        then the K best blocks, where the K best ids must be; then those. Of equals, the first is taken when K
        is 1.
        """
        width, symbols = scores.shape[1:]
        size = min(BLOCK, symbols)
        blocks = -(-symbols // size)
        whole = symbols // size * size
        tops = scores[..., :whole].unflatten(-1, (-1, size)).amax(dim=-1)
        if whole < symbols:
            tops = torch.cat([tops, scores[..., whole:].amax(dim=-1, keepdim=True)], dim=-1)
        block = _largest((tops + totals.unsqueeze(-1)).flatten(1), min(self.beam, width * blocks))  # B M
        parents, block = block // blocks, block % blocks
        ids = block.unsqueeze(-1) * size + torch.arange(size, device=scores.device)  # B M size
        inside = ids < symbols
        place = parents.unsqueeze(-1) * symbols + ids.clamp(max=symbols - 1)
        values = scores.flatten(1).gather(1, place.flatten(1)) + totals.gather(1, parents).repeat_interleave(
            size, dim=1
        )
        values = values.masked_fill(~inside.flatten(1), -torch.inf)
        best = _largest(values, min(self.beam, values.shape[1]))
        # Of a source that is done every value is -inf: then a place beyond the vocabulary may be picked.
        chosen = ids.flatten(1).gather(1, best).clamp(max=symbols - 1)
        found = Chosen(values.gather(1, best), parents.gather(1, best // size), chosen)
        return _filled(found, self.beam)


def _largest(values: Float[Tensor, "B M"], count: int) -> Int[Tensor, "B C"]:
    """Where the greatest values of each row are, in order; of equals the first when only one is asked for."""
    return values.argmax(dim=1, keepdim=True) if count == 1 else values.topk(count, dim=1).indices


def _filled(found: Chosen, beam: int) -> Chosen:
    """A full beam: places for which there are too few ids get hypotheses that do not exist."""
    missing = beam - found.ids.shape[1]
    if not missing:
        return found
    room = (0, missing)
    return Chosen(pad(found.totals, room, value=-torch.inf), pad(found.parents, room), pad(found.ids, room))
