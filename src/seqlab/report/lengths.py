"""How the costs of models grow with the length of a sequence, and where self-attention overtakes a recurrent
layer: all from the formulas of the layers themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from seqlab.encoders import Gru, Lstm, Rnn, Transformer
from seqlab.encoders.transformer import TransformerEncoder
from seqlab.model import Model
from seqlab.nn.positions import LearnedPositions
from seqlab.parts import Cost
from seqlab.report.amounts import memory, short
from seqlab.report.cost import Inspection
from seqlab.report.evaluate import aligned
from seqlab.report.layer_costs import layer_costs

MOST = 2**24
"""Positions up to which a crossing is looked for."""
HEADER = ("n", "forward", "backward", "memory", "steps", "path", "as trees", "one by one")


@dataclass(frozen=True)
class Sweep:
    """The costs of models at several lengths."""

    names: Sequence[str]
    lengths: Sequence[int]
    found: Sequence[Sequence[Inspection]]
    """Of each model, at each length."""
    crossings: Sequence[str]
    """Sentences."""

    def rows(self, number: int) -> list[tuple[str, ...]]:
        """Of one model, a row for each length."""
        return [
            (
                f"{one.length:,}",
                short(one.forward),
                short(one.backward),
                memory(one.kept),
                f"{one.steps:,}",
                f"{one.path:,}",
                *(f"{time:,}" for time in one.parallel),
            )
            for one in self.found[number]
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "lengths": list(self.lengths),
            "models": [
                {
                    "name": name,
                    "forward": [one.forward for one in found],
                    "backward": [one.backward for one in found],
                    "example_bytes": [one.kept for one in found],
                    "sequential_steps": [one.steps for one in found],
                    "longest_path": [one.path for one in found],
                    "trees": [one.parallel[0] for one in found],
                    "serial": [one.parallel[1] for one in found],
                }
                for name, found in zip(self.names, self.found, strict=True)
            ],
            "crossings": list(self.crossings),
        }

    def __str__(self) -> str:
        parts = []
        for number, name in enumerate(self.names):
            title = [name] if len(self.names) > 1 else []
            parts.append("\n".join([*title, aligned([HEADER, *self.rows(number)], left=())]))
        return "\n\n".join([*parts, "\n".join(self.crossings)])


def crossing(one: Callable[[int], float], other: Callable[[int], float]) -> int | None:
    """The first length at which `one` costs more than `other`; None where it never does. 1: it always does.

    Both grow steadily, so that they cross once.
    """
    if one(MOST) <= other(MOST):
        return None
    low, high = 0, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if one(middle) > other(middle) else (middle, high)
    return high


def layer_crossings(width: int) -> list[str]:
    """Where a layer of self-attention overtakes a recurrent one of the same width, by their own formulas."""
    with torch.device("meta"):
        encoder = Transformer(layers=1, heads=1).build(width)
        cells = {kind.kind: kind(width=width).build(width) for kind in (Rnn, Gru, Lstm)}

    def attention(length: int) -> Cost:
        assert isinstance(encoder, TransformerEncoder)
        return next(cost for cost in encoder.costs(length) if cost.name.endswith("attention"))

    leading = crossing(lambda n: attention(n).work, lambda n: cells["rnn"].costs(n)[0].work)
    assert leading is not None
    lines = [
        f"Layers of width d = {width:,}, leading terms n²d and nd²: self-attention takes less work than a"
        f" recurrent layer up to n = {leading - 1:,}, and more from n = {leading:,} on."
    ]
    told = []
    for kind, cell in cells.items():
        place = crossing(lambda n: whole(attention(n)), lambda n, cell=cell: whole(cell.costs(n)[0]))  # type: ignore[misc]
        assert place is not None
        told.append(f"{kind} at any length" if place == 1 else f"{kind} from n = {place:,} on")
    lines.append(f"With projections and both products it takes more than {both_of(told)}.")
    return lines


def whole(cost: Cost) -> int:
    """All multiply-adds of a layer, forward."""
    return cost.work + cost.projections + cost.mixing


def model_crossings(models: dict[str, Model]) -> list[str]:
    """Where one of two models overtakes the other."""
    lines = []
    for (first, one), (second, other) in combinations(models.items(), 2):
        costs = {first: _forward(one), second: _forward(other)}
        dear, cheap = (first, second) if costs[first](MOST) > costs[second](MOST) else (second, first)
        place = crossing(costs[dear], costs[cheap])
        if place is None:
            lines.append(f"{first} and {second} take the same work forward.")
        elif place == 1:
            lines.append(f"{dear} takes more work forward than {cheap} at any length.")
        else:
            lines.append(f"{dear} takes more work forward than {cheap} from n = {place:,} on, less before.")
    return lines


def _forward(model: Model) -> Callable[[int], float]:
    return lambda length: sum(layer.forward for layer in layer_costs(model, length))


def width_of(model: Model) -> int | None:
    """How wide the states of a model are, where it has positions side by side."""
    if model.encoder is not None and model.encoder.costs(1):
        return model.encoder.width
    body = getattr(model.decoder, "body", None)
    return None if body is None else int(body.width)


def known_positions(model: Model) -> int | None:
    """How many positions a model has learned, where it learns them."""
    learned = [module.config.length for module in model.modules() if isinstance(module, LearnedPositions)]
    return min(learned, default=None)


def both_of(parts: Sequence[str]) -> str:
    """a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
