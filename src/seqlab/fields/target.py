"""A text that is written: ids from [BOS] to [EOS]."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role
from seqlab.data.sides import SideLook, pair_problems, side_line
from seqlab.data.store import Ragged, Store, marked, offsets_of
from seqlab.data.survey import Problem, Split, Splits
from seqlab.data.tokenizers import BOS, EOS, Tokenizer
from seqlab.errors import UserError
from seqlab.fields.field import Encoded, Field, kept_texts, raw_text
from seqlab.folder import TOKENIZER
from seqlab.model import ModelConfig

TARGET = Role(
    "target",
    (
        "target",
        "tgt",
        "translation",
        "fr",
        "french",
        "de",
        "german",
        "es",
        "spanish",
        "it",
        "italian",
        "output",
        "answer",
        "pronunciation",
        "target_text",
        "tgt_text",
    ),
    in_order=True,
)
WRITTEN = "tokenizer.written.json"


def texts_of(cell: str) -> list[str]:
    """The texts in a cell that may hold a list."""
    if cell.lstrip().startswith("["):
        try:
            found = json.loads(cell)
        except json.JSONDecodeError:
            return [cell]
        if isinstance(found, list):
            return [one if isinstance(one, str) else json.dumps(one) for one in found]
    return [cell]


def _empty_one(cells: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with a list of captions."""
    texts = texts_of(cells["caption"])
    if not texts:
        return "the list of captions is empty.", "Give it a caption, or remove the row."
    if empty := [place for place, text in enumerate(texts, 1) if not text.strip()]:
        return f"caption {empty[0]} of {len(texts)} is empty.", "Write it, or remove it from the list."
    return None


CAPTION = Role(
    "caption",
    ("caption", "captions", "caption_en", "description", "text", "sentence", "sentences", "target"),
    many=True,
    check=_empty_one,
)
"""What is said of a picture: one text or a list of them."""
SEVERAL = "\0"
"""Between the texts of a row where they are kept; no line of a file has it."""


@dataclass(frozen=True)
class TargetFacts:
    joint: bool = True
    """Whether what is read and what is written have one vocabulary."""
    ratio: float = 1.0
    """Median of written pieces for each piece that is read; a search may write so much more than usual."""
    longest: dict[str, int] = field(default_factory=dict)
    """Pieces of the longest text that was trained on, by side."""


class TargetLook(SideLook):
    """The same of the longest target of each row."""

    def __init__(self, role: Role) -> None:
        super().__init__("target")
        self.column, self.many = role.name, role.many

    def see(self, cells: Cells, mark: int) -> None:
        texts = texts_of(cells[self.column]) if self.many else [cells[self.column]]
        super().see({"target": max(texts, key=len)}, mark)


class TargetField(Field):
    """A text that is written for what is read. `joint`: with the tokenizer of the text that is read."""

    name = "target"
    Facts = TargetFacts
    facts: TargetFacts
    files = (WRITTEN,)
    tokenizer: Tokenizer

    def __init__(self, joint: bool, beside: str = "source", role: Role = TARGET) -> None:
        """`beside` names the text that is read, with which it is compared in a survey; empty: what is read is
        no text. `role` is that of its column; where it is `many`, a row may have several targets."""
        self.facts, self.beside, self.role = TargetFacts(joint=joint), beside, role

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [self.role]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> SideLook:
        return TargetLook(self.role)

    def problems(self, splits: Splits) -> Iterator[Problem]:
        return pair_problems(splits, self.beside, self.name) if self.beside else iter(())

    def lines(self, split: Split) -> list[str]:
        return [side_line(split, self.name)]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        self.data = data

    def settings(self) -> Mapping[str, Any]:
        return {"joint": self.facts.joint}

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        if self.facts.joint:
            self.tokenizer = Tokenizer.load(folder / TOKENIZER)
        else:
            tokens = self.data.target_tokens or self.data.tokens
            self.tokenizer = tokens.train(text for cells in rows() for text in self.of_row(cells))
            self.save(folder)

    def save(self, folder: Path) -> None:
        if not self.facts.joint:
            self.tokenizer.save(folder / WRITTEN)

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        self.tokenizer = Tokenizer.load(folder / (TOKENIZER if self.facts.joint else WRITTEN))

    @property
    def symbols(self) -> dict[str, int]:
        return {"written": self.tokenizer.size}

    def finish(self, stores: Mapping[str, Store]) -> None:
        train = stores["train"]
        if not train.rows:
            most, cut = self.data.length, train.notes.get("cut", 0)
            raise UserError(
                what=f"All {cut:,} training pairs are longer than data.length={most}.",
                why="Pairs with more pieces on either side are not trained on, so nothing is left.",
                fix=f"Set data.length to more than {most}; the lengths are told by: seqlab check",
            )
        read, written = train.sizes() - ("text" in train.fields), train.fields["written"]
        pieces = np.diff(written.offsets) - 2  # without [BOS] and [EOS]
        each = read if written.outer is None else np.repeat(read, np.diff(written.outer))
        longest = {"text": int(read.max()), "written": int(pieces.max())}
        self.facts = TargetFacts(self.facts.joint, float(np.median(pieces / each)), longest)

    def warnings(self, stores: Mapping[str, Store]) -> Iterator[str]:
        if cut := stores["train"].notes.get("cut", 0):
            most = self.data.length
            yield (
                f"{cut:,} training pairs have more than {most} pieces on a side (data.length) and are not"
                " trained on."
            )

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        texts = [self.of_row(cells) for cells in rows]
        ids = self.ids([text for some in texts for text in some])
        counts = np.array([len(some) for some in texts], np.int64)
        fits = ids.sizes() <= self.data.length + 2
        if self.role.many:
            ids = Ragged(ids.values, ids.offsets, offsets_of(counts))
            fits = np.logical_and.reduceat(fits, offsets_of(counts)[:-1])
        kept = {"raw.target": raw_text([SEVERAL.join(some) for some in texts])} if keep else {}
        return Encoded({"written": ids} | kept, fits=fits)

    def of_row(self, cells: Cells) -> list[str]:
        """The targets of a row."""
        cell = cells[self.role.name]
        return texts_of(cell) if self.role.many else [cell]

    def ids(self, texts: Sequence[str]) -> Ragged:
        """Ids from [BOS] to [EOS]."""
        return marked(self.tokenizer.encode(texts), (BOS,), (EOS,))

    def texts(self, store: Store) -> list[list[str]]:
        """The targets of each row of a store that kept them."""
        return [whole.split(SEVERAL) for whole in kept_texts(store.fields["raw.target"])]
