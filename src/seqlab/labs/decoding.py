"""The lab `decoding` (SPEC T5): greedy, beams of 1 to 50, sampling; and the curse of wide beams.

A few pairs of training are cut short, as in real corpora. A model that has learnt this right gives a text
without words about as much probability as there are such pairs; a long text in which every word could be
another one has less. A search that finds what is likeliest then finds nothing (Stahlberg and Byrne 2019).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from seqlab.decode import DecodeConfig
from seqlab.decoders import Attending
from seqlab.encoders import Lstm
from seqlab.inputs import Tokens
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.loops import Numbers, fit, is_sure, line_of, measured, told_sure
from seqlab.labs.pairs import FIRST, IdPairs, Words, repetition
from seqlab.labs.picture import Panel
from seqlab.model import Model, ModelConfig
from seqlab.parts import Facts

STEPS = (500, 3000)
"""Quick and whole."""
WORDS, MEANINGS, SHARES, CUT, LONGEST = 20, 3, (0.5, 0.3, 0.2), 0.03, 12
"""Words of the source; translations of each, and how common they are; share of pairs that are cut short;
words of the longest source."""
ROWS, TESTED, WIDTH, AT_ONCE = 4000, 200, 48, 48
BEAMS = (1, 2, 5, 10, 20, 50)
BOUND = 1.0
"""Most ids for each id of the source, as there are; and ten more."""
WAYS = {
    **{f"beam {beam}": DecodeConfig(beam=beam, longest_factor=BOUND) for beam in BEAMS},
    **{
        f"beam {beam}, no norm": DecodeConfig(beam=beam, length_penalty=0.0, longest_factor=BOUND)
        for beam in BEAMS
    },
    "sampling": DecodeConfig(sample=True, longest_factor=BOUND),
    "sampling, top_p 0.5": DecodeConfig(sample=True, top_p=0.5, longest_factor=BOUND),
}
QUALITY, LENGTH, REPEATED, LOGP = "quality", "length", "repeated", "log p"


def made(rows: int, seed: int, cut: float) -> IdPairs:
    """Word s of the source is one of 3s, 3s + 1, 3s + 2 in the target, in the same order.

    A share `cut` of the targets ends somewhere in its first half.
    """
    random = np.random.default_rng(seed)
    sources, targets = [], []
    for _ in range(rows):
        source = random.integers(0, WORDS, random.integers(2, LONGEST + 1))
        target = source * MEANINGS + random.choice(MEANINGS, size=len(source), p=SHARES)
        kept = int(random.integers(0, len(source) // 2)) if random.random() < cut else len(source)
        sources.append(source.tolist())
        targets.append(target[:kept].tolist())
    return IdPairs(sources, targets)


def quality(said: Words, source: Words) -> tuple[int, int]:
    """Words that are one of the translations of the source's word there, of so many that either text has."""
    return sum(one // MEANINGS == two for one, two in zip(said, source, strict=False)), max(
        len(said), len(source)
    )


