"""The word table is IBM model 1's, and text is cut and joined as it is printed."""

import math

import numpy as np
import pytest

from seqlab.baselines import word_table
from seqlab.baselines.word_table import TokenPairs, WordTable, expect, join, learn, split_tokens
from seqlab.errors import UserError

HOUSE = [
    (["the", "house"], ["la", "maison"]),
    (["the", "flower"], ["la", "fleur"]),
    (["the", "blue", "house"], ["la", "maison", "bleue"]),
    (["a", "blue", "flower"], ["une", "fleur", "bleue"]),
    (["blue"], ["bleue"]),
]


def random_pairs(many=40):
    random = np.random.default_rng(0)
    rows = [random.integers(0, 12, random.integers(1, 8)) for _ in range(many)]
    return [
        ([f"s{token}" for token in row], [f"t{token % 7}" for token in row if token > 2] or ["t0"])
        for row in rows
    ]


def by_loops(pairs, rounds):
    """IBM model 1 with nothing as a partner and our nearness, in plain loops: (source or None, target) →
    chance."""
    together = {(one, two) for first, second in pairs for two in second for one in (None, *first)}
    many = {one: sum(other == one for other, _ in together) for one, _ in together}
    chance = {(one, two): 1 / many[one] for one, two in together}
    history = []
    for _ in range(rounds):
        used, likelihood = dict.fromkeys(together, 0.0), 0.0
        for first, second in pairs:
            for column, two in enumerate(second):
                near = [
                    math.exp(
                        -word_table.NEARNESS * abs((place + 0.5) / len(first) - (column + 0.5) / len(second))
                    )
                    for place in range(len(first))
                ]
                weights = [word_table.NOTHING, *((1 - word_table.NOTHING) * one / sum(near) for one in near)]
                joint = [
                    weight * chance[one, two] for weight, one in zip(weights, (None, *first), strict=True)
                ]
                likelihood += math.log(sum(joint))
                for one, part in zip((None, *first), joint, strict=True):
                    used[one, two] += part / sum(joint)
        totals = dict.fromkeys(many, 0.0)
        for (one, _), amount in used.items():
            totals[one] += amount
        chance = {(one, two): amount / totals[one] for (one, two), amount in used.items()}
        history.append(likelihood)
    return chance, history


def test_learning_agrees_with_plain_loops():
    pairs = random_pairs()
    cells = TokenPairs.of(pairs)
    chances, history = learn(cells, rounds=3)
    expected, likelihoods = by_loops(pairs, rounds=3)
    number, target = np.divmod(cells.pair, len(cells.targets))
    ours = {
        (None if one == 0 else cells.sources[one - 1], cells.targets[two]): chance
        for one, two, chance in zip(number, target, chances, strict=True)
    }
    assert ours == pytest.approx(expected)
    assert history == pytest.approx(likelihoods)


def test_the_likelihood_never_falls_and_chances_add_up_to_one():
    cells = TokenPairs.of(random_pairs())
    chances, history = learn(cells, rounds=20)
    assert (np.diff(history) >= -1e-9).all() and history[-1] > history[0] + 1
    assert np.bincount(cells.pair // len(cells.targets), chances) == pytest.approx(1)
    assert np.add.reduceat(cells.weight, cells.starts) == pytest.approx(1)
    assert expect(cells, chances)[0].sum() == pytest.approx(
        len(cells.starts)
    )  # each target token has one partner


def test_words_find_their_partners_and_unknown_ones_are_copied():
    table = WordTable.train(HOUSE)
    assert table.translate(["the", "blue", "house", "Paris", "a", "flower"]) == [
        "la",
        "bleue",
        "maison",
        "Paris",
        "une",
        "fleur",
    ]


def test_a_letter_that_is_mostly_silent_becomes_nothing():
    """The e at the end has no sound of its own, and targets are shorter than sources by just these."""
    sounds = {"b": "B", "a": "EY", "k": "K", "t": "T", "m": "M", "o": "OW"}
    words = [
        "bake",
        "take",
        "make",
        "mate",
        "bate",
        "kate",
        "tome",
        "mote",
        "tote",
        "tok",
        "bak",
        "mat",
        "bot",
    ]
    table = WordTable.train(
        [(list(word), [sounds[letter] for letter in word if letter != "e"]) for word in words]
    )
    assert table.table["e"] is None
    assert table.translate(list("bome")) == ["B", "OW", "M"]


def test_no_word_becomes_nothing_where_targets_are_as_long_as_sources():
    """One half of the time `do` has no partner, but the other side is no shorter for it."""
    pairs = [(["do", "you", "sleep"], ["tu", "dors", "?"]), (["you", "sleep"], ["tu", "dors"])] * 3
    assert None not in WordTable.train(pairs).table.values()


def test_a_sample_bounds_the_work_and_is_always_the_same(monkeypatch):
    monkeypatch.setattr(word_table, "SENTENCES", 10)
    pairs = random_pairs(200)
    some = word_table._sample(iter(pairs))
    assert len(some) == 10 and some == word_table._sample(pairs)
    assert not all(pair in pairs[:10] for pair in some)
    monkeypatch.setattr(word_table, "CELLS", 60)
    fewer = word_table._sample(pairs)
    assert 0 < len(fewer) < 10 and sum((len(one) + 1) * len(two) for one, two in fewer) <= 60


def test_pairs_that_teach_nothing_leave_a_table_that_copies():
    table = WordTable.train([([], ["a"]), (["a"], []), (["a"] * 1000, ["b"])])
    assert table.translate(["a", "b"]) == ["a", "b"]


def test_it_is_the_same_after_saving(tmp_path):
    table = WordTable({"e": None, "été": "summer"})
    table.save(tmp_path)
    assert WordTable.load(tmp_path) == table
    (tmp_path / "word_table.json").write_text("[]")
    with pytest.raises(UserError, match="can't be read"):
        WordTable.load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "text", "tokens"),
    [
        ("words", "Hello, world (it's me)!", ["Hello", ",", "world", "(", "it's", "me", ")", "!"]),
        ("words", "Un t-shirt, l'eau.", ["Un", "t", "-", "shirt", ",", "l'eau", "."]),
        ("characters", "a b", ["a", " ", "b"]),
        ("symbols", "K AE1 T", ["K", "AE1", "T"]),
        ("words", "", []),
    ],
)
def test_text_is_cut_and_joined_again(kind, text, tokens):
    assert split_tokens(text, kind) == tokens
    assert join(tokens, kind) == text


def test_an_apostrophe_that_stands_alone_binds_both_sides():
    assert join(["l", "'", "eau", "d’", "ici"], "words") == "l'eau d’ici"
