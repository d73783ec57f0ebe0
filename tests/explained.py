"""Explanations of every kind, with weights drawn at random, as a trained model would give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqlab.report.deletion import deletion
from seqlab.report.explanation import RECEIVED, Attributions, Explanation, Map, MapKind
from seqlab.report.faded import LabelFollowed

WORDS = ("this", "movie", "is", "so", "</script><i>warm", "&", "that", "I", "saw", "it", "twice")
WRITTEN = ("▁ce", "▁film", "▁est", "▁si", "▁cha", "leureux", "[EOS]")
SENTENCES = (("a", "bad", "start"), ("then",), ("it", "gets", "so", "much", "better", "!"))
CAPTION = ("a", "red", "square", "above", "a", "blue", "one", "[EOS]")
GRID = (5, 6)
SLOTS = tuple(f"{x + 1},{y + 1}" for y in range(GRID[0]) for x in range(GRID[1]))
TIMES = tuple(f"{0.02 * step:.2f} {0.02 * step + 0.01:.2f}" for step in range(30))


def shares(draw: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights that add up to 1 along the last axis."""
    sizes = np.exp(2 * draw.normal(size=shape))
    return sizes / sizes.sum(axis=-1, keepdims=True)


def a_map(kind: MapKind, weights: np.ndarray, pieces: tuple[str, ...], name: str = "", **more: Any) -> Map:
    grid = GRID if pieces == SLOTS else None
    return Map(name=name or kind, kind=kind, weights=weights, pieces=pieces, grid=grid, **more)


def layers(draw: np.random.Generator, pieces: tuple[str, ...], count: int) -> list[Map]:
    """Self-attention of four heads, after what each piece receives."""
    size = len(pieces)
    made = [a_map("matrix", shares(draw, 4, size, size), pieces) for _ in range(count)]
    return [a_map("tokens", shares(draw, size), pieces, RECEIVED), *made]


def beside(draw: np.random.Generator, pieces: tuple[str, ...]) -> Attributions:
    """Of a logistic model of the pieces, whose weights the three attributions know more or less well."""
    true = draw.normal(size=len(pieces))
    weights = {
        name: true + 0.3 * draw.normal(size=len(pieces))
        for name in ("gradient × input", "integrated gradients", "occlusion")
    }
    maps = tuple(a_map("tokens", some, pieces, name, signed=True) for name, some in weights.items())
    orders = {"attention": shares(draw, len(pieces))} | weights
    followed = LabelFollowed(0, "“good”")
    curves = deletion(lambda kept: 1 / (1 + np.exp(-(kept.double().numpy() @ true))), followed.name, orders)
    return Attributions(maps=maps, deletion=curves, note="What a piece adds to the score of “good”.")


def found(*maps: Map, **others: Any) -> Explanation:
    told = {"text": " ".join(WORDS), "label": "good", "scores": {"good": 0.9, "<b>": 0.1}}
    return Explanation(**{**told, "method": "attention", "maps": maps, **others})


def every_kind() -> dict[str, Explanation]:
    draw = np.random.default_rng(0)
    size = len(WORDS)
    aligned = [
        a_map("alignment", shares(draw, 4, len(WRITTEN), size), WORDS, written=WRITTEN) for _ in range(2)
    ]
    mean = np.mean([one.weights.mean(axis=0) for one in aligned], axis=0, keepdims=True)
    picture = np.full((40, 48, 3), 40, np.uint8)
    picture[8:20, 8:20], picture[24:36, 28:44] = (220, 40, 40), (60, 90, 230)
    sound = np.linspace(250, 60, 40 * 60).reshape(40, 60, 1).repeat(3, axis=2).astype(np.uint8)
    words = tuple(shares(draw, len(sentence)) for sentence in SENTENCES)
    said = a_map("alignment", shares(draw, 1, len(CAPTION), len(SLOTS)), SLOTS, written=CAPTION)
    heard = a_map("alignment", shares(draw, 2, 5, len(TIMES)), TIMES, written=tuple("seven"))
    grams = a_map("grams", draw.normal(size=3), ("so", "<b>", "it"), signed=True)
    added = {pieces: beside(draw, pieces) for pieces in (WORDS, SLOTS, TIMES)}
    return {
        "tokens": found(a_map("tokens", shares(draw, size), WORDS), beside=added[WORDS]),
        "hops": found(a_map("hops", shares(draw, 3, size), WORDS), beside=added[WORDS]),
        "self-attention": found(*layers(draw, WORDS, 3), beside=added[WORDS]),
        "alignment": found(
            a_map("alignment", mean, WORDS, written=WRITTEN), *aligned, scores={}, beside=added[WORDS]
        ),
        "document": found(a_map("document", shares(draw, 3), (), sentences=SENTENCES, words=words)),
        "n-grams": found(grams, method="weight × n-gram"),
        "caption": found(said, picture=picture, scores={}, beside=added[SLOTS]),
        "picture": found(*layers(draw, SLOTS, 2), picture=picture, beside=added[SLOTS]),
        "sound": found(a_map("tokens", shares(draw, 30), TIMES), picture=sound, beside=added[TIMES]),
        "speech": found(heard, picture=sound, scores={}),
    }


def long_text(size: int = 512) -> Explanation:
    """Four layers of four heads, each looking near by or far, over so many pieces."""
    draw, away = np.random.default_rng(0), np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    reach = np.array([2.0, 10.0, 50.0, 200.0])[:, None, None]
    pieces = tuple(f"w{place}" for place in range(size))
    maps = []
    for _ in range(4):
        sizes = np.exp(-away / reach) + 0.001 * draw.random((4, size, size))
        maps.append(a_map("matrix", sizes / sizes.sum(axis=-1, keepdims=True), pieces))
    return found(*maps)
