"""report.html and the model card: whole, offline, and safe with any text."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from made import answer_of

from seqlab.baselines.copies import Copy, WordByWord
from seqlab.baselines.grams import TextGrams
from seqlab.config import build, read_yaml
from seqlab.report.card import model_card
from seqlab.report.chart import (
    Bar,
    Curve,
    bar_chart,
    line_chart,
    power_text,
    powers_of_ten,
    thinned,
    tick_text,
    ticks,
)
from seqlab.report.evaluate import Scores, score_by_length
from seqlab.report.explanation import Explanation, Map
from seqlab.report.html import shortened
from seqlab.report.page import Report, report_html, write_report
from seqlab.report.words import Example
from seqlab.settings import Settings
from seqlab.text_metrics import Bleu

EVIL = '<script>alert("x")</script>'
SETTINGS = """model:
  input: {kind: tokens}
  encoder: {kind: lstm}
  pool: {kind: max}
  head: {kind: linear}
"""
NUMBERS = "task: {kind: classify, target: number}\n" + SETTINGS


def settings_of(text):
    return build(Settings, read_yaml(text, "config.yaml"), "config.yaml")


def answer_with(settings_text, **learnt):
    """The answer of a run with these settings whose fields have learnt these facts."""
    settings = settings_of(settings_text)
    return answer_of(
        settings.task, data=settings.data, model=settings.model, decode=settings.decode, **learnt
    )


def told(settings_text, answer):
    """What a report takes from the task and the answer of a run, as at the end of a training."""
    settings = settings_of(settings_text)
    keys = {metric.name: metric.key for metric in answer.metrics}
    return {"words": settings.task.words(answer), "keys": keys}


def scored(answer, said, meant, baselines=None):
    """The scores of what was said, beside those of what each baseline said."""
    given, metrics = baselines or {}, answer.metrics
    beside = {name: answer.scores(simple, meant, metrics) for name, simple in given.items()}
    return replace(answer.scores(said, meant, metrics), baselines=beside)


def report(labels, **more):
    random = np.random.default_rng(0)
    classes = len(labels)
    meant = random.integers(0, classes, 200)
    shares = random.dirichlet(np.ones(classes), 200)
    answer = answer_with(SETTINGS, labels=tuple(labels), label_counts=(10,) * classes)
    baselines = {"majority": np.full(200, np.bincount(meant, minlength=classes).argmax()), "bow": meant}
    metrics = [{"step": step, "train_loss": 1 / (step + 1)} for step in range(0, 50, 10)]
    metrics += [
        {"step": 25, "valid_loss": 0.5, "valid_accuracy": 0.7},
        {"step": 50, "valid_loss": 0.4, "valid_accuracy": 0.8},
    ]
    one = Map(name="attention", kind="tokens", weights=np.array([0.3, 0.7]), pieces=(EVIL, "film"))
    fields = {
        "title": f"run {EVIL}",
        **told(SETTINGS, answer),
        "scores": scored(answer, shares.argmax(axis=1), meant, baselines),
        "split": "valid",
        "settings_text": SETTINGS + f"note: '{EVIL}'\n",
        "metrics": metrics,
        "worst": [Example(text=f"{EVIL} " + "long " * 500, meant=labels[0], said=labels[-1], score=0.99)],
        "maps": [
            Explanation(text=EVIL, label=labels[0], scores={labels[0]: 1.0}, maps=(one,), method="attention")
        ],
        "rows": {"train": 1000, "valid": 200},
        "notes": (f"row 3 is {EVIL}",),
        "seconds": 75.0,
        "steps": 50,
    }
    return Report(**fields | more)


class Balance(HTMLParser):
    """Fails on an end tag that closes nothing."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("classes", [2, 40, 60])
def test_a_page_is_well_formed_offline_and_escapes_everything(classes):
    labels = [f"<b>{place} & {EVIL}" for place in range(classes)]  # where names are shortened, <b> is left
    page = report_html(report(labels))
    assert "http" not in page and "<script>alert" not in page and "alert(&quot;x&quot;)" in page
    assert not re.search(r"\b(src|href)=", page)
    balance = Balance()
    balance.feed(page)
    assert not balance.open


