"""A vector that is read beside the text that is written: numbers in columns, or a list of them in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.numbers import joined, numbers_of, read_numbers
from seqlab.data.read import Role
from seqlab.data.store import Ragged, Store
from seqlab.data.survey import Look, Problem, Split, Splits, first_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, GivenField

VECTOR = Role("values", ("values", "vector", "features", "numbers"), many=True)
FIELD = "values"
DIGITS = 4


@dataclass(frozen=True)
class VectorFacts:
    vector_means: tuple[float, ...] = ()
    vector_spreads: tuple[float, ...] = ()
    """Of each number, over the training rows: models read (number − mean) / spread."""
    vector_examples: tuple[str, ...] = ()
    """Some vectors of other rows."""


class VectorLook(Look):
    """The vector of each row."""

    def __init__(self) -> None:
        self.vectors: list[NDArray[np.float64]] = []

    def see(self, cells: Cells, mark: int) -> None:
        self.vectors.append(numbers_of(cells[FIELD]).ravel())

    @property
    def odd(self) -> list[int]:
        """Rows with more or fewer numbers than the first one."""
        return [row for row, one in enumerate(self.vectors) if len(one) != len(self.vectors[0])]


class VectorField(GivenField):
    """As many numbers for each row, on a scale that is learnt from the training rows."""

    name = "vector"
    noun = "vector"
    names = (FIELD,)
    Facts = VectorFacts
    facts: VectorFacts

    def __init__(self) -> None:
        self.facts = VectorFacts()

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [VECTOR]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> VectorLook:
        return VectorLook()

    def _look(self, split: Split) -> VectorLook:
        look: VectorLook = split.looks[self.name]
        return look

    def problems(self, splits: Splits) -> Iterator[Problem]:
        train = first_of(splits)
        if not train.rows:
            return
        width = len(self._look(train).vectors[0])
        for split in splits.values():
            look = self._look(split)
            for row in [row for row, one in enumerate(look.vectors) if len(one) != width][:1]:
                yield Problem(
                    "error",
                    f"the vector has {len(look.vectors[row])} numbers, but that of the first training row"
                    f" {width}.",
                    split.place(row),
                    "Give every row as many numbers.",
                )
        if not self._look(train).odd:
            for place in np.flatnonzero(np.stack(self._look(train).vectors).std(axis=0) == 0).tolist():
                yield Problem(
                    "warning",
                    f"number {place + 1} of the vector is the same in every training row.",
                    train.place(0),
                    "Nothing can be learnt from what never changes: leave it out.",
                )

    def lines(self, split: Split) -> list[str]:
        return [f"  vectors of {len(self._look(split).vectors[0])} numbers"]

    # Learning -----------------------------------------------------------------------------------------------

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        vectors = np.stack(self._look(first_of(splits)).vectors)
        mean, spread = vectors[chosen].mean(axis=0), vectors[chosen].std(axis=0)
        spread = np.where(spread > 1e-9 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
        some = vectors[np.linspace(0, len(vectors) - 1, min(4, len(vectors))).astype(int)]
        self.facts = VectorFacts(tuple(mean.tolist()), tuple(spread.tolist()), tuple(map(written, some)))

    def settings(self) -> Mapping[str, Any]:
        return {"scale": [self.facts.vector_means, self.facts.vector_spreads]}

    @property
    def features(self) -> dict[str, int]:
        return {FIELD: len(self.facts.vector_means)}

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        vectors = [numbers_of(cells[FIELD]).ravel() for cells in rows]
        for row, one in enumerate(vectors):
            if len(one) != len(self.facts.vector_means):
                raise self._of_other_width(len(one), f"{places[row]}: " if places else "")
        scaled = (np.stack(vectors) - self.facts.vector_means) / self.facts.vector_spreads
        return Encoded({FIELD: Ragged(scaled.astype(np.float32), np.arange(len(rows) + 1))})

    def _of_other_width(self, count: int, where: str = "") -> UserError:
        return UserError(
            what=f"{where}{'T' if not where else 't'}he vector has {count} numbers.",
            why=f"The model has learnt from vectors of {len(self.facts.vector_means)}.",
            fix=f'Give as many, with commas between them: --given "{self.examples[0]}"',
        )

    def given_of(self, cells: Cells) -> str:
        return written(numbers_of(cells[FIELD]).ravel())

    def cells_of(self, given: Given) -> Cells:
        try:
            numbers = read_numbers(given)
        except ValueError as error:
            raise UserError(
                what=f"This is no vector: {error}.",
                why="The model writes for a vector of numbers.",
                fix=f'Write them with commas between them: --given "{self.examples[0]}"',
            ) from None
        if numbers.size != len(self.facts.vector_means):
            raise self._of_other_width(numbers.size)
        return {FIELD: joined(numbers.reshape(1, -1))}

    def given(self, store: Store, rows: NDArray[np.int64]) -> list[str]:
        scaled = store.fields[FIELD].take(rows).values
        return [written(one) for one in scaled * self.facts.vector_spreads + self.facts.vector_means]

    def others(self, store: Store, count: int) -> dict[str, Ragged]:
        """Each row has the vector of the next one in a random order."""
        order = np.random.default_rng(0).permutation(count)
        vectors = np.asarray(store.fields[FIELD].values[:count])
        turned = np.empty_like(vectors)
        turned[order] = vectors[np.roll(order, 1)]
        return {FIELD: Ragged(turned, np.arange(count + 1))}

    @property
    def examples(self) -> list[str]:
        return list(self.facts.vector_examples)


def written(vector: NDArray[np.floating]) -> str:
    """A vector as a user would write it."""
    return ", ".join(f"{number:.{DIGITS}g}" for number in np.asarray(vector).ravel().tolist())
