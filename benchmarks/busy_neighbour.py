"""Training beside other processes: `lstm-attention` on Multi30k, quiet and beside processes that spin.

Candidates are seqlab as it comes, and one worker with the threads of OpenMP waiting as OpenMP does by default
(it spins), as it does under OMP_WAIT_POLICY=PASSIVE (it sleeps), and with one thread. Each is a process of
its own, because a policy is read when torch is loaded; they take turns, and wait without work meanwhile. A
spinning process counts, in a session of its own, as another user's would be (Linux shares a core out among
sessions), held to a core (`on core 0`, `on both`: one on each of two) or wherever the system puts it. The
table is printed and kept in benchmarks/results/busy_neighbour.md.

    python benchmarks/busy_neighbour.py [--seconds 3] [--turns 5] [--quick]

Takes six minutes, and wants a machine with nothing else to do. Without Multi30k in SEQLAB_DATA it learns
made-up sentences. --quick does everything once and small, to see that it works, and keeps nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from ours import Changes, Ours
from tables import Book, Section, machine, verdict

from seqlab.memory import keep_big_blocks

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data")) / "multi30k"
WAITING = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
OURS = "seqlab"
LONG_SPIN = {"GOMP_SPINCOUNT": "300000"}
"""What GNU's OpenMP does when no variable is set."""
CANDIDATES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    OURS: ({}, ()),
    "spinning threads": (LONG_SPIN, ("training.workers=1",)),
    "sleeping threads": ({"OMP_WAIT_POLICY": "PASSIVE"}, ("training.workers=1",)),
    "one thread": ({"OMP_NUM_THREADS": "1"}, ("training.workers=1",)),
}
"""Variables and settings of each."""
ANYWHERE = None
SITUATIONS: dict[str, tuple[int | None, ...]] = {
    "quiet": (),
    "one spinning": (ANYWHERE,),
    "one spinning on core 0": (0,),
    "two spinning": (ANYWHERE, ANYWHERE),
    "two spinning, on both": (0, 1),
}
"""The core of each spinning process."""
WANTED = 0.8


# One candidate ----------------------------------------------------------------------------------------------


def work(changes: Sequence[str]) -> None:
    """Train for so many seconds whenever a line asks for it, and answer with target tokens a second."""
    with tempfile.TemporaryDirectory() as folder:
        overrides: Changes = dict(change.split("=") for change in changes)
        torch.manual_seed(0)
        training = Ours.of("translate", "lstm-attention", overrides | files(Path(folder))).training
        keep_big_blocks()
        with training.workers.at_work():
            for _ in range(3):
                training.take_step()
            print("ready", flush=True)
            for line in sys.stdin:
                before, began = training.counters.tokens, time.perf_counter()
                while (took := time.perf_counter() - began) < float(line):
                    training.take_step()
                print((training.counters.tokens - before) / took, flush=True)


def files(folder: Path) -> Changes:
    """Multi30k, German to English; made-up pairs of the same lengths where it is missing."""
    if (DATA / "train.de.gz").exists():
        names = {"train": "train", "valid": "val"}
        return {
            f"data.{split}": (f"{DATA / name}.de.gz,{DATA / name}.en.gz",) for split, name in names.items()
        }
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 8))) for _ in range(8000)]
    for split, rows in (("train", 20_000), ("valid", 500)):
        lines = [" ".join(chance.choices(words, k=chance.randint(6, 20))) for _ in range(rows)]
        for side in ("one", "other"):
            (folder / f"{split}.{side}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return {
        f"data.{split}": (f"{folder / split}.one,{folder / split}.other",) for split in ("train", "valid")
    }


# All of them ------------------------------------------------------------------------------------------------


class Candidate:
    """A process that trains when it is asked to."""

    def __init__(self, variables: Mapping[str, str], changes: Sequence[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in WAITING} | dict(
            variables
        )
        command = [sys.executable, __file__, "work", *changes]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait(self) -> None:
        """Until it has taken its first steps."""
        self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit("A candidate ended too early; see above.")
        return said

    def speed(self, seconds: float) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.line())


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Whatever happens within, the process is gone afterwards."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def spin(parent: int, *cores: int) -> None:
    """Do nothing as fast as possible, as long as whoever began it lives: a kill leaves no spinning
    process."""
    if cores:
        os.sched_setaffinity(0, cores)
    print("spinning", flush=True)
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


@contextmanager
def spinning(cores: Sequence[int | None]) -> Iterator[None]:
    """Within, other processes do nothing as fast as they can."""
    with ExitStack() as stack:
        for core in cores:
            command = [
                sys.executable,
                __file__,
                "spin",
                str(os.getpid()),
                *([] if core is None else [str(core)]),
            ]
            process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
            stack.enter_context(ended(process))
            assert process.stdout is not None
            process.stdout.readline()  # until it has begun
        yield


def measured(seconds: float, turns: int) -> dict[str, dict[str, float]]:
    """Target tokens a second by situation and candidate, medians."""
    with ExitStack() as stack:
        candidates = {}
        for name, (variables, changes) in CANDIDATES.items():
            candidates[name] = Candidate(variables, changes)
            stack.enter_context(ended(candidates[name].process))
            candidates[name].wait()
        speeds: dict[str, dict[str, float]] = {}
        for situation, cores in SITUATIONS.items():
            with spinning(cores):
                found = [{name: one.speed(seconds) for name, one in candidates.items()} for _ in range(turns)]
            speeds[situation] = {name: statistics.median(turn[name] for turn in found) for name in candidates}
        return speeds


def table(speeds: Mapping[str, Mapping[str, float]], seconds: float, turns: int) -> Section:
    others = [name for name in CANDIDATES if name != OURS]
    rows = []
    for situation, found in speeds.items():
        share = found[OURS] / max(found[name] for name in others)
        told = f"{share:.2f}, ≥ {WANTED}: {verdict(share >= WANTED)}"
        rows.append((situation, *(f"{found[name]:,.0f}" for name in CANDIDATES), told))
    where = "Multi30k, German to English" if (DATA / "train.de.gz").exists() else "made-up sentences"
    how = f"Target tokens/s, medians of {turns} turns of {seconds:g} s, candidates alternating, {machine()}."
    header = ("", *CANDIDATES, "seqlab over the best other")
    return Section(f"Beside other processes: lstm-attention, {where}", header, tuple(rows), (how,))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    seconds, turns = (0.1, 1) if asked.quick else (asked.seconds, asked.turns)
    section = table(measured(seconds, turns), seconds, turns)
    print(section.shown(), flush=True)
    if not asked.quick:
        Book("busy_neighbour", "Training beside other processes", ["lstm-attention"]).add(
            "lstm-attention", section
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2:])
    elif sys.argv[1:2] == ["spin"]:
        spin(*(int(number) for number in sys.argv[2:]))
    else:
        main()
