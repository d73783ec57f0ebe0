"""A generated table of 1 GB: how much memory training takes, and how soon the first step comes.

python benchmarks/big_table.py [megabytes]
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def write_rows(path: Path, size: int) -> int:
    """Rows of 5 to 400 words of a Zipf-like vocabulary, with one of four labels."""
    draw = random.Random(0)
    words = [
        f"{draw.choice('bcdfgklmnprst')}{draw.choice('aeiou')}{draw.choice('lmnrst')}{number}"
        for number in range(50_000)
    ]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    stock = draw.choices(words, weights, k=2_000_000)
    rows = 0
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        while file.tell() < size:
            start = draw.randrange(len(stock) - 400)
            text = stock[start : start + draw.randint(5, 400)]
            table.writerow([" ".join(text), f"topic {len(text[0]) % 4}"])
            rows += 1
    return rows


def watch(pid: int, most: list[int]) -> None:
    """The highest resident memory of a process, in kB."""
    while True:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        most[0] = max(
            [most[0], *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))]
        )
        time.sleep(0.2)


def main(megabytes: int) -> None:
    folder = Path(tempfile.mkdtemp())
    data = folder / "big.csv"
    rows = write_rows(data, megabytes * 1_000_000)
    print(f"{data.stat().st_size / 1e6:.0f} MB, {rows:,} rows", flush=True)
    command = [
        str(Path(sys.executable).with_name("seqlab")),
        "train",
        "classify",
        str(data),
        "--model",
        "cnn",
        "--steps",
        "100",
        "--out",
        str(folder / "run"),
        "training.baseline=false",
        "training.validations=1",
    ]
    began = time.monotonic()
    for name in ("with nothing ready", "with the store ready"):
        shutil.rmtree(folder / "run", ignore_errors=True)
        began = time.monotonic()
        process = subprocess.Popen(
            command, env=os.environ | {"SEQLAB_CACHE": str(folder / "cache")}, stdout=subprocess.DEVNULL
        )
        most = [0]
        watcher = threading.Thread(target=watch, args=(process.pid, most))
        watcher.start()
        first = None
        while process.poll() is None:
            if first is None and (folder / "run" / "resume" / "manifest.json").exists():
                first = time.monotonic() - began
            time.sleep(0.05)
        watcher.join()
        row = json.loads((folder / "run" / "metrics.jsonl").read_text().splitlines()[-1])
        print(
            f"{name}: exit {process.returncode}, memory up to {most[0] / 1e6:.2f} GB, training begins after"
            f" {first:.0f} s, {row['step']} steps, all in {time.monotonic() - began:.0f} s",
            flush=True,
        )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
