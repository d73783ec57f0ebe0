"""BLEU and chrF are sacreBLEU's, edits those of the usual table, units of language models are told apart."""

import json
import math
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import answer_of
from sacrebleu.metrics import BLEU, CHRF

from seqlab.metrics import bootstrap
from seqlab.report.evaluate import Score, Scores, score_by_length, verdict
from seqlab.tasks.generate import Generate
from seqlab.tasks.translate import Translate
from seqlab.text_metrics import (
    BitsPerCharacter,
    Bleu,
    Chrf,
    PerplexityPerWord,
    PerplexityPerWordOrEnd,
    SequenceErrorRate,
    TokenErrorRate,
    edit_distance,
    units_of,
)

WORDS = ["the", "The", "cat", "sat", "on", "a", "mat", "l'eau", "dog.", "3.5", "¿qué?", "日本"]
text = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
corpus = st.lists(st.tuples(text, st.lists(text, min_size=1, max_size=3)), min_size=1, max_size=8)


def streams(meant):
    """References as sacreBLEU takes them: all first ones, then all second ones, None where there is none."""
    most = max(map(len, meant))
    return [[some[rank] if rank < len(some) else None for some in meant] for rank in range(most)]


@settings(deadline=None, max_examples=60)
@given(corpus)
def test_scores_of_summed_counts_are_those_of_sacrebleu(rows):
    """Few short texts as well: orders without a match, orders without an n-gram, empty texts."""
    said, meant = ([row[place] for row in rows] for place in (0, 1))
    for ours, theirs in [(Bleu(), BLEU()), (Chrf(), CHRF())]:
        assert ours(said, meant) == pytest.approx(theirs.corpus_score(said, streams(meant)).score, abs=1e-9)
        assert ours.signature(meant) == str(theirs.get_signature())


def some_texts(many=300):
    random = np.random.default_rng(0)
    meant = [[" ".join(random.choice(WORDS, random.integers(4, 20)))] for _ in range(many)]
    said = [" ".join(word if random.random() < 0.8 else "cat" for word in one[0].split()) for one in meant]
    return said, meant


@pytest.mark.parametrize("metric", [Bleu, Chrf])
def test_a_stack_of_sums_is_scored_as_each_of_them(metric):
    said, meant = some_texts(40)
    counts = metric().count(said, meant)
    sums = np.stack([counts[:9].sum(axis=0), counts[9:].sum(axis=0), np.zeros_like(counts[0])])
    parts = [metric()(said[:9], meant[:9]), metric()(said[9:], meant[9:]), 0.0]
    assert metric().score(sums).tolist() == pytest.approx(parts)


def test_the_interval_of_bleu_agrees_with_that_of_sacrebleu():
    """Both resample sentences; the draws differ, so the widths agree up to the noise of a thousand draws."""
    said, meant = some_texts()
    value, low, high = bootstrap(Bleu(), Bleu().count(said, meant))
    theirs = BLEU(force=True).corpus_score(said, streams(meant), n_bootstrap=1000)
    assert value == pytest.approx(theirs.score)
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.1)


