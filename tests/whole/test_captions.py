"""Captions from files to answers: what is read, written, drawn and refused on the command line."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made import write_pictures, write_table
from PIL import Image

from seqlab.data.shapes import scenes, write_scenes
from seqlab.errors import UserError
from seqlab.session import train

SMALL = {
    "model.input.channels": [8, 8],
    "model.input.least": 4,
    "model.decoder.width": 8,
    "model.decoder.body.width": 8,
    "training.batch_tokens": 512,
    "training.rate": 0.01,
}


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """A run, and the folder of its data: a table with lists of captions beside a folder of pictures."""
    folder = tmp_path_factory.mktemp("captions")
    write_pictures(folder / "images", 60)
    rows = [
        {"image": f"{number}.png", "captions": [scene.caption, "two shapes <b>"]}
        for number, scene in enumerate(scenes(60, 7))
    ]
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        run = train(
            "caption", str(folder / "table.jsonl"), steps=40, out=folder / "run", settings=SMALL, quiet=True
        )
        yield run, folder


def test_every_caption_is_learnt_from_and_every_picture_scored_once(described):
    run, _ = described
    scores = json.loads((run.folder / "scores.json").read_text())
    assert scores["examples"] == run.facts.rows["valid"] and run.facts.rows["train"] < 60
    assert list(scores["metrics"]) == ["bleu", "cider", "chrf", "bleu3", "bleu2", "bleu1"]
    assert scores["signatures"]["bleu"].endswith("|n:1-4") and scores["signatures"]["bleu1"].endswith(
        "|n:1-1"
    )
    assert set(scores["baselines"]) == {"commonest caption", "nearest colour"}
    assert scores["baselines"]["commonest caption"]["bleu1"]["value"] > 50  # "two shapes <b>" is a reference
    assert not run.facts.learnt["image_flips"]  # captions say left


def test_the_report_shows_pictures_and_what_users_wrote_as_text(described):
    run, _ = described
    page = (run.folder / "report.html").read_text()
    assert page.count('<img class="picture" src="data:image/png;base64,') > 2
    assert "two shapes &lt;b&gt;" in page and "shapes <b>" not in page
    assert "seqlab explain . picture.png" in (run.folder / "README.md").read_text()


def test_it_is_asked_with_files_arrays_and_tables(described, seqlab):
    run, folder = described
    picture = folder / "images" / "3.png"
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    by_name, by_array, by_image = (
        run.predict([one])[0].text for one in (str(picture), pixels, Image.open(picture))
    )
    assert by_name == by_array == by_image == run.predict(picture).text
    code, out, err = seqlab("predict", run.folder, picture, "--json")
    assert code == 0 and json.loads(out) == run.predict(picture).to_json(), err
    code, out, err = seqlab("predict", run.folder, "--input", folder / "images", "--json")
    assert code == 0 and len(out.splitlines()) == 60, err
    table = folder / "said.csv"
    code, out, err = seqlab("predict", run.folder, "--input", folder / "table.jsonl", "--output", table)
    assert code == 0 and table.read_text().startswith("image,captions,caption,caption_score"), err


def test_other_pictures_are_found_beside_their_table_or_where_told(described, tmp_path, seqlab):
    run, folder = described
    code, out, err = seqlab("evaluate", run.folder, folder / "table.jsonl", "--json")
    assert code == 0, err
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        for path in (folder / "images").iterdir():
            archive.write(path, path.name)
    (tmp_path / "t.jsonl").write_text((folder / "table.jsonl").read_text())
    (tmp_path / "pictures.zip").rename(tmp_path / "away")
    code, _, err = seqlab("evaluate", run.folder, tmp_path / "t.jsonl")
    assert code == 2 and "t.jsonl:1" in err and "data.images=FOLDER" in err, err
    (tmp_path / "away").rename(tmp_path / "pictures.zip")
    words = ["evaluate", run.folder, tmp_path / "t.jsonl", f"data.images={tmp_path / 'pictures.zip'}"]
    code, again, err = seqlab(*words, "--json")
    assert code == 0 and json.loads(again)["metrics"] == json.loads(out)["metrics"], err


def test_each_word_has_a_map_over_the_picture(described, tmp_path, seqlab):
    run, folder = described
    picture = folder / "images" / "3.png"
    for ending in ("html", "png", "json"):
        code, _, err = seqlab("explain", run.folder, picture, "--out", tmp_path / f"map.{ending}")
        assert code == 0, err
    [one] = json.loads((tmp_path / "map.json").read_text())["maps"]
    height, width = one["grid"]
    weights = np.array(one["weights"])  # H U Y·X
    assert weights.shape == (1, len(one["written"]), height * width)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert one["pieces"][:2] == ["1,1", "2,1"] and len(one["pieces"]) == height * width
    page = (tmp_path / "map.html").read_text()
    assert '"over":"picture"' in page and f'"grid":[{height},{width}]' in page
    assert (
        page.count("data:image/png;base64,") == 3
    )  # as it was read, below where it looked, and what it adds
    with Image.open(tmp_path / "map.png") as drawn:
        assert drawn.width > 500
    told = run.explain(str(picture), target="a red circle")
    assert [piece.strip() for piece in told.maps[0].written] == ["red", "circle", "[EOS]"]
    code, _, err = seqlab("explain", run.folder, f"{picture}\ta red circle", "--out", tmp_path / "own.json")
    assert code == 0 and json.loads((tmp_path / "own.json").read_text()) == told.to_json() | {
        "text": str(picture)
    }, err


def test_a_run_reads_pictures_as_it_was_trained_to(described, seqlab):
    run, folder = described
    picture = folder / "images" / "3.png"
    code, _, err = seqlab("predict", run.folder, picture, "data.image.size=8")
    assert code == 2 and "data.image.size is 8, but the run was trained with null" in err, err
    code, _, err = seqlab("predict", run.folder, picture, "data.image.most_pixels=100000")
    assert code == 0, err
    code, _, err = seqlab("predict", run.folder, f"{picture}\ta red circle")
    assert code == 2 and "Give them one by one" in err, err


def test_a_model_without_attention_says_so(described, tmp_path):
    _, folder = described
    run = train(
        "caption",
        str(folder / "table.jsonl"),
        model="cnn-lstm",
        steps=4,
        out=tmp_path / "run",
        settings=SMALL,
        quiet=True,
    )
    assert run.predict(folder / "images" / "3.png").text is not None
    with pytest.raises(UserError, match="no attention between what it reads"):
        run.explain(folder / "images" / "3.png")


def test_pictures_in_arrays_and_a_caption_a_row(tmp_path, monkeypatch):
    """Rows with the same picture are one item with several references; splits have arrays of their own."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    train_file = write_scenes(tmp_path, "train", scenes(40, 0) + scenes(10, 0))
    valid, test = (
        write_scenes(tmp_path, name, scenes(8, seed)) for seed, name in ((1, "valid"), (2, "test"))
    )
    run = train(
        "caption",
        str(train_file),
        valid=str(valid),
        test=str(test),
        steps=4,
        out=tmp_path / "run",
        settings=SMALL | {"data.image.flip": True},
        quiet=True,
    )
    assert run.facts.rows == {"train": 50, "valid": 8, "test": 8} and run.facts.learnt["image_flips"]
    assert run.evaluate(str(train_file)).examples == 40
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "rows.jsonl").write_text(test.read_text())
    told = run.evaluate(str(other / "rows.jsonl"), {"data.images": str(tmp_path / "test.npz")})
    assert told.metrics == run.evaluate(str(test)).metrics


