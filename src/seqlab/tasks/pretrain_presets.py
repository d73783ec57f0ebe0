"""The presets of `pretrain`: the published families in sizes for a CPU and, by name, in their published sizes."""

from __future__ import annotations

from seqlab.config import Tree
from seqlab.tasks import rules
from seqlab.tasks.task import Size

PUBLISHED = {
    "bert-base": 30_522, "bert-large": 30_522, "roberta-base": 50_265, "roberta-large": 50_265,
    "gpt-1": 40_478, "gpt-2-small": 50_257, "bart-base": 50_265, "bart-large": 50_265,
}
"""Symbols of the published vocabularies, for `inspect` without data."""
BLANK_A_MINUTE = 4_000_000
"""Characters that blank-bilstm learns from in a minute, on one slow core."""
BLANK_EARLY = 0.05
"""What it drops between three and six such passes; two fast cores make three times as many. (WikiText-2, eleven passes, one run
each, pseudo-perplexity per piece at the ninth and at the last of ten looks: 8.30 and 8.36 without dropout, on another machine;
8.26 and 8.27 with 0.05; 8.32 and 8.32 with 0.08. It makes a step a twentieth to a seventh slower.)"""


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data and the budget."""
    minutes = size.minutes or 15.0
    short = minutes < 60
    width = 128 if short else 192
    drop = 0.0 if short else 0.1
    data = {"tokens": {"kind": "bpe"}}
    rotary = {"kind": "rotary"}
    layer = {
        "kind": "transformer", "layers": 4, "heads": 4, "feed_forward": 4 * width, "activation": "gelu", "positions": rotary,
        "dropout": drop,
    }
    tokens = {"kind": "tokens", "width": width, "scale": width**-0.5}
    words = {"kind": "vocabulary"}
    # BERT judges pairs by the first state; with both texts side by side it is learnt sooner. (Made-up documents, 600 steps,
    # one run each: 0.85 of the pairs right, by the first state 0.78.)
    pair, follows = {"kind": "pair"}, {"kind": "linear", "hidden": [width], "activation": "tanh"}
    seen = {"context": 256}
    blocks, small_blocks, recurrent, small_recurrent = _steps(short)
    # bart has to find out first that most of a text is there to be copied. (WikiText-2, four minutes, one core, one run each,
    # nats per piece: 2.92 with 128 ids, which it began to copy after 900 steps, 1.84 with 64, after 400.)
    copied = {"context": 64 if short else 128}

    def task(objective: str) -> Tree:
        # Where every piece is answered for, the vocabulary is most of the work. (blank-bilstm 192 wide, 12,000 pieces, one
        # core: 2.7 thousand pieces a second against all of them, 5.9 thousand against 2,000.)
        sampled = {} if objective.startswith("masked") else {"sampled": 2000}
        return {"objective": objective, **seen, **sampled}

    def filling(encoder: Tree, places: Tree, pool: Tree | None = None, head: Tree | None = None) -> Tree:
        return {"input": tokens, "encoder": encoder, "pool": pool, "head": head, "places": places, "decoder": None}

    # Few minutes are better spent on more text than on more weights. (blank-bilstm, IMDb's reviews, one core, pseudo-perplexity
    # per piece, one run each: after 15 minutes 29 at 128 and 31 at 256, after 30 minutes 23.5 at 128 and 22.7 at 192.)
    state = 128 if minutes < 40 else 192 if minutes < 60 else 384

    def apart(layers: int) -> Tree:
        body = {"kind": "lstm", "width": state, "layers": layers, "dropout": drop}    # between layers, if there are two
        return {"kind": "both-ways", "body": body, "hides": True}

    linear = {"kind": "vocabulary", "transform": "linear", "bias": True}
    reading = {"input": tokens, "encoder": layer | {"layers": 2}, "pool": None, "head": None}
    alone = {"input": None, "encoder": None, "pool": None, "head": None}
    written = {"kind": "causal", "width": width, "body": layer}
    # Words that know in what texts they occur help a classifier, at the cost of perplexity. (IMDb, five minutes at 128, a
    # linear model on the means of the states, 2,000 labels: 0.75 and 34 without the question, 0.82 and 62 with a weight of
    # 0.3; four minutes with 0.05: 0.79 and 42. roberta, eight minutes, fine-tuned on 2,000 labels, two runs each: 0.763 and
    # 0.802 without it, 0.817 and 0.819 with 0.1; 4.61 and 4.74 nats a hidden piece.)
    together = {"halves_weight": 0.1}
    blank = {
        "data": data, "task": task("blank") | {"context": 128},
        "model": filling(apart(1), linear) | {"input": tokens | {"dropout": size.dropout(BLANK_A_MINUTE, BLANK_EARLY)}},
        "training": recurrent,
    }
    return {
        "bert": {
            "data": data, "task": task("masked+next") | {"context": 128}, "model": filling(layer, words, pair, follows),
            "training": blocks,
        },
        "roberta": {"data": data, "task": task("masked"), "model": filling(layer, words), "training": blocks},
        "gpt": {
            "data": data, "task": task("causal") | ({"context": 128} if short else {}), "model": alone | {"decoder": written},
            "training": small_blocks, "decode": rules.drawing(),
        },
        "elmo": {
            "data": data, "task": task("both-ways") | {"context": 64 if short else 128},
            "model": filling(apart(2), linear | {"halves": True}), "training": small_recurrent,
        },
        "blank-bilstm": blank,
        "blank-bilstm-halves": blank | {"task": blank["task"] | together},
        "bart": {
            "data": data, "task": task("denoise") | {"masking": 0.3} | copied,
            "model": reading | {"decoder": written | {"body": layer | {"layers": 2}}}, "training": blocks,
        },
        **_published(),
    }


def _steps(short: bool) -> tuple[Tree, Tree, Tree, Tree]:
    """How to train Transformers and, with smaller steps where time is short, the same; then recurrent models likewise."""
    # (IMDb's reviews, 15 minutes, one core, one run each: gpt 4.89 nats a piece at 2e-3, 4.73 at 5e-3. Not tried beyond that.)
    blocks = {"rate": 5e-3, "batch_tokens": 2048} if short else {"rate": 2e-3, "batch_tokens": 4096}
    # (blank-bilstm, likewise, 128 wide, pseudo-perplexity per piece: 29 with a rate of 3e-3, 22.8 with 6e-3, 21.2 with 1.5e-2,
    # whose larger weights a classifier moves more slowly; 3e-2 learns more slowly from the start.)
    recurrent = blocks | {"rate": 6e-3}
    # (WikiText-2, four minutes, one core, one run each, perplexity per piece: gpt 70.1 with 256 ids and batches of 2,048, 67.8
    # with 256 and 1,024, 62.8 with 128 and 1,024; elmo 98.1 with 128 and 2,048, 84.9 with 64 and 1,024.)
    smaller = {"batch_tokens": 1024} if short else {}
    return blocks, blocks | smaller, recurrent, recurrent | smaller


def _published() -> dict[str, Tree]:
    """Devlin et al. 2019, Liu et al. 2019, Radford et al. 2018 and 2019, Lewis et al. 2020."""
    return {
        "bert-base": _bert(768, 12, 12, 512, 0, following=True),
        "bert-large": _bert(1024, 24, 16, 512, 0, following=True),
        "roberta-base": _bert(768, 12, 12, 512, 2, following=False),
        "roberta-large": _bert(1024, 24, 16, 512, 2, following=False),
        "gpt-1": _gpt(768, 12, 12, 512, "post"),
        "gpt-2-small": _gpt(768, 12, 12, 1024, "pre"),
        "bart-base": _bart(768, 6, 12),
        "bart-large": _bart(1024, 12, 16),
    }


def _layers(width: int, layers: int, heads: int, positions: Tree, **more: object) -> Tree:
    return {
        "kind": "transformer", "layers": layers, "heads": heads, "feed_forward": 4 * width, "activation": "gelu",
        "scale_embedding": False, "positions": positions, "norm": "post", **more,
    }


def _bert(width: int, layers: int, heads: int, context: int, offset: int, following: bool) -> Tree:
    positions = {"kind": "learned", "length": context, "offset": offset}
    epsilon = 1e-12 if following else 1e-5
    encoder = _layers(width, layers, heads, positions, embedding_norm=True, epsilon=epsilon)
    tokens = {"kind": "tokens", "width": width, "scale": 0.02}
    places = {"kind": "vocabulary", "epsilon": epsilon}
    head = {"kind": "linear", "hidden": [width], "activation": "tanh"} if following else None
    model = {"input": tokens, "encoder": encoder, "pool": {"kind": "first"} if following else None, "head": head}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}}, "model": model | {"places": places, "decoder": None},
        "task": {"objective": "masked+next" if following else "masked", "context": context},
        "training": {"rate": 1e-4, "batch_tokens": 8 * context, "warmup": 0.01},
    }


def _gpt(width: int, layers: int, heads: int, context: int, norm: str) -> Tree:
    body = _layers(width, layers, heads, {"kind": "learned", "length": context}) | {"norm": norm, "activation": "gelu-tanh"}
    decoder = {"kind": "causal", "width": width, "body": body}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": {"input": None, "encoder": None, "pool": None, "head": None, "decoder": decoder},
        "task": {"objective": "causal", "context": context},
        "training": {"rate": 2.5e-4, "batch_tokens": 8 * context, "decay": "cosine"},
        "decode": rules.drawing(),
    }


def _bart(width: int, layers: int, heads: int) -> Tree:
    layer = _layers(width, layers, heads, {"kind": "learned", "length": 1024, "offset": 2}, embedding_norm=True)
    tokens = {"kind": "tokens", "width": width, "scale": 0.02}
    decoder = {"kind": "causal", "width": width, "body": layer}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": {"input": tokens, "encoder": layer, "pool": None, "head": None, "decoder": decoder},
        "task": {"objective": "denoise", "context": 512, "masking": 0.3},
        "training": {"rate": 1e-4, "batch_tokens": 4096},
    }
