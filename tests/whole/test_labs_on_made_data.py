"""Labs that make their own data: the generators by independent checks, each lab cut down to seconds."""

from __future__ import annotations

import json
import math
import random
import statistics

import numpy as np
import pytest

from seqlab.labs import LABS, reference, worked
from seqlab.labs import reach as reach_lab

ALONE = {"training.threads": 1}
"""One training after the other, in this process."""

# worked -----------------------------------------------------------------------------------------------------


def found(example, what):
    [step] = [step for step in worked.steps() if (step.example, step.what) == (example, what)]
    return list(step.found)


def test_the_worked_examples_are_those_of_the_course():
    """SPEC R1, A1, T1 and T3, as they are published."""
    assert found(worked.RNN, "new state") == [1, 0, 0] and found(worked.RNN, "output") == [1]
    low, high = math.exp(-0.5), math.exp(0.5)
    assert found(worked.LOOK, "query") == [-1, 1, 0, 1]
    assert found(worked.LOOK, "scores") == [-0.5, 0.5, -0.5]
    assert found(worked.LOOK, "answer") == pytest.approx(
        [2 * low / (2 * low + high), high / (2 * low + high)]
    )
    table = [[0, 1, 0, 1], [0.84, 0.54, 0.10, 1.00], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]]
    for number, row in enumerate(table):
        assert found(worked.PLACES, f"position {number}") == pytest.approx(row, abs=0.0051)
    counts = {"attention": 160_800, "feed-forward": 80_400, "two norms": 800, "a layer": 242_000,
              "four layers": 968_000, "embedding": 20_000, "classifier": 988_402,
              "language model": 1_008_100}  # fmt: skip
    assert {what: found(worked.COUNTS, what) for what in counts} == {
        what: [count] for what, count in counts.items()
    }


def test_i_am_a_robot_is_masked_attention_over_words_with_positions():
    """All four words at once, in numpy."""
    turns = np.arange(4)[:, None] / np.array([1.0, 10.0])
    x = np.array(worked.MEANS) + np.stack([np.sin(turns), np.cos(turns)], axis=-1).reshape(4, 4)
    q, k, v = (x @ np.array(matrix).T for matrix in (worked.ASKS, worked.ANSWERS, worked.TELLS))
    powers = np.tril(np.exp(q @ k.T / np.sqrt(2)))
    weights = powers / powers.sum(axis=1, keepdims=True)
    for place, word in enumerate(worked.SAID):
        assert found(worked.ROBOT, f"{word}: weights") == pytest.approx(weights[place], abs=1e-5)
        assert found(worked.ROBOT, f"{word}: answer") == pytest.approx((weights @ v)[place], abs=1e-5)
    assert weights[3].argmax() == 0  # "robot" looks at "I"


def test_every_step_is_printed_with_its_numbers(tmp_path, seqlab):
    code, out, err = seqlab("lab", "worked", "--out", tmp_path / "lab")
    told = json.loads((tmp_path / "lab" / "table.json").read_text())

    assert code == 0, err
    assert told["apart"] < worked.LEVEL and "they agree" in out
    assert all(f"  {step['what']}  " in out for step in told["steps"])
    assert "1,008,100" in out and "0.424  0.576" in out
    assert (tmp_path / "lab" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_numbers_that_disagree_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(worked, "product", lambda matrix, vector: [0.0] * len(matrix))
    assert "they do not agree" in worked.run(out=tmp_path / "lab").verdict
    assert "worked" in LABS


# reach ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "stride", "dilation", "reach"),
    [(1, 1, "none", 3), (4, 1, "none", 9), (1, 2, "none", 3), (2, 2, "none", 7), (3, 2, "none", 15),
     (4, 2, "none", 31), (1, 1, "growing", 3), (3, 1, "growing", 27)],
)  # fmt: skip
def test_the_reach_of_a_convolution_is_counted_by_walking_back(layers, stride, dilation, reach):
    """The positions that feed the state at 0, found layer by layer, from the top."""
    seen = {0}
    for layer in reversed(range(layers)):
        apart = 3**layer if dilation == "growing" else 1
        seen = {stride * place - apart * step for place in seen for step in range(3)}
    assert len(seen) == 1 - min(seen) == reach == reach_lab.theory(layers, stride, dilation, kernel=3)


def test_a_row_holds_one_digit_at_its_distance():
    draw = random.Random(0)
    for back in range(25):
        text, digit = reach_lab.letters(draw, 25, back)
        row = text.split()
        assert len(row) == 25 and row[-1 - back] == digit
        assert [letter for letter in row if letter not in reach_lab.LETTERS] == [digit]


def test_what_a_convolution_cannot_see_it_guesses(tmp_path, monkeypatch):
    """One convolution that sees 5 of 33, one that sees 27, and attention that sees all."""
    names = ("conv, 2 layers", "conv, 3 layers, dilated")
    monkeypatch.setattr(reach_lab, "CONVS", {name: reach_lab.CONVS[name] for name in names})
    monkeypatch.setattr(reach_lab, "OTHERS", (reach_lab.LOOKS,))
    found = reach_lab.run(quick=True, seeds=1, out=tmp_path / "lab", quiet=True, settings=ALONE)
    told = found.numbers
    assert told["measured"] == told["reach"] == {
        "conv, 2 layers": 5, "conv, 3 layers, dilated": 27, reach_lab.LOOKS: 33}  # fmt: skip
    for name in reach_lab.CONVS:
        accuracy = [one["mean"] for one in told["accuracy"][name]]
        reach = told["reach"][name]
        assert statistics.mean(accuracy[:reach]) > 0.9
        assert abs(statistics.mean(accuracy[reach:]) - 0.5) < 0.1  # of at least 1,200 rows
    assert "0.50" in found.verdict


# reference --------------------------------------------------------------------------------------------------


def test_the_pronoun_agrees_with_its_noun_alone():
    """Looked up in the words themselves: "it" with the noun without its plural, "they" with the other one."""
    plurals = {reference.plural(noun): noun for noun in reference.HE + reference.SHE}
    for seed in range(300):
        it, they = (reference.sentence(random.Random(seed), one) for one in ("it", "they"))
        assert [a for a, b in zip(it.words, they.words, strict=True) if a != b] == ["it", "is"]
        for one in (it, they):
            noun = one.words[one.noun]
            number = "they" if noun in plurals else "it"
            gender = "il" if plurals.get(noun, noun) in reference.HE else "elle"
            assert one.words[reference.PRONOUN] == number
            assert one.french == gender + ("s" if number == "they" else "")
            assert (it.noun, it.other) == (they.other, they.noun) and {it.noun, it.other} == {1, 4}


def test_a_pronoun_looks_at_its_noun(tmp_path):
    """One seed; by chance it would in half of the sentences."""
    found = reference.run(quick=True, seeds=1, out=tmp_path / "lab", quiet=True, settings=ALONE)
    assert found.numbers["looks at its noun"]["mean"] > 0.6
    assert found.numbers["translated"]["mean"] > 0.9
    [it, they] = found.panels
    assert it.columns[reference.PRONOUN] == "it" and they.columns[reference.PRONOUN] == "they"
    assert [len(row) for row in it.values] == [9] * 9 and sum(it.values[6]) == pytest.approx(1, abs=1e-4)
