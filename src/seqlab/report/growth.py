"""How the time of a layer grows with length and width: measured, fitted, and put beside the classic table
(SPEC M1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.encoders import Conv, Gru
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.seq import Seq

NEIGHBOURS = 32
"""Positions that local attention sees."""
LENGTHS = (512, 1024, 2048, 4096)
WIDTHS = (128, 256, 512)


@dataclass(frozen=True)
class Layer:
    """One kind of layer: how to build it, its multiply-adds, and the exponents of the leading term."""

    name: str
    leading: str
    build: Callable[[int], Callable[[Tensor], Any]]
    """From a width to something that maps vectors (B n d)."""
    work: Callable[[int, int], float]
    """Multiply-adds for n positions of width d, projections included."""
    exponents: dict[str, int]
    at: tuple[int, int] = (64, 8)
    """Positions while the width grows, and rows: enough for the leading term to lead and for calls to cost
    little."""


@dataclass(frozen=True)
class Growth:
    """Seconds over sizes of one layer, and the exponents that fit them best."""

    layer: str
    leading: str
    axis: Literal["n", "d"]
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    measured: float
    """Exponent fitted to the seconds."""
    counted: float
    """Exponent fitted to the multiply-adds at the same sizes, projections included: what to expect at these
    sizes."""
    limit: int
    """Exponent of the leading term: what the measured one tends to."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        what = f"{self.layer}, {self.leading}:"
        measured, counted = f"{self.axis}^{self.measured:.2f}", f"{self.axis}^{self.counted:.2f}"
        leading = f"leading term {self.axis}^{self.limit}"
        return f"{what:<30} time grows as {measured}, operations here as {counted}, {leading}"


def measure(
    lengths: Sequence[int] = LENGTHS, widths: Sequence[int] = WIDTHS, repeats: int = 3
) -> list[Growth]:
    """Time one layer of each kind over `lengths` (at width 64) and over `widths`.

    On one thread, forward only, without gradients; the least of `repeats` times, kinds taking turns.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return [*_over("n", lengths, repeats), *_over("d", widths, repeats)]
    finally:
        torch.set_num_threads(threads)


def _over(axis: Literal["n", "d"], sizes: Sequence[int], repeats: int) -> list[Growth]:
    kinds = layers()
    best = np.full((len(kinds), len(sizes)), np.inf)
    for _ in range(repeats):
        for place, size in enumerate(sizes):
            for kind, layer in enumerate(kinds):
                n, d = (size, 64) if axis == "n" else (layer.at[0], size)
                best[kind, place] = min(
                    best[kind, place], seconds_of(layer.build(d), torch.randn(layer.at[1], n, d))
                )
    return [
        Growth(
            layer=layer.name,
            leading=layer.leading,
            axis=axis,
            sizes=tuple(sizes),
            seconds=tuple(best[kind].tolist()),
            measured=exponent(sizes, best[kind].tolist()),
            counted=exponent(
                sizes,
                [layer.work(size, 64) if axis == "n" else layer.work(layer.at[0], size) for size in sizes],
            ),
            limit=layer.exponents[axis],
        )
        for kind, layer in enumerate(kinds)
    ]


def layers() -> list[Layer]:
    """The rows of the classic table."""

    def attention(local: int | None) -> Callable[[int], Callable[[Tensor], Any]]:
        return lambda d: MultiHeadAttention(
            Form(width=d, memory=d, heads=1, key=d, value=d, local=local)
        ).eval()

    def encoder(config: Callable[[int], Any]) -> Callable[[int], Callable[[Tensor], Any]]:
        def build(d: int) -> Callable[[Tensor], Any]:
            module: nn.Module = config(d).build(d).eval()
            return lambda vectors: module(Seq(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)))

        return build

    return [
        Layer(
            "self-attention",
            "n²d",
            attention(None),
            lambda n, d: 2 * n * n * d + 4 * n * d * d,
            {"n": 2, "d": 1},
            (2048, 1),
        ),
        Layer(
            "recurrent (gru)",
            "nd²",
            encoder(lambda d: Gru(width=d)),
            lambda n, d: 6 * n * d * d,
            {"n": 1, "d": 2},
        ),
        Layer(
            "convolution, k = 3",
            "knd²",
            encoder(lambda d: Conv(width=d)),
            lambda n, d: 3 * n * d * d,
            {"n": 1, "d": 2},
        ),
        Layer(
            f"local attention, r = {NEIGHBOURS}",
            "rnd",
            attention(NEIGHBOURS),
            lambda n, d: (
                4 * NEIGHBOURS * n * d + 4 * n * d * d
            ),  # blocks of r queries see windows of 2r − 1 keys
            {"n": 1, "d": 1},
        ),
    ]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log(value) over log(size), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def seconds_of(run: Callable[[Tensor], Any], vectors: Tensor) -> float:
    """Of this process alone, whatever else the machine does; with one thread they are those of the clock."""
    run(vectors)  # the first call pays for memory and kernels
    began = time.process_time()
    run(vectors)
    return time.process_time() - began
