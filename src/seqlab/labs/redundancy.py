"""Do hops look at the same place, and does a penalty part them? (SPEC A5)

A row of noise holds a symbol of each of several groups, and all are asked for, from the weighted means of a
structured pool. The penalty ‖A Aᵀ − I‖² and the mean KL divergence between hops stand side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqlab.labs.few_labels import told_difference
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.picture import Heat
from seqlab.labs.small import Made, each_seed, spread, sure
from seqlab.outputs.pools import Structured, hop_cosine, hop_products, kl_penalty, overlap_penalty
from seqlab.seq import Seq

HOPS, GROUPS, SYMBOLS, NOISE, LENGTH, WIDTH = 4, 3, 6, 40, 24, 24
PENALTIES: dict[str, tuple[float, Callable[[Tensor], Tensor]] | None] = {
    "none": None,
    "overlap": (1.0, overlap_penalty),
    "kl": (0.1, kl_penalty),
}
SIZES = ((64, 8, 64), (64, 30, 64), (64, 30, 256))
"""Rows, hops and positions at which the penalties are timed."""
STEPS = (600, 2000)
"""Of each training, quick and whole."""
NOTES = (
    f"{LENGTH} positions: one symbol of each of {GROUPS} groups of {SYMBOLS}, the rest of {NOISE} other"
    f" symbols; {HOPS} hops over vectors of width {WIDTH}. Adam.",
    "Cosine: the mean of g_ij / √(g_ii g_jj) over two hops, with G = A Aᵀ; raw: the mean of g_ij, which is"
    " small for flat hops that are all alike, too.",
    "Time of a penalty and its gradient, one thread, the least of several runs.",
)


def mixed(rows: int, random: torch.Generator) -> Made:
    """Rows with a symbol of each group somewhere, and those symbols (B G)."""
    symbols = torch.randint(SYMBOLS, (rows, GROUPS), generator=random)
    ids = GROUPS * SYMBOLS + torch.randint(NOISE, (rows, LENGTH), generator=random)
    places = torch.rand(rows, LENGTH, generator=random).argsort(dim=1)[:, :GROUPS]
    return ids.scatter(1, places, symbols + SYMBOLS * torch.arange(GROUPS)), symbols


class Hops(nn.Module):
    """Ids to a score for each symbol of each group (B G S), and the weights of the hops (B R T)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(GROUPS * SYMBOLS + NOISE, WIDTH)
        self.pool = Structured(hops=HOPS, hidden=WIDTH).build(WIDTH)
        self.answer = nn.Linear(self.pool.width, GROUPS * SYMBOLS)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        pooled = self.pool(Seq(self.embedding(ids), torch.ones(ids.shape, dtype=torch.bool)))
        assert pooled.weights is not None
        return self.answer(pooled.vector).unflatten(1, (GROUPS, SYMBOLS)), pooled.weights


def one_run(name: str, seed: int, steps: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model, random, penalty = Hops(), torch.Generator().manual_seed(seed), PENALTIES[name]
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids, symbols = mixed(64, random)
        scores, weights = model(ids)
        loss = functional.cross_entropy(scores.flatten(0, 1), symbols.flatten())
        if penalty is not None:
            loss = loss + penalty[0] * penalty[1](weights).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        ids, symbols = mixed(1000, torch.Generator().manual_seed(1000 + seed))
        scores, weights = model(ids)
        right = float((scores.argmax(dim=-1) == symbols).double().mean())
    return {
        "accuracy": right,
        "cosine": float(hop_cosine(weights).mean()),
        "raw": float(hop_products(weights).mean()),
        "map": weights[0].tolist(),
    }


def seconds(penalty: Callable[[Tensor], Tensor], rows: int, hops: int, length: int) -> float:
    """What a penalty and its gradient take."""
    weights = torch.rand(rows, hops, length).softmax(dim=-1).requires_grad_()
    took = []
    for _ in range(12):
        began = time.process_time()
        torch.autograd.grad(penalty(weights).sum(), weights)
        took.append(time.process_time() - began)
    return min(took)


def study(work: Work) -> Finding:
    steps = work.of(*STEPS)
    runs = each_seed(work, list(PENALTIES), lambda name, seed: one_run(name, seed, steps), "cosine")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = {size: (seconds(overlap_penalty, *size), seconds(kl_penalty, *size)) for size in SIZES}
    torch.set_num_threads(threads)
    alone, right = spread(runs["none"], "cosine"), spread(runs["none"], "accuracy")
    lines = []
    for name in ("overlap", "kl"):
        now = spread(runs[name], "cosine")
        pairs = zip(now.values, alone.values, strict=True)
        below = Spread(tuple(after - before / 2 for after, before in pairs))
        halved = "at least halved" if below.mean < 0 and sure(below) else "not surely halved"
        gain = told_difference(spread(runs[name], "accuracy").minus(right), name, "no penalty")
        lines.append(
            f"{name}: the cosine of two hops goes from {alone.mean:.2f} to {now.mean:.2f}: {halved}."
        )
        lines.append(f"In accuracy {gain}.")
    share = Spread(tuple(one / two for one, two in times.values())).mean
    lines.append(f"The overlap penalty takes {share:.2f} of the KL penalty's time (the course says a third).")
    keys = ("cosine", "raw", "accuracy")
    table = ResultTable(
        "Hops, over seeds",
        ("penalty", "cosine", "raw overlap", "right answers"),
        tuple((name, *(str(spread(some, key)) for key in keys)) for name, some in runs.items()),
    )
    clocks = ResultTable(
        "Milliseconds of a penalty with its gradient", ("rows × hops × positions", "overlap", "kl", "share"),
        tuple((" × ".join(map(str, size)), f"{1e3 * one:.2f}", f"{1e3 * two:.2f}", f"{one / two:.2f}")
              for size, (one, two) in times.items()),
    )  # fmt: skip
    hops = [str(hop + 1) for hop in range(HOPS)]
    maps = tuple(
        Heat(f"Penalty: {name}", "position", "hop", some[0]["map"], rows=hops) for name, some in runs.items()
    )
    numbers = {"runs": runs, "seconds": {" ".join(map(str, size)): pair for size, pair in times.items()}}
    return Finding("Do hops look at the same place?", "\n".join(lines), (table, clocks), maps, numbers, NOTES)


run = lab("redundancy", study, seeds=(3, 5))
