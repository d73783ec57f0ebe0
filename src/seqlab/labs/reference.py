"""The lab `reference`: a pronoun looks at its noun.

Each sentence has a singular and a plural noun, in either order, and then "it" or "they": its number says
which of the two is meant. Its French translation also needs the gender of that noun (il, elle, ils, elles).
The model has one layer, whose feed-forward block has one unit: what attention brings is read linearly, so
that nothing but its weights can choose between the nouns.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqlab.config import Tree
from seqlab.files import write_text
from seqlab.labs.arms import ArmOf, train_arms
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.picture import Heat
from seqlab.run import Run

HE = ("dog", "cat", "horse", "bird", "lion", "book", "train", "boat", "garden", "castle")
SHE = ("cow", "bee", "hen", "goat", "mouse", "apple", "car", "house", "river", "table")
"""Nouns that are masculine and feminine in French."""
PLURALS = {"mouse": "mice"}
VERBS = ("sees", "likes", "finds", "hides")
WITH_S = {"it": "is", "they": "are"}
QUALITIES = ("old", "small", "red", "here")
NOTHING = "-"
"""The tag of a word that is no pronoun."""
PRONOUN = 6
"""The place of the pronoun."""


class Sentence(NamedTuple):
    """Words, what the pronoun becomes in French, and where its noun and the other one stand."""

    words: tuple[str, ...]
    french: str
    noun: int
    other: int

    @property
    def tags(self) -> list[str]:
        return [self.french if place == PRONOUN else NOTHING for place in range(len(self.words))]


def plural(noun: str) -> str:
    return PLURALS.get(noun, f"{noun}s")


def sentence(draw: random.Random, pronoun: str | None = None) -> Sentence:
    """One that is drawn; with a pronoun, that one: the rest does not depend on it."""
    one, several = draw.sample(HE + SHE, 2)
    turned, verb, quality = draw.random() < 0.5, draw.choice(VERBS), draw.choice(QUALITIES)
    drawn = draw.choice(("it", "they"))
    pronoun = pronoun or drawn
    meant = one if pronoun == "it" else several
    french = ("il" if meant in HE else "elle") + ("s" if pronoun == "they" else "")
    nouns = (plural(several), one) if turned else (one, plural(several))
    words = ("the", nouns[0], verb.removesuffix("s") if turned else verb, "the", nouns[1], "as", pronoun,
             WITH_S[pronoun], quality)  # fmt: skip
    places = (4, 1) if (pronoun == "it") == turned else (1, 4)
    return Sentence(words, french, *places)


def write_tagged(work: Work, name: str, some: Sequence[Sentence]) -> str:
    """Words and tags, a sentence a block."""
    path = work.folder / "data" / f"{name}.conll"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        blocks = (
            "".join(f"{word} {tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) for one in some
        )
        write_text(path, "\n".join(blocks))
    return str(path)


def looks(run: Run, one: Sentence) -> np.ndarray:
    """Where every word looks (T T): the one layer, the mean over its heads."""
    found: np.ndarray = run.explain(list(one.words)).maps[0].weights.mean(axis=0)
    return found


def drawn(run: Run, one: Sentence) -> Heat:
    """Where every word looks."""
    weights = looks(run, one).tolist()
    return Heat(
        f'"{one.words[PRONOUN]}" is {one.french}', "looked at", "looks", weights, one.words, one.words
    )


def shares(run: Run, pairs: Sequence[tuple[Sentence, Sentence]]) -> dict[str, float]:
    """How often the translation is right, the pronoun looks more at its noun than at the other one, and both
    pronouns of a pair do."""
    every = [one for pair in pairs for one in pair]
    said = [answer.tags[PRONOUN] for answer in run.predict([list(one.words) for one in every])]
    rows = [looks(run, one)[PRONOUN] for one in every]
    mine = np.array([row[one.noun] for row, one in zip(rows, every, strict=True)])
    others = np.array([row[one.other] for row, one in zip(rows, every, strict=True)])
    ahead = mine > others
    return {
        "translated": sum(a == b.french for a, b in zip(said, every, strict=True)) / len(every),
        "looks at its noun": float(ahead.mean()),
        "both pronouns do": float(ahead.reshape(-1, 2).all(axis=1).mean()),
        "weight on its noun": float(mine.mean()),
        "weight on the other": float(others.mean()),
    }


def study(work: Work) -> Finding:
    """One small layer, several seeds; then pairs of sentences that differ in the pronoun alone."""
    model: Tree = {"model.input": {"kind": "tokens", "width": 32}, "model.encoder.layers": 1,
                   "model.encoder.heads": 1, "model.encoder.feed_forward": 1, "model.encoder.dropout": 0.0,
                   "model.places.dropout": 0.0, "training.rate": 5e-3, "training.batch_tokens": 512,
                   "training.patience": 100}  # fmt: skip
    counts = {"train": work.of(3000, 6000), "valid": 200, "test": 200}

    def arm(name: str, seed: int) -> ArmOf:
        draw = random.Random(f"reference {seed}")
        made = {split: [sentence(draw) for _ in range(count)] for split, count in counts.items()}
        data: dict[str, Any] = {
            f"data.{split}": (write_tagged(work, f"{split}-{seed}", some),) for split, some in made.items()
        }
        return ArmOf(data | model | {"training.steps": work.of(1000, 2000)}, preset="transformer", task="tag")

    [runs] = train_arms(work, ["transformer"], arm).values()
    seeds = range(1000, 1000 + work.of(60, 300))
    pairs = [(sentence(random.Random(seed), "it"), sentence(random.Random(seed), "they")) for seed in seeds]
    found = [shares(run, pairs) for run in runs]
    spreads = {what: Spread(tuple(one[what] for one in found)) for what in found[0]}
    it, they = pairs[0]
    return Finding(
        title="A pronoun looks at its noun",
        verdict=verdict(spreads, len(pairs)),
        tables=(ResultTable(f"{len(pairs)} pairs of sentences, seeds: {work.seeds}", ("", "share"),
                            tuple((what, str(one)) for what, one in spreads.items())),),
        panels=(drawn(runs[0], it), drawn(runs[0], they)),
        numbers={what: one.to_json() for what, one in spreads.items()},
        notes=("A pair has the same two nouns; only the pronoun and its verb differ. By chance, a pronoun"
               " looks more at its noun in one of two sentences, and both of a pair do in one of four.",
               "± is one standard deviation over seeds."),
        next=f'seqlab explain {runs[0].folder} "{" ".join(it.words)}" --out map.html',
    )  # fmt: skip


def verdict(spreads: dict[str, Spread], pairs: int) -> str:
    """Whether it does so more often than by chance."""
    looked, both = spreads["looks at its noun"], spreads["both pronouns do"]
    low, high = looked.mean - looked.margin, looked.mean + looked.margin
    sure = (
        "more often than by chance (0.5)"
        if low > 0.5
        else "which seeds alone could have made of chance (0.5)"
    )
    interval = f"95 % interval {low:.3f} to {high:.3f}, {sure}" if len(looked.values) > 1 else "one seed"
    return (
        f"The pronoun looks more at its noun than at the other one in {looked.mean:.3f} of the sentences"
        f' ({interval}).\nBoth "it" and "they" of one sentence do in {both.mean:.3f} of {pairs} pairs: it'
        f" moves with the pronoun. {spreads['translated'].mean:.3f} are translated rightly."
    )


run = lab("reference", study, seeds=(4, 5))
