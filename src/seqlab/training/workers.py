"""Worker threads that share one training step: each takes some of its rows, and their gradients are added
up."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.nn.layers import Dropout
from seqlab.parts import Batch

WORKER_TOKENS = 192
"""Tokens of a batch from which on a worker of its own is worth it, where the model is no Transformer."""


class Workers:
    """Replicas of a model, one a worker, whose weights are the same memory; each has gradients and a random
    state of its own.

    For small models on a CPU, workers with one thread each beat one worker with all threads, unless batches
    are small, and other processes slow them down less (benchmarks/recipes.md). Torch lets go of the
    interpreter while it computes, so threads will do, and nothing has to be sent between processes. A loss is
    a sum over rows, so the gradient does not depend on how they were shared out (beyond rounding, and beyond
    what dropout draws). One worker alone works on the model itself.
    """

    def __init__(self, model: nn.Module, workers: int, seed: int) -> None:
        self.model = model
        self.replicas = [model, *(copy.deepcopy(model) for _ in range(workers - 1))]
        self.generators: list[torch.Generator] = []
        self.pool: ThreadPoolExecutor | None = None
        self.threads = torch.get_num_threads()
        if workers == 1:
            return
        for number, replica in enumerate(self.replicas):
            for mine, shared in zip(replica.parameters(), model.parameters(), strict=True):
                mine.data = shared.data
            self.generators.append(torch.Generator().manual_seed(seed * 1_000 + number))
            for module in replica.modules():
                if isinstance(module, Dropout):
                    module.generator = self.generators[-1]

    @property
    def count(self) -> int:
        return len(self.replicas)

    def parts(self, rows: np.ndarray) -> list[np.ndarray]:
        """The rows of a batch shared out: every worker gets rows of all lengths that are there."""
        return [rows[start :: self.count] for start in range(min(self.count, len(rows)))]

    def train(self) -> None:
        for replica in self.replicas:
            replica.train()

    def work(self, batches: Sequence[Batch], one: Callable[[nn.Module, Batch], float]) -> float:
        """`one` takes a replica and a batch, adds to the replica's gradients and gives the loss. All losses
        added up."""
        if self.count == 1:
            return sum(one(self.model, batch) for batch in batches)
        assert self.pool is not None, "workers work `with workers.at_work()`"

        def share(number: int) -> float:
            return sum(one(self.replicas[number], batch) for batch in batches[number :: self.count])

        loss = sum(self.pool.map(share, range(self.count)))
        self._add_up()
        return loss

    def _add_up(self) -> None:
        """All gradients into those of the model; always in the same order."""
        for replica in self.replicas[1:]:
            mine, theirs = [], []
            for one, other in zip(self.model.parameters(), replica.parameters(), strict=True):
                if one.grad is None:
                    one.grad = other.grad
                elif other.grad is not None:
                    mine.append(one.grad)
                    theirs.append(other.grad)
                other.grad = None
            if mine:
                torch._foreach_add_(mine, theirs)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within, torch computes with one thread in each worker."""
        if self.count == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(self.count) as self.pool:
                yield
        finally:
            self.pool = None
            torch.set_num_threads(self.threads)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within, all threads are there for something else: a validation."""
        now = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(now)

    def random_states(self) -> dict[str, Tensor]:
        """Where the random numbers of each worker are."""
        return {f"random.{number}": generator.get_state() for number, generator in enumerate(self.generators)}

    def restore_random_states(self, tensors: dict[str, Tensor]) -> None:
        for number, generator in enumerate(self.generators):
            if f"random.{number}" in tensors:
                generator.set_state(tensors[f"random.{number}"])
