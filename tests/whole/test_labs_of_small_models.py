"""Labs that build their models themselves: what they make is what they say, every number is measured, and
verdicts tell the truth."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from seqlab.errors import Stopped
from seqlab.labs import bottleneck, collapse, decoding, every, formal, loops, masking, shapes
from seqlab.labs.frame import Finding, Work, lab
from seqlab.labs.lab import ResultTable, Spread
from seqlab.labs.languages import DEPTH, draw
from seqlab.labs.loops import fit, measured, told_sure
from seqlab.labs.pairs import epochs_of, repetition
from seqlab.labs.picture import Line, Panel
from seqlab.labs.walks import LENGTHS, STEPS, walks
from seqlab.training.progress import Progress

# What is made -----------------------------------------------------------------------------------------------


def test_parity_and_evenness_are_as_counted():
    """Against str.count and the regular expression itself."""
    strings = draw("parity", 20, 12, seed=1)
    for ids, labels in zip(strings.ids.tolist(), strings.labels.tolist(), strict=True):
        text = "".join(str(one - 1) for one in ids)
        assert labels == [text[: place + 1].count("1") % 2 for place in range(12)]
    [ids], [labels] = (one.tolist() for one in (lambda s: (s.ids, s.labels))(draw("(aa)*", 1, 9, seed=1)))
    assert ids == [1] * 9
    assert labels == [int(re.fullmatch("(aa)*", "a" * length) is None) for length in range(1, 10)]


@pytest.mark.parametrize(("language", "signs"), [("Dyck-1", "?()"), ("Dyck-2", "?()[]")])
def test_brackets_nest_and_what_may_close_is_on_the_stack(language, signs):
    """Independently: strike out neighbours () and [] until none are left; what remains is what is open."""
    strings = draw(language, 60, 80, seed=2)
    deepest = 0
    for ids, labels, depths in zip(strings.ids, strings.labels, strings.depths, strict=True):
        text = "".join(signs[one] for one in ids)
        for place in range(1, len(text) + 1):
            left, before = text[:place], None
            while left != before:
                before, left = left, left.replace("()", "").replace("[]", "")
            assert not set(left) & set(")]")
            assert labels[place - 1] == ("([".index(left[-1]) + 1 if left else 0)
            assert depths[place - 1] == (len(left) if text[place - 1] in ")]" else 0)
            deepest = max(deepest, len(left))
    assert 5 < deepest <= DEPTH


def test_a_walk_is_its_vector_and_its_vector_is_the_walk():
    """Step by step, and all walks have vectors of their own."""
    for walk in walks()[:200]:
        at, rounds, numbers, passed, landings = walk.begin, 0, [walk.begin], [0], []
        for place in range(walk.length - 1):
            at += walk.steps[place % 2]
            if at > 9:
                at, rounds = at - 10, rounds + 1
                landings.append(at)
            numbers.append(at)
            passed.append(rounds % 3)
        assert (walk.numbers, walk.passed, walk.landings) == (numbers, passed, landings)
        assert sum(walk.vector) == 4 and walk.vector[walk.begin] == 1
    assert (
        len({tuple(walk.vector) for walk in walks()}) == len(walks()) == 10 * len(STEPS) ** 2 * len(LENGTHS)
    )


def test_made_sentences_turn_syllables_and_swap_neighbours():
    pairs = bottleneck.made_pairs(300, 9, seed=3)
    assert len({source for source, _ in pairs}) == len(pairs) > 250
    for source, target in pairs:
        back = [word[::-1] for word in target.split()]
        for place in range(0, len(back) - 1, 2):
            back[place : place + 2] = back[place : place + 2][::-1]
        assert back == source.split()


def test_a_possible_word_has_letters_and_only_runs_that_are_known():
    known = masking.triples_of("banana") | masking.triples_of("bat")
    assert masking.triples_of("bat") == {"^ba", "bat", "at$"}
    words = {"banana": True, "bana": True, "banat": False, "bananana": True, "": False}
    assert {word: masking.is_possible(word, known) for word in words} == words


def test_repetition_counts_words_that_are_the_word_before_them():
    assert repetition([[7, 7, 7], [1, 2, 1]]) == pytest.approx(2 / 6)
    assert repetition([]) == repetition([[]]) == 0
    steps = epochs_of(3, 10, 4, seed=0)
    assert len(steps) == 9 and all(
        sorted(np.concatenate(steps[at : at + 3])) == list(range(10)) for at in (0, 3, 6)
    )


def test_cut_pairs_are_as_many_as_asked_for_and_quality_is_counted_by_word():
    pairs = decoding.made(4000, seed=4, cut=0.25)
    short = [len(target) < len(source) for source, target in zip(pairs.sources, pairs.targets, strict=True)]
    assert 0.22 < np.mean(short) < 0.28  # 4,000 draws: four standard deviations are 0.027
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        assert [word // decoding.MEANINGS for word in target] == list(source[: len(target)])
    assert decoding.quality((0, 3, 8), (0, 1, 1)) == (2, 3)  # words 0 and 1, then a translation of word 2
    assert decoding.quality((), (0, 1)) == (0, 2) and decoding.quality((0, 0, 0), (0,)) == (1, 3)


def test_small_sentences_say_the_same_in_both_languages():
    texts = dict(collapse.made_texts(200, seed=1))
    assert texts["I am a student"] == "je suis étudiant" and len(texts) == 200
    people = {one: two for one, two, _ in collapse.PEOPLE}
    for source, target in texts.items():
        for clause, said in zip(source.split(" and "), target.split(" et "), strict=True):
            who = " ".join(clause.split()[:2])
            thing = " ".join(clause.split()[2:])
            assert said == f"{people[who]} {collapse.THINGS[thing]}"


# Every lab, cut down ----------------------------------------------------------------------------------------

SMALL = {
    formal: {
        "STEPS": (2, 2),
        "POOL": 64,
        "TESTED": 30,
        "DEEPEST": 2,
        "LANGUAGES": {"parity": (2, 2), "Dyck-2": (4, 3)},
    },
    masking: {"STEPS": (2, 2), "HELD_OUT": 10, "WRITTEN": 4},
    collapse: {"EPOCHS": (2, 2), "PAIRS": 30, "TESTED": 4, "AT_ONCE": 15},
    decoding: {"STEPS": (2, 2), "ROWS": 40, "TESTED": 4},
    shapes: {"STEPS": (2, 2), "TESTED": 8},
    bottleneck: {"STEPS": (2, 2), "PAIRS": (300, 300), "LONGEST": 3},
}
"""Sizes that show nothing but that every number is measured and told."""


@pytest.fixture
def words(tmp_path):
    """Different words of two to nine letters."""
    random = np.random.default_rng(0)
    some = ["".join(random.choice(list("abcdef"), random.integers(2, 10))) for _ in range(300)]
    path = tmp_path / "words.txt"
    path.write_text("\n".join(some))
    return str(path)


@pytest.mark.parametrize("module", SMALL, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_lab_ends_in_a_table_a_picture_and_a_verdict(module, tmp_path, monkeypatch, words):
    for name, value in SMALL[module].items():
        monkeypatch.setattr(module, name, value)
    data = {"data": words} if module is masking else {}
    outcome = module.run(quick=True, seeds=2, out=tmp_path / "lab", quiet=True, **data)
    told = json.loads((outcome.folder / "table.json").read_text())

    assert told["verdict"] == outcome.verdict and outcome.verdict
    assert "nan" not in outcome.verdict and "nan" not in str(outcome.tables[0])
    for table in outcome.tables:
        assert table.rows and all(len(row) == len(table.header) for row in table.rows)
    assert (outcome.folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64" in (outcome.folder / "index.html").read_text()
    assert f"Next: seqlab lab {outcome.name}" in str(outcome)


# What all of them share -------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path, quick=True, seeds=1, data=(), settings={}, progress=Progress(quiet=True))


def test_a_measurement_is_made_once_and_is_the_same_in_a_process_of_its_own(work, monkeypatch):
    """Side by side with another one, and again from its file."""
    case = {"seed": 3, "steps": 2}
    monkeypatch.setattr(loops.torch, "get_num_threads", lambda: 2)
    beside = measured(work, "decoding", {"a (3)": case, "b": {"seed": 4, "steps": 2}})
    monkeypatch.undo()
    monkeypatch.setattr(decoding, "measure", None)
    again = measured(work, "decoding", {"a (3)": case})
    monkeypatch.undo()
    here = measured(replace(work, folder=work.folder / "here"), "decoding", {"a": case})

    assert (work.folder / "trials" / "a-3.json").exists()
    assert beside["a (3)"] == again["a (3)"] == here["a"] != beside["b"]


@pytest.mark.parametrize(("name", "content", "told"), [
    ("masking", "only three words\n", "there are only 3 different words"),
    ("collapse", "source,target\none,un\n", "there are only 1 different pairs"),
    ("bottleneck", "source,target\none,un\n", "there are only 1 different pairs"),
])  # fmt: skip
def test_too_little_data_is_told_before_anything_is_trained(name, content, told, tmp_path, seqlab):
    path = tmp_path / ("some.csv" if "," in content else "some.txt")
    path.write_text(content)
    code, _, err = seqlab("lab", name, "--quick", "--data", path, "--out", tmp_path / "lab")
    assert code == 2 and told in err and str(path) in err and not (tmp_path / "lab").exists()
    code, _, err = seqlab("lab", name, "--quick", "--data", tmp_path / "none.csv", "--out", tmp_path / "lab")
    assert code == 2 and "none.csv" in err and not (tmp_path / "lab").exists()


def test_settings_of_runs_are_refused_where_a_lab_builds_its_models(work, tmp_path, seqlab):
    code, _, err = seqlab("lab", "shapes", "--quick", "--out", tmp_path / "lab", "training.steps=3")
    assert code == 2 and "The lab shapes has no training.steps" in err and not (tmp_path / "lab").exists()


def test_a_stopped_fit_says_so(monkeypatch):
    """Ctrl-C in the middle of the steps; what was measured before is in files."""
    layer = torch.nn.Linear(1, 1)

    def loss_of(step):
        if step == 2:
            signal.raise_signal(signal.SIGINT)
        return layer(torch.ones(1, 1)).sum().square()

    with pytest.raises(Stopped) as stop:
        fit(layer, 10, loss_of, rate=0.1)
    assert stop.value.exit_code == 130


def test_the_loop_finds_the_least_squares():
    """y = 2x + 1 is solved exactly."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(1, 1), torch.linspace(-1, 1, 9).unsqueeze(1)
    losses = fit(layer, 300, lambda _: (layer(x) - 2 * x - 1).square().mean(), rate=0.1)
    assert losses[-1] < 1e-4 < losses[0]
    assert layer.weight.item() == pytest.approx(2, abs=0.02)
    assert layer.bias.item() == pytest.approx(1, abs=0.02)
    assert not layer.training


