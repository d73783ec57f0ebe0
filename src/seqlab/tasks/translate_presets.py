"""The presets of `translate`: recurrent, convolutional and Transformer models, sized by the data and the
minutes."""

from __future__ import annotations

from seqlab import rules
from seqlab.config import Tree
from seqlab.tasks.task import Size
from seqlab.tasks.writing import picture_presets


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to what is read, how much of it there is, and the budget."""
    return {"text": of_text, "image": picture_presets}[size.reads](size)


def of_text(size: Size) -> dict[str, Tree]:
    drop = rules.dropout(size.passes)
    width = rules.translation_width(size.planned)
    deep = rules.reads_deep(size.words, size.planned)
    tokens = {"kind": "tokens", "width": width, "dropout": drop}
    layer = {"kind": "transformer", "layers": 3, "heads": 4, "feed_forward": 4 * width, "dropout": drop}
    data = {"tokens": {"kind": "bpe"}}
    both: Tree = {"kind": "lstm", "width": 3 * width // 4, "directions": "both"}
    if deep:
        both |= {"width": width, "layers": 2, "dropout": drop}
    writing = 5 * width // 2 if deep else 2 * width

    def model(encoder: Tree, decoder: Tree) -> Tree:
        written = {"width": width, "dropout": drop, **decoder}
        return {"input": tokens, "encoder": encoder, "pool": None, "head": None, "decoder": written}

    def attending(kind: str, **settings: object) -> Tree:
        return {
            "kind": "attending",
            "body": {"kind": kind, "width": writing},
            "output_dropout": drop,
            **settings,
        }

    batch = rules.translation_batch(size.planned)
    training: Tree = {"rate": rules.translation_rate(width), "batch_tokens": batch}
    recurrent: Tree = {"rate": 3e-3, "batch_tokens": batch}
    conv = {"kind": "conv", "width": width, "layers": 4, "kernel": 3, "residual": True, "dropout": drop}
    unseeing = attending("lstm", attend="none", context="every-step")
    return {
        "lstm": {"data": data, "model": model(both, unseeing), "training": recurrent},
        "lstm-attention": {"data": data, "model": model(both, attending("lstm")), "training": recurrent},
        "gru-attention": {
            "data": data,
            "model": model(both | {"kind": "gru"}, attending("gru")),
            "training": recurrent,
        },
        "cnn-attention": {"data": data, "model": model(conv, attending("lstm")), "training": recurrent},
        "transformer": {
            "data": data,
            "model": model(layer, {"kind": "causal", "body": layer}),
            "training": training,
        },
        "transformer-base": _transformer_base(),
    }


def _transformer_base() -> Tree:
    """Vaswani et al. 2017: the base model. There the rate falls with the root of the steps, here linearly."""
    layer = {
        "kind": "transformer",
        "layers": 6,
        "heads": 8,
        "feed_forward": 2048,
        "norm": "post",
        "dropout": 0.1,
    }
    tokens = {"kind": "tokens", "width": 512, "scale": 512**-0.5, "dropout": 0.1}
    decoder = {"kind": "causal", "width": 512, "dropout": 0.1, "body": layer}
    return {
        "data": {"tokens": {"kind": "bpe", "vocabulary": 37_000}},
        "model": {"input": tokens, "encoder": layer, "pool": None, "head": None, "decoder": decoder},
        "training": {"rate": 7e-4, "batch_tokens": 25_000, "warmup": 0.04},
    }
