"""How fast this machine learns: some real steps, timed before a run whose budget is in minutes."""

from __future__ import annotations

import time

from seqlab.memory import keep_big_blocks
from seqlab.training.loop import Training

SECONDS, SHARE = 2.0, 0.03
"""How long steps are taken, and how much of the minutes at the most."""


def probe_seconds(minutes: float) -> float:
    """How long to measure for such a budget."""
    return min(SECONDS, SHARE * 60.0 * minutes)


def batches_a_second(trainer: Training, seconds: float) -> float:
    """Batches learnt from in a second. The first step is slower and counts only if there is no time for
    another."""
    keep_big_blocks()
    with trainer.workers.at_work():
        began = time.monotonic()
        trainer.take_step()
        first = time.monotonic() - began
        steps, began = 0, time.monotonic()
        while (took := time.monotonic() - began) < seconds - first:
            trainer.take_step()
            steps += 1
    return trainer.config.accumulate * (steps / took if steps else 1 / first)
