"""seqlab tag from files to answers: what it reads, what it refuses, what it says and shows."""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path

import pytest

import seqlab as library
from seqlab.errors import UserError

PEOPLE = ("Anna Lee", "Ben", "Cleo Ray")
TOWNS = ("Rome", "New York", "Oslo")
SMALL = {
    "model.input.words.width": 12,
    "model.input.inner.width": 8,
    "model.input.encoder.width": 8,
    "model.encoder.width": 16,
    "training.batch_tokens": 256,
    "training.rate": 0.01,
    "training.threads": 1,
}
KEYS = [f"{key}={value}" for key, value in SMALL.items()]


def sentences(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Who sat where: names of people and towns are spans of one word or two."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        words = [(word, "O") for word in draw.choice(["then", "and so", "later on"]).split()]
        for said, names, type in (("", PEOPLE, "PER"), ("went to", TOWNS, "LOC")):
            words += [(word, "O") for word in said.split()]
            words += [
                (word, f"{'I' if number else 'B'}-{type}")
                for number, word in enumerate(draw.choice(names).split())
            ]
        made.append([*words, (".", "O")])
    return made


def as_conll(rows) -> str:
    return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in row) for row in rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tag")
    (folder / "train.conll").write_text(as_conll(sentences(240)))
    (folder / "test.conll").write_text(as_conll(sentences(40, 1)))
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        files = str(data / "train.conll"), str(data / "test.conll")
        return library.train(
            "tag", files[0], test=files[1], epochs=12, out=data / "run", settings=SMALL, quiet=True
        )


# Learning ---------------------------------------------------------------------------------------------------


def test_spans_are_learnt_and_beat_the_commonest_tags(run, data):
    """The same words are always the same, so both can be nearly right; the model is right outright."""
    scores = run.evaluate(str(data / "test.conll"))
    assert list(scores.metrics) == ["f1", "precision", "recall", "accuracy"]
    assert scores.metrics["f1"].value > 0.9
    assert {one.label for one in scores.per_class} == {"PER", "LOC"}
    assert sum(one.examples for one in scores.per_class) == 2 * 40
    assert all(one.interval[0] <= one.f1 <= one.interval[1] for one in scores.per_class)
    assert (
        "its 95 % interval" in str(scores) and "its 95 % interval" in (run.folder / "README.md").read_text()
    )
    assert scores.examples == 40 and list(scores.baselines) == ["commonest tag"]


def test_the_same_sentences_as_lists_and_as_text_score_the_same(run, data, tmp_path):
    """jsonl with lists, a table with lists, and a table with words between spaces."""
    wanted = run.evaluate(str(data / "test.conll")).to_json()["metrics"]
    rows = [([word for word, _ in row], [tag for _, tag in row]) for row in sentences(40, 1)]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"tokens": words, "tags": tags}) + "\n" for words, tags in rows)
    )
    for name, shown in (("b.csv", json.dumps), ("c.csv", " ".join)):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "ner"), *((shown(one), shown(two)) for one, two in rows)])
    for name in ("a.jsonl", "b.csv", "c.csv"):
        assert run.evaluate(str(tmp_path / name)).to_json()["metrics"] == wanted, name


# Answers ----------------------------------------------------------------------------------------------------


def test_raw_text_is_cut_and_places_in_it_are_told(run):
    text = "and so Anna Lee went to New York."
    said = run.predict(text).to_json()
    assert said["tokens"] == ["and", "so", "Anna", "Lee", "went", "to", "New", "York", "."]
    assert said["tags"] == ["O", "O", "B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"]
    assert [text[start:end] for start, end in said["offsets"]] == said["tokens"]
    assert said["spans"] == [
        {"start": 2, "end": 4, "type": "PER", "text": "Anna Lee"},
        {"start": 6, "end": 8, "type": "LOC", "text": "New York"},
    ]


def test_words_that_came_apart_are_answered_for_as_they_are(run):
    [said] = run.predict([["then", "Ben", "went", "to", "Oslo", "."]])
    assert said.tokens[1] == "Ben" and said.tags[1] == "B-PER" and said.offsets is None
    assert run.predict('["then", "Ben"]').tokens == ("then", "Ben")
    with pytest.raises(UserError, match="neither a text nor a list of words"):
        run.predict([[1, 2]])
    with pytest.raises(UserError, match="no token"):
        run.predict(["  "])


def test_columns_are_kept_and_predictions_added(run, data, tmp_path, seqlab):
    """As a CoNLL file, whose predictions can be scored in turn; and as tables."""
    for ending in ("conll", "jsonl", "csv", "tsv"):
        out = tmp_path / f"out.{ending}"
        code, _, err = seqlab("predict", run.folder, "--input", data / "test.conll", "--output", out)
        assert code == 0, err
    lines = (tmp_path / "out.conll").read_text().split("\n")
    original = (data / "test.conll").read_text().split("\n")
    assert [line.rpartition("\t")[0] for line in lines if line] == [line for line in original if line]
    assert run.evaluate(str(tmp_path / "out.conll")).metrics["f1"].value == 1.0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 40 and len(rows[0]["column1"]) == len(rows[0]["predicted_tags"])
    with (tmp_path / "out.csv").open(newline="") as file:
        assert json.loads(next(csv.DictReader(file))["predicted_tags"]) == rows[0]["predicted_tags"]


