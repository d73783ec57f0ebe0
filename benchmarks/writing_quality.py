"""How well models that write do on real data, with default settings and a budget in minutes, run as a user
would type it.

    python benchmarks/writing_quality.py [--only multi30k-5 lstm ...] [--seeds 0 1 2] [--models lstm ...]
    [--quick]

Runs are kept in runs/quality, and one that is finished is not trained again; so the work can be done in
parts. Tables go to benchmarks/results/writing_quality.md, the picture of quality by length beside it. --quick
takes five steps instead of the minutes and keeps nothing.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tables import RESULTS, Book, Section, verdict

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data"))
SEQLAB = str(Path(sys.executable).with_name("seqlab"))
RUNS = Path("runs/quality")
SPLITS = ("train", "val", "test_2016_flickr")
MULTI30K = {split: f"{DATA / 'multi30k' / split}.en.gz,{DATA / 'multi30k' / split}.fr.gz" for split in SPLITS}
TEST = MULTI30K["test_2016_flickr"]
BEAM = ("decode.beam=5",)
SENTENCES = (
    "I am a student", "I did not mean to hurt you", "The fridge is full of food", "The river is full of fish",
    "I can't help but smoking weed",
)  # fmt: skip
PICTURE = "translation_by_length.png"


@dataclass(frozen=True)
class Scoring:
    """A number that a run is asked for."""

    name: str
    metric: str
    data: str = ""
    """What to evaluate on; empty: as the run scored itself at its end."""
    settings: tuple[str, ...] = ()
    wanted: dict[str, float] = field(default_factory=dict)
    """By model."""
    lower: bool = False
    """Whether lower is better."""


@dataclass(frozen=True)
class Plan:
    """One line of what the project promises."""

    title: str
    task: str
    words: tuple[str, ...]
    """What stands after `seqlab train TASK`: data and settings."""
    models: tuple[str, ...]
    minutes: float
    scorings: tuple[Scoring, ...]
    asked: tuple[str, ...] = ()
    """Texts to answer, shown below the table."""
    asking: tuple[str, ...] = ()
    """Settings for that."""


def multi30k(minutes: float, greedy: float | None, beam: float) -> Plan:
    return Plan(
        f"Multi30k, English to French, {minutes:g} minutes",
        "translate",
        (MULTI30K["train"], "--valid", MULTI30K["val"]),
        ("transformer",),
        minutes,
        (
            Scoring("BLEU, greedy", "bleu", TEST, wanted={"transformer": greedy} if greedy else {}),
            Scoring("BLEU, beam 5", "bleu", TEST, BEAM, {"transformer": beam}),
            Scoring("BLEU lower-cased, beam 5", "bleu_lower", TEST, BEAM),
        ),
    )


def shakespeare(minutes: float, nats: float) -> Plan:
    return Plan(
        f"tiny-shakespeare, characters, the last tenth, {minutes:g} minutes",
        "generate",
        (str(DATA / "tinyshakespeare" / "input.txt.gz"),),
        ("transformer", "lstm"),
        minutes,
        (
            Scoring(
                "bits per character (nats: × 0.693)",
                "bpc",
                wanted={"transformer": nats / math.log(2)},
                lower=True,
            ),
        ),
    )


def pronounce(minutes: float, words: float, sounds: float) -> Plan:
    train, valid, test = (str(RUNS / "sounds" / f"{split}.csv") for split in ("train", "valid", "test"))
    settings = ("task.metric=errors", "data.tokens.kind=characters", "data.target_tokens.kind=words")
    settings += ("data.target_tokens.split=spaces", "data.target_tokens.lower=false")
    models = ("lstm-attention", "transformer")
    return Plan(
        f"cmudict, spelling to sounds without stress, {minutes:g} minutes",
        "translate",
        (train, "--valid", valid, *settings),
        models,
        minutes,
        (
            Scoring(
                "words wrong", "sequence_error_rate", test, wanted=dict.fromkeys(models, words), lower=True
            ),
            Scoring(
                "sounds wrong", "token_error_rate", test, wanted=dict.fromkeys(models, sounds), lower=True
            ),
        ),
        ("seqlab", "photography"),
    )


def plans() -> dict[str, Plan]:
    wikitext = {split: str(DATA / "wikitext2" / f"{split}.txt.gz") for split in ("train", "valid", "test")}
    whole_words = [
        f"data.tokens.{setting}" for setting in ("kind=words", "split=spaces", "lower=false", "least=1")
    ]
    narrow = ["data.tokens.vocabulary=40000", "model.decoder.width=200", "model.decoder.body.width=200"]
    narrow += [f"model.decoder.{part}=0.2" for part in ("dropout", "output_dropout", "body.dropout")]
    narrow += ["task.sampled=6000", "task.context=35", "training.batch_tokens=700", "training.validations=5"]
    narrow += ["training.optimiser=sgd", "training.rate=20", "training.clip=0.25", "training.warmup=0.01"]
    tatoeba = DATA / "tatoeba_en_fr"
    return {
        "multi30k-5": multi30k(5, 48.0, 49.0),
        "multi30k-15": multi30k(15, 53.5, 54.5),
        "multi30k-90": multi30k(90, None, 57.0),
        "lstm": Plan(
            "Multi30k with and without attention, 15 minutes each",
            "translate",
            (MULTI30K["train"], "--valid", MULTI30K["val"], "--test", TEST),
            ("lstm", "lstm-attention"),
            15,
            (
                Scoring("BLEU, greedy", "bleu", TEST, wanted={"lstm-attention": 42.0}),
                Scoring("BLEU, beam 5", "bleu", TEST, BEAM),
            ),
        ),
        "tatoeba": Plan(
            "Tatoeba, English to French, 30 minutes",
            "translate",
            (str(tatoeba / "train.tsv.gz"),),
            ("transformer",),
            30,
            (
                Scoring("BLEU, greedy", "bleu", str(tatoeba / "val.tsv.gz"), wanted={"transformer": 40.0}),
                Scoring("BLEU, beam 5", "bleu", str(tatoeba / "val.tsv.gz"), BEAM),
            ),
            SENTENCES,
            BEAM,
        ),
        "shakespeare-5": shakespeare(5, 1.75),
        "shakespeare-30": shakespeare(30, 1.58),
        "timemachine": Plan(
            "The Time Machine, characters, 5 minutes",
            "generate",
            (str(DATA / "timemachine" / "timemachine.txt.gz"),),
            ("transformer", "lstm"),
            5,
            (Scoring("bits per character (nats: × 0.693)", "bpc", lower=True),),
            ("the",),
        ),
        "wikitext": Plan(
            "WikiText-2, words, LSTM of width 200, tied, 60 minutes",
            "generate",
            (wikitext["train"], "--valid", wikitext["valid"], *whole_words, *narrow),
            ("lstm",),
            60,
            (
                Scoring(
                    "perplexity, valid", "perplexity", wikitext["valid"], wanted={"lstm": 135.0}, lower=True
                ),
                Scoring("perplexity, test", "perplexity", wikitext["test"], lower=True),
            ),
        ),
        "pronounce-3": pronounce(3, 0.45, 0.12),
        "pronounce-30": pronounce(30, 0.27, 0.065),
    }


# Running ----------------------------------------------------------------------------------------------------


def seqlab(*words: object) -> str:
    done = subprocess.run(
        [SEQLAB, *map(str, words)], stdout=subprocess.PIPE, text=True
    )  # progress stays visible
    assert done.returncode == 0, f"exit code {done.returncode}: seqlab {shlex.join(map(str, words))}"
    return done.stdout


def command(plan: Plan, model: str, seed: int, quick: bool) -> list[str]:
    """What to type, but for --out."""
    budget = ["--steps", "5"] if quick else ["--minutes", f"{plan.minutes:g}"]
    return ["train", plan.task, *plan.words, "--model", model, *budget, "--seed", str(seed)]


def score(scoring: Scoring, run: Path) -> float:
    if scoring.metric == "bleu_lower":
        return lower_cased(scoring, run)
    if scoring.data:
        tree = json.loads(seqlab("evaluate", run, scoring.data, *scoring.settings, "--json"))
    else:
        tree = json.loads((run / "scores.json").read_text())
    return float(tree["metrics"][scoring.metric]["value"])


def lower_cased(scoring: Scoring, run: Path) -> float:
    """BLEU with capitals as small letters, which older papers give: from the translations themselves."""
    from sacrebleu.metrics import BLEU

    sources, references = map(lines, scoring.data.split(","))
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.txt", Path(folder) / "made.jsonl"
        given.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        seqlab("predict", run, *scoring.settings, "--input", given, "--output", made)
        said = [json.loads(line)["translation"] for line in made.read_text(encoding="utf-8").split("\n")[:-1]]
    return float(BLEU(lowercase=True).corpus_score(said, [references]).score)


def lines(name: str) -> list[str]:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def answers(plan: Plan, model: str, run: Path) -> list[str]:
    """What the run says when it is asked; a word twice in a row is pointed out."""
    said = [
        json.loads(line)["text"]
        for line in seqlab("predict", run, *plan.asked, *plan.asking, "--json").splitlines()
    ]
    notes = []
    for asked, text in zip(plan.asked, said, strict=True):
        words = text.lower().split()
        twice = [one for one, two in itertools.pairwise(words) if one == two]
        notes.append(
            f"{model}: {asked} → {' '.join(text.split())}{f' (twice in a row: {twice[0]})' if twice else ''}"
        )
    return notes


def measure(
    name: str, plan: Plan, seeds: Sequence[int], models: Sequence[str], runs: Path, quick: bool
) -> Section:
    """Train every model with every seed, ask for every number."""
    rows, notes = [], [f"`seqlab {shlex.join(command(plan, 'MODEL', seeds[0], quick))}`"]
    for model in (one for one in plan.models if not models or one in models):
        folders = [runs / f"{name}-{model}-{seed}" for seed in seeds]
        for seed, folder in zip(seeds, folders, strict=True):
            if not (folder / "scores.json").exists():
                seqlab(*command(plan, model, seed, quick), "--out", folder)
        for scoring in plan.scorings:
            found = [score(scoring, folder) for folder in folders]
            middle = statistics.median(found)
            rows.append(
                (
                    model,
                    scoring.name,
                    " ".join(map(_shown, found)),
                    _shown(middle),
                    _wanted(scoring, model, middle),
                )
            )
        notes += answers(plan, model, folders[0]) if plan.asked else []
    if name == "lstm":
        notes += by_length(
            [[runs / f"lstm-{model}-{seed}" for seed in seeds] for model in plan.models], quick
        )
    header = ("model", "", f"seeds {', '.join(map(str, seeds))}", "median", "wanted")
    return Section(plan.title, header, tuple(rows), tuple(notes))


def _shown(value: float) -> str:
    return f"{value:.2f}" if value > 5 else f"{value:.4f}"


def _wanted(scoring: Scoring, model: str, value: float) -> str:
    if model not in scoring.wanted:
        return ""
    limit = scoring.wanted[model]
    return (
        f"{'≤' if scoring.lower else '≥'} {limit:.4g}:"
        f" {verdict(value <= limit if scoring.lower else value >= limit)}"
    )


# Quality by length (SPEC L3) --------------------------------------------------------------------------------


def by_length(folders: Sequence[Sequence[Path]], quick: bool) -> list[str]:
    """BLEU of short and long sentences, without attention and with it: sentences about it, and the
    picture."""
    trees = [
        [json.loads((folder / "scores.json").read_text()) for folder in some if folder.exists()]
        for some in folders
    ]
    if not all(trees) or "by_length" not in trees[0][0]:
        return ["Too little was run for a picture by length."]
    names = list(trees[0][0]["by_length"])
    means = [
        [statistics.mean(tree["by_length"][name]["bleu"]["value"] for tree in some) for name in names]
        for some in trees
    ]
    gaps = [attended - plain for plain, attended in zip(*means, strict=True)]
    if not quick:
        draw(names, [[tree["by_length"] for tree in some] for some in trees], means)
    told = "; ".join(
        f"{name}: {plain:.1f} and {attended:.1f}" for name, plain, attended in zip(names, *means, strict=True)
    )
    return [
        f"BLEU by the length of the source, lstm and lstm-attention: {told}.",
        (
            f"Attention ahead in every bucket: {verdict(min(gaps) > 0)}. The gap grows from {gaps[0]:.1f}"
            f" among the shortest to {gaps[-1]:.1f} among the longest: {verdict(gaps[-1] > gaps[0])}."
        ),
        *([] if quick else [f"![BLEU by length of the source]({PICTURE})"]),
    ]


def draw(
    names: Sequence[str], runs: Sequence[Sequence[dict[str, Any]]], means: Sequence[Sequence[float]]
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    looks = (("lstm, one vector for the sentence", "#b3541e", "o"), ("lstm with attention", "#1f5fa8", "s"))
    for some, middle, (label, colour, marker) in zip(runs, means, looks, strict=True):
        low = [statistics.mean(tree[name]["bleu"]["low"] for tree in some) for name in names]
        high = [statistics.mean(tree[name]["bleu"]["high"] for tree in some) for name in names]
        axes.fill_between(range(len(names)), low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(range(len(names)), middle, color=colour, marker=marker, label=label)
    axes.set_xticks(range(len(names)), [name.removesuffix(" words") for name in names])
    axes.set(
        xlabel="words in the source",
        ylabel="BLEU",
        title="Translation against length, Multi30k test",
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / PICTURE, dpi=150)


def main() -> None:
    known = plans()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(known), default=list(known))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if any(name.startswith("pronounce") for name in asked.only):
        from seqlab.data.builtin import write_sound_tables

        write_sound_tables(RUNS / "sounds")
    book = Book("writing_quality", "How well models that write do", list(known))
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) if asked.quick else RUNS
        for name in asked.only:
            section = measure(name, known[name], asked.seeds, asked.models, runs, asked.quick)
            print(section.shown(), flush=True)
            if not asked.quick:
                book.add(name, section)


if __name__ == "__main__":
    main()
