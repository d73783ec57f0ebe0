"""Pretrained runs end to end: each objective is trained, asked, scored, embedded and explained; what can't
work is told."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import random
import re
import signal
import sys

import numpy as np
import pytest
import torch

import seqlab as package
from seqlab import cli, session
from seqlab.answers.exercises import padded
from seqlab.baselines.grams import guessed
from seqlab.data.corrupt import FIRST
from seqlab.data.documents import encode_documents
from seqlab.data.store import Store
from seqlab.data.tokenizers import CLS, EOS, MASK, SEP, SPECIAL
from seqlab.encoders.both_ways import BothWays
from seqlab.errors import Stopped, UserError
from seqlab.parts import Batch, Places
from seqlab.seq import Seq
from seqlab.training.progress import Progress

NAMES = ["Ann", "Ben", "Cleo", "Dora"]
COMMON = [
    "data.tokens.vocabulary=290",
    "task.context=32",
    "training.batch_tokens=512",
    "training.threads=1",
    "training.rate=0.01",
    "training.validations=2",
]
LAYER = ("layers=1", "heads=2", "feed_forward=32")
FILLS = ["model.input.width=16", *(f"model.encoder.{one}" for one in LAYER)]
WRITES = ["model.decoder.width=16", *(f"model.decoder.body.{one}" for one in LAYER)]
APART = ["model.input.width=16", "model.encoder.body.width=16"]
MODELS = {
    "masked": ("roberta", FILLS),
    "masked+next": ("bert", FILLS),
    "causal": ("gpt", WRITES),
    "both-ways": ("elmo", APART),
    "blank": ("blank-bilstm", APART),
    "denoise": ("bart", FILLS + WRITES),
}
OBJECTIVES = pytest.mark.parametrize("objective", MODELS)
FILLING = ["masked", "masked+next", "blank", "both-ways"]
STEPS = 8


def story(count: int, seed: int = 0) -> str:
    """Documents of a few sentences, of one language that is made up of little."""
    draw = random.Random(seed)
    documents = []
    for _ in range(count):
        sentences = []
        for _ in range(draw.randint(2, 4)):
            one, two = draw.sample(NAMES, 2)
            sentences.append(
                f"{one} {draw.choice(['wakes', 'eats', 'sleeps'])} this"
                f" {draw.choice(['morning', 'evening'])}."
            )
            sentences.append(f"Then {two} calls {one}.")
        documents.append(" ".join(sentences))
    return "\n\n".join(documents) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrain")
    (folder / "story.txt").write_text(story(80))
    (folder / "more.txt").write_text(story(20, seed=1))
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """Trains each objective once, by the command; gives the run and what was printed."""
    done = {}

    def train(objective: str):
        if objective not in done:
            preset, small = MODELS[objective]
            words = [
                "train",
                "pretrain",
                folder / "story.txt",
                "--model",
                preset,
                "--steps",
                STEPS,
                "--out",
                folder / preset,
            ]
            printed = io.StringIO()
            with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
                patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
                patch.setattr(sys, "argv", ["seqlab", *map(str, [*words, *COMMON, *small])])
                with contextlib.suppress(SystemExit):
                    cli.main()
            done[objective] = package.load(folder / preset), printed.getvalue()
        return done[objective]

    return train


@pytest.fixture
def run(trained):
    return lambda objective: trained(objective)[0]


def logs_at(run, ids: list[int], place: int) -> torch.Tensor:
    """log p of every id at a place, from the model itself; of two directions, the sum of both."""
    text = padded([np.array(ids)])
    batch = Batch(
        {"text": text}, torch.tensor([0]), {"places": Places(torch.tensor([place]), torch.tensor([0]))}
    )
    with torch.no_grad():
        return (
            run.model.places.output(run.model(batch).answers["places"].vectors).log_softmax(dim=-1).sum(dim=0)
        )


# Training ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective", [one for one in MODELS if one != "masked+next"]
)  # which needs two sentences
def test_a_text_without_full_stops_is_learnt_from_and_shown(objective, tmp_path):
    """Each document is one sentence, longer than what a model sees at once; the report shows what it fills
    in."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(NAMES, k=150)) for _ in range(20)]
    (tmp_path / "long.txt").write_text("\n\n".join(texts) + "\n")
    preset, small = MODELS[objective]
    settings = dict(word.split("=") for word in [*COMMON, *small, "training.baseline=false"])
    words = {"model": preset, "steps": 2, "settings": settings, "quiet": True}
    package.train("pretrain", str(tmp_path / "long.txt"), out=tmp_path / "run", **words)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("objective", ["masked", "blank", "causal"])
