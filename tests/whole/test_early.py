"""Mistakes that need no torch are told without importing it, in the words of the whole check."""

import dataclasses
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from made import opinions, write_table

from seqlab import early, schema, session
from seqlab.errors import UserError
from seqlab.request import Request
from seqlab.settings import Settings

TASKS = schema.stored()["tasks"]
LIMIT = 1.0
"""Seconds of CPU time: twice what is promised, because the machine that tests may be a slow one; torch takes
more."""
MAIN = """
import sys
from seqlab.cli import main
try:
    main()
finally:
    print("torch is imported:", "torch" in sys.modules)
"""
MISTAKES = {
    "no such file": "train classify nowhere.csv",
    "a file that is nearly there": "train classify review.csv",
    "a folder for a file": "train classify empty",
    "no such pattern": "train classify none-*.csv",
    "one of several files": "train classify reviews.csv nowhere.csv",
    "one of two sides": "train translate a.en,b.fr",
    "three sides": "train translate a.en,a.fr,a.en",
    "no such validation data": "train classify reviews.csv --valid nowhere.csv",
    "no such test data": "train classify reviews.csv data.test=nowhere.csv",
    "no such file in a settings file": "train data.yaml",
    "no data": "train generate",
    "no data to check": "check classify",
    "no such file to check": "check generate nowhere.txt",
    "an unknown task": "train clasify reviews.csv",
    "an unknown task in a settings file": "train task.yaml reviews.csv",
    "an unknown task to print": "init clasify",
    "an unknown preset": "train classify reviews.csv --model bilstn",
    "an unknown preset of another task": "train generate reviews.csv --model bilstm",
    "an unknown preset to print": "init translate --model bilstm",
    "a misspelt key": "train classify reviews.csv training.stepz=5",
    "a misspelt key of a part": "train classify reviews.csv --model bilstm model.encoder.widht=5",
    "a key of another kind": "train classify reviews.csv --model cnn model.encoder.directions=both",
    "a key far below": "train pretrain reviews.csv --model gpt model.decoder.body.positions.lenght=5",
    "a misspelt group": "train classify reviews.csv trainig.steps=5",
    "a key without its group": "train classify steps=5",
    "a misspelt key in a settings file": "train keys.yaml reviews.csv",
    "a group that is none": "train group.yaml reviews.csv",
    "an unknown kind": "train classify reviews.csv model.encoder.kind=lstn",
    "an unknown kind for short": "train classify reviews.csv model.encoder=lstn",
    "a value of the wrong type": "train classify reviews.csv training.steps=many",
    "a number out of range": "train classify reviews.csv --steps 0",
    "several mistakes": (
        "train classify reviews.csv training.rate=fast training.stepz=3 model.pool=med data.lenght=3"
    ),
    "a misspelt key beside others that are right": (
        "train classify reviews.csv --steps 5 --seed 2 training.rat=0.1"
    ),
    "a misspelt key beside a contradiction": (
        "train classify reviews.csv --steps 5 --epochs 2 training.rat=0.1"
    ),
    "a value that fits the kind of the preset alone": (
        "train pretrain reviews.csv --model bert model.encoder.kind=rnn"
    ),
    "no such settings file": "train none.yaml",
    "broken YAML": "train broken.yaml",
    "no run to start from": "train classify reviews.csv --from nowhere",
    "a folder to start from": "train classify reviews.csv --from empty",
    "a misspelt key beside a run to start from": "train classify reviews.csv --from run training.stepz=5",
    "no run to resume": "train --resume nowhere",
    "a folder to resume": "train --resume empty",
    "settings beside --resume": "train --resume run training.steps=5",
    "an --out that is there": "train classify reviews.csv --out empty",
    "an --out inside a file": "train classify reviews.csv --out reviews.csv/run",
    "no run to predict with": "predict nowhere text",
    "a folder to predict with": "predict empty text",
    "no such file to predict for": "predict run --input nowhere.csv",
    "no run to evaluate": "evaluate nowhere reviews.csv",
    "a folder to evaluate": "evaluate empty reviews.csv",
    "no such file to evaluate on": "evaluate run nowhere.csv",
    "another setting than was trained with": "predict run --input reviews.csv task.target=number",
    "another size than was trained with": "evaluate run reviews.csv model.input.width=16",
    "a misspelt key to evaluate with": "evaluate run reviews.csv data.columms.text=2",
    "no run to explain": "explain nowhere text",
    "half a run": "explain half text",
    "nothing to inspect": "inspect nowhere",
    "a folder to inspect": "inspect empty",
    "a misspelt key to inspect": "inspect bilstm model.encoder.widht=5",
    "a misspelt key of a run to inspect": "inspect run model.encoder.widht=5",
    "an unknown name among several to inspect": "inspect lstm lsmt",
    "a range of lengths that goes down": "inspect lstm --length 9..3",
    "a page that is none": "inspect lstm --out page.pdf",
}  # fmt: skip
SETTINGS_FILES = {
    "data.yaml": "task: classify\ndata: {train: nowhere.csv}\n",
    "task.yaml": "task: {kind: clasify}\n",
    "keys.yaml": "task: translate\nmodel: {decoder: {kind: attending, atend: late}}\ntraining: {stepz: 4}\n",
    "group.yaml": "task: classify\ntransfer: run\n",
    "broken.yaml": "task:\n  kind: classify\n model: [\n",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, settings, a run, half a run and an empty folder."""
    folder = tmp_path_factory.mktemp("early")
    table = write_table(folder / "reviews.csv", opinions(40))
    for name in ("a.en", "a.fr"):
        (folder / name).write_text("one line\n")
    for name, text in SETTINGS_FILES.items():
        (folder / name).write_text(text)
    small = {"model.input.width": 8, "training.baseline": False, "training.threads": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        run = folder / "run"
        session.train("classify", str(table), model="cnn", steps=1, out=run, settings=small, quiet=True)
    (folder / "empty").mkdir()
    (folder / "half").mkdir()
    (folder / "half" / "config.yaml").write_bytes((folder / "run" / "config.yaml").read_bytes())
    return folder


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_without_torch_in_the_words_of_the_whole_check(mistake, place, seqlab, monkeypatch):
    monkeypatch.chdir(place)
    words = MISTAKES[mistake].split()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", MAIN, *words], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    code, out, err = seqlab(*words)  # torch is there, so this is the whole check
    print(f"{seconds:.2f} s of CPU: seqlab {MISTAKES[mistake]}")
    told = "".join(line for line in err.splitlines(keepends=True) if not line.startswith("Reading "))
    assert (code, out) == (2, "") and told
    assert (done.returncode, done.stderr) == (2, told)
    assert done.stdout == "torch is imported: False\n"
    assert seconds < LIMIT


ACCEPTED = {
    "a file": ["reviews.csv"],
    "a pattern": ["rev*.csv"],
    "several files": ["reviews.csv", "a.en"],
    "two sides": ["a.en,a.fr"],
    "standard input": ["-"],
}


def refused(check, *given) -> str:
    """What a check of early.py has against this; empty: it is let through."""
    try:
        check(*given)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("data", ACCEPTED)
def test_data_of_every_sort_is_let_through_and_not_read(data, place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "stdin", None)
    names = {"data.train": tuple(ACCEPTED[data]), "data.valid": ("a.en",)}
    request = Request(task="classify", overrides=names)
    assert refused(early.train.__wrapped__, request, "new") == ""
    assert refused(early.check.__wrapped__, request) == ""
    assert refused(early.use.__wrapped__, "run", ACCEPTED[data]) == ""


def test_a_settings_file_of_a_run_is_let_through(place, monkeypatch):
    monkeypatch.chdir(place)
    tree = yaml.safe_load(Path("run/config.yaml").read_text())
    assert refused(early.train.__wrapped__, Request(tree=tree), "") == ""
    assert refused(early.train.__wrapped__, Request(tree=tree, preset="lstm", task="classify"), "") == ""
    assert refused(early.resume.__wrapped__, "run") == ""
    changed = {"model.encoder.kind": "lstm", "model.encoder.directions": "both"}
    assert refused(early.inspect.__wrapped__, "run", "", changed) == ""
    assert refused(early.inspect.__wrapped__, "run/config.yaml", "", {}) == ""


def test_what_a_run_decides_is_left_to_the_whole_check(place, monkeypatch):
    """With --from the model is that of the run, so that no key of it is known to be wrong."""
    monkeypatch.chdir(place)
    given = {"data.train": ("reviews.csv",), "transfer.start": "run"}
    given |= {"model.encoder.kernel": 3, "data.tokens.folder": "x"}
    assert refused(early.train.__wrapped__, Request(task="classify", overrides=given), "") == ""
    misspelt = given | {"training.stepz": 5}  # told with what may be wrong below the model, all at once
    assert refused(early.train.__wrapped__, Request(task="classify", overrides=misspelt), "") == ""


@pytest.mark.parametrize("task", TASKS)
def test_every_preset_is_let_through(task, place, monkeypatch):
    monkeypatch.chdir(place)
    about = TASKS[task]
    for number, (reads, presets) in enumerate(about["presets"].items()):
        told = {f"task.{about['choice']}": reads} if number else {}
        for preset in ("", *presets):
            request = Request(task=task, preset=preset, overrides={"data.train": ("reviews.csv",)} | told)
            assert refused(early.train.__wrapped__, request, "") == ""
            assert refused(early.init.__wrapped__, Request(task=task, preset=preset, overrides=told)) == ""
            if preset:
                assert refused(early.inspect.__wrapped__, preset, task, told) == ""


def test_nothing_is_told_early_where_torch_is_there_already(place):
    """Somebody may have registered a task that settings.json does not know."""
    assert refused(early.train, Request(task="of mine"), "") == ""
    assert refused(early.use, str(place / "nowhere")) == ""
    assert "nowhere" in refused(early.use.__wrapped__, str(place / "nowhere"))  # without torch it is told


def test_the_schema_of_the_settings_is_printed_for_editors(seqlab):
    code, out, _ = seqlab("schema")
    tree = json.loads(out)
    assert code == 0 and set(tree) == {"$schema", "$ref", "$defs"}
    assert list(tree["$defs"]["Settings"]["properties"]) == [
        field.name for field in dataclasses.fields(Settings)
    ]
    steps = tree["$defs"]["TrainConfig"]["properties"]["steps"]
    assert {"type": "integer", "exclusiveMinimum": 0} in steps["anyOf"]
    assert "optimiser steps" in steps["description"]
