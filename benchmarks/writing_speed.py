"""Models that write, against other libraries of the same size: training, decoding, and whether batches change
the outputs.

All candidates of a table take turns, so that a noisy machine treats them alike; ratios count. They run in one
process, but for JoeyNMT, which is taken as it is shipped. The peers are installed into .peers the first time.
Tables are printed and kept in benchmarks/results/writing_speed.md.

    python benchmarks/writing_speed.py [--only training gpt recurrent decoding agreement] [--quick] [--run
    RUN]

Takes about half an hour. --quick does everything once and small, to see that it works, and keeps nothing.
--run names a run of `seqlab train translate`, whose model then serves for `agreement`; without it one is
trained for a minute.
"""

from __future__ import annotations

import argparse
import gzip
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ours import Changes, Ours
from peers import ctranslate, hugging, install, joey, plain
from tables import Book, Candidate, Section, raced, verdict

from seqlab.answers.searching import NEVER
from seqlab.answers.written import read_batch
from seqlab.data.batches import Position, cut_into_batches
from seqlab.data.store import Store
from seqlab.data.tokenizers import BOS, EOS
from seqlab.decode import DecodeConfig, Hypothesis, SpecialIds, by_length, decode, decode_all
from seqlab.likelihood import decoder_of
from seqlab.memory import keep_big_blocks
from seqlab.model import Model, count_parameters
from seqlab.parts import Batch
from seqlab.run import load
from seqlab.session import make_plan

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data"))
WIDTH, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, DROPOUT = 256, 3, 4, 1024, 8000, 0.1
SIZES = (WIDTH, LAYERS, HEADS, FEED_FORWARD, DROPOUT)
CHARACTERS = {"width": 384, "layers": 6, "heads": 6, "context": 256}
ROWS, LENGTH, WORKERS = 64, 16, 2
RESIDUALS = "0.1 on the input and the residuals"
ALLOCATOR = (
    "HF and the plain loop run in seqlab's process and have its setting of the memory allocator, too (+3 to"
    " +18 % here)."
)
OWN = (
    "JoeyNMT runs in a process of its own, as it is shipped; with seqlab's setting of the allocator it makes"
    " about 30 % more."
)


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure."""

    seconds: float = 12.0
    turns: int = 5
    tokens: int = 4096
    sentences: int = 1000
    learning: float = 60.0
    """Seconds of training for the model whose outputs are compared."""


QUICK = Effort(seconds=0.0, turns=1, tokens=256, sentences=6, learning=1.0)


# seqlab -----------------------------------------------------------------------------------------------------


def candidate(ours: Ours, note: str) -> Candidate:
    """seqlab in a race, whose turns are steps of its training loop."""
    workers = ours.training.workers.count
    shared = f"; {workers} workers × 1 thread" if workers > 1 else ""
    return Candidate("seqlab", ours.step, note + shared, around=ours.training.workers.at_work)


def bucketed(ours: Ours) -> Iterator[np.ndarray]:
    """The rows of the batches that seqlab trains on."""
    return (rows for _, rows in make_plan(ours.settings, ours.prepared).after(Position()))


def shuffled(ours: Ours, tokens: int) -> Iterator[np.ndarray]:
    """Rows in any order, as many in a batch as padding leaves room for: what other loaders do."""
    fields, random = ours.prepared.stores["train"].fields, np.random.default_rng(0)
    longer = np.maximum(fields["text"].sizes(), fields["written"].sizes())
    while True:
        yield from cut_into_batches(random.permutation(len(longer)), longer, tokens, None)


def steps_of(ours: Ours, update: Callable[[Batch], None], rows: Iterator[np.ndarray]) -> Callable[[], int]:
    """A peer's step on batches from our store; it gives back its target tokens."""

    def step() -> int:
        batch = ours.prepared.load(next(rows))
        update(batch)
        return int(batch.written.mask[:, 1:].sum())

    return step


def translator(preset: str, changes: Changes, effort: Effort) -> Ours:
    """Multi30k, English to French, in one vocabulary of 8,000 pieces."""
    files = {split: DATA / "multi30k" / name for split, name in (("train", "train"), ("valid", "val"))}
    common: Changes = {f"data.{split}": (f"{path}.en.gz,{path}.fr.gz",) for split, path in files.items()}
    common |= {"model.input.width": WIDTH, "model.decoder.width": WIDTH, "data.tokens.vocabulary": VOCABULARY}
    return Ours.of("translate", preset, common | changes | {"training.batch_tokens": effort.tokens})


