"""Bad input ends with exit 2 and three plain lines; a machine that gives out with exit 3. Nothing
half-written stays."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from made import SMALL, opinions, write_table
from safetensors import SafetensorError

import seqlab as seqlab_package
from seqlab import session
from seqlab.answers.row import LabelAnswer
from seqlab.data import files as data_files
from seqlab.errors import UserError
from seqlab.training import checkpoint

TINY = [*SMALL, "training.threads=1"]
ROWS = "text,label\n" + "".join(f"{text},{label}\n" for text, label in opinions(40))
"""A table without a fault, on lines 2 to 41."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small finished runs: `single`, `pair`, `number`, and `foreign` with other words and another width."""
    folder = tmp_path_factory.mktemp("runs")
    rows = opinions(60)
    pairs = [(text, "it was so", label) for text, label in rows]
    numbers = [(text, "1.5" if label == "good" else "-2") for text, label in rows]
    other = [(f"{text} nevertheless", label) for text, label in rows]
    tables = {
        "single": write_table(folder / "single.csv", rows),
        "pair": write_table(folder / "pair.csv", pairs, ("text", "text2", "label")),
        "number": write_table(folder / "number.csv", numbers),
        "foreign": write_table(folder / "foreign.csv", other),
    }
    common = {
        "model.input.width": 8,
        "model.encoder.width": 8,
        "training.baseline": False,
        "training.threads": 1,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        for name, table in tables.items():
            more = {"number": {"task.target": "number"}, "foreign": {"model.encoder.width": 12}}.get(name, {})
            session.train(
                "classify",
                str(table),
                model="cnn",
                steps=2,
                out=folder / name,
                settings=common | more,
                quiet=True,
            )
    return folder


@pytest.fixture
def run(runs, tmp_path):
    """A copy of the run `single` that a test may damage."""
    return Path(shutil.copytree(runs / "single", tmp_path / "copy"))


def table(folder: Path, content: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Files ------------------------------------------------------------------------------------------------------

FILES = {
    "empty": ("rows.csv", "", ("rows.csv", "empty")),
    "blank lines alone": ("rows.csv", "\n\n\n", ("rows.csv", "empty")),
    "a header alone": ("rows.csv", "text,label\n", ("rows.csv:1", "no row")),
    "a missing column": (
        "rows.csv",
        ROWS.replace("label\n", "stars\n"),
        ("rows.csv", "label", "stars", "data.columns.label="),
    ),
    "one class": (
        "rows.csv",
        "text,label\n" + "a film,good\nthe film,good\n" * 20,
        ("rows.csv:2", '"good"', "two labels"),
    ),
    "two rows": (
        "rows.csv",
        "text,label\na film,good\nb film,bad\n",
        ("rows.csv:2", "too few rows", "--valid"),
    ),
    "a short row": ("rows.csv", ROWS + "a film\n", ("rows.csv:42", "1 cells", "data.on_bad=skip")),
    "a long row": ("rows.csv", ROWS + "a film,good,indeed\n", ("rows.csv:42", "3 cells", "data.on_bad=skip")),
    "an open quote": (
        "rows.csv",
        ROWS + '"a film,good\nthe film,bad\n',
        ("rows.csv:42", "quote", "data.quotes=false"),
    ),
    "a quote inside": ("rows.csv", ROWS + '"a" film,good\n', ("rows.csv:42", "quote", "data.quotes=false")),
    "a NUL byte": ("rows.csv", ROWS + "a f\0ilm,good\n", ("rows.csv:42", "NUL")),
    "latin-1": (
        "rows.csv",
        ROWS.encode() + "un café,good\n".encode("latin-1"),
        ("rows.csv:42", "0xe9", "data.encoding=latin-1"),
    ),
    "utf-16": ("rows.csv", ROWS.encode("utf-16"), ("rows.csv:1", "UTF-16", "data.encoding=utf-16")),
    "a torn gzip": ("rows.csv.gz", gzip.compress(ROWS.encode())[:-40], ("rows.csv.gz:", "gzip", "gzip -t")),
    "an empty text": ("rows.csv", ROWS + ",good\n", ("rows.csv:42", "the text is empty", "data.on_bad=skip")),
    "an empty label": (
        "rows.csv",
        ROWS + "a film,\n",
        ("rows.csv:42", "the label is empty", "data.on_bad=skip"),
    ),
    "a line of 10 MB": (
        "rows.csv",
        ROWS + "word " * 2_000_000 + ",good\n",
        ("rows.csv:42", "4,000,000", "data.longest_line"),
    ),
    "several labels": (
        "rows.jsonl",
        '{"text": "a film", "label": ["good", "long"]}\n' * 9,
        ("rows.jsonl:1", "Multi-label"),
    ),
    "no JSON": ("rows.jsonl", '{"text": "a film", "label": "good"}\n{"text": \n', ("rows.jsonl:2", "JSON")),
    "no parquet": ("rows.parquet", "PAR1 and then nothing", ("rows.parquet:1", "damaged")),
    "text without labels": ("rows.txt", "a film\nthe film\n", ("rows.txt", "label", ".csv")),
    "an unknown kind": ("rows.xlsx", "PK", ("rows.xlsx", "not known", ".csv")),
}


@pytest.mark.parametrize("fault", FILES)
def test_a_faulty_file_is_refused_before_anything_is_written(fault, expect_exit, tmp_path):
    name, content, says = FILES[fault]
    path = table(tmp_path, content, name)
    expect_exit(
        "train",
        "classify",
        path,
        "--steps",
        2,
        "--out",
        tmp_path / "run",
        *TINY,
        says=says,
        why=fault != "no parquet",
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "fault", ["a short row", "an empty text", "an empty label", "a line of 10 MB", "no JSON"]
)
def test_faulty_rows_are_left_out_when_asked(fault, seqlab, tmp_path):
    """And told: the warning has the same file:line."""
    name, content, says = FILES[fault]
    if name.endswith("jsonl"):
        content += "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in opinions(40))
    path = table(tmp_path, content, name)
    words = [
        "train",
        "classify",
        path,
        "--model",
        "cnn",
        "--steps",
        1,
        "--out",
        tmp_path / "run",
        "data.on_bad=skip",
        *TINY,
    ]
    code, _, err = seqlab(*words)
    assert code == 0 and f"Warning: {path}:{says[0].split(':')[1]}" in err, err


def test_a_file_that_is_not_there_is_named_with_the_likely_one(expect_exit, reviews, tmp_path):
    says = ("review.csv", "no such file", 'Did you mean "reviews.csv"?')
    expect_exit("train", "classify", tmp_path / "review.csv", "--out", tmp_path / "run", says=says)
    assert not (tmp_path / "run").exists()


def test_a_folder_is_no_file(expect_exit, reviews, tmp_path):
    expect_exit(
        "train",
        "classify",
        tmp_path,
        "--out",
        tmp_path / "run",
        says=("this is a folder", "reviews.csv", "*.csv"),
    )


def test_every_row_left_out_is_no_data(expect_exit, reviews, tmp_path):
    path = table(tmp_path, "text,label\n,good\na film,\n")
    says = ("rows.csv:2", "not a single row")
    expect_exit("train", "classify", path, "--out", tmp_path / "run", "data.on_bad=skip", says=says)
    expect_exit(
        "train",
        "classify",
        reviews,
        "--valid",
        path,
        "--out",
        tmp_path / "run",
        "data.on_bad=skip",
        says=says,
    )


def test_a_label_that_training_has_not_is_refused_in_the_validation_data(expect_exit, reviews, tmp_path):
    other = table(tmp_path, ROWS + "a film,mixed\n")
    says = ("rows.csv:42", '"mixed"', "does not occur in the training data")
    expect_exit("train", "classify", reviews, "--valid", other, "--out", tmp_path / "run", *TINY, says=says)


def test_a_word_is_no_number(expect_exit, runs, tmp_path):
    path = table(tmp_path, "text,label\n" + "a film,3\nthe film,4\n" * 10 + "a story,many\n")
    says = ("rows.csv:22", '"many" is not a number')
    expect_exit("train", "classify", path, "--out", tmp_path / "run", "task.target=number", says=says)
    expect_exit("evaluate", runs / "number", path, says=says)


def test_check_lists_every_fault_and_says_so_by_its_exit_code(seqlab, tmp_path):
    path = table(tmp_path, ROWS + "a film\n,good\nthe film,\n")
    code, out, err = seqlab("check", "classify", path)
    assert code == 2 and not err
    assert all(f"rows.csv:{line}:" in out for line in (42, 43, 44))


def test_standard_input_is_data(seqlab, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROWS.encode())))
    data_files._standard_input.cache_clear()
    code, _, err = seqlab(
        "train", "classify", "-", "--model", "cnn", "--steps", 1, "--out", tmp_path / "run", *TINY
    )
    assert code == 0, err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a lovely film\n")))
    data_files._standard_input.cache_clear()
    code, out, err = seqlab("predict", tmp_path / "run", "--input", "-", "--json")
    assert code == 0 and json.loads(out)["label"], err


