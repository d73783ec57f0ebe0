"""The rules that presets follow, each with its reason."""

from __future__ import annotations

from seqlab.config import Tree


def drawing() -> Tree:
    """How a language model writes: the likeliest text is dull and repeats itself, at temperature 1 it is wild."""
    return {"sample": True, "temperature": 0.8}