def test_sacrebleu_is_imported_only_when_texts_are_scored():
    lines = ["import sys", "import seqlab.report.evaluate, seqlab.cli"]
    lines += ["assert 'sacrebleu' not in sys.modules"]
    lines += ["from seqlab.text_metrics import Bleu", "Bleu()", "assert 'sacrebleu' in sys.modules"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Edits


def by_table(one, two):
    """The textbook table of edit distances, row by row."""
    row = list(range(len(two) + 1))
    for place, first in enumerate(one, start=1):
        above, row = row, [place]
        for column, second in enumerate(two, start=1):
            row.append(min(row[-1] + 1, above[column] + 1, above[column - 1] + (first != second)))
    return row[-1]


@given(st.lists(st.integers(0, 3), max_size=80), st.lists(st.integers(0, 3), max_size=80))
def test_edit_distance_is_that_of_the_table(one, two):
    assert edit_distance(one, two) == by_table(one, two)


def test_error_rates_by_hand():
    """The first is right by its second reference; the second is three edits from one, one from the other."""
    said = ["K AE T", " D  AO "]
    meant = [["K AH T", "K AE T"], ["D AA G Z", "D AO G"]]
    assert TokenErrorRate().count(said, meant).tolist() == [[0, 3], [1, 3]]
    assert TokenErrorRate()(said, meant) == pytest.approx(1 / 6)
    assert SequenceErrorRate()(said, meant) == pytest.approx(1 / 2)


def test_of_equally_near_references_the_longest_counts_in_any_order():
    for references in (["A B", "A B C D"], ["A B C D", "A B"]):
        assert TokenErrorRate().count(["A B C"], [references]).tolist() == [[1, 4]]


def test_an_answer_too_many_can_cost_more_than_everything():
    assert TokenErrorRate()(["A B C"], [["D"]]) == 3.0


def test_long_texts_and_many_short_ones_are_compared_quickly():
    """The table of two texts of 10,000 signs has 100 million cells, a minute's work; bits need a moment."""
    random = np.random.default_rng(0)
    one, two = ("".join(map(str, row)) for row in random.integers(0, 9, (2, 10_000)))
    rows = [" ".join(map(str, row)) for row in random.integers(0, 39, (13_000, 7))]
    before = time.process_time()
    edit_distance(one, two)
    TokenErrorRate().count(rows, [[row] for row in reversed(rows)])
    assert time.process_time() - before < 10


# Foresight


def test_units_of_language_models_by_hand():
    """A model that gives each of 27 symbols the same chance, on 12 characters, 3 words and 2 line ends."""
    texts = ["ab cd\n", "efghi\n"]
    nats = np.array([6, 6]) * math.log(27)
    assert units_of(texts).tolist() == [[6, 2], [6, 1]]
    assert BitsPerCharacter()(nats, units_of(texts)) == pytest.approx(math.log2(27))
    assert PerplexityPerWord()(nats, units_of(texts)) == pytest.approx(27**4)
    assert PerplexityPerWordOrEnd()(nats, units_of(texts, line_ends=True)) == pytest.approx(27 ** (12 / 5))


# Reports


def continuing(unit):
    """What continues running text, line ends and spaces included."""
    return answer_of(Generate(), flow="text", unit=unit, line_ends=True, spaced=True, opening=7)


def test_texts_are_evaluated_with_units_and_signatures():
    said, meant = some_texts(50)
    answer = answer_of(Translate())
    beside = {"word table": answer.scores(["cat"] * 50, meant, answer.metrics)}
    scores = replace(answer.scores(said, meant, answer.metrics), seconds=1.0, baselines=beside)
    tree = json.loads(json.dumps(scores.to_json()))
    assert list(tree["metrics"]) == ["bleu", "chrf", "sequence_error_rate"] and tree["task"] == "translate"
    assert tree["metrics"]["bleu"]["value"] == pytest.approx(BLEU().corpus_score(said, streams(meant)).score)
    assert list(tree["signatures"]) == ["bleu", "chrf"]
    assert tree["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert f"BLEU: {tree['signatures']['bleu']}" in str(scores)
    row = str(scores).splitlines()[1].split()
    assert row[:2] == ["BLEU", f"{tree['metrics']['bleu']['value']:.1f}"] and row[-1] == "0.0"


def test_the_caller_names_the_metrics_in_order():
    answer = answer_of(Translate(metric="errors"))
    for metrics in ([TokenErrorRate(), SequenceErrorRate()], answer.metrics):
        scores = answer.scores(["A B"], [["A B"]], metrics)
        assert scores.main == "token_error_rate"
        assert list(scores.metrics) == ["token_error_rate", "sequence_error_rate"]
    assert not scores.signatures and "signatures" not in scores.to_json()


def test_language_models_are_evaluated_in_stated_units():
    units = np.array([[10, 2], [30, 5]])
    answer = continuing("character")
    scores = answer.scores(np.array([10.0, 30.0]), units, [BitsPerCharacter(), PerplexityPerWord()])
    assert scores.main == "bpc" and scores.metrics["bpc"].value == pytest.approx(1 / math.log(2))
    assert scores.metrics["perplexity"].value == pytest.approx(math.exp(40 / 7))
    assert "character" in scores.metrics["bpc"].unit and "word" in scores.metrics["perplexity"].unit
    assert scores.task == "generate" and "signatures" not in scores.to_json()
    other = answer.scores(np.array([1.0, 3.0]), units, [PerplexityPerWordOrEnd(), BitsPerCharacter()])
    assert other.main == "perplexity" and "line end" in other.metrics["perplexity"].unit


@pytest.mark.parametrize(("unit", "main"), [("character", "bpc"), ("subword", "bpc"), ("word", "perplexity")])
def test_the_unit_of_a_language_model_decides_which_metric_comes_first(unit, main):
    answer = continuing(unit)
    scores = answer.scores(np.array([10.0, 30.0]), np.array([[10, 2], [30, 5]]), answer.metrics)
    assert scores.main == main and set(scores.metrics) == {"bpc", "perplexity"}
    assert scores.metrics["bpc"].value == pytest.approx(1 / math.log(2))
    assert scores.metrics["perplexity"].value == pytest.approx(math.exp(40 / 7))


def of(metric, value, half=0.001):
    score = Score.of_json(metric, {"value": value, "low": value - half, "high": value + half})
    return Scores(task="translate", metrics={metric.name: score}, examples=10)


@pytest.mark.parametrize(
    ("metric", "ours", "theirs", "words"),
    [
        (Bleu, 48.2, 17.7, "Ahead of table by 30.5 points of BLEU."),
        (Chrf, 48.2, 50.7, "table is better by 2.5 points of chrF: use it."),
        (TokenErrorRate, 0.12, 0.446, "Ahead of table by 32.6 points of token error rate."),
        (SequenceErrorRate, 0.5, 0.4, "table is better by 10.0 points of sequence error rate: use it."),
        (BitsPerCharacter, 2.0, 2.25, "Ahead of table by 0.250 bits per character."),
        (PerplexityPerWord, 150.0, 135.0, "table is better by 15 of perplexity per word: use it."),
    ],
)
def test_the_verdict_speaks_the_language_of_the_metric(metric, ours, theirs, words):
    scores = replace(of(metric(), ours), baselines={"table": of(metric(), theirs)})
    assert verdict(scores, "table") == words


def test_buckets_of_length_hold_all_examples_and_score_each_part():
    said, meant = some_texts(90)
    lengths = np.array([len(one[0].split()) for one in meant])
    buckets = score_by_length(Bleu(), said, meant, lengths, [6, 12, 30])
    assert [bucket.longest <= limit for bucket, limit in zip(buckets, [6, 12, 30], strict=True)] == [True] * 3
    assert [bucket.shortest for bucket in buckets[1:]] == [7, 13]
    inside = np.flatnonzero((lengths > 6) & (lengths <= 12))
    assert buckets[1].examples == len(inside)
    alone = Bleu()([said[row] for row in inside], [meant[row] for row in inside])
    assert buckets[1].score.value == pytest.approx(alone)


def test_buckets_of_their_own_making_are_about_equally_full():
    said, meant = some_texts(300)
    lengths = np.arange(300) + 1
    buckets = score_by_length(TokenErrorRate(), said, meant, lengths)
    assert [bucket.examples for bucket in buckets] == [50] * 6
    assert buckets[0].shortest == 1 and buckets[-1].longest == 300
    same = score_by_length(TokenErrorRate(), said, meant, np.full(300, 7))
    assert [bucket.examples for bucket in same] == [300]
