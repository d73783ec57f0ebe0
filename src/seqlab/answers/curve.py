"""A sequence of numbers written from one vector, fed at every step beside the last value (SPEC R3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.answers.answer import Answer, Exercise, Extent, Findings, Judged, Known
from seqlab.data.batches import FIXED, Plan, Rows, Seeds
from seqlab.data.store import Store, pad_rows
from seqlab.decode import DecodeConfig
from seqlab.decode.numbers import UNIT, noise_of, refuse_sampling, write_numbers
from seqlab.fields.curve import CurveField
from seqlab.fields.field import Given
from seqlab.fields.read_vector import ReadVectorField
from seqlab.forecast_metrics import Forecasts, ScaledMAE, ScaledMSE, UnitMAE, UnitMSE
from seqlab.inference import by_row, computed
from seqlab.metrics import Metric
from seqlab.model import Model
from seqlab.parts import Batch, Facts
from seqlab.report.explanation import NO_PROBABILITY, Attributions, Explanation, Map
from seqlab.report.forecast import Curves
from seqlab.report.words import Example
from seqlab.seq import Nested, Seq

ROWS_AT_ONCE = 2048
WATCHED, WORST, DRAWN = 1000, 6, 4


@dataclass(frozen=True)
class WrittenNumbers:
    """What was written for one vector, in the data's units."""

    values: tuple[tuple[float, ...], ...]

    def to_json(self) -> dict[str, Any]:
        rounded = [[round(number, 6) for number in step] for step in self.values]
        return {"values": [step[0] for step in rounded] if len(rounded[0]) == 1 else rounded}

    def shown(self) -> str:
        return ", ".join(" ".join(f"{number:.5g}" for number in step) for step in self.values)

    def columns(self) -> dict[str, Any]:
        return {"written": self.shown()}