def measure(seed: int, steps: int) -> Numbers:
    """One model, and what each way to decode makes of it."""
    torch.manual_seed(seed)
    settings = ModelConfig(
        input=Tokens(width=WIDTH),
        encoder=Lstm(width=WIDTH // 2, directions="both"),
        pool=None,
        head=None,
        decoder=Attending(width=WIDTH, body=Lstm(width=WIDTH)),
    )
    model = Model(settings, Facts(symbols={"text": FIRST + WORDS, "written": FIRST + WORDS * MEANINGS}))
    learnt, random = made(ROWS, seed, CUT), np.random.default_rng(seed)

    def loss_of(step: int) -> Tensor:
        return learnt.loss(model, random.integers(0, ROWS, AT_ONCE))

    fit(model, steps, loss_of, rate=5e-3)
    tested = made(TESTED, 1_000_000 + seed, cut=0.0)
    words = sum(map(len, tested.sources))
    found = {}
    for way, how in WAYS.items():
        said = tested.write(model, how)
        right, most = np.array(
            [quality(one.ids, two) for one, two in zip(said, tested.sources, strict=True)]
        ).sum(axis=0)
        texts = [one.ids for one in said]
        found[way] = {
            QUALITY: float(right / most),
            LENGTH: sum(map(len, texts)) / words,
            REPEATED: repetition(texts),
            LOGP: float(np.mean([one.logp for one in said])),
            "empty": sum(not one for one in texts) / TESTED,
        }
    return found | {"reference": {REPEATED: repetition(tested.targets)}}


def study(work: Work) -> Finding:
    """A model a seed, decoded in every way."""
    steps = work.of(*STEPS)
    numbers = measured(
        work, "decoding", {f"{seed}": {"seed": seed, "steps": steps} for seed in range(work.seeds)}
    )
    every = list(numbers.values())
    keys = (QUALITY, LENGTH, "empty", REPEATED, LOGP)
    spreads = {way: {key: Spread(tuple(one[way][key] for one in every)) for key in keys} for way in WAYS}
    rows = tuple((way, *(str(spreads[way][key]) for key in keys)) for way in WAYS)
    panels = tuple(
        Panel(
            title,
            "beam",
            up,
            tuple(
                line_of(name, BEAMS, [[one[f"beam {beam}{end}"][key] for beam in BEAMS] for one in every])
                for name, end in (("log p / length", ""), ("log p", ", no norm"))
            ),
            log="x",
        )
        for title, up, key in (
            ("Quality", "share of right words", QUALITY),
            ("Length", "words / words of the source", LENGTH),
        )
    )
    reference = Spread(tuple(one["reference"][REPEATED] for one in every))
    return Finding(
        title="Ways to decode",
        verdict=verdict(spreads),
        tables=(ResultTable(f"{TESTED} new sources, {work.seeds} seeds", ("way", *keys), rows),),
        panels=panels,
        numbers={way: {key: one.to_json() for key, one in some.items()} for way, some in spreads.items()},
        notes=(
            f"{WORDS} words with {MEANINGS} translations each (shares {', '.join(map(str, SHARES))}),"
            f" {ROWS:,} pairs of 2 to {LONGEST} words, {CUT:.0%} of them cut short. An LSTM with"
            f" attention, {WIDTH} wide, {steps:,} steps.",
            "Quality: the share of words that are one of the right translations at their place; words"
            " that are missing or too many count as wrong. Length: words that were written for each word"
            f" of the source. Repeated: words that are the word before them again; {reference} in the"
            " references.",
            "A beam of 1 is greedy. Hypotheses are ranked by log p / length, or by log p alone (no norm,"
            " decode.length_penalty=0). log p: of what was written, the mean. ± is one standard"
            " deviation.",
        ),
    )


def verdict(spreads: Mapping[str, Mapping[str, Spread]]) -> str:
    """Whether wide beams are worse, and whether dividing by the length cures it."""
    greedy, drawn = spreads["beam 1"], spreads["sampling"]
    normed, raw = spreads[f"beam {BEAMS[-1]}"], spreads[f"beam {BEAMS[-1]}, no norm"]
    loss, cure = raw[QUALITY].minus(greedy[QUALITY]), normed[QUALITY].minus(raw[QUALITY])
    likelier = raw[LOGP].minus(greedy[LOGP])
    cursed = is_sure(loss) and loss.mean < 0
    worse = "is worse than greedy" if cursed else "is not surely worse than greedy"
    more = f"{abs(likelier.mean):.2f} {'higher' if likelier.mean > 0 else 'lower'}"
    curse = ": the curse of wide beams, the likeliest is not the best" if cursed and likelier.mean > 0 else ""
    return "\n".join(
        [
            f"Ranked by log p alone, a beam of {BEAMS[-1]} {worse}: quality {raw[QUALITY].mean:.3f}"
            f" against {greedy[QUALITY].mean:.3f} ({told_sure(loss)}). Its texts have"
            f" {raw[LENGTH].mean:.2f} of the length and a log p that is {more}{curse}.",
            f"Ranked by log p / length, the same beam has {normed[QUALITY].mean:.3f} ({told_sure(cure)}).",
            f"Sampling has {drawn[QUALITY].mean:.3f} and repeats the word before in"
            f" {drawn[REPEATED].mean:.1%} of its words, greedy in {greedy[REPEATED].mean:.1%}.",
        ]
    )


run = lab("decoding", study, seeds=(3, 5))
