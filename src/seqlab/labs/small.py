"""Small models taught on generated sequences, in seconds: for labs that need no files and no run folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seqlab.files import write_json
from seqlab.labs.frame import Work
from seqlab.labs.lab import Spread
from seqlab.labs.picture import Line
from seqlab.parts import EncoderConfig
from seqlab.seq import Seq

NOTHING = -100
"""The answer at positions where none is asked for."""
Made = tuple[Tensor, Tensor]
"""Ids that are read (B T), and the answer at each position (B T)."""
Make = Callable[[int, torch.Generator], Made]
"""So many rows, drawn with a random state."""


class SmallReader(nn.Module):
    """Ids (B T) to a score for each answer at each position (B T C): vectors, an encoder of ours, a linear
    layer."""

    def __init__(self, symbols: int, answers: int, width: int, encoder: EncoderConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.encoder = encoder.build(width)
        self.answer = nn.Linear(self.encoder.width, answers)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        read = Seq(self.embedding(ids), torch.ones(ids.shape, dtype=torch.bool))
        scores: Tensor = self.answer(self.encoder(read).values)
        return scores


def teach(
    model: nn.Module, make: Make, steps: int, seed: int, rate: float = 3e-3, rows: int = 64, clip: float = 1.0
) -> list[float]:
    """Train on fresh rows at every step, with Adam and a rate that falls to nothing; the losses."""
    random = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    model.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, 10 * (step + 1) / steps, 2 * (1 - step / steps))
        ids, answers = make(rows, random)
        loss = functional.cross_entropy(model(ids).flatten(0, 1), answers.flatten(), ignore_index=NOTHING)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        losses.append(float(loss.detach()))
    model.eval()
    return losses


def averaged(losses: Sequence[float], points: int = 50) -> list[float]:
    """Losses of neighbouring steps averaged, to be drawn as about so many points."""
    every = max(1, len(losses) // points)
    return [sum(losses[at : at + every]) / every for at in range(0, len(losses) - every + 1, every)]


@torch.no_grad()
def accuracy(model: nn.Module, made: Made) -> float:
    """The share of the asked positions that are answered rightly."""
    ids, answers = made
    asked = answers != NOTHING
    return float((model(ids).argmax(dim=-1) == answers)[asked].double().mean())


# One entry a seed for each arm ------------------------------------------------------------------------------

Numbers = Mapping[str, Any]
"""What came of one arm with one seed; JSON holds it."""


def once(work: Work, name: str, compute: Callable[[], Numbers]) -> dict[str, Any]:
    """Numbers that are computed unless they stand in the lab's folder already: a stopped lab goes on."""
    path = work.folder / "trials" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, compute())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def each_seed(
    work: Work, arms: Sequence[str], compute: Callable[[str, int], Numbers], shown: str
) -> dict[str, list[dict[str, Any]]]:
    """Every arm with every seed, an entry a seed; `shown` is the number to tell on the way."""
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    for seed in range(work.seeds):
        for arm in arms:
            name = f"{arm.replace(' ', '-').replace('/', '-')}-{seed}"
            one = once(work, name, partial(compute, arm, seed))
            found[arm].append(one)
            work.progress.say(f"seed {seed}, {arm}: {shown} {one[shown]:.3g}")
    return found


def spread(runs: Sequence[Numbers], key: str) -> Spread:
    """One number over seeds."""
    return Spread(tuple(float(one[key]) for one in runs))


def spreads(runs: Sequence[Numbers], key: str) -> list[Spread]:
    """A list of numbers over seeds, place by place."""
    return [Spread(tuple(values)) for values in zip(*(one[key] for one in runs), strict=True)]


def line(name: str, xs: Sequence[float], runs: Sequence[Numbers], key: str, band: bool = True) -> Line:
    """A list of numbers over seeds, drawn."""
    places = spreads(runs, key)
    return Line(name, xs, [one.mean for one in places], [one.deviation for one in places] if band else ())


def sure(change: Spread) -> bool:
    """Whether the 95 % interval of a difference leaves zero out."""
    return abs(change.mean) > change.margin


def doubt(change: Spread) -> str:
    """What to add to a difference that seeds alone could have made."""
    return "" if sure(change) else f", though {len(change.values)} seeds can't tell that from chance"
