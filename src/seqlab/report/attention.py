"""Why a model answered as it did: its attention over the pieces of one example, or gradient × input where it
has none, and what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqlab.model import Model
from seqlab.parts import Batch, Output, record
from seqlab.report.evidence import gathered
from seqlab.report.explanation import MANY_ANSWERS, RECEIVED, Attributions, ExplainMethod, Explanation, Map
from seqlab.report.faded import LabelFollowed, NumberFollowed
from seqlab.report.gradients import contributions, gram_contributions, is_linear, place_contributions

Pieces = Sequence[str] | Sequence[Sequence[str]]

NONE = "This model has no attention: shown is gradient × input, "
INSIDE = "This model has no attention over what is shown here: shown is gradient × input, "
BAG = "This model adds up its n-grams: shown is "
EXACT = "what each adds to the score of the answer, which is exact, because the model is linear."
FIRST_ORDER = "to first order what each piece adds to the score of the answer."


def explain(
    model: Model,
    batch: Batch,
    *,
    text: str,
    pieces: Pieces,
    said: Mapping[str, Any],
    picture: np.ndarray | None = None,
) -> Explanation:
    """Explain the answer to the one example in `batch`.

    `pieces` are the words of the model's positions; for documents, the words of each sentence; for a bag, its
    n-grams; of a picture they are its slots. `said` is the answer as predicted: {"label", "scores"} or
    {"value"}. Shown is the pool's attention where there is some (with the encoder's beside it), else the
    encoder's, else gradient × input.
    """
    assert batch.size == 1, "one example at a time"
    model.eval()
    with record(model) as tapes, torch.no_grad():
        output = model(batch)
    grid = output.read.grid if output.read is not None else None
    pieces = slot_names(grid) if grid else pieces
    tapes = {name: tape for name, tape in tapes.items() if tape}
    method: ExplainMethod = "attention"
    note = ""
    if "grams" in batch.inputs:
        method, maps = "weight × n-gram", [_gram_map(model, batch, flat(pieces))]
        note = BAG + (EXACT if is_linear(model) else FIRST_ORDER)
    else:
        maps = attention_maps(tapes, pieces)
    if not maps:
        method, maps = "gradient × input", [_gradient_map(model, batch, pieces)]
        note = (INSIDE if tapes else NONE) + FIRST_ORDER
    maps = [on_grid(one, grid) for one in maps]
    label = str(said["label"]) if "label" in said else f"{said['value']:.4g}"
    best = int(output.answers["row"].scores[0].argmax())
    followed = LabelFollowed(best, f"“{label}”") if "label" in said else NumberFollowed()
    looked = {"attention": maps[0]} if method == "attention" else {}
    like = on_grid(_laid_out(batch, pieces, output), grid)
    return Explanation(
        text=text,
        label=label,
        scores=dict(said.get("scores") or {}),
        maps=tuple(maps),
        method=method,
        note=note,
        picture=picture,
        beside=gathered(model, batch, followed, like, looked, words=_nested(pieces)),
    )


def _laid_out(batch: Batch, pieces: Pieces, output: Output) -> Map:
    """The pieces that the input has vectors for, as a map without weights."""
    if _nested(pieces):
        sentences = tuple(tuple(sentence) for sentence in pieces)
        return Map(
            name="", kind="document", signed=True, weights=np.zeros(len(sentences)), sentences=sentences
        )
    if "grams" in batch.inputs:
        return Map(name="", kind="grams", signed=True, weights=np.zeros(len(pieces)), pieces=flat(pieces))
    assert output.read is not None
    shown = grouped(flat(pieces), output.read.mask.shape[1])
    return Map(name="", kind="tokens", signed=True, weights=np.zeros(len(shown)), pieces=shown)


def slot_names(grid: tuple[int, int]) -> tuple[str, ...]:
    """The slots of a picture as x,y, both counted from 1, line after line."""
    return tuple(f"{x + 1},{y + 1}" for y in range(grid[0]) for x in range(grid[1]))


def on_grid(one: Map, grid: tuple[int, int] | None) -> Map:
    """A map that knows where in the picture its pieces are, as far as they are its slots."""
    return replace(one, grid=grid) if grid and len(one.pieces) == grid[0] * grid[1] else one


def explain_places(
    model: Model,
    batch: Batch,
    *,
    text: str,
    pieces: Sequence[str],
    words: Sequence[str],
    said: Sequence[str],
    score: Callable[[Output], Tensor],
) -> Explanation:
    """Explain what is `said` of each of the `words` of the one row in `batch`: its attention, or gradient ×
    input.

    `pieces` stand at the positions that are read; `score` gives a number for each answer that gradients
    explain.
    """
    assert batch.size == 1, "one example at a time"
    model.eval()
    with record(model) as tapes, torch.no_grad():
        model(batch)
    told = tuple(f"{word} → {one}" for word, one in zip(words, said, strict=True))
    rows = batch.places.positions.cpu().numpy()
    layers = [
        tape[-1][0].float().cpu().numpy()[:, rows]  # H N T
        for name, tape in tapes.items()
        if tape and name.split(".")[0] == "encoder"
    ]
    looked = tuple(place_maps(layers, pieces, told))
    weights = place_contributions(model, batch, score)
    name = "what each word adds to the score of each answer"
    added = Map(name=name, kind="hops", weights=weights, pieces=tuple(pieces), written=told, signed=True)
    return Explanation(
        text=text,
        label=" ".join(said),
        scores={},
        maps=looked or (added,),
        method="attention" if looked else "gradient × input",
        note="" if looked else NONE + FIRST_ORDER,
        beside=Attributions(maps=(added,) if looked else (), note=MANY_ANSWERS),
    )


def place_maps(layers: Sequence[np.ndarray], pieces: Sequence[str], told: tuple[str, ...]) -> list[Map]:
    """Where each answer looked (H N T a layer): the mean of all layers and heads, then, of several, each
    layer."""
    if not layers:
        return []
    mean = np.mean([layer.mean(axis=0) for layer in layers], axis=0, keepdims=True)
    named = {"where each answer looked": layers[0]}
    if len(layers) > 1:
        each = {f"layer {number}": layer for number, layer in enumerate(layers, 1)}
        named = {"where each answer looked, mean of all layers and heads": mean, **each}
    unit = "A row for each answer, a column for each piece: the darker, the more it was looked at."
    return [
        Map(name=name, kind="alignment", weights=some, pieces=tuple(pieces), written=told, unit=unit)
        for name, some in named.items()
    ]


# From tapes to maps -----------------------------------------------------------------------------------------


def attention_maps(tapes: Mapping[str, list[Tensor]], pieces: Pieces) -> list[Map]:
    """The maps worth showing, best first: pool, then encoder. `tapes` are those of one example, by module
    name."""
    outer = _pool_weights(tapes, "pool")  # 1 R 1 T
    inner = _pool_weights(tapes, "input")  # S R 1 W
    maps: list[Map] = []
    if _nested(pieces) and inner is not None:
        maps.append(_document(outer, inner, [tuple(sentence) for sentence in pieces]))
    elif outer is not None:
        weights = outer[0, :, 0].numpy()  # R T
        shown = grouped(flat(pieces), weights.shape[1])
        if len(weights) == 1:
            maps.append(Map(name="attention of the pool", kind="tokens", weights=weights[0], pieces=shown))
        else:
            maps.append(
                Map(name=f"the pool's {len(weights)} hops", kind="hops", weights=weights, pieces=shown)
            )
    return [*maps, *_self_attention(tapes, pieces, alone=not maps)]


def _self_attention(tapes: Mapping[str, list[Tensor]], pieces: Pieces, alone: bool) -> list[Map]:
    """A matrix a layer of the encoder; when there is nothing else to show, first what each piece receives on
    average."""
    layers = [
        tape[-1][0].float().cpu().numpy() for name, tape in tapes.items() if name.split(".")[0] == "encoder"
    ]  # H Q K
    if not layers:
        return []
    size = layers[-1].shape[-1]
    layers = [
        layer for layer in layers if layer.shape[-1] == size
    ]  # a stride in between: only those after it
    received, *matrices = layer_maps(layers, grouped(flat(pieces), size))
    return [received, *matrices] if alone else matrices


def layer_maps(layers: Sequence[np.ndarray], pieces: Sequence[str]) -> list[Map]:
    """What each piece receives on average, then a matrix (H Q K) a layer; nothing of no layers."""
    if not layers:
        return []
    received = np.mean(
        [layer.mean(axis=(0, 1)) for layer in layers], axis=0
    )  # K: every query gives out 1 in all
    shown = tuple(pieces)
    maps = [Map(name=RECEIVED, kind="tokens", weights=received, pieces=shown)]
    for place, layer in enumerate(layers, 1):
        maps.append(Map(name=f"self-attention, layer {place}", kind="matrix", weights=layer, pieces=shown))
    return maps


def _pool_weights(tapes: Mapping[str, list[Tensor]], part: str) -> Tensor | None:
    """What the pools of a part of the model recorded; where there are two (one a direction), their mean."""
    names = [name for name in tapes if name.split(".")[0] == part and "pool" in name.split(".")]
    return (
        torch.stack([torch.cat(tapes[name]).float().cpu() for name in names]).mean(dim=0) if names else None
    )


def _document(outer: Tensor | None, inner: Tensor, sentences: list[tuple[str, ...]]) -> Map:
    """Word weights in every sentence, and sentence weights (all alike, when the sentences are not pooled by
    attention)."""
    assert len(inner) == len(sentences), "one row of word weights a sentence"
    words = inner[:, :, 0].mean(dim=1).numpy()  # S W, hops averaged
    weights = (
        np.full(len(sentences), 1 / len(sentences)) if outer is None else outer[0, :, 0].mean(dim=0).numpy()
    )
    sentences = [grouped(sentence, words.shape[1], max(map(len, sentences))) for sentence in sentences]
    return Map(
        name="attention over words and sentences" + (" (sentences count alike)" if outer is None else ""),
        kind="document",
        weights=weights,
        sentences=tuple(sentences),
        words=tuple(row[: len(sentence)] for row, sentence in zip(words, sentences, strict=True)),
    )


def _gradient_map(model: Model, batch: Batch, pieces: Pieces) -> Map:
    found = contributions(model, batch, inner=_nested(pieces))
    name = "what each piece adds to the score"
    if not _nested(pieces):
        shown = grouped(flat(pieces), found.shape[1])
        return Map(name=name, kind="tokens", weights=found[0], pieces=shown, signed=True)
    sentences = tuple(tuple(sentence) for sentence in pieces)
    words = tuple(row[: len(sentence)] for row, sentence in zip(found, sentences, strict=True))
    totals = np.array([float(row.sum()) for row in words])
    return Map(name=name, kind="document", weights=totals, sentences=sentences, words=words, signed=True)


def _gram_map(model: Model, batch: Batch, pieces: tuple[str, ...]) -> Map:
    weights = gram_contributions(model, batch)
    assert len(weights) == len(pieces), "one name for each n-gram"
    return Map(
        name="what each n-gram adds to the score", kind="grams", weights=weights, pieces=pieces, signed=True
    )


def _nested(pieces: Pieces) -> bool:
    return len(pieces) > 0 and not isinstance(pieces[0], str)


def flat(pieces: Pieces) -> tuple[str, ...]:
    """One text for each outer position: a piece, or a whole sentence."""
    return tuple(piece if isinstance(piece, str) else " ".join(piece) for piece in pieces)


def grouped(pieces: Sequence[str], states: int, longest: int = 0) -> tuple[str, ...]:
    """The pieces behind each state. An encoder with stride 2 leaves one state for two pieces, twice stride 2
    one for four.

    `states` are those of the longest row, of `longest` pieces; these pieces are the longest unless told.
    """
    stride, longest = 1, longest or len(pieces)
    while math.ceil(longest / stride) > states:
        stride *= 2
    assert math.ceil(longest / stride) == states, f"{longest} pieces for {states} states"
    return tuple(" ".join(pieces[start : start + stride]) for start in range(0, len(pieces), stride))
