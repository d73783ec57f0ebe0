"""What do positions tell a Transformer? The picture of the sinusoids, their rotation, and what each kind of
position does beyond the trained length (SPEC T1).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seqlab.encoders import Transformer
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Heat, Panel
from seqlab.labs.small import NOTHING, Made, SmallReader, accuracy, each_seed, line, spread, spreads, teach
from seqlab.nn.positions import Learned, NoPositions, PositionConfig, Rotary, Sinusoidal, sinusoids
from seqlab.seq import Seq

SHOWN, FEATURES = 60, 32
SYMBOLS, WIDTH, BACK, TRAINED = 8, 32, 2, 16
LENGTHS = (8, 12, 16, 20, 24, 32, 48, 64)
KINDS: dict[str, PositionConfig] = {
    "sinusoidal": Sinusoidal(),
    "concatenated": Sinusoidal(mode="concatenate"),
    "learned": Learned(length=max(LENGTHS)),
    "rotary": Rotary(),
    "none": NoPositions(),
}
STEPS = (800, 3000)
"""Of each training, quick and whole."""
NOTES = (
    f"At each position the symbol {BACK} back is asked for: {SYMBOLS} symbols, two layers, width {WIDTH},"
    f" two heads, no causal mask. Trained on rows of 4 to {TRAINED} positions.",
    "Learned positions beyond the trained length are vectors that no step has changed.",
    f"Rotation: PE(i + k) = R(k) · PE(i), R(k) made of 2 × 2 rotations by k / 10000^(2j/{FEATURES}).",
)


def back(rows: int, random: torch.Generator, length: int = 0) -> Made:
    """Symbols, and at each position the one BACK before it; lengths up to the trained one unless told."""
    length = length or int(torch.randint(4, TRAINED + 1, (1,), generator=random))
    ids = torch.randint(SYMBOLS, (rows, length), generator=random)
    answers = torch.full_like(ids, NOTHING)
    answers[:, BACK:] = ids[:, :-BACK]
    return ids, answers


def rotation(steps: int, width: int = FEATURES) -> Float[Tensor, "D D"]:
    """R(k): what turns the sinusoids of a position into those k further, whatever the position."""
    turns = steps * 10_000.0 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    blocks = [torch.tensor([[one.cos(), one.sin()], [-one.sin(), one.cos()]]) for one in turns]
    matrix: Tensor = torch.block_diag(*blocks)
    return matrix


def rotation_error(steps: int) -> float:
    """The largest difference between R(k) · PE(i) and PE(i + k), over all positions of the picture."""
    table = sinusoids(SHOWN + steps, FEATURES).double()
    return float((table[:SHOWN] @ rotation(steps).T - table[steps:]).abs().max())


@torch.no_grad()
def permutation_error(kind: PositionConfig) -> float:
    """How far permuting the inputs is from permuting the outputs, at the most; of new layers."""
    torch.manual_seed(0)
    encoder = encoder_of(kind).build(WIDTH).eval()
    vectors, order = torch.randn(4, 12, WIDTH), torch.randperm(12)
    mask = torch.ones(4, 12, dtype=torch.bool)
    before, after = (encoder(Seq(some, mask)).values for some in (vectors, vectors[:, order]))
    return float((before[:, order] - after).abs().max())


def encoder_of(kind: PositionConfig) -> Transformer:
    return Transformer(layers=2, heads=2, feed_forward=2 * WIDTH, positions=kind, dropout=0.0)


def one_run(kind: str, seed: int, steps: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = SmallReader(SYMBOLS, SYMBOLS, WIDTH, encoder_of(KINDS[kind]))
    teach(model, back, steps, seed)
    random = torch.Generator().manual_seed(1000 + seed)
    right = [accuracy(model, back(200, random, length)) for length in LENGTHS]
    return {"right": right, "trained": right[LENGTHS.index(TRAINED)], "beyond": right[-1]}


def study(work: Work) -> Finding:
    steps = work.of(*STEPS)
    runs = each_seed(work, list(KINDS), lambda kind, seed: one_run(kind, seed, steps), "trained")
    swaps = {kind: permutation_error(config) for kind, config in KINDS.items()}
    turns = {steps: rotation_error(steps) for steps in (1, 7, 32)}
    chance, far = 1 / SYMBOLS, LENGTHS[-1]
    learnt = [kind for kind in KINDS if spread(runs[kind], "trained").mean > 0.5]
    kept = [
        kind
        for kind in learnt
        if spread(runs[kind], "beyond").mean > (spread(runs[kind], "trained").mean + chance) / 2
    ]
    lost = [kind for kind in learnt if kind not in kept]
    verdict = [
        f"PE(i + k) = R(k) · PE(i) to {max(turns.values()):.0e} for k = 1, 7 and 32: a shift is a rotation"
        " that does not depend on the position.",
        f"Without positions, permuting the inputs permutes the outputs (to {swaps['none']:.0e}); with"
        f" sinusoids they differ by up to {swaps['sinusoidal']:.1f}. So none has"
        f" {spread(runs['none'], 'trained').mean:.2f} right, where guessing has {chance:.2f} and more in"
        " short rows.",
        f"At {far} positions, {far // TRAINED} times the trained length, more than half of what is above"
        f" chance is kept with: {', '.join(kept) or 'none of them'}; lost with:"
        f" {', '.join(lost) or 'none of them'}.",
    ]
    table = ResultTable(
        f"Right answers by length, trained up to {TRAINED}", ("positions", *map(str, LENGTHS), "permuted"),
        tuple((kind, *(f"{one.mean:.2f}" for one in spreads(runs[kind], "right")), f"{swaps[kind]:.0e}")
              for kind in KINDS),
    )  # fmt: skip
    return Finding("What positions tell", "\n".join(verdict), (table,), pictures(runs),
                   {"runs": runs, "lengths": LENGTHS, "rotation_error": turns, "permutation_error": swaps},
                   NOTES)  # fmt: skip


def pictures(runs: dict[str, list[dict[str, Any]]]) -> tuple[Heat | Panel, ...]:
    """T1's picture, binary counting beside it, and accuracy by length."""
    waves = sinusoids(SHOWN, FEATURES).tolist()
    bits = [[float(number >> bit & 1) for bit in range(6)] for number in range(SHOWN)]
    lines = tuple(line(kind, LENGTHS, some, "right") for kind, some in runs.items())
    return (
        Heat(f"Sinusoids, n = {SHOWN}, d = {FEATURES}", "feature", "position", waves, diverging=True),
        Heat(
            "Counting in binary", "bit, the quickest first", "position", bits, [str(bit) for bit in range(6)]
        ),
        Panel(
            f"The symbol {BACK} back, trained up to {TRAINED}", "positions", "right answers", lines, log="x"
        ),
    )


run = lab("positions", study, seeds=(2, 5))
