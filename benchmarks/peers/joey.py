"""JoeyNMT 2.3 as it is shipped: its data set, its batches without buckets, its model, loss, optimiser and
step."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[int]]


def transformer(width: int, layers: int, heads: int, feed_forward: int, dropout: float) -> dict[str, Any]:
    """Its model section. One number for dropout goes to the input, the residuals, inside attention and the
    feed-forward block."""
    side = {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "hidden_size": width,
        "ff_size": feed_forward,
        "dropout": dropout,
        "embeddings": {"embedding_dim": width, "scale": True, "dropout": dropout},
        "layer_norm": "pre",
    }
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": dict(side), "decoder": dict(side)}


def recurrent(width: int, dropout: float) -> dict[str, Any]:
    """A bidirectional LSTM, an LSTM with additive attention and input feeding, which is its default."""
    embeddings = {"embedding_dim": width, "scale": False, "dropout": dropout}
    encoder = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "hidden_size": width,
        "bidirectional": True,
        "num_layers": 1,
        "dropout": dropout,
        "embeddings": embeddings,
    }
    decoder = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "hidden_size": width,
        "num_layers": 1,
        "dropout": dropout,
        "hidden_dropout": dropout,
        "init_hidden": "bridge",
        "attention": "bahdanau",
        "embeddings": embeddings,
    }
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": encoder, "decoder": decoder}


@contextmanager
def apart(
    model: dict[str, Any], read: Rows, written: Rows, symbols: int, batch_tokens: int, folder: Path
) -> Iterator[Callable[[], int]]:
    """Its step in a process of its own, which knows nothing of how seqlab keeps its memory and threads."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(
        target=_serve, args=(there, model, read, written, symbols, batch_tokens, folder), daemon=True
    )
    process.start()
    there.close()  # so that a process that dies is noticed

    def update() -> int:
        here.send(True)
        return int(here.recv())

    try:
        yield update
    finally:
        here.close()
        process.join()


def _serve(asked: Connection, *what: Any) -> None:
    """A step for each time it is asked, until nobody is there."""
    update = step(*what)
    try:
        while asked.recv():
            asked.send(update())
    except EOFError:
        return


def step(
    model: dict[str, Any], read: Rows, written: Rows, symbols: int, batch_tokens: int, folder: Path
) -> Callable[[], int]:
    """Its training step on these rows of ids, without marks: the next batch, one update, the number of its
    target tokens."""
    logging.disable(logging.INFO)
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.training import TrainManager

    args = parse_global_args(_settings(model, read, written, symbols, batch_tokens, folder), mode="train")
    source_words, target_words, data, _, _ = load_data(args.data, datasets=["train"])
    built = build_model(args.model, src_vocab=source_words, trg_vocab=target_words)
    built.loss_function = (args.train.loss, args.train.label_smoothing)
    trainer = TrainManager(
        model=built,
        model_dir=args.model_dir,
        device=args.device,
        n_gpu=0,
        rank=0,
        num_workers=0,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=set_validation_args(args.test),
    )
    batches = _batches(data, trainer)

    def update() -> int:
        batch = next(batches)
        trainer._train_step(batch)
        if trainer.clip_grad_fun is not None:
            trainer.clip_grad_fun(parameters=built.parameters())
        trainer.optimizer.step()
        trainer.scheduler.step(trainer.stats.steps)
        trainer.stats.steps += 1
        built.zero_grad()
        return int(batch.ntokens)

    return update


def _batches(data: Any, trainer: Any) -> Iterator[Any]:
    epoch = 0
    loader = data.make_iter(
        batch_size=trainer.args.batch_size,
        batch_type=trainer.args.batch_type,
        seed=trainer.seed,
        shuffle=True,
        num_workers=0,
        device=trainer.device,
        eos_index=trainer.model.eos_index,
        pad_index=trainer.model.pad_index,
    )
    while True:
        loader.batch_sampler.set_seed(trainer.seed + epoch)
        yield from loader
        epoch += 1


def _settings(
    model: dict[str, Any], read: Rows, written: Rows, symbols: int, tokens: int, folder: Path
) -> dict[str, Any]:
    """A settings tree as its YAML files have it. Ids stand as words in text files, which it splits at
    spaces."""
    for name, rows in (("read", read), ("written", written)):
        (folder / f"train.{name}").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    (folder / "words.txt").write_text("".join(f"{number}\n" for number in range(symbols)))
    side = {"level": "word", "voc_file": str(folder / "words.txt")}
    return {
        "name": "benchmark",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "model": model,
        "testing": {},
        "data": {
            "train": str(folder / "train"),
            "dataset_type": "plain",
            "src": {"lang": "read", **side},
            "trg": {"lang": "written", **side},
        },
        "training": {
            "batch_size": tokens,
            "batch_type": "token",
            "normalization": "tokens",
            "label_smoothing": 0.1,
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 0.0005,
            "clip_grad_norm": 1.0,
            "scheduling": "warmupinversesquareroot",  # its plateau does not run with this torch
        },
    }
