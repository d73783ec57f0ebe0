"""The training step on IMDb's mix of lengths, against a plain loop over torch.nn modules of the same size.

Candidates take turns within one process, so that a noisy machine treats them alike; the ratio of medians counts.
`random` is what a first script does: shuffled batches of 32 rows, padded. `bucketed` gives the plain loop our batches.

    python benchmarks/step_speed.py [seconds a turn] [turns]
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.nn.positions import sinusoids
from seqlab.parts import Batch
from seqlab.session import make_plan
from seqlab.settings import Settings, Wishes, completed
from seqlab.tasks import classify
from seqlab.tasks.classify import Classify, Files, Prepared
from seqlab.training.loop import keep_big_blocks
from seqlab.training.optim import Average, make_optimiser

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data"))


class PlainLstm(nn.Module):
    """Embedding, bidirectional LSTM, maximum over time, linear."""

    def __init__(self, symbols: int, width: int, hidden: int, drop: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.drop, self.head = nn.Dropout(drop), nn.Linear(2 * hidden, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.lstm(self.drop(self.embedding(ids)))[0]
        return self.head(self.drop(states.masked_fill(~mask.unsqueeze(-1), -1e9).amax(dim=1)))


class PlainTransformer(nn.Module):
    """Embedding, sinusoids, nn.TransformerEncoder, mean over time, linear."""

    def __init__(self, symbols: int, width: int, layers: int, heads: int, hidden: int, drop: float, inner_drop: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, inner_drop, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.drop, self.head = nn.Dropout(drop), nn.Linear(width, 2)
        self.register_buffer("positions", sinusoids(512, width, 10_000.0))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        vectors = self.drop(self.embedding(ids)) * self.embedding.embedding_dim**0.5 + self.positions[: ids.shape[1]]
        states = self.encoder(vectors, src_key_padding_mask=~mask) * mask.unsqueeze(-1)
        return self.head(self.drop(states.sum(dim=1) / mask.sum(dim=1, keepdim=True)))


def prepared(preset: str) -> tuple[Settings, Prepared]:
    files = {f"data.{split}": (str(DATA / "imdb" / f"{name}.tsv.gz"),) for split, name in (("train", "train"), ("valid", "val"))}
    wishes = Wishes(task="classify", preset=preset, overrides=files)
    first = wishes.settings()
    assert isinstance(first.task, Classify)
    found = Files(first.task, first.data)
    settings = completed(wishes.settings(found.size), found.size)
    return settings, found.prepare(settings.model)


def shuffled(rows: int, size: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(rows)
        for start in range(0, rows - size, size):
            yield order[start : start + size]


def ours(model: nn.Module) -> Callable[[Batch], None]:
    """The step of the training loop: terms, clipping, fused AdamW, averaging."""
    optimiser, average, steps = make_optimiser(model, 1e-3, 0.01), Average(model, 0.1), 0
    objective = classify.objectives(Classify(), model.config)[0][1]    # type: ignore[union-attr, arg-type]

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
        nn.functional.cross_entropy(model(text.values, text.mask), batch.target).backward()    # type: ignore[union-attr, arg-type]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def compare(preset: str, seconds: float, turns: int) -> None:
    from seqlab.model import Model

    settings, data = prepared(preset)
    store, facts = data.stores["train"], data.facts.parts
    target = classify.target_of(store)
    symbols = facts.symbols["text"]

    def other() -> nn.Module:
        if preset == "bilstm":
            return PlainLstm(symbols, settings.model.input.width, settings.model.encoder.width, settings.model.input.dropout)    # type: ignore[attr-defined]
        encoder, reader = settings.model.encoder, settings.model.input
        return PlainTransformer(
            symbols, reader.width, encoder.layers, encoder.heads, encoder.feed_forward, reader.dropout, encoder.dropout    # type: ignore[attr-defined]
        )

    def buckets() -> Iterator[np.ndarray]:
        return (rows for _, rows in make_plan(settings, data).after((0, 0)))    # type: ignore[arg-type]

    model = Model(settings.model, facts)
    model.config = settings.model    # type: ignore[assignment]
    steps = {"seqlab": ours(model), "plain, random": plain(other()), "plain, bucketed": plain(other())}
    rows = {"seqlab": buckets(), "plain, random": shuffled(store.rows, 32), "plain, bucketed": buckets()}
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            tokens, began = 0, time.perf_counter()
            while (took := time.perf_counter() - began) < (seconds if turn else 2.0):
                batch = classify.make_batch(store.fields, target, next(rows[name]))
                step(batch)
                tokens += int(batch.inputs["text"].mask.sum())    # type: ignore[union-attr]
            if turn:    # the first turn warms up
                speeds[name].append(tokens / took)
    middle = {name: statistics.median(found) for name, found in speeds.items()}
    for name, speed in middle.items():
        print(f"{preset:12} {name:16} {speed:9,.0f} real tokens/s   seqlab is {middle['seqlab'] / speed:.2f}×")


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[1:]]
    keep_big_blocks()
    torch.manual_seed(0)
    for preset in ("bilstm", "transformer"):
        compare(preset, *(numbers or [8.0]), turns=5) if len(numbers) < 2 else compare(preset, numbers[0], int(numbers[1]))
