"""`translate` from files to translations: digits become words, letters become sounds."""

from __future__ import annotations

import csv
import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from made import opinions, write_table

from seqlab import session
from seqlab.data.tokenizers import EOS
from seqlab.decode import limits
from seqlab.errors import UserError
from seqlab.fields.field import kept_texts
from seqlab.run import load
from seqlab.settings import TrainRequest
from seqlab.tasks.prepare import Files

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DIGITS = dict(zip("0123456789", NAMES, strict=True))
TINY = {
    "model.input.width": 32,
    "model.encoder.layers": 1,
    "model.encoder.feed_forward": 64,
    "model.decoder.width": 32,
    "model.decoder.body.layers": 1,
    "model.decoder.body.feed_forward": 64,
    "training.threads": 1,
}
TINY_WORDS = [f"{key}={value}" for key, value in TINY.items()]


def counting(count, seed=0):
    """Digits and their words, each source once: "4 2" → "four two"."""
    draw = random.Random(seed)
    found = {tuple(draw.choices("0123456789", k=draw.randint(1, 5))) for _ in range(2 * count)}
    rows = sorted(found)[: 2 * count]
    draw.shuffle(rows)
    return [(" ".join(row), " ".join(DIGITS[digit] for digit in row)) for row in rows[:count]]


