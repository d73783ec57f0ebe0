"""Kill -9 at random moments, resume, and compare the weights with those of an undisturbed run.

    python benchmarks/kill_resume.py [kills]
"""

from __future__ import annotations

import csv
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 400
SETTINGS = [
    "--model", "bilstm", "--steps", str(STEPS), "model.input.width=64", "model.encoder.width=64", "training.batch_tokens=1024",
    "training.save_seconds=0.05", "training.baseline=false", "training.threads=2",
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


def killed_run(data: Path, run: Path, seconds: float) -> str:
    """Start, kill after so many seconds, resume to the end. Where it was killed."""
    command = [*SEQLAB, "classify", str(data), "--out", str(run), *SETTINGS]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (run / "resume").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.kill()
    process.wait()
    saving = bool(list((run / "resume").glob(".*.part"))) or bool(list(run.glob(".*.part")))
    done = subprocess.run([*SEQLAB, "--resume", str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "inside a save" if saving else "between saves"


def main(kills: int) -> int:
    folder = Path(tempfile.mkdtemp())
    data = folder / "rows.csv"
    write_rows(data)
    began = time.monotonic()
    subprocess.run([*SEQLAB, "classify", str(data), "--out", str(folder / "whole"), *SETTINGS], check=True, capture_output=True)
    wanted, whole = digest(folder / "whole"), time.monotonic() - began
    training = max(1.0, whole - 6.0)
    draw = random.Random(1)
    same = 0
    for number in range(kills):
        run = folder / f"killed-{number}"
        seconds = draw.uniform(0.0, training)
        where = killed_run(data, run, seconds)
        equal = digest(run) == wanted
        same += equal
        print(f"{number + 1:>2}: killed after {seconds:4.1f} s, {where}: {'same' if equal else 'DIFFERENT'}", flush=True)
        shutil.rmtree(run)
    print(f"{same} of {kills} resumed runs have the same sha256 as the undisturbed one ({wanted[:12]}, {whole:.0f} s)")
    shutil.rmtree(folder)
    return 0 if same == kills else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