# Verdicts ---------------------------------------------------------------------------------------------------


def several(*values):
    return Spread(values)


def test_the_verdict_on_masking_follows_the_numbers():
    good, low = several(0.8, 0.81, 0.82), several(0.1, 0.12, 0.11)
    high, none = several(2.0, 2.1, 2.05), several(0.0, 0.01, 0.0)
    mask = {"as_trained": high, "as_written": high, "possible": good}
    broken = {"as_trained": low, "as_written": several(9.0, 9.5, 9.2), "possible": none}

    told = masking.verdict({masking.MASKED: mask, masking.OPEN: broken})
    assert told.startswith("Without the mask the loss falls lower and writing fails")
    assert "0.110 nats a letter without the mask, 2.050 with it" in told and "0% are possible" in told
    same = masking.verdict({masking.MASKED: mask, masking.OPEN: mask})
    assert same.startswith("Taking the mask away changes neither") and "can't tell that from chance" in same


def test_the_verdict_on_the_collapse_names_what_does_it():
    def runs(*rates):
        return [{"greedy": rate, "beam 5": rate, "sampling": 0.1, "losses": [4.0, 2.0]} for rate in rates]

    rates = {arm: runs(0.0, 0.01) for arm in collapse.ARMS}
    told = collapse.verdict(rates | {"crippled": runs(0.8, 0.9), "deep, post-norm": runs(0.7, 0.0)})
    assert "85.0% of its words" in told and "it collapses, the sound one does not" in told
    assert "deep, post-norm collapses in 1 of 2 initialisations" in told
    assert "Crippled: the loss falls all the same, 4.00 to 2.00" in told

    none = collapse.verdict(rates)
    assert "this is no clear collapse" in none and "none of the causes makes it collapse" in none


