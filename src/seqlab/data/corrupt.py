"""What is hidden from a model so that it learns to find it again: masked pieces, spans, deletions, shuffled
sentences.

All functions take ids and a random generator, and change nothing in place. Ids below `FIRST` are special
tokens, which stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.data.store import offsets_of
from seqlab.data.tokenizers import MASK, SPECIAL

Ids = NDArray[np.int64]
FIRST = len(SPECIAL)
SHOWN, CHANGED = 0.8, 0.9
"""Of the chosen pieces, four fifths become [MASK], a tenth another piece, a tenth stay (Devlin et al.
2019)."""
Noise = Literal["mask", "infill", "delete", "permute", "rotate"]


def row_random(seed: int, epoch: int, row: int) -> np.random.Generator:
    """The random state of one row in one epoch, whatever else is in its batch."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, row])))


@dataclass(frozen=True)
class Masked:
    """Ids as a model sees them, and what has to be found at some of their places."""

    shown: Ids
    places: Ids
    answers: Ids


def mask(
    ids: Ids,
    random: np.random.Generator,
    *,
    share: float,
    symbols: int,
    begins: NDArray[np.bool_] | None = None,
) -> Masked:
    """A share of the pieces, chosen anew at each call; at least one, where there is anything but special
    tokens.

    begins: True where a word begins; whole words are then chosen.
    """
    real = ids >= FIRST
    units = np.arange(len(ids)) if begins is None else np.cumsum(begins | ~real)
    drawn = random.random(int(units[-1]) + 1)  # one number a unit
    chosen = (drawn[units] < share) & real
    if not chosen.any() and real.any():
        chosen = (units == units[random.choice(np.flatnonzero(real))]) & real
    places = np.flatnonzero(chosen)
    fate = random.random(len(places))
    others = random.integers(FIRST, max(FIRST + 1, symbols), len(places))
    shown = ids.copy()
    shown[places] = np.where(fate < SHOWN, MASK, np.where(fate < CHANGED, others, ids[places]))
    return Masked(shown, places, ids[places])


def corrupt(
    ids: Ids, starts: Ids, random: np.random.Generator, *, kinds: Sequence[Noise], share: float, span: float
) -> Ids:
    """Noise of these kinds, one after the other (Lewis et al. 2020). `starts` are the places where sentences
    begin."""
    if "permute" in kinds:
        ids = permute(ids, starts, random)
    if "rotate" in kinds:
        ids = np.roll(ids, -int(random.integers(max(1, len(ids)))))  # any token may be the first
    if "infill" in kinds:
        ids = infill(ids, random, share=share, span=span)
    if "mask" in kinds:
        hidden = (random.random(len(ids)) < share) & (ids >= FIRST)
        ids = np.where(hidden, MASK, ids)
    if "delete" in kinds:
        kept = (random.random(len(ids)) >= share) | (ids < FIRST)
        ids = ids[kept] if kept.any() else ids[:1]
    return ids


def permute(ids: Ids, starts: Ids, random: np.random.Generator) -> Ids:
    """The sentences in another order. What stands before the first start is a sentence, too."""
    parts = np.split(ids, starts[(starts > 0) & (starts < len(ids))])
    return np.concatenate([parts[place] for place in random.permutation(len(parts))])


def infill(ids: Ids, random: np.random.Generator, *, share: float, span: float) -> Ids:
    """Spans of Poisson lengths with this mean, about `share` of all pieces, become one [MASK] each.

    A span of length 0 is a [MASK] where nothing is missing. Spans neither overlap nor touch, so that each has
    its own mask. A special token within a span stays after the span's mask.
    """
    budget, taken = round(share * len(ids)), 0
    lengths: list[int] = []
    while taken < budget and taken + len(lengths) < len(ids):
        room = min(budget, len(ids) - len(lengths)) - taken  # so many can go, with one kept between two spans
        lengths.append(min(int(random.poisson(span)), room))
        taken += lengths[-1]
    if not lengths:
        return ids
    # Between the spans lie the kept pieces: at least one between two spans, the rest dealt out at random.
    edges = np.sort(
        random.choice(len(ids) - taken + 1, len(lengths), replace=False)
    )  # kept pieces before each span
    order = random.permutation(np.array(lengths))
    starts = edges + offsets_of(order)[:-1]
    drop = np.zeros(len(ids) + 1, np.int64)
    np.add.at(drop, starts, 1)
    np.add.at(drop, starts + order, -1)
    kept = (np.cumsum(drop)[:-1] == 0) | (ids < FIRST)
    return np.insert(ids[kept], offsets_of(kept.astype(np.int64))[starts], MASK)
