"""Kill -9 at random moments, resume, and compare the weights with those of an undisturbed run.

python benchmarks/kill_resume.py [classify] [translate] [generate] [generate-carried] [--kills 20]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEQLAB = [str(Path(sys.executable).with_name("seqlab")), "train"]
ALIKE = ["training.save_seconds=0.02", "training.baseline=false"]
"""A save after nearly every step."""


def write_labels(path: Path) -> None:
    """Texts of made-up words; the label says whether most of their numbers are odd."""
    draw = random.Random(0)
    words = [f"w{number}" for number in range(2000)]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for _ in range(3000):
            text = draw.choices(words, k=draw.randint(5, 60))
            table.writerow(
                [" ".join(text), "many" if sum(int(word[1:]) % 2 for word in text) * 2 > len(text) else "few"]
            )


def write_pairs(path: Path) -> None:
    """Made-up words, and the same from the last to the first."""
    draw = random.Random(0)
    words = [f"w{number}" for number in range(40)]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for _ in range(3000):
            text = draw.choices(words, k=draw.randint(2, 9))
            table.writerow([" ".join(text), " ".join(reversed(text))])


def write_text(path: Path) -> None:
    """A long text of few different words."""
    draw = random.Random(0)
    words = ["the", "cat", "dog", "sees", "hears", "a", "small", "old", "tree", "house"]
    path.write_text(
        "".join(" ".join(draw.choices(words, k=draw.randint(3, 12))) + ".\n" for _ in range(1500))
    )


@dataclass(frozen=True)
class Case:
    """Something to train that takes a few seconds, with dropout, so that the random state counts."""

    task: str
    file: str
    write: Callable[[Path], None]
    settings: tuple[str, ...]


CASES = {
    "classify": Case(
        "classify",
        "rows.csv",
        write_labels,
        (
            "--model",
            "bilstm",
            "--steps",
            "400",
            "model.input.width=64",
            "model.encoder.width=64",
            "training.batch_tokens=1024",
            "training.threads=2",
        ),
    ),
    "translate": Case(
        "translate",
        "pairs.csv",
        write_pairs,
        (
            "--model",
            "transformer",
            "--steps",
            "150",
            "data.tokens.kind=words",
            "model.input.width=32",
            "model.decoder.width=32",
            "model.encoder.layers=1",
            "model.decoder.body.layers=1",
            "model.encoder.dropout=0.1",
            "model.encoder.feed_forward=64",
            "model.decoder.body.feed_forward=64",
            "model.decoder.body.dropout=0.1",
            "training.batch_tokens=512",
            "training.validations=3",
            "training.threads=1",
            "training.workers=2",
        ),
    ),
    "generate": Case(
        "generate",
        "text.txt",
        write_text,
        (
            "--model",
            "transformer",
            "--steps",
            "200",
            "model.decoder.width=32",
            "model.decoder.body.layers=1",
            "model.decoder.body.feed_forward=64",
            "model.decoder.body.dropout=0.1",
            "task.context=64",
            "training.batch_tokens=512",
            "training.validations=3",
            "training.threads=1",
            "training.workers=2",
        ),
    ),
    "generate-carried": Case(
        "generate",
        "text.txt",
        write_text,
        (
            "--model",
            "lstm",
            "--steps",
            "200",
            "model.decoder.width=32",
            "model.decoder.body.width=48",
            "model.decoder.dropout=0.1",
            "task.context=32",
            "training.batch_tokens=512",
            "training.validations=3",
            "training.threads=1",
        ),
    ),
}


def digest(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def started(case: Case, data: Path, run: Path) -> subprocess.Popen[bytes]:
    """A training process that has just saved its first state."""
    words = [*SEQLAB, case.task, str(data), "--out", str(run), *case.settings, *ALIKE]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (run / "resume" / "manifest.json").exists():
        assert process.poll() is None, f"the run ended early, with exit code {process.returncode}"
        time.sleep(0.005)
    return process


def undisturbed(case: Case, data: Path, run: Path) -> float:
    """Run to the end. The seconds from the first save to the last step."""
    process = started(case, data, run)
    began = time.monotonic()
    while not (run / "report.html").exists():
        assert process.poll() is None, f"the run ended early, with exit code {process.returncode}"
        time.sleep(0.005)
    seconds = time.monotonic() - began
    assert process.wait() == 0
    return seconds


def killed(case: Case, data: Path, run: Path, seconds: float) -> str:
    """Kill so many seconds after the first save, resume to the end. Where it was killed; empty when it was
    too late."""
    process = started(case, data, run)
    time.sleep(seconds)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        return ""
    where = "inside a save" if list(run.rglob(".*.part")) else "between saves"
    done = subprocess.run([*SEQLAB, "--resume", str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(run.rglob(".*.part")), "what the killed process was writing is still there"
    return where


def survives(name: str, kills: int) -> bool:
    """Kill so many times, each run at another moment. Whether all ended as the undisturbed one did."""
    case, draw, same, inside = CASES[name], random.Random(1), 0, 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["SEQLAB_CACHE"] = str(folder / "cache")
        data, run = folder / case.file, folder / "killed"
        case.write(data)
        training = undisturbed(case, data, folder / "whole")
        wanted = digest(folder / "whole")
        done = 0
        while done < kills:
            seconds = draw.uniform(0.0, training)
            if where := killed(case, data, run, seconds):
                done += 1
                same += digest(run) == wanted
                inside += where == "inside a save"
                verdict = "same" if digest(run) == wanted else "DIFFERENT"
                print(
                    f"{name} {done:>2}: killed {seconds:4.1f} s after the first save, {where}: {verdict}",
                    flush=True,
                )
            shutil.rmtree(run)
    print(
        f"{name}: {same} of {kills} resumed runs have the sha256 of the undisturbed one; {inside} died inside"
        " a save"
    )
    return same == kills


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}; all when none is named"
    )
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    if unknown := set(asked.cases) - set(CASES):
        parser.error(f"there is no case {unknown.pop()}")
    return 0 if all([survives(name, asked.kills) for name in asked.cases or CASES]) else 1


if __name__ == "__main__":
    sys.exit(main())
