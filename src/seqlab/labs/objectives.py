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
from seqlab.labs.lab import Outcome, ResultTable, at_work, choose_place
from seqlab.labs.options import LabOptions
from seqlab.model import count_parameters, sketch
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress
from seqlab.transfer import PretrainedRun

PUBLISHED_SCORES = (
    "Published (Devlin et al. 2019, 110 million parameters, both without the next-sentence task),"
    " bidirectional against left-to-right: MNLI 83.9 and 82.1, QNLI 84.9 and 84.3, MRPC 86.5 and 77.5, SST-2"
    " 92.6 and 92.1."
)
BOTH_WAYS, LEFT_TO_RIGHT = ("masked", "masked+next"), ("causal",)


def run(
    *,
    quick: bool = False,
    data: str | Sequence[str] = "",
    unlabelled: str | Sequence[str] = "",
    test: str | Sequence[str] = "",
    models: str = "roberta,gpt",
    labels: str = "",
    seeds: int | None = None,
    minutes: float | None = None,
    epochs: int | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Outcome:
    """Compare, write everything into a folder and give back what was found.

    `minutes` is the budget of each pretraining; with `quick`, it is the same number of steps. The rest is as
    in the lab `transfer`. Models may be added to a folder later: those that are in it are not trained again.
    """
    names = tuple(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if len(names) < 2:
        raise UserError(
            what=f'--models is "{models}".',
            why="A comparison needs two at least.",
            fix="For instance: --models roberta,gpt,elmo",
        )
    for name in names:
        TrainRequest(task="pretrain", preset=name).settings()  # refuses a preset that is not known
    options = LabOptions.of(
        quick=quick,
        data=data,
        unlabelled=unlabelled,
        test=test,
        labels=labels,
        seeds=seeds,
        minutes=minutes,
        epochs=epochs,
        settings=settings,
    )
    folder = choose_place("objectives", out, options.choices)
    progress = Progress(quiet=quiet)
    with at_work(folder, "objectives", options.choices):
        bodies = {name: folder / f"pretrained-{name}" for name in names}
        for name, body in bodies.items():
            progress.say(f"Pretraining {name}")
            options.pretrain(name, body, folder / "data", progress)
        comparison = Comparison(options, folder, progress)
        sides = [*(Arm(name, body) for name, body in bodies.items()), Arm(BOW)]
        results = Results(comparison.learn(sides))
        best = max(sides[:-1], key=lambda side: results.tested(side.name, options.counts[-1]).mean)
        outcome = outcome_of(
            options, folder, results, bodies, comparison.run_folder(best, options.counts[-1], 0)
        )
        if missing := outcome.write():
            progress.say(missing)
    return outcome


# Telling ----------------------------------------------------------------------------------------------------


def outcome_of(
    options: LabOptions, folder: Path, results: Results, bodies: Mapping[str, Path], best: Path
) -> Outcome:
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
    return Outcome(
        name="objectives",
        folder=folder,
        title="Pretraining objectives at equal compute",
        verdict="\n".join(sentences),
        tables=(table, by_epoch(results, names, options.counts)),
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
            PUBLISHED_SCORES,
        ),
        numbers={**results.to_json(), "differences": differences, "pretraining": costs},
        next=f'seqlab predict {best} "{example}"',
    )


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
        some = [name for name, known in costs.items() if known["objective"] in kind]
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