def transformer(effort: Effort) -> Ours:
    layers = {"layers": LAYERS, "heads": HEADS, "feed_forward": FEED_FORWARD, "dropout": DROPOUT}
    changes: Changes = {
        f"model.{part}.{name}": value
        for part in ("encoder", "decoder.body")
        for name, value in layers.items()
    }
    return translator(
        "transformer", changes | {"model.input.dropout": 0.0, "model.decoder.dropout": 0.0}, effort
    )


@contextmanager
def joey_step(ours: Ours, model: dict[str, Any], effort: Effort) -> Iterator[Callable[[], int]]:
    """JoeyNMT on the same pieces; it adds the special of start and end itself."""
    fields = ours.prepared.stores["train"].fields
    read = [fields["text"].row(row)[:-1] for row in range(fields["text"].rows)]
    written = [fields["written"].row(row)[1:-1] for row in range(fields["written"].rows)]
    sizes = (ours.symbols, effort.tokens)
    with (
        tempfile.TemporaryDirectory() as folder,
        joey.apart(model, read, written, *sizes, Path(folder)) as step,
    ):
        yield step


# Training ---------------------------------------------------------------------------------------------------


def training(effort: Effort) -> Section:
    ours = transformer(effort)
    size = f"{count_parameters(ours.training.model):,} parameters"
    notes = [
        f"{size}. Norms stand before the blocks in seqlab and JoeyNMT, after them in Marian and"
        " nn.Transformer."
    ]
    candidates = [
        candidate(ours, f"dropout {RESIDUALS}; bucketed batches, label smoothing 0.1, averaged weights")
    ]
    with ExitStack() as stack:
        if why := install.missing("joeynmt"):
            notes.append(f"Without JoeyNMT: {why}")
        else:
            note = (
                "dropout 0.1 on the input, the residuals, inside attention and feed-forward; its own random"
                " batches"
            )
            work = stack.enter_context(joey_step(ours, joey.transformer(*SIZES), effort))
            candidates.append(Candidate("JoeyNMT 2.3 as shipped", work, note, wanted=2.9))
        if why := install.missing("transformers"):
            notes.append(f"Without Marian: {why}")
        else:
            for batches, wanted in (("bucketed", 1.0), ("random", None)):
                rows = bucketed(ours) if batches == "bucketed" else shuffled(ours, effort.tokens)
                work = steps_of(ours, hugging.step(hugging.marian(ours.symbols, *SIZES)), rows)
                whose = "seqlab's batches" if batches == "bucketed" else "random batches"
                note = f"dropout {RESIDUALS}; {whose}, fused AdamW"
                candidates.append(Candidate(f"HF Marian, {batches} batches", work, note, wanted))
        work = steps_of(
            ours, plain.step(plain.PlainTransformer(ours.symbols, *SIZES)), shuffled(ours, effort.tokens)
        )
        note = (
            "dropout 0.1 on the input, the residuals, inside attention and feed-forward; random batches,"
            " AdamW"
        )
        candidates.append(Candidate("plain nn.Transformer loop", work, note, wanted=2.5))
        what = f"{LAYERS}+{LAYERS} × {WIDTH}, feed-forward {FEED_FORWARD}, vocabulary {VOCABULARY:,}"
        title = f"Training a translator: Transformer {what}, batches of {effort.tokens:,} tokens, Multi30k"
        return raced(
            title, "target tokens/s", candidates, effort.seconds, effort.turns, [*notes, ALLOCATOR, OWN]
        )


