"""Spans and their scores against seqeval, on sequences that keep the rules and on ones that do not."""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest
from seqeval.metrics import classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from seqlab.metrics import Metric, bootstrap
from seqlab.report.evaluate import score_classes
from seqlab.span_metrics import AngleError, SpanF1, SpanPrecision, SpanRecall, TagMacroF1, TokenAccuracy
from seqlab.spans import Scheme, Span, kind_of

TYPES = ("PER", "LOC", "x-y")
LETTERS = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}


def tags_of(kind: str) -> tuple[str, ...]:
    return ("O", *(f"{letter}-{type}" for type in TYPES for letter in LETTERS[kind]))


def drawn(draw: random.Random, count: int, labels: int, near: list[np.ndarray] | None = None):
    """Rows of random tags; with `near`, those with some tags changed, so that spans agree now and then."""
    if near is None:
        return [np.array(draw.choices(range(labels), k=draw.randint(1, 9))) for _ in range(count)]
    return [
        np.array([tag if draw.random() < 0.8 else draw.randrange(labels) for tag in row.tolist()])
        for row in near
    ]


@pytest.mark.parametrize("kind", ["BIO", "BIOES"])
def test_scores_of_spans_are_those_of_seqeval(kind):
    """On 1,000 random cases of any tags at all: both read broken sequences as conlleval does."""
    scheme, draw = Scheme(tags_of(kind)), random.Random(0)
    metrics: dict[type[Metric], object] = {
        SpanF1: f1_score,
        SpanPrecision: precision_score,
        SpanRecall: recall_score,
    }
    agreed = 0
    for _ in range(1_000):
        meant = drawn(draw, draw.randint(1, 4), len(scheme.tags))
        said = drawn(draw, 0, len(scheme.tags), meant)
        named = [[[scheme.tags[tag] for tag in row] for row in rows] for rows in (meant, said)]
        for ours, theirs in metrics.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = theirs(*named, zero_division=0)
            assert ours(scheme)(said, meant) == pytest.approx(wanted, abs=1e-12)
        agreed += SpanF1(scheme)(said, meant) > 0
    assert agreed > 500


@pytest.mark.parametrize("kind", ["BIO", "BIOES"])
def test_the_spans_themselves_are_those_of_seqeval(kind):
    scheme, draw = Scheme(tags_of(kind)), random.Random(1)
    for row in drawn(draw, 1_000, len(scheme.tags)):
        told = get_entities([scheme.tags[tag] for tag in row])
        assert scheme.spans(row) == [Span(start, end + 1, type) for type, start, end in told]


@pytest.mark.parametrize("kind", LETTERS)
def test_spans_written_are_read_again_and_keep_the_rules(kind):
    scheme, draw = Scheme(tags_of(kind)), random.Random(2)
    assert scheme.kind == kind
    for row in drawn(draw, 300, len(scheme.tags)):
        spans = scheme.spans(row)
        written = [scheme.tags.index(tag) for tag in scheme.written(spans, len(row))]
        assert scheme.fault(written) is None and scheme.spans(written) == spans


@pytest.mark.parametrize("kind", LETTERS)
def test_what_keeps_the_rules_is_what_writes_its_own_spans(kind):
    """Every sequence of up to three tags: it is at fault just when writing its spans gives other tags."""
    scheme = Scheme(tags_of(kind)[: 1 + 2 * len(LETTERS[kind])])
    for length in (1, 2, 3):
        for row in itertools.product(range(len(scheme.tags)), repeat=length):
            tags = [scheme.tags[tag] for tag in row]
            assert (scheme.fault(row) is None) == (scheme.written(scheme.spans(row), length) == tags), tags


def test_counts_of_sentences_add_up():
    scheme, draw = Scheme(tags_of("BIO")), random.Random(3)
    meant = drawn(draw, 40, len(scheme.tags))
    said = drawn(draw, 0, len(scheme.tags), meant)
    for metric in (SpanF1(scheme), SpanF1(scheme, "LOC"), TokenAccuracy(), TagMacroF1(len(scheme.tags))):
        apart = [metric.count(said[row : row + 1], meant[row : row + 1]) for row in range(40)]
        assert np.array_equal(metric.count(said, meant), np.concatenate(apart))
    of_types = sum(SpanF1(scheme, type).count(said, meant) for type in scheme.types)
    assert np.array_equal(of_types, SpanF1(scheme).count(said, meant))


def test_scores_of_a_type_have_the_interval_of_that_type_alone():
    """Precision, recall and F1 are those of seqeval's rows of that type; the interval is what `bootstrap`
    gives where there is no other type."""
    scheme, draw = Scheme(tags_of("BIO")), random.Random(5)
    meant = drawn(draw, 60, len(scheme.tags))
    said = drawn(draw, 0, len(scheme.tags), meant)
    counts = [SpanF1(scheme, type).count(said, meant) for type in scheme.types]
    named = [[[scheme.tags[tag] for tag in row] for row in rows] for rows in (meant, said)]
    theirs = classification_report(*named, output_dict=True)
    for one, rows in zip(score_classes(scheme.types, counts), counts, strict=True):
        wanted = theirs[one.label]
        assert (one.precision, one.recall, one.f1) == pytest.approx(
            (wanted["precision"], wanted["recall"], wanted["f1-score"]), abs=1e-12
        )
        assert one.examples == wanted["support"]
        assert one.interval == pytest.approx(bootstrap(SpanF1(scheme, one.label), rows)[1:], abs=1e-12)
        assert one.interval[0] < one.f1 < one.interval[1]


def test_spans_do_not_go_on_into_the_next_sentence():
    scheme = Scheme(("O", "B-A", "I-A"))
    one, two = [np.array([0, 1]), np.array([2, 0])], [np.array([0, 1, 2, 0])]
    assert SpanF1(scheme).count(one, one)[:, 2].tolist() == [1, 1]
    assert SpanF1(scheme).count(two, two)[:, 2].tolist() == [1]


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        (("O", "B-PER", "I-PER"), "BIO"),
        (("O", "B-PER"), "BIO"),
        (("B-PER", "I-PER", "E-PER", "S-PER", "O"), "BIOES"),
        (("B-PER", "I-PER", "L-PER", "U-PER", "O"), "BILOU"),
        (("NOUN", "VERB", "O"), None),
        (("O", "B-PER", "PER"), None),
        (("B", "I", "O"), None),
    ],
)
def test_how_tags_write_spans_is_seen_from_the_tags(tags, kind):
    assert kind_of(tags) == kind


def test_an_angle_is_compared_the_short_way_round():
    said, meant = [np.array([179.0, 10.0]), np.array([-90.0])], [np.array([-179.0, 350.0]), np.array([90.0])]
    assert AngleError().count(said, meant)[:, 0].tolist() == [2.0 + 20.0, 180.0]
    assert AngleError()(said, meant) == pytest.approx(202 / 3)