WRITER = """
task: %s
data: {tokens: {kind: characters}}
model:
  input: %s
  encoder: %s
  pool: null
  head: null
  decoder: %s
decode: {beam: 4}
"""
TRANSLATOR = WRITER % (
    "{kind: translate}", "{kind: tokens}", "{kind: lstm, directions: both}",
    "{kind: attending, body: {kind: lstm}}",
)  # fmt: skip
PRONOUNCER = TRANSLATOR.replace("{kind: translate}", "{kind: translate, metric: errors}")
LANGUAGE_MODEL = WRITER % (
    "{kind: generate}", "null", "null", "{kind: causal, body: {kind: lstm, directions: forward}}",
)  # fmt: skip
CHARACTERS = {"flow": "text", "unit": "character", "line_ends": True, "spaced": True, "opening": 7}


def translator(**more):
    """A report of a model that writes texts for texts, as findings gives it."""
    meant = [["le chat dort"], ["la pluie tombe sur la ville"], ["un homme lit un livre dans le parc"]] * 20
    said = ["le chat dort", "la pluie tombe", f"un homme {EVIL}"] * 20
    answer = answer_with(TRANSLATOR)
    scores = scored(answer, said, meant, {"copy": ["a cat"] * 60, "word table": ["le le chat"] * 60})
    buckets = score_by_length(Bleu(), said, meant, np.array([3, 6, 8] * 20))
    losses = {"rate": 0.1, "train_loss": 5.0, "valid_loss": 4.0}
    fields = {
        **told(TRANSLATOR, answer),
        "scores": scores,
        "split": "test",
        "settings_text": TRANSLATOR,
        "metrics": [
            {"step": step, **losses, "valid_bleu": bleu, "valid_chrf": 60.0 - bleu}
            for step, bleu in ((10, 3.0), (20, 31.5), (30, 30.0))
        ],
        "does": {kind.name: kind.does for kind in (Copy, WordByWord)},
        "worst": [Example(text=f"a man {EVIL}", meant="un homme", said="suis suis suis", score=12.345)],
        "by_length": {
            f"{one.shortest} words": Scores(metrics={"bleu": one.score}, examples=one.examples)
            for one in buckets
        },
        "rows": {"train": 29_000, "valid": 1014, "test": 60},
    }
    return report(["no", "yes"], **fields | more)


def storyteller(**more):
    """A report of a language model."""
    random = np.random.default_rng(0)
    units = np.stack([random.integers(20, 60, 50), random.integers(4, 12, 50)], axis=1)
    answer = answer_with(LANGUAGE_MODEL, **CHARACTERS)
    losses = {"rate": 0.1, "train_loss": 3.0, "valid_loss": 2.0}
    fields = {
        **told(LANGUAGE_MODEL, answer),
        "scores": scored(answer, units[:, 0] * 1.1, units, {"6-gram": units[:, 0] * 2.5}),
        "does": {"6-gram": TextGrams.does},
        "settings_text": LANGUAGE_MODEL,
        "metrics": [
            {"step": step, **losses, "valid_bpc": bits, "valid_perplexity": 50.0**bits}
            for step, bits in ((10, 4.0), (20, 1.5), (30, 1.6))
        ],
        "worst": [Example(text="zyzzyva", meant="", said="9.00 bits per character", score=9.0)],
        "samples": [f"At temperature 0.5:\nthe time\n  {EVIL}\n\nthe end"],
        "rows": {"train": 83_225, "valid": 9232},
    }
    return report(["no", "yes"], **fields | more)


@pytest.mark.parametrize("made", [translator, storyteller])
def test_pages_of_writers_are_well_formed_offline_and_escape_everything(made):
    page = report_html(made())
    assert "http" not in page and "<script>alert" not in page and "alert(&quot;x&quot;)" in page
    balance = Balance()
    balance.feed(page)
    assert not balance.open
    assert "What it confuses" not in page and "predicts a number" not in page
    assert "<script>" not in model_card(made())


def test_a_translator_is_shown_by_scores_curves_lengths_and_its_worst_texts():
    page = report_html(translator())
    assert "This model writes a text for a text." in page and "29,000 / 1,014 / 60" in page
    assert "nrefs:1|case:mixed" in page and "word table (each word" in page and "decode.beam=4" in page
    assert page.count("<polyline") == 5  # train and valid loss, BLEU, chrF, learning rate
    assert page.count('class="best"') == 2, "the kept weights are marked for both metrics"
    assert "BLEU by length of the source" in page and '<td class="l">8 words</td><td>20</td>' in page
    assert "suis suis suis" in page and ">12.3</td>" in page


