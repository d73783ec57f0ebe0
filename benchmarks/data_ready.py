"""Whether pictures are ready when training wants them: the share of its time that the loop waits for a batch.

Pictures are opened and decoded once, before training, and kept as bytes; in each epoch they are moved and
their light is changed anew. Measured are how long the first takes, and of steps of the training loop as they
are (two workers on two cores) the share of time in which a batch is put together and nothing else happens.
The pictures are those of Flickr8k at 96 x 96; without it in SEQLAB_DATA, as many JPEGs in a .zip are made of
noise and shapes. The table is printed and kept in benchmarks/results/data_ready.md.

    python benchmarks/data_ready.py [--seconds 20] [--turns 3] [--quick]

Takes five minutes, and wants a machine with nothing else to do. --quick does everything once and small, to
see that it works, and keeps nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ours import Changes, Ours
from PIL import Image
from tables import Book, Section, machine, verdict

from seqlab.data.picture_table import PictureTable
from seqlab.data.pictures import PictureConfig
from seqlab.data.read import DataConfig
from seqlab.data.shapes import scenes
from seqlab.fields.image import IMAGE
from seqlab.memory import keep_big_blocks

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data")) / "flickr8k"
PRESETS = ("cnn-lstm-attention", "cnn-transformer", "cnn-lstm", "spatial-transformer")
SIDE = 96
MADE = 6_000
"""Pictures that are made, as many as Flickr8k has to train on."""
WANTED = 0.95
QUALITY = 85


def made(folder: Path, count: int) -> Changes:
    """Pictures of two shapes on noise, as JPEGs in a .zip, with a caption each."""
    draw, lines = np.random.default_rng(0), []
    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        for number, scene in enumerate(scenes(count, seed=0)):
            large = np.repeat(np.repeat(scene.pixels, SIDE // 32, axis=0), SIDE // 32, axis=1)
            noisy = np.clip(large + draw.normal(0, 20, large.shape), 0, 255).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(noisy).save(file, "JPEG", quality=QUALITY)
            archive.writestr(f"{number}.jpg", file.getvalue())
            lines.append(json.dumps({"image": f"{number}.jpg", "caption": scene.caption}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines))
    return {"data.train": (str(folder / "captions.jsonl"),), "data.images": str(folder / "pictures.zip")}


def flickr() -> Changes:
    return {
        "data.train": (str(DATA / "train_captions.jsonl.gz"),),
        "data.images": str(DATA / "train_images_96.zip"),
    }


def decoding(data: Changes) -> tuple[int, float]:
    """How many pictures there are, and the seconds in which all are opened, decoded and brought to size."""
    config = DataConfig(images=str(data["data.images"]), image=PictureConfig(size=SIDE))
    files: Any = data["data.train"]
    began = time.perf_counter()
    rows = sum(1 for _ in PictureTable(files, config, [IMAGE]))
    return rows, time.perf_counter() - began


class Watched:
    """The training of a preset, and for how long of it the loop waits for its batches."""

    def __init__(self, preset: str, data: Changes) -> None:
        torch.manual_seed(0)
        self.training = Ours.of("caption", preset, data | {"data.image.size": SIDE}).training
        self.waited = 0.0
        inner = self.training.next_batches

        def watched() -> Any:
            began = time.perf_counter()
            batches = inner()
            self.waited += time.perf_counter() - began
            return batches

        self.training.next_batches = watched  # type: ignore[method-assign]

    def ready(self, seconds: float) -> tuple[float, float]:
        """The share of so many seconds in which the loop did not wait, and its steps a second."""
        before, self.waited, began = self.training.counters.step, 0.0, time.perf_counter()
        with self.training.workers.at_work():
            while (took := time.perf_counter() - began) < seconds:
                self.training.take_step()
        return 1 - self.waited / took, (self.training.counters.step - before) / took


def table(data: Changes, where: str, seconds: float, turns: int) -> Section:
    pictures, decoded = decoding(data)
    candidates = {preset: Watched(preset, data) for preset in PRESETS}
    for one in candidates.values():
        one.ready(min(seconds, 2.0))
    found = [{preset: one.ready(seconds) for preset, one in candidates.items()} for _ in range(turns)]
    rows = []
    for preset in PRESETS:
        share, speed = (statistics.median(turn[preset][place] for turn in found) for place in (0, 1))
        told = f"≥ {WANTED:.0%}: {verdict(share >= WANTED)}"
        rows.append((preset, f"{share:.1%}", told, f"{speed:.1f}"))
    once = (
        f"Before training {pictures:,} pictures were opened, decoded and brought to size in {decoded:.1f} s,"
        f" {1000 * decoded / pictures:.2f} ms each."
    )
    how = f"Medians of {turns} turns of {seconds:g} s, presets alternating, {machine()}."
    header = ("", "of the time data are ready", "wanted", "steps a second")
    return Section(f"Pictures of {SIDE} × {SIDE}, {where}", header, tuple(rows), (once, how))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    seconds, turns = (1.0, 1) if asked.quick else (asked.seconds, asked.turns)
    keep_big_blocks()
    with tempfile.TemporaryDirectory() as folder:
        known = (DATA / "train_images_96.zip").exists() and not asked.quick
        data = flickr() if known else made(Path(folder), 600 if asked.quick else MADE)
        section = table(data, "Flickr8k" if known else "made of noise and shapes", seconds, turns)
    print(section.shown(), flush=True)
    if not asked.quick:
        Book("data_ready", "Whether data are ready", ["captions"]).add("captions", section)


if __name__ == "__main__":
    main()
