"""From files to numbers, once for all tasks: looked at in one pass, learnt from, and kept in stores.

A file is parsed once: the look keeps the good rows on disk, and all that follows reads those.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqlab import __version__
from seqlab.answers.answer import Answer, Exercise, Extent, Known
from seqlab.config import dump
from seqlab.data.batches import FIXED, Plan, Rows, Seeds, chunks
from seqlab.data.cells import Cells, KeptRows
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Table
from seqlab.data.store import Store, StoreWriter, cache_folder, cached_store, digest_of, fingerprint
from seqlab.data.survey import Problem, Split, Walk, by_severity, faults, first_of, headline, problem_lines
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import DataFacts, Encoded, Field, ReadField
from seqlab.files import disk_trouble, folder_beside
from seqlab.model import Model, ModelConfig
from seqlab.parts import Batch
from seqlab.tasks.task import Size, TaskConfig
from seqlab.training.validation import Validation


def same_columns(data: DataConfig, found: dict[str, str]) -> DataConfig:
    """What was found in the training files holds for the others, where columns have no names or several of
    them are read as one."""
    nameless = all(column.isdigit() for column in found.values())
    same = {role: column for role, column in found.items() if nameless or "," in column}
    return replace(data, columns={**same, **data.columns})


def lead_of(fields: Sequence[Field]) -> ReadField:
    """What an example is read from."""
    first = fields[0]
    assert isinstance(first, ReadField)
    return first


class Files:
    """The files of a run, looked at once: enough to find faults and to decide on sizes before anything is
    written."""

    def __init__(self, task: TaskConfig, data: DataConfig, keep_all_faults: bool = False) -> None:
        task.refuse(data)
        self.task, self.data = task, data
        self.fields = task.fields(data)
        self.lead = lead_of(self.fields)
        roles = [role for field in self.fields for role in field.roles()]
        self.tables: dict[str, Table] = {}
        self.kept: dict[str, KeptRows] = {}
        self.splits: dict[str, Split] = {}
        for split, names in {"train": data.train, "valid": data.valid, "test": data.test}.items():
            if names:
                like_train = same_columns(data, self.tables["train"].found) if self.tables else data
                self.tables[split] = self.lead.open(names, self.lead.data_of(split, like_train), roles)
        for field in self.fields:
            field.see_columns(self.tables["train"].found)
        for split, table in self.tables.items():
            self.kept[split] = KeptRows(cache_folder().parent / "rows", list(table.found))
            with disk_trouble(
                f"The rows of {table.sources[0].name} could not be kept in {cache_folder().parent}"
            ):
                self.splits[split] = self._look(split, table, keep_all_faults)

    def _look(self, name: str, table: Table, keep_all: bool) -> Split:
        """One pass over a table."""
        walk = Walk(table, keep_all)
        looks = {field.name: field.look(name) for field in self.fields}
        sees, keep, mark_of = [look.see for look in looks.values()], self.kept[name].append, self.lead.mark
        marks = []
        for cells in walk:
            mark = mark_of(cells)
            marks.append(mark)
            for see in sees:
                see(cells, mark)
            keep(cells)
        self.kept[name].flush()
        return Split(name, walk, np.array(marks, np.uint64), looks)

    # What is there ------------------------------------------------------------------------------------------

    @property
    def train(self) -> Split:
        return first_of(self.splits)

    @property
    def characters(self) -> int:
        """Of the training texts."""
        return sum(look.characters for look in self.train.looks.values())

    @cached_property
    def strata(self) -> NDArray[np.int64] | None:
        found = [strata for field in self.fields if (strata := field.strata(self.train)) is not None]
        return found[0] if found else None

    @cached_property
    def parts(self) -> dict[str, NDArray[np.bool_]]:
        """Which rows of the training files are for "train", and which are held out for another split."""
        return self.lead.parts(self.splits, self.strata)

    @property
    def size(self) -> Size:
        """Of the training data, before anything is held out."""
        return Size(
            reads=self.lead.kind,
            rows=self.train.rows,
            words=self.lead.words(self.train),
            characters=self.characters,
        )

    @cached_property
    def problems(self) -> list[Problem]:
        """Everything worth telling, errors first."""
        found = [*faults(self.splits), *self.lead.too_few(self.splits, self.strata)]
        for field in reversed(self.fields):  # what is compared with tells more than what is read
            found += field.problems(self.splits)
        return by_severity([*found, *self.lead.leaks(self.splits)])

    def lines(self) -> list[str]:
        """What `seqlab check` prints."""
        table = self.tables["train"]
        lines = [] if table.sources[0].sides else self.lead.found_lines(table.found)
        for split in self.splits.values():
            lines.append(headline(split, self.lead.counted))
            if split.rows:
                lines += [line for field in self.fields for line in field.lines(split)]
        return [*lines, *self.lead.held_line(self.splits), *problem_lines(self.problems)]

    @property
    def faulty(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.problems if problem.severity == "warning")

    def refuse_faults(self) -> None:
        """Stop with everything that is wrong."""
        problems = [problem for problem in self.problems if problem.severity == "error"]
        if len(problems) == 1:
            raise UserError(what=str(problems[0]), why="Training on it would mislead.", fix=problems[0].fix)
        if problems:
            shown = [f"- {problem} {problem.fix}" for problem in problems[:8]]
            more = [f"- and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
            raise UserError(
                what=f"{len(problems)} things in the data are wrong.",
                why="\n".join(shown + more),
                fix=f"See all of them with: seqlab check {self.task.kind} {' '.join(self.data.train)}",
            )

    # Made ready ---------------------------------------------------------------------------------------------

    @cached_property
    def digests(self) -> list[str]:
        """Hashes of all files."""
        return [
            digest_of(path)
            for table in self.tables.values()
            for source in table.sources
            for path in source.paths
        ]

    def rows_read(self, split: str) -> Iterator[Cells]:
        """The rows of a split as they were read."""
        if split in self.kept:
            chosen = self.parts["train"] if split == "train" and not self.parts["train"].all() else None
            return self.kept[split].rows(chosen)
        return self.kept["train"].rows(self.parts[split])

    def rows(self, split: str) -> Iterator[Cells]:
        """The rows of a split, joined to examples."""
        return self.lead.gathered(self.rows_read(split))

    def prepare(self, data: DataConfig, model: ModelConfig, decode: DecodeConfig) -> Prepared:
        """Learn what the training rows tell and write the stores, or find both ready from an earlier run."""
        learnt: dict[str, object] = {}
        for field in self.fields:
            field.set_up(data, model)
            field.settle(self.splits, self.parts["train"])
            learnt |= dataclasses.asdict(field.facts)
        names = {
            split: len(table.sources) for split, table in self.tables.items()
        }  # names of files may change
        settings = {field.name: dict(field.settings()) for field in self.fields}
        tree = {
            "version": __version__,
            "task": self.task.kind,
            "data": dump(data) | names,
            "fields": settings,
        }
        mark = fingerprint(self.digests, tree)
        self._learn(cache_folder().parent / "readings" / mark, learnt)

        splits = [*self.tables, *(part for part in self.parts if part not in self.tables)]
        stores = {split: cached_store(f"{mark}-{split}", partial(self._write, split)) for split in splits}
        for field in self.fields:
            field.finish(stores)
        facts = self._facts(stores, mark)
        known = Known(data, model, decode, facts, tuple(self.fields))
        return Prepared(self.task, known, stores, self)

    def _learn(self, saved: Path, learnt: dict[str, object]) -> None:
        """Let the fields learn, or load what an earlier run with the same data left in this folder."""
        if saved.exists():
            try:
                for field in self.fields:
                    field.load(saved, learnt)
                return
            except UserError:  # damaged, but it can be learnt again
                shutil.rmtree(saved)
        with folder_beside(saved) as beside:
            for field in self.fields:
                field.learn(partial(self.rows_read, "train"), learnt, beside)

    def _write(self, split: str, writer: StoreWriter) -> None:
        encode_rows(writer, self.fields, self.rows(split), self.lead.chunk, keep=split != "train")

    def _facts(self, stores: dict[str, Store], mark: str) -> DataFacts:
        learnt: dict[str, object] = {}
        symbols: dict[str, int] = {}
        for field in self.fields:
            learnt |= dataclasses.asdict(field.facts)
            symbols |= field.symbols
        more = [warning for field in self.fields for warning in field.warnings(stores)]
        facts = DataFacts(
            task=self.task.kind,
            columns=dict(self.tables["train"].found),
            symbols=symbols,
            rows={split: store.rows for split, store in stores.items()},
            words=self.size.words,
            cut={split: store.notes["cut"] for split, store in stores.items() if "cut" in store.notes},
            fingerprint=mark,
            warnings=(*self.warnings, *more),
            learnt=learnt,
        )
        return replace(facts, words=self.lead.length(facts))


def encode_rows(
    writer: StoreWriter, fields: Sequence[Field], rows: Iterator[Cells], chunk: int, keep: bool
) -> None:
    """Numbers for rows, chunk by chunk. keep: all rows, with what a report shows of them; else only those
    that fit."""
    for some in chunks(rows, chunk):
        append(writer, fields, some, None, keep)


def append(
    writer: StoreWriter,
    fields: Sequence[Field],
    rows: Sequence[Cells],
    places: Sequence[Place] | None,
    keep: bool,
) -> None:
    """Numbers for these rows."""
    encoded = [field.encode(rows, places, keep) for field in fields]
    values = {name: ragged for one in encoded for name, ragged in one.values.items()}
    arrays = {name: array for one in encoded for name, array in one.arrays.items()}
    for one in encoded:
        for name, count in one.counts.items():
            writer.notes[name] = writer.notes.get(name, 0) + count
    if not keep and (fits := _fit(encoded)) is not None:
        values = {name: ragged.take(np.flatnonzero(fits)) for name, ragged in values.items()}
        arrays = {name: array[fits] for name, array in arrays.items()}
        writer.notes["cut"] = writer.notes.get("cut", 0) + int((~fits).sum())
    writer.append(values, arrays)


def _fit(encoded: Sequence[Encoded]) -> NDArray[np.bool_] | None:
    """Which rows are short enough in every field, where that matters."""
    fits = [one.fits for one in encoded if one.fits is not None]
    return np.logical_and.reduce(fits) if fits else None


@dataclass(frozen=True)
class Prepared:
    """Data made ready: what it decided, the fields that read it, and the stores by split."""

    task: TaskConfig
    known: Known
    stores: dict[str, Store]
    files: Files

    @property
    def facts(self) -> DataFacts:
        return self.known.facts

    @cached_property
    def answer(self) -> Answer:
        return self.task.answer(self.known)

    @cached_property
    def training(self) -> Exercise:
        """The training rows as batches."""
        return self.answer.exercise(self.stores["train"])

    def save(self, folder: Path) -> None:
        """What is needed to read as these rows were read: tokenizers and the like."""
        for field in self.known.fields:
            field.save(folder)

    @cached_property
    def _plans(self) -> dict[tuple[int, int], Plan]:
        return {}

    def plan(self, batch_tokens: int, seed: int) -> Plan:
        """Which training rows go together; the same plan for the same wish."""
        if (batch_tokens, seed) not in self._plans:
            self._plans[batch_tokens, seed] = self.training.plan(batch_tokens, seed)
        return self._plans[batch_tokens, seed]

    def load(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        return self.training.batch(rows, seeds)

    def part(self, split: str, extent: Extent) -> object:
        """What of a split is scored."""
        return self.answer.part(self.stores[split], extent)

    @cached_property
    def watched(self) -> object:
        """What is scored at each validation."""
        return self.part("valid", "watched")

    def validate(self, model: Model) -> Validation:
        """Score a model on the validation rows, with something that it writes as `decode` says."""
        judged = self.answer.judge(model, self.watched, "watched", self.known.decode)
        sample = self.answer.sample(model, self.watched, judged, self.known.decode)
        return replace(self.answer.validation(judged), sample=sample)
