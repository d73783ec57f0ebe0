"""What a field is: one kind of content, from the columns that hold it to the numbers that a model reads or is
compared with.

A field is made anew for each run. It looks at the rows once, learns what it needs from the training rows (a
tokenizer, labels, a scale), turns rows into numbers, and is saved in the run folder. What it learnt stands in
facts.json.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from seqlab.data.batches import Rows, Seeds
from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store
from seqlab.data.survey import (
    Look,
    NoLook,
    Problem,
    Split,
    Splits,
    first_of,
    held_out,
    leaks,
    text_hash,
    too_few,
)
from seqlab.model import ModelConfig
from seqlab.seq import Nested, Seq

Given = Any
"""What a user gives in place of a row: a text, a pair of texts (a tuple), numbers, ..."""


@dataclass(frozen=True)
class NoFacts:
    """What is learnt by a field that learns nothing."""


@dataclass(frozen=True)
class DataFacts:
    """What the training data decided; saved as facts.json."""

    task: str
    columns: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    words: float = 0.0
    cut: dict[str, int] = field(default_factory=dict)
    """Texts that were too long and lost something, by split."""
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()
    learnt: dict[str, Any] = field(default_factory=dict)
    """What the fields learnt, by names of theirs."""

    def to_json(self) -> dict[str, Any]:
        tree = dataclasses.asdict(self)
        learnt = tree.pop("learnt")
        return {**tree, **learnt}

    @classmethod
    def of_json(cls, tree: Mapping[str, Any]) -> DataFacts:
        """What was saved; a ValidationError where a value is of the wrong kind."""
        names = {one.name for one in dataclasses.fields(cls)} - {"learnt"}
        common = {name: value for name, value in tree.items() if name in names}
        learnt = {name: value for name, value in tree.items() if name not in names}
        return TypeAdapter(cls).validate_python({**common, "learnt": learnt})


@dataclass(frozen=True)
class Encoded:
    """Rows as numbers."""

    values: dict[str, Ragged] = field(default_factory=dict)
    """Rows of different lengths, by the name that they have in a store."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """One number for each row."""
    counts: dict[str, int] = field(default_factory=dict)
    """What is counted over all rows: "cut" says how many lost something."""
    fits: NDArray[np.bool_] | None = None
    """False for rows that are too long to be learnt from; they are left out of the training rows."""


class Field(ABC):
    """One kind of content of an example."""

    name: ClassVar[str]
    """In the survey, and of what it has in a store."""
    Facts: ClassVar[type] = NoFacts
    """A dataclass of what it learns from the data; its names are unique among the fields of a task."""
    facts: Any = NoFacts()
    files: ClassVar[tuple[str, ...]] = ()
    """What it saves in the run folder, at the most."""

    # Columns ------------------------------------------------------------------------------------------------

    @abstractmethod
    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        """The columns that play it. `found` are those that the training data had, where that is known."""

    def see_columns(self, found: Mapping[str, str]) -> None:
        """Learn which columns the training data has, by role."""

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> Look:
        return NoLook()

    def problems(self, splits: Splits) -> Iterator[Problem]:
        """What a person should know; problems of one severity are told in this order."""
        yield from ()

    def lines(self, split: Split) -> list[str]:
        """What `seqlab check` tells of a data set."""
        return []

    def strata(self, split: Split) -> NDArray[np.int64] | None:
        """The class of each row, where none may be held out altogether."""
        return None

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        """The settings under which it learns and is read; comes before everything below."""

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        """Learn what the look at the chosen training rows tells."""

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        """Learn what the training rows themselves tell, and save it in the folder.

        `learnt` are the facts of all fields so far, and `folder` has what the fields before this one saved.
        """

    def save(self, folder: Path) -> None:
        """What is needed to read as the training rows were read."""

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        """What was saved, in the folder of a run or of the cache."""

    def take(self, learnt: Mapping[str, Any]) -> None:
        """The facts of this field out of those of a run; a ValidationError where one is of the wrong kind."""
        names = {one.name for one in dataclasses.fields(self.Facts)}
        given = {name: value for name, value in learnt.items() if name in names}
        self.facts = TypeAdapter(self.Facts).validate_python(given)

    @property
    def symbols(self) -> dict[str, int]:
        """How many different ids it has, by the name that they have for the model."""
        return {}

    @property
    def outputs(self) -> int:
        """How many numbers a head gives that is compared with it."""
        return 1

    def settings(self) -> Mapping[str, Any]:
        """What decides its numbers beside data.*, as far as it stands elsewhere: part of the fingerprint."""
        return {}

    # Numbers ------------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        """Rows as numbers. `places` say where they stand, if that is known; `keep`: with what a report shows
        of them."""

    def finish(self, stores: Mapping[str, Store]) -> None:
        """Learn what the numbers of all rows tell; a UserError where nothing can be learnt from them."""

    def warnings(self, stores: Mapping[str, Store]) -> Iterator[str]:
        """What a person should know about the rows as numbers."""
        yield from ()


class ReadField(Field):
    """What an example is read from: it says which rows there are, which are held out, and what a user's input
    is."""

    kind: ClassVar[str] = "text"
    """What it is, as task.reads calls it."""
    noun: ClassVar[str] = "text"
    """What an input is called in a sentence."""
    yours: ClassVar[str] = "a text of yours"
    """What stands for an input in commands to be typed."""
    chunk: ClassVar[int] = 4096
    """Examples that become numbers together."""

    @property
    def counted(self) -> str:
        """What `check` calls the rows."""
        return "rows"

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        """Files to learn from or to be scored on."""
        return Table(names, data, roles)

    def asked(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        """Files to be answered for."""
        return Table(names, data, roles, self.any_ending)

    lengths_tell: ClassVar[bool] = True
    """Whether a longer input has more to be written for it."""
    gathers: ClassVar[bool] = False
    """Whether several rows may be one example."""
    any_ending: ClassVar[bool] = False
    """Whether a file to be answered for may have any ending, as lines of text."""

    def gathered(self, rows: Iterator[Cells]) -> Iterator[Cells]:
        """Examples out of rows: most often each is one."""
        return rows

    def mark(self, cells: Cells) -> int:
        """64 bits that tell whether two rows read the same."""
        return text_hash(cells[self.name])

    def held(self, splits: Splits, strata: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Which training rows are held out to validate on, where no others are given."""
        train = first_of(splits)
        return np.zeros(train.rows, bool) if "valid" in splits else held_out(train.hashes, labels=strata)

    def parts(self, splits: Splits, strata: NDArray[np.int64] | None) -> dict[str, NDArray[np.bool_]]:
        """Which rows of the training files are for "train", and which are held out for "valid" or "test"."""
        held = self.held(splits, strata)
        return {"train": ~held, "valid": held} if held.any() else {"train": ~held}

    def too_few(self, splits: Splits, strata: NDArray[np.int64] | None) -> Iterator[Problem]:
        return too_few(splits, strata)

    def leaks(self, splits: Splits) -> Iterator[Problem]:
        return leaks(splits)

    def found_lines(self, found: Mapping[str, str]) -> list[str]:
        """What `check` says first: which columns were found."""
        columns = ", ".join(f'{role} is column "{column}"' for role, column in found.items())
        return [f"columns: {columns}"]

    def held_line(self, splits: Splits) -> list[str]:
        """What is held out, where `check` is to tell."""
        return []

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a store that a model reads, at the most."""
        return ()

    def data_of(self, split: str, data: DataConfig) -> DataConfig:
        """How the files of a split are read: train, valid or test."""
        return data

    def elsewhere(self, data: DataConfig, told: Container[str]) -> DataConfig:
        """How other files than those of a run are read, where these keys were told for them."""
        return data

    def varied(self, inputs: dict[str, Seq | Nested], rows: Rows, seeds: Seeds) -> dict[str, Seq | Nested]:
        """What one pass over the training rows sees of a batch of them; it follows from seeds and rows."""
        return inputs

    def picture(self, given: Given) -> NDArray[np.uint8] | None:
        """What is drawn in place of its pieces, where an input is a picture: H W 3."""
        return None

    @property
    def segments(self) -> int:
        """How many parts of an example a model tells apart."""
        return 1

    @property
    def nested(self) -> bool:
        """Whether an example is read as rows of rows, such as sentences of words."""
        return False

    @property
    def full_stop(self) -> int | None:
        """The id of a full stop, where inputs are texts that may end with one."""
        return None

    @property
    def example(self) -> str:
        """Something to ask a model; empty where the task's own will do."""
        return ""

    @property
    def features(self) -> dict[str, int]:
        """How wide its vectors are, by the name that they have for the model."""
        return {}

    def pieces(self, given: Given) -> list[list[str]]:
        """What stands at each position that is read, for display: one list, or one for each sentence."""
        return []

    def shown(self, given: Given) -> str:
        """An input as a line of text."""
        return given if isinstance(given, str) else "\t".join(given)

    def brief(self, given: Given) -> str:
        """The same for a table of a report: of a pair the first text."""
        return given if isinstance(given, str) else str(given[0])

    @abstractmethod
    def words(self, split: Split) -> float:
        """Mean number of words that are read."""

    def amounts(self, facts: DataFacts) -> dict[str, int]:
        """How much data there is, by split."""
        return facts.rows

    def amount(self, facts: DataFacts) -> str:
        """How much there is to learn from, in words."""
        return f"{facts.rows['train']:,} training rows"

    def length(self, facts: DataFacts) -> float:
        """Words, or ids, of a usual example."""
        return facts.words

    @abstractmethod
    def cells_of(self, given: Given) -> Cells:
        """What a user gave in place of a row; a UserError where it is no such thing."""

    def kept(self, record: Mapping[str, str]) -> dict[str, Any]:
        """The columns of a row as they are written out again, beside an answer."""
        return dict(record)

    def text_of(self, cells: Cells) -> Given:
        """What a row says, as a user would give it."""
        return cells[self.name]

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        """What these rows of a store say (None: all), where it was kept."""
        return list(kept_texts(store.fields[f"raw.{self.name}"], rows))