def test_the_verdict_on_languages_follows_the_numbers():
    def runs(far, depths):
        return [
            {"by_length": [1.0] * 7 + [one], "chance": 0.5, "by_depth": dict(zip("12345", deep, strict=True))}
            for one, deep in zip(far, depths, strict=True)
        ]

    falling, flat = [[0.9, 0.8, 0.7, 0.6, 0.5], [0.91, 0.8, 0.7, 0.6, 0.52]], [[0.9] * 5, [0.91] * 5]
    found = {("Dyck-2", arm): runs((0.5, 0.51), flat) for arm in formal.ARMS}
    found["Dyck-2", "LSTM"] = runs((1.0, 1.0), flat)
    told = formal.of_length(found, "Dyck-2")
    assert (
        "Dyck-2 at length 80: LSTM 1.000, RNN 0.505, the best Transformer" in told
        and "near chance (0.500)" in told
    )
    assert "does not surely fall with depth" in formal.of_depth(found)
    found["Dyck-2", "1 layer, 1 head"] = runs((0.5, 0.51), falling)
    deep = formal.of_depth(found)
    assert "accuracy falls with depth, 0.905 with 1 bracket open, 0.510 with 5" in deep
    assert "more layers and heads raise it, to 0.905" in deep


def test_the_verdict_on_the_bottleneck_compares_what_is_lost():
    spreads = {
        "attention": [several(99.0, 98.0, 99.0), several(97.0, 96.0, 97.5)],
        "no attention": [several(98.0, 97.0, 98.5), several(41.0, 39.0, 40.0)],
    }
    told = bottleneck.verdict(spreads, ["1-2", "11-12"], "words right, of 100")
    assert "Without attention more is lost as sentences grow" in told and "a fall of 57.8" in told
    level = bottleneck.verdict(dict.fromkeys(spreads, spreads["attention"]), ["1", "2"], "chrF")
    assert "is not certain" in level


