"""The presets of `tag`: words and their characters, and what reads them."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.task import Size


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data.

    Words are read lower-cased; their characters tell capitals, endings and digits, through a convolution and
    the maximum over a word, as in Ma and Hovy 2016.
    """
    drop = rules.tag_dropout(size.rows)
    spelling = {
        "kind": "nested",
        "of": "characters",
        "inner": {"kind": "tokens", "width": 30, "scale": 0.3},
        "encoder": {"kind": "conv", "width": 50, "kernel": 3},
        "pool": {"kind": "max"},
        "words": {"kind": "tokens", "width": 100, "dropout": drop, "word_dropout": 0.05},
    }
    linear = {"kind": "linear", "dropout": drop}
    both = {"kind": "lstm", "width": 128, "directions": "both"}
    transformer = {"kind": "transformer", "layers": 2, "heads": 5, "feed_forward": 300}

    def model(encoder: Tree, places: Tree = linear) -> Tree:
        return {
            "model": {"input": spelling, "encoder": encoder, "pool": None, "head": None, "places": places}
        }

    return {
        "rnn": model({"kind": "rnn", "width": 128, "directions": "both"}) | {"training": {"rate": 1e-3}},
        "bilstm": model(both),
        "bilstm-crf": model(both, {"kind": "crf", "dropout": drop}),
        "cnn": model({"kind": "conv", "width": 150, "kernel": 3, "layers": 3, "residual": True}),
        "transformer": model(transformer) | {"training": {"rate": 1e-3}},
    }