def test_lines_of_text_are_answered_for(run, tmp_path, seqlab):
    (tmp_path / "some.txt").write_text("then Ben went to Oslo.\nlater on Anna Lee\n")
    code, out, _ = seqlab("predict", run.folder, "--input", tmp_path / "some.txt")
    assert code == 0 and out.splitlines()[0].startswith("then/O Ben/B-PER went/O")
    code, _, _ = seqlab(
        "predict", run.folder, "--input", tmp_path / "some.txt", "--output", tmp_path / "o.conll"
    )
    assert (tmp_path / "o.conll").read_text().startswith("then\tO\nBen\tB-PER\n")


def test_what_is_shown_is_escaped_and_coloured(data, tmp_path, monkeypatch):
    """Words and tags of a user are text, wherever a page has them."""
    rows = [[("<b>x</b>", "O"), ("&amp;", "B-<i>")] for _ in range(20)]
    rows += [[("<b>x</b>", "B-<i>"), (f"w{number}", "O")] for number in range(30)]
    (tmp_path / "odd.conll").write_text(as_conll(rows))
    made = library.train(
        "tag", str(tmp_path / "odd.conll"), steps=2, out=tmp_path / "run", settings=SMALL, quiet=True
    )
    page = (made.folder / "report.html").read_text()
    assert "<b>x</b>" not in re.sub(r"<b>&lt;b&gt;x", "", page) and "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<i>B-<i>" not in page and 'class="wrong"' in page
    made.explain(["<b>x</b>", "<i>"]).save(tmp_path / "map.html")
    assert "<b>x</b>" not in (tmp_path / "map.html").read_text()


def test_each_answer_is_explained_by_the_words_it_looked_at(run, tmp_path):
    found = run.explain("then Ben went to Oslo.")
    [one] = found.maps
    assert found.method == "gradient × input" and one.kind == "hops" and one.signed
    assert one.weights.shape == (6, 6) and one.written[1] == "Ben → B-PER"
    for ending in ("html", "png", "json"):
        assert found.save(tmp_path / f"map.{ending}").stat().st_size > 0
    assert abs(one.weights[1]).argmax() == 1  # a name is known by itself