def test_the_verdict_on_decoding_knows_the_curse():
    def way(quality, logp, length=1.0):
        some = {decoding.QUALITY: quality, decoding.LOGP: logp, decoding.LENGTH: length}
        return {key: several(value, value + 0.01, value + 0.02) for key, value in some.items()} | {
            decoding.REPEATED: several(0.05, 0.05, 0.05)
        }

    spreads = {name: way(0.95, -5.0) for name in decoding.WAYS}
    cursed = decoding.verdict(spreads | {"beam 50, no norm": way(0.5, -3.0, 0.4)})
    assert "a beam of 50 is worse than greedy: quality 0.510 against 0.960" in cursed
    assert "2.00 higher: the curse of wide beams" in cursed
    assert "is not surely worse than greedy" in decoding.verdict(spreads)


def test_the_verdict_on_shapes_counts_them():
    right = {(shape, body): several(0.9, 0.92) for shape in shapes.SHAPES for body in shapes.BODIES}
    blind = dict.fromkeys(shapes.SHAPES, 0.1)
    assert shapes.verdict(right, blind).count("all four shapes") == 2
    some = right | {("aligned", "LSTM"): several(0.2, 0.2)}
    assert "LSTM: one body answers vec2seq, seq2vec, unaligned" in shapes.verdict(some, blind)


