"""Each verb, from file to answer, as a user types it."""

import json
import os
import time
from pathlib import Path

import pytest
import torch
from made import SMALL, opinions, write_table

from seqlab.run import load

PRESETS = [
    "bow",
    "rnn",
    "gru",
    "lstm",
    "bilstm",
    "cnn",
    "self-attentive",
    "han",
    "han-context",
    "transformer",
]
WIDTHS = {
    "bow": [], "han": ["model.input.inner.width=16", "model.input.encoder.width=8", "model.encoder.width=8"],
    "han-context": ["model.input.inner.width=16", "model.input.encoder.width=8", "model.input.width=8"],
}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_learns_from_a_table_and_answers_from_its_folder(preset, seqlab, reviews, tmp_path):
    """Train, predict, evaluate and explain; the folder is all that the last three get."""
    run = tmp_path / "run"
    settings = WIDTHS.get(preset, ["model.input.width=16"]) + SMALL[1:]
    code, out, err = seqlab(
        "train", "classify", reviews, "--model", preset, "--epochs", 10, "--out", run, *settings
    )
    assert code == 0, err
    assert "Next: seqlab predict" in out
    assert {path.name for path in run.iterdir()} >= {
        "config.yaml",
        "facts.json",
        "model.safetensors",
        "metrics.jsonl",
        "report.html",
        "README.md",
        "resume",
    }

    test = write_table(tmp_path / "test.csv", opinions(200, seed=1))
    code, out, err = seqlab("evaluate", run, test, "--json")
    scores = json.loads(out)
    assert code == 0 and scores["examples"] == 200
    accuracy = scores["metrics"]["accuracy"]
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"] and accuracy["unit"]
    assert accuracy["value"] >= 0.9, "one word decides the label: every model can learn it"

    code, out, err = seqlab("predict", run, "the film was superb", "the film was dull", "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["label"] for one in said] == ["good", "bad"]
    assert all(abs(sum(one["scores"].values()) - 1) < 1e-4 for one in said)

    code, out, err = seqlab("explain", run, "the film was superb", "--out", tmp_path / "map.json")
    tree = json.loads((tmp_path / "map.json").read_text())
    assert code == 0 and tree["label"] == "good" and tree["maps"]


def test_metrics_have_the_promised_keys(seqlab, reviews, tmp_path):
    code, _, err = seqlab(
        "train", "classify", reviews, "--model", "cnn", "--steps", 20, "--out", tmp_path / "run", *SMALL
    )
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 20
    for row in rows:
        assert {
            "step",
            "epoch",
            "seconds",
            "train_loss",
            "valid_loss",
            "valid_accuracy",
            "valid_f1",
        } <= row.keys()


def test_the_same_seed_gives_the_same_weights(seqlab, reviews, tmp_path):
    for name in ("a", "b"):
        seqlab(
            "train",
            "classify",
            reviews,
            "--model",
            "lstm",
            "--steps",
            15,
            "--seed",
            3,
            "--out",
            tmp_path / name,
            *SMALL,
        )
    seqlab(
        "train",
        "classify",
        reviews,
        "--model",
        "lstm",
        "--steps",
        15,
        "--seed",
        4,
        "--out",
        tmp_path / "c",
        *SMALL,
    )
    a, b, c = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert a == b != c


def test_a_settings_file_trains_the_same_as_the_words(seqlab, reviews, tmp_path):
    seqlab("train", "classify", reviews, "--model", "gru", "--steps", 10, "--out", tmp_path / "words", *SMALL)
    code, _, err = seqlab("train", tmp_path / "words" / "config.yaml", "--out", tmp_path / "file")
    assert code == 0, err
    one, other = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("words", "file")]
    assert one == other


def test_init_prints_a_file_that_trains(seqlab, reviews, tmp_path):
    _, text, _ = seqlab("init", "classify", "--model", "transformer")
    assert "# " in text
    (tmp_path / "run.yaml").write_text(text)
    words = [f"data.train={reviews}", "training.steps=3", *SMALL[:3]]
    code, _, err = seqlab("train", tmp_path / "run.yaml", "--out", tmp_path / "run", *words)
    assert code == 0, err


def test_a_number_is_predicted_as_a_number(seqlab, tmp_path):
    rows = [(text, str(3.0 if label == "good" else -1.0)) for text, label in opinions(500)]
    table = write_table(tmp_path / "stars.csv", rows)
    words = ["--model", "cnn", "--epochs", 12, "task.target=number", *SMALL]
    code, _, err = seqlab("train", "classify", table, "--out", tmp_path / "run", *words)
    assert code == 0, err
    _, out, _ = seqlab("predict", tmp_path / "run", "a superb story", "a dull story", "--json")
    high, low = [json.loads(line)["value"] for line in out.splitlines()]
    assert abs(high - 3) < 1 and abs(low + 1) < 1
    _, out, _ = seqlab("evaluate", tmp_path / "run", table, "--json")
    assert json.loads(out)["metrics"].keys() == {"mse", "mae", "r2"}


