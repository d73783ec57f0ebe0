"""Text for a label or a vector, from the command line and from Python; and what is wrong with them."""

from __future__ import annotations

import json
import random

import pytest
from made import write_table

import seqlab as package

SMALL = [
    "--steps", "30", "training.validations=1", "training.batch_tokens=512", "training.rate=0.01",
    "model.decoder.width=12", "model.decoder.body.width=16", "model.decoder.body.layers=1",
]  # fmt: skip
SAYS = {"sunny": ["sun", "joy", "wine"], "rainy": ["fog", "mud", "ash"], "mixed": ["tree", "road", "hill"]}


def rows(count, seed=0):
    draw = random.Random(seed)
    labels = draw.choices(list(SAYS), k=count)
    return [(" ".join(draw.choices(SAYS[label], k=draw.randint(2, 5))), label) for label in labels]


@pytest.fixture
def says(tmp_path):
    return write_table(tmp_path / "says.csv", rows(240))


@pytest.fixture
def trained(seqlab, says, tmp_path):
    def train(*more, data=says, given="label", model="gru", name="run"):
        code, _, err = seqlab(
            "train", "generate", data, f"task.given={given}", "--model", model, "--out", tmp_path / name,
            *SMALL, *more,
        )  # fmt: skip
        assert code == 0, err
        return tmp_path / name

    return train


def test_a_label_is_given_on_the_command_line_and_in_python(seqlab, trained):
    folder = trained()
    code, out, err = seqlab("predict", folder, "--given", "sunny")
    assert code == 0 and out.strip() and "--given sunny" in err
    code, out, _ = seqlab("predict", folder, "fog", "--given", "rainy", "--json")
    assert code == 0 and json.loads(out)["text"].startswith("fog")
    code, out, _ = seqlab("predict", folder, "--given", "sunny", "--given", "rainy", "--json")
    both = [json.loads(line)["text"] for line in out.splitlines()]
    run = package.load(folder)
    assert code == 0 and both == [one.text for one in run.predict(["", ""], given=["sunny", "rainy"])]
    assert run.predict("", given="sunny").text == both[0] == run.predict([("", "sunny")])[0].text
    assert "".join(run.stream("", given="sunny")) == both[0]


def test_what_is_given_decides_what_is_likely_and_what_is_explained(seqlab, trained, tmp_path):
    folder = trained("--steps", "60")
    run = package.load(folder)
    right, wrong = (run.score("sun joy wine", given=label).bits_per_character for label in ("sunny", "rainy"))
    assert right < wrong
    logs = run.score_texts(["sun joy", "fog mud"], given=["sunny", "rainy"])
    assert logs[0] > run.score_texts(["sun joy"], given="rainy")[0]
    code, out, _ = seqlab("predict", folder, "sun joy wine", "--given", "sunny", "--score", "--json")
    assert code == 0 and json.loads(out)["bits_per_character"] == pytest.approx(right, abs=1e-6)
    for label in ("sunny", "rainy"):
        code, _, err = seqlab(
            "explain", folder, "sun joy", "--given", label, "--out", tmp_path / f"{label}.json"
        )
        assert code == 0, err
    maps = [json.loads((tmp_path / f"{label}.json").read_text())["maps"] for label in ("sunny", "rainy")]
    assert sum(maps[0][0]["weights"]) < sum(maps[1][0]["weights"])


def test_evaluate_says_what_the_label_is_worth(seqlab, trained, says):
    folder = trained()
    code, out, err = seqlab("evaluate", folder, says, "--json")
    assert code == 0, err
    metrics = json.loads(out)["metrics"]
    code, _, err = seqlab("evaluate", folder, says)
    assert code == 0 and '"the" --given' in err, err
    assert list(metrics) == ["bpc", "perplexity", "bpc_misled"]
    assert metrics["bpc"]["value"] < metrics["bpc_misled"]["value"]
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert "valid_bpc" in last and "valid_bpc_misled" not in last
    grams = json.loads((folder / "scores.json").read_text())["baselines"]
    assert all(one["bpc"]["value"] == one["bpc_misled"]["value"] for one in grams.values())
    report = (folder / "report.html").read_text()
    assert "Given “sunny”, at temperature 0.5" in report and "bits per character, misled" in report


