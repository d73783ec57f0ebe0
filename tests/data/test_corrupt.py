"""What is hidden from a model: how much of it, how, and that chance has nothing else to follow than seed,
epoch and row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.answers.exercises import Blanks, Noises, Repair, VocabularyFacts
from seqlab.data.corrupt import FIRST, corrupt, infill, mask, permute, row_random
from seqlab.data.store import Ragged
from seqlab.data.tokenizers import CLS, MASK, SEP

SYMBOLS, LENGTH, CONTEXT = 1000, 1_000_000, 256


def text(length=LENGTH, seed=0):
    """Random ids, in sentences of 20, with the mark of a document's end after every tenth of them."""
    ids = np.random.default_rng(seed).integers(FIRST, SYMBOLS, length)
    ids[199::200] = SEP
    return Ragged(ids, np.arange(0, length + 1, 20), np.arange(0, length // 20 + 1, 10))


def vocabulary():
    """Two of three pieces go on with the word before them; nothing goes on with a mark."""
    numbers = np.arange(SYMBOLS)
    real = numbers >= FIRST
    return VocabularyFacts(SYMBOLS, continues_word=real & (numbers % 3 > 0), can_continue=real)


def blanks(length=LENGTH, **noises):
    return Blanks(text(length), vocabulary(), CONTEXT, Noises(**noises))


def blocks(exercise):
    """The whole text, as rows of a plan."""
    return np.concatenate(list(exercise.fixed(None)))


def ids_of(exercise, row):
    return np.concatenate([[CLS], exercise.ids(row), [SEP]])


# Masks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_million_pieces_are_masked_as_bert_does(whole_words):
    """15 % of the pieces ± 0.2, of them 80 % [MASK], 10 % another piece, 10 % as they were, each ± 1; marks
    never."""
    exercise = blanks(whole_words=whole_words)
    before, shown, chosen = [], [], []
    for row in blocks(exercise):
        batch = exercise.batch(row[None], (1, 0))
        assert batch.inputs["text"].mask.all()
        before.append(ids_of(exercise, row))
        shown.append(batch.inputs["text"].values[0].numpy())
        chosen.append(np.zeros(len(before[-1]), bool))
        chosen[-1][batch.places.positions.numpy()] = True
        assert (batch.places.values.numpy() == before[-1][batch.places.positions.numpy()]).all()
    before, shown, chosen = map(np.concatenate, (before, shown, chosen))

    real = before >= FIRST
    assert not (chosen & ~real).any()
    assert (shown[~chosen] == before[~chosen]).all()
    assert chosen.sum() / real.sum() == pytest.approx(0.15, abs=0.002)
    found, meant = shown[chosen], before[chosen]
    masked, same = found == MASK, found == meant
    assert masked.mean() == pytest.approx(0.8, abs=0.01)
    assert same.mean() == pytest.approx(0.1, abs=0.01)
    other = found[~masked & ~same]
    assert len(other) / len(found) == pytest.approx(0.1, abs=0.01)
    assert other.min() >= FIRST and other.max() < SYMBOLS
    assert len(np.unique(other)) > 0.99 * (SYMBOLS - FIRST)


def test_whole_words_are_masked_or_not_at_all():
    exercise = blanks(100_000, whole_words=True)
    several = 0
    for row in blocks(exercise):
        ids = ids_of(exercise, row)
        chosen = np.zeros(len(ids), bool)
        chosen[exercise.batch(row[None], (0, 3)).places.positions.numpy()] = True
        words = np.split(np.arange(len(ids)), np.flatnonzero(exercise.vocabulary.begins(ids)))
        for word in words:
            if len(word):
                assert len(set(chosen[word].tolist())) == 1
                several += len(word) > 1 and bool(chosen[word[0]])
    assert several > 1000


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(0, 2**31),
    st.lists(st.booleans(), min_size=12, max_size=12),
)  # fmt: skip
def test_there_is_something_to_find_wherever_there_is_a_piece(ids, seed, begins):
    ids = np.array(ids)
    for words in (None, np.array(begins)[: len(ids)]):
        found = mask(ids, row_random(seed, 0, 0), share=0.01, symbols=31, begins=words)
        assert (len(found.places) > 0) == bool((ids >= FIRST).any())
        assert (ids[found.places] >= FIRST).all()


# Chance -----------------------------------------------------------------------------------------------------


def places_by_row(batch):
    width = batch.inputs["text"].mask.shape[1]
    rows = batch.places.positions.numpy() // width
    return [(batch.places.positions.numpy() % width)[rows == row].tolist() for row in range(batch.size)]


def shown(batch):
    text = batch.inputs["text"]
    return [values[real].tolist() for values, real in zip(text.values, text.mask, strict=True)]


def test_masks_follow_from_seed_epoch_and_row_alone():
    """Neither batch-mates, nor their order, nor their lengths matter; another seed, epoch or row does."""
    exercise = blanks(20_000)
    rows = blocks(exercise)[-9:]
    rows[3, 1] = 100  # a shorter row among them
    together, turned = exercise.batch(rows, (5, 2)), exercise.batch(rows[::-1].copy(), (5, 2))
    alone = [exercise.batch(row[None], (5, 2)) for row in rows]

    assert places_by_row(together) == places_by_row(turned)[::-1] == [places_by_row(one)[0] for one in alone]
    assert shown(together) == shown(turned)[::-1] == [shown(one)[0] for one in alone]
    for other in ((6, 2), (5, 3)):
        changed = places_by_row(exercise.batch(rows, other))
        assert all(one != two for one, two in zip(changed, places_by_row(together), strict=True))
    assert len({tuple(one) for one in places_by_row(together)}) == len(rows)


def test_noise_follows_from_seed_epoch_and_row_alone():
    exercise = Repair(
        text(4_000), vocabulary(), 128, Noises(share=0.3, kinds=("infill", "permute", "mask", "delete"))
    )
    rows = blocks(exercise)[:6]
    together = shown(exercise.batch(rows, (5, 2)))
    assert together == [shown(exercise.batch(row[None], (5, 2)))[0] for row in rows]
    for other in ((6, 2), (5, 3)):
        assert all(one != two for one, two in zip(shown(exercise.batch(rows, other)), together, strict=True))


# Noise ------------------------------------------------------------------------------------------------------


def numbered(length):
    """Ids that tell their place."""
    return np.arange(FIRST, FIRST + length)


def spans(before, after):
    """How many pieces each [MASK] stands for, when ids tell their place."""
    kept = np.concatenate([[before[0] - 1], after[after != MASK], [before[-1] + 1]])
    masks = np.flatnonzero(after == MASK)
    ordinals = masks - np.arange(len(masks))  # kept pieces before each mask
    return kept[ordinals + 1] - kept[ordinals] - 1


@pytest.mark.parametrize("mean", [1.0, 3.0, 5.0])
def test_infill_takes_its_share_in_spans_of_poisson_lengths_with_one_mask_each(mean):
    before = numbered(200_000)
    after = infill(before, row_random(0, 0, 0), share=0.3, span=mean)
    kept = after[after != MASK]
    assert (np.diff(kept) > 0).all()  # in their order
    assert len(kept) == 0.7 * len(before)
    found = spans(before, after)
    assert found.sum() == 0.3 * len(before)  # nothing is missing without a mask
    assert not ((after[1:] == MASK) & (after[:-1] == MASK)).any()  # and no span has two
    assert found.mean() == pytest.approx(mean, rel=0.02)
    assert found.var() == pytest.approx(mean, rel=0.05)  # as Poisson's is
    assert (found == 0).mean() == pytest.approx(np.exp(-mean), abs=0.01)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 0.99), st.floats(0.01, 20.0), st.integers(0, 2**31))
