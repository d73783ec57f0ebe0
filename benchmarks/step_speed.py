"""The training step on IMDb's mix of lengths, against a plain loop over torch.nn modules of the same size.

Candidates take turns within one process, so that a noisy machine treats them alike; the ratio of medians
counts. `random` is what a first script does: shuffled batches of 32 rows, padded to the longest. `bucketed`
gives the plain loop our batches. `packed` is the plain LSTM made right: without packing, its backward
direction starts in the padding. Reviews are taken whole, and once more cut to the 512 words that seqlab keeps
by default.

    python benchmarks/step_speed.py [seconds a turn] [turns]
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ours import Changes, Ours
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqlab.data.batches import Position
from seqlab.memory import keep_big_blocks
from seqlab.model import Model
from seqlab.nn.positions import sinusoids
from seqlab.parts import Batch
from seqlab.session import make_plan
from seqlab.training.optim import Average, make_optimiser

LONGEST = 4096
DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data"))


class PlainLstm(nn.Module):
    """Embedding, bidirectional LSTM, maximum over time, linear."""

    def __init__(self, symbols: int, width: int, hidden: int, drop: float, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.embedding = nn.Embedding(symbols, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.drop, self.head = nn.Dropout(drop), nn.Linear(2 * hidden, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        vectors = self.drop(self.embedding(ids))
        if self.packed:
            rows = pack_padded_sequence(vectors, mask.sum(dim=1), batch_first=True, enforce_sorted=False)
            states = pad_packed_sequence(self.lstm(rows)[0], batch_first=True)[0]
        else:
            states = self.lstm(vectors)[0]
        return self.head(self.drop(states.masked_fill(~mask.unsqueeze(-1), -1e9).amax(dim=1)))


class PlainTransformer(nn.Module):
    """Embedding, sinusoids, nn.TransformerEncoder, mean over time, linear."""

    def __init__(
        self, symbols: int, width: int, layers: int, heads: int, hidden: int, drop: float, inner_drop: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(
            width, heads, hidden, inner_drop, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.drop, self.head = nn.Dropout(drop), nn.Linear(width, 2)
        self.register_buffer("positions", sinusoids(LONGEST, width).float())

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        vectors = (
            self.drop(self.embedding(ids)) * self.embedding.embedding_dim**0.5
            + self.positions[: ids.shape[1]]
        )
        states = self.encoder(vectors, src_key_padding_mask=~mask) * mask.unsqueeze(-1)
        return self.head(self.drop(states.sum(dim=1) / mask.sum(dim=1, keepdim=True)))


def prepared(preset: str, length: int) -> Ours:
    changes: Changes = {
        f"data.{split}": (str(DATA / "imdb" / f"{name}.tsv.gz"),)
        for split, name in (("train", "train"), ("valid", "val"))
    }
    return Ours.of("classify", preset, changes | {"data.length": length, "training.workers": 1})


def shuffled(rows: int, size: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(rows)
        for start in range(0, rows - size, size):
            yield order[start : start + size]


def step_of(made: Ours) -> Callable[[Batch], None]:
    """The step of the training loop: terms, clipping, fused AdamW, averaging."""
    model = Model(made.settings.model, made.prepared.answer.parts)
    optimiser, average, steps = make_optimiser(model, 1e-3, 0.01), Average(model, 0.1), 0
    objective = made.settings.task.objectives(made.settings.model)[0][1]

    def step(batch: Batch) -> None:
        nonlocal steps
        steps += 1
        (objective(model(batch), batch).total / batch.size).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        average.update(model, steps)
        optimiser.zero_grad(set_to_none=True)

    return step


def plain(model: nn.Module) -> Callable[[Batch], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> None:
        text = batch.inputs["text"]
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(text.values, text.mask), batch.targets["row"]).backward()  # type: ignore[union-attr, arg-type]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def compare(preset: str, length: int, seconds: float, turns: int) -> None:
    made = prepared(preset, length)
    settings, data = made.settings, made.prepared
    symbols = data.facts.symbols["text"]

    def other(packed: bool = False) -> nn.Module:
        encoder: Any = settings.model.encoder
        reader: Any = settings.model.input
        if preset == "bilstm":
            return PlainLstm(symbols, reader.width, encoder.width, reader.dropout, packed)
        sizes = (reader.width, encoder.layers, encoder.heads, encoder.feed_forward)
        return PlainTransformer(symbols, *sizes, reader.dropout, encoder.dropout)

    def buckets() -> Iterator[np.ndarray]:
        return (rows for _, rows in make_plan(settings, data).after(Position()))

    steps = {"seqlab": step_of(made), "plain, random": plain(other()), "plain, bucketed": plain(other())}
    rows = {
        "seqlab": buckets(),
        "plain, random": shuffled(data.stores["train"].rows, 32),
        "plain, bucketed": buckets(),
    }
    if preset == "bilstm":
        steps["plain, random, packed"] = plain(other(packed=True))
        rows["plain, random, packed"] = shuffled(data.stores["train"].rows, 32)
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            tokens, began = 0, time.perf_counter()
            while (took := time.perf_counter() - began) < (seconds if turn else 2.0):
                batch = data.load(next(rows[name]))
                step(batch)
                tokens += int(batch.inputs["text"].mask.sum())  # type: ignore[union-attr]
            if turn:  # the first turn warms up
                speeds[name].append(tokens / took)
    middle = {name: statistics.median(found) for name, found in speeds.items()}
    for name, speed in middle.items():
        what = f"{preset}, {'whole reviews' if length == LONGEST else f'{length} words'}"
        print(
            f"{what:27} {name:22} {speed:9,.0f} real tokens/s   seqlab is {middle['seqlab'] / speed:.2f}×",
            flush=True,
        )


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    seconds, turns = [*given, *(8.0, 5.0)[len(given) :]]
    keep_big_blocks()
    torch.manual_seed(0)
    for length in (LONGEST, 512):
        for preset in ("bilstm", "transformer"):
            compare(preset, length, seconds, int(turns))
