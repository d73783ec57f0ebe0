"""What a person types. Each verb gathers its words and hands over; torch is imported only when there is work
to do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqlab.errors import SeqlabError, UserError, in_plain_words

if TYPE_CHECKING:
    from seqlab.request import Request

STARTED = time.monotonic()
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Bring a file of sequences, leave with a model you own, understand and can serve.",
)
DataAndSettings = Annotated[
    list[str] | None, typer.Argument(help="Data and settings: DATA ... key.path=value ...")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.command()
def train(
    words: Annotated[
        list[str] | None, typer.Argument(help="TASK DATA or run.yaml, then key.path=value ...")
    ] = None,
    valid: Annotated[str, typer.Option(help="Validation data; without it a tenth of DATA is held out.")] = "",
    test: Annotated[str, typer.Option(help="Test data, scored once at the end.")] = "",
    model: Annotated[
        str, typer.Option(help="A preset: bow, lstm, bilstm, cnn, lstm-attention, han, transformer, ...")
    ] = "",
    start: Annotated[
        str, typer.Option("--from", help="A trained run, whose body (backbone) is put under this task.")
    ] = "",
    out: Annotated[str, typer.Option(help="Run folder; by default runs/<data>-<model>.")] = "",
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes, start to end.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Budget in passes over the data.")] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "",
    resume: Annotated[str, typer.Option(help="Go on exactly where the run in this folder was stopped.")] = "",
) -> None:
    """Train a model on your data."""
    from seqlab import early

    budget = {"minutes": minutes, "epochs": epochs, "steps": steps, "seed": seed, "device": device or None}
    chosen: dict[str, Any] = {f"training.{key}": value for key, value in budget.items() if value is not None}
    chosen |= {
        f"data.{split}": several(names) for split, names in (("valid", valid), ("test", test)) if names
    }
    chosen |= {"transfer.start": start} if start else {}
    if resume:
        if beside := [*(words or []), *chosen, *(word for word in (model, out) if word)]:
            raise UserError(
                what=f"--resume {resume} stands beside {', '.join(beside)}.",
                why=(
                    "A resumed run goes on with its own data and settings, so that it ends as if it had not"
                    " been stopped."
                ),
                fix=f"Write: seqlab train --resume {resume}",
            )
        early.resume(resume)
    else:
        request = requested(words or [], model, chosen)
        early.train(request, out)

    from seqlab import session
    from seqlab.report.evaluate import duration
    from seqlab.settings import TrainRequest
    from seqlab.training.progress import Progress

    if resume:
        run = session.resume(Path(resume), Progress(), STARTED)
    else:
        run = session.train_anew(TrainRequest.of(request), out or None, Progress(), STARTED)
    print(session.summary(run))
    print(f"Done in {duration(time.monotonic() - STARTED)}. The report: {run.folder / 'report.html'}")
    print(f"Next: seqlab predict {run.folder} {run.ask}")


@app.command()
def init(
    task: Annotated[str, typer.Argument(help="What is to be learnt; an unknown word lists all tasks.")],
    model: Annotated[str, typer.Option(help="A preset.")] = "",
) -> None:
    """Print a commented settings file."""
    from seqlab import early
    from seqlab.config import commented
    from seqlab.request import Request

    request = Request(task=task, preset=model, where="init")
    early.init(request)

    from seqlab.settings import TrainRequest

    settings = TrainRequest.of(request).settings()
    print(f"# Settings of {task}. Train with: seqlab train run.yaml data.train={settings.task.data_example}")
    print(commented(settings))


@app.command(name="schema")
def print_schema() -> None:
    """JSON Schema of the settings, for editors."""
    from seqlab.schema import for_editors

    print(for_editors())


@app.command()
def check(
    words: DataAndSettings = None,
    valid: Annotated[str, typer.Option(help="Validation data, to compare with.")] = "",
    test: Annotated[str, typer.Option(help="Test data, to compare with.")] = "",
) -> None:
    """Read the data first: counts, lengths, labels, faults with file:line and the fix."""
    from seqlab import early

    chosen = {f"data.{split}": several(names) for split, names in (("valid", valid), ("test", test)) if names}
    request = requested(words or [], "", chosen)
    early.check(request)

    from seqlab.settings import TrainRequest
    from seqlab.verbs import check_data

    lines, faulty = check_data(TrainRequest.of(request))
    print("\n".join(lines))
    if faulty:
        raise typer.Exit(2)


@app.command()
def predict(
    run: Annotated[str, typer.Argument(help="The run folder.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(help="Texts, and key.path=value settings such as decode.beam=5.")
    ] = None,
    input: Annotated[str, typer.Option("--input", help="A file of texts; - is standard input.")] = "",
    output: Annotated[
        str,
        typer.Option(
            "--output", "--out", help="A .csv, .tsv or .jsonl file (or .gz); input columns are kept."
        ),
    ] = "",
    embed: Annotated[
        bool, typer.Option("--embed", help="Give each text's vector instead of an answer.")
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", help="What a text is written for, a label or a vector; one, or one a text."),
    ] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Say how well a language model predicts each text.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer for texts given here or in a file."""
    from seqlab import early
    from seqlab.config import parse_overrides

    if embed and score:
        raise UserError(
            what="--embed and --score stand side by side.",
            why="Each gives another answer.",
            fix="Give one of them.",
        )
    if input and not all("=" in word for word in inputs or []):
        raise UserError(
            what="Texts and --input stand side by side.",
            why="predict answers for the texts that it is given, or for the rows of a file.",
            fix=(
                f'Write: seqlab predict {run} "a text", or: seqlab predict {run} --input file.csv --output'
                " answers.csv"
            ),
        )
    if input and given:
        raise UserError(
            what="--given and --input stand side by side.",
            why="What the texts of a file are written for stands in its rows.",
            fix="Give the file another column, or leave --given out.",
        )
    early.use(run, [input] if input else [], parse_overrides(inputs or []) if input else {})

    from seqlab.run import Ask
    from seqlab.verbs import predict_file, predict_texts

    ask: Ask = "vector" if embed else "score" if score else "answer"
    if input:
        predict_file(run, input, output, as_json, ask, inputs or [])
    else:
        predict_texts(run, inputs or [], output, as_json, ask, given or [])


