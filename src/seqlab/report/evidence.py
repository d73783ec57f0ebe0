"""What stands beside the attention of one example: three attributions, and how the answer falls when the
pieces go in the order of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from seqlab.model import Model
from seqlab.parts import Batch
from seqlab.report.attributions import (
    HIDDEN,
    Integrated,
    gradient_times_input,
    integrated_gradients,
    occlusion,
)
from seqlab.report.deletion import deletion
from seqlab.report.evaluate import number
from seqlab.report.explanation import NO_PROBABILITY, Attributions, Map
from seqlab.report.faded import Faded, Followed

STAYS = " With every piece hidden the model gives this answer, too: the curves end where they began."


def gathered(
    model: Model, batch: Batch, followed: Followed, like: Map, looked: Mapping[str, Map], words: bool = False
) -> Attributions:
    """Attributions to the pieces of the one example in `batch`, drawn `like` a map of them.

    `looked` are maps of attention by their names, whose orders are tried, too, as far as each weighs the same
    pieces. `words`: the pieces are the words of a document's sentences.
    """
    faded = Faded(model, batch, followed, words)
    integrated = integrated_gradients(faded.scores, faded.places)
    found = {
        "gradient × input": gradient_times_input(faded.scores, faded.places),
        "integrated gradients": integrated.weights,
        "occlusion": occlusion(faded.scores, faded.places),
    }
    maps = tuple(laid_out(name, weights, faded, like) for name, weights in found.items())
    if not faded.has_probability:
        return Attributions(maps=maps, note=" ".join([_adds_up(integrated, faded), NO_PROBABILITY]))
    weighed = {name: weights_of(one) for name, one in looked.items()}
    orders = {name: some for name, some in weighed.items() if some is not None and len(some) == faded.places}
    curves = deletion(faded.probabilities, f"the probability of {followed.name}", orders | found)
    note = _adds_up(integrated, faded) + (STAYS if curves.mean[-1] > 0.9 * curves.mean[0] else "")
    return Attributions(maps=maps, deletion=curves, note=note)


def laid_out(name: str, weights: Float[np.ndarray, " P"], faded: Faded, like: Map) -> Map:
    """A map of these weights, with the same pieces as another one."""
    if like.kind != "document":
        return Map(
            name=name, kind=like.kind, weights=weights, pieces=like.pieces, signed=True, grid=like.grid
        )
    rows = zip(faded.in_rows(weights), like.sentences, strict=True)
    words = tuple(row[: len(sentence)] for row, sentence in rows)
    totals = np.array([float(row.sum()) for row in words])
    return Map(name=name, kind="document", weights=totals, sentences=like.sentences, words=words, signed=True)


def weights_of(one: Map) -> Float[np.ndarray, " P"] | None:
    """One weight for each piece: of hops their mean, of a document each word's share of its sentence's; None
    of maps of pairs of pieces."""
    if one.kind == "hops":
        mean: np.ndarray = np.mean(one.weights, axis=0)
        return mean
    if one.kind == "document":
        pairs = zip(one.weights.tolist(), one.words, strict=True)
        return np.concatenate([weight * row for weight, row in pairs])
    return one.weights if one.kind in ("tokens", "grams") else None


def _adds_up(integrated: Integrated, faded: Faded) -> str:
    """How the weights are measured, and the sum of the integrated ones beside what it should be."""
    total = float(integrated.weights.sum())
    told = (
        f"All three say what a piece adds to the score of {faded.followed.name}. Integrated gradients add up"
        f" to {total:+.3g}: the score is {number(integrated.whole)}, and {number(integrated.nothing)} when"
        " every piece is hidden (its vector is zero)."
    )
    groups = -(-faded.places // HIDDEN)
    return told + (f" Occlusion hides {groups} neighbours at a time." if groups > 1 else "")
