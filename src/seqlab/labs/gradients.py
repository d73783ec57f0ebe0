"""Do gradients vanish? Norms of Jacobians by lag, of new and of taught cells, and by the scale of a matrix.

Taught is to remember: some symbols are marked, and at each position the one that was marked last is asked
for. A tanh cell keeps it by states that small changes do not move, so its gradient vanishes the better it has
learnt (Bengio et al. 1994); an LSTM keeps it in c, which gates carry on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqlab.encoders import Gru, Lstm, Rnn
from seqlab.encoders.recurrent import RecurrentEncoder
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Line, Panel
from seqlab.labs.small import Made, SmallReader, accuracy, doubt, each_seed, line, spread, spreads, teach
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.parts import State
from seqlab.report.through_time import Flow, attention_norms, recurrent_norms, saturation

SYMBOLS, WIDTH, LENGTH, MARKED = 4, 24, 32, 0.1
CELLS = {"rnn": Rnn, "gru": Gru, "lstm": Lstm}
SCALES = (0.5, 0.9, 1.0, 1.1, 1.5)
LAGS = tuple(range(1, 2 * LENGTH))
WINDOWS = (1, 2, 4, 8, 16, 32)
FAR = 32
"""The lag at which scales are compared."""
STEPS = (600, 2000)
"""Of each training, quick and whole."""
NOTES = (
    f"{SYMBOLS} symbols, a tenth of them marked; at each of {LENGTH} positions the last marked one is asked"
    f" for. Cells of {WIDTH} units, Adam.",
    "A norm is the largest singular value of the Jacobian of the whole state (h, of the LSTM h and c), the"
    f" median over 8 rows of {2 * LENGTH} positions in which only the first symbol is marked. Effective"
    " memory: the longest lag up to which a tenth of the norm one step back is left.",
    "Recurrent matrices start orthogonal here; torch's own start is smaller and forgets sooner.",
)
Runs = dict[str, list[dict[str, Any]]]
Scales = dict[float, tuple[Flow, Flow]]


def marked(rows: int, random: torch.Generator, length: int = LENGTH, share: float = MARKED) -> Made:
    """Symbols, some of them marked, the first always; at each position, which was marked last."""
    symbols = torch.randint(SYMBOLS, (rows, length), generator=random)
    marks = torch.rand(rows, length, generator=random) < share
    marks[:, 0] = True
    last = torch.where(marks, torch.arange(length), 0).cummax(dim=1).values
    return symbols + SYMBOLS * marks, symbols.gather(1, last)


def flow_of(model: SmallReader) -> tuple[Flow, dict[str, tuple[float, float]]]:
    """Norms over rows twice as long as those that are taught, where the first symbol is the last mark."""
    ids, _ = marked(8, torch.Generator().manual_seed(99), 2 * LENGTH, 0.0)
    assert isinstance(model.encoder, RecurrentEncoder)
    norms, gates = recurrent_norms(model.encoder.ahead[0], model.embedding(ids).detach(), LAGS)
    return Flow.of(LAGS, norms), {name: saturation(values) for name, values in gates.items()}


def cut_off(model: SmallReader, window: int, made: Made) -> Tensor:
    """The gradient of the last position's loss by the cell's weights, through the last `window` steps."""
    ids, answers = made
    cell = model.encoder
    vectors, state = model.embedding(ids).detach(), cell.begin(len(ids))
    if early := ids.shape[1] - window:
        state = cell.extend(vectors[:, :early], state)[1]
        state = State(state.fixed, state.moving, state.done).detach()
    states, _ = cell.extend(vectors[:, early:], state)
    loss = nn.functional.cross_entropy(model.answer(states[:, -1]), answers[:, -1])
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(cell.parameters()))])


def taught(name: str, seed: int, steps: int) -> dict[str, Any]:
    """One cell before and after teaching."""
    torch.manual_seed(seed)
    model = SmallReader(2 * SYMBOLS, SYMBOLS, 16, CELLS[name](width=WIDTH))
    before, _ = flow_of(model)
    teach(model, marked, steps, seed, rows=32)
    after, gates = flow_of(model)
    tested = marked(300, torch.Generator().manual_seed(1000 + seed))
    gradients = [cut_off(model, window, tested) for window in WINDOWS]
    cosines = [float(nn.functional.cosine_similarity(one, gradients[-1], dim=0)) for one in gradients]
    return {
        "new": before.norms, "taught": after.norms, "memory_new": before.memory, "memory": after.memory,
        "gates": gates, "accuracy": accuracy(model, tested), "cosines": cosines,
    }  # fmt: skip


def scaled(scale: float, activation: str) -> Flow:
    """A recurrent matrix of `scale` times an orthogonal one."""
    torch.manual_seed(0)
    cell = nn.RNN(8, WIDTH, batch_first=True)
    cell.nonlinearity = activation
    nn.init.orthogonal_(cell.all_weights[0][1], gain=scale)
    norms, _ = recurrent_norms(cell, 0.1 * torch.randn(8, 2 * LENGTH, 8), LAGS)
    return Flow.of(LAGS, norms)


def attending() -> Flow:
    """Self-attention, new, over random vectors."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(Form.standard(WIDTH, 2))
    return Flow.of(LAGS, attention_norms(attention, torch.randn(32, 2 * LENGTH, WIDTH), LAGS))