@app.command()
def evaluate(
    run: Annotated[str, typer.Argument(help="The run folder.")],
    words: Annotated[list[str] | None, typer.Argument(help="Labelled DATA, then key.path=value ...")] = None,
    as_json: Json = False,
) -> None:
    """Every metric of the task, with its unit and 95 % interval, beside the baselines."""
    from seqlab import early
    from seqlab.config import parse_overrides

    names, settings = split_words(words or [])
    if not names:
        fix = f"Write: seqlab evaluate {run} test.csv"
        raise UserError(what="No data is named.", why="evaluate scores a run on labelled rows.", fix=fix)
    overrides = parse_overrides(settings)
    early.use(run, names, overrides)

    from seqlab.run import load

    trained = load(run)
    scores = trained.evaluate(names, overrides)
    if as_json:
        print(json.dumps(scores.to_json()))
        return
    print(scores)
    yours, beside = trained.example or trained.reads.yours, trained.answer.beside
    print(f'Next: seqlab explain {run} "{yours}"{beside} --out map.html', file=sys.stderr)


@app.command()
def explain(
    run: Annotated[str, typer.Argument(help="The run folder.")],
    texts: Annotated[list[str], typer.Argument(help="One text or several.")],
    out: Annotated[
        str, typer.Option(help="map.html, map.png, map.svg or map.json; several texts are numbered.")
    ] = "map.html",
    given: Annotated[
        str, typer.Option("--given", help="What the texts are written for: a label or a vector.")
    ] = "",
) -> None:
    """Where the model looked, and beside it what each piece adds to the answer."""
    from seqlab import early

    early.use(run)

    from seqlab.verbs import explain_texts

    explain_texts(run, texts, out, given)


