"""The presets of `classify`: one table, from a bag of words to a Transformer."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.task import Size


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to what is read and how much of it there is."""
    tables = {"text": of_text, "values": of_values, "sound": of_sound, "image": of_image}
    return tables[size.reads](size)


def of_text(size: Size) -> dict[str, Tree]:
    drop = rules.label_dropout(size.rows)
    grams = rules.gram_batch(size.rows, size.words)
    tokens = {"kind": "tokens", "width": 128, "dropout": drop}
    state = {"width": 128}
    both = {"width": 128, "directions": "both"}
    gru = {"kind": "gru", "width": 64, "directions": "both"}
    attention = {"kind": "attention"}
    sentences = {"kind": "nested", "of": "sentences", "inner": tokens, "encoder": gru, "pool": attention}
    in_context = {"kind": "nested-context", "inner": tokens, "encoder": gru, "width": 64}
    transformer = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 256}

    def model(input: Tree, encoder: Tree, pool: Tree) -> Tree:
        return {"input": input, "encoder": encoder, "pool": pool, "head": {"kind": "linear", "dropout": drop}}

    return {
        "bow": {
            "model": model({"kind": "bag"}, {"kind": "none"}, {"kind": "mean"})
            | {"head": {"kind": "direct"}},
            "training": rules.BAG_TRAINING | {"batch_tokens": grams},
        },
        "rnn": {
            "model": model(tokens, {"kind": "rnn", **state}, {"kind": "mean"}),
            "training": {"rate": 1e-3},
        },
        "gru": {"model": model(tokens, {"kind": "gru", **state}, {"kind": "mean"})},
        "lstm": {"model": model(tokens, {"kind": "lstm", **state}, {"kind": "mean"})},
        "bilstm": {"model": model(tokens, {"kind": "lstm", **both}, {"kind": "max"})},
        "cnn": {"model": model(tokens, {"kind": "conv", "width": 256, "kernel": 3}, {"kind": "max"})},
        "self-attentive": {
            "model": model(tokens, {"kind": "lstm", **both}, {"kind": "structured", "hops": 4, "hidden": 64}),
            "task": {"penalty": 0.1},
        },
        "han": {"model": model(sentences, gru, attention)},
        "han-context": {"model": model(in_context, {"kind": "none"}, attention)},
        "transformer": {"model": model(tokens, transformer, {"kind": "mean"})},
    }


def of_values(size: Size) -> dict[str, Tree]:
    """Series of numbers: narrower than words, since a step says less than a word."""
    drop = min(0.2, rules.label_dropout(size.rows))
    steps = {"kind": "vectors", "width": 32}
    state = {"width": 64}
    transformer = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 128}

    def model(encoder: Tree, pool: str, width: int = 32) -> Tree:
        return {
            "input": steps | {"width": width},
            "encoder": encoder,
            "pool": {"kind": pool},
            "head": {"kind": "linear", "dropout": drop},
        }

    deep = {"kind": "conv", "width": 64, "kernel": 7, "layers": 3, "residual": True}
    return {
        "cnn": {"model": model(deep, "mean+max", 64)},
        "rnn": {"model": model({"kind": "rnn", **state}, "mean"), "training": {"rate": 1e-3}},
        "gru": {"model": model({"kind": "gru", **state}, "mean")},
        "lstm": {"model": model({"kind": "lstm", **state}, "mean")},
        "bilstm": {"model": model({"kind": "lstm", "directions": "both", **state}, "max")},
        "transformer": {"model": model(transformer, "mean", 64)},
    }


def of_sound(size: Size) -> dict[str, Tree]:
    """Recordings: frames come every hundredth of a second, so that several are read as one."""
    drop = min(0.3, rules.label_dropout(size.rows))
    frames = {"kind": "vectors", "width": 64, "stack": 2, "dropout": 0.1}
    state = {"width": 128}
    transformer = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 256, "dropout": 0.1}
    deep = {"kind": "conv", "width": 96, "kernel": 5, "layers": 3, "residual": True, "dropout": 0.1}

    def model(encoder: Tree, pool: str, width: int = 64, stack: int = 2) -> Tree:
        return {
            "input": frames | {"width": width, "stack": stack},
            "encoder": encoder,
            "pool": {"kind": pool},
            "head": {"kind": "linear", "dropout": drop},
        }

    return {
        "cnn": {"model": model(deep, "mean+max", 96, stack=1)},
        "rnn": {"model": model({"kind": "rnn", **state}, "mean"), "training": {"rate": 1e-3}},
        "gru": {"model": model({"kind": "gru", **state}, "mean")},
        "lstm": {"model": model({"kind": "lstm", **state}, "mean")},
        "bilstm": {"model": model({"kind": "lstm", "directions": "both", **state}, "max")},
        "transformer": {"model": model(transformer, "mean", 96)},
    }


def of_image(size: Size) -> dict[str, Tree]:
    """Pictures: convolutions, and self-attention over the (x, y) of what they leave (SPEC A7)."""
    drop = min(0.3, rules.label_dropout(size.rows))
    layers = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 256, "dropout": 0.1}
    looking = {**layers, "scale_embedding": False, "positions": {"kind": "none"}}
    placed = {"kind": "grid", "channels": [32, 64], "positions": {"kind": "sinusoidal"}}
    head = {"kind": "linear", "dropout": drop}
    training = {"batch_tokens": rules.picture_batch(size.words), "rate": 2e-3}

    def model(input: Tree, encoder: Tree) -> Tree:
        return {"input": input, "encoder": encoder, "pool": {"kind": "mean"}, "head": head}

    return {
        "cnn": {"model": model({"kind": "grid"}, {"kind": "none"}), "training": training},
        "spatial": {"model": model(placed, looking), "training": training},
    }