# Words ------------------------------------------------------------------------------------------------------

WORDS = {
    "no task": ([], ("No task", "seqlab train classify")),
    "no data": (["classify"], ("No data", "seqlab train classify")),
    "an unknown task": (["clasify", "DATA"], ('"clasify"', 'Did you mean "classify"?')),
    "an unknown preset": (
        ["classify", "DATA", "--model", "bilstn"],
        ('"bilstn"', 'Did you mean "bilstm"?', "--model"),
    ),
    "a misspelt key": (
        ["classify", "DATA", "training.stepz=3"],
        ("training.stepz", 'Did you mean "steps"?', "seqlab init"),
    ),
    "a misspelt group": (
        ["classify", "DATA", "trainig.steps=3"],
        ("trainig", 'Did you mean "training"?', "seqlab init"),
    ),
    "a key without its group": (["classify", "DATA", "steps=3"], ('"steps=3"', "training.steps=500")),
    "a wrong type": (["classify", "DATA", "training.steps=many"], ("training.steps", '"many"', "integer")),
    "a number out of range": (
        ["classify", "DATA", "--steps", "0"],
        ("training.steps", "0", "greater than 0"),
    ),
    "an unknown kind": (
        ["classify", "DATA", "model.encoder.kind=lstn"],
        ("encoder.kind", '"lstn"', 'Did you mean "lstm"?'),
    ),
    "two budgets": (
        ["classify", "DATA", "--steps", "5", "--minutes", "1"],
        ("training", "minutes and steps", "choose one"),
    ),
    "an unknown device": (["classify", "DATA", "--device", "abacus"], ("training", '"abacus"', "cuda")),
    "a penalty without hops": (
        ["classify", "DATA", "--model", "cnn", "task.penalty=1"],
        ("task.penalty", "max", "structured"),
    ),
    "too few minutes": (
        ["classify", "DATA", "--minutes", "0.01"],
        ("training.minutes is 0.01", "too little", "--minutes"),
    ),
    "an unknown encoding": (
        ["classify", "DATA", "data.encoding=klingon"],
        ("data.encoding", "klingon", "utf-8"),
    ),
    "no such settings file": (["none.yaml"], ("none.yaml", "No such file")),
    "words beside --resume": (
        ["classify", "DATA", "--resume", "run"],
        ("--resume run", "seqlab train --resume"),
    ),
}


