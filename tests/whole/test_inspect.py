"""`seqlab inspect` from the command line: several models, lengths, published tables, pages, measuring."""

import json

import pytest

from seqlab import probe
from seqlab.settings import task_classes


@pytest.fixture
def told(seqlab):
    def run(*words):
        code, out, err = seqlab("inspect", *words)
        assert code == 0, err
        return out

    return run


def test_the_published_table_stands_beside_the_formula(told):
    """SPEC, "Also said in the course": data, dates and costs of the three; 6 · N · tokens by hand."""
    out = told("gpt-1", "gpt-2", "gpt-3")
    for words in (
        "116,534,784",
        "1,557,611,200",
        "174,604,259,328",
        "BookCorpus, 4.5 GB",
        "WebText, 40 GB",
        "499 G tokens",
        "1 petaflop/s-day",
        "1.5e21 FLOP",
        "3,640 petaflop/s-days",
        "2018",
        "2019",
        "2020",
    ):
        assert words in out
    days = 6 * 174_604_259_328 * 300e9 / (1e15 * 86_400)
    assert f"{days:,.4g} petaflop/s-days" in out and 3_600 < days < 3_680
    models = json.loads(told("gpt-1", "gpt-2", "gpt-3", "--json"))["models"]
    assert [one["published"]["year"] for one in models] == [2018, 2019, 2020]
    assert models[2]["published"]["operations"] == pytest.approx(
        models[2]["published"]["by_formula"], rel=0.01
    )
    assert abs(models[2]["parameters"]["total"] / 175e9 - 1) < 0.01


def test_a_changed_model_is_no_published_one(told):
    assert "published" in json.loads(told("gpt-1", "--json"))
    assert "published" not in json.loads(told("gpt-1", "--json", "model.decoder.body.layers=2"))


def test_everything_published_is_a_preset_and_the_other_way_round():
    from seqlab.tasks.published import PUBLISHED

    named = {name for kind in task_classes().values() for name in kind.published}
    assert named == PUBLISHED.keys()
    for kind in task_classes().values():
        assert kind.published.keys() <= kind.tables(probe.Size())[next(iter(kind.readable))].keys()


def test_lengths_double_over_a_range_and_crossings_are_told(told):
    out = told("lstm", "transformer", "--task", "classify", "--length", "64..4096")
    assert "up to n = 128, and more from n = 129 on" in out  # d is 128 in both
    tree = json.loads(told("lstm", "--length", "100..1000", "--json"))
    assert tree["length"] == 100 and tree["sweep"]["lengths"] == [100, 200, 400, 800, 1000]
    [lstm] = tree["sweep"]["models"]
    assert lstm["forward"][1] - lstm["forward"][0] == 100 * 8 * 128 * 128  # 8nd², the head aside
    assert lstm["sequential_steps"] == tree["sweep"]["lengths"]


def test_learned_positions_end_a_sweep_in_words(told):
    assert "gpt-1 has 512 learned positions" in told("gpt-1", "--length", "256..1024")


def test_a_page_is_one_file_and_nothing_is_loaded(told, tmp_path):
    told("lstm", "bert-base", "transformer-base", "--length", "64..256", "--out", tmp_path / "costs.html")
    page = (tmp_path / "costs.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3 and "B × 64 × 512" in page and "109,482,240" not in page
    assert "http" not in page and "<script" not in page and "src=" not in page
    told("gpt-1", "--html", tmp_path / "gpt.html")
    assert "BookCorpus, 4.5 GB" in (tmp_path / "gpt.html").read_text(encoding="utf-8")


def test_the_body_and_pooler_of_bert_base(told):
    """Without both heads: next sentence (2·768 + 2) and words (768² + 3·768 + V)."""
    parts = json.loads(told("bert-base", "--json"))["parameters"]
    assert parts["total"] == 110_106_428
    assert parts["total"] - (2 * 768 + 2) - (768**2 + 3 * 768 + 30_522) == 109_482_240
    assert parts["by_part"]["places"] == 768**2 + 3 * 768 + 30_522


CASES = {
    "classify-text": ("bilstm",),
    "classify-image": ("spatial", "--length", "24"),
    "tag": ("bilstm-crf",),
    "forecast": ("lstm-steps",),
    "forecast-window": ("linear",),
    "translate": ("gru-attention", "--task", "translate", "--vocabulary", "300"),
    "caption": ("cnn-lstm-attention", "--length", "24", "--vocabulary", "300"),
    "generate": ("lstm", "--task", "generate", "--vocabulary", "300"),
    "pretrain": ("bert", "--task", "pretrain", "--vocabulary", "300"),
    "halves": ("blank-bilstm-halves", "--vocabulary", "300"),
    "documents": ("han", "--vocabulary", "300"),
    "grams": ("bow",),
}


@pytest.mark.parametrize("case", CASES)
def test_real_steps_are_measured_for_every_kind_of_task(case, told, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 0.2)
    words = CASES[case]
    found = json.loads(
        told(*words, *(() if "--length" in words else ("--length", "16")), "--probe", "--json")
    )
    measured = found["probe"]
    assert measured["tokens_a_second"] > 0 and measured["rows"] >= 1
    tokens = measured["epoch_rows"] * measured["read"]
    assert measured["epoch_seconds"] == pytest.approx(tokens / measured["tokens_a_second"])
    assert 0 < measured["read"] <= 96  # six characters of each of 16 words


def test_a_run_is_measured_with_its_own_rows(seqlab, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 0.2)
    run = tmp_path / "run"
    seqlab(
        "train", "classify", reviews, "--model", "cnn", "--steps", 2, "--out", run, "training.baseline=false"
    )
    code, out, err = seqlab("inspect", run, "--probe", "--json")
    assert code == 0, err
    tree = json.loads(out)
    rows = json.loads((run / "facts.json").read_text())["rows"]["train"]
    assert tree["probe"]["epoch_rows"] == rows
    held, memory = sum(f.stat().st_size for f in run.rglob("*") if f.is_file()), tree["memory"]
    assert memory["on_disk_bytes"] == held
    assert memory["folder_bytes"] < held < memory["folder_bytes"] + 1_000_000  # tokenizer, report, logs


def test_what_does_not_fit_into_memory_is_not_tried(expect_exit, monkeypatch):
    monkeypatch.setattr(probe, "available", lambda: 8e9)
    expect_exit(
        "inspect", "gpt-2", "--probe", says=("Training gpt-2 takes", "8 GB are free", "Leave --probe")
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("gpt-1", "gtp-2"), ('"gtp-2"', 'Did you mean "gpt-2"', "inspect")),
        (("lstm", "--length", "64..x"), ("--length is 64..x", "--length 64..4096")),
        (("lstm", "--length", "4096..64"), ("--length is 4096..64", "upwards")),
        (("lstm", "--length", "long"), ("--length is long",)),
        (("lstm", "--length", "0..8"), ("--length is 0..8",)),
        (("lstm", "--length", f"1..{2**40}"), ("at the most",)),
        (("lstm", "--out", "page.png"), ("--out is page.png", "page.html")),
        (("lstm", "--out", "nowhere/page.html"), ("there is no folder", "mkdir")),
        (("model.encoder.width=5",), ("No model is named",)),
        (("lstm", "bilstm", "model.encoder.widht=5"), ("model.encoder.widht",)),
    ],
)
def test_bad_input_is_told(words, says, expect_exit):
    expect_exit("inspect", *words, says=says)
