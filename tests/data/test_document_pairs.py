"""Documents: where they end, where their sentences end, and the pairs of segments that are made of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.answers.exercises import Noises, PairedBlanks, VocabularyFacts
from seqlab.data import sentences
from seqlab.data.batches import Position
from seqlab.data.corrupt import FIRST
from seqlab.data.documents import (
    A_SIZE,
    A_START,
    B_SIZE,
    B_START,
    NEXT,
    SegmentPairs,
    cut_sentences,
    documents,
    encode_documents,
    sentence_starts,
)
from seqlab.data.store import Ragged, offsets_of
from seqlab.data.tokenizers import CLS, SEP, BpeTokens, WordTokens
from seqlab.errors import UserError

# Documents and sentences ------------------------------------------------------------------------------------


def test_a_blank_line_ends_a_document_of_running_text():
    lines = ["\n", "One.\n", "Two.\n", " \t\n", "\n", "Three.\n", "\n", "Four."]
    assert list(documents(lines, running=True)) == ["One.\nTwo.\n", "Three.\n", "Four."]
    assert list(documents(["a\n\nb", "c"], running=False)) == ["a\n\nb", "c"]


PARTS = ["One", "two", ".", "! ", "? ", " ", "\n", "<br />", "<br>", "b", "/", "Dr. ", "é"]
WRITTEN = st.lists(st.sampled_from(PARTS)).map("".join)


@settings(max_examples=300, deadline=None)
@given(WRITTEN | st.text(max_size=60))
def test_sentences_put_together_are_the_text(text):
    parts = cut_sentences(text)
    assert "".join(parts) == text
    assert len(parts) == max(1, len(sentences.split(text)))


def test_what_is_between_two_sentences_is_the_seconds():
    text = " It rained.  He sat.<br />Then\nnothing \n"
    assert cut_sentences(text) == [" It rained.", "  He sat.", "<br />Then", "\nnothing \n"]


@pytest.mark.parametrize("tokens", [BpeTokens(vocabulary=300), WordTokens()])
def test_the_mark_stands_after_each_document_and_nowhere_else(tokens):
    texts = ["It rained. He sat. [SEP]", "Nothing else", "  ", "The end. It was good."]
    tokenizer = tokens.train(texts)
    rows, flat = encode_documents(tokenizer, texts)
    assert "".join(flat) == "".join(texts)
    whole = tokenizer.encode(flat)
    assert rows.rows == len(texts)
    found = [sentence for document in range(rows.rows) for sentence in rows.row(document)]
    for document in range(rows.rows):
        last = rows.row(document)[-1]
        assert last[-1] == SEP
    ends = set((rows.outer[1:] - 1).tolist())
    assert [one[:-1] if place in ends else one for place, one in enumerate(found)] == [
        whole.row(place) for place in range(whole.rows)
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.data())
def test_sentence_starts_are_those_within_the_stretch(sizes, data):
    offsets = offsets_of(np.array(sizes))
    start = data.draw(st.integers(0, int(offsets[-1]) - 1))
    size = data.draw(st.integers(1, int(offsets[-1]) - start))
    expected = [place - start for place in offsets[:-1].tolist() if start <= place < start + size]
    assert sentence_starts(offsets, start, size).tolist() == expected


# Pairs ------------------------------------------------------------------------------------------------------

SYMBOLS, ROOM, COUNT, SEED = 900, 61, 400, 3


def library(count=COUNT, most=25, longest=30, seed=0):
    """Documents of 1 to `most` sentences of 1 to `longest` random ids, each with the mark at its end."""
    random = np.random.default_rng(seed)
    outer = offsets_of(random.integers(1, most + 1, count))
    sizes = random.integers(1, longest + 1, outer[-1])
    sizes[outer[1:] - 1] += 1
    offsets = offsets_of(sizes)
    values = random.integers(FIRST, SYMBOLS, offsets[-1])
    values[offsets[outer[1:]] - 1] = SEP
    return Ragged(values, offsets, outer)


@pytest.fixture(scope="module")
def many():
    """A store and the pairs of several epochs: the ordinary way to them."""
    store = library()
    plan = SegmentPairs(store, ROOM, 4096, SEED)
    return store, np.concatenate([rows for epoch in range(12) for rows in plan.epoch(epoch)])


def document_of(store, places):
    """The document that each id belongs to."""
    return np.searchsorted(store.offsets[store.outer], places, side="right") - 1


def test_half_of_the_seconds_follow_their_firsts(many):
    rows = many[1]
    assert len(rows) > 20_000
    assert rows[:, NEXT].mean() == pytest.approx(0.5, abs=0.01)


def test_real_seconds_go_on_exactly_where_their_firsts_end(many):
    store, rows = many
    real = rows[rows[:, NEXT] == 1]
    assert (real[:, A_START] + real[:, A_SIZE] == real[:, B_START]).all()
    assert np.isin(real[:, B_START], store.offsets).all()  # between two sentences


def test_random_seconds_are_from_another_document_and_begin_with_a_sentence(many):
    """So none of them is the true continuation."""
    store, rows = many
    other = rows[rows[:, NEXT] == 0]
    assert (document_of(store, other[:, A_START]) != document_of(store, other[:, B_START])).all()
    assert np.isin(other[:, B_START], store.offsets).all()
    assert np.isin(other[:, A_START] + other[:, A_SIZE], store.offsets).all()


def test_neither_headings_nor_openings_tell_which_seconds_are_random(many):
    """No second begins its document: a real one has something before it, and so has a random one."""
    store, rows = many
    assert (np.diff(store.outer) == 1).any()  # there are documents of one sentence
    assert not np.isin(rows[:, B_START], store.offsets[store.outer]).any()


def test_one_text_among_headings_has_pairs():
    """Its random seconds are from itself, and none is the true next one."""
    outer = np.array([0, 1, 2, 42, 43])
    sizes = np.full(43, 5)
    sizes[outer[1:] - 1] += 1
    offsets = offsets_of(sizes)
    values = np.arange(FIRST, FIRST + offsets[-1])
    values[offsets[outer[1:]] - 1] = SEP
    plan = SegmentPairs(Ragged(values, offsets, outer), 16, 512, SEED)
    rows = np.concatenate([some for epoch in range(50) for some in plan.epoch(epoch)])
    other = rows[rows[:, NEXT] == 0]
    assert len(other) > 300 and (other[:, A_START] + other[:, A_SIZE] != other[:, B_START]).all()
    assert ((offsets[2] < rows[:, B_START]) & (rows[:, B_START] < offsets[42])).all()


def test_no_segment_is_empty_too_long_or_goes_beyond_its_document(many):
    store, rows = many
    for start, size in ((A_START, A_SIZE), (B_START, B_SIZE)):
        assert rows[:, size].min() >= 1
        last = rows[:, start] + rows[:, size] - 1
        assert (document_of(store, rows[:, start]) == document_of(store, last)).all()
        ends = np.concatenate([[0], np.cumsum(store.values == SEP)])
        assert (ends[last + 1] == ends[rows[:, start]]).all()  # and the mark of its end is not among its ids
    assert (rows[:, A_SIZE] + rows[:, B_SIZE]).max() == ROOM


@pytest.mark.parametrize("most", [3, 25, 2000])
def test_lengths_do_not_tell_which_seconds_are_real(most):
    """In short documents, whose ends make pairs short, as in documents far longer than a pair."""
    plan = SegmentPairs(library(count=4000 if most < 2000 else 40, most=most, longest=8), ROOM, 4096, SEED)
    rows = np.concatenate([rows for epoch in range(3) for rows in plan.epoch(epoch)])
    real = rows[:, NEXT] == 1
    for some in (rows[:, A_SIZE], rows[:, B_SIZE], rows[:, A_SIZE] + rows[:, B_SIZE]):
        spread = some.std() * (1 / real.sum() + 1 / (~real).sum()) ** 0.5
        assert abs(some[real].mean() - some[~real].mean()) < 4 * spread
        for short in (5, 10, 20):
            assert (some[real] < short).mean() == pytest.approx((some[~real] < short).mean(), abs=0.02)


def test_real_and_random_seconds_end_their_documents_alike(many):
    store, rows = many
    ends = store.values[rows[:, B_START] + rows[:, B_SIZE]] == SEP
    real = rows[:, NEXT] == 1
    assert ends.mean() > 0.1
    assert ends[real].mean() == pytest.approx(ends[~real].mean(), abs=0.02)


def test_the_same_sentence_elsewhere_is_no_random_second():
    """Sentences that many documents have: a random second never begins with the sentence that follows
    here."""
    random = np.random.default_rng(1)
    count = 300
    outer = np.arange(0, 8 * count + 1, 8)
    choices = random.integers(0, 20, 8 * count)  # 20 sentences of 4 ids, again and again
    made = [[FIRST + choice] * 4 for choice in choices.tolist()]
    for last in (outer[1:] - 1).tolist():
        made[last].append(SEP)
    store = Ragged.of(made, np.int64)
    store = Ragged(store.values, store.offsets, outer)
    rows = np.concatenate(SegmentPairs(store, 16, 1024, SEED).epoch(0))
    other = rows[rows[:, NEXT] == 0]
    follows = other[:, A_START] + other[:, A_SIZE]
    assert len(other) > 300
    assert (store.values[follows] != store.values[other[:, B_START]]).all()


def test_pairs_follow_from_seed_and_epoch():
    store = library(count=30)
    plan, again = SegmentPairs(store, ROOM, 512, SEED), SegmentPairs(store, ROOM, 512, SEED)
    third = [rows for _, rows in zip(range(5), plan.after(Position(3, 0)), strict=False)]
    assert all((one == two).all() for (_, one), two in zip(third, again.epoch(3), strict=False))
    assert not np.array_equal(plan.epoch(0)[0], plan.epoch(1)[0])
    assert not np.array_equal(plan.epoch(0)[0], SegmentPairs(store, ROOM, 512, SEED + 1).epoch(0)[0])
    for rows in plan.epoch(0):
        assert len(rows) == 1 or len(rows) * (rows[:, A_SIZE] + rows[:, B_SIZE] + 3).max() <= 512


def test_a_batch_of_pairs_is_marked_and_segmented():
    """[CLS] x [SEP] y [SEP] within the context, segment 0 up to the first [SEP], and no mark is masked."""
    store = library(count=60)
    numbers = np.arange(SYMBOLS)
    exercise = PairedBlanks(store, VocabularyFacts(SYMBOLS, numbers < 0, numbers < 0), ROOM + 3, Noises())
    for rows in exercise.plan(2048, 0).epoch(0)[:20]:
        batch = exercise.batch(rows, (0, 0))
        text, segments = batch.inputs["text"], batch.inputs["segments"]
        assert text.mask.shape[1] <= ROOM + 3
        restored = text.values.flatten().clone()
        restored[batch.places.positions] = batch.places.values
        assert (batch.places.values >= FIRST).all()
        assert batch.targets["row"].tolist() == rows[:, NEXT].tolist()
        for row, ids, real, parts in zip(
            rows, restored.view_as(text.values), text.mask, segments.values, strict=True
        ):
            first, second = (
                store.values[row[start] : row[start] + row[size]]
                for start, size in ((A_START, A_SIZE), (B_START, B_SIZE))
            )
            assert ids[real].tolist() == [CLS, *first, SEP, *second, SEP]
            assert parts[real].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_texts_of_one_sentence_have_no_pairs():
    numbers = np.arange(SYMBOLS)
    exercise = PairedBlanks(library(most=1), VocabularyFacts(SYMBOLS, numbers < 0, numbers < 0), 64, Noises())
    with pytest.raises(UserError, match="No text has two sentences"):
        exercise.plan(1024, 0)
