"""A vector of numbers that is read by itself: a sequence of numbers is to be written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.numbers import SeriesTable, joined, numbers_of, read_numbers, shown
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store
from seqlab.data.survey import Look, Split, Splits, first_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField

VECTOR = Role("vector", ("vector", "parameters", "features"), many=True)


@dataclass(frozen=True)
class ReadVectorFacts:
    vector_means: tuple[float, ...] = ()
    vector_spreads: tuple[float, ...] = ()
    """Of each number, over the training rows: models read (number − mean) / spread."""
    vector_example: str = ""


class ReadVectorLook(Look):
    """The numbers of each row."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float64]] = []

    def see(self, cells: Cells, mark: int) -> None:
        self.rows.append(numbers_of(cells["vector"]).ravel())
        self.characters += self.rows[-1].size


class ReadVectorField(ReadField):
    """One vector, read as a sequence of one slot. `lists`: other roles whose cells are lists."""

    name = "vector"
    kind = "vector"
    noun = "vector"
    yours = "0.1, 0.4, 0.3"
    Facts = ReadVectorFacts
    facts: ReadVectorFacts
    names = ("values",)

    def __init__(self, lists: Sequence[str] = ()) -> None:
        self.facts, self.lists = ReadVectorFacts(), tuple(lists)

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [VECTOR]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return SeriesTable(names, data, roles, self.name, self.lists)

    asked = open

    def look(self, split: str) -> ReadVectorLook:
        return ReadVectorLook()

    def words(self, split: Split) -> float:
        return 1.0

    def lines(self, split: Split) -> list[str]:
        return [f"  vectors of {len(split.looks[self.name].rows[0])} numbers"] if split.rows else []

    # Learning -----------------------------------------------------------------------------------------------

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        split = first_of(splits)
        rows = split.looks[self.name].rows
        if odd := next((row for row in range(len(rows)) if len(rows[row]) != len(rows[0])), None):
            raise UserError(
                what=f"{split.place(odd)}: the vector has {len(rows[odd])} numbers, but {len(rows[0])} in the"
                " first row.",
                why="A model reads vectors of one width.",
                fix="Mend the row, or leave it out.",
            )
        numbers = np.stack(rows)[chosen]
        spread = numbers.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        self.facts = ReadVectorFacts(tuple(numbers.mean(axis=0).tolist()), tuple(scale.tolist()))

    def finish(self, stores: Mapping[str, Store]) -> None:
        [numbers] = self.texts(stores["valid"], np.array([0]))
        told = ", ".join(f"{number:.4g}" for number in numbers.ravel())
        self.facts = replace(self.facts, vector_example=told)

    @property
    def example(self) -> str:
        return self.facts.vector_example

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.vector_means, self.facts.vector_spreads]}

    @property
    def features(self) -> dict[str, int]:
        return {"values": len(self.facts.vector_means)}

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        vectors = [numbers_of(cells["vector"]).ravel() for cells in rows]
        width = len(self.facts.vector_means)
        odd = next((row for row in range(len(vectors)) if len(vectors[row]) != width), None)
        if odd is not None:
            where = f"{places[odd]}: " if places else ""
            raise UserError(
                what=f"{where}the vector has {len(vectors[odd])} numbers.",
                why=f"This model learnt from vectors of {width}.",
                fix="Give as many numbers as in the training data.",
            )
        scaled = (np.stack(vectors) - self.facts.vector_means) / np.array(self.facts.vector_spreads)
        return Encoded({"values": Ragged(scaled.astype(np.float32), np.arange(len(rows) + 1))})

    def cells_of(self, given: Given) -> Cells:
        if isinstance(given, str) and "|" in given:
            return {"vector": given}
        try:
            numbers = read_numbers(given)
        except ValueError as error:
            raise UserError(
                what=f"This is no vector: {error}.",
                why="The model reads numbers.",
                fix='Write them with commas between them: "0.1, 0.4"; in Python, give a list.',
            ) from None
        return {"vector": joined(numbers.reshape(1, -1))}

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        kept = np.asarray(store.fields["values"].values)
        some = kept if rows is None else kept[rows]
        return list(some * np.array(self.facts.vector_spreads) + np.array(self.facts.vector_means))

    def pieces(self, given: Given) -> list[list[str]]:
        return [[self.shown(given)]]

    def shown(self, given: Given) -> str:
        return shown(numbers_of(self.cells_of(given)["vector"]).reshape(-1, 1), 12)

    def brief(self, given: Given) -> str:
        return self.shown(given)
