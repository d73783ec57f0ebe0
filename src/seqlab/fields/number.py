"""A number for each row, which models learn on a scale of the training rows."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import Role
from seqlab.data.survey import Look, Split, Splits, first_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Field

USUAL = (
    "label",
    "class",
    "category",
    "sentiment",
    "target",
    "topic",
    "rating",
    "score",
    "y",
    "number",
    "value",
)


@dataclass(frozen=True)
class NumberFacts:
    mean: float = 0.0
    spread: float = 1.0
    """Numbers are learnt as (number − mean) / spread."""


class NumberLook(Look):
    """The number of each row."""

    def __init__(self, role: str) -> None:
        self.role, self._numbers = role, array("d")

    def see(self, cells: Cells, mark: int) -> None:
        cell = cells.get(self.role)
        self._numbers.append(float(cell) if cell else float("nan"))

    @property
    def numbers(self) -> NDArray[np.float64]:
        return np.array(self._numbers, np.float64)


class NumberField(Field):
    """A number."""

    name = "number"
    Facts = NumberFacts
    facts: NumberFacts

    def __init__(self, role: str = "label", usual: tuple[str, ...] = USUAL) -> None:
        self.facts = NumberFacts()
        self.role, self.usual = role, usual

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [Role(self.role, self.usual, number=True)]

    def look(self, split: str) -> NumberLook:
        return NumberLook(self.role)

    def lines(self, split: Split) -> list[str]:
        look: NumberLook = split.looks[self.name]
        if not len(look.numbers):
            return ["  no labels"]
        low, half, high = np.quantile(look.numbers, [0, 0.5, 1])
        mean, spread = look.numbers.mean(), look.numbers.std()
        return [
            f"  numbers: from {low:g} to {high:g}, half up to {half:g}, mean {mean:g}, standard deviation"
            f" {spread:g}"
        ]

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        look: NumberLook = first_of(splits).looks[self.name]
        numbers = look.numbers[chosen]
        self.facts = NumberFacts(float(numbers.mean()), float(numbers.std()) or 1.0)

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.mean, self.facts.spread]}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        numbers = np.array([self._number(cells[self.role]) for cells in rows], np.float64)
        return Encoded(
            arrays={"target": ((numbers - self.facts.mean) / self.facts.spread).astype(np.float32)}
        )

    def _number(self, cell: str) -> float:
        try:
            return float(cell)
        except ValueError:
            raise UserError(
                what=f'The {self.role} "{cell[:40]}" is not a number.',
                why="It is to be compared with one.",
                fix="Write a plain number, such as 3.5.",
            ) from None

    def in_units(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as a user writes them, from those that a model learns."""
        return numbers.astype(np.float64) * self.facts.spread + self.facts.mean
