"""Hugging Face transformers: Marian and GPT-2 of a given size, with the optimiser and clipping of its
Trainer, and generate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqlab.data.tokenizers import BOS, EOS
from seqlab.parts import Batch


def marian(symbols: int, width: int, layers: int, heads: int, feed_forward: int, dropout: float) -> Any:
    """Dropout on the input and on the residuals alone, which is its default. Padding is one more symbol, the
    last."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=symbols + 1,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=feed_forward,
        decoder_ffn_dim=feed_forward,
        dropout=dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=symbols,
        decoder_start_token_id=symbols,
        eos_token_id=EOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def gpt2(symbols: int, width: int, layers: int, heads: int, context: int, **dropout: float) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()  # it warns that it guesses the loss from the name of the class
    config = GPT2Config(
        vocab_size=symbols,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_positions=context,
        bos_token_id=BOS,
        eos_token_id=EOS,
        **dropout,
    )
    return GPT2LMHeadModel(config)


def step(model: Any) -> Callable[[Batch], None]:
    """Forward, its own loss, backward, clipping, fused AdamW: what its Trainer does by default."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)

    def update(batch: Batch) -> None:
        model.train()
        model(**_inputs(model, batch)).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return update


def _inputs(model: Any, batch: Batch) -> dict[str, Tensor]:
    if not batch.inputs:  # a language model: it shifts its labels itself
        return {"input_ids": batch.written.values[:, 1:], "labels": batch.written.values[:, 1:]}
    read: Any = batch.inputs["text"]
    meant, real = batch.written.values[:, 1:], batch.written.mask[:, 1:]
    return {
        "input_ids": read.values.masked_fill(~read.mask, model.config.pad_token_id),
        "attention_mask": read.mask.long(),
        "labels": meant.masked_fill(~real, -100),
    }


@torch.inference_mode()
def generate(
    model: Any, sources: Sequence[np.ndarray], batches: Sequence[Sequence[int]], beam: int, length: int
) -> int:
    """Write exactly so many ids for each source; how many sources there were."""
    model.eval()
    for rows in batches:
        some = [torch.from_numpy(sources[row]) for row in rows]
        ids = nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=model.config.pad_token_id)
        mask = (ids != model.config.pad_token_id).long()
        written = model.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )
        assert written.shape == (len(rows), 1 + length)
    return len(sources)
