"""A trained run's body under another task."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch
from made import opinions, write_table
from safetensors.torch import load_file

import seqlab as library
from seqlab.encoders import BothWays
from seqlab.errors import UserError
from seqlab.training.layer_rates import LayerRates, TransferConfig
from seqlab.training.loop import Training
from seqlab.transfer import PretrainedRun

SMALL = {"training.batch_tokens": 256, "training.workers": 1, "training.baseline": False}
LAYER = {"layers": 2, "heads": 2, "feed_forward": 16}
ENCODER = {f"model.encoder.{key}": value for key, value in LAYER.items()}
BODY = {f"model.decoder.body.{key}": value for key, value in LAYER.items()}
TWO_WAYS = {"model.input.width": 8, "model.encoder.body.width": 8, "model.encoder.body.layers": 2}
SHAPES = {
    "bert": {"model.input.width": 16, "model.head.hidden": [16], **ENCODER},
    "roberta": {"model.input.width": 16, **ENCODER},
    "gpt": {"model.decoder.width": 16, **BODY},
    "elmo": TWO_WAYS,
    "blank-bilstm": TWO_WAYS,
    "bart": {"model.input.width": 16, "model.decoder.width": 16, **ENCODER, **BODY},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Labelled rows, pairs of texts, and texts alone."""
    folder = tmp_path_factory.mktemp("data")
    rows = opinions(300)
    write_table(folder / "labelled.csv", rows[:120])
    pairs = [(text, " ".join(reversed(text.split()))) for text, _ in rows[:80]]
    write_table(folder / "pairs.csv", pairs, ("source", "target"))
    write_table(folder / "texts.csv", [(text,) for text, _ in rows], ("text",))
    lines = [
        {"tokens": (words := text.split()), "tags": [f"{len(word) > 4}" for word in words]}
        for text, _ in rows
    ]
    (folder / "tagged.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:80]))
    return folder


@pytest.fixture(scope="module")
def pretrained(data, tmp_path_factory):
    """A small run of each preset, trained once."""
    folder = tmp_path_factory.mktemp("pretrained")
    os.environ["SEQLAB_CACHE"] = str(folder / "cache")
    made = {}

    def get(preset):
        if preset not in made:
            settings = SMALL | SHAPES[preset] | {"task.context": 24, "data.tokens.vocabulary": 300}
            made[preset] = library.train(
                "pretrain",
                str(data / "texts.csv"),
                model=preset,
                steps=3,
                settings=settings,
                out=folder / preset,
                quiet=True,
            )
        return made[preset]

    return get


def tune(task, data, source, out, **more):
    name = "labelled.csv" if task == "classify" else "pairs.csv" if task == "translate" else "texts.csv"
    settings = SMALL | more
    return library.train(
        task, str(data / name), start=source.folder, steps=2, settings=settings, out=out, quiet=True
    )


@pytest.mark.parametrize("preset", SHAPES)
def test_a_body_under_classify_trains_saves_and_answers_alike_after_loading(
    preset, pretrained, data, tmp_path
):
    run = tune("classify", data, pretrained(preset), tmp_path / "run")
    texts = [text for text, _ in opinions(5, seed=1)]
    assert library.load(tmp_path / "run").predict(texts) == run.predict(texts)
    assert not (
        tmp_path / "run" / "start.safetensors"
    ).exists()  # it needs the weights of the start no longer


@pytest.mark.parametrize(
    ("preset", "parts"),
    [
        ("roberta", "all"),
        ("gpt", "all"),
        ("bart", "all"),
        ("bart", "encoder"),
        ("bart", "decoder"),
        ("blank-bilstm", "all"),
    ],
)
def test_a_body_under_translate_trains_saves_and_answers_alike_after_loading(
    preset, parts, pretrained, data, tmp_path
):
    more = {"transfer.parts": parts}
    if preset not in ("gpt", "bart"):  # the decoder is the task's own: make it small
        more |= BODY
    if preset == "gpt" or parts == "decoder":
        more |= ENCODER
    run = tune("translate", data, pretrained(preset), tmp_path / "run", **more)
    texts = [text for text, _ in opinions(3, seed=1)]
    assert library.load(tmp_path / "run").predict(texts) == run.predict(texts)


@pytest.mark.parametrize("preset", ["bert", "gpt", "elmo", "blank-bilstm", "bart"])
def test_a_body_under_tag_answers_for_each_word_by_its_first_piece(preset, pretrained, data, tmp_path):
    run = library.train(
        "tag", str(data / "tagged.jsonl"), start=pretrained(preset).folder, steps=2,
        settings=SMALL, out=tmp_path / "run", quiet=True,
    )  # fmt: skip
    words = [text.split() for text, _ in opinions(5, seed=1)]
    said = run.predict(words)
    assert [len(one.tags) for one in said] == list(map(len, words))
    assert library.load(tmp_path / "run").predict(words) == said
    before = load_file(pretrained(preset).folder / "model.safetensors")
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert set(run.model.state_dict()) >= {"places.output.weight"} and "places.output.weight" not in before
    assert after["input.embedding.weight"].shape[0] == run.facts.symbols["text"]


def test_a_body_reads_as_far_as_its_positions_tell(pretrained, data, tmp_path):
    """Rotary positions know distances, so texts may be longer than those that were pretrained on; a table of
    places ends."""
    positions = {
        "model.encoder.positions": {"kind": "learned", "length": 24},
        "task.context": 24,
        "data.tokens.vocabulary": 300,
    }
    learned = tmp_path / "learned"
    settings = SMALL | SHAPES["roberta"] | positions
    library.train(
        "pretrain",
        str(data / "texts.csv"),
        model="roberta",
        steps=1,
        settings=settings,
        out=learned,
        quiet=True,
    )
    lengths = [
        PretrainedRun(folder).adapt({}, "classify")["data"]["length"]
        for folder in (pretrained("roberta").folder, learned)
    ]
    assert lengths == [256, 24]


@pytest.mark.parametrize("preset", SHAPES)
def test_a_frozen_body_stays_as_it_was_pretrained(preset, pretrained, data, tmp_path):
    source = pretrained(preset)
    run = tune(
        "classify", data, source, tmp_path / "run", **{"transfer.freeze": "all", "training.average": 0.0}
    )
    before, after = (
        load_file(source.folder / "model.safetensors"),
        load_file(run.folder / "model.safetensors"),
    )
    renamed = {
        name.replace("decoder.body.", "encoder.").replace("decoder.embedding", "input.embedding"): name
        for name in before
    }
    shared = [name for name in after if name in renamed and name.startswith(("input.", "encoder."))]
    assert len(shared) > 5
    assert all(torch.equal(after[name], before[renamed[name]]) for name in shared)


def test_freezing_layers_counts_from_the_bottom(pretrained, data, tmp_path):
    source = pretrained("roberta")
    run = tune("classify", data, source, tmp_path / "run", **{"transfer.freeze": 1, "training.average": 0.0})
    before, after = (
        load_file(source.folder / "model.safetensors"),
        load_file(run.folder / "model.safetensors"),
    )
    same = {name for name in after if name in before and torch.equal(after[name], before[name])}
    assert "input.embedding.weight" in same
    assert all((".layers.0." in name) == (name in same) for name in after if ".layers." in name)


def test_a_word_that_was_hidden_is_seen_under_a_task_and_elmo_mixes_its_layers(pretrained, data, tmp_path):
    for preset in ("elmo", "blank-bilstm"):
        assert pretrained(preset).settings.model.encoder.hides
        run = tune("classify", data, pretrained(preset), tmp_path / preset)
        encoder = run.settings.model.encoder
        assert isinstance(encoder, BothWays) and not encoder.hides and encoder.mix == (preset == "elmo")
    weights = load_file(tmp_path / "elmo" / "model.safetensors")
    assert weights["encoder.weights"].shape == (3,)  # the tokens and two layers


def test_a_language_model_goes_on_with_what_it_knew(pretrained, data, tmp_path):
    source = pretrained("gpt")
    run = tune(
        "generate", data, source, tmp_path / "run", **{"training.rate": 1e-12, "training.average": 0.0}
    )
    before, after = (
        load_file(source.folder / "model.safetensors"),
        load_file(run.folder / "model.safetensors"),
    )
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-7) for name in before)
    with pytest.raises(UserError, match="nothing is left to learn"):
        tune("generate", data, source, tmp_path / "frozen", **{"transfer.freeze": "all"})


