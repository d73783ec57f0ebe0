"""What a first script does: torch.nn.Transformer, batches padded to their longest row, cross-entropy,
AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqlab.nn.positions import sinusoids
from seqlab.parts import Batch

LONGEST = 512


class PlainTransformer(nn.Module):
    """One matrix for what is read, what is written and the scores, so that it has the size of the others."""

    def __init__(
        self, symbols: int, width: int, layers: int, heads: int, feed_forward: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.transformer = nn.Transformer(
            width, heads, layers, layers, feed_forward, dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(LONGEST, width).float())

    def placed(self, ids: Tensor) -> Tensor:
        return self.dropout(
            self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions[: ids.shape[1]]
        )

    def forward(self, read: Tensor, read_mask: Tensor, fed: Tensor, fed_mask: Tensor) -> Tensor:
        future = nn.Transformer.generate_square_subsequent_mask(fed.shape[1], dtype=torch.bool)
        states = self.transformer(
            self.placed(read),
            self.placed(fed),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=~read_mask,
            tgt_key_padding_mask=~fed_mask,
            memory_key_padding_mask=~read_mask,
        )
        return states @ self.embedding.weight.T


def step(model: PlainTransformer) -> Callable[[Batch], None]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4)

    def update(batch: Batch) -> None:
        read, written = batch.inputs["text"], batch.written
        meant = written.values[:, 1:].masked_fill(~written.mask[:, 1:], -100)  # type: ignore[union-attr]
        optimiser.zero_grad()
        scores = model(read.values, read.mask, written.values[:, :-1], written.mask[:, :-1])  # type: ignore[union-attr]
        nn.functional.cross_entropy(scores.flatten(0, 1), meant.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return update
