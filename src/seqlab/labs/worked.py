"""The lab `worked`: the course's examples step by step, computed by the parts of seqlab and again by hand.

By hand is plain Python on lists, from the formulas alone. Nothing is trained and nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seqlab.decoders import Causal
from seqlab.encoders import Rnn, Transformer
from seqlab.inputs import Tokens
from seqlab.inputs.tokens import TokenInput
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Heat
from seqlab.model import ModelConfig, count_parameters, sketch
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.nn.positions import Sinusoidal, sinusoids
from seqlab.outputs import Linear, Mean
from seqlab.parts import Batch, Facts, State, record
from seqlab.seq import Seq

Numbers = Sequence[float]
Matrix = Sequence[Numbers]
RNN, LOOK, PLACES, COUNTS = "RNN", "attention", "positions", "parameters"
ROBOT = '"I am a robot"'
SAID = ("I", "am", "a", "robot")
MEANS = ((2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (1, 0, 0, 2))
"""A vector for each of the four words."""
ASKS, ANSWERS, TELLS = (
    ((0, 0, 0, 1), (0, 1, 0, 0)), ((1, 0, 0, 0), (0, 1, 0, 0)), ((1, 0, 0, 0), (0, 0, 0, 1)))  # fmt: skip
"""The matrices of queries, keys and values of its one head."""
LEVEL = 1e-5


class WorkedStep(NamedTuple):
    """One line of an example."""

    example: str
    what: str
    formula: str
    found: Numbers
    """By seqlab."""
    by_hand: Numbers

    @property
    def apart(self) -> float:
        return max(abs(one - two) for one, two in zip(self.found, self.by_hand, strict=True))


# By hand ----------------------------------------------------------------------------------------------------


def product(matrix: Matrix, vector: Numbers) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def softmax(scores: Numbers) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def place(number: int, width: int, base: float) -> list[float]:
    """sin and cos of i / N^(2j/d), pair after pair."""
    turns = [number / base ** (2 * pair / width) for pair in range(width // 2)]
    return [wave(turn) for turn in turns for wave in (math.sin, math.cos)]


class Looked(NamedTuple):
    """What one query sees."""

    query: Numbers
    scores: Numbers
    weights: Numbers
    mixed: Numbers


def look(asking: Numbers, memory: Matrix, query: Matrix, key: Matrix, value: Matrix) -> Looked:
    """Scaled dot-product attention of one vector over some others."""
    asked = product(query, asking)
    scores = [score / math.sqrt(len(key)) for score in product([product(key, x) for x in memory], asked)]
    weights = softmax(scores)
    values = [product(value, x) for x in memory]
    return Looked(asked, scores, weights, product(list(zip(*values, strict=True)), weights))


# By seqlab --------------------------------------------------------------------------------------------------


def head_of(query: Matrix, key: Matrix, value: Matrix, causal: bool) -> MultiHeadAttention:
    """One head with these matrices, without biases and without an output projection."""
    form = Form(width=len(query[0]), memory=len(key[0]), heads=1, key=len(key), value=len(value),
                biases=False, output=False, causal=causal)  # fmt: skip
    attention = MultiHeadAttention(form)
    for layer, matrix in ((attention.query, query), (attention.key, key), (attention.value, value)):
        assert isinstance(layer, torch.nn.Linear)
        layer.weight.copy_(torch.tensor(matrix))
    return attention


def recorded(attention: MultiHeadAttention, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The weights (Q K) and the mix (Q I)."""
    with record(attention) as maps:
        mixed = attention(x, memory=memory)
    [[weights]] = maps.values()
    return weights[0, 0], mixed[0]


