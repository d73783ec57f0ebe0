"""The lab `shapes` (SPEC S1-S4): vector to sequence, sequence to vector, aligned and unaligned, with one body
on one data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from seqlab.answers.exercises import padded
from seqlab.data.batches import Rows
from seqlab.data.tokenizers import BOS, EOS
from seqlab.decode import DecodeConfig
from seqlab.decoders import Attending, Causal
from seqlab.encoders import Lstm, NoEncoder, Transformer
from seqlab.inputs import Tokens, Vectors
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.loops import Numbers, fit, line_of, measured, places_of, smoothed
from seqlab.labs.pairs import FIRST, search_ids
from seqlab.labs.picture import Panel
from seqlab.labs.walks import GROUPS, LENGTHS, ClockWalk, walks
from seqlab.model import Model, ModelConfig
from seqlab.outputs import Last, Linear
from seqlab.parts import Batch, DecoderConfig, EncoderConfig, Facts, Places, meant
from seqlab.seq import Nested, Seq

STEPS = (500, 2000)
"""Quick and whole."""
WIDTH, AT_ONCE, TESTED, POINTS = 64, 64, 350, 30
"""Of the model; walks of a step; the first walks, which are tested on; points of a curve."""
BODIES: dict[str, EncoderConfig] = {
    "LSTM": Lstm(width=WIDTH),
    "Transformer": Transformer(layers=2, heads=4, feed_forward=2 * WIDTH, dropout=0.0),
}
RATES = {"LSTM": 5e-3, "Transformer": 3e-3}
SHAPES = {
    "vec2seq": "vector → sequence (S1): write the walk that a vector tells of",
    "seq2vec": "sequence → vector (S2): tell the vector of a walk",
    "aligned": "sequence → sequence, aligned (S3): at each number, how often the walk has passed ten,"
    " modulo 3",
    "unaligned": "sequence → sequence, unaligned (S4): write the first number after each time it passed ten",
}


def batch_of(shape: str, some: Sequence[ClockWalk], rows: Rows) -> Batch:
    """These walks, as what is read and what is meant."""
    read = padded([FIRST + np.array(walk.numbers) for walk in some])
    vectors = torch.tensor([walk.vector for walk in some])
    slots = Seq(vectors.unsqueeze(1), torch.ones(len(some), 1, dtype=torch.bool))
    inputs: dict[str, Seq | Nested] = {"values": slots} if shape == "vec2seq" else {"text": read}
    written = [walk.numbers if shape == "vec2seq" else walk.landings for walk in some]
    target: Any = vectors
    if shape == "aligned":
        passed = torch.tensor([label for walk in some for label in walk.passed])
        target = Places(read.mask.flatten().nonzero().flatten(), passed, read.lengths)
    if shape in ("vec2seq", "unaligned"):
        target = padded([np.array([BOS, *(FIRST + one for one in ids), EOS]) for ids in written])
    return Batch(inputs, torch.from_numpy(rows), {ANSWERS[shape]: target})


ANSWERS = {"vec2seq": "written", "seq2vec": "row", "aligned": "places", "unaligned": "written"}


def model_of(shape: str, body: EncoderConfig) -> Model:
    """The body reads, writes, or both."""
    symbols, features = {"text": FIRST + 10, "written": FIRST + 10}, {"values": sum(GROUPS)}
    facts = Facts(symbols=symbols, outputs={"row": sum(GROUPS), "places": 3}, features=features)
    writer: DecoderConfig = (Causal if isinstance(body, Transformer) else Attending)(width=WIDTH, body=body)
    read: dict[str, Any] = {
        "input": Tokens(width=WIDTH, scale=1.0),
        "encoder": body,
        "pool": None,
        "head": None,
    }
    settings: dict[str, dict[str, Any]] = {
        "vec2seq": {"input": Vectors(width=WIDTH), "encoder": NoEncoder(), "decoder": writer},
        "seq2vec": {"pool": Last(), "head": Linear()},
        "aligned": {"places": Linear()},
        "unaligned": {"decoder": writer},
    }
    return Model(ModelConfig(**{**read, **settings[shape]}), facts)


def wanted_of(shape: str, walk: ClockWalk) -> tuple[float, ...]:
    """The whole answer to a walk."""
    answers: dict[str, Sequence[float]] = {
        "vec2seq": walk.numbers,
        "seq2vec": walk.vector,
        "aligned": walk.passed,
        "unaligned": walk.landings,
    }
    return tuple(answers[shape])


@torch.no_grad()
def answers_of(model: Model, shape: str, tested: Sequence[ClockWalk]) -> list[tuple[float, ...]]:
    """What the model says of each walk."""
    if ANSWERS[shape] == "written":
        how = DecodeConfig(longest=2 * LENGTHS[-1])
        sizes = np.full(len(tested), 2)
        found = search_ids(
            model, sizes, lambda rows: batch_of(shape, [tested[row] for row in rows], rows), how
        )
        return [tuple(number - FIRST for number in best[0].ids) for best in found]
    batch = batch_of(shape, tested, np.arange(len(tested)))
    scores = model(batch).answers[ANSWERS[shape]].scores
    if shape == "aligned":
        lengths = [walk.length for walk in tested]
        return [tuple(some.tolist()) for some in scores.argmax(dim=-1).split(lengths)]
    chosen = [one_hot(part.argmax(dim=-1), part.shape[1]) for part in scores.split(GROUPS, dim=-1)]
    return [tuple(row) for row in torch.cat(chosen, dim=-1).double().tolist()]


def loss_of_row(scores: Tensor, wanted: Tensor) -> Tensor:
    """−log p of a vector, each of whose parts is one choice (B C)."""
    parts = zip(scores.split(GROUPS, dim=-1), wanted.split(GROUPS, dim=-1), strict=True)
    return torch.stack([cross_entropy(one, two.argmax(dim=-1)) for one, two in parts]).sum()


def measure(shape: str, body: str, seed: int, steps: int) -> Numbers:
    """How many walks are answered without a fault."""
    torch.manual_seed(seed)
    model, random = model_of(shape, BODIES[body]), np.random.default_rng(seed)
    tested, learnt = walks()[:TESTED], walks()[TESTED:]

    def loss_of(step: int) -> Tensor:
        rows = random.integers(0, len(learnt), AT_ONCE)
        batch = batch_of(shape, [learnt[row] for row in rows], rows)
        reply, wanted = model(batch).answers[ANSWERS[shape]], meant(batch.targets[ANSWERS[shape]])
        return (loss_of_row if shape == "seq2vec" else cross_entropy)(reply.scores, wanted)

    losses = fit(model, steps, loss_of, rate=RATES[body])
    wanted = [wanted_of(shape, walk) for walk in tested]
    [(commonest, _)] = Counter(wanted_of(shape, walk) for walk in learnt).most_common(1)
    said = answers_of(model, shape, tested)
    return {
        "losses": losses,
        "right": float(np.mean([one == two for one, two in zip(said, wanted, strict=True)])),
        "blind": float(np.mean([one == commonest for one in wanted])),
    }


def study(work: Work) -> Finding:
    """Every shape with every body and seed."""
    steps = work.of(*STEPS)
    cases: dict[str, dict[str, Any]] = {
        f"{shape}-{body}-{seed}": {"shape": shape, "body": body, "seed": seed, "steps": steps}
        for shape in SHAPES
        for body in BODIES
        for seed in range(work.seeds)
    }
    numbers = measured(work, "shapes", cases)
    found = {
        (shape, body): [numbers[f"{shape}-{body}-{seed}"] for seed in range(work.seeds)]
        for shape in SHAPES
        for body in BODIES
    }
    right = {cell: Spread(tuple(one["right"] for one in some)) for cell, some in found.items()}
    blind = {shape: found[shape, "LSTM"][0]["blind"] for shape in SHAPES}
    rows = tuple(
        (told, *(str(right[shape, body]) for body in BODIES), f"{blind[shape]:.3f}")
        for shape, told in SHAPES.items()
    )
    xs = places_of(steps, POINTS)
    panels = tuple(
        Panel(
            body,
            "step",
            "loss / first loss",
            tuple(
                line_of(
                    shape,
                    xs,
                    [
                        [one / some["losses"][0] for one in smoothed(some["losses"], POINTS)]
                        for some in found[shape, body]
                    ],
                )
                for shape in SHAPES
            ),
            log="y",
        )
        for body in BODIES
    )
    return Finding(
        title="Four shapes, one body",
        verdict=verdict(right, blind),
        tables=(
            ResultTable(
                f"Share of {TESTED} new walks answered without a fault, {work.seeds} seeds",
                ("shape", *BODIES, "commonest answer"),
                rows,
            ),
        ),
        panels=panels,
        numbers={f"{shape} {body}": one.to_json() for (shape, body), one in right.items()} | {"blind": blind},
        notes=(
            f"{len(walks()):,} walks on a clock of ten; a body {WIDTH} wide, {steps:,} steps of {AT_ONCE}"
            " walks for each shape. Only what stands before and after the body differs: tokens or a"
            " vector that are read; a pool and a head, a head at each position, or a vocabulary that"
            " writes.",
            "The commonest answer is what a model could say without reading. ± is one standard deviation.",
        ),
    )


def verdict(right: Mapping[tuple[str, str], Spread], blind: Mapping[str, float]) -> str:
    """Which shapes each body solves."""
    lines = []
    for body in BODIES:
        solved = [shape for shape in SHAPES if right[shape, body].mean - blind[shape] > 0.5]
        worst = min(SHAPES, key=lambda shape: right[shape, body].mean)
        told = "all four shapes" if len(solved) == len(SHAPES) else f"{', '.join(solved) or 'no shape'}"
        lines.append(
            f"{body}: one body answers {told} far better than the commonest answer does; the lowest is"
            f" {worst}, {right[worst, body].mean:.0%} without a fault."
        )
    return "\n".join(lines)


run = lab("shapes", study, seeds=(3, 5))
