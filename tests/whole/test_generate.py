"""Language models end to end: a small language is learnt, written, scored and explained; what can't work is
told."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import seqlab
from seqlab import config, likelihood, session
from seqlab.answers.writer import Writer, text_after
from seqlab.data.store import Ragged
from seqlab.data.tokenizers import BOS, EOS, CharacterTokens
from seqlab.decode import DecodeConfig, limits
from seqlab.decoders import Causal
from seqlab.encoders import Conv, Lstm, Transformer
from seqlab.errors import Stopped, UserError
from seqlab.fields.running import WrittenRunningField
from seqlab.model import Model, ModelConfig
from seqlab.nn.positions import Learned
from seqlab.parts import Facts
from seqlab.seq import Seq
from seqlab.settings import Settings, TrainRequest
from seqlab.tasks.generate import Generate
from seqlab.tasks.prepare import Files
from seqlab.training.progress import Progress

BODIES = {
    "lstm": {"kind": "lstm", "width": 48},
    "conv": {"kind": "conv", "width": 48, "layers": 2, "kernel": 5},
    "transformer": {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 64},
}


def sentences(count: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    return "".join(
        f"the {draw.choice(['cat', 'dog'])} sat on the {draw.choice(['mat', 'hat'])}.\n" for _ in range(count)
    )


def tree(
    data: Path, body: str = "conv", *, steps: int = 60, tokens: object = "characters", **task: object
) -> dict[str, object]:
    """Settings of the smallest model that learns the sentences."""
    model = {"input": None, "encoder": None, "pool": None, "head": None}
    training = {
        "steps": steps,
        "batch_tokens": 512,
        "rate": 0.01,
        "validations": 3,
        "threads": 1,
        "patience": 50,
    }
    return {
        "task": {"kind": "generate", "context": 32, **task},
        "data": {"train": [str(data)], "tokens": tokens},
        "model": model | {"decoder": {"kind": "causal", "width": 32, "body": BODIES[body]}},
        "training": training,
        "decode": {"sample": True, "temperature": 0.8},
    }


def trained(folder: Path, settings: dict[str, object], name: str = "run", *, report: bool = False):
    """A run; without the scores and samples of a report, which take longer than the training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        if not report:
            patch.setattr(session.Session, "finish", lambda self, _: seqlab.load(self.folder))
        return session.train_anew(TrainRequest(tree=settings), folder / name, Progress(quiet=True), 0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    (folder / "cats.txt").write_text(sentences(400))
    return folder


@pytest.fixture(scope="module")
def cats(folder):
    """A character model of running text."""
    return trained(folder, tree(folder / "cats.txt"), report=True)


@pytest.fixture(scope="module")
def lines(folder):
    """A Transformer with learned positions for which each line is a text of its own."""
    settings = tree(folder / "cats.txt", "transformer", steps=40, flow="rows")
    settings["model"]["decoder"]["body"] = BODIES["transformer"] | {
        "positions": {"kind": "learned", "length": 40}
    }
    return trained(folder, settings, "lines")


@pytest.fixture(scope="module")
def looks(folder):
    """A Transformer of subwords of running text."""
    settings = tree(folder / "cats.txt", "transformer", steps=15, tokens={"kind": "bpe", "vocabulary": 280})
    return trained(folder, settings, "looks")


# Learning and writing ---------------------------------------------------------------------------------------


def test_no_repeat_is_told_how_pieces_make_up_words_and_characters_count_by_themselves(
    looks, cats, monkeypatch
):
    asked = []
    monkeypatch.setattr(limits, "forbid_word_repeats", lambda *given: asked.append(given[2]))
    looks.predict(["the cat"], {"decode.no_repeat": 3, "decode.longest": 9})
    assert asked and set(asked) == {3}
    asked.clear()
    cats.predict(["the cat"], {"decode.no_repeat": 3, "decode.longest": 9})
    assert not asked


def test_it_learns_the_language_and_writes_it(cats):
    """Two choices of two in a sentence of 24 characters: 2 / 24 bits per character is the best there is."""
    rows = [json.loads(line) for line in (cats.folder / "metrics.jsonl").read_text().splitlines()]
    facts = json.loads((cats.folder / "facts.json").read_text())
    known = {f"the {who} sat on the {what}." for who in ("cat", "dog") for what in ("mat", "hat")}
    said = cats.predict(["the cat"], {"decode.longest": 200})[0].text

    assert rows[-1]["valid_bpc"] == pytest.approx(2 / 24, abs=0.03)
    assert rows[-1]["valid_bpc"] == pytest.approx(rows[-1]["valid_loss"] / np.log(2))
    assert rows[-1]["valid_perplexity"] == pytest.approx(
        np.exp(rows[-1]["valid_loss"] * 24 / 7), rel=1e-6
    )  # 6 words, 1 end
    assert facts["unit"] == "character" and facts["ids"] == {
        "train": 400 * 24 * 9 // 10,
        "valid": 400 * 24 // 10,
    }
    assert set(said.splitlines()[:-1]) <= known
    assert len(said) == len("the cat") + 200


def nats_over_all(run, text: str) -> float:
    """By hand: −log softmax over all symbols at every id."""
    ids = run.reads.tokenizer.encode([text]).values.astype(np.int64)
    fed = torch.tensor([[run.answer.learnt.opening, *ids[:-1]]])
    with torch.no_grad():
        states, _ = run.model.decoder.advance(fed, run.model.decoder.start(None, 1))
        logs = run.model.decoder.vocabulary(states[0]).scores.log_softmax(dim=-1)
    return -float(logs[range(len(ids)), ids].sum())


def test_compared_with_a_part_of_the_vocabulary_it_learns_the_language_too(folder):
    """Of 280 symbols 40 are compared with; validation and scores are over all, and the scores say so."""
    settings = tree(folder / "cats.txt", tokens={"kind": "bpe", "vocabulary": 280}, sampled=40)
    run = trained(folder, settings, "sampled", report=True)
    told = "trained against 40 sampled symbols a step; scored against all 280"
    assert json.loads((run.folder / "scores.json").read_text())["signatures"] == {"bpc": told}
    scores = run.evaluate(str(folder / "cats.txt"))
    assert scores.to_json()["signatures"] == {"bpc": told} and told in str(scores)
    for name in ("report.html", "README.md"):
        assert told in (run.folder / name).read_text()
    assert -run.score_texts("the cat") == pytest.approx(nats_over_all(run, "the cat"), rel=1e-5)
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["valid_bpc"] == pytest.approx(2 / 24, abs=0.03)


@pytest.mark.parametrize("name", ["cats", "lines", "looks"])
def test_what_comes_piece_by_piece_is_what_comes_at_once(name, request):
    run = request.getfixturevalue(name)
    for asked in ({"decode.longest": 60, "decode.seed": 4}, {"decode.sample": False, "decode.longest": 20}):
        whole = run.predict(["the dog"], asked)[0].text

        assert "the dog" + "".join(run.stream("the dog", asked)) == whole


def test_a_character_of_several_bytes_comes_whole(looks, monkeypatch):
    """Subwords of bytes, which have never seen a snowman, need three of them."""
    snowman = looks.reads.tokenizer.encode(["☃!"]).values.tolist()
    monkeypatch.setattr(Writer, "stream", lambda *_: iter(snowman))

    assert len(snowman) == 4
    assert list(looks.stream("")) == ["☃", "!"]


def test_the_seed_decides_and_prompts_side_by_side_do_not_matter(cats):
    prompts = ["", "the cat", "the dog sat", ""]
    asked = {"decode.longest": 50, "decode.temperature": 1.5}
    one, two = cats.predict(prompts, asked), cats.predict(prompts, asked)
    other = cats.predict(prompts, asked | {"decode.seed": 1})

    assert one == two != other
    assert one[0] != one[3]  # the same prompt again is drawn anew
    assert cats.predict(["the cat"], {"decode.beam": 3, "decode.longest": 40})[0].text.startswith(
        "the cat sat on the "
    )


def test_characters_that_were_never_seen_are_passed_over(cats):
    assert cats.predict(["the ✓cat"], {"decode.longest": 9})[0].text == "the ✓cat sat on t"
    assert cats.predict("the ✓cat", {"decode.longest": 9}).text == "the ✓cat sat on t"


def test_an_invented_line_ends_by_itself(lines):
    said = [one.text for one in lines.predict(["", "", "the d"], {"decode.temperature": 0.3})]

    assert all(text.endswith(".") and "\n" not in text for text in said)
    assert said[2].startswith("the dog sat on the ")


def test_a_prompt_longer_than_the_context_counts_by_its_end(looks):
    prompts = ["the dog", sentences(9), "\n" + sentences(9)]
    short, long, longer = looks.predict(prompts, {"decode.longest": 8, "decode.sample": False})

    assert (
        long.note == "The prompt has 72 subwords; the model looked at the last 24."
    )  # 8 a sentence; ¾ of 32
    assert short.note == "" and longer.text == "\n" + long.text


# Decoding as config.yaml says -------------------------------------------------------------------------------


TINY = {
    "model.decoder.width": 16,
    "model.decoder.body.width": 16,
    "model.decoder.body.layers": 1,
    "task.context": 32,
    "training.baseline": False,
    "training.validations": 1,
    "training.threads": 1,
}


def written(run, *prompts: str, **asked: object) -> list[str]:
    return [one.text for one in run.predict(list(prompts) or ["the", "a"], {"decode.longest": 40, **asked})]


def with_decode(run, folder: Path, old: bool = False, **decode: object):
    """A copy of a run with these keys of decode; an old one has no format in its facts.json."""
    copy = shutil.copytree(run.folder, folder)
    facts = json.loads((copy / "facts.json").read_text())
    if old:
        assert facts.pop("format") == 2
    (copy / "facts.json").write_text(json.dumps(facts))
    settings = config.read_yaml((copy / "config.yaml").read_text(), "")
    (copy / "config.yaml").write_text(config.write_yaml(settings | {"decode": settings["decode"] | decode}))
    return seqlab.load(copy)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, (True, 0.8, 1)),
        ({"decode.sample": False}, (False, 0.8, 1)),
        ({"decode.temperature": 1.0}, (True, 1.0, 1)),
        ({"decode.beam": 4}, (False, 0.8, 4)),
        ({"decode.beam": 1}, (True, 0.8, 1)),
    ],
)
@pytest.mark.parametrize("task, preset", [("generate", "lstm"), ("generate", "gpt-2"), ("pretrain", "gpt")])
def test_presets_draw_unless_told_otherwise(task, preset, asked, wanted):
    """Also where a settings file stands above the preset, and in a file as `seqlab init` writes it."""
    nested = {"decode": {key.removeprefix("decode."): value for key, value in asked.items()}}
    made = TrainRequest(task=task, preset=preset).settings()
    for wishes in (
        TrainRequest(task=task, preset=preset, overrides=asked),
        TrainRequest(task=task, preset=preset, tree={"task": {"kind": task}, **nested}),
        TrainRequest(tree=config.read_yaml(config.commented(made), ""), overrides=asked),
    ):
        how = wishes.settings().decode
        assert (how.sample, how.temperature, how.beam) == wanted


