"""What flows through every model: padded sequences and the mask that says which of their positions are
real."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Seq:
    """A padded batch of sequences.

    Rows are always axis 0, padding is always on the right, no row is empty. What stands at a padded position
    means nothing: whoever mixes positions masks first.
    """

    values: Tensor
    """B T ...: ids (B T) or vectors (B T D)."""
    mask: Bool[Tensor, "B T"]
    """True where a position is real."""
    summary: Tensor | None = None
    """B D: the last state of a recurrent encoder (both directions side by side)."""
    grid: tuple[int, int] | None = None
    """Height and width, where the positions are those of an image."""
    segments: Int[Tensor, "B T"] | None = None
    """Of pairs of texts: 0 where the first one stands, 1 where the second one does."""

    @property
    def rows(self) -> int:
        return self.mask.shape[0]

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self.mask.sum(dim=1)

    @property
    def zeroed(self) -> Tensor:
        """The values with zeros at the padding."""
        return self.values * self.mask.unsqueeze(-1) if self.values.dim() > 2 else self.values * self.mask

    def with_values(self, values: Tensor, summary: Tensor | None = None) -> Seq:
        """Other values at the same positions."""
        return replace(self, values=values, summary=summary)

    def to(self, device: torch.device) -> Seq:
        return replace(self, values=self.values.to(device), mask=self.mask.to(device))


@dataclass(frozen=True)
class Nested:
    """Sequences whose positions are sequences: documents of sentences, words of characters.

    Only real inner rows are kept, one after the other in reading order: row n of `inner` stands where `mask`
    has its n-th True. So nothing empty is ever computed.
    """

    inner: Seq
    """N W: the real inner sequences of the whole batch."""
    mask: Bool[Tensor, "B S"]
    """True where an outer position is real; its sum is N."""

    @property
    def rows(self) -> int:
        return self.mask.shape[0]

    def to(self, device: torch.device) -> Nested:
        return Nested(self.inner.to(device), self.mask.to(device))


def mask_of(lengths: Int[Tensor, " B"]) -> Bool[Tensor, "B T"]:
    """The mask of right-padded rows of these lengths."""
    return torch.arange(int(lengths.max()), device=lengths.device) < lengths.unsqueeze(1)


def imagined_ids(rows: int, length: int, symbols: int) -> Seq:
    """Made-up ids (B T), every position real: for measuring, where the words do not matter."""
    count = torch.arange(rows * length).view(rows, length)
    return Seq(count * 7919 % symbols, torch.ones(rows, length, dtype=torch.bool))


def pad(rows: list[Tensor]) -> Seq:
    """Rows of different lengths (each T ...) as one padded batch."""
    lengths = torch.tensor([len(row) for row in rows])
    assert int(lengths.min()) > 0, "no row is empty"
    return Seq(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), mask_of(lengths))


def reverse(x: Seq) -> Seq:
    """Each row read backwards at its true length; padding stays on the right."""
    places = torch.arange(x.mask.shape[1], device=x.mask.device)
    turned = x.lengths.unsqueeze(1) - 1 - places  # B T, negative at the padding
    index = torch.where(turned >= 0, turned, places)
    index = index.view(*index.shape, *[1] * (x.values.dim() - 2)).expand_as(x.values)
    return x.with_values(x.values.gather(1, index))
