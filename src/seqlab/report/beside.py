"""Costs of several models side by side, and what is known of published ones beside the formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqlab.report.amounts import memory, operations, short
from seqlab.report.cost import Inspection
from seqlab.report.evaluate import aligned


@dataclass(frozen=True)
class SideBySide:
    """A column for each model. Prints as a table."""

    inspections: Sequence[Inspection]
    more: Sequence[Mapping[str, str]] = ()
    """What else is told of each model, by row."""

    @property
    def header(self) -> tuple[str, ...]:
        return ("", *(one.name for one in self.inspections))

    def rows(self) -> list[tuple[str, ...]]:
        """What all have, and what some have and the others leave empty."""
        columns = [facts_of(one) for one in self.inspections]
        for column, more in zip(columns, self.more, strict=False):
            column |= more
        return _joined(columns)

    def published_rows(self) -> list[tuple[str, ...]]:
        """The published table; empty where none of the models is a published one."""
        if not any(one.published for one in self.inspections):
            return []
        return _joined([_published(one) for one in self.inspections])

    def to_json(self) -> dict[str, Any]:
        return {"models": [one.to_json() for one in self.inspections]}

    def __str__(self) -> str:
        tables = [aligned([self.header, *self.rows()])]
        if rows := self.published_rows():
            tables.append(aligned([("as published", *self.header[1:]), *rows], left=range(len(self.header))))
        return "\n\n".join(tables)


def facts_of(one: Inspection) -> dict[str, str]:
    """What is told of a model in a column."""
    trees, serial = one.parallel
    facts = {"task": one.task, "positions": f"{one.length:,}", "parameters, counted": f"{one.total:,}"}
    facts["by formula"] = f"{one.formula_total:,}"
    facts |= {f"of these, {part}": f"{count:,}" for part, count in one.by_part.items()}
    facts |= {
        "multiply-adds forward": short(one.forward),
        "backward": short(one.backward),
        "sequential steps": f"{one.steps:,}",
        "longest path": f"{one.path:,}",
        "in parallel, sums as trees": f"{trees:,}",
        "in parallel, products one by one": f"{serial:,}",
        "kept of an example": memory(one.kept),
        "weights": memory(4 * one.total),
        "with gradients and optimiser": memory(one.in_training),
        "run folder": memory(one.folder),
    }
    if one.on_disk is not None:
        facts["on disk"] = memory(one.on_disk)
    if one.tokens:
        facts[f"training on {one.tokens:,} tokens"] = operations(one.training_flops)
    return facts


def _published(one: Inspection) -> dict[str, str]:
    if one.published is None:
        return {}
    return {"parameters, counted": f"{one.total:,}", **one.published.facts(one.total)}


def _joined(columns: Sequence[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """Rows by name, in the order of the column that has most of them; new ones stand where they come."""
    names: list[str] = []
    for column in columns:
        place = 0
        for name in column:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    rows = [(name, *(column.get(name, "") for column in columns)) for name in names]
    return [row for row in rows if any(row[1:])]
