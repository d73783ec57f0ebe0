"""Batches that are made up, as real ones of a model would be: to measure what a step takes where there is no
data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.model import Model
from seqlab.parts import Batch, Facts, Numbers, Objective, Places, Target
from seqlab.seq import Seq, imagined_ids

ROWS = 4096
"""Of the data set that is made up."""


class ImaginedPlan(Plan):
    """Batches of equally many rows, all of one length."""

    def __init__(self, length: int, rows: int, carries: bool) -> None:
        super().__init__(
            np.full(max(rows, ROWS // rows * rows), length), rows * length, seed=0, most_rows=rows
        )
        self.carries = carries


class ImaginedRows:
    """Rows of `length` positions for a model, and answers to them that mean nothing.

    asked: the share of the positions that have an answer, where each may have one.
    """

    def __init__(
        self,
        model: Model,
        facts: Facts,
        objectives: Sequence[tuple[float, Objective]],
        length: int,
        asked: float = 1.0,
        carries: bool = False,
    ) -> None:
        self.model, self.facts, self.length = model, facts, length
        self.asked, self.carries = asked, carries
        self.answers = {objective.reads: objective.numbers for _, objective in objectives}

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        """As many rows as there are numbers; what the numbers are does not matter."""
        read = self.model.input.imagined(len(rows), self.length) if self.model.input is not None else {}
        targets = {name: self._target(name, numbers, len(rows)) for name, numbers in self.answers.items()}
        return Batch(read, torch.from_numpy(np.asarray(rows)), targets, follows=self.carries)

    def _target(self, name: str, numbers: bool, rows: int) -> Target:
        if name == "written":
            return self._written(rows)
        outputs = self.facts.outputs[name]
        if name == "row":
            return torch.zeros(rows, outputs) if numbers else torch.arange(rows) % outputs
        positions = self._positions(rows)
        values: Tensor = torch.zeros(len(positions), outputs) if numbers else positions % outputs
        return Places(positions, values, torch.full((rows,), len(positions) // rows))

    def _positions(self, rows: int) -> Tensor:
        """As many of each row, evenly apart."""
        count = max(1, round(self.asked * self.length))
        of_row = torch.arange(count) * self.length // count
        return (torch.arange(rows).unsqueeze(1) * self.length + of_row).flatten()

    def _written(self, rows: int) -> Seq:
        written, length = self.facts.written, self.length + 1
        if isinstance(written, Numbers):
            values = torch.zeros(rows, length, written.written + written.beside)
            return Seq(values, torch.ones(rows, length, dtype=torch.bool))
        return imagined_ids(rows, length, written)