@app.command()
def inspect(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, presets or settings files, then key.path=value ... for all of them"
        ),
    ],
    task: Annotated[
        str, typer.Option(help="The task of the presets; by default the first that has it.")
    ] = "",
    length: Annotated[
        str, typer.Option(help="Positions in a sequence; or a range, 64..4096, by powers of two.")
    ] = "128",
    vocabulary: Annotated[
        int | None, typer.Option(help="Symbols, all counted; for gpt-1 ... as published.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Labels.")] = 2,
    tokens: Annotated[float, typer.Option(help="Training tokens, to tell what training costs: 300e9.")] = 0,
    probe: Annotated[
        bool, typer.Option("--probe", help="Also take ten seconds of training steps: tokens a second here.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also time how the cost of layers grows.")
    ] = False,
    gradients: Annotated[
        str, typer.Option(help="Instead: how far back the gradients of a run reach on the rows of this file.")
    ] = "",
    out: Annotated[
        str, typer.Option("--out", "--html", help="Also as a page, page.html, with the model drawn.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Parameters by formula and by count, work, memory, steps and paths, of one model or of several."""
    from seqlab import early
    from seqlab.config import parse_overrides
    from seqlab.request import lengths_of, refuse_no_page

    names, settings = split_words(words)
    if not names:
        fix = "For instance: seqlab inspect lstm transformer"
        raise UserError(what="No model is named.", why="inspect counts what a model costs.", fix=fix)
    if gradients:
        early.use(names[0], several(gradients), parse_overrides(settings))
        from seqlab.verbs import inspect_gradients_of

        return inspect_gradients_of(names[0], several(gradients), parse_overrides(settings), as_json)

    lengths, overrides = lengths_of(length), parse_overrides(settings)
    refuse_no_page(out)
    for name in names:
        early.inspect(name, task, overrides)

    from seqlab.ledger import Asked, inspect_asked

    inspect_asked(
        Asked(
            names=names,
            task=task,
            settings=overrides,
            lengths=lengths,
            vocabulary=vocabulary,
            classes=classes,
            tokens=int(tokens),
            growth=measure,
            probe=probe,
            out=out,
            as_json=as_json,
        )
    )


@app.command()
def lab(
    words: Annotated[
        list[str] | None, typer.Argument(help="NAME of the lab, then key.path=value ... of its runs")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small models, few steps, few seeds: about two minutes.")
    ] = False,
    data: Annotated[
        str, typer.Option(help="Your own rows, pairs or text; without them the lab has data of its own.")
    ] = "",
    unlabelled: Annotated[
        str, typer.Option(help="Text to pretrain on; by default the texts of DATA without the test rows.")
    ] = "",
    test: Annotated[str, typer.Option(help="Labelled rows to test on; by default a tenth of DATA.")] = "",
    model: Annotated[str, typer.Option(help="transfer: what to pretrain, roberta by default.")] = "",
    models: Annotated[str, typer.Option(help="objectives: what to compare, roberta,gpt by default.")] = "",
    start: Annotated[str, typer.Option("--from", help="transfer: a pretrained run to take instead.")] = "",
    labels: Annotated[str, typer.Option(help="How many labels to learn from: 500,2000,all")] = "",
    seeds: Annotated[
        int | None, typer.Option(help="How many times, each with other weights; 5 by default, quick fewer.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="For each pretraining; 30 by default.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the labels; by default 10, and 4 over more than 5,000.")
    ] = None,
    out: Annotated[
        str, typer.Option(help="Folder; by default runs/lab-NAME. A lab that was stopped goes on there.")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Every lab, on one page: runs/labs/index.html. Stopped, it goes on.")
    ] = False,
) -> None:
    """Experiments that show the theory: a table, a picture, a verdict."""
    from seqlab.config import parse_overrides
    from seqlab.labs import LABS, begin

    names, settings = split_words(words or [])
    if every:
        own: dict[str, object] = {"--data": data, "--unlabelled": unlabelled, "--test": test, "--from": start}
        own |= {"--model": model, "--models": models, "--labels": labels, "--minutes": minutes}
        own |= {"--epochs": epochs}
        run_every_lab([*(words or []), *(name for name, value in own.items() if value)], quick, seeds, out)
        return
    if not names:
        print(
            "\n".join(
                [
                    *(f"{name:<12}{sentence}" for name, sentence in LABS.items()),
                    "Next: seqlab lab transfer --quick",
                ]
            )
        )
        return
    if len(names) > 1:
        raise UserError(
            what=f'"{names[1]}" stands after the name of the lab.',
            why="One lab runs at a time, and its files have options.",
            fix=f"Write: seqlab lab {names[0]} --data {names[1]}",
        )
    files = {"data": data, "unlabelled": unlabelled, "test": test}
    given: dict[str, Any] = {name: several(value) for name, value in files.items() if value}
    given |= {"model": model, "models": models, "start": start, "labels": labels, "out": out, "quick": quick}
    given |= {"settings": parse_overrides(settings)}
    given = {name: value for name, value in given.items() if value}
    given |= {
        name: value
        for name, value in (("seeds", seeds), ("minutes", minutes), ("epochs", epochs))
        if value is not None
    }
    print(begin(names[0], given))


def run_every_lab(beside: list[str], quick: bool, seeds: int | None, out: str) -> None:
    """`lab --all`, which takes nothing that is about a certain lab."""
    if beside:
        raise UserError(
            what=f"--all stands beside {', '.join(beside)}.",
            why="Every lab runs on the data that it makes itself or that comes with seqlab.",
            fix="Write: seqlab lab --all --quick",
        )
    from seqlab.labs.every import run_every

    found = run_every(quick=quick, seeds=seeds, out=out)
    print(found)
    found.refuse_failed()


@app.command()
def demo(
    task: Annotated[str, typer.Argument(help="A task; an unknown word lists those that have a demo.")] = "",
) -> None:
    """Train on built-in data: pronounce English words, or with another task invent some, or say their
    stress."""
    from seqlab.demo import run_demo

    run_demo(task, STARTED)


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Data names and `key.path=value` settings. A word with = whose file exists is a name."""
    settings = [
        word for word in words if "=" in word and "." in word.split("=")[0] and not Path(word).exists()
    ]
    return [word for word in words if word not in settings], settings


def several(names: str) -> tuple[str, ...]:
    """The files in one option: a name, or several with spaces between."""
    return (names,) if Path(names).exists() else tuple(names.split())


def requested(words: list[str], model: str, chosen: dict[str, Any]) -> Request:
    """What `train` and `check` were asked for: TASK DATA or a settings file, and settings on top."""
    from seqlab import schema
    from seqlab.config import parse_overrides, read_file
    from seqlab.request import Request

    names, settings = split_words(words)
    overrides: dict[str, Any] = {**chosen, **parse_overrides(settings)}
    if not names:
        fix = (
            f"Write: seqlab train {schema.first_task()}"
            f" {schema.stored()['tasks'][schema.first_task()]['data_example']}"
        )
        raise UserError(what="No task is named.", why="seqlab has to know what to learn.", fix=fix)
    if names[0].endswith((".yaml", ".yml")):
        if len(names) > 1:
            overrides["data.train"] = tuple(names[1:])
        tree = read_file(Path(names[0]))
        named = tree.get("task")
        task = (
            str(named.get("kind") or schema.first_task()) if isinstance(named, dict) else schema.first_task()
        )
        return Request(
            preset=model, task=task if model else "", tree=tree, overrides=overrides, where=names[0]
        )
    task, *data = names
    for name in data:
        if "=" in name and not Path(name).exists():
            raise UserError(
                what=f'"{name}" is neither a file nor a setting.',
                why="The key of a setting has a dot: its group stands before it.",
                fix=f"For instance: training.steps=500. All keys: seqlab init {task}",
            )
    if data:
        overrides["data.train"] = tuple(data)
    return Request(task=task, preset=model, overrides=overrides)


def main() -> None:
    """The command `seqlab`: errors in three lines, exit codes as promised."""
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        app(standalone_mode=True)  # it turns Ctrl-C into exit 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        told = error if isinstance(error, SeqlabError) else in_plain_words(error)
        if told is None:
            raise
        print(told, file=sys.stderr)
        sys.exit(told.exit_code)
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def terminate(number: int, _: FrameType | None) -> None:
    """SIGTERM ends the process as Ctrl-C does, so that nothing half-written stays."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