@pytest.mark.parametrize("fault", WORDS)
def test_faulty_words_are_refused_with_the_way_out(fault, expect_exit, reviews, tmp_path):
    words, says = WORDS[fault]
    given = [str(reviews) if word == "DATA" else word for word in words]
    expect_exit(
        "train", *given, *([] if "--resume" in given else ["--out", tmp_path / "run"]), says=says, why=False
    )
    assert not (tmp_path / "run").exists()


def test_all_faulty_settings_are_told_at_once(expect_exit, reviews):
    words = ["training.stepz=3", "training.rate=fast", "model.pool.kind=med", "data.lenght=3"]
    err = expect_exit(
        "train", "classify", reviews, *words, says=("4 settings are wrong", "stepz", "fast", "med", "lenght")
    )
    assert len(re.findall("^  - ", err, re.MULTILINE)) == 4


def test_a_faulty_settings_file_is_named_with_its_line(expect_exit, reviews, tmp_path):
    path = table(tmp_path, "task:\n  kind: classify\n model: [", "run.yaml")
    expect_exit("train", path, f"data.train={reviews}", says=("run.yaml:3", "YAML", "seqlab init"))
    path = table(tmp_path, "task: classify\ntraining: {stepz: 4}\n", "run.yaml")
    expect_exit(
        "train", path, f"data.train={reviews}", says=("run.yaml: training.stepz", '"steps"'), why=False
    )


