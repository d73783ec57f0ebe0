"""What `evaluate` says: its JSON, its table, its baselines and its verdict."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made import answer_of

from seqlab.baselines.constant import Majority, TrainingMean
from seqlab.data.store import Ragged, Store
from seqlab.metrics import MSE, Accuracy
from seqlab.report.evaluate import Score, Scores, duration, score_labels, verdict
from seqlab.tasks.classify import Classify

LABELS = ("no", "yes", "[b]maybe")


def labeller(*counts):
    """What answers with one of the labels, which so many training rows had."""
    return answer_of(Classify(), labels=LABELS, label_counts=counts)


def baseline_scores(kind, answer, targets):
    """What a baseline scores on rows with these targets, as a store has them."""
    rows = Store({"text": Ragged.of([[7]] * len(targets), np.int64)}, {"target": targets})
    judged = kind(answer).judge(rows)
    return answer.scores(judged.said, judged.meant, answer.metrics)


@pytest.fixture
def scores():
    random = np.random.default_rng(0)
    meant = random.integers(0, 3, 300)
    said = np.where(random.random(300) < 0.8, meant, 0)
    answer = labeller(5, 9, 1)
    baselines = {"majority": baseline_scores(Majority, answer, meant)}
    return replace(answer.scores(said, meant, answer.metrics), seconds=1.25, baselines=baselines)


def test_json_is_what_the_interface_promises(scores):
    tree = json.loads(json.dumps(scores.to_json()))
    assert {"task", "metrics", "examples", "seconds"} <= set(tree)
    assert tree["task"] == "classify" and tree["examples"] == 300 and tree["seconds"] == 1.25
    assert list(tree["metrics"]) == ["accuracy", "f1"]
    for score in tree["metrics"].values():
        assert set(score) == {"value", "low", "high", "unit"}
        assert score["low"] <= score["value"] <= score["high"]
    assert np.sum(tree["confusion"]) == 300
    assert sum(one["examples"] for one in tree["per_class"].values()) == 300
    assert set(tree["baselines"]["majority"]) == {"accuracy", "f1"}


def test_numbers_are_scored_by_their_errors():
    meant = np.array([1.0, 2.0, 3.0, 4.0])
    answer = answer_of(Classify(target="number"), mean=2.5, spread=2.0)
    scores = answer.scores(meant + np.array([1, -1, 1, -1]), meant, answer.metrics)
    values = {name: score.value for name, score in scores.metrics.items()}
    assert values == pytest.approx({"mse": 1.0, "mae": 1.0, "r2": 0.2})


def test_training_mean_says_the_mean_of_the_training_numbers():
    """A store has numbers on the scale of the training rows; scores are in the user's units."""
    answer = answer_of(Classify(target="number"), mean=2.5, spread=2.0)
    mean = baseline_scores(TrainingMean, answer, np.array([-0.75, -0.25, 0.25, 0.75], np.float32)).metrics
    assert mean["mse"].value == pytest.approx(1.25) and mean["r2"].value == pytest.approx(0)


def test_majority_says_the_commonest_training_label():
    """By hand: class 1 leads in training, and two of four examples are of it."""
    scores = baseline_scores(Majority, labeller(3, 7, 2), np.array([0, 1, 1, 2]))
    assert scores.metrics["accuracy"].value == 0.5
    assert scores.confusion[:, 1].sum() == 4


def test_it_prints_as_an_aligned_table(scores):
    text = str(scores)
    header, *rows = text.split("\n\n")[0].splitlines()
    assert header.split()[:2] == ["metric", "value"] and header.endswith("majority")
    assert [row.split()[0] for row in rows] == ["accuracy", "macro-F1"]
    assert "300 examples in 1.2 s" in text


def test_a_name_that_looks_like_markup_is_shown_as_it_is(scores):
    hostile = Scores(task="classify", metrics=scores.metrics, examples=1, baselines={"<script>": scores})
    assert "<script>" not in hostile._repr_html_()


def of(metric, value, half=0.01):
    score = Score.of_json(metric, {"value": value, "low": value - half, "high": value + half})
    return Scores(task="classify", metrics={metric.name: score}, examples=10)


@pytest.mark.parametrize(
    ("ours", "theirs", "metric", "words"),
    [
        (0.80, 0.85, Accuracy, "bow is better by 5.0 points of accuracy: use it."),
        (0.80, 0.81, Accuracy, "bow is better by 1.0 points of accuracy: use it (the intervals overlap"),
        (0.90, 0.85, Accuracy, "Ahead of bow by 5.0 points of accuracy."),
        (0.86, 0.85, Accuracy, "Ahead of bow by 1.0 points of accuracy (the intervals overlap"),
        (0.85, 0.85, Accuracy, "Level with bow"),
        (0.40, 0.50, MSE, "Ahead of bow by 0.100 of mean squared error."),
        (0.50, 0.40, MSE, "bow is better by 0.100 of mean squared error: use it."),
    ],
)
def test_the_verdict_is_honest(ours, theirs, metric, words):
    scores = replace(of(metric(), ours), baselines={"bow": of(metric(), theirs)})
    assert verdict(scores, "bow").startswith(words)


def test_an_evaluation_of_a_million_examples_is_quick():
    """The interval comes from the confusion matrix: no array of rows by classes is made."""
    random = np.random.default_rng(0)
    meant, said = random.integers(0, 50, (2, 1_000_000))
    scores = score_labels(said, meant, [str(place) for place in range(50)])
    assert scores.metrics["accuracy"].value == pytest.approx(0.02, abs=0.001)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (245, "4 min 05 s"), (7800, "2 h 10 min"), (float("inf"), "?")],
)
def test_durations_are_written_for_people(seconds, words):
    assert duration(seconds) == words
