"""Many sources: batches of like length, decoded side by side, given back in the order of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from seqlab.decode.after import go_on_after_end
from seqlab.decode.sample import sample
from seqlab.decode.search import search
from seqlab.decode.settings import DecodeConfig, Hypothesis, SpecialIds
from seqlab.parts import Decoder
from seqlab.seq import Seq

Result = TypeVar("Result")


def decode(
    decoder: Decoder,
    memory: Seq | None,
    opening: Int[Tensor, "B P"],
    *,
    config: DecodeConfig,
    special: SpecialIds,
    longest: Int[Tensor, " B"],
    numbers: Sequence[int],
) -> list[list[Hypothesis]]:
    """One batch, as the settings ask: `search`, or `sample`, which alone needs the rows' numbers."""
    if config.sample:
        found = sample(
            decoder, memory, opening, config=config, special=special, longest=longest, numbers=numbers
        )
    else:
        found = search(decoder, memory, opening, config=config, special=special, longest=longest)
    if not config.ignore_end:
        return found
    return go_on_after_end(decoder, memory, opening, found, count=config.ignore_end, special=special)


def by_length(lengths: Sequence[int], rows: int = 64, tokens: int = 16_384) -> list[list[int]]:
    """Row numbers in batches of like length, the longest first: at most so many rows, and so many tokens with
    padding."""
    batches: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or len(batches[-1]) == room:
            batches.append([])
            room = max(1, min(rows, tokens // max(1, lengths[row])))
        batches[-1].append(row)
    return batches


def decode_all(
    batches: Sequence[Sequence[int]],
    one: Callable[[Sequence[int]], Sequence[Result]],
    workers: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[Result]:
    """What `one` gives for each row, in the order of the rows. `batches` hold every row number from 0 on
    once.

    `one` makes a batch of these rows and decodes it. Batches run side by side in threads, which share the
    model; torch lets go of the interpreter while it computes. Each has one thread for its mathematics,
    however many workers there are, so their number changes nothing in the results; a single batch has all
    threads to itself. `tell` hears how many rows were done, batch by batch. `workers`: None for as many as
    torch has threads.
    """
    results: dict[int, Result] = {}
    for batch, found in zip(
        batches, _side_by_side(batches, one, workers or torch.get_num_threads()), strict=True
    ):
        results.update(zip(batch, found, strict=True))
        if tell:
            tell(len(batch))
    return [results[row] for row in range(len(results))]


def _side_by_side(
    batches: Sequence[Sequence[int]], one: Callable[[Sequence[int]], Sequence[Result]], workers: int
) -> Iterator[Sequence[Result]]:
    """What `one` gives for each batch, in order."""
    one = torch.no_grad()(one)  # what it sets holds for a thread alone, so it goes with the work
    if len(batches) == 1:
        yield one(batches[0])
        return
    with one_thread_each(), ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(one, batches)
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, what has not begun does not begin


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Torch computes with one thread within; the setting is the whole process's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
