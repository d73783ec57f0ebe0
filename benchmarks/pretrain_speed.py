"""Pretraining against the same model in the transformers library with its Trainer: masked and causal tokens a
second.

Both learn from the same blocks of WikiText-2 in the same batches, with the same dropout; the candidates of a
table take turns in one process, so that a noisy machine treats them alike. What the Trainer needs is
installed into .peers the first time. Tables are printed and kept in benchmarks/results/pretrain_speed.md.

    python benchmarks/pretrain_speed.py [--only masked causal] [--quick]

Takes six minutes, and what preparing the text takes. --quick does everything once and small, to see that it
works, and keeps nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from ours import Changes, Ours
from peers import hugging, install, trainer
from tables import Book, Candidate, Section, raced
from writing_speed import DATA, QUICK, RESIDUALS, Effort, candidate

from seqlab.memory import keep_big_blocks
from seqlab.model import count_parameters
from seqlab.parts import Batch

WIDTH, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, CONTEXT, DROPOUT = 256, 4, 4, 1024, 8000, 256, 0.1
BODY = {
    "layers": LAYERS, "heads": HEADS, "feed_forward": FEED_FORWARD, "dropout": DROPOUT,
    "positions": {"kind": "learned", "length": CONTEXT},
}  # fmt: skip
INSIDE = f"dropout {RESIDUALS} and inside attention"
ALLOCATOR = "All run in one process, so the peers have seqlab's setting of the memory allocator, too."
PASSES = 1000
"""Passes over the text that the Trainer could make: more than it ever gets to."""
Convert = Callable[[Batch], tuple[trainer.Inputs, int]]
"""A batch as a model of theirs takes it, and how many tokens it has."""


def wikitext(preset: str, changes: Changes, effort: Effort) -> Ours:
    """WikiText-2 in 8,000 pieces, all of which are scored: the peers know no other way."""
    files = {f"data.{split}": (str(DATA / "wikitext2" / f"{split}.txt.gz"),) for split in ("train", "valid")}
    common: Changes = {
        **files,
        "data.tokens.vocabulary": VOCABULARY,
        "task.context": CONTEXT,
        "task.sampled": None,
    }
    return Ours.of("pretrain", preset, common | changes | {"training.batch_tokens": effort.tokens})


def masked_inputs(batch: Batch) -> tuple[trainer.Inputs, int]:
    """A label at each position that is asked for, −100 elsewhere. Blocks have no padding, so no mask is
    needed."""
    text: Any = batch.inputs["text"]
    assert bool(text.mask.all())
    labels = torch.full_like(text.values, -100)
    labels.view(-1)[batch.places.positions] = batch.places.values
    return {"input_ids": text.values, "labels": labels}, text.values.numel()


def causal_inputs(batch: Batch) -> tuple[trainer.Inputs, int]:
    """Their causal models shift the labels themselves."""
    ids = batch.written.values[:, 1:]
    return {"input_ids": ids, "labels": ids}, ids.numel()


def same_batches(ours: Ours, convert: Convert) -> trainer.Made:
    """The batches that seqlab trains on, from its store, in another order."""
    batches = ours.training.plan.epoch(0)

    def make(number: int) -> tuple[trainer.Inputs, int]:
        epoch, place = divmod(number, len(batches))
        return convert(ours.prepared.load(batches[place], (0, epoch)))

    return trainer.Made(make, PASSES * len(batches))


Kind = tuple[str, Any, str, float | None]
"""Name, model, note, and how many times as fast as it we want to be."""


def race(title: str, ours: Ours, kinds: list[Kind], convert: Convert, effort: Effort) -> Section:
    """seqlab's own loop against the Trainer with each of these models."""
    candidates = [candidate(ours, f"dropout {RESIDUALS}; clipping, fused AdamW, averaged weights")]
    sizes = [count_parameters(ours.training.model), *(count_parameters(model) for _, model, _, _ in kinds)]
    note = f"Parameters, in the order of the table: {', '.join(f'{size:,}' for size in sizes)}."
    with tempfile.TemporaryDirectory() as folder:
        for name, model, told, wanted in kinds:
            work = trainer.step(model, same_batches(ours, convert), folder)
            candidates.append(Candidate(name, work, f"{told}; clipping, fused AdamW", wanted))
        rows = max(1, effort.tokens // CONTEXT)
        what = (
            f"{LAYERS} × {WIDTH}, feed-forward {FEED_FORWARD}, {VOCABULARY:,} pieces, batches {rows} ×"
            f" {CONTEXT}, WikiText-2"
        )
        return raced(
            f"{title}: {what}", "tokens/s", candidates, effort.seconds, effort.turns, [note, ALLOCATOR]
        )


def masked(effort: Effort) -> Section:
    """The same formulas as BERT's with its masked head; seqlab scores masked positions alone, theirs all."""
    changes: Changes = {f"model.encoder.{name}": value for name, value in BODY.items()} | {
        "model.input.width": WIDTH
    }
    ours = wikitext("roberta-base", changes, effort)
    symbols = ours.prepared.facts.symbols["text"]
    sizes = (symbols, WIDTH, LAYERS, HEADS, FEED_FORWARD, CONTEXT)
    kinds: list[Kind] = [
        ("HF BERT, Trainer, dropout as seqlab", trainer.bert(*sizes, 0.0), f"dropout {RESIDUALS}", 1.5),
        ("HF BERT, Trainer, at its defaults", trainer.bert(*sizes, DROPOUT), INSIDE, None),
    ]
    return race("Pretraining a masked model", ours, kinds, masked_inputs, effort)


def causal(effort: Effort) -> Section:
    changes: Changes = {f"model.decoder.body.{name}": value for name, value in BODY.items()} | {
        "model.decoder.width": WIDTH
    }
    ours = wikitext("gpt-2-small", changes, effort)
    symbols = ours.prepared.facts.symbols["text"]
    sizes = (symbols, WIDTH, LAYERS, HEADS, CONTEXT)
    kinds: list[Kind] = [
        (
            "HF GPT-2, Trainer, dropout as seqlab",
            hugging.gpt2(*sizes, attn_pdrop=0.0),
            f"dropout {RESIDUALS}",
            1.1,
        ),
        ("HF GPT-2, Trainer, at its defaults", hugging.gpt2(*sizes), INSIDE, None),
    ]
    return race("Pretraining a causal model", ours, kinds, causal_inputs, effort)


PARTS = {"masked": masked, "causal": causal}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    for peer in (
        "accelerate",
        "transformers",
    ):  # in this order: transformers looks for the other when it is imported
        if why := install.missing(peer):
            parser.exit(3, f"{why}\n")
    effort = QUICK if asked.quick else Effort()
    keep_big_blocks()
    torch.manual_seed(0)
    book = Book(
        "pretrain_speed", "Pretraining, against the transformers library and its Trainer", list(PARTS)
    )
    if asked.quick:
        print("A quick run: it shows that everything works, and its numbers mean nothing.\n")
    for part in asked.only:
        section = PARTS[part](effort)
        print(section.shown(), flush=True)
        if not asked.quick:
            book.add(part, section)


if __name__ == "__main__":
    main()
