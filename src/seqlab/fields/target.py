"""A text that is written: ids from [BOS] to [EOS]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Role
from seqlab.data.sides import SideLook, pair_problems, side_line
from seqlab.data.store import Ragged, Store, marked
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


@dataclass(frozen=True)
class TargetFacts:
    joint: bool = True
    """Whether what is read and what is written have one vocabulary."""
    ratio: float = 1.0
    """Median of written pieces for each piece that is read; a search may write so much more than usual."""
    longest: dict[str, int] = field(default_factory=dict)
    """Pieces of the longest text that was trained on, by side."""


class TargetField(Field):
    """A text that is written for what is read. `joint`: with the tokenizer of the text that is read."""

    name = "target"
    Facts = TargetFacts
    facts: TargetFacts
    files = (WRITTEN,)
    tokenizer: Tokenizer

    def __init__(self, joint: bool, beside: str = "source") -> None:
        """`beside` names the text that is read, with which it is compared in a survey."""
        self.facts, self.beside = TargetFacts(joint=joint), beside

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [TARGET]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> SideLook:
        return SideLook("target")

    def problems(self, splits: Splits) -> Iterator[Problem]:
        return pair_problems(splits, self.beside, self.name)

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
            self.tokenizer = tokens.train(cells["target"] for cells in rows())
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
        read, written = (
            train.fields["text"].sizes() - 1,
            train.fields["written"].sizes() - 2,
        )  # without [BOS] and [EOS]
        longest = {"text": int(read.max()), "written": int(written.max())}
        self.facts = TargetFacts(self.facts.joint, float(np.median(written / read)), longest)

    def warnings(self, stores: Mapping[str, Store]) -> Iterator[str]:
        if cut := stores["train"].notes.get("cut", 0):
            most = self.data.length
            yield (
                f"{cut:,} training pairs have more than {most} pieces on a side (data.length) and are not"
                " trained on."
            )

    # Numbers ------------------------------------------------------------------------------------------------

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        texts = [cells["target"] for cells in rows]
        ids = self.ids(texts)
        fits = ids.sizes() <= self.data.length + 2
        return Encoded({"written": ids} | ({"raw.target": raw_text(texts)} if keep else {}), fits=fits)

    def ids(self, texts: Sequence[str]) -> Ragged:
        """Ids from [BOS] to [EOS]."""
        return marked(self.tokenizer.encode(texts), (BOS,), (EOS,))

    def texts(self, store: Store) -> list[str]:
        """The texts of a store that kept them."""
        return kept_texts(store.fields["raw.target"])