def recurrent() -> Iterator[WorkedStep]:
    """SPEC R1."""
    across, back, out = [[1, 0], [0, 1], [-1, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[1, 0, -1]]
    read, before = [1.0, 0.0], [1.0, 0.0, 0.0]
    sums = [a + b for a, b in zip(product(across, read), product(back, before), strict=True)]
    state = [max(0.0, one) for one in sums]
    encoder, head = Rnn(width=3, activation="relu").build(2), Linear(bias=False).build(3, 1)
    cell, last = encoder.ahead[0], head.get_submodule("output")
    weights = {"weight_ih_l0": across, "weight_hh_l0": back}
    for name, tensor in [*cell.named_parameters(), *last.named_parameters()]:
        tensor.copy_(torch.tensor(weights.get(name, out if name == "weight" else 0.0)))
    values, began = torch.tensor([[read]]), State({}, {"state.0": torch.tensor([before])})
    states, _ = encoder.extend(values, began)
    made = dict(cell.named_parameters())
    from_input, from_state = (
        made["weight_ih_l0"] @ values[0, 0],
        made["weight_hh_l0"] @ began.moving["state.0"][0],
    )
    yield WorkedStep(RNN, "from the input", "U x_t", from_input.tolist(), product(across, read))
    yield WorkedStep(RNN, "from the state", "V h_{t-1}", from_state.tolist(), product(back, before))
    yield WorkedStep(RNN, "new state", "h_t = relu(U x_t + V h_{t-1})", states[0, 0].tolist(), state)
    yield WorkedStep(RNN, "output", "o_t = W h_t", head(states[0]).scores[0].tolist(), product(out, state))


def looking() -> Iterator[WorkedStep]:
    """SPEC A1."""
    key = [[float(row == column) for column in range(4)] for row in range(4)]
    value, query = [[1, 0, 0, 0], [0, 1, 1, 0]], [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, -1]]
    asking, memory = [1, -1, 0], [key[0], key[1], key[0]]
    hand = look(asking, memory, query, key, value)
    attention = head_of(query, key, value, causal=False)
    x, y = torch.tensor([memory], dtype=torch.float32), torch.tensor([[asking]], dtype=torch.float32)
    weights, mixed = recorded(attention, y, x)
    asked = attention.query(y)[0, 0]
    scores = attention.key(x)[0] @ asked * attention.factor
    yield WorkedStep(LOOK, "query", "q = W_Q y", asked.tolist(), hand.query)
    yield WorkedStep(LOOK, "scores", "q · W_K x / √4", scores.tolist(), hand.scores)
    yield WorkedStep(LOOK, "weights", "softmax", weights[0].tolist(), hand.weights)
    yield WorkedStep(LOOK, "answer", "z = Σ α W_V x", mixed[0].tolist(), hand.mixed)


def placed() -> Iterator[WorkedStep]:
    """SPEC T1."""
    table = sinusoids(4, 4, base=100)
    for number, row in enumerate(table.tolist()):
        yield WorkedStep(PLACES, f"position {number}", "sin, cos of i/100^(2j/4)", row, place(number, 4, 100))


def counted() -> Iterator[WorkedStep]:
    """SPEC T3: V = 100, width 200, four layers, feed-forward width 200, norms after the blocks."""
    body = Transformer(layers=4, heads=4, feed_forward=200, norm="post")
    reads = sketch(ModelConfig(input=Tokens(width=200), encoder=body, pool=Mean()),
                   Facts(symbols={"text": 100}, outputs={"row": 2}))  # fmt: skip
    writer = Causal(width=200, body=body, tied=False, bias=True)
    writes = sketch(ModelConfig(input=None, encoder=None, pool=None, head=None, decoder=writer),
                    Facts(symbols={"written": 100}))  # fmt: skip
    assert reads.input and reads.encoder and reads.head
    layer = reads.encoder.get_submodule("layers.0")
    norms = [module for name, module in layer.named_children() if name.endswith("norm")]
    d = f = 200
    each = [4 * d * (d + 1), 2 * d * f + d + f, 2 * 2 * d]
    first = 100 * d
    for what, formula, found, hand in (
        ("attention", "4d(d + 1)", [count_parameters(layer.get_submodule("attention"))], each[0]),
        ("feed-forward", "2df + d + f", [count_parameters(layer.get_submodule("feed_forward"))], each[1]),
        ("two norms", "2 · 2d", [sum(map(count_parameters, norms))], each[2]),
        ("a layer", "sum of the three", [count_parameters(layer)], sum(each)),
        ("four layers", "4 · a layer", [count_parameters(reads.encoder)], 4 * sum(each)),
        ("embedding", "V·d", [count_parameters(reads.input)], first),
        ("classifier", "body + Vd + 2d + 2", [count_parameters(reads)], 4 * sum(each) + first + 2 * d + 2),
        ("language model", "body + Vd + Vd + V", [count_parameters(writes)], 4 * sum(each) + 2 * first + 100),
    ):
        yield WorkedStep(COUNTS, what, formula, found, [hand])


