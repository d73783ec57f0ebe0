"""The rules behind the presets: which way each leads, whatever its values are."""

import inspect
import itertools

import pytest

from seqlab import rules
from seqlab.tasks.task import Size, TaskConfig

MINUTES = (0.1, 1, 5, 7.9, 8, 15, 19.9, 20, 39.9, 40, 59.9, 60, 1000)
ROWS = (1, 500, 2_000, 2_001, 9_999, 10_000, 60_000, 100_000, 300_000, 1_000_000, 10_000_000)
PASSES = (0, 0.5, 2.9, 3, 5.9, 6, 19.9, 20, 29.9, 30, 1e6)


def rises(found) -> bool:
    return all(one <= two for one, two in itertools.pairwise(found))


@pytest.mark.parametrize("early", [0.0, rules.EARLY])
def test_more_passes_never_drop_less(early):
    found = [rules.dropout(passes, early) for passes in PASSES]
    assert rises(found) and found[0] < found[-1] < 1


@pytest.mark.parametrize(
    "width", [rules.translation_width, rules.language_width, rules.body_width, rules.state_width]
)
def test_more_minutes_never_make_a_narrower_model(width):
    found = [width(minutes) for minutes in MINUTES]
    assert rises(found) and found[0] < found[-1]


@pytest.mark.parametrize(
    "batch",
    [
        rules.translation_batch, rules.language_batch, rules.pretraining_batch,
        lambda minutes: rules.context(minutes, 64, 128), rules.body_dropout,
    ],
)  # fmt: skip
def test_more_minutes_never_make_smaller_batches_or_shorter_blocks(batch):
    found = [batch(minutes) for minutes in MINUTES]
    assert rises(found) and found[0] < found[-1]


def test_what_is_larger_never_learns_at_a_higher_rate():
    assert rises([rules.pretraining_rate(minutes) for minutes in MINUTES][::-1])
    assert rises([rules.translation_rate(width) for width in (64, 128, 129, 256, 512)][::-1])


@pytest.mark.parametrize("task", TaskConfig.kinds)
def test_more_rows_never_take_more_passes(task):
    """And there is always at least one."""
    found = [TaskConfig.kinds[task]().epochs(rows) for rows in ROWS]
    assert rises(found[::-1]) and found[0] > found[-1] >= 1


def test_more_labels_never_drop_more_and_never_make_smaller_batches():
    assert rises([rules.label_dropout(rows) for rows in ROWS][::-1])
    assert rises([rules.gram_batch(rows, 100) for rows in ROWS])
    assert rises([rules.gram_batch(500, words) for words in (1, 10, 1000)])


def test_longer_texts_never_make_smaller_batches_and_not_endless_ones():
    found = [rules.batch(words) for words in (0.5, 10, 30, 100, 1000, 1e6)]
    assert rises(found) and found[0] < found[-1] == found[-2]


def test_deep_readers_are_for_letters_and_time():
    assert rises([rules.reads_deep(1.0, minutes) for minutes in MINUTES])
    assert rules.reads_deep(1.0, MINUTES[-1])
    assert not any(rules.reads_deep(20.0, minutes) for minutes in MINUTES)


def test_every_rule_says_why():
    for name, rule in inspect.getmembers(rules, inspect.isfunction):
        assert rule.__doc__, name


@pytest.mark.parametrize("task", TaskConfig.kinds)
def test_without_minutes_a_preset_is_that_of_a_quarter_of_an_hour(task):
    """But for what the passes decide, which no one knows then."""
    none, given = (TaskConfig.kinds[task].presets(Size(minutes=minutes)) for minutes in (None, rules.MINUTES))
    assert without_dropout(none) == without_dropout(given)


def without_dropout(tree):
    if not isinstance(tree, dict):
        return tree
    return {key: without_dropout(below) for key, below in tree.items() if not key.endswith("dropout")}