def test_a_run_that_was_trained_to_be_greedy_is_greedy(folder, tmp_path, monkeypatch):
    """Its sample at the validation, too. No seed changes what is likeliest."""
    said: list[str] = []
    monkeypatch.setattr(Progress, "say", lambda _, text: said.append(text))
    monkeypatch.setattr(session.Session, "finish", lambda self, _: seqlab.load(self.folder))
    settings = {**TINY, "decode.sample": False, "decode.longest": 12}
    data = str(folder / "cats.txt")
    run = seqlab.train("generate", data, model="gru", steps=6, out=tmp_path / "run", settings=settings)
    [greedy, *others] = written(run, "the", "the", "the")

    assert run.decoding() == DecodeConfig(longest=12, temperature=0.8)
    assert others == [greedy] * 2 and written(run, "the", **{"decode.seed": 9}) == [greedy]
    assert run.predict([""])[0].text.split() == said[-1].split()
    assert len(set(written(run, "the", "the", "the", **{"decode.sample": True}))) > 1


def test_a_folder_of_format_1_writes_as_it_did(cats, tmp_path):
    """There sample: false and temperature: 1.0 stood for what was drawn at 0.8; today they mean greedy."""
    usual = {"sample": False, "temperature": 1.0}
    old = with_decode(cats, tmp_path / "old", old=True, **usual)
    new = with_decode(cats, tmp_path / "new", **usual)
    hot = with_decode(cats, tmp_path / "hot", old=True, sample=False, temperature=2.0)

    assert old.decoding() == cats.decoding() == DecodeConfig(sample=True, temperature=0.8)
    assert written(old) == written(cats)
    assert hot.decoding() == DecodeConfig(sample=True, temperature=2.0)
    assert new.decoding() == DecodeConfig()
    assert written(new) == written(cats, **{"decode.sample": False})
    assert old.decoding({"decode.beam": 4}).beam == 4