def test_a_folder_that_is_there_is_never_overwritten(expect_exit, reviews, tmp_path):
    (tmp_path / "mine").mkdir()
    table(tmp_path / "mine", "mine", "notes.txt")
    expect_exit(
        "train", "classify", reviews, "--out", tmp_path / "mine", says=("mine is there already", "--resume")
    )
    expect_exit(
        "train", "classify", reviews, "--out", reviews / "run", *TINY, says=("reviews.csv/run", "is a file")
    )


UNFIT = {
    "heads that do not divide the width": (
        ["--model", "transformer", "model.encoder.heads=3"],
        ("heads is 3",),
    ),
    "a head without weights": (
        ["--model", "bow", "model.input.kind=tokens"],
        ('"direct"', "head.kind=linear"),
    ),
    "a device that is not here": (["--device", "cuda:77"], ("cuda:77", "--device")),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_parts_that_do_not_fit_are_refused_before_the_folder_is_made(fault, expect_exit, reviews, tmp_path):
    words, says = UNFIT[fault]
    expect_exit("train", "classify", reviews, *words, "--steps", 2, "--out", tmp_path / "run", says=says)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("fault", ["data", "settings", "model"])
def test_a_start_that_fails_leaves_no_folder(fault, expect_exit, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("text,label\na film,\n")
    words = {"data": ["bad.csv"], "settings": [reviews, "training.rat=1"]}
    words["model"] = [reviews, "model.encoder.heads=3"]
    says = {"data": "bad.csv:2", "settings": "training.rat", "model": "heads is 3"}[fault]
    expect_exit("train", "classify", *words[fault], "--model", "transformer", *TINY, says=(says,))
    assert sorted(os.listdir()) == ["bad.csv", "reviews.csv"]


def test_of_two_that_start_at_once_the_second_is_refused_or_has_the_next_name(reviews, tmp_path, monkeypatch):
    """The second one starts while the first reads its data."""
    monkeypatch.chdir(tmp_path)
    look, reading, seconds = session._looked_at, [], []

    def begin(**more):
        small = {"model.input.width": 8, "model.encoder.width": 8, "training.baseline": False}
        more |= {"settings": small, "quiet": True}
        return session.train("classify", str(reviews), model="cnn", steps=2, **more)

    def looked_at(*words):
        reading.append(words)
        if len(reading) == 1:
            with pytest.raises(UserError, match="Another process has taken mine"):
                begin(out="mine")
            assert len(reading) == 1, "refused before it reads"
        if len(reading) == 2:
            seconds.append(begin())
        return look(*words)

    monkeypatch.setattr(session, "_looked_at", looked_at)
    assert begin(out="mine").folder == Path("mine")
    assert begin().folder == Path("runs/reviews-cnn")
    assert [run.folder for run in seconds] == [Path("runs/reviews-cnn-2")]
    assert sorted(os.listdir("runs")) == ["reviews-cnn", "reviews-cnn-2"]


def test_check_needs_data_too(expect_exit):
    expect_exit("check", "classify", says=("No data is named",))


@pytest.mark.parametrize("option", ["--length", "--vocabulary", "--classes"])
def test_inspect_wants_at_least_one_of_everything(option, expect_exit):
    expect_exit("inspect", "cnn", option, 0, says=(f"{option} is 0",))


# Requests ---------------------------------------------------------------------------------------------------


def test_a_request_needs_something_to_answer_for(expect_exit, runs):
    expect_exit("predict", runs / "single", says=("no text", "--input file.csv"))
    expect_exit("predict", runs / "single", "a film", "--input", "x.csv", says=("side by side",))
    expect_exit("evaluate", runs / "single", says=("No data", "seqlab evaluate"))


def test_pairs_and_single_texts_are_not_mixed_up(seqlab, expect_exit, runs, tmp_path):
    expect_exit("predict", runs / "pair", "a film", says=("reads pairs of texts", "tab"))
    expect_exit("predict", runs / "pair", "a film\tit was so", "a film", says=("reads pairs of texts", "tab"))
    expect_exit("predict", runs / "single", "a film\tit was so", says=("reads single texts",))
    expect_exit(
        "explain", runs / "pair", "a film", "--out", tmp_path / "map.html", says=("reads pairs of texts",)
    )
    expect_exit("evaluate", runs / "pair", runs / "single.csv", says=("single.csv", "text2"))
    code, _, err = seqlab("evaluate", runs / "single", runs / "pair.csv", "--json")
    assert code == 0, err  # a second text that the model does not read is just another column


def test_a_text_or_a_pair_without_a_list_is_one_text_not_its_letters(runs):
    single, pair = (seqlab_package.load(runs / name) for name in ("single", "pair"))
    both = ("a film", "it was so")
    assert single.predict("a film") == single.predict(["a film"])[0]
    assert single.embed("a film") == single.embed(["a film"])[0]
    assert single.predict(texts="a film") == single.predict("a film", {})
    assert pair.predict(both) == pair.predict([both])[0]
    assert pair.predict([both, both]) == [pair.predict(both)] * 2
    assert [len(single.predict(texts)) for texts in ([], ["a film"], ("a film",) * 3)] == [0, 1, 3]
    with pytest.raises(UserError, match="reads single texts"):
        single.predict(both)
    with pytest.raises(UserError, match="reads pairs of texts"):
        pair.predict("a film")


def test_evaluate_needs_labels_that_the_model_knows(expect_exit, runs, tmp_path):
    path = table(tmp_path, ROWS + "a film,mixed\n")
    expect_exit(
        "evaluate",
        runs / "single",
        path,
        says=("rows.csv:42", '"mixed"', "does not occur in the training data"),
    )
    path = table(tmp_path, "text\na film\nthe film\n")
    expect_exit("evaluate", runs / "single", path, says=("rows.csv", "label", "data.columns.label="))
    path = table(tmp_path, "text,label\n,good\n")
    expect_exit("evaluate", runs / "single", path, "data.on_bad=skip", says=("rows.csv", "no row to score"))


def test_answers_go_only_where_they_can(expect_exit, runs, tmp_path):
    run, rows = runs / "single", table(tmp_path, ROWS)
    expect_exit(
        "predict",
        run,
        "--input",
        rows,
        "--output",
        tmp_path / "a.xlsx",
        says=("a.xlsx", ".csv, .tsv or .jsonl"),
    )
    expect_exit(
        "predict", run, "--input", rows, "--output", tmp_path / "no" / "a.csv", says=("no folder", "mkdir -p")
    )
    expect_exit("predict", run, "--input", tmp_path / "none.csv", says=("none.csv", "no such file"))
    expect_exit(
        "explain",
        run,
        "a film",
        "--out",
        tmp_path / "map.pdf",
        says=("map.pdf", ".html, .png, .svg or .json"),
    )
    expect_exit(
        "explain",
        run,
        "a film",
        "--out",
        tmp_path / "no" / "map.html",
        says=("no folder", "mkdir -p"),
        why=False,
    )


def test_a_fault_in_the_middle_of_a_file_leaves_no_answers(expect_exit, runs, tmp_path):
    rows = table(tmp_path, ROWS + ",bad\n")
    says = ("rows.csv:42", "the text is empty")
    expect_exit("predict", runs / "single", "--input", rows, "--output", tmp_path / "a.csv", says=says)


def test_rows_with_other_keys_do_not_shift_the_columns_of_a_table(seqlab, expect_exit, runs, tmp_path):
    rows = table(tmp_path, '{"text": "a film", "id": 1}\n{"text": "the film"}\n', "rows.jsonl")
    code, _, err = seqlab("predict", runs / "single", "--input", rows, "--output", tmp_path / "a.csv")
    assert code == 0, err
    assert (tmp_path / "a.csv").read_text().splitlines()[2].startswith("the film,,")
    rows = table(tmp_path, '{"text": "a film"}\n{"text": "the film", "id": 1}\n', "rows.jsonl")
    expect_exit(
        "predict",
        runs / "single",
        "--input",
        rows,
        "--output",
        tmp_path / "b.csv",
        says=('"id"', "answers.jsonl"),
    )


# Run folders ------------------------------------------------------------------------------------------------

OF_A_RUN = ["config.yaml", "facts.json", "tokenizer.json", "model.safetensors"]


def test_a_run_that_is_not_there_is_told(expect_exit, runs, tmp_path):
    for verb in (
        ("predict", "FOLDER", "a film"),
        ("evaluate", "FOLDER", "x.csv"),
        ("explain", "FOLDER", "a film"),
    ):
        words = [tmp_path / "none" if word == "FOLDER" else word for word in verb]
        expect_exit(*words, says=("no run folder", "none"))
    for place in (tmp_path / "none", tmp_path, runs / "single.csv"):
        expect_exit("train", "--resume", place, says=("is not a run folder", "config.yaml"))


@pytest.mark.parametrize("file", OF_A_RUN)
@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "other bytes", "a folder"])
def test_a_damaged_run_folder_names_the_file(damage, file, expect_exit, run):
    path = run / file
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(
            {"empty": b"", "torn": content[: len(content) // 3], "other bytes": b"\x89PNG\r\n\x1a\n\xff"}[
                damage
            ]
        )
    expect_exit("predict", run, "a film", says=(file,), why=False)


@pytest.mark.parametrize("file", ["facts.json", "tokenizer.json", "model.safetensors"])
def test_a_file_of_another_run_does_not_fit(file, expect_exit, run, runs):
    shutil.copy(runs / "foreign" / file, run / file)
    expect_exit("predict", run, "a film", says=(file.split(".")[0],))


@pytest.mark.parametrize(("name", "change"), [
    ("single", {"labels": None}), ("single", {"symbols": {"text": "many"}}), ("single", {"pair": "perhaps"}),
    ("single", {"rows": 7}), ("number", {"mean": []}),
])  # fmt: skip
def test_facts_of_the_wrong_kind_are_damage(name, change, expect_exit, runs, tmp_path):
    """Those that every task has and those that a field learnt."""
    run = Path(shutil.copytree(runs / name, tmp_path / "copy"))
    path = run / "facts.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    expect_exit("predict", run, "a film", says=("facts.json is damaged", next(iter(change))))


def test_a_run_of_another_task_is_told(expect_exit, run):
    path = run / "facts.json"
    path.write_text(path.read_text().replace('"classify"', '"weave"'))
    expect_exit("predict", run, "a film", says=("facts.json", '"weave"'))
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("kind: classify", "kind: weave"))
    expect_exit("predict", run, "a film", says=("config.yaml", '"weave"', "classify"), why=False)


