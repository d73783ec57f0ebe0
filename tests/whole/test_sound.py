"""The command line with recordings: what is wrong with them is told, and what is said of them is drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made import write_table
from tones import RATE, packed, words, write_clips

import seqlab as package

QUICK = [
    "--steps", "6", "training.validations=1", "training.batch_tokens=512", "model.input.width=8",
    "model.encoder.width=8",
]  # fmt: skip
TEXTS = words(60, 4, 0)


@pytest.fixture
def clips(tmp_path):
    """A table with a recording in each row, a folder of them by label, and all in one .npz."""
    paths = write_clips(tmp_path / "clips", TEXTS)
    labels = ["high" if text[0] in "de" else "low" for text in TEXTS]
    for path, label in zip(paths, labels, strict=True):
        folder = tmp_path / "by_label" / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    packed(tmp_path / "clips.npz", TEXTS, 0, pitch=labels, text=TEXTS)
    rows = [(f"clips/{path.name}", label) for path, label in zip(paths, labels, strict=True)]
    return write_table(tmp_path / "clips.csv", rows, ("audio", "label"))


def test_a_table_a_folder_and_an_npz_are_known_by_a_look_at_them(seqlab, clips, tmp_path):
    for data, column in ((clips, []), (tmp_path / "by_label", []), (tmp_path / "clips.npz", ["pitch"])):
        named = [f"data.columns.label={name}" for name in column]
        code, out, err = seqlab("check", "classify", data, *named)
        assert code == 0 and "60 recordings" in out and "8,000 samples a second" in out, out + err
        run = tmp_path / f"run-{data.name}"
        code, out, err = seqlab("train", "classify", data, "--model", "gru", "--out", run, *QUICK, *named)
        assert code == 0, err
        assert json.loads((run / "facts.json").read_text())["sound_rate"] == RATE


def test_what_was_heard_is_predicted_explained_and_reported(seqlab, clips, tmp_path):
    code, _, err = seqlab("train", "classify", clips, "--model", "lstm", "--out", tmp_path / "run", *QUICK)
    assert code == 0, err
    asked = next((tmp_path / "clips").glob("7-*"))
    code, out, _ = seqlab("predict", tmp_path / "run", asked, "--json")
    assert code == 0 and set(json.loads(out)["scores"]) == {"high", "low"}
    run = package.load(tmp_path / "run")
    samples, rate = soundfile.read(asked, dtype="float32")
    assert run.predict([(samples, rate)])[0].to_json() == json.loads(out)
    for ending in ("html", "png", "svg", "json"):
        out = tmp_path / f"map.{ending}"
        code, _, err = seqlab("explain", tmp_path / "run", asked, "--out", out)
        assert code == 0 and out.stat().st_size > 1000, err
    page = (tmp_path / "map.html").read_text()
    assert '"over":"time"' in page and '"signed":true' in page and "data:image/png;base64," in page
    report = (tmp_path / "run" / "report.html").read_text()
    assert report.count('"over":"time"') >= 2 and 'class="picture"' in report
    told = tmp_path / "told.csv"
    code, out, err = seqlab("predict", tmp_path / "run", "--input", tmp_path / "clips", "--output", told)
    assert code == 0 and len(told.read_text().splitlines()) == 61, err


def test_what_is_drawn_is_escaped(seqlab, clips, tmp_path):
    seqlab("train", "classify", clips, "--model", "lstm", "--out", tmp_path / "run", *QUICK)
    nasty = tmp_path / "<b>&.wav"
    nasty.write_bytes(next((tmp_path / "clips").glob("7-*")).read_bytes())
    code, _, err = seqlab("explain", tmp_path / "run", nasty, "--out", tmp_path / "map.html")
    assert code == 0, err
    page = (tmp_path / "map.html").read_text()
    assert "<b>&" not in page and "&lt;b&gt;&amp;.wav" in page


def test_recordings_at_fault_are_told_with_file_and_row_and_nothing_is_written(seqlab, clips, tmp_path):
    soundfile.write(tmp_path / "clips" / "empty.wav", np.zeros(0), RATE)
    (tmp_path / "clips" / "broken.wav").write_bytes(b"RIFF????WAVEnothing more")
    whole = next((tmp_path / "clips").glob("3-*")).read_bytes()
    (tmp_path / "clips" / "cut.wav").write_bytes(whole[: len(whole) // 2])
    lines = clips.read_text().splitlines()
    for name in ("empty", "broken", "cut", "missing"):
        clips.write_text("\n".join([*lines[:20], f"clips/{name}.wav,low", *lines[20:]]) + "\n")
        code, _, err = seqlab("train", "classify", clips, "--out", tmp_path / "run")
        assert code == 2 and f"{clips}:21" in err and f"{name}.wav" in err and len(err.splitlines()) >= 3, err
        assert not (tmp_path / "run").exists()
        code, out, _ = seqlab("check", "classify", clips)
        assert code == 2 and f"{clips}:21" in out
        code, out, err = seqlab("check", "classify", clips, "data.on_bad=skip")
        assert code == 0 and "60 recordings" in out, out + err


def test_what_is_asked_and_can_not_be_heard_is_told(seqlab, clips, tmp_path):
    seqlab("train", "classify", clips, "--model", "lstm", "--out", tmp_path / "run", *QUICK)
    code, _, err = seqlab("evaluate", tmp_path / "run", clips, "data.sound.bands=20")
    assert code == 2 and "data.sound.bands is 20, but the run was trained with 40" in err, err
    code, _, err = seqlab("predict", tmp_path / "run", "one.wav\tone")
    assert code == 2 and "Give them one by one" in err, err
    (tmp_path / "text.wav").write_text("hello")
    for name, told in (("text.wav", "can't be read as sound"), ("none.wav", "There is no file")):
        code, _, err = seqlab("predict", tmp_path / "run", tmp_path / name)
        assert code == 2 and told in err and len(err.splitlines()) >= 3, err


def test_a_silent_recording_is_worth_a_warning(seqlab, clips, tmp_path):
    soundfile.write(tmp_path / "clips" / "silent.wav", np.zeros(2000), RATE)
    with clips.open("a") as file:
        file.write("clips/silent.wav,low\n")
    code, out, err = seqlab("check", "classify", clips)
    assert code == 0 and f"{clips}:62: train: 1 of the recordings are silent" in out, out + err


def test_what_is_hidden_while_training_is_never_hidden_when_asked(seqlab, clips, tmp_path):
    """With the masks wide open a run learns something else, and still answers alike each time."""
    masks = ["data.sound.masks.times=3", "data.sound.masks.share=0.9", "data.sound.masks.bands=2"]
    runs = {}
    for name, more in (("plain", []), ("masked", masks), ("again", masks)):
        out = tmp_path / name
        assert seqlab("train", "classify", clips, "--model", "lstm", "--out", out, *QUICK, *more)[0] == 0
        run = package.load(out)
        asked = [str(path) for path in sorted((tmp_path / "clips").glob("*.wav"))[:3]]
        runs[name] = [one.to_json() for one in run.predict(asked)]
        assert runs[name] == [one.to_json() for one in run.predict(asked)]
    assert runs["masked"] == runs["again"] != runs["plain"]


def test_a_changed_recording_is_other_data(seqlab, clips, tmp_path):
    """The table that names it stays as it is."""
    code, _, err = seqlab("train", "classify", clips, "--model", "lstm", "--out", tmp_path / "one", *QUICK)
    assert code == 0, err
    first = next((tmp_path / "clips").glob("0-*"))
    first.write_bytes(next((tmp_path / "clips").glob("1-*")).read_bytes())
    seqlab("train", "classify", clips, "--model", "lstm", "--out", tmp_path / "two", *QUICK)
    prints = [
        json.loads((tmp_path / run / "facts.json").read_text())["fingerprint"] for run in ("one", "two")
    ]
    assert prints[0] != prints[1]


def test_speech_is_written_down_with_its_error_rates(seqlab, clips, tmp_path):
    quick = [one for one in QUICK if "encoder" not in one]
    code, _, err = seqlab(
        "train", "translate", tmp_path / "clips.npz", "--model", "lstm-attention", "--out", tmp_path / "run",
        "model.decoder.width=8", "model.decoder.body.width=8", *quick,
    )  # fmt: skip
    assert code == 0, err
    code, out, _ = seqlab("evaluate", tmp_path / "run", tmp_path / "clips.npz", "--json")
    assert code == 0 and list(json.loads(out)["metrics"]) == ["cer", "wer", "sequence_error_rate"]
    asked = next((tmp_path / "clips").glob("7-*"))
    code, out, _ = seqlab("predict", tmp_path / "run", asked, "--json")
    assert code == 0 and set(json.loads(out)) == {"text", "score"}
    code, _, err = seqlab("explain", tmp_path / "run", asked, "--out", tmp_path / "map.html")
    assert code == 0, err
    page = (tmp_path / "map.html").read_text()
    assert '"over":"time"' in page and "alignment" in page


def test_the_settings_file_of_the_page_about_sound_trains(seqlab, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "sound.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    paths = write_clips(tmp_path / "clips", TEXTS)
    rows = [(f"clips/{path.name}", text) for path, text in zip(paths, TEXTS, strict=True)]
    write_table(tmp_path / "train.csv", rows, ("sound", "text"))
    (tmp_path / "run.yaml").write_text(shown)
    monkeypatch.chdir(tmp_path)
    quick = [one for one in QUICK if one.startswith("training.")]
    code, _, err = seqlab("train", "run.yaml", "--steps", "4", "--out", "run", *quick)
    assert code == 0 and "reads: sound" in (tmp_path / "run" / "config.yaml").read_text(), err