def test_a_language_model_shows_what_it_writes_line_by_line():
    page = report_html(storyteller())
    assert "continues a text, character by character" in page and "characters: train / valid" in page
    assert "<pre>the time\n  &lt;script&gt;" in page and "\n\nthe end</pre>" in page
    assert "bits per character" in page and "What surprised it most" in page and "<td>9.00</td>" in page
    assert "10⁶" in page, "a perplexity that falls by powers of ten is drawn so"


def test_the_best_validation_is_the_one_whose_weights_were_kept():
    """Lower is better for errors, and the other metrics are marked where the deciding one is best."""
    answer = answer_with(PRONOUNCER)
    scores = scored(answer, ["a b"] * 4, [["a c"]] * 4)
    shares = ((10, 0.5), (20, 0.25), (40, 0.75))
    metrics = [{"step": step, "valid_errors": share, "valid_loss": 1.0} for step, share in shares]
    page = report_html(translator(scores=scores, metrics=metrics, by_length={}, **told(PRONOUNCER, answer)))
    x = float(re.search(r'<circle cx="([\d.]+)"[^>]* class="best"', page).group(1))
    assert abs(x - (52 + 0.5 * (460 - 52 - 14))) < 0.1, "at step 20 of 40"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("{kind: tokens}", "{kind: transformer}", "{kind: causal, body: {kind: transformer}}"),
         "tokens → transformer → causal transformer"),
        (("{kind: tokens}", "{kind: lstm, directions: both}",
          "{kind: attending, attend: late, body: {kind: lstm}}"),
         "tokens → lstm both ways → lstm with late attention"),
        (("{kind: tokens}", "{kind: gru}", "{kind: attending, attend: none, body: {kind: gru}}"),
         "tokens → gru → gru without attention"),
        (("{kind: tokens}", "{kind: gru}", "{kind: attending, feeding: true, body: {kind: gru}}"),
         "tokens → gru → gru with late attention and input feeding"),
        (("null", "null", "{kind: causal, body: {kind: stack, encoders: [{kind: conv}, {kind: lstm}]}}"),
         "causal conv + lstm"),
    ],
)  # fmt: skip
def test_the_recipe_of_a_writer_is_told_in_words(parts, words):
    assert translator(settings_text=WRITER % ("{kind: translate}", *parts)).recipe == words


def test_cards_of_writers_tell_how_to_use_them():
    card = model_card(translator())
    assert "Trained on 29,000 pairs, with 1,014 validation and 60 test pairs kept apart" in card
    assert "seqlab evaluate . sources.txt,targets.txt" in card and "[0].text" in card
    assert "one of its labels" not in card
    assert "`nrefs:1|case:mixed" in card and "| 8 words | 20 |" in card and "seqlab explain" in card
    blind = model_card(translator(maps=()))
    assert "seqlab explain" not in blind, "a model without attention explains nothing"
    card = model_card(storyteller())
    assert "Trained on 83,225 characters" in card and "Scored on 50 validation lines" in card
    assert 'seqlab predict . "how it begins"' in card and "likely, not true" in card


def test_the_page_tells_the_honest_sentence_and_the_curves():
    page = report_html(report(["no", "yes"]))
    assert "bow is better by" in page and "use it" in page
    assert page.count("<polyline") == 3  # train loss, valid loss, valid accuracy
    assert "tokens → lstm → max → linear" in page


def test_more_than_fifty_classes_are_listed_not_drawn():
    assert 'class="confusion' in report_html(report([str(place) for place in range(50)]))
    page = report_html(report([str(place) for place in range(51)]))
    assert 'class="confusion' not in page and "of those meant" in page


def test_numbers_have_a_page_too():
    meant = np.linspace(0, 1, 50)
    answer = answer_with(NUMBERS, mean=0.5, spread=0.3)
    scores = scored(answer, meant + 0.1, meant, {"training mean": np.full(50, 0.5)})
    metrics = [{"step": 1, "train_loss": 1.0, "valid_mse": 0.1}]
    made = report(["a", "b"], scores=scores, metrics=metrics, **told(NUMBERS, answer))
    page = report_html(made)
    assert "This model predicts a number for a text." in page and "[0].value" in model_card(made)
    assert "mean squared error" in page and "The largest errors" in page
    assert "confusion" not in page.split("</style>")[1]


