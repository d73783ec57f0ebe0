"""What labs with small models of their own share: one loop that trains, and measurements side by side.

A measurement is what the function `measure` of a lab gives for a case: numbers, which are kept in a file of
their own, so that a stopped lab goes on with those that are missing.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.decode.many import one_thread_each
from seqlab.errors import Stopped, UserError
from seqlab.files import write_json
from seqlab.labs import LABS
from seqlab.labs.frame import Work
from seqlab.labs.lab import Spread
from seqlab.labs.picture import Line
from seqlab.labs.trials import Job, serve, train_all
from seqlab.report.evaluate import duration
from seqlab.training.loop import stop_signals
from seqlab.training.optim import make_optimiser, rate_factor
from seqlab.training.progress import Progress

Numbers = dict[str, Any]
"""What is written to a file, so numbers, texts and lists of them."""


def fit(
    model: nn.Module,
    steps: int,
    loss_of: Callable[[int], Tensor],
    *,
    rate: float,
    warmup: float = 0.1,
    clip: float = 1.0,
) -> list[float]:
    """Take so many steps of Adam on `loss_of(step)`; the losses. The rate rises, then falls to nothing."""
    optimiser = make_optimiser(model, rate, weight_decay=0.0)
    losses = []
    model.train()
    with stop_signals() as stopped:
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = rate * rate_factor((step + 1) / steps, warmup, "linear")
            loss = loss_of(step)
            optimiser.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            if bool(norm.isfinite()):  # as in every training, other steps are left out
                optimiser.step()
            losses.append(float(loss.detach()))
            if stopped:
                raise Stopped(stopped[0], "Stopped.", fix="")
    model.eval()
    return losses


@dataclass(frozen=True)
class Measurements(Job):
    """Some cases of a lab, measured one after the other in one process; each has a file in the folder."""

    module: ClassVar[str] = "seqlab.labs.loops"
    lab: str = ""
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the name of the file."""
    total: int = 0
    """Cases of all processes, ..."""
    before: int = 0
    """... and those of them that were measured when this lab began, ..."""
    began: float = 0.0
    """... in seconds since 1970."""
    quiet: bool = False

    @property
    def missing(self) -> list[str]:
        return [name for name in self.cases if not (Path(self.folder) / name).exists()]

    @property
    def finished(self) -> bool:
        return not self.missing

    def train(self) -> bool:
        assert self.lab in LABS
        measure, folder = importlib.import_module(f"seqlab.labs.{self.lab}").measure, Path(self.folder)
        missing, progress = self.missing, Progress(quiet=self.quiet)
        for name in missing:
            with one_thread_each():
                numbers = measure(**self.cases[name])
            write_json(folder / name, numbers)
            done = len(list(folder.glob("*.json")))
            each = (time.time() - self.began) / max(1, done - self.before)
            left = duration(each * (self.total - done))
            progress.say(f"{done} of {self.total} measured, about {left} left   {Path(name).stem}")
        return bool(missing)


def measured(work: Work, lab: str, cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Numbers]:
    """What the lab's `measure(**case)` gives for each case, by the case's name, on all cores.

    Those that were measured before a stop are read. A measurement has one thread, whatever is beside it.
    """
    if work.settings:
        raise UserError(
            what=f"The lab {lab} has no {next(iter(work.settings))}.",
            why="It builds its models itself, of one size, so that they can be compared.",
            fix="Leave the setting out.",
        )
    folder = work.folder / "trials"
    folder.mkdir(parents=True, exist_ok=True)
    names = [re.sub(r"[^\w.]+", "-", name).strip("-") + ".json" for name in cases]
    assert len(set(names)) == len(cases), "each case has a file of its own"
    files = dict(zip(names, cases.values(), strict=True))
    missing = [name for name in names if not (folder / name).exists()]
    at_once = torch.get_num_threads()
    jobs = [
        Measurements(
            str(folder), lab, {name: files[name] for name in missing[place::at_once]},
            total=len(names), before=len(names) - len(missing), began=time.time(), quiet=work.progress.quiet,
        )
        for place in range(min(at_once, len(missing)))
    ]  # fmt: skip
    for _ in train_all(jobs, at_once):
        pass  # each tells of itself
    return {
        name: json.loads((folder / file).read_text(encoding="utf-8"))
        for name, file in zip(cases, names, strict=True)
    }


# Telling ----------------------------------------------------------------------------------------------------


def line_of(name: str, xs: Sequence[float], curves: Sequence[Sequence[float]]) -> Line:
    """The mean of one curve a seed, and how far the seeds lie apart."""
    spreads = [Spread(tuple(values)) for values in zip(*curves, strict=True)]
    return Line(name, xs, [one.mean for one in spreads], [one.deviation for one in spreads])


def smoothed(values: Sequence[float], count: int) -> list[float]:
    """Means of `count` neighbouring stretches; of fewer values, each by itself."""
    return [float(np.mean(some)) for some in np.array_split(np.array(values), min(count, len(values)))]


def places_of(steps: int, count: int) -> list[float]:
    """Where those stretches end."""
    count = min(count, steps)
    return [steps * (place + 1) / count for place in range(count)]


def is_sure(change: Spread) -> bool:
    """Whether the 95 % interval of a difference excludes zero."""
    return abs(change.mean) > change.margin


def told_sure(change: Spread) -> str:
    """The interval of a difference, and whether chance alone could have made it."""
    if len(change.values) == 1:
        return "one seed, which can't tell that from chance"
    low, high = change.mean - change.margin, change.mean + change.margin
    doubt = "" if is_sure(change) else f"; {len(change.values)} seeds can't tell that from chance"
    return f"95 % interval of the difference {low:+.3f} to {high:+.3f}{doubt}"


if __name__ == "__main__":
    sys.exit(serve(Measurements))
