"""A survey counts what is there and finds what is wrong, each with its place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqlab.data.builtin import sound_rows, stress_rows, write_sound_tables, write_stress_tables, write_words
from seqlab.data.read import DataConfig, Role, Table
from seqlab.data.survey import held_out, survey, text_hash
from seqlab.errors import UserError

ROLES = (Role("text", ("text",)), Role("text2", ("text2",), False), Role("label", ("label",)))


def tables(folder, roles=ROLES, columns="text,label", **contents):
    made = {}
    for split, rows in contents.items():
        path = folder / f"{split}.csv"
        path.write_text(columns + "\n" + rows, encoding="utf-8")
        made[split] = Table([str(path)], DataConfig(), roles)
    return made


def said(found, severity=None):
    return [str(problem) for problem in found.problems() if severity in (None, problem.severity)]


def test_rows_lengths_and_labels_are_counted(tmp_path):
    found = survey(tables(tmp_path, train="a b,10\nc d e f,9\ng,10\nh,10\n", valid="x y,9\n"))

    assert (found.train.rows, found.splits["valid"].rows) == (4, 1)
    assert found.labels == ["9", "10"]                         # numbers by size
    assert found.counts("train") == {"9": 1, "10": 3} and found.counts("valid") == {"9": 1, "10": 0}
    assert found.train.labels.tolist() == [1, 0, 1, 1]
    assert found.train.words.tolist() == [2, 4, 1, 1] and found.train.characters == 12
    assert (found.train.length(0.5), found.train.longest.line) == (1, 3)
    text = "\n".join(found.lines())
    assert "train: 4 rows" in text and "75.0 %  ██████████" in text and "train.csv:3" in text


def test_faults_are_kept_with_their_lines_or_end_the_reading(tmp_path):
    data = tables(tmp_path, train="a,1\n,2\nb,2\nc\n")

    found = survey(data, keep_all_faults=True)

    assert [bad.place.line for bad in found.train.walk.faults] == [3, 5] and found.train.walk.bad == 2 and found.train.rows == 2
    assert [problem.place.line for problem in found.problems() if problem.severity == "error"] == [3, 5]
    with pytest.raises(UserError, match=r"train\.csv:3: the text is empty"):
        survey(data)


def test_repeats_conflicts_and_leaks_are_found(tmp_path):
    found = survey(tables(tmp_path, train="a,x\nb,y\na,x\nc,x\nc,y\nd,y\n", valid="q,x\nd,y\n", test="q,x\n"))

    assert found.train.repeated == 2
    warnings = said(found, "warning")
    assert any("train.csv:5: train: 2 rows" in warning and "train.csv:6" in warning for warning in warnings)
    assert (found.shared("train", "valid"), found.shared("valid", "test"), found.shared("train", "test")) == (1, 1, 0)
    assert any("valid.csv:3: 1 row of valid is also in train" in warning for warning in warnings)
    assert any("test.csv:2: 1 row of test is also in valid" in warning for warning in warnings)


def test_labels_unseen_in_training_are_named_with_their_first_line(tmp_path):
    found = survey(tables(tmp_path, train="a,x\nb,y\n", valid="c,x\nd,z\ne,z\n"))

    (error,) = said(found, "error")
    assert 'valid.csv:3: the label "z" does not occur in the training data (valid: 2 rows)' in error
    assert found.unseen == ["z"] and found.splits["valid"].labels.tolist() == [0, 2, 2]


def test_one_class_only_is_an_error_and_twins_are_a_warning(tmp_path):
    assert "every row has the same label" in said(survey(tables(tmp_path, train="a,x\nb,x\n")), "error")[0]
    assert any("differ in capitals" in warning for warning in said(survey(tables(tmp_path, train="a,Pos\nb,pos\n"))))


def test_numbers_are_summed_up(tmp_path):
    roles = (*ROLES[:2], Role("label", ("label",), number=True))
    found = survey(tables(tmp_path, roles, train="a,1\nb,2\nc,x\nd,6\n"), target="number", keep_all_faults=True)

    assert found.train.numbers.tolist() == [1, 2, 6] and found.train.walk.faults[0].place.line == 4
    assert "from 1 to 6, half up to 2, mean 3" in "\n".join(found.lines())
    assert found.labels == []


def test_a_pair_is_the_same_when_both_texts_are(tmp_path):
    found = survey(tables(tmp_path, columns="text,text2,label", train="a,b,1\na,c,2\na,b,1\n"))

    assert found.train.repeated == 1 and found.train.pair
    assert text_hash("a", "b") != text_hash("ab", "") != text_hash("ab")


def test_clean_data_is_called_clean(tmp_path):
    rows = "".join(f"text {number},{number % 2}\n" for number in range(20))

    assert survey(tables(tmp_path, train=rows)).lines()[-1] == "Nothing is wrong with it."


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.randoms())
def test_the_same_texts_are_held_out_in_whatever_order(numbers, random):
    hashes = np.array([text_hash(str(number)) for number in numbers], np.uint64)
    order = list(range(len(numbers)))
    random.shuffle(order)

    mask, shuffled = held_out(hashes), held_out(hashes[order])

    assert (mask[order] == shuffled).all()
    assert not set(hashes[mask]) & set(hashes[~mask])          # equal texts on one side
    assert (~mask).any()


def test_a_tenth_is_held_out_at_most_two_thousand_and_no_label_is_lost():
    hashes = np.array([text_hash(str(number)) for number in range(1000)], np.uint64)
    labels = np.zeros(1000, np.int64)
    labels[hashes.argmin()] = 1                                # the only row of its label would be held out first

    assert held_out(hashes).sum() == 100
    assert held_out(hashes, most=20).sum() == 20
    assert held_out(hashes, labels=labels).sum() == 99 and not held_out(hashes, labels=labels)[hashes.argmin()]
    assert (held_out(hashes)[:900] >= held_out(hashes[:900])).mean() > 0.95    # more rows, nearly the same choice


def test_the_built_in_words_have_their_stress_and_fall_into_fixed_tables(tmp_path):
    rows = dict(stress_rows())
    assert (rows["banana"], rows["hello"], rows["cat"]) == ("010", "01", "1")

    paths = write_stress_tables(tmp_path / "one")
    again = write_stress_tables(tmp_path / "two")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]

    found = survey({path.stem: Table([str(path)], DataConfig(), ROLES) for path in paths})
    assert sum(split.rows for split in found.splits.values()) == len(rows)
    assert not found.shared("train", "valid") and not found.unseen and len(found.labels) == 20


def test_the_built_in_words_have_all_their_sounds_on_one_side_of_the_split(tmp_path):
    rows = sound_rows()
    assert ("read", "R EH D") in rows and ("read", "R IY D") in rows and len(rows) == len(set(rows)) > 120_000
    assert not any(character.isdigit() for _, sounds in rows for character in sounds)
    tables = [path.read_text().splitlines()[1:] for path in write_sound_tables(tmp_path)]
    words = [{line.split(",")[0] for line in table} for table in tables]
    assert sum(map(len, tables)) == len(rows) and not words[0] & words[1] and not words[0] & words[2] and not words[1] & words[2]
    assert 0.92 < len(tables[0]) / len(rows) < 0.94 and 0.04 < len(tables[2]) / len(rows) < 0.06


def test_the_built_in_words_stand_one_a_line(tmp_path):
    words = write_words(tmp_path).read_text().splitlines()
    assert len(words) == len(set(words)) > 110_000 and all(word.isalpha() and len(word) > 2 for word in words)
