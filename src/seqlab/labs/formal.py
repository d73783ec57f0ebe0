"""The lab `formal` (SPEC L1): periodic languages and nested brackets, beyond the length of training.

At every position a model says what it has to know of the string up to there. RNN and LSTM carry a state; a
Transformer of fixed size has a fixed number of looks back (Hahn 2020, Bhattamishra et al. 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seqlab.encoders import Lstm, Rnn, Transformer
from seqlab.inputs import Tokens
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.languages import DEPTH, LANGUAGES, Strings, draw
from seqlab.labs.loops import Numbers, fit, is_sure, line_of, measured, told_sure
from seqlab.labs.picture import Panel
from seqlab.model import Model, ModelConfig
from seqlab.outputs import Linear
from seqlab.parts import Batch, EncoderConfig, Facts, Places
from seqlab.seq import Seq

WIDTH, AT_ONCE, POOL, TESTED = 32, 64, 4096, 400
STEPS = (350, 1500)
"""Quick and whole."""
TRAINED, BINS = 20, 8
"""Longest string of training; equal stretches of positions up to four times that."""
FAR = 4 * TRAINED


def transformer(layers: int, heads: int) -> Transformer:
    return Transformer(layers=layers, heads=heads, causal=True, dropout=0.0)


ARMS: dict[str, EncoderConfig] = {
    "RNN": Rnn(width=WIDTH),
    "LSTM": Lstm(width=WIDTH),
    "1 layer, 1 head": transformer(1, 1),
    "2 layers, 2 heads": transformer(2, 2),
    "4 layers, 4 heads": transformer(4, 4),
}
TRANSFORMERS = tuple(ARMS)[2:]


def batch_of(strings: Strings) -> Batch:
    """All strings, with an answer at each position."""
    ids, labels = torch.from_numpy(strings.ids), torch.from_numpy(strings.labels).flatten()
    read = Seq(ids, torch.ones_like(ids, dtype=torch.bool))
    places = Places(torch.arange(len(labels)), labels)
    return Batch({"text": read}, torch.arange(len(ids)), {"places": places})


def measure(language: str, arm: str, seed: int, steps: int) -> Numbers:
    """Accuracy by length of the string, and by brackets that are open where one has just closed."""
    symbols, answers = LANGUAGES[language]
    torch.manual_seed(seed)
    settings = ModelConfig(
        input=Tokens(width=WIDTH, scale=1.0), encoder=ARMS[arm], pool=None, head=None, places=Linear()
    )
    model = Model(settings, Facts(symbols={"text": symbols + 1}, outputs={"places": answers}))
    pool, random = draw(language, POOL, TRAINED, seed), np.random.default_rng(seed)

    def loss_of(step: int) -> Tensor:
        batch = batch_of(pool.take(random.integers(0, POOL, AT_ONCE)))
        return functional.cross_entropy(model(batch).answers["places"].scores, batch.places.values)

    losses = fit(model, steps, loss_of, rate=3e-3)
    tested = draw(language, TESTED, FAR, seed=1_000_000 + seed)
    with torch.no_grad():
        said = model(batch_of(tested)).answers["places"].scores.argmax(dim=-1).view(tested.ids.shape).numpy()
    right = said == tested.labels
    near = tested.depths[:, :TRAINED]
    depths = {depth: right[:, :TRAINED][near == depth] for depth in range(1, DEEPEST + 1)}
    far = tested.labels[:, -FAR // BINS :]
    return {
        "chance": float(np.bincount(far.ravel()).max() / far.size),
        "loss": float(np.mean(losses[-20:])),
        "by_length": [float(part.mean()) for part in np.split(right, BINS, axis=1)],
        "by_depth": {depth: float(some.mean()) for depth, some in depths.items() if len(some)},
    }


Cells = Mapping[tuple[str, str], Sequence[Numbers]]
"""By language and arm, a measurement a seed."""
NEAR = 0.05
"""Nearer to chance than this is told as such."""
DEEPEST = 5
"""Depth to which brackets are often enough open within the length of training."""


def study(work: Work) -> Finding:
    """Every language with every arm and seed."""
    steps = work.of(*STEPS)
    cases: dict[str, dict[str, Any]] = {
        f"{language} {arm} {seed}": {"language": language, "arm": arm, "seed": seed, "steps": steps}
        for seed in range(work.seeds)
        for language in LANGUAGES
        for arm in ARMS
    }
    numbers = measured(work, "formal", cases)
    found: dict[tuple[str, str], list[Numbers]] = {}
    for name, case in cases.items():
        found.setdefault((case["language"], case["arm"]), []).append(numbers[name])
    ends = [FAR * (place + 1) // BINS for place in range(BINS)]
    rows = tuple(
        (
            language,
            *(f"{at(found, language, arm, TRAINED)} / {at(found, language, arm, FAR)}" for arm in ARMS),
            f"{found[language, 'LSTM'][0]['chance']:.3f}",
        )
        for language in LANGUAGES
    )
    depths = [str(depth) for depth in range(1, DEEPEST + 1)]
    deep = tuple((depth, *(str(by_depth(found, arm, depth)) for arm in ARMS)) for depth in depths)
    panels = [
        Panel(
            language,
            "length",
            "accuracy",
            tuple(line_of(arm, ends, [one["by_length"] for one in found[language, arm]]) for arm in ARMS),
        )
        for language in LANGUAGES
    ]
    lines = [
        line_of(
            arm,
            list(map(int, depths)),
            [[one["by_depth"][depth] for depth in depths] for one in found["Dyck-2", arm]],
        )
        for arm in ARMS
    ]
    panels.append(
        Panel("Dyck-2 after a bracket has closed", "brackets that are open", "accuracy", tuple(lines))
    )
    return Finding(
        title="Formal languages",
        verdict="\n".join([*(of_length(found, one) for one in LANGUAGES), of_depth(found)]),
        tables=(
            ResultTable(
                f"Accuracy at length {TRAINED} / {FAR}, trained up to {TRAINED}, {work.seeds} seeds",
                ("language", *ARMS, f"chance at {FAR}"),
                rows,
            ),
            ResultTable(f"Dyck-2 up to length {TRAINED}, after a bracket has closed", ("open", *ARMS), deep),
        ),
        panels=tuple(panels),
        numbers={f"{language} {arm}": some for (language, arm), some in found.items()},
        notes=(
            f"All are {WIDTH} wide and take {steps:,} steps of {AT_ONCE} strings of length {TRAINED}, with"
            " a question at each position: is the number of ones odd (parity), is the length odd ((aa)*),"
            " may a bracket close here (Dyck-1), which one may (Dyck-2)? Transformers are causal, with"
            " sinusoidal positions.",
            f"Accuracy at a length is that over the {FAR // BINS} positions up to it. Chance is the share"
            " of the commonest answer. ± is one standard deviation over seeds.",
            "By depth: only positions after a bracket that closes; after one that opens, the answer is that"
            f" bracket itself. At most {DEPTH} brackets are open at once.",
        ),
    )


def at(found: Cells, language: str, arm: str, length: int) -> Spread:
    """Accuracy over the positions up to a length."""
    return Spread(tuple(one["by_length"][length * BINS // FAR - 1] for one in found[language, arm]))


def by_depth(found: Cells, arm: str, depth: str) -> Spread:
    return Spread(tuple(one["by_depth"][depth] for one in found["Dyck-2", arm]))


def of_length(found: Cells, language: str) -> str:
    """What is left at four times the length of training."""
    chance = found[language, "LSTM"][0]["chance"]
    best = max(TRANSFORMERS, key=lambda arm: at(found, language, arm, FAR).mean)
    lstm, other = at(found, language, "LSTM", FAR), at(found, language, best, FAR)
    near = "near chance" if abs(other.mean - chance) < NEAR else "not near chance"
    return (
        f"{language} at length {FAR}: LSTM {lstm.mean:.3f}, RNN {at(found, language, 'RNN', FAR).mean:.3f},"
        f" the best Transformer ({best}) {other.mean:.3f}, {near} ({chance:.3f});"
        f" LSTM against it: {told_sure(lstm.minus(other))}."
    )


def of_depth(found: Cells) -> str:
    """Whether accuracy falls with depth, and what more layers do at the depth that is hardest for one."""
    one, most = TRANSFORMERS[0], TRANSFORMERS[-1]
    curve = [by_depth(found, one, str(depth)) for depth in range(1, DEEPEST + 1)]
    fall = curve[0].minus(curve[-1])
    gain = by_depth(found, most, str(DEEPEST)).minus(curve[-1])
    falls = "falls with depth" if is_sure(fall) and fall.mean > 0 else "does not surely fall with depth"
    rises = (
        "more layers and heads raise it"
        if is_sure(gain) and gain.mean > 0
        else "more layers do not surely raise it"
    )
    return (
        f"Dyck-2 up to length {TRAINED}: with {one} accuracy {falls}, {curve[0].mean:.3f} with 1 bracket"
        f" open, {curve[-1].mean:.3f} with {DEEPEST} ({told_sure(fall)}); {rises}, to"
        f" {curve[-1].mean + gain.mean:.3f} with {most} ({told_sure(gain)})."
    )


run = lab("formal", study, seeds=(3, 5))