def test_compared_with_a_part_of_the_vocabulary_it_learns_nearly_as_much(objective, folder, tmp_path):
    """Of 290 pieces about 60 are compared with; validation is over all of them. Knowing nothing would cost
    log 290 = 5.67."""
    preset, small = MODELS[objective]
    losses = []
    for sampled in (1000, 60):  # 1000 is all
        settings = dict(
            word.split("=")
            for word in [*COMMON, *small, "training.baseline=false", f"task.sampled={sampled}"]
        )
        out = tmp_path / f"run{sampled}"
        package.train(
            "pretrain",
            str(folder / "story.txt"),
            model=preset,
            steps=60,
            out=out,
            settings=settings,
            quiet=True,
        )
        losses.append(json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["valid_loss"])
        told = json.loads((out / "scores.json").read_text()).get("signatures", {})
        assert ["trained against 60 sampled" in one for one in told.values()] == [True] * (sampled == 60)
    exact, estimated = losses
    assert exact < 3.5 and estimated < exact + 0.5


@OBJECTIVES
def test_every_objective_trains_is_scored_and_reported(objective, trained):
    run, printed = trained(objective)
    scores = json.loads((run.folder / "scores.json").read_text())
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    page, card = (run.folder / "report.html").read_text(), (run.folder / "README.md").read_text()
    names = [metric.name for metric in run.answer.metrics]

    assert f'Next: seqlab predict {run.folder} "{run.example}"' in printed and "3-gram" in printed
    assert list(scores["metrics"]) == names == list(scores["baselines"]["3-gram"])
    assert all(scores["metrics"][metric.name]["unit"] == metric.unit for metric in run.answer.metrics)
    assert {
        "step",
        "epoch",
        "seconds",
        "train_loss",
        "valid_loss",
        *(f"valid_{name}" for name in names),
    } <= set(rows[-1])
    assert rows[-1]["valid_loss"] < math.log(run.reads.tokenizer.size)
    assert "What it looks at" in page and ("[MASK]" in page or objective == "causal")
    assert "--from ." in card and "meant to be put under other tasks" in card
    assert run.predict([run.example])[0].to_json()["text"]


def test_the_names_say_pseudo_where_it_is(run):
    for objective, pseudo in {"causal": False, "blank": True, "both-ways": True}.items():
        for metric in run(objective).answer.metrics:
            assert ["pseudo" in word for word in (metric.name, metric.title, metric.unit)] == [pseudo] * 3
    assert [metric.unit for metric in run("masked").answer.metrics] == [
        "nats per hidden piece",
        "share of hidden pieces",
    ]
    assert "written" in run("denoise").answer.metrics[0].unit


@pytest.mark.parametrize(
    "words", ["check pretrain STORY", "init pretrain --model elmo", "inspect bert --task pretrain"]
)
def test_other_verbs_know_the_task(words, seqlab, folder):
    given = [folder / "story.txt" if word == "STORY" else word for word in words.split()]
    code, out, err = seqlab(*given)
    assert code == 0 and out, err