def test_a_run_with_nothing_but_scores_still_has_a_page(tmp_path):
    bare = report(["no", "yes"], metrics=(), worst=(), maps=(), notes=(), settings_text="")
    path = tmp_path / "report.html"
    write_report(path, bare)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_the_card_says_what_how_well_and_how_to_use_it():
    card = model_card(report(["no", "yes | no"]))
    assert "<script>" not in card
    assert "| this model |" in card and "| bow |" in card
    assert "seqlab predict" in card and "config.yaml" in card
    assert "yes \\| no" in card, "a bar in a label does not break the table"
    assert "a little too good" in card, "weights chosen on the validation rows are said to be"


# Charts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.68, 0.91), (0, 1234), (-3, 7), (5, 5), (0, 0), (1e-6, 3e-6)]
)
def test_ticks_enclose_the_values_and_are_told_apart(low, high):
    marks = ticks(low, high)
    assert marks[0] <= low and marks[-1] >= high and 2 <= len(marks) <= 9
    assert len({tick_text(mark, marks) for mark in marks}) == len(marks)


def test_values_that_are_not_finite_are_left_out():
    drawn = line_chart("loss", [Curve("train", [1, 2, 3], [1.0, float("nan"), float("inf")])])
    assert "nan" not in drawn and "inf" not in drawn
    assert line_chart("loss", [Curve("train", [], [])]) == ""


def test_powers_of_ten_enclose_the_values_and_are_few():
    for low, high in ((3, 900), (0.02, 5e9), (1, 1e30)):
        marks = powers_of_ten(low, high)
        assert marks[0] <= low and marks[-1] >= high and 2 <= len(marks) <= 7
    assert [power_text(mark) for mark in powers_of_ten(0.5, 200)] == ["10⁻¹", "10⁰", "10¹", "10²", "10³"]


def test_bars_without_a_finite_value_are_left_out():
    assert bar_chart("perplexity", [Bar("a", float("inf"), 1.0, float("inf"))]) == ""
    bars = [Bar("a", float("nan"), 1.0, 2.0), Bar("b", 2.0, 1.0, 3.0)]
    assert bar_chart("perplexity", bars).count("<rect") == 1


def test_long_curves_are_thinned_and_keep_their_end():
    points = [(float(x), float(x)) for x in range(10_000)]
    assert len(thinned(points)) <= 300 and thinned(points)[-1] == points[-1]


def classifier(**more):
    return report(["no", "yes"], **more)


@pytest.mark.parametrize("make", [classifier, translator, storyteller])
def test_validations_without_a_finite_number_are_left_out_of_the_curves(make):
    """metrics.jsonl has null for them; each number of each line in turn, and all of a line together."""
    rows = make().metrics
    for number, row in enumerate(rows):
        keys = [key for key in row if key != "step"]
        for gone in [*([key] for key in keys), keys]:
            spoilt = [*rows[:number], row | dict.fromkeys(gone), *rows[number + 1 :]]
            assert 'class="best"' in report_html(make(metrics=spoilt)), (number, gone)
    nothing = report_html(make(metrics=[dict.fromkeys(row) | {"step": row["step"]} for row in rows]))
    assert "How it learnt" in nothing and 'class="best"' not in nothing


def test_the_circle_marks_a_validation_whose_loss_is_finite():
    """As in training: the best score is not kept where the loss is no number. By hand: step 10, BLEU 3.0."""
    first, *others = translator().metrics
    marked = report_html(translator(metrics=[first, *({**row, "valid_loss": None} for row in others)]))
    by_hand = report_html(translator(metrics=[first, *({**row, "valid_bleu": 2.0} for row in others)]))
    ours, theirs = (re.findall(r'<circle cx="([\d.]+)"[^>]*class="best"', page) for page in (marked, by_hand))
    assert len(ours) == 2 and ours == theirs


def test_bars_start_at_zero():
    drawn = bar_chart("accuracy", [Bar("a", 0.5, 0.4, 0.6, True), Bar("b", -0.1, -0.2, 0.1)])
    assert drawn.count("<rect") == 2 and "nan" not in drawn


def test_long_texts_keep_their_beginning_and_end():
    text = "begin " + "middle " * 500 + "end"
    short = shortened(text, 60)
    assert short.startswith("begin") and short.endswith("end") and len(short) <= 63