def test_a_pair_of_texts_gets_one_label(seqlab, tmp_path):
    """Label: do both texts have the same opinion? Only a model that sees both can know."""
    first, second = opinions(1500, seed=5), opinions(1500, seed=6)
    rows = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in zip(first, second, strict=True)]
    table = write_table(tmp_path / "pairs.csv", rows, ("text", "text2", "label"))
    settings = [
        *SMALL[1:3],
        "training.rate=0.005",
        "model.input.width=32",
        "model.input.dropout=0.1",
        "model.encoder.width=64",
    ]
    code, _, err = seqlab(
        "train", "classify", table, "--model", "bilstm", "--epochs", 14, "--out", tmp_path / "run", *settings
    )
    assert code == 0, err
    pairs = ["a superb film\tthe music was lovely", "a superb film\tthe music was dull"]
    _, out, _ = seqlab("predict", tmp_path / "run", *pairs, "--json")
    assert [json.loads(line)["label"] for line in out.splitlines()] == ["same", "other"]


def test_predict_keeps_the_columns_and_the_order_of_a_file(seqlab, reviews, tmp_path):
    seqlab("train", "classify", reviews, "--model", "cnn", "--epochs", 5, "--out", tmp_path / "run", *SMALL)
    rows = [(str(number), text) for number, (text, _) in enumerate(opinions(3000, seed=9))]
    table = write_table(tmp_path / "new.csv", rows, ("id", "text"))
    code, out, err = seqlab(
        "predict", tmp_path / "run", "--input", table, "--output", tmp_path / "answers.jsonl"
    )
    assert code == 0, err
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [row[0] for row in rows]
    assert {"text", "predicted_label", "predicted_score"} <= answers[0].keys()
    _, out, _ = seqlab("predict", tmp_path / "run", rows[7][1], "--json")
    assert json.loads(out)["label"] == answers[7]["predicted_label"]


