"""The lab `reach` (SPEC C1): how far back a convolution sees, beside a recurrent layer and self-attention.

A row of random letters holds one digit, n places before its end; the state at the end has to say which digit.
What lies beyond the reach of a convolution can only be guessed, however long it learns.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from seqlab.config import Tree, dump
from seqlab.encoders import Conv
from seqlab.labs.arms import ArmOf, train_arms, write_rows
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.picture import Line, Panel
from seqlab.run import Run
from seqlab.seq import Seq

LETTERS, DIGITS = "abcdefgh", "01"
WIDTH, KERNEL = 32, 3
CONVS: dict[str, Tree] = {
    "conv, 2 layers": {"layers": 2},
    "conv, 4 layers": {"layers": 4},
    "conv, 3 layers, stride 2": {"layers": 3, "stride": 2},
    "conv, 3 layers, dilated": {"layers": 3, "dilation": "growing"},
}
"""Rows have 1 + a multiple of 8 letters, so that stride 2 leaves the last one a state."""
LOOKS = "self-attention"
OTHERS = ("rnn", "lstm", LOOKS)
GUESSED = 1 / len(DIGITS)


def theory(layers: int, stride: int = 1, dilation: str = "none", kernel: int = KERNEL) -> int:
    """Positions that one state depends on: 1 + L(k − 1); at stride 2, 1 + (2^L − 1)(k − 1); dilated, k^L."""
    if dilation == "growing":
        return int(kernel**layers)
    return int(1 + (kernel - 1) * (layers if stride == 1 else 2**layers - 1))


def letters(draw: random.Random, length: int, back: int) -> tuple[str, str]:
    """A row with a digit so many places before its last one, and that digit."""
    row, digit = draw.choices(LETTERS, k=length), draw.choice(DIGITS)
    row[length - 1 - back] = digit
    return " ".join(row), digit


def model_of(name: str) -> tuple[str, Tree]:
    """A preset and its settings: small, its answer from the state at the last position alone."""
    alike: Tree = {"model.input.width": WIDTH, "model.pool.kind": "last", "model.head.dropout": 0.0,
                   "training.rate": 5e-3, "training.batch_tokens": 1024, "training.patience": 99}  # fmt: skip
    if name in CONVS:
        return "cnn", alike | {
            "model.encoder": dump(Conv(width=WIDTH, kernel=KERNEL, causal=True, **CONVS[name]))
        }
    if name == LOOKS:
        small = {"layers": 1, "feed_forward": 2 * WIDTH, "dropout": 0.0}
        return "transformer", alike | {f"model.encoder.{key}": value for key, value in small.items()}
    return name, alike | {"model.encoder.width": WIDTH}


def seen(run: Run, length: int) -> int:
    """Positions before and at the last one whose vectors move its state: those with a gradient."""
    model = run.model
    assert model.encoder is not None and model.pool is not None and model.input is not None
    random = torch.Generator().manual_seed(0)
    vectors = torch.randn(8, length, model.input.width, generator=random).requires_grad_()
    states = model.encoder(Seq(vectors, torch.ones(8, length, dtype=torch.bool)))
    [gradient] = torch.autograd.grad(model.pool(states).vector.sum(), vectors)
    moved = gradient.abs().sum(dim=(0, 2)).nonzero()
    return length - int(moved[0])


def by_distance(runs: Sequence[Run], length: int, count: int) -> list[Spread]:
    """How many of `count` rows each run gets right, for every distance."""
    draw, found = random.Random("asked"), []
    for back in range(length):
        texts, digits = zip(*(letters(draw, length, back) for _ in range(count)), strict=True)
        said = [[answer.label for answer in run.predict(list(texts))] for run in runs]
        found.append(Spread(tuple(
            sum(a == b for a, b in zip(some, digits, strict=True)) / count for some in said)))  # fmt: skip
    return found


def study(work: Work) -> Finding:
    """Accuracy against distance, with the reach that the formula gives drawn in."""
    length = work.of(33, 65)
    counts = {"train": work.of(3000, 6000), "valid": 300, "test": 300}

    def arm(name: str, seed: int) -> ArmOf:
        draw = random.Random(f"reach {seed}")
        preset, settings = model_of(name)
        for split, count in counts.items():
            rows = [letters(draw, length, draw.randrange(length)) for _ in range(count)]
            settings[f"data.{split}"] = (write_rows(work.folder / "data" / f"{split}-{seed}.csv", rows),)
        return ArmOf(settings | {"training.steps": work.of(400, 1000), "training.validations": 2}, preset)

    runs = train_arms(work, (*CONVS, *OTHERS), arm)
    accuracy = {name: by_distance(some, length, work.of(200, 400)) for name, some in runs.items()}
    reaches = {name: min(length, theory(**CONVS[name])) if name in CONVS else length for name in runs}
    measured = {name: seen(some[0], length) for name, some in runs.items()}
    within = {name: Spread.mean_of(some[: reaches[name]]) for name, some in accuracy.items()}
    beyond = {
        name: Spread.mean_of(some[reaches[name] :])
        for name, some in accuracy.items()
        if reaches[name] < length
    }
    table = tuple(
        (name, f"{reaches[name]}", f"{measured[name]}", str(within[name]),
         str(beyond[name]) if name in beyond else "", f"{some[-1].mean:.3f}")
        for name, some in accuracy.items()
    )  # fmt: skip
    header = ("model", "reach by formula", "by gradient", "accuracy within", "beyond", "at the farthest")
    sentences = [
        f"{name}: sees {measured[name]} positions (formula: {reaches[name]}); {within[name].mean:.3f} within,"
        f" {beyond[name].mean:.3f} beyond, where guessing has {GUESSED:.2f}."
        for name in CONVS if name in beyond
    ]  # fmt: skip
    sentences += [
        f"{name}: {some[0].mean:.3f} at the last position, {some[-1].mean:.3f} {length - 1} before it."
        for name, some in accuracy.items() if name in OTHERS
    ]  # fmt: skip
    distances = list(range(length))
    lines = {name: Line(name, distances, [one.mean for one in some], [one.deviation for one in some])
             for name, some in accuracy.items()}  # fmt: skip
    edges = [Line(f"reach {reaches[name]}", [reaches[name] - 0.5] * 2, [0.4, 1.0]) for name in beyond]
    across, up = "places before the last one", "accuracy"
    return Finding(
        title="How far a convolution sees",
        verdict="\n".join(sentences),
        tables=(ResultTable(f"Rows of {length} letters, seeds: {work.seeds}", header, table),),
        panels=(Panel("Convolutions, kernel 3", across, up, (*(lines[name] for name in CONVS), *edges)),
                Panel("Others", across, up, tuple(lines[name] for name in OTHERS))),
        numbers={"reach": reaches, "measured": measured,
                 "accuracy": {name: [one.to_json() for one in some] for name, some in accuracy.items()}},
        notes=("The answer comes from the state at the last position. All convolutions look back only.",
               "By gradient: the positions whose vectors move that state, with trained weights."),
    )  # fmt: skip


run = lab("reach", study, seeds=(2, 4))
