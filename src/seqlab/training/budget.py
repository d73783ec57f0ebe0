"""How far training has come, from 0 to 1: counted in steps, or in the minutes that a user gave."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Steps alone decide when `minutes` is empty, so that a run can be repeated bit for bit.

    With `minutes`, the clock starts with the process and what is left after the reserve (the last validation,
    saving, the report) is for training; `steps` is then the most that make sense for the data.
    """

    steps: int
    minutes: float | None = None
    started: float = field(default_factory=time.monotonic)
    """When the process started, on the monotonic clock; earlier sessions of a resumed run are taken off
    it."""
    reserve: float = 5.0
    """Seconds kept for what comes after the last step."""
    scorings: float = 2.0
    """How many times as long as a validation everything takes that is scored after the last step."""
    begun: float = 0.0
    """Seconds on this clock when the first step was taken."""

    def seconds(self) -> float:
        """Time used by this run so far, earlier sessions included."""
        return time.monotonic() - self.started

    def progress(self, step: int) -> float:
        share = step / self.steps
        if self.minutes is not None:
            share = max(share, (self.seconds() - self.begun) / max(self.room, 1e-9))
        return min(1.0, share)

    @property
    def room(self) -> float:
        """Seconds for training, of a budget in minutes."""
        return (self.minutes or 0.0) * 60.0 - self.reserve - self.begun

    def after_validation(self, took: float) -> None:
        """A validation took so long: keep enough for the last one and for scoring."""
        self.reserve = max(self.reserve, 4.0 + self.scorings * took)
