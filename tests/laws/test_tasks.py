"""What every task keeps, and every objective: stopping, batch-mates, files and folders change no answer."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import typing
from dataclasses import dataclass
from pathlib import Path

import made_series
import pytest
import torch
from made import opinions, write_pictures, write_table
from tones import words, write_clips

import seqlab as package
from seqlab import cli, session
from seqlab.data.shapes import scenes
from seqlab.errors import Stopped, UserError
from seqlab.run import Run
from seqlab.settings import TrainRequest, task_classes
from seqlab.tasks.pretrain import ObjectiveName
from seqlab.training.progress import Progress

SMALL = {"training.batch_tokens": 256, "training.rate": 0.01, "training.validations": 2, "training.steps": 12}
READS = {"model.input.width": 8, "model.encoder.width": 8}
LAYERS = {
    "model.input.width": 8,
    "model.encoder.heads": 2,
    "model.encoder.layers": 1,
    "model.encoder.feed_forward": 16,
}
BODY = {"heads": 2, "layers": 1, "feed_forward": 16}
WRITES = {"model.decoder.width": 8, **{f"model.decoder.body.{name}": value for name, value in BODY.items()}}
PIECES = {"data.tokens.vocabulary": 300, "task.context": 32}
APART = {"model.input.width": 8, "model.encoder.body.width": 8}


@dataclass(frozen=True)
class Case:
    """A small run of a task."""

    task: str
    preset: str
    data: str
    settings: dict[str, object]
    asked: tuple[typing.Any, ...]
    """Inputs of different lengths, some with what is given beside them; or tables, each with one answer."""

    @property
    def tables(self) -> bool:
        return "\n" in self.asked[0]


OPINIONS = ("a great film", "it was a dull and boring story. with music", "weak")
LINES = ("the cat", "the dog sat on the", "a")
BLANKS = ("the [MASK] sat", "a cat and a dog sat on the [MASK] today.", "the [MASK]")
SENTENCES = ("the cat", "Anna sat on the mat in Rome. Ben ran", "a")
VECTORS = ("1.0, 0.5", "0.5, 0.3", "2, 0.7")
CURVES = {
    "task.reads": "vector",
    "model.input.width": 8,
    "model.decoder.width": 8,
    "model.decoder.body.width": 8,
}
STEPS = tuple(", ".join(map(str, made_series.season(count, count))) for count in (20, 15, 30))
WAVES = tuple(" ".join(one.split(", ")[:count]) for one, count in zip(STEPS, (4, 20, 1), strict=True))
AHEAD = {"task.window": 14, "task.horizon": 5}
READS_SERIES = {
    "linear": {},
    **dict.fromkeys(("rnn", "gru", "lstm", "cnn"), READS),
    "transformer": LAYERS,
    "lstm-steps": READS | {"model.decoder.width": 8, "model.decoder.body.width": 8},
}
LEARNED = {"task.intervals": "learned", "task.trajectories": 20}
KNOWN_AHEAD = {"task.targets": "sales", "task.past": "visitors", "task.future": "holiday"}
SPELLING = {"model.input.words.width": 6, "model.input.inner.width": 4, "model.input.encoder.width": 4}
READS_TAGS = {
    "transformer": {f"model.encoder.{name}": value for name, value in BODY.items()},
    "cnn": {"model.encoder.width": 10, "model.encoder.layers": 1},
    **{name: {"model.encoder.width": 8} for name in ("rnn", "bilstm", "bilstm-crf")},
}


CASES = {
    "label": Case("classify", "bilstm", "labels", READS, OPINIONS),
    "number": Case("classify", "transformer", "numbers", LAYERS | {"task.target": "number"}, OPINIONS),
    "documents": Case(
        "classify", "han", "labels", {"model.input.inner.width": 8, "model.encoder.width": 8}, OPINIONS
    ),
    "grams": Case("classify", "bow", "labels", {}, OPINIONS),
    "written": Case(
        "translate",
        "lstm-attention",
        "pairs",
        READS | {"model.decoder.width": 8, "model.decoder.body.width": 8},
        LINES,
    ),
    "running": Case(
        "generate", "lstm", "text", {"model.decoder.width": 8, "model.decoder.body.width": 8}, LINES
    ),
    "rows": Case("generate", "transformer", "lines", WRITES, LINES),
    "causal": Case("pretrain", "gpt", "text", WRITES | PIECES, LINES),
    "masked": Case("pretrain", "roberta", "text", LAYERS | PIECES, BLANKS),
    "masked+next": Case("pretrain", "bert", "text", LAYERS | PIECES | {"model.head.hidden": [8]}, BLANKS),
    "blank": Case("pretrain", "blank-bilstm", "text", APART | PIECES, BLANKS),
    "both-ways": Case("pretrain", "elmo", "text", APART | PIECES, BLANKS),
    "denoise": Case("pretrain", "bart", "lines", LAYERS | WRITES | PIECES, BLANKS),
    **{
        f"tag {preset}": Case("tag", preset, "spans", SPELLING | READS_TAGS.get(preset, {}), SENTENCES)
        for preset in ("rnn", "bilstm", "bilstm-crf", "cnn", "transformer")
    },
    "tag constrained": Case(
        "tag",
        "bilstm-crf",
        "spans",
        SPELLING | READS_TAGS["bilstm-crf"] | {"model.places.constrain": True},
        SENTENCES,
    ),
    "tag speech": Case("tag", "bilstm", "speech", SPELLING | READS_TAGS["bilstm"], SENTENCES),
    "tag pieces": Case(
        "tag",
        "transformer",
        "spans",
        LAYERS | {"model.input.kind": "tokens", "data.tokens.kind": "bpe", "data.tokens.vocabulary": 300},
        SENTENCES,
    ),
    "tag number": Case(
        "tag", "bilstm", "each", SPELLING | READS_TAGS["bilstm"] | {"task.target": "number"}, SENTENCES
    ),
    "tag angle": Case(
        "tag", "cnn", "each", SPELLING | READS_TAGS["cnn"] | {"task.target": "angle"}, SENTENCES
    ),
    **{
        f"classify values {preset}": Case("classify", preset, "signals", READS_SERIES[preset], WAVES)
        for preset in ("rnn", "lstm", "cnn", "transformer")
    },
    **{
        f"forecast {preset}": Case("forecast", preset, "series", AHEAD | small, STEPS)
        for preset, small in READS_SERIES.items()
    },
    "forecast learned": Case(
        "forecast", "lstm-steps", "series", AHEAD | READS_SERIES["lstm-steps"] | LEARNED, STEPS
    ),
    "forecast gaussian": Case(
        "forecast", "gru", "series", AHEAD | READS | LEARNED | {"model.head.kind": "gaussian"}, STEPS
    ),
    **{
        f"forecast known ahead {preset}": Case(
            "forecast",
            preset,
            "dated",
            AHEAD | READS_SERIES[preset] | KNOWN_AHEAD,
            tuple(made_series.dated(steps, steps, ahead=5) for steps in (40, 25)),
        )
        for preset in ("linear", "gru", "lstm-steps")
    },
    "forecast several": Case(
        "forecast",
        "lstm",
        "several",
        AHEAD | READS,
        (made_series.long(30), made_series.long(20, ["south"]), made_series.long(30, ["west", "north"])),
    ),
    **{
        f"forecast vector {preset}": Case("forecast", preset, "curves", CURVES, VECTORS)
        for preset in ("lstm", "gru", "rnn")
    },
}


GRID = {"model.input.channels": [8, 8], "model.input.least": 4}
SCENES = tuple(str(path) for path in write_pictures(Path(tempfile.mkdtemp(prefix="seqlab-pictures-")), 60))
"""Names of pictures of different sizes and modes."""
SAYS = {"model.decoder.width": 8, "model.decoder.body.width": 8}
SHOWN = SCENES[:3]
CASES |= {
    "picture": Case("classify", "cnn", "pictures", GRID, SHOWN),
    "picture looked at": Case(
        "classify",
        "spatial",
        "pictures",
        GRID | {f"model.encoder.{name}": value for name, value in BODY.items()},
        SHOWN,
    ),
    "picture patches": Case(
        "classify",
        "cnn",
        "pictures",
        {
            "model.input": {"kind": "patches", "width": 8, "patch": 4, "positions": {"kind": "learned"}},
            "model.pool.kind": "attention",
        },
        SHOWN,
    ),
    "caption": Case("caption", "cnn-lstm-attention", "captions", GRID | SAYS, SHOWN),
    "caption by a transformer": Case("caption", "cnn-transformer", "captions", GRID | WRITES, SHOWN),
    "caption as translation": Case(
        "translate",
        "spatial-transformer",
        "captions",
        GRID | WRITES | {f"model.encoder.{name}": value for name, value in BODY.items()},
        SHOWN,
    ),
}


SUNG = words(80, 5, 2)
CLIPS = tuple(str(path) for path in write_clips(Path(tempfile.mkdtemp(prefix="seqlab-clips-")), SUNG))
"""Names of recordings of different lengths."""
HEARD = (CLIPS[0], max(CLIPS, key=len), min(CLIPS, key=len))
MASKS = {"data.sound.masks.times": 1, "data.sound.masks.bands": 1}
STACKED = {"model.encoder.encoders": [{"kind": "conv", "width": 8, "stride": 2}, {"kind": "gru", "width": 8}]}
GIVEN = {"task.given": "label", "model.input.width": 4}
VECTOR = {"task.given": "vector", "model.input.width": 4}
CASES |= {
    "sound cnn": Case("classify", "cnn", "clips", READS | MASKS, HEARD),
    "sound transformer": Case("classify", "transformer", "clips", LAYERS, HEARD),
    "sound written": Case(
        "translate", "gru-attention", "sung", {"model.input.width": 8} | STACKED | SAYS | MASKS, HEARD
    ),
    "sound written by a transformer": Case(
        "translate", "transformer", "sung", {"model.input.width": 8} | STACKED | WRITES, HEARD
    ),
    "given label": Case(
        "generate", "gru", "labels", GIVEN | SAYS, tuple(zip(LINES, ("good", "bad", "good"), strict=True))
    ),
    "given label transformer": Case(
        "generate",
        "transformer",
        "labels",
        GIVEN | WRITES,
        tuple(zip(LINES, ("good", "bad", "good"), strict=True)),
    ),
    "given vector": Case(
        "generate",
        "cnn",
        "vectors",
        VECTOR | SAYS,
        tuple(zip(LINES, ("0.1, 3", "2, 1.5", "0, 0"), strict=True)),
    ),
}


def test_no_task_and_no_objective_is_left_out():
    assert {case.task for case in CASES.values()} == set(task_classes())
    assert set(typing.get_args(ObjectiveName)) <= set(CASES)


def tagged(count: int, kind: str) -> str:
    """Sentences about people and towns, a line a word, with a tag or a number for each."""
    draw = random.Random(3)
    blocks = []
    for _ in range(count):
        person, town = draw.choice(["Anna Lee", "Ben", "Cleo"]), draw.choice(["Rome", "New York"])
        words = [("the", "O", "DET"), (draw.choice(["cat", "dog"]), "O", "NOUN"), ("sat", "O", "VERB")]
        for some, type in ((person, "PER"), (town, "LOC")):
            words.append((draw.choice(["by", "in"]), "O", "ADP"))
            words += [(one, f"{'I' if n else 'B'}-{type}", "NOUN") for n, one in enumerate(some.split())]
        said = {"spans": 1, "speech": 2}
        rows = [(one[0], one[said[kind]] if kind in said else f"{7.5 * len(one[0])}") for one in words]
        blocks.append("".join("\t".join(row) + "\n" for row in rows[draw.randrange(3) :]))
    return "\n".join(blocks)


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    animal, place = (lambda: draw.choice(["cat", "dog", "cow"])), (lambda: draw.choice(["mat", "hat", "car"]))
    return [
        f"the {animal()} sat on the {place()}. a {animal()} ran to the {place()} today." for _ in range(count)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    """A file of each kind to learn from."""
    folder = tmp_path_factory.mktemp("data")
    rows = opinions(160)
    text = folder / "text.txt"
    text.write_text(
        "".join(
            f"{line}\n\n" if number % 4 == 3 else f"{line}\n" for number, line in enumerate(sentences(200, 0))
        )
    )
    turned = [(line, " ".join(reversed(line.split()))) for line in sentences(160, 1)]
    seen = [(name, one) for name, one in zip(SCENES, scenes(60, 7), strict=True)]
    captions = [{"image": name, "captions": [one.caption, f"{one.caption} ."]} for name, one in seen]
    return {
        "labels": write_table(folder / "labels.csv", rows),
        "numbers": write_table(folder / "numbers.csv", [(one, str(len(one.split()))) for one, _ in rows]),
        "pairs": write_table(folder / "pairs.csv", turned, ("source", "target")),
        "lines": write_table(folder / "lines.csv", [(line,) for line in sentences(200, 2)], ("text",)),
        "text": text,
        "pictures": write_table(
            folder / "pictures.csv", [(name, one.first.colour) for name, one in seen], ("image", "label")
        ),
        "captions": write_text(
            folder / "captions.jsonl", "".join(json.dumps(one) + "\n" for one in captions)
        ),
        "clips": write_table(
            folder / "clips.csv",
            [(path, str("a" in text)) for path, text in zip(CLIPS, SUNG, strict=True)],
            ("sound", "label"),
        ),
        "sung": write_table(folder / "sung.csv", list(zip(CLIPS, SUNG, strict=True)), ("sound", "target")),
        "vectors": write_table(
            folder / "vectors.csv",
            [(one, f"{one.count('o')}, {len(one.split())}") for one, _ in rows],
            ("text", "values"),
        ),
        "curves": write_text(folder / "curves.jsonl", made_series.curves()),
        **{kind: write_text(folder / f"{kind}.conll", tagged(160, kind)) for kind in TAGGED},
        **{kind: write_text(folder / f"{kind}.csv", make()) for kind, make in SERIES.items()},
    }


TAGGED = ("spans", "speech", "each")
SERIES = {
    "series": made_series.plain,
    "dated": made_series.dated,
    "several": made_series.long,
    "signals": made_series.signals,
}


def write_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def train(case: Case, data: dict[str, Path], folder: Path) -> Run:
    settings = {"data.train": (str(data[case.data]),), **SMALL, **case.settings}
    return session.train_anew(
        TrainRequest(task=case.task, preset=case.preset, overrides=settings),
        folder,
        Progress(quiet=True),
        0.0,
    )


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """The run of each case, trained when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))

        def run(name: str) -> Run:
            if name not in made:
                made[name] = train(CASES[name], data, folder / name)
            return made[name]

        yield run


