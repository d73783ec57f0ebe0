"""One query-key matrix a head instead of two: the same attention, other counts, and is it as good? (SPEC A4)

Trained separately and merged, on the task of the lab `heads`; trained layers are converted both ways.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from seqlab.encoders.transformer import TransformerEncoder
from seqlab.labs.few_labels import told_difference
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.heads import RATE, WIDTH, TwoAnswers, build, looked_up
from seqlab.labs.lab import ResultTable
from seqlab.labs.picture import Line, Panel
from seqlab.labs.small import accuracy, averaged, each_seed, line, spread, teach
from seqlab.nn.attention import Form, MultiHeadAttention, merge_query_key, separate

HEADS = (1, 2, 4)
STEPS = (800, 3000)
"""Of each training, quick and whole."""
NOTES = (
    f"One layer of width J = {WIDTH}; I = J / heads is the width of a head's queries and keys. Parameters"
    " are those of queries and keys alone, without biases.",
    "Converted: the largest difference of a trained layer's outputs after conversion, of its largest output."
    " A merged matrix of rank above I can't be parted into I columns without loss; the singular values that"
    " are left out are the smallest.",
)


def query_key_parameters(width: int, key: int, merged: bool) -> int:
    """Of one head, counted: 2IJ, or J²."""
    form = Form(width=width, memory=width, heads=1, key=key, value=key, biases=False, merged=merged)
    attention = MultiHeadAttention(form)
    return sum(weight.numel() for part in (attention.query, attention.key) for weight in part.parameters())


def attention_of(model: TwoAnswers) -> MultiHeadAttention:
    assert isinstance(model.encoder, TransformerEncoder)
    return model.encoder.layers[0].attention


@torch.no_grad()
def gap(one: MultiHeadAttention, other: MultiHeadAttention) -> float:
    """The largest difference of what two layers give for the same vectors, of the largest value."""
    vectors = torch.randn(8, 12, one.form.width, generator=torch.Generator().manual_seed(3))
    wanted = one(vectors)
    return float((wanted - other(vectors)).abs().max() / wanted.abs().max())


def parted(attention: MultiHeadAttention, key: int) -> MultiHeadAttention:
    """A merged layer with queries and keys of this width."""
    wider = MultiHeadAttention(replace(attention.form, key=key))
    wider.load_state_dict(attention.state_dict())
    return separate(wider)


def one_run(heads: int, merged: bool, seed: int, steps: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = build(heads, merged)
    losses = teach(model, looked_up, steps, seed, RATE)
    layer = attention_of(model)
    found: dict[str, Any] = {
        "accuracy": accuracy(model, looked_up(500, torch.Generator().manual_seed(1000 + seed))),
        "losses": averaged(losses),
    }
    if merged:
        widths = (WIDTH // 4, WIDTH // 2, WIDTH + 1)  # a bias is one more rank
        return found | {"parted": {str(key): gap(layer, parted(layer, key)) for key in widths}}
    return found | {"merged": gap(layer, merge_query_key(layer))}


def study(work: Work) -> Finding:
    steps = work.of(*STEPS)
    arms = {f"{way}, {heads} head{'s' * (heads > 1)}": (heads, way == "merged")
            for heads in HEADS for way in ("separate", "merged")}  # fmt: skip
    runs = each_seed(work, list(arms), lambda arm, seed: one_run(*arms[arm], seed, steps), "accuracy")
    apart = [arm for arm in arms if not arms[arm][1]]
    one = [arm for arm in arms if arms[arm][1]]
    to_merged = max(run["merged"] for arm in apart for run in runs[arm])
    parts = {
        key: max(run["parted"][key] for arm in one for run in runs[arm]) for key in runs[one[0]][0]["parted"]
    }
    exact = str(WIDTH + 1)
    verdict = [
        f"Merging trained layers changes their outputs by at most {to_merged:.0e}, parting merged ones by"
        f" {parts[exact]:.0e}, where keys are as wide as the rank:"
        f" {'the same attention' if max(to_merged, parts[exact]) < 1e-5 else 'not the same attention'}."
    ]
    for separately, together in zip(apart, one, strict=True):
        change = spread(runs[together], "accuracy").minus(spread(runs[separately], "accuracy"))
        verdict.append(f"{told_difference(change, together, separately)}.")
    table = ResultTable(
        "Trained apart and as one",
        ("", "I", "parameters a head", "right answers", "converted"),
        tuple(row(arm, *arms[arm], runs[arm]) for arm in arms),
    )
    lossy = ResultTable(
        "Largest change when merged layers are parted, by the width I of the keys",
        ("I", *parts),
        (("change", *(f"{value:.1e}" for value in parts.values())),),
    )
    points = len(runs[one[0]][0]["losses"])
    xs = [steps * (place + 1) / points for place in range(points)]
    panels = tuple(
        Panel(f"{heads} head{'s' * (heads > 1)}", "step", "loss", tuple(curves(runs, arms, heads, xs)))
        for heads in HEADS
    )
    return Finding("Queries and keys, apart or as one matrix", "\n".join(verdict), (table, lossy), panels,
                   {"runs": runs, "to_merged": to_merged, "parted": parts}, NOTES)  # fmt: skip


def curves(runs: Any, arms: Any, heads: int, xs: list[float]) -> list[Line]:
    return [line(arm.split(",")[0], xs, runs[arm], "losses") for arm in arms if arms[arm][0] == heads]


def row(arm: str, heads: int, merged: bool, runs: list[dict[str, Any]]) -> tuple[str, ...]:
    key = WIDTH // heads
    changes: list[float] = [run["parted"][str(WIDTH + 1)] if merged else run["merged"] for run in runs]
    count = query_key_parameters(WIDTH, key, merged)
    formula = f"{count:,} = {'J²' if merged else '2IJ'}"
    return arm, f"{key}", formula, str(spread(runs, "accuracy")), f"{max(changes):.0e}"


run = lab("merged", study, seeds=(3, 5))