# Resuming ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(seqlab, reviews, tmp_path):
    """A run of 6 steps that was stopped before it wrote its scores."""
    code, _, err = seqlab(
        "train", "classify", reviews, "--model", "cnn", "--steps", 6, "--out", tmp_path / "run", *TINY
    )
    assert code == 0, err
    (tmp_path / "run" / "scores.json").unlink()
    return tmp_path / "run"


def test_resume_refuses_other_data(seqlab, expect_exit, stopped, reviews):
    whole = reviews.read_bytes()
    reviews.write_bytes(whole + b"one more film,good\n")
    expect_exit("train", "--resume", stopped, says=("has changed", "as they were"))
    reviews.unlink()
    expect_exit("train", "--resume", stopped, says=("reviews.csv", "no such file"))
    reviews.write_bytes(whole)
    assert seqlab("train", "--resume", stopped)[0] == 0


def test_resume_refuses_a_damaged_state(expect_exit, stopped):
    """Whichever file is cut short or missing; the weights of the run stay as they are."""
    weights = (stopped / "model.safetensors").read_bytes()
    for path in [*(stopped / "resume").glob("step-*/*"), stopped / "resume" / "manifest.json"]:
        content = path.read_bytes()
        for damage in (content[:-7], b"[]", None):
            path.write_bytes(damage) if damage is not None else path.unlink()
            if damage is None and path.name == "manifest.json":
                continue  # then there is no state, and the run starts anew: test_resume.py
            expect_exit("train", "--resume", stopped, says=("resume", "damaged", "Remove"))
        path.write_bytes(content)
    assert (stopped / "model.safetensors").read_bytes() == weights


