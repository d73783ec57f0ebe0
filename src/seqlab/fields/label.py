"""A label: one of several names for each row."""

from __future__ import annotations

import dataclasses
import re
import shlex
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import Role
from seqlab.data.store import Ragged, Store
from seqlab.data.survey import SHOWN, Look, Problem, Split, Splits, first_of
from seqlab.errors import UserError, did_you_mean
from seqlab.fields.field import Encoded, Field, Given, GivenField

USUAL = ("label", "class", "category", "sentiment", "target", "topic", "rating", "score", "y")
SHOWN_LABELS, BAR, NO_LABEL = 30, 30, -1


@dataclass(frozen=True)
class LabelFacts:
    labels: tuple[str, ...] = ()
    """In the order of the model's scores."""
    label_counts: tuple[int, ...] = ()
    """Training rows of each label."""


class LabelLook(Look):
    """The label of each row, as a number in the order in which labels turn up in all data sets."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers, self._labels = numbers, array("q")

    def see(self, cells: Cells, mark: int) -> None:
        label = cells.get("label")
        self._labels.append(self.numbers.setdefault(label, len(self.numbers)) if label else NO_LABEL)

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.array(self._labels, np.int64)


class LabelField(Field):
    """One of several labels, as it is written."""

    name = "label"
    Facts = LabelFacts
    facts: LabelFacts

    def __init__(self) -> None:
        self.facts = LabelFacts()
        self._numbers: dict[str, int] = {}

    def roles(self, found: Mapping[str, str] | None = None) -> list[Role]:
        return [Role("label", USUAL)]

    # What is there ------------------------------------------------------------------------------------------

    def look(self, split: str) -> LabelLook:
        return LabelLook(self._numbers)

    def strata(self, split: Split) -> NDArray[np.int64]:
        look: LabelLook = split.looks[self.name]
        return look.labels

    def _known(self, splits: Splits) -> tuple[list[str], list[str]]:
        """The labels of the training rows, numbers by size, else by alphabet; and those that only other rows
        have."""
        seen = np.zeros(len(self._numbers) + 1, bool)
        seen[self.strata(first_of(splits))] = True
        names = list(self._numbers)
        parts = (
            [name for number, name in enumerate(names) if seen[number] == wanted] for wanted in (True, False)
        )
        known, unseen = (_sorted(part) for part in parts)
        return known, unseen

    def _counts(self, split: Split) -> dict[str, int]:
        """Rows of each label of a data set."""
        labels = self.strata(split)
        return dict(
            zip(
                self._numbers,
                np.bincount(labels[labels >= 0], minlength=len(self._numbers)).tolist(),
                strict=True,
            )
        )

    def problems(self, splits: Splits) -> Iterator[Problem]:
        train = first_of(splits)
        if (self.strata(train) >= 0).any():
            known, unseen = self._known(splits)
            counts = {label: self._counts(train)[label] for label in known}
            yield from self._faulty_labels(train, counts)
            yield from self._unseen(splits, unseen)
        for split in splits.values():
            yield from self._conflicts(split)

    def _faulty_labels(self, train: Split, counts: dict[str, int]) -> Iterator[Problem]:
        if len(counts) == 1:
            yield Problem(
                "error",
                f'every row has the same label, "{next(iter(counts))}".',
                train.place(0),
                "A classifier needs rows of at least two labels. If another column holds the label:"
                " data.columns.label=...",
            )
        if len(counts) > max(50, train.rows / 2):
            yield Problem(
                "warning",
                f"nearly every row has a label of its own: {len(counts):,} labels in {train.rows:,} rows.",
                None,
                "If the label is a number: task.target=number. If another column holds it:"
                " data.columns.label=...",
            )
        rare = [label for label, count in counts.items() if count < 5]
        if rare and 1 < len(counts) <= train.rows / 2:
            shown = ", ".join(f'"{label}" ({counts[label]})' for label in rare[:SHOWN])
            few = f"{len(rare)} labels have fewer than 5 training rows: {shown}."
            yield Problem("warning", few, None, "Add rows, or merge labels.")
        plain: dict[str, str] = {}
        for label in counts:
            if (twin := plain.setdefault(" ".join(label.lower().split()), label)) != label:
                alike = f'labels "{twin}" and "{label}" differ in capitals or spaces alone.'
                yield Problem("warning", alike, None, "Write them alike.")

    def _unseen(self, splits: Splits, unseen: Sequence[str]) -> Iterator[Problem]:
        for split in splits.values():
            for label in unseen:
                rows = np.flatnonzero(self.strata(split) == self._numbers[label])
                if len(rows):
                    yield Problem(
                        "error",
                        f'the label "{label}" does not occur in the training data ({split.name}:'
                        f" {len(rows):,} rows).",
                        split.place(int(rows[0])),
                        "Add training rows with it, mend its spelling, or remove these rows.",
                    )

    def _conflicts(self, split: Split) -> Iterator[Problem]:
        rows = conflicting(split.hashes, self.strata(split))
        if len(rows):
            places = ", ".join(str(split.place(int(row))) for row in rows[1:SHOWN])
            yield Problem(
                "warning",
                f"{split.name}: {len(rows):,} rows have a text that also has another label, as at {places}.",
                split.place(int(rows[0])),
                "Decide for one label.",
            )

    def lines(self, split: Split) -> list[str]:
        counts = {label: count for label, count in self._counts(split).items() if count}
        if not counts:
            return ["  no labels"]
        counts = {label: counts[label] for label in _sorted(list(counts))}
        width, most = min(30, max(map(len, counts))), max(counts.values())
        lines = [f"  {len(counts)} labels"]
        for label, count in list(counts.items())[:SHOWN_LABELS]:
            bar = "█" * max(1, round(BAR * count / most))
            lines.append(f"    {label[:30]:<{width}}  {count:>9,}  {100 * count / split.rows:5.1f} %  {bar}")
        return (
            lines
            if len(counts) <= SHOWN_LABELS
            else [*lines, f"    ... and {len(counts) - SHOWN_LABELS} more"]
        )

    # Learning and numbers -----------------------------------------------------------------------------------

    def settle(self, splits: Splits, chosen: NDArray[np.bool_]) -> None:
        known, _ = self._known(splits)
        counts = np.bincount(self.strata(first_of(splits))[chosen], minlength=len(self._numbers))
        self.facts = LabelFacts(tuple(known), tuple(int(counts[self._numbers[label]]) for label in known))

    @property
    def outputs(self) -> int:
        return len(self.facts.labels)

    def settings(self) -> Mapping[str, Any]:
        return {"labels": self.facts.labels}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        labels = self.facts.labels
        known = {label: number for number, label in enumerate(labels)}
        for row, cells in enumerate(rows):
            if cells["label"] not in known:
                place = places[row] if places else "A row"
                raise UserError(
                    what=f'{place}: the label "{cells["label"]}" does not occur in the training data.',
                    why=(
                        f"The model knows {len(labels)} labels:"
                        f" {', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''}."
                    ),
                    fix="Correct the label, remove the row, or train on data that has it.",
                )
        return Encoded(arrays={"target": np.array([known[cells["label"]] for cells in rows], np.int64)})


class GivenLabelField(LabelField, GivenField):
    """A label that is read: the text that belongs to it is written for it."""

    noun = "label"
    names = ("label",)

    def _faulty_labels(self, train: Split, counts: dict[str, int]) -> Iterator[Problem]:
        for problem in super()._faulty_labels(train, counts):
            if problem.severity == "error":
                fix = (
                    "Leave task.given out, or name the column that tells texts apart: data.columns.label=..."
                )
                problem = dataclasses.replace(problem, fix=fix)
            yield problem

    def _conflicts(self, split: Split) -> Iterator[Problem]:
        yield from ()  # a text may be written for several labels

    @property
    def symbols(self) -> dict[str, int]:
        return {"label": len(self.facts.labels)}

    @property
    def features(self) -> dict[str, int]:
        return {}

    def encode(self, rows: Sequence[Cells], places: Sequence[Place] | None, keep: bool) -> Encoded:
        numbers = super().encode(rows, places, keep).arrays["target"]
        return Encoded({"label": _slots(numbers)})

    def given_of(self, cells: Cells) -> str:
        return cells["label"]

    def cells_of(self, given: Given) -> Cells:
        labels = self.facts.labels
        if given not in labels:
            known = ", ".join(f'"{label}"' for label in labels[:SHOWN_LABELS])
            more = f" and {len(labels) - SHOWN_LABELS:,} more" if len(labels) > SHOWN_LABELS else ""
            near = did_you_mean(str(given), labels)
            raise UserError(
                what=f'The label "{given}" does not occur in the training data.{near}',
                why=f"The model knows {known}{more}.",
                fix=f"Give one of them: --given {shlex.quote(labels[0])}",
            )
        return {"label": str(given)}

    def given(self, store: Store, rows: NDArray[np.int64]) -> list[str]:
        return [self.facts.labels[number] for number in store.fields["label"].take(rows).values.tolist()]

    def others(self, store: Store, count: int) -> dict[str, Ragged]:
        numbers = np.asarray(store.fields["label"].values[:count], np.int64)
        steps = np.random.default_rng(0).integers(1, max(2, len(self.facts.labels)), count)
        return {"label": _slots((numbers + steps) % len(self.facts.labels))}

    @property
    def examples(self) -> list[str]:
        """The labels of most training rows."""
        order = np.argsort([-count for count in self.facts.label_counts], kind="stable")
        return [self.facts.labels[place] for place in order[:4].tolist()]


def _slots(numbers: NDArray[np.int64]) -> Ragged:
    """One number in each row."""
    return Ragged(numbers, np.arange(len(numbers) + 1))


def _sorted(labels: list[str]) -> list[str]:
    """Numbers by size, unless some are written like codes (007); everything else by alphabet."""
    plain = all(re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", label) for label in labels)
    return sorted(labels, key=lambda label: (float(label) if plain else 0.0, label))


def conflicting(hashes: NDArray[np.uint64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows whose text also stands in a row with another label."""
    order = np.lexsort((labels, hashes))
    hashes, labels = hashes[order], labels[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        if len(hashes)
        else np.zeros(0, np.int64)
    )
    if not len(starts):
        return np.zeros(0, np.int64)
    differ = np.minimum.reduceat(labels, starts) != np.maximum.reduceat(labels, starts)
    return np.sort(order[np.repeat(differ, np.diff([*starts, len(hashes)]))])
