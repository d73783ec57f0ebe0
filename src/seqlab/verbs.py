"""What the verbs that use a run print and write: predictions and explanations."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from seqlab.answers.answer import Prediction
from seqlab.config import RawText, parse_overrides
from seqlab.errors import UserError
from seqlab.fields.field import Given
from seqlab.files import written_beside
from seqlab.microscope import inspect_gradients
from seqlab.request import refuse_no_data
from seqlab.run import Ask, Run, load
from seqlab.settings import TrainRequest
from seqlab.tasks.prepare import Files

FORMATS = (".csv", ".tsv", ".jsonl", ".conll")


def predict_texts(
    folder: str, words: Sequence[str], output: str, as_json: bool, ask: Ask, given: Sequence[str] = ()
) -> None:
    """Answers for texts from the command line, among which may stand settings: a line each. `given` is what
    the texts are written for: nothing, one for all, or one for each."""
    run = load(folder)
    texts = [word for word in words if not SETTING.match(word)]
    settings = parse_overrides([word for word in words if SETTING.match(word)])
    if run.answer.begins and ask == "answer":
        texts = texts or [""] * max(1, len(given))  # from nothing
    if not texts:
        raise UserError(
            what="There is no text to answer for.",
            why="predict answers for the texts that it is given, or for the rows of a file.",
            fix=f'Write: seqlab predict {folder} "{run.example}"\n'
            f"or: seqlab predict {folder} --input file.csv --output answers.csv",
        )
    alone = len(texts) == 1 and ask == "answer" and not (output or as_json)
    if run.answer.begins and alone and sys.stdout.isatty():
        write_on(run, texts[0], settings, given)
        return
    asked = [as_text(text) if run.answer.joins else text for text in texts]
    answers = run.answers(ask, asked, settings, one_for_all(given))
    if output:
        told = [{"given": one} for one in ([given[0]] * len(texts) if len(given) == 1 else given)]
        rows = [
            {"text": text} | beside | answer.columns()
            for text, beside, answer in zip(texts, told or [{}] * len(texts), answers, strict=True)
        ]
        write_table_file(Path(output), rows)
        print(f"{len(rows):,} answers in {output}")
        return
    for text, answer in zip(texts, answers, strict=True):
        print(json.dumps(answer.to_json(), ensure_ascii=False) if as_json else beside(run, answer, text))
    if not as_json:
        also = f" --given {shlex.quote(given[0])}" if given else ""
        shown = texts[0] or run.example
        print(f'Next: seqlab explain {folder} "{shown}"{also} --out map.html', file=sys.stderr)


def one_for_all(given: Sequence[str]) -> Any:
    """What is given: nothing, one for all texts, or one for each."""
    return None if not given else given[0] if len(given) == 1 else list(given)


SETTING = re.compile(r"(task|data|model|training|decode)(\.\w+)+=")
"""How a setting begins where it stands among texts."""


def beside(run: Run, answer: Prediction, text: str) -> str:
    """An answer and, unless it is a text of its own, what it is for."""
    return f"{answer.shown()}\t{text}" if run.answer.echoes else answer.shown()


def write_on(run: Run, prompt: str, settings: dict[str, Any], given: Sequence[str] = ()) -> None:
    """The prompt and what follows, piece by piece as it is written."""
    if run.decoding(settings).beam > 1:
        print(run.predict([prompt], settings, one_for_all(given))[0].shown())
    else:
        print(prompt, end="", flush=True)
        for piece in run.stream(prompt, settings, one_for_all(given)):
            print(piece, end="", flush=True)
        print()
    also = f" --given {shlex.quote(given[0])}" if given else ""
    print(
        f'Next: seqlab predict {run.folder} "{prompt}"{also} decode.temperature=1.0 decode.seed=1',
        file=sys.stderr,
    )


def _evaluation(run: Run) -> str:
    """The command that scores this run on data of its kind, as its card has it."""
    begin, known = "seqlab evaluate .", run.task.words(run.answer).shell
    command = next((one for one in known if one.startswith(begin)), f"{begin} {run.task.data_example}")
    return command.replace(begin, f"seqlab evaluate {run.folder}", 1)


def predict_file(
    folder: str, source: str, output: str, as_json: bool, ask: Ask, words: Sequence[str]
) -> None:
    """Answers for the rows of a file, in order, however many there are."""
    run = load(folder)
    settings = parse_overrides(words)
    rows = run.rows(source, settings, labelled=False)
    if output.endswith((".png", ".html")):
        run.draw(rows, Path(output), settings)
        print(f"Drawn in {output}")
        also = f"seqlab predict {folder} --input {shlex.quote(source)} --output answers.csv"
        print(f"Next: {also}", file=sys.stderr)
        return
    answered = run.answer_rows(rows, ask, settings)
    if output:
        kept = run.reads.kept
        count = write_table_file(
            Path(output), (kept(row.record) | answer.columns() for row, answer in answered)
        )
        print(f"{count:,} answers in {output}")
        print(f"Next: {_evaluation(run)}", file=sys.stderr)
        return
    for row, answer in answered:
        print(
            json.dumps(answer.to_json(), ensure_ascii=False)
            if as_json
            else beside(run, answer, run.reads.brief(run.reads.text_of(row.cells)))
        )


def explain_texts(folder: str, texts: Sequence[str], out: str, given: str = "") -> None:
    """A map for each text; several are numbered."""
    run = load(folder)
    path = Path(out)
    for number, text in enumerate(texts, 1):
        place = path if len(texts) == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        explanation = run.explain(as_text(text), given=given or None)
        explanation.save(place)
        note = f" ({explanation.note})" if explanation.note else ""
        print(f"{explanation.label}\t{text}\n{explanation.method}{note}: {place}")
    look = f"open {place} in a browser" if place.suffix == ".html" else f"seqlab evaluate {folder} DATA"
    print(f"Next: {look}", file=sys.stderr)


def check_data(wishes: TrainRequest) -> tuple[list[str], bool]:
    """What `seqlab check` prints, and whether training would refuse the data."""
    settings = wishes.settings()
    task = settings.task
    refuse_no_data(settings.data.train, "check", task.kind, task.data_example)
    files = Files(task, settings.data, keep_all_faults=True)
    told = [f"{key}={value}" for key, value in (wishes.overrides or {}).items() if isinstance(value, RawText)]
    more = [
        f"--{split} {names[0]}"
        for split, names in (("valid", settings.data.valid), ("test", settings.data.test))
        if names
    ]
    command = " ".join([f"seqlab train {task.kind}", *settings.data.train, *more, *told])
    mend = "Next: correct the faults above. Rows that can't be read can be left out with data.on_bad=skip."
    return [*files.lines(), mend if files.faulty else f"Next: {command}"], files.faulty


# Rows on their way out --------------------------------------------------------------------------------------


def as_text(word: str) -> Given:
    """A pair is two texts joined by a tab."""
    if not word.strip():
        fix = 'Give a text, for instance: "worth every minute"'
        raise UserError(what="A text is empty.", why="There is nothing to read in it.", fix=fix)
    first, tab, second = word.partition("\t")
    return (first, second) if tab else word


def write_table_file(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Rows as a table whose format is that of the name; whole or not at all. How many there were."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix not in FORMATS:
        raise UserError(
            what=f'{path}: rows can\'t be written as "{plain.suffix or plain.name}".',
            why="The ending of the name decides the format: .csv, .tsv or .jsonl, plain or .gz; .conll where"
            " each word has an answer.",
            fix=f"For instance: --output {plain.with_suffix('.csv').name}",
        )
    if not path.parent.is_dir():
        raise UserError(
            what=f"{path}: there is no folder {path.parent}.",
            why="Folders are not made unasked.",
            fix=f"Make it first: mkdir -p {path.parent}",
        )
    count = 0
    with written_beside(path) as beside, _opened(beside, path.suffix == ".gz") as file:
        write = _row_writer(file, plain.suffix)
        for row in rows:
            write(row)
            count += 1
    return count


@contextmanager
def _opened(path: Path, zipped: bool) -> Iterator[TextIO]:
    with (
        gzip.open(path, "wt", encoding="utf-8", newline="")
        if zipped
        else path.open("w", encoding="utf-8", newline="") as file
    ):
        yield file  # type: ignore[misc]


def _row_writer(file: TextIO, kind: str) -> Any:
    if kind == ".jsonl":
        return lambda row: file.write(json.dumps(row, ensure_ascii=False) + "\n")
    if kind == ".conll":
        return lambda row: file.write(_block(row))
    if kind == ".tsv":  # as our reader takes it: no quotes, so no tabs or line breaks inside a cell
        table = csv.writer(
            file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, escapechar=None, lineterminator="\n"
        )
    else:
        table = csv.writer(file, lineterminator="\n")
    names: list[str] = []

    def write(row: dict[str, Any]) -> None:
        if not names:
            names.extend(row)
            table.writerow(names)
        if new := [name for name in row if name not in names]:
            raise UserError(
                what=f'A row has "{new[0]}", which the first row has not.',
                why="The columns of a table are those of its first row.",
                fix="Write objects instead: --output answers.jsonl",
            )
        cells = [_cell(row.get(name, "")) for name in names]
        table.writerow([re.sub(r"[\t\r\n]", " ", str(cell)) for cell in cells] if kind == ".tsv" else cells)

    return write


def _cell(value: Any) -> Any:
    """A list as JSON, as our reader takes it; anything else as it is."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _block(row: Mapping[str, Any]) -> str:
    """The lists of a row side by side, a line for each of their values, and a blank line."""
    lists = [value for value in row.values() if isinstance(value, list)]
    if not lists or len({len(value) for value in lists}) > 1:
        raise UserError(
            what="These answers are not one for each word.",
            why="A .conll file has a line for each word.",
            fix="Write a table: --output answers.jsonl",
        )
    lines = zip(*lists, strict=True)
    return "".join("\t".join(re.sub(r"\s", " ", str(cell)) for cell in line) + "\n" for line in lines) + "\n"


def inspect_gradients_of(
    folder: str, data: Sequence[str], settings: Mapping[str, Any], as_json: bool
) -> None:
    """How far back the gradients of a run reach on the rows of these files."""
    run = load(folder)
    found = inspect_gradients(run, data, settings)
    print(json.dumps({"gradients": found.to_json()}) if as_json else found)
    print(f"Next: open {run.folder / 'report.html'} in a browser", file=sys.stderr)
