"""The presets of `forecast`."""

from __future__ import annotations

from seqlab.config import Tree
from seqlab.tasks.task import Size


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, for what is read."""
    return of_vectors() if size.reads == "vector" else of_series()


def of_vectors() -> dict[str, Tree]:
    """R3 as it stands: the vector is fed at every step beside the last value, and begins the state."""

    def model(body: str) -> Tree:
        return {
            "input": {"kind": "vectors", "width": 64},
            "encoder": {"kind": "none"},
            "pool": None,
            "head": None,
            "decoder": {
                "kind": "attending",
                "attend": "none",
                "context": "every-step",
                "width": 64,
                "body": {"kind": body, "width": 128},
            },
        }

    return {body: {"model": model(body), "training": {"rate": 2e-3}} for body in ("lstm", "gru", "rnn")}


def of_series() -> dict[str, Tree]:
    steps = {"kind": "vectors", "width": 64}
    state = {"width": 128}
    wanders = {"level": "mean"}

    def model(encoder: Tree, pool: str = "last", dropout: float = 0.1) -> Tree:
        return {
            "input": steps,
            "encoder": encoder,
            "pool": {"kind": pool},
            "head": {"kind": "linear", "dropout": dropout},
        }

    layer = {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 128, "dropout": 0.1}
    patches = {"input": {**steps, "stack": 8}}  # a single step says little to be looked at (PatchTST)
    conv = {"kind": "conv", "width": 64, "kernel": 5, "layers": 3, "residual": True, "dropout": 0.1}
    linear = {"kind": "window"}, {"kind": "none"}, {"kind": "mean"}, {"kind": "channels"}
    return {
        "linear": {
            "model": dict(zip(("input", "encoder", "pool", "head"), linear, strict=True)),
            "training": {"rate": 1e-3},
        },
        "rnn": {"model": model({"kind": "rnn", **state}), "training": {"rate": 5e-4}, "task": wanders},
        "gru": {"model": model({"kind": "gru", **state}), "training": {"rate": 1e-3}, "task": wanders},
        "lstm": {"model": model({"kind": "lstm", **state}), "training": {"rate": 1e-3}, "task": wanders},
        "cnn": {"model": model(conv, "mean+max"), "training": {"rate": 1e-3}, "task": wanders},
        "transformer": {"model": model(layer) | patches, "training": {"rate": 1e-3}, "task": wanders},
        "lstm-steps": {
            "model": {
                "input": steps,
                "encoder": {"kind": "lstm", "width": 64},
                "pool": None,
                "head": None,
                "decoder": {
                    "kind": "attending",
                    "attend": "none",
                    "width": 64,
                    "variance": "learned",
                    "body": {"kind": "lstm", "width": 64},
                },
            },
            "training": {"rate": 2e-3},
        },
    }