@pytest.mark.parametrize("objective", ["masked", "both-ways"])
def test_stopped_and_resumed_it_ends_bit_for_bit_like_an_unbroken_run(
    objective, run, folder, monkeypatch, tmp_path
):
    """What chance hides follows from seed, epoch and row, so that nothing about it has to be remembered."""
    whole = run(objective)
    monkeypatch.setenv("SEQLAB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(session.Session, "finish", lambda self, _: package.load(self.folder))
    preset, small = MODELS[objective]
    settings = dict(word.split("=") for word in [*COMMON, *small]) | {"training.baseline": "false"}
    count, inner = 0, session.Training.take_step

    def stop_at_three(self):
        nonlocal count
        count += 1
        if count == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        inner(self)

    monkeypatch.setattr(session.Training, "take_step", stop_at_three)
    with pytest.raises(Stopped):
        package.train(
            "pretrain",
            str(folder / "story.txt"),
            model=preset,
            steps=STEPS,
            out=tmp_path / "stopped",
            settings=settings,
            quiet=True,
        )
    resumed = session.resume(tmp_path / "stopped", Progress(quiet=True), 0.0)

    assert 3 < count <= STEPS + 1
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


# Blanks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", FILLING)
def test_predict_ranks_pieces_for_every_blank(objective, run, seqlab):
    text = "Ann [MASK] this [MASK]."
    code, out, err = seqlab("predict", run(objective).folder, text, "--json")
    told = json.loads(out)

    assert code == 0, err
    assert told == run(objective).predict([text])[0].to_json()
    assert told["text"] == "Ann {} this {}.".format(*(blank["token"] for blank in told["blanks"]))
    for blank in told["blanks"]:
        ranked = [blank, *blank["others"]]
        scores = [one["score"] for one in ranked]
        assert len(ranked) == 5 and scores == sorted(scores, reverse=True) and sum(scores) <= 1
        assert all(
            one["token"].isalnum() and one["token"] not in SPECIAL for one in ranked
        )  # words: each stands alone


def test_a_masked_model_reads_the_text_as_in_training(run):
    """By hand: [CLS] text [SEP], no space before a mask, log p over all ids but marks."""
    masked = run("masked")
    ids = [CLS, *masked.answer.ids("Ann"), MASK, *masked.answer.ids(" this morning."), SEP]
    chances = logs_at(masked, ids, ids.index(MASK))[FIRST:].softmax(dim=0)
    [answer] = masked.predict(["Ann [MASK] this morning."])

    for token, score in ((answer.blanks[0].token, answer.blanks[0].score), *answer.blanks[0].others):
        number = masked.reads.tokenizer.inner.token_to_id("Ġ" + token)
        assert score == pytest.approx(float(chances[number - FIRST]), rel=1e-5)


@pytest.mark.parametrize("objective", ["blank", "both-ways"])
def test_models_that_never_saw_a_mask_fill_from_left_to_right(objective, run):
    """By hand: the first blank from the text without the second one, the second with the best piece in the
    first."""
    model = run(objective)
    [answer] = model.predict(["Ann [MASK] this [MASK]."])
    first, second = answer.blanks
    start, middle, end = model.answer.ids("Ann"), model.answer.ids(" this"), model.answer.ids(".")
    best = model.reads.tokenizer.inner.token_to_id("Ġ" + first.token)
    chances = logs_at(model, [*start, MASK, *middle, *end], len(start))[FIRST:].softmax(dim=0)

    assert first.score == pytest.approx(float(chances[best - FIRST]), rel=1e-5)
    ids = [*start, best, *middle, SEP, *end]  # whatever stands at the blank itself is not seen
    chances = logs_at(model, ids, ids.index(SEP))[FIRST:].softmax(dim=0)
    number = model.reads.tokenizer.inner.token_to_id("Ġ" + second.token)
    assert second.score == pytest.approx(float(chances[number - FIRST]), rel=1e-5)


def test_a_pair_is_judged_and_its_blanks_are_filled(run, seqlab):
    bert = run("masked+next")
    code, out, err = seqlab(
        "predict", bert.folder, "Ann wakes this morning.\tThen [MASK] calls Ann.", "--json"
    )
    told = json.loads(out)
    one, then, calls = (bert.answer.ids(text) for text in ("Ann wakes this morning.", "Then", " calls Ann."))
    ids = [CLS, *one, SEP, *then, MASK, *calls, SEP]
    segments = [0] * (ids.index(SEP) + 1) + [1] * (len(ids) - ids.index(SEP) - 1)
    inputs = {"text": padded([np.array(ids)]), "segments": padded([np.array(segments)])}
    with torch.no_grad():
        target = Places(torch.tensor([0]), torch.tensor([0]))
        output = bert.model(Batch(inputs, torch.tensor([0]), {"places": target}))
    follows = output.answers["row"].scores.softmax(dim=-1)[0].tolist()

    assert code == 0, err
    assert told["scores"] == {
        "NotNext": pytest.approx(follows[0], abs=1e-6),
        "IsNext": pytest.approx(follows[1], abs=1e-6),
    }
    assert told["label"] == max(told["scores"], key=told["scores"].get) and len(told["blanks"]) == 1
    assert list(bert.predict([("Ann wakes.", "Then Ben calls Ann.")])[0].to_json()) == ["label", "scores"]


def test_pairs_come_from_the_columns_of_a_table_and_from_lines_with_a_tab(run, seqlab, tmp_path):
    bert, pairs = (
        run("masked+next"),
        [("Ann wakes.", "Then Ben calls Ann."), ("Ben calls.", "Ann has dinner.")],
    )
    (tmp_path / "pairs.csv").write_text("text,text2\n" + "".join(f"{one},{two}\n" for one, two in pairs))
    (tmp_path / "pairs.txt").write_text("".join(f"{one}\t{two}\n" for one, two in pairs))
    for name in ("pairs.csv", "pairs.txt"):
        code, out, err = seqlab("predict", bert.folder, "--input", tmp_path / name, "--json")
        assert code == 0, err
        assert [json.loads(line) for line in out.splitlines()] == [
            answer.to_json() for answer in bert.predict(pairs)
        ]


def test_long_texts_are_read_around_their_blanks(run):
    masked, long = run("masked"), "Then Ann calls Ben. " * 12
    near, alone = (masked.predict([text + "Dora [MASK] this morning."])[0] for text in (long, ""))

    assert "the model looked at 30 of them" in near.note and not alone.note
    with pytest.raises(UserError, match=r"(?s)pieces apart.*sees 30 pieces"):
        masked.predict(["[MASK] wakes. " + long + "Dora [MASK]."])
    with pytest.raises(UserError, match="beyond what this model sees"):
        run("masked+next").predict([("[MASK] wakes. " + long, long)])
    with pytest.raises(UserError, match=r"(?s)pieces.*repair texts of up to 42"):
        run("denoise").predict([long])


# What is written --------------------------------------------------------------------------------------------


def test_a_causal_model_goes_on(run, seqlab):
    code, out, err = seqlab("predict", run("causal").folder, "Then Ann", "decode.longest=5", "--json")
    told = json.loads(out)["text"]

    assert code == 0 and told.startswith("Then Ann") and len(told) > len("Then Ann"), err
    assert (
        "looked at the last"
        in run("causal").predict(["Then Ann calls Ben. " * 12], {"decode.longest": 2})[0].note
    )


def test_a_denoising_model_writes_what_its_decoder_finds(run):
    """By hand, greedily: id after id, marks never."""
    bart = run("denoise")
    [answer] = bart.predict(["Ann [MASK] this morning."], {"decode.longest": 6})
    read = padded([np.array([*bart.answer.ids("Ann"), MASK, *bart.answer.ids(" this morning."), EOS])])
    written = [SPECIAL.index("[BOS]")]
    with torch.no_grad():
        memory = bart.model.encoded(Batch({"text": read}, torch.tensor([0])))[1]
        for _ in range(6):
            states, _ = bart.model.decoder.advance(
                torch.tensor([written]), bart.model.decoder.start(memory, 1)
            )
            scores = bart.model.decoder.answer(states[:, -1]).scores[0]
            scores[[number for number in range(FIRST) if number != EOS]] = -torch.inf
            written.append(int(scores.argmax()))
            if written[-1] == EOS:
                break

    assert answer.text == bart.reads.tokenizer.decode(written)


# Scores -----------------------------------------------------------------------------------------------------


def nats_by_hand(model, text: str) -> list[float]:
    """−log p of each piece of a text that is not longer than the context."""
    ids = model.answer.ids(text)
    if model.task.objective == "causal":
        with torch.no_grad():
            states, _ = model.model.decoder.advance(
                torch.tensor([[SEP, *ids[:-1]]]), model.model.decoder.start(None, 1)
            )
            logs = model.model.decoder.answer(states[0]).scores.log_softmax(dim=-1)
        return [-float(logs[place, number]) for place, number in enumerate(ids)]
    found = []
    for place, number in enumerate(ids):
        if model.task.objective in ("blank", "both-ways"):
            sides = 1 + model.model.places.halves
            found.append(-float(logs_at(model, ids, place)[number]) / sides)
        else:
            shown = [CLS, *ids[:place], MASK, *ids[place + 1 :], SEP]
            found.append(-float(logs_at(model, shown, place + 1)[number]))
    return found


@pytest.mark.parametrize("objective", ["causal", *FILLING])
def test_a_score_is_what_the_model_itself_gives(objective, run, seqlab):
    text = "Ann wakes this morning. Then Ben calls Ann."
    nats = nats_by_hand(run(objective), text)
    [score] = run(objective).score([text])
    code, out, err = seqlab("predict", run(objective).folder, text, "--score", "--json")

    assert score.perplexity == pytest.approx(math.exp(np.mean(nats)), rel=1e-5)
    assert score.bits_per_character == pytest.approx(sum(nats) / math.log(2) / len(text), rel=1e-5)
    assert score.kind == ("perplexity" if objective == "causal" else "pseudo-perplexity")
    assert code == 0 and json.loads(out) == score.to_json(), err


@pytest.mark.parametrize("objective", ["causal", "masked", "blank"])
def test_texts_longer_than_the_context_are_scored_to_their_end(objective, run):
    model = run(objective)
    long = "Then Ann calls Ben. " * 12
    nats = model.answer.nats(model.model, model.answer.whole(long))

    assert (
        len(nats) == len(model.answer.ids(long)) > model.answer.context
        and np.isfinite(nats).all()
        and (nats > 0).all()
    )


def test_files_are_scored_row_by_row(run, seqlab, tmp_path):
    (tmp_path / "some.txt").write_text("Ann wakes.\nThen Ben calls Ann.\n")
    words = ["--input", tmp_path / "some.txt", "--score", "--output", tmp_path / "a.jsonl"]
    code, _, err = seqlab("predict", run("blank").folder, *words)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]

    assert code == 0, err
    expected = run("blank").score(["Ann wakes.", "Then Ben calls Ann."])
    assert [row["pseudo_perplexity"] for row in rows] == pytest.approx(
        [score.perplexity for score in expected]
    )