def test_a_body_goes_on_writing_as_it_did(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(session.Session, "finish", lambda self, _: seqlab.load(self.folder))
    training = {key: value for key, value in TINY.items() if key.startswith("training")}
    small = training | {
        "model.decoder.width": 16,
        "model.decoder.body.layers": 1,
        "data.tokens.vocabulary": 280,
    }
    more, data = {"steps": 1, "quiet": True}, str(folder / "cats.txt")
    body = seqlab.train("pretrain", data, model="gpt", out=tmp_path / "body", settings=small, **more)
    for task in ("generate", "pretrain"):
        run = seqlab.train(task, data, start=body.folder, out=tmp_path / task, settings=training, **more)
        assert run.decoding() == DecodeConfig(sample=True, temperature=0.8)


# Scores -----------------------------------------------------------------------------------------------------


def alone(body) -> ModelConfig:
    return ModelConfig(input=None, encoder=None, pool=None, head=None, decoder=Causal(width=16, body=body))


def writer(body) -> Model:
    """A language model of 20 symbols that has learnt nothing."""
    torch.manual_seed(0)
    return Model(alone(body), Facts(symbols={"written": 20})).eval()


def by_hand(model: Model, fed: list[int], meant: int) -> float:
    """−log p of one id after these ones alone."""
    with torch.no_grad():
        states, _ = model.decoder.advance(torch.tensor([fed]), model.decoder.start(None, 1))
        return -float(model.decoder.answer(states[:, -1]).scores[0].log_softmax(-1)[meant])


def test_a_window_slides_so_that_each_id_has_enough_before_it():
    model, ids = (
        writer(Transformer(layers=1, heads=2, feed_forward=16)),
        np.random.default_rng(0).integers(7, 20, 53),
    )
    found = likelihood.stream_nats(model, ids, opening=7, context=12, stride=5)
    text = [7, *ids.tolist()]
    ends = [
        12,
        17,
        22,
        27,
        32,
        37,
        42,
        47,
        52,
        53,
    ]  # windows of 12; the last one is pushed back to end with the text
    for place in range(53):
        end = next(end for end in ends if place < end)
        assert found[place] == pytest.approx(
            by_hand(model, text[end - 12 : place + 1], int(ids[place])), abs=1e-4
        )


def test_a_recurrent_model_reads_on_without_forgetting(monkeypatch):
    model, ids = writer(Lstm(width=16)), np.random.default_rng(0).integers(7, 20, 2500)
    found = likelihood.stream_nats(model, ids, opening=7, context=16)
    wanted = by_hand(model, [7, *ids[:-1].tolist()], int(ids[-1]))

    assert found[-1] == pytest.approx(wanted, abs=1e-4)
    monkeypatch.setattr(
        likelihood, "SHORTEST", 800
    )  # three readers, of which two begin with what they read before
    monkeypatch.setattr(likelihood, "WARM", 400)
    np.testing.assert_allclose(likelihood.stream_nats(model, ids, opening=7, context=16), found, atol=1e-3)


def test_several_readers_of_a_convolution_give_what_one_gives(monkeypatch):
    model, ids = (
        writer(Conv(width=16, layers=2, kernel=3, causal=True)),
        np.random.default_rng(0).integers(7, 20, 531),
    )
    alone = likelihood.stream_nats(model, ids, opening=7, context=16)
    monkeypatch.setattr(likelihood, "SHORTEST", 50)
    monkeypatch.setattr(likelihood, "WARM", 4)  # as far as two layers of width 3 look back

    np.testing.assert_allclose(likelihood.stream_nats(model, ids, opening=7, context=16), alone, atol=1e-5)


def test_rows_are_scored_as_decoding_scores_them():
    model = writer(Transformer(layers=1, heads=2, feed_forward=16))
    rows = Ragged.of([[BOS, 8, 9, EOS], [BOS, 10, EOS], [BOS, 7, 8, 9, 10, 11, EOS]], np.int64)
    found = likelihood.sums(likelihood.row_nats(model, rows), rows.offsets)
    for number in range(3):
        ids = torch.tensor([rows.row(number)])
        [wanted] = likelihood.log_probabilities(model.decoder, None, Seq(ids, ids >= 0)).tolist()
        assert found[number] == pytest.approx(-wanted, abs=1e-4)


def test_evaluate_states_units_intervals_and_the_n_grams(cats, tmp_path):
    (tmp_path / "more.txt").write_text(sentences(50, seed=9))
    scores = cats.evaluate(str(tmp_path / "more.txt"))
    total = cats.score_texts([sentences(50, seed=9)])[0]
    assert cats.score_texts(sentences(50, seed=9)) == total
    assert cats.score("the cat") == cats.score(["the cat"])[0]

    assert list(scores.metrics) == ["bpc", "perplexity"] and scores.examples == 50
    assert scores.metrics["bpc"].unit == "bits per character, spaces and line ends included"
    assert scores.metrics["perplexity"].unit == "perplexity per word between spaces or line end"
    assert scores.metrics["bpc"].low < scores.metrics["bpc"].value < scores.metrics["bpc"].high
    assert scores.metrics["bpc"].value == pytest.approx(-total / np.log(2) / 1200, rel=1e-5)
    assert scores.baselines["6-gram"].metrics["bpc"].value == pytest.approx(2 / 24, abs=0.03)


def reader_of(texts: list[str], flow: str, **data: object) -> WrittenRunningField:
    """What has learnt from these texts, under these settings of data."""
    settings = config.build(Settings, {"data": data}, "")
    field = WrittenRunningField(flow, context=512)
    field.set_up(settings.data, settings.model)
    field.tokenizer = settings.data.tokens.train(texts)
    return field


def test_a_model_of_words_is_scored_per_word_and_told_of_unknown_ones():
    lines = ["a b , c\n", "a , d\n"]
    field = reader_of(lines, "text", tokens={"kind": "words", "least": 2})
    ids, units, _ = field.ids(lines)

    assert units.tolist() == [[8, 4], [6, 3]]  # words and marks; line ends are not among the ids
    assert field.tokenizer.decode(ids.values.tolist()) == "a, a,"


def test_a_cut_row_counts_only_what_is_kept_of_it():
    ids, units, cut = reader_of(["abcdef gh"], "rows", tokens="characters", length=5).ids(
        ["abcdef gh", "a b"]
    )

    assert ids.sizes().tolist() == [7, 5] and cut == 1  # with both marks
    assert units.tolist() == [[6, 2], [4, 3]]  # the end counts as one character and one word


# Going on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "flow"), [("lstm", "text"), ("transformer", "text"), ("lstm", "rows")])
def test_stopped_and_resumed_it_ends_bit_for_bit_like_an_unbroken_run(
    tmp_path, folder, body, flow, monkeypatch
):
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(session.Session, "finish", lambda self, _: seqlab.load(self.folder))
    settings = tree(folder / "cats.txt", body, steps=24, flow=flow, context=64)
    settings["training"] |= {"baseline": False}
    whole = trained(tmp_path, settings, "whole")
    count = 0
    inner = session.Training.take_step

    def stop_at_seven(self):
        nonlocal count
        count += 1
        if count == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        inner(self)

    monkeypatch.setattr(session.Training, "take_step", stop_at_seven)
    with pytest.raises(Stopped):
        trained(tmp_path, settings, "stopped")
    resumed = session.resume(tmp_path / "stopped", Progress(quiet=True), 0.0)

    assert 7 < count < 40
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_a_carried_state_makes_a_difference(tmp_path, folder):
    """With steps of four characters, only what is carried along tells how a sentence goes on."""
    scores = {}
    for carry in (True, False):
        settings = tree(folder / "cats.txt", "lstm", steps=100, context=4, carry=carry)
        run = trained(tmp_path, settings, f"run-{carry}")
        scores[carry] = run.evaluate(str(folder / "cats.txt")).metrics["bpc"].value

    assert scores[True] < 0.8 * scores[False]


@pytest.mark.parametrize(("name", "more"), [("cats", 0), ("lines", 1)])
def test_a_score_is_the_perplexity_of_its_ids(name, more, request, seqlab):
    """From log p of the text, by hand; a text that is a row also has an end, which is predicted, too."""
    run = request.getfixturevalue(name)
    text = "the dog sat"
    [logp] = run.score_texts([text])
    [score] = run.score([text])
    code, out, err = seqlab("predict", run.folder, text, "--score", "--json")

    assert score.perplexity == pytest.approx(np.exp(-logp / (len(text) + more)))
    assert score.bits_per_character == pytest.approx(-logp / np.log(2) / (len(text) + more))
    assert code == 0 and json.loads(out) == score.to_json() and score.kind == "perplexity", err


# Looking inside ---------------------------------------------------------------------------------------------


def test_explain_shows_what_surprised_it(cats, tmp_path):
    found = cats.explain("the cat sat on the mat.\nthe cow")
    pieces, bits = found.maps[0].pieces, found.maps[0].weights

    assert found.method == "surprise" and found.maps[0].unit == "bits"
    assert pieces[23] == "⏎" and pieces[29] == "o"
    assert bits[29] > 3 > bits[25]
    assert found.save(tmp_path / "map.html").exists() and "bits" in (tmp_path / "map.html").read_text()


def test_explain_shows_where_a_transformer_looked(lines):
    found = lines.explain("the cat sat on")
    received, surprised, *matrices = found.maps

    assert [one.weights.shape for one in matrices] == [(4, 14, 14)] * 2
    assert received.pieces[0] == "[BOS]" and surprised.pieces == tuple("the cat sat on")
    assert all(np.allclose(np.triu(one.weights, 1), 0) for one in matrices)  # nobody looks ahead


def test_the_report_has_samples_and_the_most_surprising_lines(cats, folder):
    settings = cats.settings
    prepared = Files(settings.task, settings.data).prepare(settings.data, settings.model, settings.decode)
    scores, found = cats.findings(prepared.stores["valid"])

    assert len(found.samples) == 6 and found.samples[0].startswith("At temperature 0.5:\n")
    assert [one.score for one in found.worst] == sorted((one.score for one in found.worst), reverse=True)
    assert scores.examples == 40


# What can't work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"decode.temperature": 0}, "decode.temperature"),
        ({"decode.beam": 0}, "decode.beam"),
        ({"decode.top_p": 1.5}, "decode.top_p"),
        ({"decode.beam": 2, "decode.sample": True}, "sample draws one text"),
    ],
)
def test_decoding_out_of_range_is_refused(cats, asked, wanted):
    with pytest.raises(UserError, match=wanted) as fault:
        cats.predict(["the"], asked)
    assert fault.value.exit_code == 2


