"""A survey counts what is there and finds what is wrong, each with its place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqlab.data.builtin import sound_rows, stress_rows, write_sound_tables, write_stress_tables, write_words
from seqlab.data.read import DataConfig
from seqlab.data.survey import held_out, text_hash
from seqlab.errors import UserError
from seqlab.tasks.classify import Classify
from seqlab.tasks.prepare import Files


def files(folder, *, columns="text,label", keep_all=False, target="label", **contents):
    paths = {}
    for split, rows in contents.items():
        path = folder / f"{split}.csv"
        path.write_text(columns + "\n" + rows, encoding="utf-8")
        paths[split] = (str(path),)
    return Files(Classify(target=target), DataConfig(**paths), keep_all)


def said(found, severity=None):
    return [str(problem) for problem in found.problems if severity in (None, problem.severity)]


def shared(found, one, two):
    """How many rows of a data set are told to be in another one, too."""
    leaks = [problem.what for problem in found.problems if f"also in {one}:" in problem.what]
    told = [what for what in leaks if f"of {two} " in what]
    assert len(told) < 2
    return int(told[0].split()[0].replace(",", "")) if told else 0


def learnt(found):
    """The labels that are known once the training rows were seen, each with its rows."""
    _, label = found.fields
    label.settle(found.splits, found.parts["train"])
    return dict(zip(label.facts.labels, label.facts.label_counts, strict=True))


def test_rows_lengths_and_labels_are_counted(tmp_path):
    found = files(tmp_path, train="a b,10\nc d e f,9\ng,10\nh,10\n", valid="x y,9\n")

    assert (found.train.rows, found.splits["valid"].rows) == (4, 1)
    assert learnt(found) == {"9": 1, "10": 3} and list(learnt(found)) == ["9", "10"]  # numbers by size
    text, _ = found.fields
    assert found.train.looks["text"].words.tolist() == [2, 4, 1, 1] and text.words(found.train) == 2
    assert found.characters == 12 and (found.size.rows, found.size.words, found.size.characters) == (4, 2, 12)
    lines = found.lines()
    assert lines[0] == 'columns: text is column "text", label is column "label"'
    assert f"train: 4 rows in {tmp_path / 'train.csv'}" in lines
    assert f"valid: 1 rows in {tmp_path / 'valid.csv'}" in lines
    words = "half of the texts have up to 1, 95 % up to 4; the longest has 4"
    assert f"  words: {words} ({tmp_path / 'train.csv'}:3)" in lines
    counts = [line.split() for line in lines if "%  █" in line]
    assert [(label, count, share) for label, count, share, *_ in counts] == [
        ("9", "1", "25.0"),
        ("10", "3", "75.0"),
        ("9", "1", "100.0"),
    ]


def test_labels_that_look_like_codes_are_ordered_as_they_are_written(tmp_path):
    rows = "a,100\nb,20\nc,3\n"

    assert list(learnt(files(tmp_path, train=rows, valid="x,3\n"))) == ["3", "20", "100"]
    assert list(learnt(files(tmp_path, train=rows + "d,007\n", valid="x,3\n"))) == ["007", "100", "20", "3"]


def test_faults_are_kept_with_their_lines_or_end_the_reading(tmp_path):
    rows = "a,1\n,2\nb,2\nc\n"

    found = files(tmp_path, train=rows, keep_all=True)

    walk = found.train.walk
    assert [bad.place.line for bad in walk.faults] == [3, 5] and walk.bad == 2 and found.train.rows == 2
    assert [problem.place.line for problem in found.problems if problem.severity == "error"] == [3, 5]
    with pytest.raises(UserError, match=r"train\.csv:3: the text is empty"):
        files(tmp_path, train=rows)


def test_the_rows_that_were_looked_at_are_the_good_ones_and_no_file_is_read_again(tmp_path):
    rows = "".join(f"text {number},{number % 2}\n" for number in range(20))
    found = files(tmp_path, train=rows + ",1\n", test="z,0\n", keep_all=True)
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").unlink()

    train, valid = ([cells["text"] for cells in found.rows(split)] for split in ("train", "valid"))

    assert sorted([*train, *valid]) == sorted(f"text {number}" for number in range(20)) and len(valid) == 2
    assert np.flatnonzero(found.parts["valid"]).tolist() == [int(text.split()[1]) for text in valid]
    assert list(found.rows("test")) == [{"text": "z", "label": "0"}]


def test_repeats_conflicts_and_leaks_are_found(tmp_path):
    found = files(tmp_path, train="a,x\nb,y\na,x\nc,x\nc,y\nd,y\n", valid="q,x\nd,y\n", test="q,x\n")

    assert found.train.repeated == 2
    assert any("train: 2 rows (33.3 %) repeat an earlier text" in note for note in said(found, "note"))
    warnings = said(found, "warning")
    assert any("train.csv:5: train: 2 rows" in warning and "train.csv:6" in warning for warning in warnings)
    pairs = [("train", "valid"), ("valid", "test"), ("train", "test")]
    assert [shared(found, one, two) for one, two in pairs] == [1, 1, 0]
    assert any("valid.csv:3: 1 row of valid is also in train" in warning for warning in warnings)
    assert any("test.csv:2: 1 row of test is also in valid" in warning for warning in warnings)


def test_labels_unseen_in_training_are_named_with_their_first_line(tmp_path):
    found = files(tmp_path, train="a,x\nb,y\n", valid="c,x\nd,z\ne,z\n")

    (error,) = said(found, "error")
    assert 'valid.csv:3: the label "z" does not occur in the training data (valid: 2 rows)' in error
    assert list(learnt(found)) == ["x", "y"]


def test_one_class_only_is_an_error_and_twins_are_a_warning(tmp_path):
    assert "every row has the same label" in said(files(tmp_path, train="a,x\nb,x\n"), "error")[0]
    assert any("differ in capitals" in warning for warning in said(files(tmp_path, train="a,Pos\nb,pos\n")))


def test_rare_labels_and_labels_of_their_own_are_warnings(tmp_path):
    many = "".join(f"a {number},x\nb {number},y\n" for number in range(9))
    (rare,) = said(files(tmp_path, train=many + "c,z\n", valid="d,x\n"), "warning")
    assert '1 labels have fewer than 5 training rows: "z" (1).' in rare
    own = "".join(f"a {number},{number}\n" for number in range(60))
    (each,) = said(files(tmp_path, train=own, valid="d,3\n"), "warning")
    assert "nearly every row has a label of its own: 60 labels in 60 rows." in each


def test_numbers_are_summed_up(tmp_path):
    found = files(tmp_path, train="a,1\nb,2\nc,x\nd,6\n", target="number", keep_all=True)

    assert found.train.looks["number"].numbers.tolist() == [1, 2, 6]
    assert found.train.walk.faults[0].place.line == 4
    assert "from 1 to 6, half up to 2, mean 3" in "\n".join(found.lines())
    assert found.strata is None and not any("label" in line for line in said(found, "warning"))


def test_a_pair_is_the_same_when_both_texts_are(tmp_path):
    found = files(tmp_path, columns="text,text2,label", train="a,b,1\na,c,2\na,b,1\n")

    assert found.train.repeated == 1 and found.lead.pair
    assert found.lines()[1].startswith("train: 3 pairs of texts in ")
    assert text_hash("a", "b") != text_hash("ab", "") != text_hash("ab")


def test_long_texts_are_told_with_the_longest_one(tmp_path):
    found = files(tmp_path, train="a,1\n" + "b " * 600 + ",2\nc,1\n", valid="d,1\n")

    (note,) = said(found, "note")
    assert note.endswith("train.csv:3: train: 1 texts (33.3 %) are longer than 512 words and will be cut.")


def test_clean_data_is_called_clean(tmp_path):
    rows = "".join(f"text {number},{number % 2}\n" for number in range(20))

    assert files(tmp_path, train=rows).lines()[-1] == "Nothing is wrong with it."


def test_several_errors_are_refused_together(tmp_path):
    found = files(tmp_path, train="a,x\nb,x\nc,x\n", valid="d,z\n")

    with pytest.raises(UserError, match="2 things in the data are wrong") as caught:
        found.refuse_faults()
    assert "every row has the same label" in caught.value.why
    assert 'the label "z" does not occur' in caught.value.why
    assert found.faulty


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.randoms())
def test_the_same_texts_are_held_out_in_whatever_order(numbers, random):
    hashes = np.array([text_hash(str(number)) for number in numbers], np.uint64)
    order = list(range(len(numbers)))
    random.shuffle(order)

    mask, shuffled = held_out(hashes), held_out(hashes[order])

    assert (mask[order] == shuffled).all()
    assert not set(hashes[mask]) & set(hashes[~mask])  # equal texts on one side
    assert (~mask).any()


def test_a_tenth_is_held_out_at_most_two_thousand_and_no_label_is_lost():
    hashes = np.array([text_hash(str(number)) for number in range(1000)], np.uint64)
    labels = np.zeros(1000, np.int64)
    labels[hashes.argmin()] = 1  # the only row of its label would be held out first

    assert held_out(hashes).sum() == 100
    assert held_out(hashes, most=20).sum() == 20
    assert (
        held_out(hashes, labels=labels).sum() == 99 and not held_out(hashes, labels=labels)[hashes.argmin()]
    )
    assert (
        held_out(hashes)[:900] >= held_out(hashes[:900])
    ).mean() > 0.95  # more rows, nearly the same choice


def test_the_built_in_words_have_their_stress_and_fall_into_fixed_tables(tmp_path):
    rows = dict(stress_rows())
    assert (rows["banana"], rows["hello"], rows["cat"]) == ("010", "01", "1")

    paths = write_stress_tables(tmp_path / "one")
    again = write_stress_tables(tmp_path / "two")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]

    found = Files(Classify(), DataConfig(**{path.stem: (str(path),) for path in paths}))
    assert sum(split.rows for split in found.splits.values()) == len(rows)
    assert not shared(found, "train", "valid") and not found.faulty and len(learnt(found)) == 20


def test_the_built_in_words_have_all_their_sounds_on_one_side_of_the_split(tmp_path):
    rows = sound_rows()
    assert ("read", "R EH D") in rows and ("read", "R IY D") in rows and len(rows) == len(set(rows)) > 120_000
    assert not any(character.isdigit() for _, sounds in rows for character in sounds)
    tables = [path.read_text().splitlines()[1:] for path in write_sound_tables(tmp_path)]
    words = [{line.split(",")[0] for line in table} for table in tables]
    assert (
        sum(map(len, tables)) == len(rows)
        and not words[0] & words[1]
        and not words[0] & words[2]
        and not words[1] & words[2]
    )
    assert 0.92 < len(tables[0]) / len(rows) < 0.94 and 0.04 < len(tables[2]) / len(rows) < 0.06


def test_the_built_in_words_stand_one_a_line(tmp_path):
    words = write_words(tmp_path).read_text().splitlines()
    assert len(words) == len(set(words)) > 110_000 and all(word.isalpha() and len(word) > 2 for word in words)
