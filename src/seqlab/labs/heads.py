"""Is one wide head as good as several narrow ones? They have equally many parameters (SPEC A2, L2).

A row holds pairs of a key and a symbol, then questions with two keys each: which symbols stand with them? To
answer, a position has to look at two places and keep apart what it finds there.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqlab.encoders import Transformer
from seqlab.labs.few_labels import told_difference
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Panel
from seqlab.labs.small import (
    NOTHING,
    Made,
    SmallReader,
    accuracy,
    averaged,
    each_seed,
    line,
    spread,
    sure,
    teach,
)
from seqlab.nn.positions import NoPositions
from seqlab.parts import record

KEYS, SYMBOLS, QUESTIONS, WIDTH = 8, 8, 8, 16
RATE = 1e-2
HEADS = (1, 2, 4)
SHOWN = ("accuracy", "one_focus", "likeness")
STEPS = (800, 3000)
"""Of each training, quick and whole."""
NOTES = (
    f"{KEYS} pairs of a key and a symbol in random order, {QUESTIONS} questions with two keys each; one"
    f" layer of width {WIDTH} without positions. The same rows for all.",
    "Two looks apart: the cosine between the attention of two heads at a question, the smallest of all pairs"
    " of heads; 1 with a single head.",
)


class TwoAnswers(SmallReader):
    """Two symbols at each position (B 2T S)."""

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B N S"]:
        scores: Tensor = super().forward(ids).unflatten(-1, (2, SYMBOLS)).flatten(1, 2)
        return scores


def looked_up(rows: int, random: torch.Generator, foci: int = 2) -> Made:
    """Pairs, then questions; the two answers of each position side by side. One focus: both keys the same."""
    order = torch.rand(rows, KEYS, generator=random).argsort(dim=1)
    symbols = torch.randint(SYMBOLS, (rows, KEYS), generator=random)  # by key
    keys = torch.randint(KEYS, (rows, QUESTIONS, 2), generator=random)
    keys = keys if foci == 2 else keys[:, :, :1].expand(-1, -1, 2)
    pairs = order * SYMBOLS + symbols.gather(1, order)
    questions = KEYS * SYMBOLS + keys[:, :, 0] * KEYS + keys[:, :, 1]
    found = symbols.gather(1, keys.flatten(1))  # B 2·questions
    none = torch.full((rows, 2 * KEYS), NOTHING)
    return torch.cat([pairs, questions], dim=1), torch.cat([none, found], dim=1)


def build(heads: int, merged: bool = False) -> TwoAnswers:
    encoder = Transformer(
        layers=1, heads=heads, feed_forward=2 * WIDTH, positions=NoPositions(), dropout=0.0,
        merged_query_key=merged,
    )  # fmt: skip
    return TwoAnswers(KEYS * SYMBOLS + KEYS**2, 2 * SYMBOLS, WIDTH, encoder)


@torch.no_grad()
def likeness(model: nn.Module) -> float:
    """The smallest cosine between what two heads look at, at the questions."""
    with record(model) as maps:
        model(looked_up(64, torch.Generator().manual_seed(7))[0])
    weights = next(iter(maps.values()))[0][:, :, KEYS:]  # B H questions T
    flat = nn.functional.normalize(weights.transpose(0, 1).flatten(1, 2), dim=-1)  # H N T
    cosines = torch.einsum("hnt,gnt->nhg", flat, flat).mean(dim=0)
    return float(cosines.min())


def one_run(heads: int, seed: int, steps: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = build(heads)
    losses = teach(model, looked_up, steps, seed, RATE)
    random = torch.Generator().manual_seed(1000 + seed)
    return {
        "accuracy": accuracy(model, looked_up(500, random)),
        "one_focus": accuracy(model, looked_up(500, random, foci=1)),
        "likeness": likeness(model),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "losses": averaged(losses),
    }


def study(work: Work) -> Finding:
    steps = work.of(*STEPS)
    arms = {f"{heads} × {WIDTH // heads}": heads for heads in HEADS}
    runs = each_seed(work, list(arms), lambda arm, seed: one_run(arms[arm], seed, steps), "accuracy")
    right = {arm: spread(some, "accuracy") for arm, some in runs.items()}
    one, *several = arms
    lines = [
        f"{told_difference(right[arm].minus(right[one]), arm, one)}, at equal parameters." for arm in several
    ]
    best = max(several, key=lambda arm: right[arm].mean)
    gain = right[best].minus(right[one])
    shown = sure(gain) and gain.mean > 0
    lines.append(f"That two foci need several heads {'shows' if shown else 'does not show'} here.")
    table = ResultTable(
        "Share of right answers, over seeds",
        ("heads × width", "parameters", "two keys", "one key", "cosine"),
        tuple(
            (arm, f"{some[0]['parameters']:,}", *(str(spread(some, key)) for key in SHOWN))
            for arm, some in runs.items()
        ),
    )
    points = len(runs[one][0]["losses"])
    xs = [steps * (place + 1) / points for place in range(points)]
    panel = Panel(
        "Two keys a question",
        "step",
        "loss",
        tuple(line(arm, xs, some, "losses") for arm, some in runs.items()),
    )
    numbers = {"runs": runs, "steps": xs}
    return Finding(
        "One wide head or several narrow ones", "\n".join(lines), (table,), (panel,), numbers, NOTES
    )


run = lab("heads", study, seeds=(5, 8))