def recurrent(effort: Effort) -> Section:
    changes: Changes = {f"model.{part}.width": WIDTH for part in ("encoder", "decoder.body")}
    changes |= {"model.decoder.score": "additive", "model.decoder.hidden": WIDTH}
    changes |= {
        f"model.{part}": DROPOUT for part in ("input.dropout", "decoder.dropout", "decoder.output_dropout")
    }
    ours = translator("lstm-attention", changes, effort)
    note = "dropout 0.1 on both inputs and on what is scored; attention after the cell; bucketed batches"
    candidates, notes = [candidate(ours, note)], [OWN]
    with ExitStack() as stack:
        if why := install.missing("joeynmt"):
            notes.append(f"Without JoeyNMT: {why}")
        else:
            note = (
                "dropout 0.1 on both inputs and before what is scored; input feeding; its own random batches,"
                " packed"
            )
            work = stack.enter_context(joey_step(ours, joey.recurrent(WIDTH, DROPOUT), effort))
            candidates.append(Candidate("JoeyNMT 2.3 as shipped", work, note, wanted=2.5))
        what = (
            f"bidirectional LSTM 2 × {WIDTH}, LSTM {WIDTH}, additive attention {WIDTH}, vocabulary"
            f" {VOCABULARY:,}"
        )
        title = f"Training a recurrent translator: {what}, batches of {effort.tokens:,} tokens, Multi30k"
        return raced(title, "target tokens/s", candidates, effort.seconds, effort.turns, notes)


