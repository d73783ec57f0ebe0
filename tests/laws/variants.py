"""One table for each role: every registered kind, with the options that change what it computes."""

from __future__ import annotations

import torch
from torch import Tensor

from seqlab.decoders import Attending, Causal
from seqlab.encoders import BothWays, Conv, Gru, Lstm, NoEncoder, Rnn, Stack, Transformer
from seqlab.inputs import (
    Bag,
    Grid,
    LabelSlot,
    NestedConfig,
    NestedContextConfig,
    Patches,
    Tokens,
    Vectors,
    Window,
)
from seqlab.nn.grid_positions import GridSinusoids, LearnedGrid
from seqlab.nn.positions import Learned, NoPositions, Rotary, Sinusoidal
from seqlab.outputs import (
    Attention,
    Channels,
    Crf,
    Direct,
    First,
    Gaussian,
    Last,
    Linear,
    Max,
    Mean,
    MeanMax,
    Pair,
    Structured,
    Vocabulary,
)
from seqlab.parts import Batch, DecoderConfig, EncoderConfig, Facts, HeadConfig, InputConfig, PoolConfig
from seqlab.seq import Nested, Seq, mask_of

WIDTH = 8
LENGTHS = (3, 1, 40, 7, 18)
"""One row of a single position, and one that local attention reads in three blocks."""
FACTS = Facts(
    symbols={"text": 30, "characters": 12, "grams": 50, "label": 12},
    outputs={"row": 3},
    features={"values": 3, "image": 3},
    window=2,
)


def small(**settings: object) -> Transformer:
    return Transformer(heads=2, feed_forward=12, **settings)  # type: ignore[arg-type]


ENCODERS: dict[str, EncoderConfig] = {
    "rnn": Rnn(width=5),
    "rnn relu both deep": Rnn(width=5, activation="relu", directions="both", layers=2),
    "gru backward": Gru(width=5, directions="backward"),
    "gru both deep": Gru(width=5, directions="both", layers=3, dropout=0.3),
    "lstm": Lstm(width=5),
    "lstm deep": Lstm(width=5, layers=2),
    "lstm backward deep": Lstm(width=5, directions="backward", layers=2),
    "lstm both": Lstm(width=5, directions="both"),
    "conv": Conv(width=6),
    "conv even kernel": Conv(width=6, kernel=4, layers=2, activation="gelu"),
    "conv stride": Conv(width=6, layers=3, stride=2, activation="tanh"),
    "conv causal": Conv(width=6, layers=2, causal=True),
    "conv causal stride": Conv(width=6, layers=2, causal=True, stride=2, activation="tanh"),
    "conv dilated": Conv(width=6, layers=3, kernel=4, dilation="growing"),
    "conv dilated stride": Conv(width=6, layers=3, stride=2, dilation="growing", activation="tanh"),
    "conv dilated causal": Conv(width=8, layers=4, kernel=2, dilation="growing", causal=True, residual=True),
    "conv residual": Conv(width=8, layers=2, kernel=5, residual=True, dropout=0.3),
    "transformer": small(),
    "transformer post": small(norm="post", activation="gelu-tanh"),
    "transformer without norms": small(norm="none"),
    "transformer final norm off": small(final_norm=False, embedding_norm=True, scale_embedding=False),
    "transformer no biases": small(biases=False),
    "transformer learned": small(positions=Learned(length=40, offset=2)),
    "transformer concatenated": small(positions=Sinusoidal(mode="concatenate", width=4)),
    "transformer learned concatenated": small(positions=Learned(mode="concatenate")),
    "transformer rotary": small(positions=Rotary()),
    "transformer rotary causal": small(positions=Rotary(offset=1), causal=True),
    "transformer no positions": small(positions=NoPositions()),
    "transformer causal": small(causal=True),
    "transformer local": small(local=4),
    "transformer local causal": small(local=3, causal=True),
    "transformer local rotary": small(local=17, positions=Rotary()),
    "transformer plain attention": small(scale_scores=False, output_projection=False),
    "transformer widths": small(key_width=3, value_width=5),
    "transformer widths causal": small(key_width=1, value_width=7, causal=True, biases=False),
    "transformer widths local": small(key_width=6, value_width=3, local=5, positions=Rotary()),
    "transformer merged": small(merged_query_key=True),
    "transformer merged local": small(merged_query_key=True, local=5, biases=False),
    "both-ways": BothWays(body=Lstm(width=5)),
    "both-ways hides deep": BothWays(body=Gru(width=5, layers=2, dropout=0.3), hides=True),
    "both-ways mix": BothWays(body=Lstm(width=8, layers=2), mix=True),
    "both-ways mix narrow": BothWays(body=Rnn(width=5, layers=2), mix=True),
    "none": NoEncoder(),
    "stack": Stack(encoders=(Conv(width=6, stride=2), Gru(width=5, directions="both"))),
    "stack causal": Stack(encoders=(Conv(width=6, causal=True), small(causal=True), Lstm(width=4))),
}

