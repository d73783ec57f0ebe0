"""A number for each word, or an angle."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.conll import LINES
from seqlab.data.files import Place
from seqlab.data.numbers import is_number
from seqlab.data.read import Role
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.survey import Look, Split, Splits, first_of
from seqlab.data.words import TOKENS, line_of, listed, values_of, words_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Field

USUAL = ("values", "tags", "targets", "target", "numbers", "labels", "angles", "angle", "value", "y")


@dataclass(frozen=True)
class NumbersFacts:
    mean: float = 0.0
    spread: float = 1.0
    """Numbers are learnt as (number − mean) / spread."""


class NumbersLook(Look):
    """The numbers of all rows."""

    def __init__(self) -> None:
        self._numbers, self._sizes = array("d"), array("I")

    def see(self, cells: Cells, mark: int) -> None:
        numbers = [float(one) for one in values_of(cells["values"])]
        self._numbers.extend(numbers)
        self._sizes.append(len(numbers))

    @property
    def numbers(self) -> NDArray[np.float64]:
        return np.array(self._numbers, np.float64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array(self._sizes, np.int64)


class NumbersField(Field):
    """A number for each word, learnt on a scale of the training rows."""

    name = "values"
    Facts = NumbersFacts
    facts: NumbersFacts
    angles = False
    """Whether a whole turn is nothing."""

    def __init__(self) -> None:
        self.facts = NumbersFacts()

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [Role("values", USUAL, many=True, check=_check)]

    def look(self, split: str) -> NumbersLook:
        return NumbersLook()

    def lines(self, split: Split) -> list[str]:
        look: NumbersLook = split.looks[self.name]
        low, half, high = np.quantile(look.numbers, [0, 0.5, 1])
        mean, spread = look.numbers.mean(), look.numbers.std()
        return [
            f"  numbers: from {low:g} to {high:g}, half up to {half:g}, mean {mean:g}, standard deviation"
            f" {spread:g}"
        ]

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        look: NumbersLook = first_of(splits).looks[self.name]
        self.facts = self.measured(look.numbers[np.repeat(chosen, look.sizes)])

    def measured(self, numbers: NDArray[np.float64]) -> NumbersFacts:
        """The scale of these numbers."""
        return NumbersFacts(float(numbers.mean()), float(numbers.std()) or 1.0)

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.mean, self.facts.spread], "angles": self.angles}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        made = [self._numbers(cells, places[row] if places else None) for row, cells in enumerate(rows)]
        sizes = np.array([len(numbers) for numbers in made], np.int64)
        flat = np.concatenate(made)
        return Encoded(values={"values": Ragged(self.learnt(flat).astype(np.float32), offsets_of(sizes))})

    def _numbers(self, cells: Cells, place: Place | None) -> NDArray[np.float64]:
        values = values_of(cells["values"])
        for number, value in enumerate(values):
            if not is_number(value):
                raise UserError(
                    what=f"{line_of(place, cells.get(LINES), number) if place else 'A row'}: {_odd(value)}",
                    why="It is to be compared with one.",
                    fix="Write a plain number, such as 3.5.",
                )
        return np.array(values, np.float64)

    # What a model learns ------------------------------------------------------------------------------------

    def learnt(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers as they are kept: on the scale of the training rows."""
        return (numbers - self.facts.mean) / self.facts.spread

    def targets(self, kept: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the head is compared with (N, or N outputs)."""
        return kept

    def in_units(self, said: NDArray[Any]) -> NDArray[np.float64]:
        """Numbers as a user writes them, from what the head says (N outputs)."""
        numbers: NDArray[np.float64] = said[:, 0].astype(np.float64) * self.facts.spread + self.facts.mean
        return numbers

    def as_written(self, kept: NDArray[Any]) -> NDArray[np.float64]:
        """Numbers as a user writes them, from those that are kept."""
        return kept.astype(np.float64) * self.facts.spread + self.facts.mean


class AnglesField(NumbersField):
    """An angle in degrees for each word, learnt as its sine and cosine; their mean is that of directions."""

    angles = True

    def measured(self, numbers: NDArray[np.float64]) -> NumbersFacts:
        turns = np.deg2rad(numbers)
        return NumbersFacts(float(np.rad2deg(np.arctan2(np.sin(turns).mean(), np.cos(turns).mean()))))

    @property
    def outputs(self) -> int:
        return 2

    def learnt(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """From −180 to 180 degrees."""
        return (numbers + 180.0) % 360.0 - 180.0

    def targets(self, kept: NDArray[np.float32]) -> NDArray[np.float32]:
        turns = np.deg2rad(kept)
        return np.stack([np.sin(turns), np.cos(turns)], axis=1).astype(np.float32)

    def in_units(self, said: NDArray[Any]) -> NDArray[np.float64]:
        sine, cosine = said.astype(np.float64).T
        angles: NDArray[np.float64] = np.rad2deg(np.arctan2(sine, cosine))
        return angles

    def as_written(self, kept: NDArray[Any]) -> NDArray[np.float64]:
        return kept.astype(np.float64)


def _odd(value: str) -> str:
    return f'the value "{value[:40]}" is not a number.'


def _check(cells: Mapping[str, str]) -> tuple[str, str] | tuple[str, str, int] | None:
    """What is wrong with the numbers of a row beside its words, and how to mend it."""
    cell = cells["values"]
    if listed(cell) is None and cell.startswith("["):
        return f"the values are not a list of numbers: {cell[:60]}", "Write [1.5, 2, -3]."
    values = values_of(cell)
    if TOKENS in cells and len(words := words_of(cells)) != len(values):
        what = f"there are {len(words):,} tokens but {len(values):,} numbers in this row."
        return what, "Give every token one number. Text in a cell is cut at its spaces."
    for number, value in enumerate(values):
        if not is_number(value):
            return f"value {number + 1}: {_odd(value)}", "Write a plain number, such as 3.5.", number
    return None
