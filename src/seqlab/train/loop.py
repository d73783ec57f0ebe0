"""The training loop: take steps, validate the averaged weights, keep the best, be ready to stop at any moment."""

from __future__ import annotations

import ctypes
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
from seqlab.data.batches import Plan, Position
from seqlab.errors import MachineError, Stopped
from seqlab.parts import Batch, Objective
from seqlab.train.budget import Budget
from seqlab.train.checkpoint import Checkpoints, optimiser_tensors, restore_optimiser, save_weights
from seqlab.train.optim import Average, Decay, make_optimiser, rate_factor
from seqlab.train.progress import Progress, duration, thousands


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. What is left empty follows from the data and the budget, and is filled in for config.yaml."""

    minutes: PositiveFloat | None = None
    """Budget in minutes, from the start of the process to its end. One of minutes, epochs, steps."""
    epochs: PositiveFloat | None = None
    """Budget in passes over the data."""
    steps: Positive | None = None
    """Budget in optimiser steps. The same steps, seed and thread count give the same weights bit for bit."""
    seed: Count = 0
    """Decides the first weights, the order of the data and dropout."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1."""
    threads: Positive | None = None
    """CPU threads; empty: one a core."""
    batch_tokens: Positive | None = None
    """Padded tokens in a batch; rows of like length share one."""
    accumulate: Positive = 1
    """Batches added up before each step."""
    rate: PositiveFloat | None = None
    """Highest learning rate of AdamW."""
    warmup: Share = 0.05
    """Share of the run in which the rate rises."""
    decay: Decay = "linear"
    """How the rate falls after that: linear, cosine or none."""
    weight_decay: NotNegative = 0.01
    """Pull of the matrices towards zero, as in AdamW."""
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
    """Train the bag-of-words baseline too and show it beside the model."""

    def __post_init__(self) -> None:
        given = [name for name in ("minutes", "epochs", "steps") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both set; choose one budget.")


@dataclass(frozen=True)
class Checked:
    """What a validation found. `score` is the task's own metric, turned so that higher is better."""

    score: float
    loss: float
    """Decides between equal scores, which small validation sets often give."""
    numbers: dict[str, float]


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
    validations: int = 0
    stale: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    retreats: int = 0
    rate_scale: float = 1.0
    threads: int = 0


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
        load: Callable[[np.ndarray], Batch],
        validate: Callable[[nn.Module], Checked],
        budget: Budget,
        folder: Path,
        progress: Progress,
    ) -> None:
        assert config.rate is not None
        self.model, self.objectives, self.config = model, objectives, config
        self.plan, self.load, self.validate, self.budget = plan, load, validate, budget
        self.folder, self.progress = folder, progress
        self.device = torch.device(config.device)
        self.average = Average(model, config.average)
        self.optimiser = make_optimiser(model, config.rate, config.weight_decay)
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.counters = Counters(threads=torch.get_num_threads())
        self.checkpoints = Checkpoints(folder / "resume")
        self.last_save = time.monotonic()
        self.stream: Iterator[tuple[Position, np.ndarray]] | None = None
        self.epoch_batches = len(plan.epoch(0))

    # One run ---------------------------------------------------------------------------------------------------

    def run(self) -> Counters:
        """Train until the budget is spent or nothing gets better; the best weights are in the folder."""
        counters, budget = self.counters, self.budget
        keep_big_blocks()
        budget.begun = budget.begun or budget.seconds()
        if not self.checkpoints.manifest.exists():
            self.save()    # a state to retreat to, from the first step on
        with stop_signals() as stopped:
            while budget.progress(counters.step) < 1.0 and counters.stale < self.config.patience:
                self.take_step()
                if budget.progress(counters.step) >= (counters.validations + 1) / self.config.validations:
                    self.check()
                if self.progress.due():
                    self.progress.passing(self.line())
                if time.monotonic() - self.last_save >= self.config.save_seconds:
                    self.save()
                if stopped:
                    self.save()
                    raise Stopped(
                        stopped[0], f"Stopped at step {counters.step}; the state is saved.",
                        fix=f"Go on with: seqlab train --resume {self.folder}",
                    )
            if counters.best_score is None:
                self.check()
        self.save()
        return counters

    def take_step(self) -> None:
        """One update from `accumulate` batches; a step whose gradient is not finite is left out and counted."""
        counters, config = self.counters, self.config
        self.model.train()
        rate = (config.rate or 0.0) * counters.rate_scale * rate_factor(self.budget.progress(counters.step), config.warmup, config.decay)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batches = [self.load(rows) for rows in self.next_rows(config.accumulate)]
        count = sum(batch.size for batch in batches)
        loss = 0.0
        for batch in batches:
            output = self.model(batch.to(self.device))
            terms = [weight * objective(output, batch).total for weight, objective in self.objectives]
            total = torch.stack(terms).sum() / count
            total.backward()
            loss += float(total.detach())
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        if math.isfinite(loss) and bool(torch.isfinite(norm)):
            self.optimiser.step()
            counters.step += 1
            counters.skipped_in_a_row = 0
            counters.loss_total += loss * count
            counters.loss_count += count
            counters.tokens += sum(_tokens(batch) for batch in batches)
            self.average.update(self.model, counters.step)
        else:
            counters.skipped += 1
            counters.skipped_in_a_row += 1
        self.optimiser.zero_grad(set_to_none=True)
        if counters.skipped_in_a_row == FAULTS_IN_A_ROW:
            self.retreat()

    def next_rows(self, batches: int) -> Iterator[np.ndarray]:
        """The rows of the next batches; the position moves with them."""
        for _ in range(batches):
            if self.stream is None:
                self.stream = self.plan.after(Position(self.counters.epoch, self.counters.index))
            position, rows = next(self.stream)
            self.counters.epoch, self.counters.index = position.epoch, position.index
            yield rows

    def check(self) -> None:
        """Validate the averaged weights; write the numbers down and keep the weights if they are the best so far."""
        counters = self.counters
        began = time.monotonic()
        found = self.validate(self.average.model)
        took = time.monotonic() - began
        self.budget.reserve = max(self.budget.reserve, 1.3 * took + 3.0)
        due = int(self.budget.progress(counters.step) * self.config.validations + 1e-9)
        counters.validations = max(counters.validations + 1, due)    # a slow validation may pass over the next one
        best = -math.inf if counters.best_score is None else counters.best_score
        better = counters.best_score is None or (found.score, -found.loss) > (best, -counters.best_loss)
        counters.stale = 0 if better else counters.stale + 1
        train_loss = counters.loss_total / max(1, counters.loss_count)
        counters.loss_total, counters.loss_count = 0.0, 0
        if better:
            counters.best_score, counters.best_loss, counters.best_step = found.score, found.loss, counters.step
            save_weights(self.average.model, self.folder / "model.safetensors")
        self.write_metrics({"train_loss": train_loss, **found.numbers, "validation_seconds": round(took, 3)})
        shown = "   ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in found.numbers.items())
        mark = " (best, saved)" if better else ""
        self.progress.say(f"step {counters.step:>6}   loss {train_loss:.4f}   {shown}{mark}   {self.pace()}")

    # What is written -------------------------------------------------------------------------------------------

    def write_metrics(self, numbers: dict[str, float]) -> None:
        counters = self.counters
        epoch = counters.epoch + counters.index / self.epoch_batches
        row = {"step": counters.step, "epoch": round(epoch, 4), "seconds": round(self.budget.seconds(), 2)}
        row |= {"rate": self.optimiser.param_groups[0]["lr"], "skipped": counters.skipped, "tokens": counters.tokens}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | numbers) + "\n")

    def pace(self) -> str:
        seconds = max(1e-9, self.budget.seconds() - self.budget.begun)
        return f"{thousands(self.counters.tokens / seconds)} tokens/s, {duration(self.budget.left(self.counters.step))} left"

    def line(self) -> str:
        loss = self.counters.loss_total / max(1, self.counters.loss_count)
        return f"step {self.counters.step:>6}   loss {loss:.4f}   {self.budget.progress(self.counters.step):4.0%}   {self.pace()}"

    # Stop and go on --------------------------------------------------------------------------------------------

    def save(self) -> None:
        self.counters.seconds = self.budget.seconds()
        tensors: dict[str, Tensor] = {"random": torch.get_rng_state()}
        tensors |= {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.model.state_dict().items()}
        tensors |= optimiser_tensors(self.optimiser, self.names)
        self.checkpoints.save(tensors, asdict(self.counters) | {"begun": self.budget.begun})
        self.last_save = time.monotonic()

    def restore(self) -> bool:
        """Go back to the last saved state; False when there is none."""
        saved = self.checkpoints.load()
        if saved is None:
            return False
        tensors, counters = saved
        for model, prefix in ((self.model, "model."), (self.average.model, "average.")):
            model.load_state_dict({name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)})
        restore_optimiser(self.optimiser, self.names, tensors)
        torch.set_rng_state(tensors["random"])
        self.budget.begun = counters.pop("begun")
        self.stream = None
        self.counters.__dict__.update(counters)
        return True

    def resume(self) -> None:
        """Continue a stopped run as if it had not been stopped."""
        threads = self.counters.threads
        if not self.restore():
            (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return
        if self.counters.threads != threads:
            self.progress.say(
                f"Note: this run used {self.counters.threads} threads and now has {threads}: "
                "the result will be as good but not the same bit for bit."
            )
            self.counters.threads = threads
        self.budget.started -= self.counters.seconds
        metrics = self.folder / "metrics.jsonl"
        if metrics.exists():    # what was written after the save will be written again
            kept = [line for line in metrics.read_text().splitlines() if json.loads(line)["step"] <= self.counters.step]
            metrics.write_text("".join(line + "\n" for line in kept))

    def retreat(self) -> None:
        """Five faulty steps in a row: back to the last good state at half the rate."""
        retreats, scale = self.counters.retreats + 1, self.counters.rate_scale / 2
        skipped = self.counters.skipped
        if retreats > RETREATS or not self.restore():
            raise MachineError(
                what=f"Training diverged: at step {self.counters.step} the loss was not a finite number, {skipped} times in all.",
                why=f"Going back to a good state at half the rate, {retreats - 1} times, did not help.",
                fix=f"Try a smaller rate, for instance training.rate={(self.config.rate or 0) / 10:.1g}; what was logged is in {self.folder / 'metrics.jsonl'}",
            )
        self.counters.retreats, self.counters.rate_scale, self.counters.skipped = retreats, scale, skipped
        self.counters.skipped_in_a_row = 0
        self.progress.say(f"Five steps without a finite gradient: back to step {self.counters.step}, at {scale:g} of the rate.")


def _tokens(batch: Batch) -> int:
    """Real positions in a batch, those of the innermost level."""
    field: Any = next(iter(batch.inputs.values()))
    return int(getattr(field, "inner", field).mask.sum())


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that holds the signal once Ctrl-C or SIGTERM came; a second one ends the process at once."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:    # not the main thread: the caller handles signals
        yield came
        return
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def keep_big_blocks() -> None:
    """Tell glibc to keep freed memory: a step then reuses its pages instead of faulting them in again (+3 to +18 %)."""
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    trim_threshold, mmap_threshold = -1, -3
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, 1 << 30)
