"""The presets of `pretrain`: the published families in sizes for a CPU and, by name, in their published
sizes."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.task import Size

PUBLISHED_BODIES = (
    "bert-base",
    "bert-large",
    "roberta-base",
    "roberta-large",
    "camembert-base",
    "gpt-1",
    "gpt-2-small",
    "bart-base",
    "bart-large",
)
"""Presets that are as published."""


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data and the budget."""
    minutes = size.planned
    width, drop = rules.body_width(minutes), rules.body_dropout(minutes)
    layer = {
        "kind": "transformer",
        "layers": 4,
        "heads": 4,
        "feed_forward": 4 * width,
        "activation": "gelu",
        "positions": {"kind": "rotary"},
        "dropout": drop,
    }
    tokens = {"kind": "tokens", "width": width, "scale": width**-0.5}
    dropped = tokens | {"dropout": rules.dropout(size.passes, rules.EARLY)}
    nothing: Tree = {"input": None, "encoder": None, "pool": None, "head": None}
    words = {"kind": "vocabulary"}
    linear = {"kind": "vocabulary", "transform": "linear", "bias": True}
    # As published: the state of [CLS] judges pairs. With rotary positions it is late to learn that
    # (benchmarks/recipes.md).
    placed = layer | {"positions": {"kind": "learned", "length": 512}}
    first, judged = {"kind": "first"}, {"kind": "linear", "hidden": [width], "activation": "tanh"}

    def task(objective: str, context: int, **more: object) -> Tree:
        return {"objective": objective, "context": context, **more}

    def everywhere(objective: str, context: int, **more: object) -> Tree:
        return task(objective, context, sampled=rules.SAMPLED, **more)

    def filling(reads: Tree, encoder: Tree, places: Tree) -> Tree:
        return nothing | {"input": reads, "encoder": encoder, "places": places, "decoder": None}

    def writing(layers: int) -> Tree:
        return {"kind": "causal", "width": width, "body": layer | {"layers": layers}}

    def two_ways(layers: int) -> Tree:
        body = {"kind": "lstm", "width": rules.state_width(minutes), "layers": layers, "dropout": drop}
        return {"kind": "both-ways", "body": body, "hides": True}

    rate, batch = rules.pretraining_rate(minutes), rules.pretraining_batch(minutes)
    smaller = rules.pretraining_batch(minutes, short=1024)
    blocks = {"rate": rate, "batch_tokens": batch}
    blank = {
        "task": everywhere("blank", 128),
        "model": filling(dropped, two_ways(1), linear),
        "training": {"rate": 6e-3, "batch_tokens": batch},
    }
    table: dict[str, Tree] = {
        "bert": {
            "task": task("masked+next", 128),
            "model": filling(tokens, placed, words) | {"pool": first, "head": judged},
            "training": blocks,
        },
        "roberta": {"task": task("masked", 256), "model": filling(tokens, layer, words), "training": blocks},
        "gpt": {
            "task": everywhere("causal", rules.context(minutes, 128, 256)),
            "model": nothing | {"decoder": writing(4)},
            "training": {"rate": rate, "batch_tokens": smaller},
            "decode": rules.drawing(),
        },
        "elmo": {
            "task": everywhere("both-ways", rules.context(minutes, 64, 128)),
            "model": filling(tokens, two_ways(2), linear | {"halves": True}),
            "training": {"rate": 6e-3, "batch_tokens": smaller},
        },
        "blank-bilstm": blank,
        "blank-bilstm-halves": blank | {"task": everywhere("blank", 128, halves_weight=rules.HALVES)},
        "bart": {
            "task": everywhere("denoise", rules.context(minutes, 64, 128), masking=0.3),
            "model": nothing | {"input": tokens, "encoder": layer | {"layers": 2}, "decoder": writing(2)},
            "training": blocks,
        },
    }
    data = {"tokens": {"kind": "bpe"}}
    return {name: {"data": data, **tree} for name, tree in table.items()} | _published()


def _published() -> dict[str, Tree]:
    """Devlin et al. 2019, Liu et al. 2019, Martin et al. 2020, Radford et al. 2018 and 2019, Lewis et al.
    2020."""
    return {
        "bert-base": _bert(768, 12, 12, 512, 0, following=True),
        "bert-large": _bert(1024, 24, 16, 512, 0, following=True),
        "roberta-base": _bert(768, 12, 12, 512, 2, following=False),
        "roberta-large": _bert(1024, 24, 16, 512, 2, following=False),
        "camembert-base": _bert(768, 12, 12, 512, 2, following=False),
        "gpt-1": _causal_gpt(768, 12, 12, 512, "post"),
        "gpt-2-small": _causal_gpt(768, 12, 12, 1024, "pre"),
        "bart-base": _bart(768, 6, 12),
        "bart-large": _bart(1024, 12, 16),
    }


def _layers(width: int, layers: int, heads: int, positions: Tree, **more: object) -> Tree:
    return {
        "kind": "transformer",
        "layers": layers,
        "heads": heads,
        "feed_forward": 4 * width,
        "activation": "gelu",
        "scale_embedding": False,
        "positions": positions,
        "norm": "post",
        **more,
    }


def _bert(width: int, layers: int, heads: int, context: int, offset: int, following: bool) -> Tree:
    positions = {"kind": "learned", "length": context, "offset": offset}
    epsilon = 1e-12 if following else 1e-5
    encoder = _layers(width, layers, heads, positions, embedding_norm=True, epsilon=epsilon)
    tokens = {"kind": "tokens", "width": width, "scale": 0.02}
    places = {"kind": "vocabulary", "epsilon": epsilon}
    head = {"kind": "linear", "hidden": [width], "activation": "tanh"} if following else None
    model = {
        "input": tokens,
        "encoder": encoder,
        "pool": {"kind": "first"} if following else None,
        "head": head,
    }
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": model | {"places": places, "decoder": None},
        "task": {"objective": "masked+next" if following else "masked", "context": context},
        "training": {"rate": 1e-4, "batch_tokens": 8 * context, "warmup": 0.01},
    }


def _causal_gpt(width: int, layers: int, heads: int, context: int, norm: str) -> Tree:
    body = _layers(width, layers, heads, {"kind": "learned", "length": context}) | {
        "norm": norm,
        "activation": "gelu-tanh",
    }
    decoder = {"kind": "causal", "width": width, "body": body}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": {"input": None, "encoder": None, "pool": None, "head": None, "decoder": decoder},
        "task": {"objective": "causal", "context": context},
        "training": {"rate": 2.5e-4, "batch_tokens": 8 * context, "decay": "cosine"},
        "decode": rules.drawing(),
    }


def _bart(width: int, layers: int, heads: int) -> Tree:
    layer = _layers(
        width, layers, heads, {"kind": "learned", "length": 1024, "offset": 2}, embedding_norm=True
    )
    tokens = {"kind": "tokens", "width": width, "scale": 0.02}
    decoder = {"kind": "causal", "width": width, "body": layer}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": {"input": tokens, "encoder": layer, "pool": None, "head": None, "decoder": decoder},
        "task": {"objective": "denoise", "context": 512, "masking": 0.3},
        "training": {"rate": 1e-4, "batch_tokens": 4096},
    }