POOLS: dict[str, PoolConfig] = {
    "last": Last(),
    "first": First(),
    "mean": Mean(),
    "max": Max(),
    "mean+max": MeanMax(),
    "pair": Pair(),
    "attention": Attention(hidden=6),
    "attention no bias": Attention(hidden=6, bias=False, dropout=0.2),
    "structured": Structured(hops=3, hidden=6),
}

INPUTS: dict[str, InputConfig] = {
    "tokens": Tokens(width=6),
    "tokens dropped": Tokens(width=6, dropout=0.2, word_dropout=0.2),
    "label": LabelSlot(width=6),
    "vectors": Vectors(width=6),
    "vectors stacked": Vectors(width=6, stack=3, dropout=0.2),
    "window": Window(),
    "grid": Grid(channels=(8, 6), least=3),
    "grid deep placed": Grid(channels=(4, 8), blocks=2, positions=GridSinusoids(), dropout=0.2),
    "grid learned": Grid(channels=(4,), positions=LearnedGrid(side=8)),
    "patches": Patches(width=6, patch=5),
    "patches placed": Patches(width=6, patch=4, positions=GridSinusoids(base=30)),
    "patches learned": Patches(width=6, patch=4, positions=LearnedGrid(side=5)),
    "bag": Bag(),
    "bag wide": Bag(width=4),
    "nested": NestedConfig(
        inner=Tokens(width=6), encoder=Gru(width=4, directions="both"), pool=Attention(hidden=5)
    ),
    "nested conv max": NestedConfig(inner=Tokens(width=6), encoder=Conv(width=4, stride=2), pool=Max()),
    "nested transformer": NestedConfig(
        inner=Tokens(width=6), encoder=small(layers=1), pool=Structured(hops=2)
    ),
    "nested characters": NestedConfig(
        of="characters", inner=Tokens(width=6), encoder=Lstm(width=4), pool=Last()
    ),
    "nested characters words": NestedConfig(
        of="characters", inner=Tokens(width=6), encoder=Conv(width=4), pool=Max(), words=Tokens(width=5)
    ),
    "nested-context": NestedContextConfig(
        inner=Tokens(width=6), encoder=Gru(width=4), pool=Attention(hidden=5), width=3
    ),
    "nested-context forward": NestedContextConfig(
        inner=Tokens(width=6),
        encoder=Conv(width=4, stride=2),
        pool=Attention(hidden=5),
        width=3,
        context="forward",
    ),
}

HEADS: dict[str, HeadConfig] = {
    "linear": Linear(),
    "linear no bias": Linear(bias=False, dropout=0.2),
    "linear hidden": Linear(hidden=(7, 5), activation="tanh"),
    "direct": Direct(),
    "crf": Crf(),
    "crf constrained": Crf(constrain=True, hidden=(7,)),
    "gaussian": Gaussian(),
    "channels": Channels(),
    "vocabulary": Vocabulary(tied=False),
    "vocabulary linear": Vocabulary(tied=False, transform="linear", bias=False),
    "vocabulary halves": Vocabulary(tied=False, transform="linear", halves=True),
    "vocabulary halves dense": Vocabulary(tied=False, halves=True),
}


SYMBOLS = 11


def causal(body: EncoderConfig, **settings: object) -> Causal:
    return Causal(width=WIDTH, body=body, **settings)  # type: ignore[arg-type]


def attending(body: EncoderConfig, **settings: object) -> Attending:
    return Attending(width=6, body=body, hidden=7, **settings)  # type: ignore[arg-type]