def test_resume_refuses_another_model(expect_exit, stopped):
    path = stopped / "config.yaml"
    path.write_text(path.read_text().replace("width: 16", "width: 24"))
    expect_exit("train", "--resume", stopped, says=("does not fit", "config.yaml", "start a new run"))


# A machine that gives out -----------------------------------------------------------------------------------

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("save", range(1, 7))
def test_a_full_disk_while_saving_leaves_a_run_that_resumes(save, seqlab, reviews, tmp_path, monkeypatch):
    """Whichever save hits it: exit 3, no traceback, and the resumed run ends as the undisturbed one."""
    words = ["train", "classify", reviews, "--model", "cnn", "--steps", 4, *TINY]
    words += ["training.validations=2", "training.save_seconds=1e-9"]
    assert seqlab(*words, "--out", tmp_path / "whole")[0] == 0
    real, saves = checkpoint.save_file, iter(range(1, 1000))

    def full(tensors, path):
        if next(saves) == save:
            path.write_bytes(b"half of it")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    code, _, err = seqlab(*words, "--out", tmp_path / "run")
    assert code == 3 and "No space left on device" in err and "--resume" in err and "Traceback" not in err
    assert not list((tmp_path / "run").rglob("*.part"))

    code, _, err = seqlab("train", "--resume", tmp_path / "run")
    assert code == 0, err
    one, other = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert one == other


