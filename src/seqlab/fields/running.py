"""Running text, or rows that are texts of their own: what language models learn from."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.columns import SECOND_TEXT
from seqlab.data.documents import documents, encode_documents
from seqlab.data.files import Place, find
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.store import Ragged, Store, marked, offsets_of, ranges
from seqlab.data.stream import TEXT, RunningTable, encode_pieces, held_at_the_end, keeps_lines, opening_of
from seqlab.data.survey import (
    SHOWN,
    Look,
    Problem,
    Severity,
    Split,
    Splits,
    first_of,
    leaks,
    text_hash,
    too_few,
)
from seqlab.data.tokenizers import BOS, EOS, UNK, CharacterTokens, Tokenizer, TokensConfig, WordTokens
from seqlab.errors import UserError
from seqlab.fields.field import DataFacts, Encoded, Given, ReadField, raw_text
from seqlab.folder import TOKENIZER
from seqlab.model import ModelConfig
from seqlab.text_metrics import units_of

Flow = Literal["text", "rows"]
Unit = Literal["character", "word", "subword"]

ODD = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ufeff\ufffe\uffff\ue000-\uf8ff]")
"""Control codes, the sign for an undecodable character, marks of byte order, characters for private use."""
TELLING = 40
"""Characters from which on a line of running text is hardly there twice by chance."""
LONG = 10_000
"""Characters from which on a line or row is worth a note."""
LEAST = 1_000
"""Characters of running text below which nothing is worth learning."""
LEAST_HELD = 50
"""Characters to validate on, at least."""
SCORED = 131_072
"""Ids of the validation text that are scored while training and for the report; `seqlab evaluate` scores a
whole text."""


def flow_of(flow: Flow | None, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> Flow:
    """Whether files are one running text or rows: as it was for a run, as it was said, else by their
    endings."""
    if learnt is not None:
        flow = learnt.get("flow", flow)
    return flow or (
        "rows" if any(source.format not in ("txt", "") for source in find(data.train)) else "text"
    )


class LinesLook(Look):
    """The characters of each line or row, how often each character stands there, and where odd ones are."""

    def __init__(self) -> None:
        self._sizes, self._row = array("q"), 0
        self.words = 0
        self.counts: Counter[str] = Counter()
        self.odd: list[int] = []

    def see(self, cells: Cells, mark: int) -> None:
        text = cells["text"]
        self._sizes.append(len(text))
        self.characters += len(text)
        self.words += len(text.split())
        self.counts.update(text)
        if len(self.odd) < SHOWN and ODD.search(text):
            self.odd.append(self._row)
        self._row += 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array(self._sizes, np.int64)

    @property
    def longest(self) -> int:
        """The number of the longest row; a part of a line counts as one."""
        return int(self.sizes.argmax())


class RunningField(ReadField):
    """Text without labels: all files as one text, line ends included, or rows that are texts of their own."""

    name = "text"
    files = (TOKENIZER,)
    cuts: ClassVar[bool] = True
    """Whether rows that are too long lose their end; else they are read in blocks."""
    tokenizer: Tokenizer

    def __init__(self, flow: Flow, context: int, table: type[Table] = Table) -> None:
        """`table` is what reads rows."""
        self.flow: Flow = flow
        self.context, self.table = context, table

    @property
    def counted(self) -> str:
        return "lines" if self.flow == "text" else "rows"

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [TEXT]

    def open(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return RunningTable(names, data) if self.flow == "text" else self.table(names, data, roles)

    def asked(self, names: Sequence[str], data: DataConfig, roles: Sequence[Role]) -> Table:
        return self.table(names, data, roles)

    def found_lines(self, found: Mapping[str, str]) -> list[str]:
        what = {"text": "running text, line ends included", "rows": "each row is a text of its own"}[
            self.flow
        ]
        return [f"task.flow is {self.flow}: {what}"]

    # What is there ------------------------------------------------------------------------------------------

    def mark(self, cells: Cells) -> int:
        """Lines that are too short to tell have 0."""
        text = cells["text"]
        return text_hash(text) if self.flow == "rows" or len(text) >= TELLING else 0

    def look(self, split: str) -> LinesLook:
        return LinesLook()

    def held(self, splits: Splits, strata: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        train = first_of(splits)
        if "valid" in splits or not train.rows:
            return np.zeros(train.rows, bool)
        return (
            held_at_the_end(self._look(train).sizes) if self.flow == "text" else super().held(splits, strata)
        )

    def words(self, split: Split) -> float:
        return self._look(split).words / max(1, split.rows)

    def _look(self, split: Split) -> LinesLook:
        look: LinesLook = split.looks[self.name]
        return look

    def too_few(self, splits: Splits, strata: NDArray[np.int64] | None) -> Iterator[Problem]:
        if self.flow == "rows":
            yield from too_few(splits)
            return
        train = first_of(splits)
        for split in splits.values():
            least, characters = LEAST if split is train else LEAST_HELD, self._look(split).characters
            if characters < least:
                little = f"{split.name}: there is too little text: {_many(characters, 'character')}."
                fix = (
                    f"There have to be at least {least:,}; a model learns something useful from about"
                    " 100,000 on."
                )
                yield Problem("error", little, split.place(0) if split.rows else None, fix)
        look = self._look(train)
        if (
            "valid" not in splits
            and look.characters >= LEAST
            and look.sizes[self.held(splits, None)].sum() < LEAST_HELD
        ):
            little = (
                f"the text has {_many(train.rows, 'line')}, of which none can be held out for validation."
            )
            yield Problem("error", little, train.place(0), "Name another text to validate on: --valid FILE")

    def problems(self, splits: Splits) -> Iterator[Problem]:
        for split in splits.values():
            yield from self._odd(split)
        for split in splits.values():
            yield from self._long(split)
        for split in splits.values():
            yield from self._repeats(split)

    def _odd(self, split: Split) -> Iterator[Problem]:
        look = self._look(split)
        if look.odd:
            strange = Counter({one: count for one, count in look.counts.items() if ODD.match(one)})
            named = ", ".join(
                f"{shown(one)} ({_many(count, 'time')})" for one, count in strange.most_common(5)
            )
            places = ", ".join(str(split.place(row)) for row in look.odd[1:4])
            yield Problem(
                "warning",
                f"{split.name}: there are odd characters: {named}{'; also at ' + places if places else ''}.",
                split.place(look.odd[0]),
                "The model would learn to write them: remove them, or check data.encoding.",
            )

    def _long(self, split: Split) -> Iterator[Problem]:
        look = self._look(split)
        if self.cuts and self.flow == "rows" and split.rows and look.sizes.max() > LONG:
            long = f"{split.name}: the longest text has {look.sizes.max():,} characters."
            yield Problem(
                "note", long, split.place(look.longest), "Its end is cut off after data.length ids."
            )
        elif self.flow == "text" and look.characters > LONG * max(1, look.counts["\n"]):
            long = (
                f"{split.name}: a line has {look.characters // max(1, look.counts[chr(10)]):,} characters on"
                " average."
            )
            yield Problem(
                "note", long, split.place(0), "That is fine if the text is meant to have hardly any lines."
            )

    def _repeats(self, split: Split) -> Iterator[Problem]:
        marks = split.hashes[split.hashes != 0]
        repeated = 1 - len(np.unique(marks)) / len(marks) if len(marks) else 0.0
        if repeated >= 0.01:
            kind = f"lines of {TELLING} and more characters" if self.flow == "text" else "rows"
            severity: Severity = "warning" if repeated >= 0.2 else "note"
            told = f"{split.name}: {100 * repeated:.1f} % of the {kind} repeat an earlier one."
            yield Problem(severity, told, None, "Remove them if that is not meant: a model overfits to them.")

    def leaks(self, splits: Splits) -> Iterator[Problem]:
        """Of running text: lines of one text that also stand in another; what is held out is a text of its
        own."""
        if self.flow == "rows":
            yield from leaks(splits)
            return
        train, held = first_of(splits), self.held(splits, None)
        parts = {name: (split, np.arange(split.rows)) for name, split in splits.items()}
        if held.any():
            parts[train.name] = (train, np.flatnonzero(~held))
            parts["valid"] = (train, np.flatnonzero(held))
        for two, (theirs, rows) in parts.items():
            rows = rows[theirs.hashes[rows] != 0]
            mine, others = parts[train.name]
            both = rows[np.isin(theirs.hashes[rows], mine.hashes[others])]
            if two != train.name and len(both) >= max(1, 0.01 * len(rows)):
                share = (
                    f"{100 * len(both) / len(rows):.1f} % of the lines of {two} with {TELLING} and more"
                    " characters"
                )
                yield Problem(
                    "warning",
                    f"{share} are also in {train.name}: scores on {two} look better than they are.",
                    theirs.place(int(both[0])),
                    "Remove them there, or name another text with --valid.",
                )

    def lines(self, split: Split) -> list[str]:
        look = self._look(split)
        shares = {one: 100 * count / look.characters for one, count in look.counts.most_common(8)}
        common = ", ".join(f"{shown(one)} {share:.1f} %" for one, share in shares.items())
        return [
            f"  {_many(look.characters, 'character')}, {_many(look.words, 'word')}",
            f"  {_many(len(look.counts), 'different character')}; the commonest: {common}",
            (
                f"  the longest {'line' if self.flow == 'text' else 'text'} has "
                f"{look.sizes.max():,} characters ({split.place(look.longest)})"
            ),
        ]

    def held_line(self, splits: Splits) -> list[str]:
        """What is held out, for `check`."""
        train, held = first_of(splits), self.held(splits, None)
        if not held.any():
            return []
        share = 100 * self._look(train).sizes[held].sum() / self._look(train).characters
        first = train.place(int(np.flatnonzero(held)[0]))
        what = f"the text from {first} on" if self.flow == "text" else _many(int(held.sum()), "row")
        return [f"held out for validation: {what}, {share:.1f} % of the characters"]

    # Learning -----------------------------------------------------------------------------------------------

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        self.data = data

    def settings(self) -> Mapping[str, Any]:
        return {"flow": self.flow}

    def learn(self, rows: Callable[[], Iterator[Cells]], learnt: Mapping[str, Any], folder: Path) -> None:
        self.tokenizer = self.data.tokens.train(cells["text"] for cells in rows())
        self.save(folder)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def load(self, folder: Path, learnt: Mapping[str, Any]) -> None:
        self.tokenizer = Tokenizer.load(folder / TOKENIZER)

    def cells_of(self, given: Given) -> Cells:
        return {"text": given if isinstance(given, str) else "\t".join(given)}

    def amounts(self, facts: DataFacts) -> dict[str, int]:
        characters: dict[str, int] = facts.learnt["characters"]
        return characters

    def amount(self, facts: DataFacts) -> str:
        return f"{facts.learnt['characters']['train']:,} characters to learn from"


# A language model's -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenFacts:
    flow: Flow
    unit: Unit
    """What an id stands for."""
    line_ends: bool
    """Whether the ends of lines are among the ids, so that they can be predicted and written."""
    spaced: bool
    """Whether spaces can be told from the ids; words that were cut at marks have lost them."""
    opening: int
    """The id that stands before the first one of a text."""
    longest: int = 0
    """Ids of the longest row; of running text, those that are seen at once."""
    ids: dict[str, int] = field(default_factory=dict)
    """By split: ids that have to be predicted."""
    characters: dict[str, int] = field(default_factory=dict)
    word_counts: dict[str, int] = field(default_factory=dict)
    """By split: words, as perplexity counts them."""


class WrittenRunningField(RunningField):
    """Text as ids that are written one after the other. Rows stand between [BOS] and [EOS]."""

    Facts = WrittenFacts
    facts: WrittenFacts

    def set_up(self, data: DataConfig, model: ModelConfig) -> None:
        super().set_up(data, model)
        limit = model.learned_positions
        self.most = data.length if limit is None else min(data.length, limit - 1)
        """Ids of a row, at most."""

    def settings(self) -> Mapping[str, Any]:
        return {"flow": self.flow, "most": self.most}

    @property
    def symbols(self) -> dict[str, int]:
        return {"written": self.tokenizer.size}

    @property
    def unit(self) -> Unit:
        return unit_of(self.data.tokens)

    @cached_property
    def spaced(self) -> bool:
        return keeps_lines(self.tokenizer)

    @property
    def line_ends(self) -> bool:
        return self.flow == "rows" or self.spaced

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        texts = [cells["text"] for cells in rows]
        ids, units, cut = self.ids(texts)
        starts = int((ids.values == BOS).sum()) if self.flow == "rows" else 0
        characters, words = units.sum(axis=0).tolist()
        counts = {
            "ids": len(ids.values) - starts,
            "characters": characters,
            "words": words,
            "unknown": int((ids.values == UNK).sum()),
            "cut": cut,
        }
        values = {"written": ids} | ({"raw.text": raw_text(texts)} if keep else {})
        return Encoded(values, {"characters": units[:, 0], "words": units[:, 1]}, counts)

    def ids(self, texts: Sequence[str]) -> tuple[Ragged, np.ndarray, int]:
        """Ids of lines of running text, or of rows; characters and words of each (N 2); how many lost their
        end."""
        if self.flow == "text":
            rows = encode_pieces(self.tokenizer, texts)
            return rows, self._units(texts, rows.sizes()), 0
        rows = self.tokenizer.encode(texts)
        sizes = rows.sizes()
        long = np.flatnonzero(sizes > self.most)
        kept = np.minimum(sizes, self.most)
        rows = Ragged(rows.values[ranges(rows.offsets[:-1], kept)], offsets_of(kept))
        whole = list(texts)
        for row in long.tolist():
            whole[row] = self.tokenizer.decode(rows.row(row))
        return (
            marked(rows, (BOS,), (EOS,)),
            self._units(whole, kept) + 1,
            len(long),
        )  # the end counts as one more of each

    def _units(self, texts: Sequence[str], sizes: np.ndarray) -> np.ndarray:
        units = units_of(texts, line_ends=self.line_ends and self.flow == "text")
        if self.unit == "word" and not (self.flow == "text" and self.line_ends):
            units[:, 1] = sizes
        return units

    def finish(self, stores: Mapping[str, Store]) -> None:
        sizes = [store.fields["written"].sizes() for store in stores.values()]
        notes = {split: store.notes for split, store in stores.items()}
        self.facts = WrittenFacts(
            flow=self.flow,
            unit=self.unit,
            line_ends=self.line_ends,
            spaced=self.spaced,
            opening=BOS if self.flow == "rows" else opening_of(self.tokenizer),
            longest=self.context if self.flow == "text" else max(int(some.max()) for some in sizes),
            ids={split: note["ids"] for split, note in notes.items()},
            characters={split: note["characters"] for split, note in notes.items()},
            word_counts={split: note["words"] for split, note in notes.items()},
        )

    def length(self, facts: DataFacts) -> float:
        return float(min(self.facts.longest, self.context))

    def warnings(self, stores: Mapping[str, Store]) -> Iterator[str]:
        for split, store in stores.items():
            note, unit = store.notes, self.unit
            if note["unknown"] and split != "train":
                share = 100 * note["unknown"] / note["ids"]
                yield (
                    f"{split}: {share:.2g} % of the {unit}s are not in the vocabulary and count as one,"
                    " [UNK]."
                )
            if note["cut"]:
                yield (
                    f"{split}: {note['cut']:,} texts have more than {self.most} {unit}s (data.length) and"
                    " lose their end."
                )
            if note["ids"] > SCORED and split != "train":
                yield (
                    f"{split}: its first {SCORED:,} {unit}s are scored here; seqlab evaluate scores all"
                    f" {note['ids']:,}."
                )


def unit_of(tokens: TokensConfig) -> Unit:
    if isinstance(tokens, CharacterTokens):
        return "character"
    return "word" if isinstance(tokens, WordTokens) else "subword"


# Documents --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DocumentsFacts:
    flow: Flow
    ids: dict[str, int] = field(default_factory=dict)
    """By split: tokens of text, [SEP] between documents included."""
    characters: dict[str, int] = field(default_factory=dict)


class DocumentsField(RunningField):
    """Documents of sentences, as pretraining reads them. In running text a blank line ends a document."""

    Facts = DocumentsFacts
    facts: DocumentsFacts
    cuts = False
    gathers = True
    chunk = 1024

    def __init__(self, flow: Flow, context: int, pairs: bool) -> None:
        """`pairs`: whether what is asked later may be a pair of texts."""
        super().__init__(flow, context)
        self.pairs = pairs

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [TEXT, SECOND_TEXT] if self.pairs and found is not None else [TEXT]

    def text_of(self, cells: Cells) -> Given:
        """A tab in the text of a row joins a pair; so does a second column of a table."""
        first, tab, second = cells["text"].partition("\t")
        second = cells.get("text2", second)
        return (first, second) if tab or "text2" in cells else first

    def gathered(self, rows: Iterator[Cells]) -> Iterator[Cells]:
        for text in documents((cells["text"] for cells in rows), self.flow == "text"):
            yield {"text": text}

    @property
    def symbols(self) -> dict[str, int]:
        return {"text": self.tokenizer.size}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        """Nested ids, sentences of documents; characters and words of each sentence."""
        ids, sentences = encode_documents(self.tokenizer, [cells["text"] for cells in rows])
        units = units_of(sentences)
        arrays = {"characters": units[:, 0], "words": units[:, 1]}
        return Encoded({"text": ids}, arrays, {"characters": int(units[:, 0].sum())})

    def finish(self, stores: Mapping[str, Store]) -> None:
        ids = {split: len(store.fields["text"].values) for split, store in stores.items()}
        self.facts = DocumentsFacts(
            self.flow, ids, {split: store.notes["characters"] for split, store in stores.items()}
        )
        for split, count in ids.items():
            if count < self.context:
                raise UserError(
                    what=f"{split}: the text has {count:,} tokens, but task.context is {self.context}.",
                    why="At least one stretch of that length is needed.",
                    fix=f"Give more text, or set task.context={max(8, count // 4)}.",
                )

    def length(self, facts: DataFacts) -> float:
        return float(self.context)

    def amount(self, facts: DataFacts) -> str:
        learnt = facts.learnt
        return (
            f"{learnt['characters']['train']:,} characters ({learnt['ids']['train']:,} tokens) to learn from"
        )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shown(character: str) -> str:
    """A character as it can be printed: itself, its name or its number."""
    if character in " \n\t":
        return {" ": "space", "\n": "line end", "\t": "tab"}[character]
    if ODD.match(character) or unicodedata.category(character)[0] in "CZ":
        return f"U+{ord(character):04X}"
    return character