def study(work: Work) -> Finding:
    steps = work.of(*STEPS)
    runs = each_seed(work, list(CELLS), lambda cell, seed: taught(cell, seed, steps), "memory")
    scales = {scale: (scaled(scale, "linear"), scaled(scale, "tanh")) for scale in SCALES}
    flat = attending()
    change = spread(runs["lstm"], "memory").minus(spread(runs["rnn"], "memory"))
    lstm, rnn = (spread(runs[cell], "memory").mean for cell in ("lstm", "rnn"))
    slope, at = flat.norms[-1] / flat.norms[0], LAGS.index(FAR)
    small, (linear, tanh) = scales[SCALES[0]][0].norms[at], (one.norms[at] for one in scales[SCALES[-1]])
    verdict = [
        f"Taught to remember, the LSTM has {lstm / rnn:.1f} times the effective memory of the vanilla RNN:"
        f" {lstm:.0f} against {rnn:.0f} positions{doubt(change)}.",
        f"Self-attention {'is flat' if 0.5 < slope < 2 else 'is not flat'}: the norm {LAGS[-1]} positions"
        f" back is {slope:.2f} of the norm 1 back.",
        f"A linear RNN goes by the powers of its matrix: after {FAR} steps {small:.1g} of scale {SCALES[0]},"
        f" {linear:.2g} of scale {SCALES[-1]}; with tanh {tanh:.2g}.",
    ]
    numbers = {"cells": runs, "lags": LAGS, "self_attention": flat.norms, "ratio": lstm / rnn,
               "scales": {str(scale): {"linear": one.norms, "tanh": two.norms}
                          for scale, (one, two) in scales.items()}}  # fmt: skip
    return Finding("Do gradients vanish?", "\n".join(verdict), tables(runs, flat, scales),
                   panels(runs, flat, scales), numbers, NOTES)  # fmt: skip


def tables(runs: Runs, flat: Flow, scales: Scales) -> tuple[ResultTable, ...]:
    cells = [
        (cell, f"{spread(some, 'memory_new').mean:.0f}", f"{spread(some, 'memory').mean:.0f}",
         str(spread(some, "accuracy")), gates_told(some)) for cell, some in runs.items()
    ]  # fmt: skip
    cells.append(("self-attention", f"{'≥ ' if flat.lasts else ''}{flat.memory}", "", "", ""))
    at = LAGS.index(FAR)
    powers = [
        (f"{scale}", f"{scale**FAR:.3g}", *(f"{one.norms[at]:.3g}" for one in both))
        for scale, both in scales.items()
    ]
    windows = [
        (cell, *(f"{one.mean:.3f}" for one in spreads(some, "cosines"))) for cell, some in runs.items()
    ]
    return (
        ResultTable("Effective memory, in positions",
                    ("cell", "new", "taught", "accuracy", "gates below 0.1 / above 0.9"), tuple(cells)),
        ResultTable(f"Norm {FAR} positions back, by the scale of an orthogonal recurrent matrix",
                    ("scale", f"its power {FAR}", "linear", "tanh"), tuple(powers)),
        ResultTable("Cosine of the gradient through so many steps with the full one",
                    ("cell", *map(str, WINDOWS)), tuple(windows)),
    )  # fmt: skip


def panels(runs: Runs, flat: Flow, scales: Scales) -> tuple[Panel, ...]:
    def drawn(key: str) -> list[Line]:
        return [line(cell, LAGS, some, key, band=False) for cell, some in runs.items()]

    attention = Line("self-attention", LAGS, flat.norms)
    by_scale = [Line(f"{scale}", LAGS, two.norms) for scale, (_, two) in scales.items()]
    return (
        Panel("New", "positions back", "norm", (*drawn("new"), attention), log="y"),
        Panel("Taught to remember", "positions back", "norm", tuple(drawn("taught")), log="y"),
        Panel("tanh RNN, new, by scale", "positions back", "norm", tuple(by_scale), log="y"),
    )


def gates_told(runs: list[dict[str, Any]]) -> str:
    """Shares of shut and of open gates, means over seeds."""
    shares = {
        gate: [sum(one["gates"][gate][side] for one in runs) / len(runs) for side in (0, 1)]
        for gate in runs[0]["gates"]
    }
    return ", ".join(f"{gate} {low:.0%} / {high:.0%}" for gate, (low, high) in shares.items())


run = lab("gradients", study, seeds=(3, 5))