@OBJECTIVES
def test_evaluate_gives_every_metric_with_the_ngrams_beside_it(objective, run, seqlab, folder):
    code, out, err = seqlab("evaluate", run(objective).folder, folder / "more.txt", "--json")
    told = json.loads(out)

    assert code == 0, err
    assert (
        list(told["metrics"])
        == [metric.name for metric in run(objective).answer.metrics]
        == list(told["baselines"]["3-gram"])
    )
    assert all(one["low"] <= one["value"] <= one["high"] for one in told["metrics"].values())


def test_a_causal_perplexity_is_that_of_its_blocks(run, folder):
    """By hand: the text in blocks of 32 ids, each after the one id before it; and the same by n-grams."""
    model = run("causal")
    documents = (folder / "more.txt").read_text().split("\n\n")
    texts = [text + "\n" if place < len(documents) - 1 else text for place, text in enumerate(documents)]
    ids = [number for text in texts for number in [*model.answer.ids(text), SEP]]
    [baseline], total, grams = model.baselines, 0.0, 0.0
    for start in range(0, len(ids), 32):
        fed = ids[start - 1 : start + 32] if start else [SEP, *ids[:32]]
        with torch.no_grad():
            states, _ = model.model.decoder.advance(
                torch.tensor([fed[:-1]]), model.model.decoder.start(None, 1)
            )
            logs = model.model.decoder.answer(states[0]).scores.log_softmax(dim=-1)
        total -= float(logs[torch.arange(len(fed) - 1), torch.tensor(fed[1:])].sum())
        grams += float(baseline.ngrams.nats(np.array(fed))[1:].sum())
    scores = model.evaluate(str(folder / "more.txt"))

    assert scores.metrics["piece_perplexity"].value == pytest.approx(math.exp(total / len(ids)), rel=1e-4)
    beside = scores.baselines["3-gram"].metrics
    assert beside["piece_perplexity"].value == pytest.approx(math.exp(grams / len(ids)), rel=1e-6)
    characters = sum(map(len, texts))
    assert beside["bpc"].value == pytest.approx(grams / math.log(2) / characters, rel=1e-6)


