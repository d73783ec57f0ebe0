"""The words of a sentence, each of which is answered for."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.readings import CHARACTERS
from seqlab.data.store import Store
from seqlab.data.survey import Look, Problem, Split, Splits
from seqlab.data.word_readings import WordReading
from seqlab.data.words import TOKENS, as_cell, cut, listed, words_of
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Given, ReadField, kept_texts, raw_text
from seqlab.folder import TOKENIZER
from seqlab.model import ModelConfig
from seqlab.nn.positions import Learned

USUAL = ("tokens", "token", "words", "word", "form", "text", "sentence", "sequence", "residues")


class WordsLook(Look):
    """Words of each row."""

    def __init__(self) -> None:
        self._words = array("I")

    def see(self, cells: Cells, mark: int) -> None:
        words = words_of(cells)
        self._words.append(len(words))
        self.characters += sum(map(len, words)) + len(words)

    @property
    def words(self) -> NDArray[np.uint32]:
        return np.array(self._words, np.uint32)


class WordsField(ReadField):
    """Words that are apart already, or a text that is cut into words. They are read whole, however many."""

    name = TOKENS
    files = (TOKENIZER, CHARACTERS)
    any_ending = True
    reading: WordReading

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [Role(TOKENS, USUAL, many=True, check=_check)]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return Table(names, data, roles, any_ending=True)

    # What is there ------------------------------------------------------------------------------------------

    @property
    def counted(self) -> str:
        return "sentences"

    def look(self, split: str) -> WordsLook:
        return WordsLook()

    def words(self, split: Split) -> float:
        look: WordsLook = split.looks[self.name]
        return float(look.words.mean()) if split.rows else 1.0

    def problems(self, splits: Splits) -> Iterator[Problem]:
        for split in splits.values():
            if split.repeated:
                share = 100 * split.repeated / split.rows
                repeated = (
                    f"{split.name}: {split.repeated:,} sentences ({share:.1f} %) repeat an earlier one."
                )
                yield Problem("note", repeated, None, "Remove them if that is not meant.")

    def lines(self, split: Split) -> list[str]:
        words = split.looks[self.name].words
        half, most = (int(np.quantile(words, share, method="inverted_cdf")) for share in (0.5, 0.95))
        return [
            f"  {int(words.sum()):,} tokens: half of the sentences have up to {half:,}, 95 % up to {most:,};"
            f" the longest has {int(words.max()):,} ({split.place(int(words.argmax()))})"
        ]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        assert model.input is not None
        self.reading = WordReading(data, model.input.reads)
        positions = getattr(model.encoder, "positions", None)
        self.most = positions.length if isinstance(positions, Learned) else sys.maxsize
        """Positions that the model has learned to tell apart."""

    def settings(self) -> Mapping[str, Any]:
        return {"reads": self.reading.reads}

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        self.reading.train(words_of(cells) for cells in rows()).save(folder)

    def save(self, folder: Path) -> None:
        self.reading.save(folder)

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        self.reading.load(folder)

    @property
    def symbols(self) -> dict[str, int]:
        return self.reading.symbols

    @property
    def names(self) -> tuple[str, ...]:
        return self.reading.names

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        words = [words_of(cells) for cells in rows]
        values = self.reading.encode(words)
        sizes = values["text"].sizes()
        if not keep:
            return Encoded(values, fits=sizes <= min(self.most, self.reading.longest))
        if len(rows) and sizes.max() > self.most:
            row = int(sizes.argmax())
            raise UserError(
                what=f"{places[row] if places else 'A sentence'} has {sizes[row]:,} positions, but the model"
                f' has learned {self.most:,}: "{" ".join(words[row])[:60]} ..."',
                why="Each of its words is to be answered for.",
                fix="Cut the sentence in two, or train with other positions:"
                " model.encoder.positions.kind=sinusoidal",
            )
        return Encoded({**values, "raw.tokens": raw_text([as_cell(some) for some in words])})

    def warnings(self, stores: Mapping[str, Store]) -> Iterator[str]:
        if cut := stores["train"].notes.get("cut", 0):
            most = min(self.most, self.reading.longest)
            yield f"{cut:,} training sentences have more than {most:,} positions and are not trained on."

    def cells_of(self, given: Given) -> Cells:
        if isinstance(given, str):
            cells = {TOKENS: given}
        elif isinstance(given, Sequence) and all(isinstance(word, str) for word in given):
            cells = {TOKENS: as_cell(given)}
        else:
            raise UserError(
                what=f"This is neither a text nor a list of words: {str(given)[:60]}",
                why="Each word of a text is answered for.",
                fix='Give a text, "John lives in Paris", or its words: ["John", "lives", "in", "Paris"].',
            )
        if fault := _check(cells):
            raise UserError(what=f"A text can't be read: {fault[0]}", why=EACH, fix=fault[1])
        return cells

    def text_of(self, cells: Cells) -> Given:
        found = listed(cells[TOKENS])
        return words_of(cells) if found is None and len(cells) > 1 else found or cells[TOKENS]

    def offsets(self, given: Given) -> list[tuple[int, int]] | None:
        """Where each word of a text stands in it; None of words that came apart."""
        return cut(given) if isinstance(given, str) and listed(given) is None else None

    def texts(self, store: Store, rows: NDArray[np.int64] | None = None) -> list[Given]:
        return [json.loads(cell) for cell in kept_texts(store.fields["raw.tokens"], rows)]

    def row_words(self, given: Given) -> list[str]:
        """The words of an input."""
        return words_of(self.cells_of(given))

    def pieces(self, given: Given) -> list[list[str]]:
        return [self.reading.pieces(self.row_words(given))]

    def shown(self, given: Given) -> str:
        return given if isinstance(given, str) else " ".join(given)

    def brief(self, given: Given) -> str:
        return self.shown(given)

    def kept(self, record: Mapping[str, str]) -> dict[str, Any]:
        return {column: listed(cell) or cell for column, cell in record.items()}


EACH = "Every word is answered for, so each has to be there."


def _check(cells: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with the words of a row, and how to mend it."""
    cell = cells[TOKENS]
    if listed(cell) is None and cell.startswith("[") and _is_json(cell):
        return f"the tokens are not a list of texts: {cell[:60]}", 'Write ["John", "lives", "in", "Paris"].'
    words = words_of(cells)
    if not words:
        return "there is no token in this row.", "Give it some, or remove the row."
    if any(not word.strip() for word in words):
        number = next(number for number, word in enumerate(words, 1) if not word.strip())
        return f"token {number} is empty.", "Leave it out, with what is said of it."
    return None


def _is_json(cell: str) -> bool:
    try:
        json.loads(cell)
    except ValueError:
        return False
    return True