def test_infill_takes_no_more_than_its_share_of_any_text(length, share, span, seed):
    before = numbered(length)
    after = infill(before, row_random(seed, 0, 0), share=share, span=span)
    found = spans(before, after)
    assert found.sum() == length - (after != MASK).sum() <= round(share * length)
    assert (after == MASK).any() == (round(share * length) > 0)
    assert not ((after[1:] == MASK) & (after[:-1] == MASK)).any()


@pytest.mark.parametrize("kinds", [("infill",), ("mask",), ("delete",), ("infill", "mask", "delete")])
def test_marks_stay(kinds):
    store = text(40_000)
    after = corrupt(store.values, store.offsets, row_random(0, 0, 0), kinds=kinds, share=0.3, span=3.0)
    assert (after == SEP).sum() == (store.values == SEP).sum() == 200


def test_single_masks_and_deletions_take_their_share():
    before = numbered(100_000)
    masked = corrupt(before, before[:0], row_random(0, 0, 0), kinds=("mask",), share=0.3, span=3.0)
    assert ((masked == before) | (masked == MASK)).all()
    assert (masked == MASK).mean() == pytest.approx(0.3, abs=0.006)

    less = corrupt(before, before[:0], row_random(0, 0, 0), kinds=("delete",), share=0.3, span=3.0)
    assert (np.diff(less) > 0).all()
    assert len(less) / len(before) == pytest.approx(0.7, abs=0.006)
    assert (
        len(corrupt(before[:1], before[:0], row_random(0, 0, 0), kinds=("delete",), share=0.999, span=3.0))
        == 1
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 2**31), st.booleans())
def test_permuting_keeps_every_sentence_whole(sizes, seed, begun):
    """The first sentence may have begun before the stretch: then its start is not told."""
    before = numbered(sum(sizes))
    starts = np.cumsum([0, *sizes[:-1]])
    after = permute(before, starts[1:] if begun else starts, row_random(seed, 0, 0))
    sentences = np.split(before, starts[1:])
    places = [after.tolist().index(sentence[0]) for sentence in sentences]
    assert len(after) == len(before)
    for sentence, place in zip(sentences, places, strict=True):
        assert after[place : place + len(sentence)].tolist() == sentence.tolist()


def test_sentences_change_places():
    before, starts = numbered(300), np.arange(0, 300, 10)
    first = {int(permute(before, starts, row_random(0, 0, row))[0]) for row in range(300)}
    assert first == set(before[starts].tolist())  # each of the 30 is sometimes the first


def test_a_rotated_text_begins_at_any_of_its_tokens():
    """Each of 20 begins about a twentieth of 4,000 rotations (a count spreads by 14); order is kept."""
    before = numbered(20)
    counts = np.zeros(20)
    for row in range(4000):
        after = corrupt(before, before[:0], row_random(0, 0, row), kinds=("rotate",), share=0.3, span=3.0)
        first = int(after[0] - before[0])
        assert after.tolist() == [*before[first:], *before[:first]]
        counts[first] += 1
    assert abs(counts - 200).max() < 70


def test_what_is_repaired_is_the_text_itself():
    exercise = Repair(text(4_000), vocabulary(), 128, Noises(share=0.3))
    batch = exercise.batch(blocks(exercise)[:5], (0, 0))
    for row, values in zip(blocks(exercise), batch.written.values, strict=False):
        ids = exercise.ids(row)
        assert values[1 : 1 + len(ids)].tolist() == ids.tolist()
    assert batch.inputs["text"].mask.sum() < batch.written.mask.sum()