def test_the_settings_file_of_the_document_trains(data, tmp_path, seqlab, monkeypatch):
    """The YAML block of docs/tag.md, as it stands."""
    document = (Path(__file__).parents[2] / "docs" / "tag.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(.*?)```", document, flags=re.DOTALL)
    (tmp_path / "names.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("train", "test"):
        (tmp_path / f"{name}.conll").write_text((data / f"{name}.conll").read_text())
    code, out, err = seqlab(
        "train",
        "names.yaml",
        "--out",
        "run",
        "training.epochs=null",
        "training.steps=2",
        "training.threads=1",
    )
    assert code == 0 and "span F1" in out, err


# Mistakes ---------------------------------------------------------------------------------------------------


FAULTS = {
    "a tag is missing": ("then\tO\nBen\n", 2, "this line has 1 column, but the file has 2"),
    "illegal BIO": ("then\tO\nBen\tI-PER\n", 2, 'the tag "I-PER" can\'t stand after "O"'),
    "another type goes on": ("Ben\tB-PER\nLee\tI-LOC\n", 2, '"I-LOC" can\'t stand after "B-PER"'),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("verb", ["train", "check", "evaluate"])
def test_a_fault_is_told_with_its_line_and_nothing_stays(name, verb, run, tmp_path, seqlab):
    text, line, told = FAULTS[name]
    good = as_conll(sentences(30))
    file = tmp_path / "bad.conll"
    file.write_text(f"{good}\n{text}")
    words = {
        "train": ("train", "tag", file, "--out", tmp_path / "run", *KEYS),
        "check": ("check", "tag", file),
        "evaluate": ("evaluate", run.folder, file),
    }[verb]
    code, out, err = seqlab(*words)
    told_all = out + err
    assert code == 2 and told in told_all, told_all
    assert f"{file}:{len(good.splitlines()) + 1 + line}" in told_all, told_all
    assert not (tmp_path / "run").exists()


def test_lists_of_different_lengths_are_told_with_their_line(tmp_path, seqlab):
    lines = [json.dumps({"tokens": ["a", "b"], "tags": ["X", "Y"]})] * 20
    lines[6] = json.dumps({"tokens": ["a", "b"], "tags": ["X"]})
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    code, _, err = seqlab("train", "tag", tmp_path / "bad.jsonl", "--out", tmp_path / "run")
    assert code == 2 and "bad.jsonl:7: there are 2 tokens but 1 tags" in err, err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_tag_that_training_never_saw_is_told_before_training(split, data, tmp_path, seqlab):
    file = tmp_path / "new.conll"
    file.write_text(as_conll([*sentences(5), [("Mars", "B-PLANET")]]))
    code, _, err = seqlab(
        "train", "tag", data / "train.conll", f"--{split}", file, "--out", tmp_path / "run", *KEYS
    )
    place = f"{file}:{len(as_conll(sentences(5)).splitlines()) + 2}"
    assert code == 2 and f'{place}: the tag "B-PLANET" does not occur in the training data' in err, err
    assert not (tmp_path / "run").exists()


def test_a_tag_that_training_never_saw_is_told_when_scoring(run, tmp_path, seqlab):
    file = tmp_path / "new.conll"
    file.write_text("then\tO\nMars\tB-PLANET\n")
    code, _, err = seqlab("evaluate", run.folder, file)
    assert code == 2 and f'{file}:2: the tag "B-PLANET" does not occur' in err


@pytest.mark.parametrize("target", ["number", "angle"])
def test_a_cell_that_is_no_number_is_told_with_its_line(target, tmp_path, seqlab):
    rows = [[("a", "1.5"), ("b", "-2")] for _ in range(20)]
    rows[4][1] = ("b", "two")
    (tmp_path / "bad.conll").write_text(as_conll(rows))
    code, _, err = seqlab(
        "train", "tag", tmp_path / "bad.conll", f"task.target={target}", "--out", tmp_path / "run"
    )
    assert code == 2 and 'bad.conll:14: value 2: the value "two" is not a number' in err, err
    assert not (tmp_path / "run").exists()


def test_bad_sentences_can_be_left_out(tmp_path):
    text = f"{as_conll(sentences(40))}\nBen\n\n{as_conll(sentences(4, 5))}"
    (tmp_path / "some.conll").write_text(text)
    settings = SMALL | {"data.on_bad": "skip"}
    made = library.train(
        "tag", str(tmp_path / "some.conll"), steps=2, out=tmp_path / "run", settings=settings, quiet=True
    )
    assert sum(made.facts.rows.values()) == 44


def test_tags_that_begin_with_i_are_mended_on_request(tmp_path, seqlab):
    """As IOB1 writes them: the same spans, so the same tags are learnt."""
    rows = sentences(60)
    loose = [[(word, tag.replace("B-", "I-")) for word, tag in row] for row in rows]
    for name, some in (("strict", rows), ("loose", loose)):
        (tmp_path / f"{name}.conll").write_text(as_conll(some))
    made = [
        library.train(
            "tag",
            str(tmp_path / f"{name}.conll"),
            steps=4,
            out=tmp_path / name,
            settings=SMALL | {"task.mend": name == "loose", "training.baseline": False},
            quiet=True,
        )
        for name in ("strict", "loose")
    ]
    assert made[0].answer.tags == made[1].answer.tags
    assert made[0].history()[-1]["train_loss"] == made[1].history()[-1]["train_loss"]


def test_a_sentence_beyond_learned_positions_is_not_trained_on_and_refused_elsewhere(tmp_path, seqlab):
    long = [(word, "O") for word in ["and", "so", "on"] * 5]
    rows = sentences(60)
    (tmp_path / "train.conll").write_text(as_conll([*rows, long]))
    (tmp_path / "valid.conll").write_text(as_conll(rows[:8]))
    (tmp_path / "long.conll").write_text(as_conll([*rows[:2], long]))
    words = ["--model", "transformer", "--steps", "2", "model.encoder.positions.kind=learned"]
    words += ["model.encoder.positions.length=12", "training.threads=1"]
    given = ["train", "tag", tmp_path / "train.conll", "--out", tmp_path / "run", *words]
    code, _, err = seqlab(*given, "--valid", tmp_path / "long.conll")
    assert code == 2 and "has 15 positions, but the model has learned 12" in err, err
    assert not (tmp_path / "run").exists()
    code, _, err = seqlab(*given, "--valid", tmp_path / "valid.conll")
    assert code == 0, err
    made = library.load(tmp_path / "run")
    assert any("1 training sentences have more than 12 positions" in one for one in made.facts.warnings)
    with pytest.raises(UserError, match="15 positions"):
        made.predict([[word for word, _ in long]])


def test_settings_that_contradict_each_other_are_refused(data, tmp_path, seqlab):
    for words, told in (
        (("task.target=number", "--model", "bilstm-crf"), 'model.places.kind is "crf"'),
        (("model.places=null",), "needs a pool and a head"),
        (("model.input.kind=bag",), "model.input"),
        (("model.encoder.kind=conv", "model.encoder.stride=2"), "fewer states than there are positions"),
    ):
        code, _, err = seqlab("train", "tag", data / "train.conll", "--out", tmp_path / "run", *words)
        assert code == 2 and told in err, err
        assert not (tmp_path / "run").exists()
