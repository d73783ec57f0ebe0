"""The presets of `generate`: language models of every kind, and the published GPT sizes."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.task import Size

PUBLISHED_GPT = {"gpt-1": 40_478, "gpt-2-small": 50_257, "gpt-2": 50_257, "gpt-3": 50_257}
"""Symbols of the published vocabularies, for `inspect` without data."""


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data and the budget."""
    data = {"tokens": {"kind": "characters" if rules.by_characters(size.characters) else "bpe"}}
    drop = rules.dropout(size.passes)
    width = rules.language_width(size.planned)
    training = {"rate": 3e-3, "batch_tokens": rules.language_batch(size.planned)}

    def alone(decoder: Tree) -> Tree:
        return {
            "input": None,
            "encoder": None,
            "pool": None,
            "head": None,
            "decoder": {"kind": "causal", **decoder},
        }

    def recurrent(kind: str) -> Tree:
        body = {"kind": kind, "width": 2 * width, "layers": 2, "dropout": drop}
        written = {"width": width, "body": body, "dropout": drop, "output_dropout": drop}
        return {"data": data, "model": alone(written), "task": {"context": 64}, "training": training}

    layer = {"kind": "transformer", "layers": 4, "heads": 4, "feed_forward": 4 * width, "dropout": drop}
    conv = {"kind": "conv", "layers": 6, "width": width, "kernel": 5, "residual": True, "dropout": drop}
    blocks: Tree = {"task": {"context": 128}, "training": training}
    table = {
        "rnn": recurrent("rnn"),
        "gru": recurrent("gru"),
        "lstm": recurrent("lstm"),
        "cnn": {"data": data, "model": alone({"width": width, "body": conv}), **blocks},
        "transformer": {
            "data": data,
            "model": alone({"width": width, "body": layer, "dropout": 0.0}),
            **blocks,
        },
        "gpt-1": _gpt(768, 12, 12, 512, norm="post"),
        "gpt-2-small": _gpt(768, 12, 12, 1024),
        "gpt-2": _gpt(1600, 48, 25, 1024),
        "gpt-3": _gpt(12_288, 96, 96, 2048),
    }
    return {name: tree | {"decode": rules.drawing()} for name, tree in table.items()}


def _gpt(width: int, layers: int, heads: int, context: int, norm: str = "pre") -> Tree:
    """Radford et al. 2018 and 2019, Brown et al. 2020 (its sparse layers are full here): learned positions,
    tied vocabulary."""
    body = {
        "kind": "transformer",
        "layers": layers,
        "heads": heads,
        "feed_forward": 4 * width,
        "norm": norm,
        "activation": "gelu-tanh",
        "scale_embedding": False,
        "positions": {"kind": "learned", "length": context},
    }
    decoder = {"kind": "causal", "width": width, "body": body}
    model = {"input": None, "encoder": None, "pool": None, "head": None, "decoder": decoder}
    rate = {768: 2.5e-4, 1600: 1e-4}.get(width, 6e-5)
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": model,
        "task": {"context": context},
        "training": {"rate": rate, "batch_tokens": 8 * context, "decay": "cosine"},
    }
