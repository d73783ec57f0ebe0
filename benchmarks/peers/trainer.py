"""The Trainer of Hugging Face transformers as it is shipped, held after each step so that it can take turns
with others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

Inputs = dict[str, Tensor]


def bert(
    symbols: int,
    width: int,
    layers: int,
    heads: int,
    feed_forward: int,
    context: int,
    attention_dropout: float,
) -> Any:
    """BERT with its masked head alone. Its other dropout, 0.1 on the input and the residuals, is its
    default."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=symbols,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        type_vocab_size=1,
        intermediate_size=feed_forward,
        max_position_embeddings=context,
        attention_probs_dropout_prob=attention_dropout,
    )
    return BertForMaskedLM(config)


class Made(Dataset[Inputs]):
    """Whole batches, made when they are asked for; `sizes` tells how many tokens the ones that were handed
    out have."""

    def __init__(self, make: Callable[[int], tuple[Inputs, int]], count: int) -> None:
        self.make, self.count = make, count
        self.sizes: deque[int] = deque()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Inputs:
        inputs, size = self.make(number)
        self.sizes.append(size)
        return inputs


def only(items: Sequence[Inputs]) -> Inputs:
    """A batch that is one already."""
    return items[0]


def step(model: Any, data: Made, folder: str, steps: int = 100_000) -> Callable[[], int]:
    """One step of `Trainer.train` on the next batch; how many tokens it had.

    Its loop runs in a thread of its own, which waits at the end of each step until it is asked for the next
    one. Fused AdamW, clipping at 1 and a linear schedule are its defaults; it neither logs, nor saves, nor
    evaluates.
    """
    from transformers import Trainer, TrainerCallback, TrainingArguments

    turn, done = threading.Semaphore(0), threading.Semaphore(0)
    failed: list[BaseException] = []

    class Wait(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            done.release()
            turn.acquire()

    told = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=5e-4,
        use_cpu=True,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model=model, args=told, train_dataset=data, data_collator=only, callbacks=[Wait()])
    threads = torch.get_num_threads()

    def train() -> None:
        turn.acquire()
        torch.set_num_threads(threads)  # of this thread
        try:
            trainer.train()
        except BaseException as error:
            failed.append(error)
            done.release()

    threading.Thread(target=train, daemon=True).start()

    def update() -> int:
        turn.release()
        done.acquire()
        if failed:
            raise failed[0]
        return data.sizes.popleft()

    return update
