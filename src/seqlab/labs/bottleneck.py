"""The lab `bottleneck` (SPEC L3): how well sentences are translated by length, with and without attention.

Without attention a decoder knows the encoder's last states alone, which have to hold the whole sentence (SPEC
R6). With attention it also looks at the state of every word (SPEC R9).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.loops import is_sure, line_of, told_sure
from seqlab.labs.pairs import Texts, read_texts
from seqlab.labs.picture import Panel
from seqlab.labs.rows import write_jsonl
from seqlab.labs.trials import Trial, train_all
from seqlab.report.evaluate import score_by_length
from seqlab.run import Run, load
from seqlab.text_metrics import Chrf, TokenErrorRate

ARMS = {"attention": "late", "no attention": "none"}


def made_pairs(count: int, longest: int, seed: int) -> Texts:
    """Different sentences of syllables, in a language that turns each syllable round and swaps neighbours:
    "ba de go" is "ed ab og"."""
    draw = random.Random(seed)
    syllables = [consonant + vowel for consonant in "bdfg" for vowel in "aeo"]
    pairs = []
    for _ in range(count):
        words = draw.choices(syllables, k=draw.randint(1, longest))
        turned = [word[::-1] for word in words]
        for place in range(0, len(words) - 1, 2):
            turned[place], turned[place + 1] = turned[place + 1], turned[place]
        pairs.append((" ".join(words), " ".join(turned)))
    return list(dict.fromkeys(pairs))


STEPS = (800, 4000)
"""Quick and whole."""
PAIRS = (4000, 20_000)
LEAST, LONGEST, TESTED, LETTERS = 1000, 12, 600, {"data.tokens.kind": "words"}
"""Texts at least; words of a made sentence; pairs to test on; how made sentences are cut."""


def settings_of(work: Work, attend: str, seed: int, files: Mapping[str, Path]) -> dict[str, Any]:
    """The same model and training for both arms, but for where the decoder looks."""
    size = work.of(48, 64)
    return {
        **{f"data.{name}": (str(path),) for name, path in files.items()},
        **({} if work.data else LETTERS),
        "training.steps": work.of(*STEPS),
        "training.seed": seed,
        "training.baseline": False,
        "training.validations": 2,
        "training.threads": 1,
        "training.batch_tokens": 512,
        "training.rate": 5e-3,
        "model.input.width": size,
        "model.decoder.width": size,
        "model.encoder.width": size,
        "model.decoder.body.width": 2 * size,
        "model.decoder.attend": attend,
        "model.decoder.context": "every-step",
    }


def by_length(run: Run, pairs: Texts, made: bool) -> tuple[list[str], list[int], list[float]]:
    """Sources by their number of words: what a bucket is called, its longest source, and the quality there.

    Of made sentences, 100 less the edits for 100 words; of real ones, which can be said otherwise, chrF.
    """
    sources, targets = zip(*pairs, strict=True)
    said = [one.text for one in run.predict(list(sources))]
    lengths = np.array([len(source.split()) for source in sources])
    metric = TokenErrorRate() if made else Chrf()
    found = score_by_length(metric, said, [[target] for target in targets], lengths)
    names = [
        f"{one.shortest}-{one.longest}" if one.shortest < one.longest else f"{one.longest}" for one in found
    ]
    return (
        names,
        [one.longest for one in found],
        [100 - 100 * one.score.value if made else one.score.value for one in found],
    )


def study(work: Work) -> Finding:
    """Both arms with each seed, on the same pairs."""
    pairs = read_texts(work.data, LEAST) if work.data else made_pairs(work.of(*PAIRS), LONGEST, seed=0)
    held = min(TESTED, len(pairs) // 10)
    files = {
        name: write_jsonl(
            work.folder / "data" / f"{name}.jsonl", [{"source": one, "target": two} for one, two in some]
        )
        for name, some in (
            ("train", pairs[2 * held :]),
            ("valid", pairs[held : 2 * held]),
            ("test", pairs[:held]),
        )
    }
    found: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    names: list[str] = []
    longest: list[int] = []
    trials = {
        (arm, seed): Trial(
            str(work.folder / "trials" / f"{arm.replace(' ', '-')}-{seed}"),
            settings_of(work, attend, seed, files) | dict(work.settings),
            "lstm-attention",
            task="translate",
        )
        for seed in range(work.seeds)
        for arm, attend in ARMS.items()
    }
    for trial in train_all(list(trials.values()), torch.get_num_threads()):
        work.progress.say(f"{Path(trial.folder).name} is trained")
    for (arm, _), trial in trials.items():
        names, longest, scores = by_length(load(trial.folder), pairs[:held], made=not work.data)
        found[arm].append(scores)
    spreads = {arm: [Spread(one) for one in zip(*curves, strict=True)] for arm, curves in found.items()}
    gaps = [one.minus(two) for one, two in zip(*spreads.values(), strict=True)]
    rows = [
        (name, *(str(spreads[arm][at]) for arm in ARMS), gaps[at].change) for at, name in enumerate(names)
    ]
    measure = "chrF" if work.data else "words right, of 100"
    header = ("words", *ARMS, "difference (95 %)")
    lines = tuple(line_of(arm, longest, curves) for arm, curves in found.items())
    return Finding(
        title="One state against attention",
        verdict=verdict(spreads, names, measure),
        tables=(
            ResultTable(
                f"{measure} on {held:,} test pairs by length, {work.seeds} seeds", header, tuple(rows)
            ),
        ),
        panels=(Panel("Translation by length", "words of the source, up to", measure, lines),),
        numbers={"lengths": names, **{arm: [one.to_json() for one in some] for arm, some in spreads.items()}},
        notes=(
            "Both arms are an LSTM that reads both ways and an LSTM that is told its last states;"
            " they have the same pairs, steps and seeds, and differ in decoder.attend alone.",
            "Buckets of length hold about equally many test pairs. ± is one standard deviation over seeds.",
        ),
    )


def verdict(spreads: Mapping[str, Sequence[Spread]], names: Sequence[str], measure: str) -> str:
    """What each arm loses from the shortest to the longest sentences, and whether attention loses less."""
    falls = {arm: some[0].minus(some[-1]) for arm, some in spreads.items()}
    less = falls["no attention"].minus(falls["attention"])
    told = [
        f"{arm.capitalize()}: {measure} {spreads[arm][0].mean:.1f} for {names[0]} words,"
        f" {spreads[arm][-1].mean:.1f} for {names[-1]}, a fall of {falls[arm].mean:.1f}."
        for arm in spreads
    ]
    if is_sure(less):
        who = "Without attention more is" if less.mean > 0 else "With attention more is"
        last = f"{who} lost as sentences grow, by {abs(less.mean):.1f} points"
    else:
        last = "That one of them loses more as sentences grow is not certain"
    return "\n".join([*told, f"{last} ({told_sure(less)})."])


run = lab("bottleneck", study, seeds=(3, 5), own_data=True)
