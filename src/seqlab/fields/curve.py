"""A sequence of numbers that is written: as many steps in every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.numbers import numbers_of
from seqlab.data.read import Role
from seqlab.data.store import Ragged
from seqlab.data.survey import Look, Problem, Split, Splits, first_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Field

CURVE = Role("values", ("values", "curve", "series", "signal", "y"), many=True)


@dataclass(frozen=True)
class CurveFacts:
    curve_steps: int = 0
    curve_means: tuple[float, ...] = ()
    curve_spreads: tuple[float, ...] = ()
    """Of each number of a step, over the training rows: models write (value − mean) / spread."""


class CurveLook(Look):
    """Steps, numbers a step, sums and sums of squares of each row."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.sums: list[NDArray[np.float64]] = []

    def see(self, cells: Cells, mark: int) -> None:
        if "values" not in cells:
            return
        numbers = numbers_of(cells["values"])
        self.shapes.append((len(numbers), numbers.shape[1]))
        self.sums.append(np.stack([numbers.sum(axis=0), (numbers**2).sum(axis=0)]))
        self.characters += numbers.size


class CurveField(Field):
    """Numbers of each step, on a scale that is learnt from the training rows."""

    name = "curve"
    Facts = CurveFacts
    facts: CurveFacts

    def __init__(self) -> None:
        self.facts = CurveFacts()

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [CURVE]

    def look(self, split: str) -> CurveLook:
        return CurveLook()

    def problems(self, splits: Splits) -> Iterator[Problem]:
        first = first_of(splits).looks[self.name].shapes
        for split in splits.values():
            for row, (steps, width) in enumerate(split.looks[self.name].shapes):
                if (steps, width) != first[0]:
                    yield Problem(
                        "error",
                        f"{split.name}: the values have {steps} steps of {width} here, but {first[0][0]} of"
                        f" {first[0][1]} in the first row.",
                        split.place(row),
                        "Numbers have no sign for the end: give all rows as many steps.",
                    )
                    break

    def lines(self, split: Split) -> list[str]:
        shapes = split.looks[self.name].shapes
        return [f"  values: {shapes[0][0]} steps of {shapes[0][1]}"] if shapes else []

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        look: CurveLook = first_of(splits).looks[self.name]
        steps = look.shapes[0][0]
        mean, square = np.stack(look.sums)[chosen].sum(axis=0) / (steps * chosen.sum())
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        scale = np.where(spread > 1e-12, spread, 1.0)
        self.facts = CurveFacts(steps, tuple(mean.tolist()), tuple(scale.tolist()))

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.curve_means, self.facts.curve_spreads]}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        """[0, y₁, ..., y_U] of each row: a decoder is fed all but the last."""
        curves = [numbers_of(cells["values"]) for cells in rows]
        shape = (self.facts.curve_steps, len(self.facts.curve_means))
        for row, curve in enumerate(curves):
            if curve.shape != shape:
                where = f"{places[row]}: " if places else ""
                raise UserError(
                    what=f"{where}the values have {curve.shape[0]} steps of {curve.shape[1]}.",
                    why=f"This model learnt to write {shape[0]} steps of {shape[1]}.",
                    fix="Give rows as in the training data.",
                )
        scaled = (np.stack(curves) - self.facts.curve_means) / np.array(self.facts.curve_spreads)  # N U C
        whole = np.concatenate([np.zeros_like(scaled[:, :1]), scaled], axis=1).astype(np.float32)
        offsets = np.arange(len(rows) + 1) * (shape[0] + 1)
        return Encoded({"written": Ragged(whole.reshape(-1, shape[1]), offsets)})

    def in_units(self, scaled: np.ndarray) -> NDArray[np.float64]:
        """Numbers as a user writes them (... C), from those that a model writes."""
        return np.asarray(scaled * np.array(self.facts.curve_spreads) + np.array(self.facts.curve_means))
