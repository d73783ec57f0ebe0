"""Trials: trainings that differ in little, side by side, each in a process of its own with one math thread.

Small models leave cores idle while their threads wait for one another; one training a core doesn't. A trial
has one thread however many run at once, so its numbers are the same on any machine of the kind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from seqlab.errors import MachineError, SeqlabError, Stopped, UserError
from seqlab.folder import SCORES
from seqlab.labs.lab import train_once
from seqlab.report.evaluate import duration
from seqlab.settings import TrainRequest
from seqlab.training.loop import stop_signals
from seqlab.training.progress import Progress
from seqlab.transfer import PretrainedRun

Key = TypeVar("Key", bound=Hashable)
LOOK_SECONDS = 0.1
"""Between two looks at the processes."""


@dataclass(frozen=True)
class Job(ABC):
    """Work that is done once, in words that another process understands."""

    module: ClassVar[str] = "seqlab.labs.trials"
    """What a process runs to do it: a module that ends in `serve`."""
    folder: str

    @abstractmethod
    def train(self) -> bool:
        """Here and now. Whether there was anything to do."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether it was done before."""


JobKind = TypeVar("JobKind", bound=Job)


@dataclass(frozen=True)
class Trial(Job):
    """One training."""

    overrides: Mapping[str, Any]
    preset: str = ""
    like: str = ""
    """A run whose architecture and tokenizer it has, with weights of its own."""
    task: str = "classify"

    def train(self) -> bool:
        adapt = PretrainedRun(self.like).adapt if self.like else None
        wishes = TrainRequest(task=self.task, preset=self.preset, overrides=self.overrides, adapt=adapt)
        return train_once(wishes, Path(self.folder), Progress(quiet=True))

    @property
    def finished(self) -> bool:
        return (Path(self.folder) / SCORES).exists()


def train_all(trials: Sequence[JobKind], at_once: int) -> Iterator[JobKind]:
    """Train what is not finished, so many at once, and give each trial as it ends. A stop saves what is at
    work."""
    waiting = [trial for trial in trials if not trial.finished]
    if at_once == 1:
        yield from (trial for trial in waiting if trial.train())
        return
    at_work: dict[subprocess.Popen[str], JobKind] = {}
    with stop_signals() as stopped:
        try:
            while waiting or at_work:
                while waiting and len(at_work) < at_once:
                    next_one = waiting.pop(0)
                    at_work[_begun(next_one)] = next_one
                time.sleep(LOOK_SECONDS)
                if stopped:
                    raise Stopped(stopped[0], "Stopped.", fix="")
                for process in [one for one in at_work if one.poll() is not None]:
                    trial = at_work.pop(process)
                    _refuse_failed(process, trial)
                    yield trial
        finally:
            for process in at_work:
                _close(process)  # EOF on its standard input means: save and exit
            for process in at_work:
                process.wait()


def train_each(
    trials: Mapping[Key, Trial], at_once: int, size: Callable[[Key], float] = lambda _: 1.0
) -> Iterator[tuple[Key, str]]:
    """As `train_all`, by name, with words for how far it is; `size` is how long a trial takes beside the
    others."""
    left = {key: size(key) for key, trial in trials.items() if not trial.finished}
    names, began, done = {trial.folder: key for key, trial in trials.items()}, time.monotonic(), 0.0
    for trial in train_all([trials[key] for key in left], at_once):
        key = names[trial.folder]
        done += left.pop(key)
        rest = (time.monotonic() - began) / done * sum(left.values())
        yield key, f"{len(trials) - len(left)} of {len(trials)} runs, about {duration(rest)} left"


def _begun(trial: Job) -> subprocess.Popen[str]:
    """A process at work on it, out of reach of the terminal's Ctrl-C, which is ours to pass on."""
    command = [sys.executable, "-m", trial.module]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is gone already; what it said is read later
        process.stdin.write(json.dumps(asdict(trial)) + "\n")
        process.stdin.flush()
    return process


def _close(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def _refuse_failed(process: subprocess.Popen[str], trial: Job) -> None:
    """What went wrong in there is told here."""
    assert process.stdout is not None
    said, code = process.stdout.read(), process.returncode
    _close(process)
    process.stdout.close()
    if code == 0:
        return
    if said:
        told = json.loads(said)
        raise {2: UserError, 3: MachineError}.get(code, SeqlabError)(told["what"], told["why"], told["fix"])
    raise MachineError(
        what=f"The training of {trial.folder} ended with exit code {code}.",
        why="Its process was killed, perhaps for want of memory."
        if code == -signal.SIGKILL
        else "See what it wrote above.",
        fix="The same command goes on; training.threads=2 trains one at a time.",
    )


def serve(kind: type[Job]) -> int:
    """One job, from standard input; a fault goes to standard output. When the input ends, whoever asked is
    gone: stop."""
    job = kind(**json.loads(sys.stdin.readline()))

    def stop_with_the_asker() -> None:
        os.read(
            sys.stdin.fileno(), 1
        )  # not through sys.stdin, whose lock would be held while the interpreter ends
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_the_asker, daemon=True).start()
    try:
        job.train()
    except SeqlabError as error:
        print(json.dumps({"what": error.what, "why": error.why, "fix": error.fix}))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(serve(Trial))