def gpt(effort: Effort) -> Section:
    width, layers, heads, context = CHARACTERS.values()
    body = {
        "layers": layers,
        "heads": heads,
        "feed_forward": 4 * width,
        "activation": "gelu-tanh",
        "dropout": DROPOUT,
    }
    body |= {"positions": {"kind": "learned", "length": context}, "scale_embedding": False}
    changes: Changes = {
        "data.train": (str(DATA / "tinyshakespeare" / "input.txt.gz"),),
        "task.context": context,
    }
    changes |= {
        "model.decoder.width": width,
        **{f"model.decoder.body.{name}": value for name, value in body.items()},
    }
    ours = Ours.of("generate", "transformer", changes | {"training.batch_tokens": effort.tokens})
    rows = max(1, effort.tokens // context)
    candidates, notes = [candidate(ours, f"dropout {RESIDUALS}; averaged weights")], [ALLOCATOR]
    if why := install.missing("transformers"):
        notes.append(f"Without GPT-2: {why}")
    else:
        kinds: list[tuple[str, dict[str, float], float | None, str]] = [
            ("HF GPT-2 at its defaults", {}, 1.3, f"dropout {RESIDUALS} and inside attention; fused AdamW"),
            ("HF GPT-2, dropout as seqlab", {"attn_pdrop": 0.0}, None, f"dropout {RESIDUALS}; fused AdamW"),
        ]
        for name, dropout, wanted, note in kinds:
            model = hugging.gpt2(ours.symbols, width, layers, heads, context, **dropout)
            work = steps_of(ours, hugging.step(model), bucketed(ours))
            candidates.append(Candidate(name, work, note, wanted))
    title = (
        f"Training a language model: GPT {layers} × {width}, context {context}, {rows} rows a batch,"
        " characters"
    )
    return raced(title, "tokens/s", candidates, effort.seconds, effort.turns, notes)


# Decoding ---------------------------------------------------------------------------------------------------


def test_sentences(count: int) -> list[str]:
    """The first of the test part."""
    with gzip.open(DATA / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file][:count]


def decoding(effort: Effort) -> list[Section]:
    ours = transformer(effort)
    texts = test_sentences(effort.sentences)
    store = ours.prepared.answer.read(texts)
    sources = [np.asarray(store.fields["text"].row(row)) for row in range(store.rows)]
    batches = by_length([len(source) for source in sources], rows=ROWS)
    writer = ours.training.model.eval()
    assert isinstance(writer, Model)
    notes, makers = [], []
    with tempfile.TemporaryDirectory() as folder:
        if why := install.missing("transformers"):
            notes.append(f"Without Marian: {why}")
        else:
            model = hugging.marian(ours.symbols, *SIZES)
            note = f"generate, 1 × {torch.get_num_threads()} threads"
            makers.append(
                ("HF Marian", lambda beam: hugging.generate(model, sources, batches, beam, LENGTH), note)
            )
            if why := install.missing("ctranslate2"):
                notes.append(f"Without CTranslate2: {why}")
            for kind in () if why else ("float32", "int8"):
                place = ctranslate.convert(model, Path(folder) / kind, kind)
                work = ctranslate.writer(ctranslate.translator(place, kind, WORKERS), sources, ROWS, LENGTH)
                makers.append((f"CTranslate2 {kind}", work, f"its own kernels, {WORKERS} × 1 threads"))
        sections = []
        for name, beam, wanted in (("greedy", 1, 1.7), ("beam 5", 5, 1.5)):
            work = _bound(lambda beam: write_forced(writer, store, batches, beam), beam)
            candidates = [Candidate("seqlab", work, f"{WORKERS} × 1 threads")]
            candidates += [
                Candidate(who, _bound(make, beam), note, wanted if who == "HF Marian" else None)
                for who, make, note in makers
            ]
            title = (
                f"Decoding, {name}: the same Transformer, untrained, batches of {ROWS}, {LENGTH} ids forced,"
                " Multi30k test"
            )
            sections.append(raced(title, "sentences/s", candidates, effort.seconds / 4, effort.turns, notes))
        return sections


def _bound(make: Callable[[int], int], beam: int) -> Callable[[], int]:
    return lambda: make(beam)


def write_forced(model: Model, sources: Store, batches: Sequence[Sequence[int]], beam: int) -> int:
    """Write exactly so many ids for each source; how many sources there were."""
    special = SpecialIds(start=BOS, end=EOS, banned=(*NEVER, EOS))
    config = DecodeConfig(beam=beam, longest=LENGTH)

    def one(rows: Sequence[int]) -> list[Hypothesis]:
        batch = read_batch(sources.fields, ("text",), np.array(rows))
        memory = model.encoded(batch)[1]
        found = decode(
            decoder_of(model),
            memory,
            special.opening([[]] * len(rows)),
            config=config,
            special=special,
            longest=config.limits(batch.inputs["text"].mask.sum(dim=1)),
            numbers=list(rows),
        )
        return [best[0] for best in found]

    written = decode_all(batches, one, WORKERS)
    assert all(len(one.ids) == LENGTH for one in written)
    return len(written)


# Whether batches change what is written ---------------------------------------------------------------------


def agreement(effort: Effort, run: str) -> Section:
    """Outputs in batches against outputs one by one, in both precisions."""
    if run:
        trained = load(run)
        answer, model, whose = trained.answer, trained.model, f"the model of {Path(run).name}"
    else:
        ours = transformer(effort)
        began = time.monotonic()
        with ours.training.workers.at_work():
            while time.monotonic() - began < effort.learning:
                ours.step()
        answer, whose = ours.prepared.answer, f"trained for {effort.learning:g} s"
        averaged = ours.training.average.model
        assert isinstance(averaged, Model)
        model = averaged
    texts = test_sentences(effort.sentences)
    rows = []
    for precision, least in ((torch.float32, 0.999), (torch.float64, 1.0)):
        model = model.to(precision).eval()
        for name, beam in (("greedy", 1), ("beam 5", 5)):
            how = DecodeConfig(beam=beam)
            together = answer.predict(model, texts, how)
            alone = [one for text in texts for one in answer.predict(model, [text], how)]
            same = sum(one.shown() == two.shown() for one, two in zip(together, alone, strict=True))
            wanted = f"≥ {least * len(texts):.0f}: {verdict(same >= least * len(texts))}"
            rows.append((name, str(precision).removeprefix("torch."), f"{same:,} of {len(texts):,}", wanted))
    title = f"The same in batches as one by one: {whose}, Multi30k test"
    return Section(title, ("", "precision", "equal outputs", "wanted"), tuple(rows))


# All of it --------------------------------------------------------------------------------------------------

PARTS = ("training", "gpt", "recurrent", "decoding", "agreement")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--run", default="")
    asked = parser.parse_args()
    effort = QUICK if asked.quick else Effort()
    keep_big_blocks()
    torch.manual_seed(0)
    order = ["training", "gpt", "recurrent", "decoding", "decoding beam", "agreement"]
    book = Book("writing_speed", "Models that write, against other libraries", order)
    if asked.quick:
        print("A quick run: it shows that everything works, and its numbers mean nothing.\n")
    for part in asked.only:
        sections: dict[str, Section] = {}
        if part == "decoding":
            sections["decoding"], sections["decoding beam"] = decoding(effort)
        elif part == "agreement":
            sections[part] = agreement(effort, asked.run)
        else:
            sections[part] = {"training": training, "gpt": gpt, "recurrent": recurrent}[part](effort)
        for name, section in sections.items():
            print(section.shown(), flush=True)
            if not asked.quick:
                book.add(name, section)


if __name__ == "__main__":
    main()
