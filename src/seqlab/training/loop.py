"""The training loop: take steps, validate the averaged weights, keep the best, be ready to stop at any
moment."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.config import Count, NotNegative, Positive, PositiveFloat, Share
from seqlab.data.batches import Plan, Position, Seeds
from seqlab.errors import MachineError, Stopped, UserError
from seqlab.files import clear_unfinished, disk_trouble, write_text
from seqlab.folder import METRICS
from seqlab.memory import keep_big_blocks
from seqlab.parts import Batch, Objective, Output, State
from seqlab.report.evaluate import duration
from seqlab.training.budget import Budget
from seqlab.training.checkpoint import (
    Checkpoints,
    fill,
    optimiser_tensors,
    restore_optimiser,
    save_weights,
    weights_of,
)
from seqlab.training.layer_rates import LayerRates
from seqlab.training.optim import Average, Decay, Optimiser, make_optimiser, rate_factor
from seqlab.training.progress import Progress, thousands
from seqlab.training.validation import Validation
from seqlab.training.workers import Workers


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. What is left empty follows from the data and the budget, and is filled in for
    config.yaml."""

    minutes: PositiveFloat | None = None
    """Budget in minutes, from the start of the process to its end. One of minutes, epochs, steps."""
    speed: PositiveFloat | None = None
    """Characters that a second of training leads through. With minutes it says how often the data will be
    read, which decides dropout; empty: measured by some steps before the run, where the preset depends on
    it."""
    epochs: PositiveFloat | None = None
    """Budget in passes over the data."""
    steps: Positive | None = None
    """Budget in optimiser steps. The same steps, seed and thread count give the same weights bit for bit."""
    seed: Count = 0
    """Decides the first weights, the order of the data and dropout."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1."""
    threads: Positive | None = None
    """CPU threads; empty: one a core, or as many as a container may use."""
    workers: Positive | None = None
    """Threads that share each step, with a part of its rows each; empty: one a CPU thread. 1 for a bag of
    words, and for models other than Transformers with fewer than 192 tokens of a batch for each. Always 1 on
    a GPU, and where state is carried or rows are compared with one another."""
    batch_tokens: Positive | None = None
    """Padded tokens in a batch; rows of like length share one."""
    accumulate: Positive = 1
    """Batches added up before each step."""
    optimiser: Optimiser = "adamw"
    """What moves the weights: adamw, or sgd (the rate times the gradient), which suits recurrent models of
    large vocabularies with a rate of 20 and clip 0.25."""
    rate: PositiveFloat | None = None
    """Highest learning rate."""
    warmup: Share = 0.05
    """Share of the run in which the rate rises."""
    decay: Decay = "linear"
    """How the rate falls after that: linear, cosine or none."""
    weight_decay: NotNegative | None = None
    """Pull of the matrices towards zero, by this times the rate at each step; empty: 0.01 for adamw, 0 for
    sgd."""
    clip: PositiveFloat = 1.0
    """Longest gradient; a longer one is shortened to it."""
    average: Share = 0.1
    """Share of the steps so far over which weights are averaged; 0: no averaging."""
    validations: Positive = 10
    """How often to validate during the run, evenly spread."""
    patience: Positive = 5
    """Stop when so many validations in a row brought nothing better."""
    save_seconds: PositiveFloat = 60.0
    """Seconds between saves of the state that --resume continues."""
    baseline: bool = True
    """Learn a simple baseline too (bag of words, word table, n-grams) and show it beside the model."""

    def __post_init__(self) -> None:
        given = [name for name in ("minutes", "epochs", "steps") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both set; choose one budget.")
        try:
            torch.device(self.device)
        except RuntimeError:
            raise ValueError(f'there is no device "{self.device}"; it is cpu, cuda, cuda:1, ...') from None


@dataclass
class Counters:
    """Where a run is; saved as JSON."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    seconds: float = 0.0
    tokens: int = 0
    loss_total: float = 0.0
    loss_count: int = 0
    best_score: float | None = None
    best_loss: float = math.inf
    best_step: int = 0
    next_check: float = 0.0
    """Progress at which to validate next."""
    checked_step: int = -1
    stale: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    clipped: int = 0
    """Steps whose gradient was longer than `clip` and was shortened."""
    retreats: int = 0
    rate_scale: float = 1.0
    threads: int = 0
    carried: int = 0
    """Positions behind the state that is carried on."""


FAULTS_IN_A_ROW = 5
RETREATS = 3


class Training:
    """A model on its way. `folder` gets model.safetensors, metrics.jsonl and resume/."""

    def __init__(
        self,
        model: nn.Module,
        objectives: list[tuple[float, Objective]],
        config: TrainConfig,
        plan: Plan,
        load: Callable[[np.ndarray, Seeds], Batch],
        validate: Callable[[nn.Module], Validation],
        budget: Budget,
        folder: Path,
        progress: Progress,
        layer_rates: LayerRates | None = None,
    ) -> None:
        assert config.rate is not None and config.weight_decay is not None
        self.model, self.objectives, self.config = model, objectives, config
        self.plan, self.load, self.validate, self.budget = plan, load, validate, budget
        self.folder, self.progress = folder, progress
        self.device = torch.device(config.device)
        whole = plan.carries or any(objective.compares for _, objective in objectives)
        workers = 1 if whole or self.device.type != "cpu" else config.workers or 1
        self.workers = Workers(model, workers, config.seed)
        self.average = Average(model, config.average)
        self.layer_rates = layer_rates or LayerRates()
        self.optimiser = make_optimiser(
            model, config.rate, config.weight_decay, self.layer_rates, config.optimiser
        )
        self.names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        self.counters = Counters(threads=torch.get_num_threads(), next_check=1.0 / config.validations)
        self.checkpoints = Checkpoints(folder / "resume")
        self.good = Checkpoints(folder / "resume" / "good")
        """The state at the last validation that gave finite numbers: retreats do not depend on when we
        saved."""
        self.last_save = self.since = time.monotonic()
        self.tokens_before, self.share_before = 0, 0.0
        self.stream: Iterator[tuple[Position, np.ndarray]] | None = None
        self.carried: State | None = None
        """Where the rows of the last batch ended, when the next one goes on from there (truncated BPTT)."""
        self.epoch_batches = len(plan.epoch(0))

    # One run ------------------------------------------------------------------------------------------------

    def run(self) -> Counters:
        """Train until the budget is spent or nothing gets better; the best weights are in the folder."""
        counters, budget = self.counters, self.budget
        keep_big_blocks()
        budget.begun = budget.begun or budget.seconds()
        self.since, self.tokens_before, self.share_before = (
            time.monotonic(),
            counters.tokens,
            budget.progress(counters.step),
        )
        if not self.checkpoints.manifest.exists():
            self.good.save(*self.state())  # a state to retreat to, from the first step on
            self.save()
        with stop_signals() as stopped, self.workers.at_work():
            while (
                budget.progress(counters.step) < 1.0 and counters.stale < self.config.patience and not stopped
            ):
                self.take_step()
                if budget.progress(counters.step) >= counters.next_check:
                    self.check()
                if self.progress.due():
                    self.progress.passing(self.line())
                if time.monotonic() - self.last_save >= self.config.save_seconds:
                    self.save()
            if counters.checked_step < counters.step and not stopped:
                self.check()
            self.save()
            if stopped:
                raise Stopped(
                    stopped[0],
                    f"Stopped at step {counters.step}; the state is saved.",
                    fix=f"Go on with: seqlab train --resume {self.folder}",
                )
        if counters.best_score is None:
            raise self.diverged("no validation gave a finite number")
        return counters

    def take_step(self) -> None:
        """One update from `accumulate` batches; a step whose gradient is not finite is left out and
        counted."""
        counters, config = self.counters, self.config
        self.workers.train()
        now = self.budget.progress(counters.step)
        rate = (config.rate or 0.0) * counters.rate_scale * rate_factor(now, config.warmup, config.decay)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * self.layer_rates.factor(group["depth"], now)
        batches = self.next_batches()
        counts = [
            max(1, sum(objective.count(batch) for batch in batches)) for _, objective in self.objectives
        ]

        def backward(model: nn.Module, batch: Batch) -> float:
            batch = batch.to(self.device)
            output = self.output(model, batch)
            weighted = zip(self.objectives, counts, strict=True)
            total = torch.stack(
                [weight * term(output, batch).total / count for (weight, term), count in weighted]
            ).sum()
            total.backward()
            return float(total.detach())

        loss = self.workers.work(batches, backward)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        if math.isfinite(loss) and bool(torch.isfinite(norm)):
            self.optimiser.step()
            counters.step += 1
            counters.skipped_in_a_row = 0
            counters.clipped += float(norm) > config.clip
            counters.loss_total += loss * counts[0]
            counters.loss_count += counts[0]
            counters.tokens += sum(_tokens(batch) for batch in batches)
            self.average.update(self.model, counters.step)
        else:
            counters.skipped += 1
            counters.skipped_in_a_row += 1
        self.optimiser.zero_grad(set_to_none=True)
        if counters.skipped_in_a_row == FAULTS_IN_A_ROW:
            self.retreat()

    def output(self, model: nn.Module, batch: Batch) -> Output:
        """What the model makes of a batch. Rows that go on in the next batch take their state along, cut off
        from the past."""
        goes_on = self.plan.carries and batch.follows
        output: Output = model(batch, self.carried if goes_on else None)
        if not self.plan.carries:
            return output
        assert output.state is not None
        self.carried = forgetting(output.state.detach())
        return output

    def next_batches(self) -> list[Batch]:
        """The batches of a step, cut into parts for the workers."""
        taken, seed = self.next_rows(self.config.accumulate), self.config.seed
        return [self.load(part, (seed, epoch)) for epoch, rows in taken for part in self.workers.parts(rows)]

    def next_rows(self, batches: int) -> Iterator[tuple[int, np.ndarray]]:
        """The epoch and the rows of the next batches; the position moves with them."""
        for _ in range(batches):
            if self.stream is None:
                self.stream = self.plan.after(Position(self.counters.epoch, self.counters.index))
            epoch = self.counters.epoch
            position, rows = next(self.stream)
            self.counters.epoch, self.counters.index = position.epoch, position.index
            yield epoch, rows

    def check(self) -> None:
        """Validate the averaged weights; write the numbers down and keep the weights if they are the best so
        far."""
        counters = self.counters
        began = time.monotonic()
        with self.workers.resting():
            found = self.validate(self.average.model)
        took = time.monotonic() - began
        self.plan_next_check(took)
        finite = math.isfinite(found.score) and math.isfinite(found.loss)
        best = -math.inf if counters.best_score is None else counters.best_score
        better = finite and (found.score, -found.loss) > (best, -counters.best_loss)
        counters.stale = 0 if better else counters.stale + 1
        train_loss = counters.loss_total / max(1, counters.loss_count)
        counters.loss_total, counters.loss_count = 0.0, 0
        if better:
            counters.best_score, counters.best_loss, counters.best_step = (
                found.score,
                found.loss,
                counters.step,
            )
            save_weights(self.average.model, self.folder / "model.safetensors")
        self.write_metrics({"train_loss": train_loss, **found.numbers, "validation_seconds": round(took, 3)})
        shown = "   ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in found.numbers.items())
        mark = " (best, saved)" if better else ""
        self.progress.say(f"step {counters.step:>6}   loss {train_loss:.4f}   {shown}{mark}   {self.pace()}")
        if found.sample:
            self.progress.say(f"              {found.sample}")
        if finite:
            self.good.save(*self.state())

    def plan_next_check(self, took: float) -> None:
        """Validations are spread evenly; with a budget in minutes, further apart when they would take over a
        tenth of it."""
        counters, budget, validations = self.counters, self.budget, self.config.validations
        counters.checked_step = counters.step
        counters.next_check = (
            math.floor(budget.progress(counters.step) * validations + 1e-9) + 1
        ) / validations
        if budget.minutes is not None:
            budget.after_validation(took)
            now = budget.progress(counters.step)
            counters.next_check = now + max(1.0 / validations, 10.0 * took / max(budget.room, took))

    # What is written ----------------------------------------------------------------------------------------

    def write_metrics(self, numbers: dict[str, float]) -> None:
        counters = self.counters
        epoch = counters.epoch + counters.index / self.epoch_batches
        row: dict[str, Any] = {
            "step": counters.step,
            "epoch": round(epoch, 4),
            "seconds": round(self.budget.seconds(), 2),
        }
        row |= {
            "rate": self.optimiser.param_groups[0]["lr"],
            "skipped": counters.skipped,
            "clipped": counters.clipped,
            "tokens": counters.tokens,
        }
        row |= {
            name: value if math.isfinite(value) else None for name, value in numbers.items()
        }  # JSON has no NaN
        path = self.folder / METRICS
        with disk_trouble(f"{path} could not be written"), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def forget_metrics(self) -> None:
        """Leave out what was logged after the present step: it will be logged again. A line torn by a kill
        goes, too."""
        path = self.folder / METRICS
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            write_text(path, "".join(line + "\n" for line in lines if _step_of(line) <= self.counters.step))

    def pace(self) -> str:
        """Of this session: what an earlier one did, and the reading since, say nothing about the speed
        now."""
        share, counters = self.budget.progress(self.counters.step), self.counters
        seconds = max(1e-9, time.monotonic() - self.since)
        gone = max(share - self.share_before, 1e-9)
        left = duration(seconds * (1.0 - share) / gone)
        return f"{thousands((counters.tokens - self.tokens_before) / seconds)} tokens/s, {left} left"

    def line(self) -> str:
        counters = self.counters
        loss = f"loss {counters.loss_total / counters.loss_count:.4f}   " if counters.loss_count else ""
        return f"step {counters.step:>6}   {loss}{self.budget.progress(counters.step):4.0%}   {self.pace()}"

    # Stop and go on -----------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that makes the next step what it will be: tensors, and what JSON can hold."""
        self.counters.seconds = self.budget.seconds()
        tensors: dict[str, Tensor] = {"random": torch.get_rng_state()}
        tensors |= {f"model.{name}": tensor for name, tensor in weights_of(self.model).items()}
        tensors |= {f"average.{name}": tensor for name, tensor in weights_of(self.average.model).items()}
        tensors |= self.workers.random_states()
        if self.device.type == "cuda":
            tensors["random.device"] = torch.cuda.get_rng_state(self.device)
        tensors |= optimiser_tensors(self.optimiser, self.names)
        if self.carried is not None:
            tensors |= {
                f"carried.{name}": tensor.contiguous() for name, tensor in self.carried.moving.items()
            }
            self.counters.carried = self.carried.done
        return tensors, asdict(self.counters) | {"begun": self.budget.begun, "reserve": self.budget.reserve}

    def save(self) -> None:
        self.checkpoints.save(*self.state())
        self.last_save = time.monotonic()

    def restore(self, checkpoints: Checkpoints) -> bool:
        """Go back to a saved state; False when there is none."""
        saved = checkpoints.load()
        if saved is None:
            return False
        tensors, counters = saved
        try:
            for model, prefix in ((self.model, "model."), (self.average.model, "average.")):
                fill(
                    model,
                    {
                        name[len(prefix) :]: tensor
                        for name, tensor in tensors.items()
                        if name.startswith(prefix)
                    },
                )
        except (RuntimeError, KeyError):
            raise UserError(
                what=(
                    f"The state in {checkpoints.folder} does not fit the model of"
                    f" {self.folder / 'config.yaml'}."
                ),
                why="The settings of the model were changed after the run was started.",
                fix="Put config.yaml back as it was, or start a new run.",
            ) from None
        restore_optimiser(self.optimiser, self.names, tensors)
        torch.set_rng_state(tensors["random"])
        self.workers.restore_random_states(tensors)
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.device"], self.device)
        self.budget.begun, self.budget.reserve = (
            counters.pop("begun"),
            max(self.budget.reserve, counters.pop("reserve")),
        )
        self.stream = None
        self.counters.__dict__.update(counters)
        moving = {
            name.removeprefix("carried."): tensor
            for name, tensor in tensors.items()
            if name.startswith("carried.")
        }
        self.carried = State({}, moving, self.counters.carried) if moving else None
        return True

    def resume(self) -> None:
        """Continue a stopped run as if it had not been stopped."""
        threads = self.counters.threads
        for folder in (self.folder, self.checkpoints.folder, self.good.folder):
            clear_unfinished(folder)
        if not self.restore(self.checkpoints):
            (self.folder / METRICS).unlink(missing_ok=True)
            return
        if self.counters.threads != threads:
            self.progress.say(
                f"Note: this run used {self.counters.threads} threads and now has {threads}: "
                "the result will be as good but not the same bit for bit."
            )
            self.counters.threads = threads
        self.budget.started -= self.counters.seconds
        self.forget_metrics()

    def retreat(self) -> None:
        """Five faulty steps in a row: back to the last good state at half the rate."""
        retreats, scale, skipped = (
            self.counters.retreats + 1,
            self.counters.rate_scale / 2,
            self.counters.skipped,
        )
        if retreats > RETREATS or not self.restore(self.good):
            raise self.diverged(f"the loss or its gradient was not a finite number, {skipped} times in all")
        self.counters.retreats, self.counters.rate_scale, self.counters.skipped = retreats, scale, skipped
        self.counters.skipped_in_a_row = 0
        self.forget_metrics()
        self.save()
        self.progress.say(
            f"Five steps without a finite gradient: back to step {self.counters.step}, at {scale:g} of the"
            " rate."
        )

    def diverged(self, how: str) -> MachineError:
        again = f"Going back to a good state at half the rate, {self.counters.retreats} times, did not help."
        return MachineError(
            what=f"Training diverged: at step {self.counters.step}, {how}.",
            why=(
                again
                if self.counters.retreats
                else "The weights have grown so large that the answers are no numbers."
            ),
            fix=f"Try a smaller rate, for instance training.rate={(self.config.rate or 0) / 10:.1g}",
        )


def _step_of(line: str) -> float:
    """The step of a line of metrics.jsonl; beyond all steps where the line is torn."""
    try:
        return float(json.loads(line)["step"])
    except ValueError:
        return math.inf


def _tokens(batch: Batch) -> int:
    """Real positions in a batch, those of the innermost level; what is written counts where something is."""
    if "written" in batch.targets:
        return int(batch.written.mask[:, 1:].sum())
    field = next(iter(batch.inputs.values()))
    return int(getattr(field, "inner", field).mask.sum())


def forgetting(state: State, share: float = 0.01) -> State:
    """The state with some rows set back to nothing, so that a model also learns to begin."""
    kept = torch.rand(len(next(iter(state.moving.values())))) >= share
    moving = {
        name: tensor * kept.view(-1, *[1] * (tensor.dim() - 1)).to(tensor)
        for name, tensor in state.moving.items()
    }
    return State(state.fixed, moving, state.done)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that holds the signal once Ctrl-C or SIGTERM came; a second one ends the process at once."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        came.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: the caller handles signals
        yield came
        return
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
