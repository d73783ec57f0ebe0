"""The presets of `classify`: one table, from a bag of words to a Transformer."""

from __future__ import annotations

from seqlab.config import Tree
from seqlab.tasks.task import Size


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data."""
    drop = 0.5 if size.rows < 10_000 else 0.4 if size.rows < 100_000 else 0.2
    tokens = {"kind": "tokens", "width": 128, "dropout": drop}
    head = {"kind": "linear", "dropout": drop}
    recurrent = {"width": 128, "layers": 1}
    both = recurrent | {"directions": "both"}
    gru = {"kind": "gru", "width": 64, "layers": 1, "directions": "both"}
    mean, most = {"kind": "mean"}, {"kind": "max"}

    def model(input: Tree, encoder: Tree, pool: Tree, head: Tree = head) -> Tree:
        return {"input": input, "encoder": encoder, "pool": pool, "head": head}

    return {
        "bow": {
            "model": model({"kind": "bag"}, {"kind": "none"}, mean, {"kind": "direct"}),
            "training": {"rate": 0.03, "batch_tokens": max(2048, int(400 * size.words)), "weight_decay": 0.0, "clip": 1e3},
        },
        "rnn": {"model": model(tokens, {"kind": "rnn", **recurrent}, mean), "training": {"rate": 1e-3}},
        "gru": {"model": model(tokens, {"kind": "gru", **recurrent}, mean)},
        "lstm": {"model": model(tokens, {"kind": "lstm", **recurrent}, mean)},
        "bilstm": {"model": model(tokens, {"kind": "lstm", **both}, most)},
        "cnn": {"model": model(tokens, {"kind": "conv", "width": 256, "layers": 1, "kernel": 3}, most)},
        "self-attentive": {
            "model": model(tokens, {"kind": "lstm", **both}, {"kind": "structured", "hops": 4, "hidden": 64}),
            "task": {"penalty": 0.1},
        },
        "han": {
            "model": model(
                {
                    "kind": "nested", "of": "sentences", "inner": tokens,
                    "encoder": gru, "pool": {"kind": "attention"},
                },
                gru,
                {"kind": "attention"},
            ),
        },
        "han-context": {
            "model": model({"kind": "nested-context", "inner": tokens, "encoder": gru, "width": 64}, {"kind": "none"}, {"kind": "attention"}),
        },
        "transformer": {
            "model": model(tokens, {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 256, "dropout": 0.1}, mean),
        },
    }