def write_pairs(folder, name, rows):
    for ending, side in (("num", 0), ("en", 1)):
        (folder / f"{name}.{ending}").write_text("".join(row[side] + "\n" for row in rows), encoding="utf-8")
    return f"{folder / name}.num,{folder / name}.en"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """`numbers` (Transformer, one vocabulary), `sounds` (letters to symbols, no attention) and a
    classifier."""
    folder = tmp_path_factory.mktemp("translate")
    rows = counting(700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        session.train(
            "translate",
            write_pairs(folder, "train", rows[:600]),
            test=write_pairs(folder, "test", rows[600:]),
            model="transformer",
            steps=150,
            out=folder / "numbers",
            quiet=True,
            settings=TINY | {"training.rate": 5e-3, "training.batch_tokens": 1024},
        )
        table = folder / "sounds.tsv"
        table.write_text(
            "".join(f"{one.replace(' ', '')}\t{two.upper()}\n" for one, two in rows), encoding="utf-8"
        )
        sounds = {
            "data.tokens.kind": "characters",
            "data.target_tokens": {"kind": "words", "split": "spaces", "lower": False},
            "task.metric": "errors",
            "model.shared": False,
            "model.encoder.width": 16,
            "model.decoder.body.width": 16,
            "training.threads": 1,
            "training.validations": 2,
        }
        session.train(
            "translate",
            str(table),
            model="lstm",
            steps=20,
            out=folder / "sounds",
            settings=sounds,
            quiet=True,
        )
        reviews = write_table(folder / "reviews.csv", opinions(60))
        small = {"model.input.width": 8, "model.encoder.width": 8, "training.baseline": False}
        session.train(
            "classify",
            str(reviews),
            model="cnn",
            steps=2,
            out=folder / "classifier",
            settings=small,
            quiet=True,
        )
    return folder


@pytest.fixture(scope="module")
def numbers(runs):
    return load(runs / "numbers")


def test_no_repeat_is_told_how_pieces_make_up_words_and_of_whole_words_nothing(runs, numbers, monkeypatch):
    """What the search hands on; which ids that rules out is a law of decoding."""
    asked = []
    monkeypatch.setattr(limits, "forbid_word_repeats", lambda *given: asked.append(given))
    numbers.predict(["4 4 2"], {"decode.no_repeat": 2})
    symbols = numbers.answer.target.tokenizer.size
    assert asked and {size for _, _, size, _ in asked} == {2}
    assert {(scores.shape[1], len(parts.letters)) for scores, _, _, parts in asked} == {(symbols, symbols)}
    asked.clear()
    numbers.predict(["4 4 2"])
    load(runs / "sounds").predict(["442"], {"decode.no_repeat": 2})
    assert not asked


# A run ------------------------------------------------------------------------------------------------------


def test_a_run_has_all_its_files_and_learns(runs):
    folder = runs / "numbers"
    scores = json.loads((folder / "scores.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    assert scores["split"] == "test" and scores["examples"] == 100
    assert scores["metrics"]["bleu"]["value"] > 50 and list(scores["baselines"]) == ["copy", "word table"]
    assert (
        scores["baselines"]["word table"]["bleu"]["value"] > 99
    )  # a word for a digit is what a table can do
    assert {"step", "epoch", "seconds", "train_loss", "valid_loss", "valid_bleu", "valid_chrf"} <= rows[
        -1
    ].keys()
    assert rows[-1]["valid_loss"] < rows[0]["valid_loss"]
    facts = json.loads((folder / "facts.json").read_text())
    assert (
        facts["joint"]
        and facts["rows"] == {"train": 540, "test": 100, "valid": 60}
        and facts["longest"]["text"] >= 5
    )
    assert (folder / "tokenizer.json").exists() and not (folder / "tokenizer.written.json").exists()
    assert "alignment" in (folder / "report.html").read_text()


def test_two_vocabularies_and_errors_of_symbols(runs):
    folder = runs / "sounds"
    scores = json.loads((folder / "scores.json").read_text())
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    facts = json.loads((folder / "facts.json").read_text())

    assert list(scores["metrics"]) == ["token_error_rate", "sequence_error_rate"]
    assert scores["baselines"]["word table"]["token_error_rate"]["value"] < 0.01
    assert "valid_errors" in last and "valid_bleu" not in last
    assert (
        facts["symbols"] == {"text": 17, "written": 17} and not facts["joint"]
    )  # ten of each, and the marks
    [said] = load(folder).predict(["42"])
    assert set(said.text.split()) <= {word.upper() for word in DIGITS.values()}


def test_validation_scores_what_it_says(runs, numbers, monkeypatch):
    """The loss is that of the scorer of pairs, and rows with one source count as one item."""
    monkeypatch.setenv("SEQLAB_CACHE", str(runs / "cache"))
    settings = numbers.settings
    prepared = Files(settings.task, settings.data).prepare(settings.data, settings.model, settings.decode)
    store = prepared.stores["valid"]
    found = prepared.validate(numbers.model)

    pairs = list(zip(*(kept_texts(store.fields[name]) for name in ("raw.source", "raw.target")), strict=True))
    written = int((store.fields["written"].sizes() - 1).sum())
    assert found.loss == pytest.approx(-sum(numbers.score_pairs(pairs)) / written, rel=1e-4)
    assert found.score == found.numbers["valid_bleu"]
    assert " => " in found.sample


# Answers ----------------------------------------------------------------------------------------------------


def test_a_text_is_translated_the_same_alone_or_beside_others(numbers):
    texts = ["4 2", "1", "9 8 7 6 5", "0 0"]
    together = numbers.predict(texts)
    assert [numbers.predict([text])[0].text for text in texts] == [one.text for one in together]
    assert numbers.predict([]) == [] and numbers.predict("9 8 7 6 5") == numbers.predict(["9 8 7 6 5"])[0]
    assert numbers.score_pairs(("4 2", "four two")) == numbers.score_pairs([("4 2", "four two")])[0]
    assert all(one.score <= 0 and one.others == () for one in together)


def test_a_score_is_the_mean_log_probability_of_what_was_written(numbers):
    [said] = numbers.predict(["4 2"])
    [logp] = numbers.score_pairs([("4 2", said.text)])
    ids = len(numbers.answer.target.tokenizer.encode([said.text]).row(0))
    assert said.score == pytest.approx(logp / (ids + 1), abs=1e-4)  # the end is written, too


def test_decoding_can_be_changed(numbers):
    [said] = numbers.predict(["4 2"], settings={"decode.beam": 4, "decode.n_best": 3})
    assert len(said.others) == 2 and said.score >= said.others[0].score >= said.others[1].score
    tree = said.to_json()
    assert list(tree) == ["text", "score", "others"] and list(tree["others"][0]) == ["text", "score"]
    assert list(said.columns()) == ["translation", "translation_score", "translation_2", "translation_3"]
    [cut] = numbers.predict(["4 2 4 2"], settings={"decode.longest": 2})
    assert len(numbers.answer.target.tokenizer.encode([cut.text]).row(0)) <= 2
    with pytest.raises(UserError, match=r"decode\.beam"):
        numbers.predict(["4 2"], settings={"decode.beam": 0})


def test_what_would_come_after_the_end_stands_apart(numbers):
    [plain] = numbers.predict(["4 2"])
    [more] = numbers.predict(["4 2"], settings={"decode.ignore_end": 6})
    assert plain.after is None and (more.text, more.score) == (plain.text, plain.score)
    assert more.after and more.shown() == f"{plain.text} [EOS] {more.after}"
    assert more.to_json()["after_end"] == more.columns()["translation_after_end"] == more.after


def test_signs_that_were_never_seen_are_read_and_can_be_written(numbers):
    tokenizer = numbers.answer.target.tokenizer
    assert tokenizer.decode(tokenizer.encode(["naïve 🐟 日本"]).row(0)) == "naïve 🐟 日本"
    assert isinstance(numbers.predict(["🐟 日本"])[0].text, str)


def test_sources_longer_than_any_in_training_are_translated_whole_with_a_warning(numbers, capsys):
    numbers.predict(["1 2 3 4 5"])
    assert capsys.readouterr().err == ""
    long = numbers.predict([" ".join("12345" * 8), "1"])
    told = capsys.readouterr().err
    assert "Warning: 1 of 2 texts are longer than any in the training data (40 pieces against" in told
    assert len(long) == 2


def test_rows_with_equal_sources_are_one_item_with_several_references(numbers, tmp_path):
    said = numbers.predict(["4 2"])[0].text
    table = write_table(tmp_path / "test.csv", [("4 2", "quite wrong"), ("4 2", said)], ("source", "target"))
    scores = numbers.evaluate(str(table))
    assert scores.examples == 1 and scores.metrics["sequence_error_rate"].value == 0
    assert "nrefs:2" in scores.signatures["bleu"]


# On the command line ----------------------------------------------------------------------------------------


def test_files_of_sources_are_translated(runs, seqlab, tmp_path, monkeypatch):
    rows = counting(20, seed=3)
    plain = tmp_path / "sources.txt"
    plain.write_text("".join(f"{source}\n" for source, _ in rows))
    code, out, err = seqlab("predict", runs / "numbers", "--input", plain, "--json")
    assert code == 0, err
    assert [list(json.loads(line)) for line in out.splitlines()] == [["text", "score"]] * 20

    table = write_table(
        tmp_path / "sources.csv", [(str(place), row[0]) for place, row in enumerate(rows)], ("id", "source")
    )
    code, out, err = seqlab("predict", runs / "numbers", "--input", table, "--output", tmp_path / "said.csv")
    assert code == 0, err
    with (tmp_path / "said.csv").open(encoding="utf-8") as file:
        said = list(csv.DictReader(file))
    assert [row["id"] for row in said] == [str(place) for place in range(20)]
    assert list(said[0]) == ["id", "source", "translation", "translation_score"]


def test_parallel_files_are_scored(runs, seqlab):
    code, out, err = seqlab(
        "evaluate", runs / "numbers", f"{runs / 'test'}.num,{runs / 'test'}.en", "--json", "decode.beam=2"
    )
    assert code == 0, err
    tree = json.loads(out)
    assert tree["task"] == "translate" and tree["examples"] == 100
    assert (
        tree["metrics"]["bleu"].keys() == {"value", "low", "high", "unit"}
        and "tok:13a" in tree["signatures"]["bleu"]
    )


@pytest.mark.parametrize("ending", ["html", "png", "json"])
def test_an_alignment_is_drawn(runs, seqlab, tmp_path, ending):
    code, out, err = seqlab("explain", runs / "numbers", "4 2 1", "--out", tmp_path / f"map.{ending}")
    assert code == 0, err
    assert (tmp_path / f"map.{ending}").stat().st_size > 500 and "4 2 1" in out


def test_a_given_translation_is_aligned_instead(numbers):
    found = numbers.explain("4 2", "two four")
    assert found.label == "two four" and numbers.explain(("4 2", "two four")).label == "two four"
    one = found.maps[0]
    assert one.pieces[-1] == one.written[-1] == "[EOS]" and "".join(one.written[:-1]) == "two four"
    np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)


def test_check_tells_what_is_in_the_pairs(seqlab, runs):
    code, out, _ = seqlab("check", "translate", f"{runs / 'train'}.num,{runs / 'train'}.en")
    assert code == 0 and "train: 600 pairs in" in out and "source: half have up to" in out
    assert f"Next: seqlab train translate {runs / 'train'}.num,{runs / 'train'}.en" in out


# Bad input --------------------------------------------------------------------------------------------------

PAIRS = [(source, target) for source, target in counting(40)]
FAULTS = {
    "unequal line counts": (
        ("a.num", "1\n2\n3\n"),
        ("a.en", "one\ntwo\n"),
        ("a.num has 3 lines", "a.en has 2 lines", "paste"),
    ),
    "an empty side": (
        ("a.num", "1\n2\n3\n"),
        ("a.en", "one\n\nthree\n"),
        ("a.en:2", "the target is empty", "data.on_bad=skip"),
    ),
    "empty files": (("a.num", ""), ("a.en", ""), ("not a single row", "name another file")),
    "a missing file": (("a.num", "1\n"), None, ("a.en", "no such file")),
    "one column": (("a.tsv", "1 one\n2 two\n"), None, ("a.tsv", "one column", "train.en,train.fr")),
    "lines alone": (("a.txt", "1\n2\n"), None, ("a.txt", "no target", "train.en,train.fr")),
    "two rows": (("a.tsv", "1\tone\n1\tun\n"), None, ("too few rows", "--valid")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_pairs_are_refused_before_anything_is_written(fault, seqlab, tmp_path):
    first, second, says = FAULTS[fault]
    (tmp_path / first[0]).write_text(first[1])
    if second:
        (tmp_path / second[0]).write_text(second[1])
    name = f"{tmp_path / 'a.num'},{tmp_path / 'a.en'}" if first[0] == "a.num" else tmp_path / first[0]

    code, out, err = seqlab("train", "translate", name, "--steps", 2, "--out", tmp_path / "run", *TINY_WORDS)

    assert code == 2 and "Traceback" not in err, out + err
    assert all(word in err for word in says), err
    assert not (tmp_path / "run").exists()


def test_faulty_pairs_are_left_out_when_asked_and_copies_are_told(seqlab, tmp_path):
    rows = [*PAIRS, ("7 7", "7 7"), ("5 5", "")]
    name = write_pairs(tmp_path, "a", rows)
    words = [
        "train",
        "translate",
        name,
        "--steps",
        1,
        "--out",
        tmp_path / "run",
        "data.on_bad=skip",
        *TINY_WORDS,
    ]
    code, _, err = seqlab(*words)
    assert code == 0, err
    assert f"Warning: {tmp_path / 'a'}.en:42: the target is empty." in err
    assert (
        f"Warning: {tmp_path / 'a'}.num:41: train: in 1 row (2.4 %) the target is the source itself." in err
    )


def test_pairs_beyond_the_length_are_left_out_of_training_and_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    long = " ".join("1234567890" * 3)
    rows = [*PAIRS, (long, "long")]
    name, valid = write_pairs(tmp_path, "a", rows), write_pairs(tmp_path, "b", [(long, "long"), ("1", "one")])
    numbers = {**TINY, "data.length": 20, "training.baseline": False}
    run = session.train(
        "translate", name, valid=valid, steps=1, out=tmp_path / "run", settings=numbers, quiet=True
    )
    assert run.facts.cut == {"train": 1} and run.facts.rows == {"train": 40, "valid": 2}
    assert "1 training pairs have more than 20 pieces on a side" in run.facts.warnings[-1]
    name = write_pairs(tmp_path, "c", [row for row in rows if len(row[0]) > 1])
    with pytest.raises(UserError, match=r"All \d+ training pairs are longer than data\.length=1\."):
        session.train(
            "translate", name, valid=valid, steps=1, settings={**TINY, "data.length": 1}, quiet=True
        )


def test_some_sources_are_learnt_without_their_full_stop(tmp_path, monkeypatch):
    """In a share of the rows that the epoch and the seed decide; what is written keeps its own, and so do
    single stops."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    rows = [(f"{one}.", f"{two}.") for one, two in counting(400)]
    rows += [*((f"{number}1", f"{number} one") for number in range(40)), (".", "stop")]
    name = write_pairs(tmp_path, "a", rows)

    def prepared(share):
        overrides = {"data.train": (name,), "data.valid": (name,), "task.open_ends": share}
        settings = TrainRequest(task="translate", overrides=overrides).settings()
        files = Files(settings.task, settings.data)
        return files.prepare(settings.data, settings.model, settings.decode)

    whole, some, every = (prepared(share) for share in (0.0, 0.25, 0.999))
    places, stop = np.arange(len(rows)), every.training.full_stop
    before, after = (one.load(places, (0, 1)).inputs["text"] for one in (whole, every))
    for row in places:
        ids, kept = ([*one.values[row, : one.lengths[row]].tolist()] for one in (before, after))
        assert kept == ([*ids[:-2], EOS] if ids[-2] == stop and len(ids) > 2 else ids)
    assert int((before.lengths - after.lengths).sum()) == 400

    first, again, later = (some.load(places, (0, epoch)) for epoch in (1, 1, 2))
    shorter = [(before.lengths - one.inputs["text"].lengths).bool() for one in (first, again, later)]
    assert 60 < int(shorter[0].sum()) < 140
    assert torch.equal(shorter[0], shorter[1]) and not torch.equal(shorter[0], shorter[2])
    assert torch.equal(
        some.load(places[7:9], (0, 1)).inputs["text"].lengths, first.inputs["text"].lengths[7:9]
    )
    assert torch.equal(first.written.values, whole.load(places).written.values)


def test_single_words_are_read_with_two_layers_when_there_is_time(tmp_path, monkeypatch):
    """However many symbols are written: it is what is read that counts."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    rows = [(word, " ".join(word.upper())) for word in ("ab", "abc", "bcd", "cdab")]
    layers = {}
    for name, some in (("words", rows), ("turned", [row[::-1] for row in rows])):
        for minutes in (3, 30):
            overrides = {"data.train": (write_pairs(tmp_path, name, some),), "training.minutes": minutes}
            wishes = TrainRequest(task="translate", preset="lstm-attention", overrides=overrides)
            first = wishes.settings()
            size = replace(Files(first.task, first.data).size, minutes=minutes)
            layers[name, minutes] = wishes.settings(size).model.encoder.layers
    assert layers == {("words", 3): 1, ("words", 30): 2, ("turned", 3): 1, ("turned", 30): 1}


CONTRADICTIONS = {
    "a pool": (
        ["model.decoder=null", "model.pool.kind=mean", "model.head.kind=linear"],
        ("model.decoder is empty", "--model"),
    ),
    "two cuts": (
        ["task.joint=true", "data.target_tokens.kind=words"],
        ("task.joint is true", "data.target_tokens"),
    ),
    "sentences": (["model.input.kind=nested"], ("model.input is of kind nested", "model.input.kind=tokens")),
    "a metric": (["task.metric=blue"], ("task.metric", "bleu")),
    "a beam": (["decode.beam=0"], ("decode.beam",)),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_refused(kind, seqlab, tmp_path):
    settings, says = CONTRADICTIONS[kind]
    name = write_pairs(tmp_path, "a", PAIRS)
    code, out, err = seqlab("train", "translate", name, "--steps", 1, "--out", tmp_path / "run", *settings)
    assert code == 2 and "Traceback" not in err, out + err
    assert all(word in err for word in says), err


def test_requests_that_a_run_cannot_meet_are_refused(runs, seqlab, tmp_path):
    refused = {
        ("explain", runs / "sounds", "42"): "no attention",
        ("predict", runs / "numbers", "4 2\tfour two"): "single texts",
        ("predict", runs / "numbers", "4 2", "--embed"): "gives no vectors",
        ("evaluate", runs / "classifier", f"{runs / 'test'}.num,{runs / 'test'}.en"): "does not read",
        ("evaluate", runs / "numbers", runs / "reviews.csv", "data.columns.source=body"): '"body"',
    }
    for words, says in refused.items():
        code, out, err = seqlab(*words)
        assert code == 2 and says in err and "Traceback" not in err, (words, out, err)


def test_a_damaged_run_is_told(runs, seqlab, tmp_path):
    copy = shutil.copytree(runs / "numbers", tmp_path / "copy")
    shutil.copy(runs / "sounds" / "tokenizer.json", copy / "tokenizer.json")
    code, _, err = seqlab("predict", copy, "4 2")
    assert code == 2 and "They come from different runs" in err
    copy = shutil.copytree(runs / "sounds", tmp_path / "copy2")
    (copy / "tokenizer.written.json").unlink()
    code, _, err = seqlab("predict", copy, "42")
    assert code == 2 and "tokenizer.written.json" in err