class CurveExercise(Exercise):
    """Vectors and what is written for them; all rows are as long."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def plan(self, budget: int, seed: int) -> Plan:
        return Plan(self.store.fields["written"].sizes(), budget, seed)

    def batch(self, rows: Rows, seeds: Seeds = FIXED) -> Batch:
        return make_batch(self.store, rows)


def make_batch(store: Store, rows: Rows) -> Batch:
    """These rows as tensors; without "written" there is nothing to compare with."""
    inputs: dict[str, Seq | Nested] = {"values": pad_rows(store.fields["values"], rows)}
    written = pad_rows(store.fields["written"], rows) if "written" in store.fields else None
    assert not isinstance(written, Nested)
    return Batch(inputs, torch.from_numpy(rows), {} if written is None else {"written": written})


class CurveAnswer(Answer):
    """As many steps as in the training rows, each fed the mean of the one before."""

    joins = False

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        vector, curve = known.fields
        assert isinstance(vector, ReadVectorField) and isinstance(curve, CurveField)
        self.vector, self.curve = vector, curve

    @property
    def metrics(self) -> list[Metric]:
        return [ScaledMSE(), ScaledMAE(), UnitMSE(), UnitMAE()]

    @property
    def parts(self) -> Facts:
        features = self.vector.features | {"written": len(self.curve.facts.curve_means)}
        return Facts(symbols={}, features=features, window=1)

    @property
    def example(self) -> str:
        return self.vector.example

    # Learning and scoring -----------------------------------------------------------------------------------

    def exercise(self, store: Store) -> CurveExercise:
        return CurveExercise(store)

    def part(self, store: Store, extent: Extent) -> Store:
        if extent != "watched" or store.rows <= WATCHED:
            return store
        some = np.linspace(0, store.rows - 1, WATCHED).astype(np.int64)
        return Store({name: ragged.take(some) for name, ragged in store.fields.items()}, {})

    def written(
        self, model: Model, store: Store, how: DecodeConfig | None = None
    ) -> Float[np.ndarray, "N U C"]:
        """The scaled numbers that the model writes for all rows: means, or with decode.sample draws."""
        decoder, facts = model.decoder, self.curve.facts
        assert decoder is not None
        noise = None
        if how and how.sample:
            if getattr(self.known.model.decoder, "variance", "") != "learned":
                raise refuse_sampling(UNIT)
            noise = noise_of(how.seed, 1, facts.curve_steps, len(facts.curve_means))

        def compute(batch: Batch) -> np.ndarray:
            state = decoder.start(model.encoded(batch)[1], batch.size)
            first = torch.zeros(batch.size, len(facts.curve_means), device=batch.rows.device)
            own = None if noise is None else noise.to(first.device)
            return _numpy(write_numbers(decoder, state, first, facts.curve_steps, noise=own))

        groups = np.array_split(np.arange(store.rows), -(-store.rows // ROWS_AT_ONCE))
        return by_row(computed(model, groups, lambda rows: make_batch(store, rows), compute))

    def forecasts(self, scaled: np.ndarray) -> Forecasts:
        """Scaled numbers with what they are in the data's units."""
        return Forecasts(
            scaled, self.curve.in_units(scaled), np.ones((len(scaled), scaled.shape[2])), block=1
        )

    def meant(self, store: Store) -> Forecasts:
        """What stands in the rows."""
        facts, kept = self.curve.facts, np.asarray(store.fields["written"].values)
        whole = kept.reshape(-1, facts.curve_steps + 1, len(facts.curve_means))
        return self.forecasts(whole[:, 1:])

    def judge(self, model: Model, part: Store, extent: Extent, how: DecodeConfig) -> Judged:
        said, meant = self.forecasts(self.written(model, part)), self.meant(part)
        return Judged(said, meant, float(((said.scaled.astype(np.float64) - meant.scaled) ** 2).mean()))

    # Asking -------------------------------------------------------------------------------------------------

    def predict(self, model: Model, given: Sequence[Given], how: DecodeConfig) -> list[WrittenNumbers]:
        if not given:
            return []
        units = self.curve.in_units(self.written(model, self.read(given), how))
        return [WrittenNumbers(tuple(tuple(step) for step in row)) for row in units.tolist()]

    def explain(
        self, model: Model, given: Given, how: DecodeConfig, target: str | None = None
    ) -> Explanation:
        """What each number of the vector adds to the sum of what is written: gradient × input."""
        [said] = self.predict(model, [given], how)
        batch = make_batch(self.read([given]), np.array([0]))
        read = batch.inputs["values"]
        assert isinstance(read, Seq) and model.decoder is not None
        values = read.values.clone().requires_grad_()
        model.eval()
        with torch.enable_grad():
            moved = replace(batch, inputs={"values": replace(read, values=values)})
            state = model.decoder.start(model.encoded(moved)[1], 1)
            first = torch.zeros(1, len(self.curve.facts.curve_means))
            total = write_numbers(model.decoder, state, first, self.curve.facts.curve_steps).sum()
            [gradient] = torch.autograd.grad(total, [values])
        weights = _numpy((gradient * values)[0, 0])
        numbers = self.vector.shown(given).split(", ")
        shown = Map(
            name="what each number of the vector adds to the sum of what is written",
            kind="tokens",
            weights=weights,
            pieces=tuple(numbers[: len(weights)]),
            signed=True,
        )
        return Explanation(
            text=self.vector.shown(given),
            label=said.shown()[:60],
            scores={},
            maps=(shown,),
            method="gradient × input",
            note="Shown is gradient × input: to first order what each number adds.",
            beside=Attributions(note=NO_PROBABILITY),
        )

    # For the report -----------------------------------------------------------------------------------------

    def findings(self, model: Model, store: Store, part: Store, judged: Judged) -> Findings:
        errors = ((judged.said.scaled - judged.meant.scaled) ** 2).mean(axis=(1, 2))
        worst = np.argsort(-errors, kind="stable")[:WORST]
        texts = self.vector.texts(part)
        shown = np.linspace(0, len(errors) - 1, min(DRAWN, len(errors))).astype(np.int64)
        return Findings(
            worst=[Example(text=self.vector.shown(texts[row]), score=float(errors[row])) for row in worst],
            pictures=[self._drawn(texts[row], judged, row).html() for row in np.unique(shown).tolist()],
        )

    def _drawn(self, vector: Given, judged: Judged, row: int) -> Curves:
        said, came = judged.said.units[row], judged.meant.units[row]
        names = (
            tuple(f"number {place + 1}" for place in range(said.shape[1]))
            if said.shape[1] > 1
            else ("values",)
        )
        return Curves(
            title=self.vector.shown(vector),
            names=names,
            past=came[:0],
            said=said,
            low=said,
            high=said,
            came=came,
        )


def _numpy(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().float().cpu().numpy())
