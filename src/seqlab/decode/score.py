"""How likely a given text is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from seqlab.parts import Decoder
from seqlab.seq import Seq

CHUNK = 1024
"""Positions whose scores over the vocabulary are there at once."""


@torch.no_grad()
def score(decoder: Decoder, memory: Seq | None, written: Seq, given: int = 1) -> Float[Tensor, " B"]:
    """log p of each row of `written` (B U+1 ids, from the start to the end), after its first `given` ids, which do not count."""
    states, _ = decoder.advance(written.values[:, :-1], decoder.start(memory, written.rows))
    rows, places = written.mask[:, given:].nonzero(as_tuple=True)
    places = places + given
    total = torch.zeros(written.rows, dtype=states.dtype, device=states.device)
    for chunk in torch.arange(len(rows), device=rows.device).split(CHUNK):
        row, place = rows[chunk], places[chunk]
        scores = decoder.answer(states[row, place - 1]).scores                     # at most CHUNK V
        total.index_add_(0, row, -functional.cross_entropy(scores, written.values[row, place], reduction="none"))
    return total
