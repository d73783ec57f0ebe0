"""Do layers cost what the classic table says? Time against length and width, exponents by regression (SPEC
M1), and where self-attention overtakes a recurrent layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from seqlab.encoders import Conv, Gru
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Line, Panel
from seqlab.labs.small import once
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.report.growth import NEIGHBOURS, exponent, seconds_of
from seqlab.seq import Seq

TOLERANCE = 0.25
ROUNDS = (5, 15)
MEETING = (32, 64, 128, 256, 512, 1024, 2048), (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
CROSSING_WIDTH = 128
Built = Callable[[Tensor], Any]
NOTES = (
    "Forward, on one thread, without gradients; seconds of this process alone. Kinds and sizes take turns;"
    " the exponent is fitted to the least time of each size, the range to each round by itself: that is the"
    " noise.",
    "Self-attention's n²d is softmax(QKᵀ)V without the projections, which are a row of their own, as in the"
    " table.",
    "Operations of whole layers: 2n²d + 4nd² for self-attention with one head, 6nd² for a GRU; they are"
    " equal at n = d. A GRU's steps have to wait for one another, which time shows and operations don't.",
)


@dataclass(frozen=True)
class Case:
    """One term of the table, timed along one axis at sizes where it leads."""

    term: str
    axis: Literal["n", "d"]
    wanted: int
    sizes: tuple[int, ...]
    other: int
    """The size that stays: d where n grows, n where d does."""
    rows: int
    build: Callable[[int], Built]

    @property
    def name(self) -> str:
        return f"{self.term} in {self.axis}"


def products(width: int) -> Built:
    """softmax(QKᵀ/√d)V alone."""
    return lambda x: functional.scaled_dot_product_attention(x, x, x)


def projections(width: int) -> Built:
    """Four matrices, as for queries, keys, values and the output."""
    matrices = [torch.randn(width, width) for _ in range(4)]
    return lambda x: [x @ matrix for matrix in matrices]


def attention(width: int, local: int | None = None) -> Built:
    form = Form(width=width, memory=width, heads=1, key=width, value=width, local=local)
    return MultiHeadAttention(form).eval()


def encoder(config: Callable[[int], Any]) -> Callable[[int], Built]:
    def build(width: int) -> Built:
        module = config(width).build(width).eval()
        return lambda x: module(Seq(x, torch.ones(x.shape[:2], dtype=torch.bool)))

    return build


RECURRENT = encoder(lambda width: Gru(width=width))
CONVOLUTION = encoder(lambda width: Conv(width=width))
LONG, WIDE = (512, 1024, 2048, 4096), (128, 256, 512)
CASES = (
    Case("self-attention, n²d", "n", 2, (256, 512, 1024, 2048), 64, 1, products),
    Case("self-attention, n²d", "d", 1, WIDE, 1024, 1, products),
    Case("projections, 4nd²", "n", 1, LONG, 256, 1, projections),
    Case("projections, 4nd²", "d", 2, (256, 512, 1024), 512, 1, projections),
    Case("recurrent (gru), nd²", "n", 1, (128, 256, 512, 1024), 128, 8, RECURRENT),
    Case("recurrent (gru), nd²", "d", 2, (256, 512, 1024), 32, 16, RECURRENT),
    Case("convolution, knd²", "n", 1, (1024, 2048, 4096, 8192), 256, 1, CONVOLUTION),
    Case("convolution, knd²", "d", 2, (256, 512, 1024), 1024, 1, CONVOLUTION),
    Case(f"local attention, rnd, r = {NEIGHBOURS}", "n", 1, LONG, 64, 1, lambda d: attention(d, NEIGHBOURS)),
)
CROSSING = {"self-attention": attention, "recurrent (gru)": RECURRENT}


def timed(
    build: Callable[[int], Built], axis: str, sizes: Sequence[int], other: int, rows: int
) -> list[float]:
    """Seconds of one round over the sizes."""
    found = []
    with torch.inference_mode():
        for size in sizes:
            n, d = (size, other) if axis == "n" else (other, size)
            found.append(max(seconds_of(build(d), torch.randn(rows, n, d)), 1e-7))
    return found


def one_round(meeting: Sequence[int]) -> dict[str, list[float]]:
    """Every case, then the two layers whose times cross."""
    found = {one.name: timed(one.build, one.axis, one.sizes, one.other, one.rows) for one in CASES}
    both = {name: timed(build, "n", meeting, CROSSING_WIDTH, 4) for name, build in CROSSING.items()}
    return found | both


def least(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [min(times) for times in zip(*rounds, strict=True)]


def crossing(sizes: Sequence[int], rising: Sequence[float], other: Sequence[float]) -> float | None:
    """Where the first curve overtakes the second for good, between sizes by their logarithms."""
    gaps = [math.log(one / two) for one, two in zip(rising, other, strict=True)]
    for place in range(len(sizes) - 1, 0, -1):
        if gaps[place - 1] <= 0 < gaps[place]:
            share = -gaps[place - 1] / (gaps[place] - gaps[place - 1])
            return float(sizes[place - 1] * (sizes[place] / sizes[place - 1]) ** share)
    return None


def study(work: Work) -> Finding:
    rounds, threads = work.of(*ROUNDS), torch.get_num_threads()
    meeting = work.of(*MEETING)
    torch.set_num_threads(1)
    times: dict[str, list[list[float]]] = {}
    try:
        for number in range(rounds):
            work.progress.say(f"round {number + 1} of {rounds}")
            one = once(work, f"round-{number}", partial(one_round, meeting))
            for name, found in one.items():
                times.setdefault(name, []).append(found)
    finally:
        torch.set_num_threads(threads)
    fitted = {case.name: exponent(case.sizes, least(times[case.name])) for case in CASES}
    far = [case.name for case in CASES if abs(fitted[case.name] - case.wanted) > TOLERANCE]
    attending, recurrent = (least(times[name]) for name in CROSSING)
    met = crossing(meeting, attending, recurrent)
    verdict = [
        f"{len(CASES) - len(far)} of {len(CASES)} fitted exponents are within {TOLERANCE} of the table's"
        + (f"; not so: {', '.join(f'{name} {fitted[name]:.2f}' for name in far)}." if far else "."),
        f"At width {CROSSING_WIDTH} self-attention takes more operations than the GRU from n = d ="
        f" {CROSSING_WIDTH} on, and more time {overtaken(met, meeting, attending[0] > recurrent[0])}.",
    ]
    numbers = {"fitted": fitted, "seconds": times, "crossing": {"time": met, "operations": CROSSING_WIDTH},
               "sizes": {case.name: case.sizes for case in CASES} | {"crossing": meeting}}  # fmt: skip
    return Finding("What layers cost", "\n".join(verdict), (table(times, fitted),),
                   panels(times, meeting), numbers, NOTES)  # fmt: skip


def overtaken(met: float | None, sizes: Sequence[int], always: bool) -> str:
    """From where on, in words."""
    if met is None:
        return f"at {'every' if always else 'no'} length from {sizes[0]} to {sizes[-1]:,}"
    return f"from n = {met:.0f} on"


def table(times: dict[str, list[list[float]]], fitted: dict[str, float]) -> ResultTable:
    rows = []
    for case in CASES:
        each = [exponent(case.sizes, found) for found in times[case.name]]
        best = least(times[case.name])
        rows.append((case.term, f"{case.axis} = {case.sizes[0]} to {case.sizes[-1]:,}",
                     f"{case.axis}^{case.wanted}",
                     f"{case.axis}^{fitted[case.name]:.2f}", f"{min(each):.2f} to {max(each):.2f}",
                     f"{1e3 * best[0]:.2f} to {1e3 * best[-1]:.2f} ms"))  # fmt: skip
    header = ("term", "sizes", "table", "fitted", "rounds alone", "time")
    return ResultTable("Growth of time", header, tuple(rows))


def panels(times: dict[str, list[list[float]]], meeting: Sequence[int]) -> tuple[Panel, ...]:
    def drawn(axis: str) -> tuple[Line, ...]:
        return tuple(
            Line(case.term, case.sizes, [1e3 * one for one in least(times[case.name])])
            for case in CASES if case.axis == axis
        )  # fmt: skip

    both = tuple(Line(name, meeting, [1e3 * one for one in least(times[name])]) for name in CROSSING)
    return (
        Panel("Longer", "n", "milliseconds", drawn("n"), log="xy"),
        Panel("Wider", "d", "milliseconds", drawn("d"), log="xy"),
        Panel(f"Self-attention overtakes, d = {CROSSING_WIDTH}", "n", "milliseconds", both, log="xy"),
    )


run = lab("costs", study)
