"""The one loop in which a trained model predicts, batch by batch and without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from seqlab.data.batches import Rows
from seqlab.model import device_of
from seqlab.parts import Batch, Output

Group = TypeVar("Group")
Made = TypeVar("Made")


def predicted(
    model: nn.Module,
    groups: Iterable[Group],
    batch_of: Callable[[Group], Batch],
    wanted: Callable[[Output, Batch], Made],
) -> Iterator[tuple[Group, Made]]:
    """For each group of examples that share a batch, what is wanted of the model's output.

    `groups` are most often row numbers of like length (`data.batches.in_order`).
    """
    return computed(model, groups, batch_of, lambda batch: wanted(model(batch), batch))


def computed(
    model: nn.Module,
    groups: Iterable[Group],
    batch_of: Callable[[Group], Batch],
    compute: Callable[[Batch], Made],
) -> Iterator[tuple[Group, Made]]:
    """The same of anything that the model computes from a batch."""
    model.eval()
    device = device_of(model)
    for group in groups:
        with torch.no_grad():  # not around the loop: whoever consumes it may take gradients meanwhile
            made = compute(batch_of(group).to(device))
        yield group, made


def by_row(found: Iterable[tuple[Rows, np.ndarray]]) -> np.ndarray:
    """One entry for each row, in the order of the rows, from the entries of the rows of each batch."""
    order, parts = zip(*found, strict=True)
    together = np.concatenate(parts)
    answers = np.empty_like(together)
    answers[np.concatenate(order)] = together
    return answers