def told(answers) -> list[dict]:
    return [answer.to_json() for answer in answers]


def assert_alike(one, two) -> None:
    """Equal but for the last digits of numbers."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_alike(one[key], two[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            assert_alike(left, right)
    elif isinstance(one, float):
        assert one == pytest.approx(two, rel=1e-4, abs=1e-5)
    else:
        assert one == two


def command(capsys, monkeypatch, *words: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["seqlab", *map(str, words)])
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    caught = capsys.readouterr()
    return code, caught.out, caught.err


EVERY = pytest.mark.parametrize("name", CASES)
GREEDY = {"decode.sample": False, "decode.temperature": 1.0}


def said(run: Run, case: Case, asked, folder: Path) -> list:
    """What a run says of some inputs, as predict --json tells it."""
    if not case.tables:
        return told(run.predict(list(asked), GREEDY))
    files = [write_text(folder / f"table-{place}.csv", one) for place, one in enumerate(asked)]
    tables = [run.rows(str(file), labelled=False) for file in files]
    return [told(answer for _, answer in run.answer_rows(rows)) for rows in tables]


def from_files(run: Run, case: Case, folder: Path, capsys, monkeypatch) -> list:
    """The same from the command line. Of a series there are the next steps, a line each."""
    words = [f"{key}={value}" for key, value in GREEDY.items()]

    def lines(file: Path) -> list[dict]:
        code, out, err = command(
            capsys, monkeypatch, "predict", run.folder, "--input", file, "--json", *words
        )
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    if case.tables:
        return [lines(write_text(folder / "table.csv", one)) for one in case.asked]
    if run.reads.roles():
        rows = [one if isinstance(one, tuple) else (one,) for one in case.asked]
        names = [role.name for field in run.fields for role in field.roles()][: len(rows[0])]
        return lines(write_table(folder / "asked.csv", rows, tuple(names)))
    found = []
    for one in case.asked:
        steps = lines(write_table(folder / "asked.csv", [(step,) for step in one.split(", ")], ("load",)))
        names = {"values": "load", "low": "load_low", "high": "load_high"}
        found.append({name: [step[column] for step in steps] for name, column in names.items()})
    return found


@EVERY
def test_a_folder_answers_as_the_run_that_was_trained(name, runs, tmp_path):
    """From another place, with nothing else of the first."""
    run = runs(name)
    shutil.copytree(run.folder, tmp_path / "elsewhere")
    again = package.load(tmp_path / "elsewhere")
    case = CASES[name]
    assert said(again, case, case.asked, tmp_path) == said(run, case, case.asked, tmp_path)


@EVERY
def test_alone_in_a_batch_and_from_a_file_the_answer_is_the_same(name, runs, tmp_path, capsys, monkeypatch):
    run, case = runs(name), CASES[name]
    together = said(run, case, case.asked, tmp_path)
    assert_alike(together, [said(run, case, [one], tmp_path)[0] for one in case.asked])
    if not case.tables:
        assert_alike(together[0], run.predict(case.asked[0], GREEDY).to_json())
    assert_alike(together, from_files(run, case, tmp_path, capsys, monkeypatch))


@EVERY
def test_stopped_and_resumed_it_ends_as_if_it_had_not_been(name, runs, data, tmp_path, monkeypatch):
    whole, inner, steps = runs(name), session.Training.take_step, 0

    def stopping(training):
        nonlocal steps
        steps += training.folder == tmp_path / "stopped"
        if steps == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        inner(training)

    monkeypatch.setattr(session.Training, "take_step", stopping)
    with pytest.raises(Stopped):
        train(CASES[name], data, tmp_path / "stopped")
    resumed = session.resume(tmp_path / "stopped", Progress(quiet=True), 0.0)
    assert steps > 5
    other = resumed.model.state_dict()
    assert all(torch.equal(tensor, other[key]) for key, tensor in whole.model.state_dict().items())
    stored = [json.loads((run.folder / "scores.json").read_text()) for run in (whole, resumed)]
    assert stored[0]["metrics"] == stored[1]["metrics"] and stored[0].get("baselines") == stored[1].get(
        "baselines"
    )


@EVERY
def test_the_maps_of_an_explanation_fit_its_pieces(name, runs):
    if CASES[name].tables:
        with pytest.raises(UserError, match="--input FILE"):
            runs(name).explain(CASES[name].asked[1])
        return
    found = runs(name).explain(CASES[name].asked[1])
    if name == "denoise":
        assert found.maps[0].kind == "alignment"
    assert found.maps
    for one in found.maps:
        if one.kind == "document":
            assert len(one.weights) == len(one.sentences) == len(one.words)
            assert all(
                len(pieces) == len(weights) for pieces, weights in zip(one.sentences, one.words, strict=True)
            )
        else:
            assert one.weights.shape[-1] == len(one.pieces)
        if one.kind in ("alignment", "matrix"):
            assert one.weights.sum(axis=-1) == pytest.approx(1.0, abs=1e-4)
        if one.kind == "alignment":
            assert one.weights.shape[-2] == len(one.written)


@EVERY
def test_what_a_run_is_promised_to_have_is_there(name, runs, data, capsys, monkeypatch):
    run, case = runs(name), CASES[name]
    for file in (
        "config.yaml",
        "facts.json",
        "model.safetensors",
        "metrics.jsonl",
        "scores.json",
        "report.html",
        "README.md",
    ):
        assert (run.folder / file).stat().st_size > 0
    words = run.task.words(run.answer)
    assert words.purpose in (run.folder / "README.md").read_text().replace("\\", "")
    logged = run.history()[-1]
    assert {"step", "epoch", "seconds", "train_loss", "valid_loss"} <= logged.keys()
    assert any(metric.key in logged for metric in run.answer.metrics)

    code, out, err = command(capsys, monkeypatch, "inspect", run.folder, "--json")
    parameters = json.loads(out)["parameters"]
    assert code == 0 and parameters["total"] == parameters["formula_total"], err
    code, out, err = command(capsys, monkeypatch, "init", case.task, "--model", case.preset)
    assert code == 0 and f"kind: {case.task}" in out, err
    code, out, err = command(capsys, monkeypatch, "evaluate", run.folder, data[case.data], "--json")
    scores = json.loads(out)
    assert code == 0 and list(scores["metrics"]) == [metric.name for metric in run.answer.metrics], err
    for score in scores["metrics"].values():
        assert (
            score.keys() == {"value", "low", "high", "unit"}
            and score["low"] <= score["value"] <= score["high"]
        )
    assert scores["task"] == case.task and scores["examples"] > 0 and scores["baselines"]


@EVERY
def test_a_row_that_is_at_fault_is_told_with_its_line(name, data, tmp_path, capsys, monkeypatch):
    """A byte that is no text, in the middle of a file."""
    case = CASES[name]
    lines = data[case.data].read_bytes().split(b"\n")
    lines[20] = b"the \xff cat"
    broken = tmp_path / f"broken{data[case.data].suffix}"
    broken.write_bytes(b"\n".join(lines))
    told = {key: value for key, value in case.settings.items() if key.startswith(("task.", "model."))}
    words = ["--model", case.preset, *(f"{key}={value}" for key, value in told.items())]
    code, _, err = command(capsys, monkeypatch, "train", case.task, broken, "--out", tmp_path / "run", *words)
    assert code == 2 and f"{broken}:21" in err, err
    assert not (tmp_path / "run").exists()


@EVERY
def test_what_is_asked_for_and_not_there_is_refused_in_words(name, runs):
    run, asked = runs(name), CASES[name].asked[0]
    for ask in (run.embed, run.score):
        try:
            assert ask(asked.replace("[MASK]", "cat") if isinstance(asked, str) else asked) is not None
        except UserError as error:
            assert error.what and error.why and error.fix


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_microscope_looks_into_every_run(name, runs, data, capsys, monkeypatch):
    """Norms for each layer that is recurrent or attends to its own input; and in the report."""
    run, case = runs(name), CASES[name]
    code, out, err = command(
        capsys, monkeypatch, "inspect", run.folder, "--gradients", data[case.data], "--json"
    )
    assert code == 0, err
    tree = json.loads(out)["gradients"]
    modules = [module for module in run.model.modules() if isinstance(module, torch.nn.RNNBase)]
    recurrent = [layer for layer in tree["layers"] if layer["kind"] != "self-attention"]
    assert len(recurrent) == len(modules)
    for layer in tree["layers"]:
        norms = layer.get("norms", [0.0])
        assert all(norm is not None and norm >= 0 for norm in norms) and len(layer.get("lags", [1])) == len(
            norms
        )
        assert all(0 <= share <= 1 for gate in layer["gates"].values() for share in gate.values())
    steps = json.loads((run.folder / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    assert tree["clipped"]["steps"] == steps and 0 <= tree["clipped"]["clipped"] <= steps
    told = "How far back gradients reach" in (run.folder / "report.html").read_text()
    assert told == any("norms" in layer for layer in tree["layers"])
