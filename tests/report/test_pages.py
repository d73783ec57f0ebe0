"""report.html and the model card: whole, offline, and safe with any text."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from seqlab.report.attention import Explanation, Map
from seqlab.report.card import model_card
from seqlab.report.chart import Bar, Curve, bar_chart, line_chart, thinned, tick_text, ticks
from seqlab.report.evaluate import evaluate_labels, evaluate_numbers, majority, training_mean
from seqlab.report.html import shortened
from seqlab.report.page import Example, Report, duration, report_html, write_report

EVIL = '<script>alert("x")</script>'
SETTINGS = "model:\n  input: {kind: tokens}\n  encoder: {kind: lstm}\n  pool: {kind: max}\n  head: {kind: linear}\n"


def report(labels, **more):
    random = np.random.default_rng(0)
    classes = len(labels)
    meant = random.integers(0, classes, 200)
    shares = random.dirichlet(np.ones(classes), 200)
    baselines = {
        "majority": majority(np.bincount(meant, minlength=classes), meant, labels),
        "bow": evaluate_labels(np.eye(classes)[meant] * 0.9, meant, labels),
    }
    metrics = [{"step": step, "train_loss": 1 / (step + 1)} for step in range(0, 50, 10)]
    metrics += [{"step": 25, "valid_loss": 0.5, "valid_accuracy": 0.7}, {"step": 50, "valid_loss": 0.4, "valid_accuracy": 0.8}]
    one = Map(name="attention", kind="tokens", weights=np.array([0.3, 0.7]), pieces=(EVIL, "film"))
    fields = {
        "title": f"run {EVIL}",
        "scores": evaluate_labels(shares, meant, labels, baselines=baselines),
        "split": "valid",
        "settings_text": SETTINGS + f"note: '{EVIL}'\n",
        "metrics": metrics,
        "worst": [Example(text=f"{EVIL} " + "long " * 500, meant=labels[0], said=labels[-1], score=0.99)],
        "maps": [Explanation(text=EVIL, label=labels[0], scores={labels[0]: 1.0}, maps=(one,), method="attention")],
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
    labels = [f"label {place} & {EVIL}" for place in range(classes)]
    page = report_html(report(labels))
    assert "http" not in page and "<script>alert" not in page and "alert(&quot;x&quot;)" in page
    assert not re.search(r"\b(src|href)=", page)
    balance = Balance()
    balance.feed(page)
    assert not balance.open


def test_the_page_tells_the_honest_sentence_and_the_curves():
    page = report_html(report(["no", "yes"]))
    assert "bow is better by" in page and "use it" in page
    assert page.count("<polyline") == 3    # train loss, valid loss, valid accuracy
    assert "tokens → lstm → max → linear" in page


def test_more_than_fifty_classes_are_listed_not_drawn():
    assert 'class="confusion' in report_html(report([str(place) for place in range(50)]))
    page = report_html(report([str(place) for place in range(51)]))
    assert 'class="confusion' not in page and "of those meant" in page


def test_numbers_have_a_page_too():
    meant = np.linspace(0, 1, 50)
    scores = evaluate_numbers(meant + 0.1, meant, baselines={"training mean": training_mean(0.5, meant)})
    page = report_html(report(["a", "b"], scores=scores, metrics=[{"step": 1, "train_loss": 1.0, "valid_mse": 0.1}]))
    assert "mean squared error" in page and "The largest errors" in page and "confusion" not in page.split("</style>")[1]


def test_a_run_with_nothing_but_scores_still_has_a_page(tmp_path):
    bare = report(["no", "yes"], metrics=(), worst=(), maps=(), notes=(), settings_text="")
    path = tmp_path / "report.html"
    write_report(path, bare)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_the_card_says_what_how_well_and_how_to_use_it():
    card = model_card(report(["no", "yes | no"]))
    assert "<script>" not in card
    assert "| this model |" in card and "| bow |" in card and "seqlab predict" in card and "config.yaml" in card
    assert "yes \\| no" in card, "a bar in a label does not break the table"
    assert "a little too good" in card, "weights chosen on the validation rows are said to be"


# Charts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.68, 0.91), (0, 1234), (-3, 7), (5, 5), (0, 0), (1e-6, 3e-6)])
def test_ticks_enclose_the_values_and_are_told_apart(low, high):
    marks = ticks(low, high)
    assert marks[0] <= low and marks[-1] >= high and 2 <= len(marks) <= 9
    assert len({tick_text(mark, marks) for mark in marks}) == len(marks)


def test_values_that_are_not_finite_are_left_out():
    drawn = line_chart("loss", [Curve("train", [1, 2, 3], [1.0, float("nan"), float("inf")])])
    assert "nan" not in drawn and "inf" not in drawn
    assert line_chart("loss", [Curve("train", [], [])]) == ""


def test_long_curves_are_thinned_and_keep_their_end():
    points = [(float(x), float(x)) for x in range(10_000)]
    assert len(thinned(points)) <= 300 and thinned(points)[-1] == points[-1]


def test_bars_start_at_zero():
    drawn = bar_chart("accuracy", [Bar("a", 0.5, 0.4, 0.6, True), Bar("b", -0.1, -0.2, 0.1)])
    assert drawn.count("<rect") == 2 and "nan" not in drawn


def test_long_texts_keep_their_beginning_and_end():
    text = "begin " + "middle " * 500 + "end"
    assert shortened(text, 60).startswith("begin") and shortened(text, 60).endswith("end") and len(shortened(text, 60)) <= 63


@pytest.mark.parametrize(("seconds", "words"), [(0, ""), (4.23, "4.2 s"), (192, "3 min 12 s"), (7500, "2 h 5 min")])
def test_durations_are_written_for_people(seconds, words):
    assert duration(seconds) == words