def test_ngrams_find_hidden_pieces_from_those_before_them(run, folder):
    """By hand, for each hidden piece of the first blocks: the chance after the two pieces before it, were
    they not hidden."""
    model = run("masked")
    text, _ = encode_documents(model.reads.tokenizer, [story(1, seed=2)])
    exercise, [baseline] = model.answer.exercise(Store({"text": text}, {})), model.baselines
    tally = guessed(baseline.ngrams, exercise, None)
    nats, count, hits = 0.0, 0, 0
    for rows in exercise.fixed(None):
        batch = exercise.batch(rows)
        width = batch.inputs["text"].mask.shape[1]
        for place, answer in zip(batch.places.positions.tolist(), batch.places.values.tolist(), strict=True):
            row, at = divmod(place, width)
            start = int(rows[row][0]) + at - 1
            before = text.values[max(int(rows[row][0]), start - 2) : start].tolist()
            nats += float(baseline.ngrams.nats(np.array([*before, answer]))[-1])
            every = [
                baseline.ngrams.nats(np.array([*before, number]))[-1]
                for number in range(model.reads.tokenizer.size)
            ]
            hits += int(np.argmin(every)) == answer
            count += 1

    assert tally.rows[:, 2].sum() == count
    assert tally.rows[:, 1].sum() == pytest.approx(nats, rel=1e-9)
    assert tally.rows[:, 0].sum() == pytest.approx(hits, abs=1)  # several may be likeliest


