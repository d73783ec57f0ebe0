"""A text that is read, or a pair of texts."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.columns import SECOND_TEXT
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role
from seqlab.data.readings import CHARACTERS, GRAMS, Reading, reading
from seqlab.data.store import Store
from seqlab.data.survey import Look, Problem, Split, Splits, text_hash
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField, kept_texts, raw_text
from seqlab.folder import TOKENIZER
from seqlab.model import ModelConfig

TEXT = Role(
    "text", ("text", "sentence", "review", "content", "document", "comment", "question", "body", "message")
)


@dataclass(frozen=True)
class TextFacts:
    pair: bool = False
    """Whether an example is two texts."""


class TextLook(Look):
    """Words of each text, or of each pair."""

    def __init__(self) -> None:
        self._words = array("I")

    def see(self, cells: Cells, mark: int) -> None:
        one, two = cells["text"], cells.get("text2", "")
        self._words.append(len(one.split()) + len(two.split()))
        self.characters += len(one) + len(two)

    @property
    def words(self) -> NDArray[np.uint32]:
        return np.array(self._words, np.uint32)


class TextField(ReadField):
    """A text, or a pair of texts. Of a long one the head and the tail are kept."""

    name = "text"
    Facts = TextFacts
    facts: TextFacts
    files = (TOKENIZER, CHARACTERS, GRAMS)
    reading: Reading

    def __init__(self) -> None:
        self.facts = TextFacts()

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [TEXT, SECOND_TEXT._replace(required=found is not None and "text2" in found)]

    @property
    def pair(self) -> bool:
        return self.facts.pair

    # What is there ------------------------------------------------------------------------------------------

    @property
    def counted(self) -> str:
        return "pairs of texts" if self.pair else "rows"

    def mark(self, cells: Cells) -> int:
        return text_hash(cells["text"], cells.get("text2"))

    def look(self, split: str) -> TextLook:
        return TextLook()

    def words(self, split: Split) -> float:
        look: TextLook = split.looks[self.name]
        return float(look.words.mean()) if split.rows else 1.0

    def problems(self, splits: Splits) -> Iterator[Problem]:
        for split in splits.values():
            if split.repeated:
                share = 100 * split.repeated / split.rows
                repeated = f"{split.name}: {split.repeated:,} rows ({share:.1f} %) repeat an earlier text."
                yield Problem("note", repeated, None, "Remove them if that is not meant.")
        for split in splits.values():
            words, most = split.looks[self.name].words, split.walk.table.config.length
            if over := int((words > most).sum()):
                share = 100 * over / split.rows
                yield Problem(
                    "note",
                    f"{split.name}: {over:,} texts ({share:.1f} %) are longer than {most} words and will be"
                    " cut.",
                    split.place(int(words.argmax())),
                    f"Head and tail are kept. To keep more: data.length={min(_length(words, 0.99), 4096)}",
                )

    def lines(self, split: Split) -> list[str]:
        words = split.looks[self.name].words
        return [
            f"  words: half of the texts have up to {_length(words, 0.5):,}, 95 % up to"
            f" {_length(words, 0.95):,}; the longest has {int(words.max()):,}"
            f" ({split.place(int(words.argmax()))})"
        ]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        assert model.input is not None
        self.data, self.reads = data, model.input.reads

    def see_columns(self, found: Mapping[str, str]) -> None:
        self.facts = TextFacts("text2" in found)

    def settings(self) -> Mapping[str, Any]:
        return {"reads": self.reads}

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        self.reading = self._reading(learnt).train(self.text_of(cells) for cells in rows()).saved(folder)

    def save(self, folder: Path) -> None:
        self.reading.save(folder)

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        self.reading = self._reading(learnt).load(folder)

    def _reading(self, learnt: Mapping[str, Any]) -> Reading:
        return reading(self.reads, self.data, outputs=max(1, len(learnt.get("labels", ()))))

    @property
    def symbols(self) -> dict[str, int]:
        return self.reading.symbols

    @property
    def names(self) -> tuple[str, ...]:
        return self.reading.names

    @property
    def segments(self) -> int:
        return 2 if self.pair else 1

    @property
    def nested(self) -> bool:
        return self.reads == "sentences"

    @property
    def example(self) -> str:
        return "first text\tsecond text" if self.pair else ""

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        first = [cells["text"] for cells in rows]
        second = [cells["text2"] for cells in rows] if self.pair else None
        encoded = self.reading.encode(first, second)
        values = dict(encoded.fields)
        if keep:
            values |= {"raw.text": raw_text(first)} | ({"raw.text2": raw_text(second)} if second else {})
        return Encoded(values, counts={"cut": encoded.cut})

    def cells_of(self, given: Given) -> Cells:
        if self.pair != isinstance(given, tuple):
            raise UserError(
                what=f"This model reads {'pairs of texts' if self.pair else 'single texts'}.",
                why="It was trained on such rows.",
                fix=(
                    "Join two texts by a tab; in Python, give a tuple."
                    if self.pair
                    else "Give one text, without a tab."
                ),
            )
        return (
            dict(zip(("text", "text2"), given, strict=True)) if isinstance(given, tuple) else {"text": given}
        )

    def text_of(self, cells: Cells) -> Given:
        return (cells["text"], cells.get("text2", "")) if self.pair else cells["text"]

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        first = kept_texts(store.fields["raw.text"], rows)
        return (
            list(zip(first, kept_texts(store.fields["raw.text2"], rows), strict=True))
            if self.pair
            else list(first)
        )

    def pieces(self, given: Given) -> list[list[str]]:
        """What stands at each position that is read: one list, or one for each sentence."""
        return self.reading.pieces(given) if isinstance(given, str) else self.reading.pieces(*given)


def _length(words: NDArray[np.uint32], share: float) -> int:
    """So many words or fewer have this share of the texts."""
    return int(np.quantile(words, share, method="inverted_cdf")) if len(words) else 0
