"""The presets of `generate`: language models of every kind, and the published GPT sizes."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.published import PUBLISHED
from seqlab.tasks.task import Size

NOTHING_READ: Tree = {"input": None, "encoder": None, "pool": None, "head": None}
PUBLISHED_GPT = {name: PUBLISHED[name] for name in ("gpt-1", "gpt-2-small", "gpt-2", "gpt-3")}
"""What is known of them."""


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to what is given, the size of the data and the budget."""
    return alone(size) if size.reads == "text" else for_given(size)


def alone(size: Size) -> dict[str, Tree]:
    """Language models, which are decoders alone."""
    data = {"tokens": {"kind": "characters" if rules.by_characters(size.characters) else "bpe"}}
    drop = rules.dropout(size.passes)
    width = rules.language_width(size.planned)
    training = {"rate": 3e-3, "batch_tokens": rules.language_batch(size.planned)}

    def model(decoder: Tree) -> Tree:
        return NOTHING_READ | {"decoder": {"kind": "causal", **decoder}}

    def recurrent(kind: str) -> Tree:
        body = {"kind": kind, "width": 2 * width, "layers": 2, "dropout": drop}
        written = {"width": width, "body": body, "dropout": drop, "output_dropout": drop}
        return {"data": data, "model": model(written), "task": {"context": 64}, "training": training}

    layer = {"kind": "transformer", "layers": 4, "heads": 4, "feed_forward": 4 * width, "dropout": drop}
    conv = {"kind": "conv", "layers": 6, "width": width, "kernel": 5, "residual": True, "dropout": drop}
    blocks: Tree = {"task": {"context": 128}, "training": training}
    table = {
        "rnn": recurrent("rnn"),
        "gru": recurrent("gru"),
        "lstm": recurrent("lstm"),
        "cnn": {"data": data, "model": model({"width": width, "body": conv}), **blocks},
        "transformer": {
            "data": data,
            "model": model({"width": width, "body": layer, "dropout": 0.0}),
            **blocks,
        },
        "gpt-1": _gpt(768, 12, 12, 512, norm="post"),
        "gpt-2-small": _gpt(768, 12, 12, 1024),
        "gpt-2": _gpt(1600, 48, 25, 1024),
        "gpt-3": _gpt(12_288, 96, 96, 2048),
    }
    return {name: tree | {"decode": rules.drawing()} for name, tree in table.items()}


def for_given(size: Size) -> dict[str, Tree]:
    """The same with one slot to read, a label or a vector: beside every symbol that is read or, of the
    Transformer, by a look at it in every layer."""
    kinds = {"label": {"kind": "label", "width": 32}, "vector": {"kind": "vectors", "width": 32}}
    read = {"input": kinds[size.reads], "encoder": {"kind": "none"}}
    told = {"kind": "attending", "attend": "none", "context": "every-step"}
    table: dict[str, Tree] = {}
    for name in ("rnn", "gru", "lstm", "cnn", "transformer"):
        tree = alone(size)[name]
        decoder = tree["model"]["decoder"] | ({} if name == "transformer" else told)
        table[name] = tree | {"model": tree["model"] | read | {"decoder": decoder}}
    return table


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
    model = NOTHING_READ | {"decoder": decoder}
    rate = {768: 2.5e-4, 1600: 1e-4}.get(width, 6e-5)
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 32_000}},
        "model": model,
        "task": {"context": context},
        "training": {"rate": rate, "batch_tokens": 8 * context, "decay": "cosine"},
    }