WRITERS: dict[str, DecoderConfig] = {
    "causal transformer": causal(small()),
    "causal transformer post": causal(small(norm="post", layers=3), tied=False, bias=True),
    "causal transformer without norms": causal(small(norm="none")),
    "causal transformer rotary": causal(small(positions=Rotary())),
    "causal transformer learned": causal(small(positions=Learned(length=40))),
    "causal transformer local": causal(small(local=3)),
    "causal transformer plain attention": causal(small(scale_scores=False, output_projection=False)),
    "causal transformer widths": causal(small(key_width=3, value_width=5, local=4)),
    "causal transformer merged": causal(small(merged_query_key=True)),
    "causal transformer concatenated": causal(
        small(positions=Sinusoidal(mode="concatenate", width=4)), dropout=0.2
    ),
    "attending lstm": attending(Lstm(width=5)),
    "attending lstm deep": attending(Lstm(width=5, layers=2, dropout=0.2), output_dropout=0.2),
    "attending gru additive": attending(Gru(width=5), score="additive", bias=True),
    "attending gru dot": attending(Gru(width=WIDTH), score="dot"),
    "attending rnn scaled": attending(Rnn(width=WIDTH), score="scaled-dot", tied=False),
    "attending lstm feeding": attending(Lstm(width=5), feeding=True, context="every-step"),
    "attending gru early": attending(Gru(width=5), attend="early"),
    "attending lstm early": attending(
        Lstm(width=5, layers=2), attend="early", score="additive", context="every-step"
    ),
    "attending rnn early backward": attending(Rnn(width=4), attend="early", begin="backward"),
    "attending lstm none": attending(Lstm(width=5), attend="none"),
    "attending gru none every step": attending(Gru(width=5), attend="none", context="every-step"),
    "attending conv": attending(Conv(width=6, layers=2, residual=True)),
    "attending conv none": attending(Conv(width=6, layers=2), attend="none"),
}
"""Decoders that read a memory; each of them is also a language model when there is none."""
LANGUAGE: dict[str, DecoderConfig] = {
    "causal lstm": causal(Lstm(width=5, layers=2)),
    "causal gru": causal(Gru(width=WIDTH), tied=False, bias=True),
    "causal rnn": causal(Rnn(width=5)),
    "causal conv": causal(Conv(width=6, layers=3, kernel=2)),
    "causal conv dilated": causal(Conv(width=6, layers=3, dilation="growing")),
    "causal stack": causal(Stack(encoders=(Conv(width=6), small(), Lstm(width=4)))),
    "causal none": causal(NoEncoder()),
}
"""Decoders that can only be language models."""


def vectors(lengths: tuple[int, ...] = LENGTHS, width: int = WIDTH, seed: int = 0) -> Seq:
    """Random vectors, at the padding too: what stands there means nothing."""
    generator = torch.Generator().manual_seed(seed)
    mask = mask_of(torch.tensor(lengths))
    return Seq(torch.randn(*mask.shape, width, generator=generator), mask)


def alone(x: Seq, row: int) -> Seq:
    """One row of a batch, without padding."""
    length = int(x.lengths[row])
    summary = None if x.summary is None else x.summary[row : row + 1]
    return Seq(x.values[row : row + 1, :length], x.mask[row : row + 1, :length], summary)


def weighted_sum(values: Tensor) -> Tensor:
    """A number that depends on every value in its own way."""
    generator = torch.Generator().manual_seed(9)
    return (values * torch.randn(values.shape, generator=generator)).sum()


Document = list[list[int]]


def documents(count: int = 9, symbols: int = 12, seed: int = 0) -> list[Document]:
    """Documents of 1 to 12 sentences of 1 to 9 ids: enough inner rows for two groups or more."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    def sentence() -> list[int]:
        return [draw(1, symbols) for _ in range(draw(1, 10))]

    return [[sentence() for _ in range(1 if row == 1 else draw(2, 13))] for row in range(count)]


def padded(rows: list[list[int]]) -> Seq:
    """Ids with other ids at the padding."""
    mask = mask_of(torch.tensor([len(row) for row in rows]))
    values = torch.full(mask.shape, 7)
    values[mask] = torch.tensor([one for row in rows for one in row])
    return Seq(values, mask)


def pictures(seeds: list[int], side: int = 16) -> Seq:
    """Pictures of random bytes, each as its seed says: lines of pixels."""
    drawn = [
        torch.randint(0, 256, (side, side, 3), generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    mask = torch.ones(len(seeds), side, dtype=torch.bool)
    return Seq(torch.stack(drawn).to(torch.uint8), mask)


def batch(config: InputConfig, rows: list[Document]) -> Batch:
    """What data would hand to this input for these documents."""
    nested = Nested(
        padded([inner for row in rows for inner in row]), mask_of(torch.tensor([len(row) for row in rows]))
    )
    flat = padded([[one for inner in row for one in inner] for row in rows])
    if config.reads == "sentences":
        inputs: dict[str, Seq | Nested] = {"text": nested}
    elif config.reads == "characters":
        words = padded([[sum(inner) % 30 for inner in row] for row in rows])
        inputs = {"characters": nested, "text": words}
    elif config.reads == "values":
        steps = Seq(torch.sin(flat.values.unsqueeze(-1) * torch.arange(1, 4)), flat.mask)  # B T 3
        if config.kind == "window":  # all of one length
            steps = Seq(
                steps.values[:, :1].repeat(1, FACTS.window, 1), flat.mask[:, :1].repeat(1, FACTS.window)
            )
        inputs = {"values": steps}
    elif config.reads == "image":
        inputs = {"image": pictures([sum(map(sum, row)) for row in rows])}
    elif config.reads == "label":
        inputs = {"label": Seq(flat.values[:, :1], flat.mask[:, :1])}
    elif config.reads == "grams":
        inputs = {"grams": flat, "weights": Seq(flat.values * 0.1, flat.mask)}
    else:
        inputs = {"text": flat, "segments": Seq((flat.values > 5).long(), flat.mask)}
    return Batch(inputs, torch.arange(len(rows)))