class GivenField(Field):
    """What is read beside the text that is written: the same for all of it, one slot for each row."""

    noun: ClassVar[str]
    """What it is called in a sentence."""
    names: ClassVar[tuple[str, ...]]
    """What it is called in a store, and by the inputs that read it."""

    @property
    @abstractmethod
    def features(self) -> dict[str, int]:
        """How wide its vectors are, by the name that they have for the model."""

    @abstractmethod
    def given_of(self, cells: Cells) -> str:
        """What a row gives, as a user would write it."""

    @abstractmethod
    def cells_of(self, given: Given) -> Cells:
        """What a user gave, as cells; a UserError where it is nothing that was learnt."""

    @abstractmethod
    def given(self, store: Store, rows: NDArray[np.int64]) -> list[str]:
        """What was given in these rows of a store."""

    @abstractmethod
    def others(self, store: Store, count: int) -> dict[str, Ragged]:
        """Of the first rows of a store, what was given in other rows, and is not the same where that can be:
        always the same ones."""

    @property
    @abstractmethod
    def examples(self) -> list[str]:
        """Some to be tried."""


def raw_text(texts: Sequence[str]) -> Ragged:
    """Texts as bytes, to be shown later."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
    return Ragged(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)


def kept_texts(raw: Ragged, rows: NDArray[np.int64] | None = None) -> list[str]:
    """Texts that were kept by `raw_text`: these rows, or all."""
    some = raw.take(np.arange(raw.rows) if rows is None else np.asarray(rows))
    whole = some.values.tobytes()
    return [
        whole[start:end].decode("utf-8", "ignore")
        for start, end in zip(some.offsets, some.offsets[1:], strict=False)
    ]