def robot() -> Iterator[WorkedStep]:
    """Four words through embedding, positions and one causal head."""
    ids = torch.arange(4).unsqueeze(0)
    reader = TokenInput(Tokens(width=4), Facts(symbols={"text": 4}))
    reader.embedding.weight.copy_(torch.tensor(MEANS))
    read = reader(Batch({"text": Seq(ids, torch.ones_like(ids, dtype=torch.bool))}, torch.tensor([0]))).values
    x = Sinusoidal(base=100).build(4)(read)
    attention = head_of(ASKS, ANSWERS, TELLS, causal=True)
    weights, mixed = recorded(attention, x)
    made = {name: getattr(attention, name)(x)[0] for name in ("query", "key", "value")}
    xs = [[a + b for a, b in zip(word, place(i, 4, 100), strict=True)] for i, word in enumerate(MEANS)]
    for i, word in enumerate(SAID):
        yield WorkedStep(ROBOT, f"{word}: embedding", "e", read[0, i].tolist(), MEANS[i])
        yield WorkedStep(ROBOT, f"{word}: with its position", "x = e + p", x[0, i].tolist(), xs[i])
    for i, word in enumerate(SAID):
        for name, sign, matrix in (("query", "Q", ASKS), ("key", "K", ANSWERS), ("value", "V", TELLS)):
            yield WorkedStep(
                ROBOT, f"{word}: {name}", f"W_{sign} x", made[name][i].tolist(), product(matrix, xs[i])
            )
    for i, word in enumerate(SAID):
        hand, ahead = look(xs[i], xs[: i + 1], ASKS, ANSWERS, TELLS), [0.0] * (3 - i)
        scores = made["key"][: i + 1] @ made["query"][i] * attention.factor
        yield WorkedStep(ROBOT, f"{word}: scores", "q · k / √2", scores.tolist(), hand.scores)
        yield WorkedStep(ROBOT, f"{word}: weights", "softmax", weights[i].tolist(), [*hand.weights, *ahead])
        yield WorkedStep(ROBOT, f"{word}: answer", "z = Σ α v", mixed[i].tolist(), hand.mixed)


@torch.no_grad()
def steps() -> list[WorkedStep]:
    """All examples."""
    return [step for example in (recurrent, looking, placed, counted, robot) for step in example()]


def shown(numbers: Numbers) -> str:
    """To three places; whole numbers as such."""
    rounded = [round(number, 3) + 0.0 for number in numbers]
    return "  ".join(f"{one:,.0f}" if one == round(one) else f"{one:.3f}" for one in rounded)


def study(work: Work) -> Finding:
    """Each step with its numbers, and how far the two ways of computing it lie apart."""
    found = steps()
    rows = tuple(
        (s.example, s.what, s.formula, shown(s.found), f"{s.apart:.0e}" if s.apart else "0") for s in found
    )
    header = ("example", "step", "formula", "numbers", "off by")
    weights = [step.found for step in found if step.what.endswith(": weights")]
    places = [step.found for step in found if step.example == PLACES]
    worst, count = max(step.apart for step in found), sum(len(step.found) for step in found)
    told = f"{count} numbers in {len(found)} steps; seqlab and hand differ by {worst:.0e} at most"
    agree = "they agree" if worst < LEVEL else "they do not agree"
    robots = dict(zip(SAID, weights[-1], strict=True))
    most = max(robots, key=lambda word: robots[word])
    return Finding(
        title="Worked examples, step by step",
        verdict=f'{told}: {agree}.\n"robot" looks at "{most}" most ({robots[most]:.3f} of its attention).',
        tables=(ResultTable("Every step", header, rows, left=(0, 1, 2, 3)),),
        panels=(
            Heat('"I am a robot": where each word looks', "looked at", "looks", weights, SAID, SAID),
            Heat("Positions, N = 100, d = 4", "feature", "position", places, list("0123"), list("0123"),
                 diverging=True),
        ),
        numbers={"steps": [step._asdict() for step in found], "apart": worst},
        notes=("By hand: plain Python on lists, from the formulas. By seqlab: the parts of its models.",
               "The vectors and matrices of \"I am a robot\" are made up, so that its numbers stay small."),
        next="seqlab inspect transformer",
    )  # fmt: skip


run = lab("worked", study)
