"""The lab `objectives` (SPEC P7): presets pretrained at equal compute, each fine-tuned on the same labelled
rows.

By default a bidirectional model (roberta) against a left-to-right one (gpt) of the same size: what differs is
the direction.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqlab.errors import UserError
from seqlab.folder import METRICS
from seqlab.labs.few_labels import BOW, Arm, Comparison, Results, by_epoch, told_difference
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable
from seqlab.labs.options import OPTIONS, QUICK_SEEDS, SEEDS, LabOptions
from seqlab.model import count_parameters, sketch
from seqlab.settings import TrainRequest
from seqlab.transfer import PretrainedRun

PUBLISHED = {
    "bert": ("both, next sentence", "84.4", "88.4", "86.7", "92.7", "88.5"),
    "bert-without-next": ("both", "83.9", "84.9", "86.5", "92.6", "87.9"),
    "gpt": ("left to right", "82.1", "84.3", "77.5", "92.1", "77.8"),
    "gpt+bilstm": ("left to right + BiLSTM", "82.1", "84.1", "75.7", "91.6", "84.9"),
}
"""Devlin et al. 2019, table 5, by the name of the arm that is like it."""
SETS = ("MNLI", "QNLI", "MRPC", "SST-2", "SQuAD F1")
BOTH_WAYS, LEFT_TO_RIGHT = ("masked", "masked+next"), ("causal",)
BILSTM = "+bilstm"
"""What stands after the name of a model whose states an LSTM reads in both directions."""
WITHOUT_NEXT: dict[str, Any] = {"task.objective": "masked", "model.pool": None, "model.head": None}
VARIED = {"bert-without-next": ("bert", WITHOUT_NEXT)}
"""Pretrained bodies that are presets with other settings."""


def ask(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[LabOptions, tuple[str, ...]]]:
    """`minutes` is the budget of each pretraining; with `quick`, it is the same number of steps. The rest is
    as in the lab `transfer`. Models may be added to a folder later: those that are in it stay as they are.
    """
    names = tuple(dict.fromkeys(name.strip() for name in given["models"].split(",") if name.strip()))
    if len(names) < 2:
        raise UserError(
            what=f'--models is "{given["models"]}".',
            why="A comparison needs two at least.",
            fix="For instance: --models roberta,gpt,elmo",
        )
    for name in names:
        preset, own = recipe(name)
        TrainRequest(task="pretrain", preset=preset, overrides=own).settings()  # refuses what is not known
    options = LabOptions.of(given)
    return options.choices, (options, names)


def recipe(name: str) -> tuple[str, dict[str, Any]]:
    """The preset that the body of an arm is, and its own settings."""
    body = name.removesuffix(BILSTM)
    return VARIED.get(body, (body, {}))


def study(work: Work) -> Finding:
    """Pretrain each body once, then learn from the labels with all of them."""
    options, names = work.asked
    bodies = {name: work.folder / f"pretrained-{name.removesuffix(BILSTM)}" for name in names}
    for name, body in bodies.items():
        preset, own = recipe(name)
        work.progress.say(f"Pretraining {body.name.removeprefix('pretrained-')}")
        options.pretrain(preset, body, work.folder / "data", work.progress, own)
    comparison = Comparison(options, work.folder, work.progress)
    sides = [*(Arm(name, body, bilstm=name.endswith(BILSTM)) for name, body in bodies.items()), Arm(BOW)]
    results = Results(comparison.learn(sides))
    best = max(sides[:-1], key=lambda side: results.tested(side.name, options.counts[-1]).mean)
    return finding_of(options, results, bodies, comparison.run_folder(best, options.counts[-1], 0))


# Telling ----------------------------------------------------------------------------------------------------


def finding_of(options: LabOptions, results: Results, bodies: Mapping[str, Path], best: Path) -> Finding:
    """The table, the picture and the verdict."""
    first, *others = names = list(bodies)
    costs = {name: cost(body) for name, body in bodies.items()}
    rows = []
    for name in [*names, BOW]:
        known = costs.get(name)
        spent = (
            (known["objective"], f"{known['parameters']:,}", f"{known['tokens']:,}")
            if known
            else ("", "", "")
        )
        cells = [results.tested(name, count) for count in options.counts]
        rows.append((name, *spent, *map(str, cells)))
    header = (
        "model",
        "objective",
        "parameters",
        "pieces learnt from",
        *(f"{count:,} labels" for count in options.counts),
    )
    table = ResultTable(
        f"Test accuracy on {len(options.rows.test):,} rows, {options.seeds_told}", header, tuple(rows)
    )
    differences = [
        {"model": one, "against": two, "labels": count, **results.change(one, two, count).to_json()}
        for one, two in itertools.combinations(names, 2)
        for count in options.counts
    ]
    sentences = [
        *(pairwise_verdict(results, options.counts, first, other) for other in others),
        beside_published(results, options, costs),
    ]
    example = "photography" if options.builtin else "worth every minute"
    return Finding(
        title="Pretraining objectives at equal compute",
        verdict="\n".join(sentences),
        tables=(table, published(results, options, names), by_epoch(results, names, options.counts)),
        panels=results.panels(names, options.counts),
        notes=(
            (
                f"Each model was pretrained for {options.budget} on the same text, then fine-tuned on the"
                " same rows."
            ),
            (
                "± is one standard deviation over seeds; differences are taken seed by seed. There is one"
                " pretrained body a model."
            ),
            "Published: BERT base, 110 million parameters; accuracy, on SQuAD F1. A name with +bilstm has a"
            " new LSTM in both directions above its body.",
        ),
        numbers={**results.to_json(), "differences": differences, "pretraining": costs},
        next=f'seqlab predict {best} "{example}"',
    )


def published(results: Results, options: LabOptions, names: Sequence[str]) -> ResultTable:
    """The published table, with what its arms have here beside it."""
    most = options.counts[-1]
    here = {name: (name, str(results.tested(name, most))) for name in names}
    rows = tuple((*told, *here.get(name, ("", ""))) for name, told in PUBLISHED.items())
    header = ("pretrained", *SETS, "here", f"{most:,} labels")
    return ResultTable("Beside what was published", header, rows)


def cost(body: Path) -> dict[str, Any]:
    """What a pretraining was, from its files."""
    source = PretrainedRun(body)
    last = json.loads((body / METRICS).read_text(encoding="utf-8").splitlines()[-1])
    parameters = count_parameters(sketch(source.model, source.parts))
    objective = getattr(source.settings.task, "objective", "")
    return {"objective": objective, "parameters": parameters} | {
        key: last[key] for key in ("step", "tokens", "seconds")
    }


def pairwise_verdict(results: Results, counts: Sequence[int], one: str, two: str) -> str:
    """How two models compare, for each number of labels."""
    return " ".join(
        f"{count:,} labels: {told_difference(results.change(one, two, count), one, two)}." for count in counts
    )


def beside_published(results: Results, options: LabOptions, costs: Mapping[str, Mapping[str, Any]]) -> str:
    """The published direction beside ours, and how little ours is. Of each kind, the model that is best with
    most labels."""
    most = options.counts[-1]
    best: list[str] = []
    for kind in (BOTH_WAYS, LEFT_TO_RIGHT):
        fits = [name for name, known in costs.items() if known["objective"] in kind]
        some = [name for name in fits if not name.endswith(BILSTM)]  # which sees both sides in the end
        best += sorted(some, key=lambda name: results.tested(name, most).mean)[-1:]
    if len(best) < 2:
        return f"Each was pretrained for {options.budget}."
    both, left = (results.tested(name, most).mean for name in best)
    change = results.change(best[0], best[1], most)
    direction = "the published direction" if both > left else "not the published direction"
    chance = "" if abs(change.mean) > change.margin else ", though chance alone could have made it"
    parameters = max(known["parameters"] for known in costs.values()) / 1e6
    return (
        "Published, models that read in both directions understand better than those that read from left to"
        f" right. Here {best[0]} has {both:.3f} and {best[1]} {left:.3f}: {direction}{chance}. These are"
        f" {parameters:.1f} million parameters and {options.budget}; the published models had 110 million and"
        " days."
    )


run = lab(
    "objectives",
    study,
    seeds=(QUICK_SEEDS, SEEDS),
    own_data=True,
    options=OPTIONS | {"models": "roberta,gpt,gpt+bilstm"},
    ask=ask,
)
