"""What would come after the end: what a model still knew when it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from seqlab.decode.limits import next_scores
from seqlab.decode.settings import DecodeConfig, Hypothesis, SpecialIds
from seqlab.parts import Decoder
from seqlab.seq import Seq


@torch.no_grad()
def go_on_after_end(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "B P"],
    found: Sequence[Sequence[Hypothesis]],
    *,
    count: int,
    special: SpecialIds,
) -> list[list[Hypothesis]]:
    """The same hypotheses; those that are finished have `after`: `count` ids that follow their end, the
    likeliest one by one.

    The end is not among them: a model that has written it would often write nothing else, and what it knew
    would not be seen. Nothing of this is in a score. Hypotheses of one length go together.
    """
    others = replace(special, banned=(*special.banned, special.end))
    start = decoder.start(memory, len(opening))
    by_length: dict[int, list[tuple[int, int]]] = {}
    for row, best in enumerate(found):
        for rank, one in enumerate(best):
            if one.finished:
                by_length.setdefault(len(one.ids), []).append((row, rank))
    after: dict[tuple[int, int], tuple[int, ...]] = {}
    for places in by_length.values():
        rows = torch.tensor([row for row, _ in places], device=opening.device)
        written = [[*found[row][rank].ids, special.end] for row, rank in places]
        history = torch.cat([opening[rows], torch.tensor(written, device=opening.device)], dim=1)
        states, state = decoder.advance(history, start.pick(rows))
        begun = history.shape[1]
        for step in range(count):
            scores = next_scores(decoder.answer, states[:, -1], history, DecodeConfig(), others)
            history = torch.cat([history, scores.argmax(dim=-1, keepdim=True)], dim=1)
            if step < count - 1:
                states, state = decoder.advance(history[:, -1:], state)
        after.update(zip(places, map(tuple, history[:, begun:].tolist()), strict=True))
    return [
        [replace(one, after=after.get((row, rank), ())) for rank, one in enumerate(best)]
        for row, best in enumerate(found)
    ]