def test_the_settings_file_of_the_documents_trains(tmp_path, monkeypatch, seqlab):
    document = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    [settings] = re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)
    (tmp_path / "run.yaml").write_text(settings)
    for seed, split in enumerate(("train", "test")):
        write_scenes(tmp_path, split, scenes(40, seed))
    monkeypatch.chdir(tmp_path)
    code, _, err = seqlab("train", "run.yaml", "--steps", "2", "--out", "run")
    assert code == 0 and (tmp_path / "run" / "report.html").exists(), err


# At fault ---------------------------------------------------------------------------------------------------


@pytest.fixture()
def table(tmp_path):
    """A table of captions, and the pictures beside it."""
    write_pictures(tmp_path, 12)
    rows = [(f"{number}.png", f"a thing {number}") for number in range(12)]
    return write_table(tmp_path / "table.csv", rows, ("image", "caption"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:150])


def enlarge(path: Path) -> None:
    Image.new("1", (9_000, 9_000)).save(path)


FAULTS = {
    "missing": (lambda folder: (folder / "4.png").unlink(), "4.png: there is no such file"),
    "cut off": (lambda folder: cut(folder / "4.png"), "4.png is damaged or cut off"),
    "a text": (lambda folder: (folder / "4.png").write_text("hello"), "4.png is not a picture"),
    "empty": (lambda folder: (folder / "4.png").write_bytes(b""), "4.png is empty"),
    "a bomb": (lambda folder: enlarge(folder / "4.png"), "9,000 × 9,000 pixels, more than"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_picture_at_fault_is_told_with_its_row(name, table, seqlab):
    harm, told = FAULTS[name]
    harm(table.parent)
    code, _, err = seqlab("train", "caption", table, "--out", table.parent / "run")
    assert code == 2 and f"{table}:6" in err and told in err and "data.on_bad=skip" in err
    assert not (table.parent / "run").exists()
    code, out, _ = seqlab("check", "caption", table)
    assert code == 2 and f"{table}:6" in out and told in out


def test_an_empty_caption_is_told_with_its_row(table, seqlab):
    table.write_text(table.read_text().replace("a thing 4", " "))
    code, _, err = seqlab("train", "caption", table, "--out", table.parent / "run")
    assert code == 2 and f"{table}:6: the caption" in err and "empty" in err
    lists = table.with_suffix(".jsonl")
    rows = [
        {"image": f"{number}.png", "captions": ["one", "" if number == 4 else "two"]} for number in range(12)
    ]
    lists.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = seqlab("train", "caption", lists, "--out", table.parent / "run")
    assert code == 2 and f"{lists}:5: caption 2 of 2 is empty" in err


def test_without_pillow_it_says_what_to_type(table, seqlab, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    code, _, err = seqlab("train", "caption", table, "--out", table.parent / "run")
    assert code == 2 and 'pip install "seqlab[image]"' in err


@pytest.mark.parametrize(("reads", "metric"), [("image", "errors"), ("text", "cider"), ("sound", "bleu")])
def test_a_metric_of_other_texts_is_refused(reads, metric, table, seqlab):
    words = ["train", "translate", table, "--out", table.parent / "run", f"task.metric={metric}"]
    code, _, err = seqlab(*words, f"task.reads={reads}")
    assert code == 2 and f"task.metric is {metric}, but what is read is {reads}" in err, err


def test_an_input_of_another_kind_is_refused(table, seqlab):
    words = ["train", "caption", table, "--out", table.parent / "run", "model.input.kind=tokens"]
    code, _, err = seqlab(*words)
    assert code == 2 and "model.input is of kind tokens" in err and "model.input.kind=grid" in err
