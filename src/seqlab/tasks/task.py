"""What a task is: it turns files into examples, says what to learn and how well it went, and answers requests."""

from __future__ import annotations

from dataclasses import dataclass

from seqlab.config import Variant


class TaskConfig(Variant):
    """Settings of a task; each kind stands beside the code that does it."""


@dataclass(frozen=True)
class Size:
    """How much data there is, as far as a sound recipe depends on it."""

    rows: int = 20_000
    words: float = 100.0
    """Mean number of words in a text."""