# Vectors ----------------------------------------------------------------------------------------------------


@OBJECTIVES
def test_a_text_has_a_vector_and_one_for_each_piece(objective, run, seqlab):
    code, out, err = seqlab("predict", run(objective).folder, "Ann wakes this morning.", "--embed", "--json")
    told = json.loads(out)
    vectors = np.array([one["vector"] for one in told["tokens"]])

    assert code == 0, err
    assert "".join(one["token"] for one in told["tokens"]) == "Ann wakes this morning."
    assert told["vector"] == pytest.approx(vectors.mean(axis=0), rel=1e-6, abs=1e-9)
    assert len(run(objective).embed("Then Ann calls Ben. " * 12).tokens) > 32


def test_the_vectors_of_a_blank_model_know_their_own_word(run):
    """They are those of the same weights in an encoder that hides nothing."""
    blank = run("blank")
    config = blank.settings.model.encoder
    open_ = dataclasses.replace(config, hides=False).build(16)
    weights = {name: tensor for name, tensor in blank.model.encoder.state_dict().items() if name != "edges"}
    open_.load_state_dict(weights)
    ids = torch.tensor([blank.answer.ids("Ann wakes.")])
    with torch.no_grad():
        x = blank.model.input(
            Batch({"text": Seq(ids, torch.ones_like(ids, dtype=torch.bool))}, torch.tensor([0]))
        )
        expected = open_(x).values[0]

    assert isinstance(config, BothWays) and config.hides
    found = torch.tensor([vector for _, vector in blank.embed(["Ann wakes."])[0].tokens])
    torch.testing.assert_close(found, expected, check_dtype=False)


@OBJECTIVES
def test_answers_do_not_depend_on_batch_mates(objective, run):
    model = run(objective)
    blanked = objective in FILLING
    text = "Ann [MASK] this [MASK]." if blanked else "Ann"
    others = ["Then [MASK] calls Ben. Ann wakes this morning." if blanked else "Then Ann calls", text]
    how = {"decode.longest": 4, "decode.seed": 3, "decode.sample": False}
    [alone], beside = model.predict([text], how), model.predict([text, *others], how)
    assert alone.to_json()["text"] == beside[0].to_json()["text"] == beside[2].to_json()["text"]
    if blanked:
        assert [blank.score for blank in alone.blanks] == pytest.approx(
            [blank.score for blank in beside[0].blanks], rel=1e-4
        )
    [one], [two, _] = (
        model.embed(["Ann wakes."]),
        model.embed(["Ann wakes.", "Then Ben calls Ann. Dora eats."]),
    )
    assert one.vector == pytest.approx(two.vector, abs=1e-5)