def test_pretraining_goes_on_with_other_texts(pretrained, data, tmp_path):
    write_table(tmp_path / "more.csv", [(text,) for text, _ in opinions(100, seed=5)], ("text",))
    run = library.train(
        "pretrain",
        str(tmp_path / "more.csv"),
        start=pretrained("roberta").folder,
        steps=2,
        settings=SMALL,
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.reads.tokenizer.size == pretrained("roberta").reads.tokenizer.size


# What does not fit ------------------------------------------------------------------------------------------


def test_another_tokenizer_is_refused_with_the_fix(seqlab, pretrained, data, tmp_path):
    words = [
        "train",
        "classify",
        data / "labelled.csv",
        "--from",
        pretrained("roberta").folder,
        "--out",
        tmp_path / "run",
    ]
    code, out, err = seqlab(*words, "data.tokens.kind=words")
    assert code == 2 and not out
    assert "data.tokens" in err and "the tokenizer of the run comes along" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("setting", "told"), [
    ("model.input.width=8", "input.embedding.weight"), ("model.encoder.feed_forward=12", "feed_forward"),
    ("model.encoder.layers=3", "layers.2"),
])  # fmt: skip
def test_another_shape_is_refused_with_the_fix(setting, told, seqlab, pretrained, data, tmp_path):
    words = [
        "train",
        "classify",
        data / "labelled.csv",
        "--from",
        pretrained("roberta").folder,
        "--out",
        tmp_path / "run",
    ]
    code, _, err = seqlab(*words, setting)
    assert code == 2 and told in err and "Leave out the settings" in err
    assert not (tmp_path / "run").exists()


