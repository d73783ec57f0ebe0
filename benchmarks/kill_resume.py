"""Kill -9 at random moments, resume, and compare the weights with those of an undisturbed run.

    python benchmarks/kill_resume.py [kills]
"""

from __future__ import annotations

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
from pathlib import Path

STEPS = 400
SETTINGS = [
    "--model", "bilstm", "--steps", str(STEPS), "model.input.width=64", "model.encoder.width=64", "training.batch_tokens=1024",
    "training.save_seconds=0.02", "training.baseline=false", "training.threads=2",
]    # fmt: skip
SEQLAB = [str(Path(sys.executable).with_name("seqlab")), "train"]


def write_rows(path: Path) -> None:
    draw = random.Random(0)
    words = [f"w{number}" for number in range(2000)]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for _ in range(3000):
            text = draw.choices(words, k=draw.randint(5, 60))
            table.writerow([" ".join(text), "many" if sum(int(word[1:]) % 2 for word in text) * 2 > len(text) else "few"])


def digest(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def started(data: Path, run: Path) -> subprocess.Popen[bytes]:
    """A training process that has just saved its first state."""
    words = [*SEQLAB, "classify", str(data), "--out", str(run), *SETTINGS]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (run / "resume" / "manifest.json").exists():
        assert process.poll() is None, f"the run ended early, with exit code {process.returncode}"
        time.sleep(0.005)
    return process


def undisturbed(data: Path, run: Path) -> float:
    """Run to the end. The seconds from the first save to the last step."""
    process = started(data, run)
    began = time.monotonic()
    while not (run / "report.html").exists():
        assert process.poll() is None, f"the run ended early, with exit code {process.returncode}"
        time.sleep(0.005)
    seconds = time.monotonic() - began
    assert process.wait() == 0
    return seconds


def killed(data: Path, run: Path, seconds: float) -> str:
    """Kill so many seconds after the first save, resume to the end. Where it was killed; empty when it was too late."""
    process = started(data, run)
    time.sleep(seconds)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        return ""
    where = "inside a save" if list(run.rglob(".*.part")) else "between saves"
    done = subprocess.run([*SEQLAB, "--resume", str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(run.rglob(".*.part")), "what the killed process was writing is still there"
    return where


def main(kills: int) -> int:
    draw, same, inside = random.Random(1), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SEQLAB_CACHE"] = str(folder / "cache")
        write_rows(folder / "rows.csv")
        training = undisturbed(folder / "rows.csv", folder / "whole")
        wanted = digest(folder / "whole")
        done = 0
        while done < kills:
            run, seconds = folder / "killed", draw.uniform(0.0, training)
            if where := killed(folder / "rows.csv", run, seconds):
                done += 1
                same += digest(run) == wanted
                inside += where == "inside a save"
                verdict = "same" if digest(run) == wanted else "DIFFERENT"
                print(f"{done:>2}: killed {seconds:4.1f} s after the first save, {where}: {verdict}", flush=True)
            shutil.rmtree(run)
    print(f"{same} of {kills} resumed runs have the sha256 of the undisturbed one, {wanted[:12]}; {inside} died inside a save")
    return 0 if same == kills else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