# Looking inside ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "text", "method", "kinds"), [
    ("masked", "Ann [MASK] this morning.", "attention", {"tokens", "matrix"}),
    ("masked", "Ann wakes this morning.", "attention", {"tokens", "matrix"}),
    ("masked+next", "Ann [MASK].\tThen Ben calls Ann.", "attention", {"tokens", "matrix"}),
    ("causal", "Ann wakes this", "attention", {"tokens", "matrix"}),
    ("blank", "Ann [MASK] this [MASK].", "gradient × input", {"tokens"}),
    ("both-ways", "Ann wakes this morning.", "surprise", {"tokens"}),
    ("denoise", "Ann [MASK] this morning.", "attention", {"alignment"}),
])  # fmt: skip
def test_explain_shows_what_there_is(objective, text, method, kinds, run, seqlab, tmp_path):
    code, _, err = seqlab("explain", run(objective).folder, text, "--out", tmp_path / "map.json")
    told = json.loads((tmp_path / "map.json").read_text())

    assert code == 0, err
    assert told["method"] == method and {one["kind"] for one in told["maps"]} == kinds and told["label"]


def test_gradients_of_a_blank_model_are_zero_at_the_blank(run):
    found = run("blank").explain("Ann [MASK] this morning.")
    [shown] = found.maps
    blank = shown.pieces.index("[MASK]")

    assert "gradient × input" in found.note and "first blank" in shown.name
    assert shown.weights[blank] == 0 and np.count_nonzero(shown.weights) == len(shown.pieces) - 1


def test_the_surprise_of_a_causal_model_is_its_nats(run):
    model = run("causal")
    shown = next(one for one in model.explain("Ann wakes this").maps if one.unit == "bits")
    assert shown.weights == pytest.approx(
        np.array(nats_by_hand(model, "Ann wakes this")) / np.log(2), rel=1e-4
    )


# What can't work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "words", "told"), [
    ("masked", ["predict", "Ann wakes."], r"no \[MASK\].*--score"),
    ("blank", ["predict", "Ann wakes."], r"no \[MASK\].*--score"),
    ("causal", ["predict", "Ann [MASK]."], "learnt to continue"),
    ("masked", ["predict", "a [MASK]\tb"], r"pair of texts.*judges pairs.*learnt masked\."),
    ("denoise", ["predict", "a\tb"], "pair of texts"),
    ("masked", ["predict", " "], "empty"),
    ("masked", ["predict", "a [MASK]", "--score"], r"There is a \[MASK\]"),
    ("denoise", ["predict", "a", "--score"], "learnt to repair"),
    ("masked", ["predict", "a", "--score", "--embed"], "side by side"),
    ("masked+next", ["predict", "a\tb", "--embed"], "pair of texts"),
    ("masked+next", ["predict", "a\t "], "empty"),
])  # fmt: skip
def test_what_makes_no_sense_is_said_kindly(objective, words, told, run, seqlab):
    code, out, err = seqlab(words[0], run(objective).folder, *words[1:])
    assert code == 2 and not out and "Traceback" not in err
    assert re.search(told, err, flags=re.DOTALL), err


def test_an_empty_file_can_not_be_scored(run, seqlab, tmp_path):
    (tmp_path / "nothing.txt").write_text("\n\n")
    assert seqlab("evaluate", run("masked").folder, tmp_path / "nothing.txt")[0] == 2


@pytest.mark.parametrize(("task", "cut"), [("generate", True), ("pretrain", False)])
def test_a_long_row_is_cut_only_where_it_is_read_whole(task, cut, seqlab, tmp_path):
    """`generate` learns rows as a whole, up to data.length; `pretrain` reads all of them, in blocks."""
    (tmp_path / "rows.csv").write_text(
        "text\n" + "\n".join("a word " * (10 + 1500 * (row == 3)) for row in range(40))
    )
    code, out, err = seqlab("check", task, tmp_path / "rows.csv")
    assert code == 0 and ("cut off after data.length" in out + err) == cut, out + err
