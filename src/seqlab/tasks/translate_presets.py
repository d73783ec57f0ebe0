"""The presets of `translate`: recurrent, convolutional and Transformer models, sized by the data and the minutes."""

from __future__ import annotations

from seqlab.config import Tree
from seqlab.tasks.task import Size

CHARACTERS_A_MINUTE = 3_400_000
"""Of both sides together, that `transformer` learns from on two cores, about."""


def presets(size: Size) -> dict[str, Tree]:
    """Settings trees by name, fitted to the size of the data and the budget."""
    minutes = size.minutes or 15.0
    drop = size.dropout(CHARACTERS_A_MINUTE)
    width = 128 if minutes < 40 else 256
    tokens = {"kind": "tokens", "width": width, "dropout": drop}
    layer = {"kind": "transformer", "layers": 3, "heads": 4, "feed_forward": 4 * width, "dropout": drop}
    data = {"tokens": {"kind": "bpe"}}
    # One layer reads: with two, attention finds its words late (Multi30k, half an hour on one core, two layers of 128 each way
    # and 320 to write, 52.1 BLEU; one of 96 and 256 to write has 53.8 after a quarter of an hour). Single words are read letter
    # by letter: there two layers find them soon and know more (spelling to sounds, half an hour: 26.2 % of words wrong on
    # one core; with one layer 27.5 % on two cores, where it learns by heart).
    deep = size.words < 2 and minutes >= 20
    both: Tree = {"kind": "lstm", "width": 3 * width // 4, "directions": "both"}
    if deep:
        both |= {"width": width, "layers": 2, "dropout": drop}
    writing = 5 * width // 2 if deep else 2 * width

    def model(encoder: Tree, decoder: Tree) -> Tree:
        written = {"width": width, "dropout": drop, **decoder}
        return {"input": tokens, "encoder": encoder, "pool": None, "head": None, "decoder": written}

    def attending(kind: str, **settings: object) -> Tree:
        return {"kind": "attending", "body": {"kind": kind, "width": writing}, "output_dropout": drop, **settings}

    # Few minutes buy few tokens: small batches then make more of them (Multi30k, 1.3 million target tokens, BLEU on valid,
    # one run each: 43.8 with batches of 512 at a rate of 2e-3; with 1,024, 40.8 at 2e-3 and 41.6 at 3e-3).
    batch = 512 if minutes < 8 else 768 if minutes < 40 else 2048
    training: Tree = {"rate": 2e-3 if width <= 128 else 1e-3, "batch_tokens": batch}
    recurrent = training | {"rate": 3e-3}
    conv = {"kind": "conv", "width": width, "layers": 4, "kernel": 3, "residual": True, "dropout": drop}
    unseeing = attending("lstm", attend="none", context="every-step")
    return {
        "lstm": {"data": data, "model": model(both, unseeing), "training": recurrent},
        "lstm-attention": {"data": data, "model": model(both, attending("lstm")), "training": recurrent},
        "gru-attention": {"data": data, "model": model(both | {"kind": "gru"}, attending("gru")), "training": recurrent},
        "cnn-attention": {"data": data, "model": model(conv, attending("lstm")), "training": recurrent},
        "transformer": {"data": data, "model": model(layer, {"kind": "causal", "body": layer}), "training": training},
    }