def test_a_difference_is_told_with_its_interval():
    """t for 2 degrees of freedom is 4.303: 0.11 ± 4.303 · 0.01 / √3."""
    assert told_sure(several(0.10, 0.11, 0.12)) == "95 % interval of the difference +0.085 to +0.135"
    assert "can't tell that from chance" in told_sure(several(-0.1, 0.2, 0.3))
    assert told_sure(several(0.5)).startswith("one seed")


# All of them ------------------------------------------------------------------------------------------------


@pytest.fixture
def two_labs(monkeypatch):
    """A lab that works and one that fails until it is mended; how often each was begun."""
    begun = {"first": 0, "second": 0}
    broken = [True]

    def begin(name, given):
        begun[name] += 1
        if name == "second" and broken[0]:
            raise ValueError("a <defect>")
        return lab(name, lambda work: found(name))(**given)

    def found(name):
        panel = Panel("p", "x", "y", (Line("one", [1, 2], [0.5, 0.7]),))
        return Finding("A & B", f"{name} <shows> it", (ResultTable("t", ("a",), (("1",),)),), (panel,), {})

    monkeypatch.setattr(every, "LABS", {"first": "Is it so?", "second": "And this?"})
    monkeypatch.setattr(every, "begin", begin)
    return begun, broken


def test_all_labs_go_to_one_page_and_one_that_fails_stops_no_other(two_labs, tmp_path, monkeypatch, seqlab):
    begun, broken = two_labs
    monkeypatch.chdir(tmp_path)
    code, out, err = seqlab("lab", "--all", "--quick")
    page = (tmp_path / "runs" / "labs" / "index.html").read_text()

    assert code == 1 and "1 of 2 labs failed: second" in err and "ValueError: a <defect>" in err
    assert "first <shows> it" in out and "Next: open runs/labs/index.html" in out
    assert "first &lt;shows&gt; it" in page and 'href="first-quick/index.html"' in page
    assert 'src="first-quick/picture.png"' in page and "It failed.</b> ValueError: a &lt;defect&gt;" in page
    assert (tmp_path / "runs" / "labs" / "first-quick" / "picture.png").exists()

    broken.clear()
    broken.append(False)
    code, out, err = seqlab("lab", "--all", "--quick")
    assert code == 0, err
    assert begun == {"first": 1, "second": 2}  # what is finished is kept
    assert "second &lt;shows&gt; it" in (tmp_path / "runs" / "labs" / "index.html").read_text()
    seqlab("lab", "--all")  # the whole ones have folders of their own
    assert begun["first"] == 2 and (tmp_path / "runs" / "labs" / "first").exists()


def test_all_labs_stop_together_and_take_nothing_of_one_alone(two_labs, tmp_path, monkeypatch, seqlab):
    begun, _ = two_labs
    assert seqlab("lab", "--all", "--data", "x.csv")[0] == 2
    code, _, err = seqlab("lab", "--all", "first", "--epochs", 2)
    assert code == 2 and "--all stands beside first, --epochs" in err and begun["first"] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    code, _, err = seqlab("lab", "--all", "--out", tmp_path / "mine")
    assert code == 2 and "never overwritten" in err

    def stopped(name, given):
        raise Stopped(2, "Stopped.", fix="")

    monkeypatch.setattr(every, "begin", stopped)
    code, _, err = seqlab("lab", "--all", "--quick", "--out", tmp_path / "labs")
    assert code == 130 and "The same command goes on" in err
