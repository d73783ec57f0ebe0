"""What `evaluate` says: its JSON, its table, its baselines and its verdict."""

import json

import numpy as np
import pytest

from seqlab.report.evaluate import (
    Score,
    Scores,
    duration,
    evaluate_labels,
    evaluate_numbers,
    majority,
    score_labels,
    training_mean,
    verdict,
)

LABELS = ["no", "yes", "[b]maybe"]


@pytest.fixture
def scores():
    random = np.random.default_rng(0)
    meant = random.integers(0, 3, 300)
    said = np.where(random.random(300) < 0.8, meant, 0)
    shares = np.eye(3)[said] * 0.8 + 0.1
    baselines = {"majority": majority(np.array([5, 9, 1]), meant, LABELS)}
    return evaluate_labels(shares, meant, LABELS, seconds=1.25, baselines=baselines)


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
    scores = evaluate_numbers(meant + np.array([1, -1, 1, -1]), meant)
    assert {name: score.value for name, score in scores.metrics.items()} == pytest.approx({"mse": 1.0, "mae": 1.0, "r2": 0.2})
    mean = training_mean(2.5, meant).metrics
    assert mean["mse"].value == pytest.approx(1.25) and mean["r2"].value == pytest.approx(0)


def test_majority_says_the_commonest_training_label():
    """By hand: class 1 leads in training, and two of four examples are of it."""
    scores = majority(np.array([3, 7, 2]), np.array([0, 1, 1, 2]), LABELS)
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


def of(value, half=0.01, name="accuracy"):
    score = Score(value, value - half, value + half, "share of examples")
    return Scores(task="classify", metrics={name: score}, examples=10)


@pytest.mark.parametrize(
    ("ours", "theirs", "name", "words"),
    [
        (0.80, 0.85, "accuracy", "bow is better by 5.0 points of accuracy: use it."),
        (0.80, 0.81, "accuracy", "bow is better by 1.0 points of accuracy: use it (the intervals overlap"),
        (0.90, 0.85, "accuracy", "Ahead of bow by 5.0 points of accuracy."),
        (0.86, 0.85, "accuracy", "Ahead of bow by 1.0 points of accuracy (the intervals overlap"),
        (0.85, 0.85, "accuracy", "Level with bow"),
        (0.40, 0.50, "mse", "Ahead of bow by 0.100 of mean squared error."),
        (0.50, 0.40, "mse", "bow is better by 0.100 of mean squared error: use it."),
    ],
)
def test_the_verdict_is_honest(ours, theirs, name, words):
    us = of(ours, name=name)
    scores = Scores(task="classify", metrics=us.metrics, examples=10, baselines={"bow": of(theirs, name=name)})
    assert verdict(scores).startswith(words)


def test_an_evaluation_of_a_million_examples_is_quick():
    """The interval comes from the confusion matrix: no array of a row an example and a column a class is made."""
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
