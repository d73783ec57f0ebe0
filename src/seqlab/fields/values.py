"""A series of numbers that is read: one number a step, or several side by side."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import SERIES_FILES, Place, find
from seqlab.data.numbers import SeriesTable, joined, numbers_of, read_file, read_numbers, shown
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store, offsets_of
from seqlab.data.survey import Look, Problem, Split, Splits, first_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField

EXAMPLE = 8
"""Steps of a series that is shown as an example."""
VALUES = Role("values", ("values", "series", "signal", "sequence", "x"), many=True)


@dataclass(frozen=True)
class ValuesFacts:
    value_means: tuple[float, ...] = ()
    value_spreads: tuple[float, ...] = ()
    """Of each number of a step, over the training rows: models read (value − mean) / spread."""
    value_example: str = ""
    """The beginning of a series to try the model on."""


class ValuesLook(Look):
    """Steps, sums and sums of squares of each row."""

    def __init__(self) -> None:
        self._steps = array("q")
        self._sums: list[NDArray[np.float64]] = []
        """2 F: sums, and sums of squares."""

    def see(self, cells: Cells, mark: int) -> None:
        numbers = numbers_of(cells["values"])
        self._steps.append(len(numbers))
        self._sums.append(np.concatenate([numbers.sum(axis=0), (numbers**2).sum(axis=0)]))
        self.characters += numbers.size

    @property
    def steps(self) -> NDArray[np.int64]:
        return np.array(self._steps, np.int64)

    def scale(self, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each number of a step, over the chosen rows."""
        sums = np.stack(self._sums)[chosen].sum(axis=0)
        mean, square = np.split(sums / self.steps[chosen].sum(), 2)
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        return mean, np.where(spread > 1e-9 * np.maximum(np.abs(mean), 1e-300), spread, 0.0)


class ValuesField(ReadField):
    """A series of numbers, whole, on a scale that is learnt from the training rows."""

    name = "values"
    kind = "values"
    noun = "series of numbers"
    yours = "0.1, 0.4, 0.3"
    Facts = ValuesFacts
    facts: ValuesFacts
    names = ("values",)

    def __init__(self) -> None:
        self.facts = ValuesFacts()

    @property
    def counted(self) -> str:
        return "series"

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [VALUES]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return SeriesTable(names, data, roles)

    asked = open

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> ValuesLook:
        return ValuesLook()

    def words(self, split: Split) -> float:
        look: ValuesLook = split.looks[self.name]
        return float(look.steps.mean()) if split.rows else 1.0

    def problems(self, splits: Splits) -> Iterator[Problem]:
        train = first_of(splits)
        if not train.rows:
            return
        _, spread = train.looks[self.name].scale(np.ones(train.rows, bool))
        for place in np.flatnonzero(spread == 0).tolist():
            which = "the series are" if len(spread) == 1 else f"number {place + 1} of each step is"
            yield Problem(
                "error" if (spread == 0).all() else "warning",
                f"{which} the same at every step of every training row.",
                train.place(0),
                "Nothing can be learnt from what never changes: leave it out.",
            )

    def found_lines(self, found: Mapping[str, str]) -> list[str]:
        columns = found["values"].split(", ")
        if len(columns) < 4:
            return super().found_lines(found)
        some = f"{columns[0]} to {columns[-1]} ({len(columns)} columns)"
        return super().found_lines({**found, "values": some})

    def lines(self, split: Split) -> list[str]:
        steps = split.looks[self.name].steps
        low, half, high = np.quantile(steps, [0, 0.5, 1], method="inverted_cdf").tolist()
        same = f"all {low:,}" if low == high else f"from {low:,} to {high:,}, half up to {half:,}"
        return [f"  steps: {same}"]

    # Learning -----------------------------------------------------------------------------------------------

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        mean, spread = first_of(splits).looks[self.name].scale(chosen)
        scale = np.where(spread > 0, spread, 1.0)
        self.facts = ValuesFacts(tuple(mean.tolist()), tuple(scale.tolist()))

    def finish(self, stores: Mapping[str, Store]) -> None:
        [numbers] = self.texts(stores["valid"], np.array([0]))
        steps = [[float(f"{number:.4g}") for number in step] for step in numbers[:EXAMPLE].tolist()]
        one_each = [step[0] for step in steps] if len(steps[0]) == 1 else None
        self.facts = replace(self.facts, value_example=str(one_each)[1:-1] if one_each else str(steps))

    @property
    def example(self) -> str:
        return self.facts.value_example

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.value_means, self.facts.value_spreads]}

    @property
    def features(self) -> dict[str, int]:
        return {"values": len(self.facts.value_means)}

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        series = [numbers_of(cells["values"]) for cells in rows]
        mean, spread = np.array(self.facts.value_means), np.array(self.facts.value_spreads)
        for row, numbers in enumerate(series):
            if numbers.shape[1] != len(mean):
                where = f"{places[row]}: " if places else ""
                raise UserError(
                    what=f"{where}each step has {numbers.shape[1]} numbers.",
                    why=f"This model learnt from series with {len(mean)} numbers a step.",
                    fix="Give the same columns as in the training data.",
                )
        flat = ((np.concatenate(series) - mean) / spread).astype(np.float32)
        offsets = offsets_of(np.array([len(numbers) for numbers in series], np.int64))
        return Encoded({"values": Ragged(flat, offsets)})

    def cells_of(self, given: Given) -> Cells:
        if isinstance(given, str) and "|" in given:
            return {"values": given}
        file = given if isinstance(given, str) and given.lower().endswith(SERIES_FILES) else ""
        try:
            numbers = read_file(find([file])[0].path, file, DataConfig()) if file else read_numbers(given)
            return {"values": joined(numbers)}
        except ValueError as error:
            raise UserError(
                what=f"This is no series of numbers: {error}.",
                why="The model reads numbers, one or several a step.",
                fix='Write them with commas between them: "0.1, 0.4, 0.3"; in Python, give a list.'
                if not file
                else "Mend the file: a row a step, a column a number.",
            ) from None

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        kept = store.fields["values"]
        some = kept.take(np.arange(kept.rows) if rows is None else np.asarray(rows))
        numbers = some.values * np.array(self.facts.value_spreads) + np.array(self.facts.value_means)
        return [numbers[start:end] for start, end in zip(some.offsets, some.offsets[1:], strict=False)]

    # Shown --------------------------------------------------------------------------------------------------

    def _numbers(self, given: Given) -> NDArray[np.float64]:
        return numbers_of(self.cells_of(given)["values"])

    def pieces(self, given: Given) -> list[list[str]]:
        return [[" ".join(f"{number:.3g}" for number in step) for step in self._numbers(given).tolist()]]

    def shown(self, given: Given) -> str:
        return shown(self._numbers(given))

    def brief(self, given: Given) -> str:
        return self.shown(given)