def test_a_full_disk_at_the_start_leaves_no_folder(seqlab, expect_exit, reviews, tmp_path, monkeypatch):
    words = ["train", "classify", reviews, "--model", "cnn", "--steps", 2, *TINY]
    assert seqlab(*words, "--out", tmp_path / "first")[0] == 0  # now the data is prepared

    def full(handle):
        raise FULL

    monkeypatch.setattr(os, "fsync", full)
    expect_exit(
        *words, "--out", tmp_path / "run", says=("could not be saved", "No space left on device"), code=3
    )
    assert not (tmp_path / "run").exists()


def test_a_full_disk_while_writing_answers_leaves_none(expect_exit, runs, tmp_path, monkeypatch):
    def full(handle):
        raise FULL

    monkeypatch.setattr(os, "fsync", full)
    says = ("a.csv could not be saved", "No space left on device")
    expect_exit(
        "predict",
        runs / "single",
        "--input",
        table(tmp_path, ROWS),
        "--output",
        tmp_path / "a.csv",
        says=says,
        code=3,
    )
    says = ("map.html could not be saved", "No space left on device")
    expect_exit("explain", runs / "single", "a film", "--out", tmp_path / "map.html", says=says, code=3)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: ..."
        ),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_no_memory_left_is_told_plainly(error, seqlab, runs, monkeypatch):
    def scores(*_):
        raise error

    monkeypatch.setattr(LabelAnswer, "outputs", scores)
    code, out, err = seqlab("predict", runs / "single", "a film")
    assert code == 3 and not out
    assert "no memory left" in err and "training.batch_tokens" in err and "Traceback" not in err


def test_a_defect_of_ours_keeps_its_traceback(seqlab, runs, monkeypatch):
    def scores(*_):
        raise RuntimeError("something else")

    monkeypatch.setattr(LabelAnswer, "outputs", scores)
    with pytest.raises(RuntimeError, match="something else"):
        seqlab("predict", runs / "single", "a film")