def test_inspect_gives_the_worked_number(seqlab):
    """SPEC T3: 988,402 parameters, by formula and by count."""
    keys = [
        "model.input.width=200",
        "model.encoder.layers=4",
        "model.encoder.feed_forward=200",
        "model.encoder.norm=post",
    ]
    code, out, err = seqlab(
        "inspect", "transformer", "--task", "classify", "--vocabulary", 100, "--classes", 2, *keys, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["parameters"]["total"] == json.loads(out)["parameters"]["formula_total"] == 988_402


def test_inspect_reads_a_run_too(seqlab, reviews, tmp_path):
    seqlab("train", "classify", reviews, "--model", "cnn", "--steps", 2, "--out", tmp_path / "run", *SMALL)
    code, out, _ = seqlab("inspect", tmp_path / "run", "--json")
    parameters = json.loads(out)["parameters"]
    assert code == 0 and parameters["total"] == parameters["formula_total"]


def test_check_counts_and_finds_nothing_wrong(seqlab, reviews):
    code, out, err = seqlab("check", "classify", reviews)
    assert code == 0, err
    assert "600" in out and "good" in out and "bad" in out


def test_a_run_goes_into_a_numbered_folder_when_the_name_is_taken(seqlab, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert seqlab("train", "classify", "reviews.csv", "--model", "cnn", "--steps", 2, *SMALL)[0] == 0
    assert (tmp_path / "runs" / "reviews-cnn" / "model.safetensors").exists()
    assert (tmp_path / "runs" / "reviews-cnn-2" / "model.safetensors").exists()


def test_a_folder_is_named_after_the_model_that_was_chosen_for_the_user(
    seqlab, reviews, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert seqlab("train", "classify", "reviews.csv", "--steps", 2, *SMALL)[0] == 0
    assert seqlab("train", "runs/reviews-bilstm/config.yaml", "--steps", 2)[0] == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["reviews-bilstm", "reviews-lstm"]


def test_the_baseline_stands_beside_the_model(seqlab, reviews, tmp_path):
    settings = [setting for setting in SMALL if "baseline" not in setting]
    code, out, err = seqlab(
        "train", "classify", reviews, "--model", "cnn", "--epochs", 5, "--out", tmp_path / "run", *settings
    )
    assert code == 0, err
    assert "bow" in out and "majority" in out
    _, out, _ = seqlab("evaluate", tmp_path / "run", reviews, "--json")
    assert json.loads(out)["baselines"].keys() == {"majority", "bow"}


@pytest.mark.parametrize("task", ["classify", "generate"])
def test_every_file_of_a_run_is_as_open_as_the_umask_lets_it_be(task, seqlab, reviews, tmp_path):
    """With the baselines of these two, a bag of n-grams and counts of n-grams, and maps."""
    story = tmp_path / "story.txt"
    story.write_text("the cat sat on the mat.\n" * 200)
    before = os.umask(0o027)
    words = {
        "classify": [reviews, "--model", "self-attentive", *SMALL, "training.baseline=true"],
        "generate": [story, "--model", "transformer", "task.context=16", "model.decoder.width=16"],
    }  # fmt: skip
    try:
        code, _, err = seqlab("train", task, *words[task], "--steps", 3, "--out", tmp_path / "run")
        assert code == 0, err
        for ending in ("html", "json", "png"):
            place = tmp_path / "run" / f"map.{ending}"
            code, _, err = seqlab("explain", tmp_path / "run", "the film was the cat", "--out", place)
            assert code == 0, err
    finally:
        os.umask(before)
    found = (tmp_path / "run").rglob("*")
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in found}
    assert {str(path.parent) for path in modes} >= {"run", "run/baseline", "run/resume"}
    assert {path.suffix for path in modes} >= {".safetensors", ".html", ".json", ".png", ".jsonl", ".yaml"}
    wrong = {path: oct(mode) for path, mode in modes.items() if mode not in (0o640, 0o750)}
    assert not wrong and set(modes.values()) == {0o640, 0o750}


def test_check_names_the_columns_and_the_rows_that_leak(seqlab, tmp_path):
    rows = opinions(300)
    table = write_table(tmp_path / "train.csv", rows, ("review", "mood"))
    other = write_table(tmp_path / "test.csv", [*opinions(50, seed=8), *rows[:5]], ("review", "mood"))
    code, out, err = seqlab("check", "classify", table, "--test", other, "data.columns.label=mood")
    assert code == 0, err
    assert 'text is column "review", label is column "mood"' in out
    assert "rows of test are also in train" in out
    assert f"Next: seqlab train classify {table} --test {other} data.columns.label=mood" in out


def test_a_damaged_cache_is_made_again(seqlab, reviews, tmp_path):
    """Prepared data can be lost or cut short; it is only a copy of what the files say."""
    words = ["train", "classify", reviews, "--model", "cnn", "--steps", 5, *SMALL]
    assert seqlab(*words, "--out", tmp_path / "first")[0] == 0
    cache = Path(os.environ["SEQLAB_CACHE"])
    for path in [*cache.glob("stores/*/store.json"), *cache.glob("readings/*/tokenizer.json")]:
        path.write_bytes(path.read_bytes()[:-9])
    code, _, err = seqlab(*words, "--out", tmp_path / "second")
    assert code == 0, err
    first, second = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert first == second


def test_resume_takes_no_other_settings(seqlab, tmp_path):
    code, _, err = seqlab("train", "--resume", tmp_path, "--steps", 900)
    assert code == 2 and "training.steps" in err


def test_inspect_changes_the_parts_of_a_run(seqlab, reviews, tmp_path):
    seqlab("train", "classify", reviews, "--model", "lstm", "--steps", 2, "--out", tmp_path / "run", *SMALL)
    totals = []
    for keys in ([], ["model.encoder.layers=2"]):
        _, out, _ = seqlab("inspect", tmp_path / "run", *keys, "--json")
        totals.append(json.loads(out)["parameters"]["total"])
    assert totals[1] - totals[0] == 4 * 128 * (128 + 128 + 2), "one more LSTM layer of width 128"


def test_embed_gives_the_vector_that_the_head_reads(seqlab, reviews, tmp_path):
    seqlab("train", "classify", reviews, "--model", "lstm", "--epochs", 8, "--out", tmp_path / "run", *SMALL)
    _, out, _ = seqlab("predict", tmp_path / "run", "a superb film", "a dull film", "--embed", "--json")
    vectors = [json.loads(line)["vector"] for line in out.splitlines()]
    run = load(tmp_path / "run")
    scores = run.model.head(torch.tensor(vectors)).scores.softmax(dim=-1)
    said = run.predict(["a superb film", "a dull film"])
    for row, answer in zip(scores.tolist(), said, strict=True):
        assert row == pytest.approx([answer.scores[label] for label in run.answer.labels], abs=1e-5)


def test_a_baseline_that_would_eat_up_the_minutes_is_left_out(seqlab, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr("seqlab.baselines.bag.CHARACTERS_A_SECOND", 10)
    monkeypatch.setattr("seqlab.cli.STARTED", time.monotonic())
    words = [
        *(setting for setting in SMALL if "baseline" not in setting),
        "--minutes",
        0.25,
        "training.patience=1",
    ]
    code, out, err = seqlab("train", "classify", reviews, "--model", "cnn", "--out", tmp_path / "run", *words)
    assert code == 0, err
    assert "The baseline bow is left out" in err and "bow" not in out
    assert not (tmp_path / "run" / "baseline").exists()
