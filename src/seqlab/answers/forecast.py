"""The next steps of a series: all at once from the window's states, or step by step by a decoder of
numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.answers.forecasting import ForecastAnswer
from seqlab.data.batches import Rows
from seqlab.data.windows import Windows
from seqlab.decode.numbers import UNIT, noise_of, refuse_sampling, write_numbers
from seqlab.inference import by_row, computed, predicted
from seqlab.model import Model
from seqlab.outputs import GaussianReply
from seqlab.parts import Batch, Facts, Output
from seqlab.seq import Nested, Seq


class DirectForecast(ForecastAnswer):
    """All H·C numbers at once, from a pool and a head over the window's states."""

    @property
    def steps(self) -> int:
        return self.how.window + (self.how.horizon if self.field.facts.future else 0)

    @property
    def parts(self) -> Facts:
        facts = self.field.facts
        return Facts(
            symbols={},
            outputs={"row": self.how.horizon * self.targets},
            channels=self.targets,
            window=self.steps,
            features={"values": len(facts.columns) + bool(facts.future)},
        )

    def batch(self, windows: Windows, rows: Rows) -> Batch:
        """The window (B T F); where something is known of the future, its steps follow with zeros for what is
        not known, and a feature that tells them apart."""
        how, facts = self.how, self.field.facts
        past = windows.values(rows, 0, how.window)
        future = windows.values(rows, how.window, how.horizon)
        level = self.levels(past)
        target = future[..., : self.targets] - level
        read = past.copy()
        read[..., : self.targets] -= level
        if facts.future:
            after = future.copy()
            after[..., : len(facts.targets) + len(facts.past)] = 0
            read = np.concatenate([read, after], axis=1)
            told = np.zeros((*read.shape[:2], 1), np.float32)
            told[:, how.window :] = 1
            read = np.concatenate([read, told], axis=2)
        mask = torch.ones(read.shape[:2], dtype=torch.bool)
        inputs: dict[str, Seq | Nested] = {"values": Seq(torch.from_numpy(read), mask)}
        return Batch(inputs, torch.from_numpy(rows), {"row": torch.from_numpy(target.reshape(len(rows), -1))})

    def means(self, model: Model, windows: Windows) -> np.ndarray:
        return self._with_level(
            self._all(model, windows, lambda output, _: _numpy(output.answers["row"].scores)), windows
        )

    def spread(self, model: Model, windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
        def both(output: Output, _: Batch) -> np.ndarray:
            reply = output.answers["row"]
            assert isinstance(reply, GaussianReply) and reply.log_variance is not None
            return np.stack([_numpy(reply.scores), _numpy(torch.exp(reply.log_variance / 2))], axis=1)

        found = self._all(model, windows, both)
        mean, deviation = (self._shaped(found[:, place]) for place in (0, 1))
        mean = mean + self.levels_of(windows)
        reach = normal_quantile((1 + self.how.coverage) / 2) * deviation
        return mean - reach, mean + reach

    def drawn(self, model: Model, windows: Windows, seed: int) -> np.ndarray:
        raise refuse_sampling("Its head says all steps at once, and not how one follows from another.")

    def _all(
        self, model: Model, windows: Windows, wanted: Callable[[Output, Batch], np.ndarray]
    ) -> np.ndarray:
        return by_row(predicted(model, self.groups(windows), lambda rows: self.batch(windows, rows), wanted))

    def _shaped(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(len(flat), self.how.horizon, self.targets)

    def _with_level(self, flat: np.ndarray, windows: Windows) -> np.ndarray:
        return np.asarray(self._shaped(flat) + self.levels_of(windows))


class StepsForecast(ForecastAnswer):
    """One step after the other: a decoder is fed the numbers of the step before, its own once they are its
    own, and what is known of the step to come (SPEC R3 and R6 with real numbers)."""

    @property
    def steps(self) -> int:
        return self.how.window

    @property
    def parts(self) -> Facts:
        facts = self.field.facts
        features = {"values": len(facts.columns), "written": self.targets, "beside": len(facts.future)}
        return Facts(symbols={}, features=features, window=self.steps)

    def batch(self, windows: Windows, rows: Rows) -> Batch:
        """The window (B T F) is read; what is written begins with its last step: y_t beside what is known of
        step t+1 (B H+1 C+K)."""
        how = self.how
        whole = windows.values(rows, 0, how.window + how.horizon)
        level = self.levels(whole[:, : how.window])
        whole[..., : self.targets] -= level
        past = whole[:, : how.window]
        beside = whole[:, how.window :, len(self.field.facts.columns) - len(self.field.facts.future) :]
        beside = np.concatenate([beside, np.zeros_like(beside[:, :1])], axis=1)
        written = np.concatenate([whole[:, how.window - 1 :, : self.targets], beside], axis=2)
        seqs = [
            Seq(torch.from_numpy(one), torch.ones(one.shape[:2], dtype=torch.bool)) for one in (past, written)
        ]
        inputs: dict[str, Seq | Nested] = {"values": seqs[0]}
        return Batch(inputs, torch.from_numpy(rows), {"written": seqs[1]})

    def means(self, model: Model, windows: Windows) -> np.ndarray:
        groups = self.groups(windows)
        found = computed(
            model,
            groups,
            lambda rows: self.batch(windows, rows),
            lambda batch: _numpy(self.rollout(model, batch)),
        )
        return np.asarray(by_row(found) + self.levels_of(windows))

    def rollout(
        self, model: Model, batch: Batch, noise: Float[Tensor, "S H C"] | None = None
    ) -> Float[Tensor, "N H C"]:
        """What the decoder writes when it is fed its own means; or, with noise, S trajectories for each row,
        one after the other."""
        assert model.decoder is not None
        _, memory = model.encoded(batch)
        first, beside = batch.written.values.split([self.targets, len(self.field.facts.future)], dim=-1)
        state = model.decoder.start(memory, batch.size)
        return write_numbers(model.decoder, state, first[:, 0], self.how.horizon, beside[:, :-1], noise)

    def trajectories(
        self, model: Model, windows: Windows, draws: int | None = None, seed: int = 0
    ) -> Float[np.ndarray, "N S H C"]:
        """Drawn futures of each window, scaled; task.trajectories of them unless told."""
        shape = (draws or self.how.trajectories, self.how.horizon, self.targets)
        noise = noise_of(seed, *shape)

        def drawn(batch: Batch) -> np.ndarray:
            return _numpy(self.rollout(model, batch, noise.to(batch.rows.device))).reshape(batch.size, *shape)

        size = max(1, len(self.groups(windows)[0]) // max(1, shape[0] // 4))
        groups = [np.arange(start, min(start + size, len(windows))) for start in range(0, len(windows), size)]
        found = by_row(computed(model, groups, lambda rows: self.batch(windows, rows), drawn))
        return np.asarray(found + self.levels_of(windows)[:, None])

    def drawn(self, model: Model, windows: Windows, seed: int) -> np.ndarray:
        if getattr(self.known.model.decoder, "variance", "") != "learned":
            raise refuse_sampling(UNIT)
        return self.trajectories(model, windows, draws=1, seed=seed)[:, 0]

    def spread(self, model: Model, windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
        """Quantiles of drawn trajectories."""
        low, high = [], []
        for some in np.array_split(np.arange(len(windows)), max(1, len(windows) // 500)):
            paths = self.trajectories(model, windows.only(some))
            sides = np.quantile(paths, [(1 - self.how.coverage) / 2, (1 + self.how.coverage) / 2], axis=1)
            low.append(sides[0])
            high.append(sides[1])
        return np.concatenate(low), np.concatenate(high)

    def total(self, model: Model, batch: Batch) -> Tensor:
        return self.rollout(model, batch).sum()


def normal_quantile(share: float) -> float:
    """The number below which a standard normal variable lies with this probability."""
    return float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))


def _numpy(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().float().cpu().numpy())