def test_a_beam_does_not_come_piece_by_piece(cats):
    with pytest.raises(UserError, match=r"decode\.beam is 2") as fault:
        next(cats.stream("the", {"decode.beam": 2}))
    assert "use predict" in fault.value.fix


def test_a_prompt_beyond_all_rows_is_refused_by_a_transformer(lines):
    with pytest.raises(UserError, match="The prompt has 45 characters") as fault:
        lines.predict(["the cat sat on the cat sat on the cat sat on."])
    assert fault.value.exit_code == 2 and "texts of up to 23" in fault.value.why


def test_a_language_model_gives_no_vectors(cats):
    with pytest.raises(UserError, match="a run of generate, which gives no vectors"):
        cats.embed(["the"])


@pytest.mark.parametrize(
    ("model", "task", "wanted"),
    [
        (ModelConfig(), Generate(), 'model.input is of kind "tokens"'),
        (alone(Transformer()), Generate(carry=True), "task.carry is true"),
        (
            alone(Transformer(positions=Learned(length=64))),
            Generate(context=65),
            "is 65, but the model learns 64 positions",
        ),
    ],
)
def test_models_that_do_not_fit_the_task_are_refused(model, task, wanted):
    with pytest.raises(UserError, match=wanted) as fault:
        task.objectives(model)
    assert fault.value.exit_code == 2 and fault.value.fix


