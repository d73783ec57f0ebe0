"""What a validation found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Validation:
    """`score` is the deciding metric of the task, turned so that higher is better."""

    score: float
    loss: float
    """Decides between equal scores, which small validation sets often give."""
    numbers: dict[str, float]
    """For metrics.jsonl."""
    sample: str = ""
    """A few words written by the model."""