def test_rows_of_a_file_bring_what_they_are_given(seqlab, trained, says, tmp_path):
    folder = trained()
    asked = write_table(tmp_path / "asked.csv", [("sun", "sunny"), ("fog", "rainy")])
    code, _, err = seqlab("predict", folder, "--input", asked, "--output", tmp_path / "told.csv")
    assert code == 0, err
    told = (tmp_path / "told.csv").read_text().splitlines()
    assert told[0] == "text,label,generated" and told[1].startswith("sun,sunny,sun")
    code, _, err = seqlab("predict", folder, "--input", asked, "--given", "sunny")
    assert code == 2 and "side by side" in err
    wrong = write_table(tmp_path / "wrong.csv", [("sun", "sunny"), ("fog", "stormy")])
    for words in (("predict", folder, "--input", wrong), ("evaluate", folder, wrong)):
        code, _, err = seqlab(*words)
        assert code == 2 and '"stormy" does not occur in the training data' in err, err


def test_what_can_not_be_given_is_refused_with_what_can(seqlab, trained, tmp_path):
    folder = trained()
    code, _, err = seqlab("predict", folder, "--given", "suny")
    assert code == 2 and 'Did you mean "sunny"?' in err and '"mixed", "rainy", "sunny"' in err
    code, _, err = seqlab("predict", folder, "sun")
    assert code == 2 and "No label is given" in err and "--given" in err
    code, _, err = seqlab("predict", folder, "a", "b", "c", "--given", "sunny", "--given", "rainy")
    assert code == 2 and "2 labels are given for 3 texts" in err
    lines = tmp_path / "lines.csv"
    write_table(lines, [(text,) for text, _ in rows(200)], ("text",))
    code, _, err = seqlab("train", "generate", lines, "--model", "gru", "--out", tmp_path / "plain", *SMALL)
    code, _, err = seqlab("predict", tmp_path / "plain", "--given", "sunny")
    assert code == 2 and "Leave --given out" in err


def test_what_contradicts_what_is_given_is_told_before_training(seqlab, says, tmp_path):
    text = tmp_path / "book.txt"
    text.write_text("the cat sat on the mat.\n" * 200)
    code, _, err = seqlab("train", "generate", text, "task.given=label", "--out", tmp_path / "run")
    assert code == 2 and "one running text" in err
    code, _, err = seqlab("train", "generate", says, "task.given=tag", "--out", tmp_path / "run")
    assert code == 2 and "task.given" in err
    same = write_table(tmp_path / "same.csv", [(text, "x") for text, _ in rows(60)])
    code, _, err = seqlab("train", "generate", same, "task.given=label", "--out", tmp_path / "run")
    assert code == 2 and "every row has the same label" in err and "task.given" in err
    wrong = ["task.given=label", "model.input.kind=tokens", "--model", "gru", "--out", tmp_path / "run"]
    code, _, err = seqlab("train", "generate", says, *wrong)
    assert code == 2 and "an input of kind label reads it" in err, err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wide", [True, False])
def test_a_vector_stands_in_columns_or_in_a_list(wide, seqlab, trained, tmp_path):
    places = {"sunny": (1.0, 0.5), "rainy": (0.0, 0.5), "mixed": (0.5, 1.5)}
    made = [(text, *places[label]) for text, label in rows(240)]
    if wide:
        data = write_table(tmp_path / "v.csv", made, ("text", "warm", "dry"))
    else:
        data = tmp_path / "v.jsonl"
        lines = [json.dumps({"text": text, "vector": [one, two]}) for text, one, two in made]
        data.write_text("\n".join(lines) + "\n")
    folder = trained("model.decoder.context=start", "--steps", "60", data=data, given="vector", model="lstm")
    code, out, err = seqlab("predict", folder, "--given", "1, 0.5", "--json")
    assert code == 0, err
    run = package.load(folder)
    assert run.predict([""], given=[1.0, 0.5])[0].text == json.loads(out)["text"]
    right, wrong = (run.score("sun joy wine", given=one).bits_per_character for one in ([1, 0.5], [0, 0.5]))
    assert right < wrong
    for given, told in (("1, 2, 3", "The vector has 3 numbers"), ("one", "This is no vector")):
        code, _, err = seqlab("predict", folder, "--given", given)
        assert code == 2 and told in err and "--given" in err
    assert '"bpc_misled"' in (folder / "scores.json").read_text()


def test_vectors_of_different_lengths_are_told_with_their_row(seqlab, tmp_path):
    data = tmp_path / "v.jsonl"
    lines = [json.dumps({"text": text, "vector": [1.0, 2.0]}) for text, _ in rows(60)]
    lines[6] = json.dumps({"text": "sun", "vector": [1.0, 2.0, 3.0]})
    data.write_text("\n".join(lines) + "\n")
    code, _, err = seqlab("train", "generate", data, "task.given=vector", "--out", tmp_path / "run")
    assert code == 2 and f"{data}:7" in err and "3 numbers" in err, err


def test_check_tells_of_both_sides(seqlab, says):
    code, out, err = seqlab("check", "generate", says, "task.given=label")
    assert code == 0 and "3 labels" in out and "characters" in out, out + err