def test_a_stride_beyond_the_context_is_refused():
    with pytest.raises(UserError, match="stride: 9 is more than context: 8"):
        config.build(Settings, {"task": {"kind": "generate", "context": 8, "stride": 9}}, "settings")


@pytest.mark.parametrize(
    ("text", "wanted"), [("", "this file is empty"), ("the cat\n", "too little text: 8 characters")]
)
def test_too_little_text_ends_before_anything_is_written(seqlab, tmp_path, text, wanted):
    (tmp_path / "cats.txt").write_text(text)
    (tmp_path / "run.yaml").write_text(config.write_yaml(tree(tmp_path / "cats.txt")))
    for verb in (
        ["train", tmp_path / "run.yaml", "--out", tmp_path / "run"],
        ["check", tmp_path / "run.yaml"],
    ):
        code, out, err = seqlab(*verb)

        assert code == 2 and wanted in out + err and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_check_tells_what_is_in_the_text(seqlab, tmp_path, folder):
    (tmp_path / "run.yaml").write_text(config.write_yaml(tree(folder / "cats.txt")))
    code, out, _ = seqlab("check", tmp_path / "run.yaml")

    assert code == 0
    assert "task.flow is text: running text, line ends included" in out
    assert "9,600 characters, 2,400 words" in out and "held out for validation: the text from" in out


