"""A text for which another one is written: read whole, with [EOS] after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role
from seqlab.data.readings import Reading, TokensReading, reading
from seqlab.data.sides import SideLook, side_line
from seqlab.data.store import Store
from seqlab.data.survey import Split
from seqlab.data.tokenizers import UNK
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField, raw_text
from seqlab.folder import TOKENIZER
from seqlab.model import ModelConfig

SOURCE = Role(
    "source",
    (
        "source",
        "src",
        "text",
        "en",
        "english",
        "input",
        "question",
        "word",
        "sentence",
        "source_text",
        "src_text",
    ),
    in_order=True,
)


@dataclass(frozen=True)
class SourceFacts:
    example: str = ""
    """A source to try the model on."""


class SourceField(ReadField):
    """A text for which another one is written.

    learns_from: the columns that its tokenizer learns from; that of what is written, too, where both sides
    share one.
    """

    name = "source"
    any_ending = True  # test.en is lines to translate
    Facts = SourceFacts
    facts: SourceFacts
    files = (TOKENIZER,)
    reading: Reading

    def __init__(self, learns_from: tuple[str, ...] = ("source",)) -> None:
        self.facts, self.learns_from = SourceFacts(), learns_from

    @property
    def counted(self) -> str:
        return "pairs"

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [SOURCE]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> SideLook:
        return SideLook("source")

    def words(self, split: Split) -> float:
        look: SideLook = split.looks[self.name]
        return float(look.words.mean()) if split.rows else 1.0

    def lines(self, split: Split) -> list[str]:
        return [side_line(split, self.name)]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        assert model.input is not None
        self.data, self.reads = data, model.input.reads

    def settings(self) -> Mapping[str, Any]:
        return {"reads": self.reads, "learns from": self.learns_from}

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        texts = (cells[role] for cells in rows() for role in self.learns_from)
        self.reading = reading(self.reads, self.data, ends=True).train(texts).saved(folder)

    def save(self, folder: Path) -> None:
        self.reading.save(folder)

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        self.reading = reading(self.reads, self.data, ends=True).load(folder)

    @property
    def symbols(self) -> dict[str, int]:
        return self.reading.symbols

    @property
    def names(self) -> tuple[str, ...]:
        return self.reading.names

    @property
    def example(self) -> str:
        return self.facts.example

    def finish(self, stores: Mapping[str, Store]) -> None:
        texts = [text for text in self.texts(stores["valid"]) if isinstance(text, str)]
        self.facts = SourceFacts(_short(texts))

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        texts = [cells["source"] for cells in rows]
        values = self.reading.encode(texts).fields
        fits = values["text"].sizes() <= self.data.length + 1
        return Encoded(values | ({"raw.source": raw_text(texts)} if keep else {}), fits=fits)

    def cells_of(self, given: Given) -> Cells:
        if isinstance(given, tuple):
            raise UserError(
                what="This model translates single texts, but there is a tab in one.",
                why="A tab joins two texts.",
                fix=(
                    "Leave the second text out. To see how a given translation is aligned: seqlab explain RUN"
                    " with both."
                ),
            )
        return {"source": given}

    def pieces(self, text: str) -> list[list[str]]:
        """What stands at each position that is read: one list, or one for each sentence."""
        return self.reading.pieces(text)

    @property
    def full_stop(self) -> int | None:
        """The id of a full stop; None where there is none, or texts are not read piece by piece."""
        if not isinstance(self.reading, TokensReading) or self.reads != "tokens":
            return None
        number = self.reading.tokenizer.ids(["."])[0]
        return None if number == UNK else number


def _short(texts: Sequence[str]) -> str:
    """One of about 40 characters that can stand between quotes on a command line."""
    plain = [text.strip() for text in texts if not set(text) & set('"$`\\!\t')]
    return min(plain, key=lambda text: abs(len(text) - 40), default="")