def test_a_model_that_only_fills_in_cannot_write(pretrained, data, tmp_path):
    with pytest.raises(UserError, match="can't write by itself"):
        tune("generate", data, pretrained("roberta"), tmp_path / "run")


def test_a_folder_that_is_no_run_is_refused(seqlab, data, tmp_path):
    code, _, err = seqlab("train", "classify", data / "labelled.csv", "--from", tmp_path / "nothing")
    assert code == 2 and "nothing" in err


# How fast what learns ---------------------------------------------------------------------------------------


def test_rates_fall_with_depth_and_layers_are_let_loose_from_the_top():
    """By formula: rate_decay^depth once progress has reached unfreeze · depth / deepest."""
    model = torch.nn.ModuleDict(
        {
            "input": torch.nn.ModuleDict({"embedding": torch.nn.Embedding(3, 2)}),
            "encoder": torch.nn.ModuleDict(
                {"layers": torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])}
            ),
            "head": torch.nn.Linear(2, 2),
        }
    )
    taken = [name for name, _ in model.named_parameters() if not name.startswith("head")]
    layer_rates = LayerRates.of(model, taken, TransferConfig(rate_decay=0.5, unfreeze=0.3))
    depths = {
        "input.embedding.weight": 3,
        "encoder.layers.0.weight": 2,
        "encoder.layers.1.weight": 1,
        "head.weight": 0,
    }
    assert {name: layer_rates.depth(name) for name in depths} == depths
    assert [layer_rates.factor(depth, 1.0) for depth in range(4)] == [1.0, 0.5, 0.25, 0.125]
    assert [layer_rates.factor(depth, 0.15) for depth in range(4)] == [1.0, 0.5, 0.0, 0.0]
    assert [layer_rates.factor(depth, 0.0) for depth in range(4)] == [1.0, 0.0, 0.0, 0.0]


def test_a_stopped_fine_tuning_ends_as_if_it_had_not_been_stopped(pretrained, data, tmp_path, monkeypatch):
    more = {"transfer.rate_decay": 0.8, "transfer.unfreeze": 0.5}
    whole = tune("classify", data, pretrained("roberta"), tmp_path / "whole", **more)
    step = Training.take_step

    def stop_after_the_first(self):
        step(self)
        if self.counters.step == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Training, "take_step", stop_after_the_first)
    with pytest.raises(library.errors.Stopped):
        tune("classify", data, pretrained("roberta"), tmp_path / "stopped", **more)
    monkeypatch.undo()
    library.session.resume(tmp_path / "stopped", library.session.Progress(quiet=True), 0.0)
    one, two = (load_file(folder / "model.safetensors") for folder in (whole.folder, tmp_path / "stopped"))
    assert all(torch.equal(one[name], two[name]) for name in one)