def test_a_table_is_no_text_to_a_model_of_running_text(seqlab, cats, tmp_path):
    (tmp_path / "rows.csv").write_text("text\nthe cat sat on the mat.\n")
    code, _, err = seqlab("evaluate", cats.folder, tmp_path / "rows.csv")

    assert code == 2 and "this is a table, but task.flow is text" in err


def test_facts_of_another_task_are_refused(cats, tmp_path):
    copy = shutil.copytree(cats.folder, tmp_path / "copy")
    (copy / "facts.json").write_text(
        (copy / "facts.json").read_text().replace('"task": "generate"', '"task": "classify"')
    )
    with pytest.raises(UserError, match='this is of the task "classify"'):
        seqlab.load(copy)


def test_a_window_that_is_full_is_begun_anew():
    """Longer than the window, text comes from the last three quarters of it, again and again."""
    model = writer(Transformer(layers=1, heads=2, feed_forward=16, positions=Learned(length=8)))
    pen = Writer(model, CharacterTokens().train(["abc"]), 7, endless=True, window=8)

    how = DecodeConfig(sample=True, temperature=0.8)
    assert pen.write([[8, 9]], how, 50)[0] == list(pen.stream([8, 9], how, 50))
    assert len(pen.write([[8] * 30], how, 21)[0]) == 21
    assert min(pen.write([[8]], how, 40)[0]) > EOS


def test_what_would_come_after_the_end_of_a_row_is_set_apart(cats):
    """A row that ends early goes on behind [EOS]; one that is cut has no end, and nothing after it."""
    pen = Writer(writer(Lstm(width=8)), cats.answer.text.tokenizer, BOS, endless=False, window=None)
    ended = 0
    for seed in range(12):
        how = DecodeConfig(sample=True, seed=seed)
        [plain], [more] = (pen.write([[8]], one, 9) for one in (how, replace(how, ignore_end=3)))
        assert more[: len(plain)] == plain
        ended += len(plain) < 9
        if len(plain) < 9:
            assert more[len(plain)] == EOS and len(more) == len(plain) + 4
    assert ended
    tokenizer = cats.answer.text.tokenizer
    the, cat, dog = (list(tokenizer.encode([text]).row(0)) for text in ("the", " cat", "dog"))
    assert text_after(tokenizer, the, [*cat, EOS, *dog]) == " cat [EOS] dog"
