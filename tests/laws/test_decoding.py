"""Laws of decoding, for every decoder in DECODERS, against the plain searches of small_decoders.py."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from small_decoders import (
    ALLOWED,
    MARKS,
    Plain,
    Table,
    as_found,
    assert_same,
    every_decoder,
    every_text,
    found_by,
    limits,
    made,
    plain_beam,
    ranked,
    row_of,
)
from torch.testing import assert_close

from seqlab.config import build, dump
from seqlab.decode import DecodeConfig, SpecialIds, WordParts, by_length, decode_all, stream
from seqlab.decode.choose import Best
from seqlab.decode.sample import Draw, shortlist
from seqlab.decode.words import forbid_word_repeats
from seqlab.errors import UserError
from seqlab.likelihood import log_probabilities
from seqlab.seq import Seq, pad

# Search -----------------------------------------------------------------------------------------------------


@every_decoder
def test_a_beam_of_one_is_greedy(name):
    """Greedy: the likeliest id again and again, until it is the end."""
    decoder, memory = made(name, rows=5)
    for row, (found,) in enumerate(found_by(decoder, memory, limits(9, 9, 4, 9, 1), beam=1)):
        plain, ids = Plain(decoder, row_of(memory, row)), ()
        longest = (9, 9, 4, 9, 1)[row]
        while len(ids) < longest and MARKS.end not in ids:
            scores = plain.next((MARKS.start, *ids))
            ids = (*ids, max(ALLOWED, key=lambda id: scores[id]))
        assert found.ids == tuple(id for id in ids if id != MARKS.end)
        assert found.finished == (MARKS.end in ids)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@every_decoder
def test_a_beam_that_holds_everything_is_an_exhaustive_search(name, alpha):
    decoder, memory = made(name, rows=2)
    wide = len(ALLOWED) ** 4
    for row, found in enumerate(
        found_by(decoder, memory, limits(4, 3), beam=wide, n_best=wide, length_penalty=alpha)
    ):
        meant = every_text(Plain(decoder, row_of(memory, row)), (4, 3)[row], alpha)
        assert_same(found, meant)


@settings(max_examples=60, deadline=None)
@given(
    seed=some.integers(0, 10_000),
    beam=some.integers(1, 6),
    wanted=some.integers(1, 6),
    alpha=some.sampled_from([0.0, 0.5, 1.0, 1.7]),
    longest=some.integers(1, 10),
)
def test_stopping_early_never_loses_a_better_text(seed, beam, wanted, alpha, longest):
    """A search that nothing stops before the limit finds the same."""
    decoder, memory = made("table", rows=2, seed=seed)
    how = {"beam": beam, "n_best": min(beam, wanted), "length_penalty": alpha}
    for row, found in enumerate(found_by(decoder, memory, limits(longest, 10), **how)):
        meant = plain_beam(
            Plain(decoder, row_of(memory, row)), (MARKS.start,), (longest, 10)[row], beam, alpha
        )
        assert_same(found, meant[: how["n_best"]])


def test_a_text_that_falls_behind_and_comes_out_ahead_is_found():
    """[end] has p = 1/2, so log p / 1 = -0.69. The word 3 has p = 1/5 and is then all but certain to go on
    four times and
    end: log 0.2 / 2 = -0.80 after two ids, but log 0.2 / 6 = -0.27 at the end."""
    decoder, memory = made("table without memory", rows=1)
    with torch.no_grad():
        decoder.table.fill_(-20.0)
        decoder.table[0, MARKS.start] = torch.tensor(
            [0.1, 0.1, 0.5, 0.2, 0.05, 0.05], dtype=torch.double
        ).log()
        for before, last, after in ((1, 3, 4), (3, 4, 5), (4, 5, 3), (5, 3, 5), (3, 5, 2)):
            decoder.table[before, last, after] = 20.0
    ((found,),) = found_by(decoder, memory, limits(10), beam=2)
    assert found.ids == (3, 4, 5, 3, 5)
    assert_close(found.score, torch.tensor(0.2, dtype=torch.double).log().item() / 6)


def test_the_search_does_stop_early():
    """With a penalty of 0 a finished text beats whatever is less likely already, so the limit is not
    reached."""
    decoder, memory = made("table", rows=1)
    with torch.no_grad():
        decoder.table[..., MARKS.end] += 2
    calls = []
    advance = decoder.advance
    decoder.advance = lambda fed, state: calls.append(fed.shape) or advance(fed, state)
    found_by(decoder, memory, limits(1000), beam=4, length_penalty=0.0)
    assert 1 <= len(calls) < 50


def test_what_is_chosen_is_an_id_also_where_nothing_can_be():
    """A source that is done stays in the batch for a while, with -inf everywhere; what it writes is fed."""
    chosen = Best(100)(torch.zeros(2, 1, 67), torch.tensor([[0.0], [-torch.inf]]), torch.arange(2), 3)
    assert int(chosen.ids.max()) < 67
    assert sorted(chosen.ids[0, :67].tolist()) == list(range(67)) and (chosen.totals[1] == -torch.inf).all()


@pytest.mark.parametrize("how", [{}, {"beam": 3, "n_best": 3}, {"sample": True}])
@every_decoder
def test_what_comes_after_the_end_is_the_likeliest_and_changes_nothing_before_it(name, how):
    """Against the plain reading of each text with its end, id by id; a text without an end has nothing."""
    decoder, memory = made(name, rows=4)
    before = found_by(decoder, memory, limits(9, 9, 3, 1), **how)
    more = found_by(decoder, memory, limits(9, 9, 3, 1), ignore_end=5, **how)
    assert name != "table" or any(one.finished for found in before for one in found)
    for row, (without, found) in enumerate(zip(before, more, strict=True)):
        plain = Plain(decoder, row_of(memory, row))
        for one, other in zip(found, without, strict=True):
            assert replace(one, after=()) == other
            ids = [MARKS.start, *one.ids, MARKS.end]
            for _ in range(5 * one.finished):
                scores = plain.next(tuple(ids))
                ids.append(max(set(ALLOWED) - {MARKS.end}, key=lambda id: scores[id]))
            assert one.after == tuple(ids[len(one.ids) + 2 :])


@every_decoder
def test_batch_mates_and_padding_change_nothing(name):
    """Rows of different limits and lengths, which leave the batch one by one, are found as if alone."""
    longest = limits(*range(12, 0, -1), 12, 7)
    decoder, memory = made(name, rows=len(longest))
    if memory is not None:
        memory.values[~memory.mask] = 1e3  # what stands at padding means nothing
    together = found_by(decoder, memory, longest, beam=3, n_best=3)
    for row in range(len(longest)):
        (alone,) = found_by(decoder, row_of(memory, row), longest[row : row + 1], beam=3, n_best=3)
        assert_same(together[row], alone)


@every_decoder
def test_the_n_best_are_in_order_and_all_different(name):
    decoder, memory = made(name, rows=4)
    for found in found_by(decoder, memory, limits(3, 6, 9, 12), beam=6, n_best=5):
        assert len(found) == 5
        assert found == ranked(found)
        assert len({one.ids for one in found}) == 5


@every_decoder
def test_the_score_of_what_was_found_is_what_was_reported(name):
    decoder, memory = made(name, rows=3)
    prefixes = [[3, 4], [4, 4], [5, 3]]
    for row, found in enumerate(
        found_by(decoder, memory, limits(2, 5, 8), prefixes, beam=4, n_best=4, length_penalty=0.8)
    ):
        for one in found:
            ids = [MARKS.start, *prefixes[row], *one.ids, *[MARKS.end] * one.finished]
            length = len(ids) - 3
            logp = log_probabilities(decoder, row_of(memory, row), pad([torch.tensor(ids)]), given=3)
            assert_close(one.logp, logp.item())
            assert_close(one.score, one.logp / length**0.8)


@every_decoder
def test_scoring_ignores_padding(name):
    decoder, memory = made(name, rows=3)
    texts = [torch.tensor(ids) for ids in ([1, 3, 2], [1, 4, 5, 5, 3, 2], [1, 5, 2])]
    together = log_probabilities(decoder, memory, pad(texts))
    for row, text in enumerate(texts):
        plain = Plain(decoder, row_of(memory, row))
        meant = sum(plain.next(tuple(text[:place].tolist()))[text[place]] for place in range(1, len(text)))
        assert_close(together[row].item(), meant)


@every_decoder
def test_a_forced_prefix_is_gone_on_from(name):
    """The search after a prefix is the search whose first ids are given: they count neither as probability
    nor as length."""
    decoder, memory = made(name, rows=2)
    prefixes = [[3, 5, 3], [4, 4, 4]]
    for row, found in enumerate(found_by(decoder, memory, limits(6, 6), prefixes, beam=4, n_best=4)):
        plain = Plain(decoder, row_of(memory, row))
        assert_same(found, plain_beam(plain, (MARKS.start, *prefixes[row]), 6, 4, 1.0))


@every_decoder
def test_with_the_end_banned_every_text_has_the_length_of_its_limit(name):
    decoder, memory = made(name, rows=3)
    special = SpecialIds(start=1, end=2, banned=(0, 1, 2))
    for beam in (1, 3):
        found = found_by(decoder, memory, limits(2, 5, 9), beam=beam, n_best=beam, special=special)
        assert [[len(one.ids) for one in row] for row in found] == [[2] * beam, [5] * beam, [9] * beam]
        assert not any(one.finished for row in found for one in row)


@pytest.mark.parametrize("how", [{"beam": 2}, {"sample": True}], ids=["beam", "sample"])
@every_decoder
def test_training_goes_on_after_decoding(name, how):
    """What a decoder keeps from decoding, such as a table of positions, can be used where gradients are
    taken."""
    decoder, memory = made(name, rows=2)
    whole = decode_all([[0], [1]], lambda rows: found_by(decoder, row_of(memory, rows[0]), limits(9), **how))
    assert len(whole) == 2
    states, _ = decoder.advance(torch.tensor([[1, 3, 4], [1, 5, 5]]), decoder.start(memory, 2))
    decoder.answer(states.flatten(0, 1)).scores.logsumexp(-1).sum().backward()
    assert decoder.vocabulary.weight.grad is not None


@pytest.mark.parametrize(
    ("width", "symbols", "beam"),
    [(1, 1000, 1), (4, 1000, 4), (5, 150, 5), (1, 70, 5), (3, 64, 3), (2, 7, 2), (1, 4, 9)],
)
def test_picking_by_blocks_finds_the_best(width, symbols, beam):
    scores = torch.randn(3, width, symbols)
    totals = torch.randn(3, width)
    chosen = Best(beam)(scores, totals, torch.arange(3), 0)
    there = min(beam, width * symbols)
    meant = (scores + totals.unsqueeze(-1)).flatten(1).topk(there)
    assert_close(chosen.totals[:, :there], meant.values)
    assert_close((chosen.parents * symbols + chosen.ids)[:, :there], meant.indices)
    assert (chosen.totals[:, there:] == -torch.inf).all()


# Repetition -------------------------------------------------------------------------------------------------


def runs(ids: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    return [tuple(ids[place : place + size]) for place in range(len(ids) - size + 1)]


@pytest.mark.parametrize(
    "how", [{"beam": 1}, {"beam": 4, "n_best": 4}, {"sample": True}], ids=["greedy", "beam", "sample"]
)
@pytest.mark.parametrize("size", [1, 2, 3])
@every_decoder
def test_no_run_of_ids_is_written_twice(name, size, how):
    decoder, memory = made(name, rows=6)
    with torch.no_grad():  # an end that hardly ever comes
        if isinstance(decoder, Table):
            decoder.table[..., MARKS.end] -= 8
        else:
            decoder.vocabulary.bias[MARKS.end] -= 8
    longest, prefixes = limits(*[20] * 6), [[4]] * 6
    free = found_by(decoder, memory, longest, prefixes, **how)
    kept = found_by(decoder, memory, longest, prefixes, no_repeat=size, **how)
    texts = [[(4, *one.ids) for row in found for one in row] for found in (free, kept)]
    assert any(len(set(runs(ids, size))) < len(runs(ids, size)) for ids in texts[0])  # it would happen
    assert all(len(set(runs(ids, size))) == len(runs(ids, size)) for ids in texts[1])
    if size == 1:  # after both words that are left, only the end remains
        assert all(one.finished for row in kept for one in row)


LETTERS = ["[0]", "[1]", "[2]", "a", "b", "ab", "ab", ""]
PARTS = WordParts(
    LETTERS,
    continues=[id in (4, 5) for id in range(8)],
    can_continue=[id in (3, 4, 6) for id in range(8)],
    space=[id == 7 for id in range(8)],
)
"""Ids 4 and 5 go on with a word, 5 ends it; 6 is 5 with a space before it, 7 a space by itself."""


def words_of(ids: list[int]) -> list[str]:
    """The words that ids make up, read from the definition."""
    words: list[str] = []
    for last, id in zip([0, *ids], ids, strict=False):
        if last == 7 or (id in (4, 5) and last in (3, 4, 6)):
            words[-1] += LETTERS[id]
        else:
            words.append(LETTERS[id])
    return words


@settings(max_examples=150, deadline=None)
@given(
    histories=some.integers(1, 14).flatmap(
        lambda length: some.lists(
            some.lists(some.integers(1, 7), min_size=length, max_size=length), min_size=1, max_size=3
        )
    ),
    size=some.integers(1, 4),
)
def test_ids_that_would_repeat_a_run_of_words_are_ruled_out_and_no_others(histories, size):
    """By the definition: with the id behind it, the last words of the text stand in it already, as whole
    words (another word begins after them). "ab" is one word, whether it is 3 4, 6 or 7 5."""
    scores = torch.zeros(len(histories), 8)
    forbid_word_repeats(scores, torch.tensor(histories), size, PARTS)
    for row, history in enumerate(histories):
        for id in range(8):
            written = words_of([*history, id])
            repeats = len(written) > size and tuple(written[-size:]) in runs(written[:-1], size)
            assert (scores[row, id] == -torch.inf) == repeats, (history, id)


@pytest.mark.parametrize(
    "how", [{"beam": 1}, {"beam": 4, "n_best": 4}, {"sample": True}], ids=["greedy", "beam", "sample"]
)
@pytest.mark.parametrize("size", [1, 2])
def test_no_run_of_words_is_written_twice(size, how):
    """A text may have an id twice where it is in two different words."""
    decoder, memory = made("recurrent", rows=6)
    with torch.no_grad():
        decoder.vocabulary.bias[MARKS.end] -= 8
    parts = WordParts(*(part[:6] for part in (LETTERS, PARTS.continues, PARTS.can_continue, PARTS.space)))
    special = SpecialIds(start=1, end=2, banned=(0, 1), words=parts)
    found = found_by(decoder, memory, limits(*[20] * 6), no_repeat=size, special=special, **how)
    texts = [words_of([1, *one.ids]) for row in found for one in row]
    assert all(len(set(runs(words, size))) == len(runs(words, size)) for words in texts)
    assert any(len(set(one.ids)) < len(one.ids) for row in found for one in row)


@pytest.mark.parametrize(
    "how", [{"no_repeat": 1}, {"no_repeat": 1, "sample": True}], ids=["greedy", "sample"]
)
def test_an_end_in_what_was_given_does_not_forbid_the_end(how):
    """Text after other texts: the end stood there already, and is all that is left when no word may be
    written again."""
    decoder, _ = made("table without memory", rows=1)
    ((found,),) = found_by(decoder, None, limits(20), [[4, MARKS.end, 3]], **how)
    assert found.finished
    assert found.ids in ((), (5,))


@every_decoder
def test_the_repetition_penalty_multiplies_the_log_probability_of_what_was_written(name):
    decoder, memory = made(name, rows=3)
    for row, (found,) in enumerate(found_by(decoder, memory, limits(8, 8, 8), repetition_penalty=1.8)):
        plain, ids, total = Plain(decoder, row_of(memory, row)), (), 0.0
        while len(ids) < 8 and MARKS.end not in ids:
            scores = plain.next((MARKS.start, *ids))
            priced = {id: scores[id] * (1.8 if id in ids else 1.0) for id in ALLOWED}
            ids = (*ids, max(ALLOWED, key=priced.__getitem__))
            total += priced[ids[-1]]
        assert_same([found], [as_found(ids, total, 1.0)])


# Chance -----------------------------------------------------------------------------------------------------

SHARES = torch.tensor([0.04, 0.5, 0.0, 0.3, 0.16])


@pytest.mark.parametrize(
    ("how", "meant"),
    [
        ({}, [0.04, 0.5, 0.0, 0.3, 0.16]),
        ({"top_k": 2}, [0, 5 / 8, 0, 3 / 8, 0]),
        ({"top_p": 0.79}, [0, 5 / 8, 0, 3 / 8, 0]),
        ({"top_p": 0.81}, [0, 0.5 / 0.96, 0, 0.3 / 0.96, 0.16 / 0.96]),
        ({"top_p": 0.01}, [0, 1, 0, 0, 0]),
        ({"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0, 0]),  # of the two likeliest, the first holds 5/8
        ({"top_k": 99}, [0.04, 0.5, 0.0, 0.3, 0.16]),
        (
            {"temperature": 0.5},
            [0.0016 / 0.3672, 0.25 / 0.3672, 0, 0.09 / 0.3672, 0.0256 / 0.3672],
        ),  # squares
        (
            {"temperature": 2.0, "top_k": 2},
            [0, 0.5**0.5 / (0.5**0.5 + 0.3**0.5), 0, 0.3**0.5 / (0.5**0.5 + 0.3**0.5), 0],
        ),
    ],
)
def test_ids_are_drawn_as_often_as_the_formula_says(how, meant):
    config, rows = DecodeConfig(sample=True, **how), 4000
    weights, ids = shortlist(SHARES.log().unsqueeze(0), config)
    assert_close(
        torch.zeros(1, 5).scatter(1, ids, weights / weights.sum()), torch.tensor([meant], dtype=torch.float)
    )

    draw = Draw(config, range(rows), longest=2)
    scores = SHARES.log().expand(rows, 1, 5)
    for step in (0, 1):
        chosen = draw(scores, torch.zeros(rows, 1), torch.arange(rows), step)
        for id, share in enumerate(meant):
            drawn = (chosen.ids == id).float().mean().item()
            assert abs(drawn - share) <= 4 * (share * (1 - share) / rows) ** 0.5  # four standard deviations
        assert_close(chosen.totals, SHARES.log()[chosen.ids])  # log p without temperature or cut


@pytest.mark.parametrize(("chance", "id"), [(0.0, 1), (1 - 2**-53, 4)])
def test_the_first_and_the_last_chance_draw_what_has_a_share(chance, id):
    draw = Draw(DecodeConfig(sample=True), [0], longest=1)
    draw.draws.fill_(chance)
    scores = torch.tensor([[[0.0, 0.3, 0.3, 0.0, 0.4, 0.0]]]).log()
    assert draw(scores, torch.zeros(1, 1), torch.zeros(1, dtype=torch.long), 0).ids.item() == id


@every_decoder
def test_a_row_is_drawn_alike_in_any_batch(name):
    decoder, memory = made(name, rows=8)
    longest = limits(3, 12, 12, 5, 12, 12, 9, 12)
    together = found_by(decoder, memory, longest, sample=True, seed=7, numbers=range(20, 28))
    for row in range(8):
        how = {"sample": True, "seed": 7, "numbers": [20 + row]}
        assert_same(found_by(decoder, row_of(memory, row), longest[row : row + 1], **how)[0], together[row])
    other = found_by(decoder, memory, longest, sample=True, seed=8, numbers=range(20, 28))
    assert [row[0].ids for row in other] != [row[0].ids for row in together]


@pytest.mark.parametrize(
    "how", [{"sample": True, "seed": 3}, {"sample": True, "top_p": 0.7, "no_repeat": 2}, {}], ids=str
)
@every_decoder
def test_a_stream_gives_the_same_ids_one_by_one(name, how):
    decoder, memory = made(name, rows=6)
    found = found_by(decoder, memory, limits(*[9] * 6), [[4]] * 6, **how)
    for row in range(6):
        ids = stream(
            decoder,
            row_of(memory, row),
            MARKS.opening([[4]]),
            config=DecodeConfig(**how),
            special=MARKS,
            longest=9,
            number=row,
        )
        assert tuple(ids) == found[row][0].ids


def test_a_stream_computes_no_further_than_it_is_read():
    decoder, _ = made("table without memory", rows=1)
    fed = []
    advance = decoder.advance
    decoder.advance = lambda ids, state: fed.append(ids.shape[1]) or advance(ids, state)
    special = SpecialIds(start=1, end=2, banned=(0, 1, 2))
    ids = stream(
        decoder, None, special.opening([[3, 3]]), config=DecodeConfig(sample=True), special=special, longest=9
    )
    next(ids), next(ids)
    assert fed == [3, 1]  # the opening at once, then the first id


# Many -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"beam": 3, "n_best": 2}, {"sample": True}], ids=["beam", "sample"])
@every_decoder
def test_workers_change_nothing(name, how):
    decoder, memory = made(name, rows=30)
    threads = torch.get_num_threads()

    def one(rows):
        numbers = torch.tensor(rows)
        of = None if memory is None else Seq(memory.values[numbers], memory.mask[numbers])
        return found_by(decoder, of, 2 + numbers % 7, numbers=rows, **how)

    heard = []
    batches = by_length((torch.arange(30) % 4 + 1).tolist(), rows=4)
    results = [decode_all(batches, one, workers, heard.append) for workers in (1, 2, 5, None)]
    assert results[0] == results[1] == results[2] == results[3]
    for row, found in enumerate(one(list(range(30)))):
        assert_same(results[0][row], found)
    assert sum(heard) == 4 * 30
    assert torch.get_num_threads() == threads


def test_a_fault_in_a_worker_is_not_swallowed():
    threads = torch.get_num_threads()
    begun = []

    def one(rows):
        begun.append(rows)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        decode_all([[row] for row in range(500)], one, workers=2)
    assert len(begun) < 500  # what had not begun did not begin
    assert torch.get_num_threads() == threads


def test_batches_are_of_like_length_and_hold_every_row_once():
    lengths = [5, 90, 1, 40, 41, 7, 300, 2, 2, 8]
    batches = by_length(lengths, rows=3, tokens=100)
    assert sorted(itertools.chain(*batches)) == list(range(10))
    assert batches == [[6], [1], [4, 3], [9, 5, 0], [7, 8, 2]]
    assert by_length([]) == []
    assert decode_all([], lambda rows: rows) == []


# Settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"beam": 0}, "beam"),
        ({"beam": 2, "n_best": 3}, "n_best is 3"),
        ({"beam": 2, "sample": True}, "does not go with beam: 2"),
        ({"temperature": 0}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"repetition_penalty": 0.9}, "repetition_penalty"),
        ({"length_penalty": -1}, "length_penalty"),
        ({"no_repeat": -1}, "no_repeat"),
        ({"longest": 0}, "longest"),
        ({"workers": 0}, "workers"),
    ],
)
def test_settings_out_of_range_are_refused(tree, key):
    with pytest.raises(UserError, match=key):
        build(DecodeConfig, tree, "run.yaml")


def test_settings_survive_being_written():
    config = DecodeConfig(beam=5, n_best=2, longest=30, no_repeat=1, top_p=0.9)
    assert build(DecodeConfig, dump(config), "run.yaml") == config


def test_the_limit_follows_the_source_unless_it_is_a_number():
    lengths = torch.tensor([1, 10])
    assert DecodeConfig(longest_factor=1.5, longest_extra=4).limits(lengths).tolist() == [5, 19]
    assert DecodeConfig(longest=7).limits(lengths).tolist() == [7, 7]
