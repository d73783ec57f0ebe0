"""The n-gram model is the one of the book, sums to one, and is the same after a trip to the disk."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.baselines.ngrams import NGrams
from seqlab.errors import UserError

texts = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def chances(ids, symbols, order):
    """Interpolated modified Kneser-Ney with dictionaries, written from its definition: (context, id) → p."""
    grams = [Counter(tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)) for n in range(1, order + 1)]
    counts = [Counter(gram[1:] for gram in longer) for longer in grams[1:]] + [grams[-1]]
    counts[:-1] = [
        Counter({gram: kinds[gram] for gram in all_of}) for kinds, all_of in zip(counts, grams, strict=False)
    ]

    def discounts(table):
        often = Counter(table.values())
        if min(often[times] for times in (1, 2, 3, 4)) > 0:
            y = often[1] / (often[1] + 2 * often[2])
            found = [times - (times + 1) * y * often[times + 1] / often[times] for times in (1, 2, 3)]
            if min(found) > 0:
                return [0, *found]
        return [0, 0.75, 0.75, 0.75]

    amounts = [discounts(table) for table in counts]
    followers = [defaultdict(list) for _ in counts]
    for table, below in zip(counts, followers, strict=True):
        for gram, count in table.items():
            below[gram[:-1]].append(count)

    def p(context, last):
        if context is None:
            return 1 / symbols
        lower = p(context[1:] if context else None, last)
        n = len(context)
        after = followers[n][context]
        if sum(after) == 0:
            return lower
        count = counts[n][(*context, last)]
        taken = sum(amounts[n][min(one, 3)] for one in after)
        return (count - amounts[n][min(count, 3)] + taken * lower) / sum(after)

    return p


@settings(deadline=None)
@given(texts, texts, st.integers(1, 4))
def test_every_chance_is_that_of_the_definition(ids, other, order):
    order = min(order, len(ids))
    model, p = NGrams.train(np.array(ids), 5, order), chances(ids, 5, order)
    expected = [
        -math.log(p(tuple(other[max(0, at - order + 1) : at]), last)) for at, last in enumerate(other)
    ]
    np.testing.assert_allclose(model.nats(np.array(other)), expected, rtol=1e-12)


def test_the_discounts_come_from_the_counts_when_these_allow():
    """A long text has n-grams of every small count, so that the formula is used and not its stand-in."""
    ids = np.random.default_rng(0).zipf(1.5, 3000) % 50
    model, p = NGrams.train(ids, 50, 3), chances(ids.tolist(), 50, 3)
    expected = [-math.log(p(tuple(ids[max(0, at - 2) : at].tolist()), int(ids[at]))) for at in range(500)]
    np.testing.assert_allclose(model.nats(ids[:500]), expected, rtol=1e-12)
    one = model.orders[1]
    lost = one.counts - one.share * np.bincount(one.keys // 50, one.counts)[one.keys // 50]
    assert not np.allclose(lost[one.counts == 1], 0.75)


@given(texts, texts, st.integers(1, 4))
def test_after_any_beginning_the_chances_of_all_symbols_add_up_to_one(ids, beginning, order):
    """Symbols that were never seen (4, 5) included."""
    model = NGrams.train(np.array(ids), 6, order)
    last = [model.nats(np.array([*beginning, symbol]))[-1] for symbol in range(6)]
    assert np.exp(-np.array(last)).sum() == pytest.approx(1, abs=1e-12)


def test_a_pattern_is_learnt_and_longer_contexts_help():
    """In 0 0 1 0 0 1 ... two ids tell the next one; one id leaves the 0 after 0 or 1 open."""
    ids = np.tile([0, 0, 1], 400)
    two, three = (NGrams.train(ids, 2, order).nats(ids)[10:].mean() for order in (2, 3))
    assert three < 0.05 < 0.3 < two < math.log(2)


def test_it_is_the_same_after_saving_and_every_time(tmp_path):
    random = np.random.default_rng(1)
    ids, other = random.zipf(1.5, 5000) % 300, random.integers(0, 300, 200)
    model = NGrams.train(ids, 300, 3)
    model.save(tmp_path)
    again = NGrams.load(tmp_path)
    assert (again.nats(other) == model.nats(other)).all() and again.order == 3
    first = (tmp_path / "ngrams.safetensors").read_bytes()
    NGrams.train(ids.astype(np.uint16), 300, 3).save(tmp_path)
    assert (tmp_path / "ngrams.safetensors").read_bytes() == first


@pytest.mark.parametrize("name", ["ngrams.json", "ngrams.safetensors"])
def test_a_damaged_file_is_told_plainly(tmp_path, name):
    NGrams.train(np.array([0, 1, 0]), 2, 2).save(tmp_path)
    (tmp_path / name).write_text("{")
    with pytest.raises(UserError, match="can't be read"):
        NGrams.load(tmp_path)


@settings(deadline=None)
@given(texts, texts, st.integers(1, 4))
def test_a_guess_is_as_likely_as_anything(ids, other, order):
    """Of all symbols, that of the definition with the highest chance; several may have it."""
    order = min(order, len(ids))
    model, p = NGrams.train(np.array(ids), 5, order), chances(ids, 5, order)
    for at, guess in enumerate(model.guesses(np.array(other)).tolist()):
        context = tuple(other[max(0, at - order + 1) : at])
        assert p(context, guess) == pytest.approx(max(p(context, symbol) for symbol in range(5)), rel=1e-12)
