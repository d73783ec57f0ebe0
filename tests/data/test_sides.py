"""Pairs of texts: read from two files or a table, with the right line for every fault, and looked over before
training."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.answers.written import Items
from seqlab.data.batches import Plan
from seqlab.data.read import Bad, DataConfig, Row, Table
from seqlab.data.sides import apart
from seqlab.data.store import Ragged, Store, marked
from seqlab.errors import UserError
from seqlab.fields.source import SOURCE
from seqlab.fields.target import TARGET
from seqlab.tasks.classify import Classify
from seqlab.tasks.prepare import Files
from seqlab.tasks.translate import Translate

ROLES = (SOURCE, TARGET)


def write(path, text):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def joined(folder, source, target, names=("a.en", "a.fr")):
    return ",".join(
        str(write(folder / name, text)) for name, text in zip(names, (source, target), strict=True)
    )


def table(name, roles=ROLES, **told):
    return Table([str(name)], DataConfig(**told), roles)


def pairs(name, **told):
    return [(row.cells["source"], row.cells["target"]) for row in table(name, **told).rows()]


# Two files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("a.en", "a.fr"), ("a.en.gz", "a.fr.gz"), ("source", "target.csv")])
def test_lines_of_two_files_belong_together_whatever_their_names(tmp_path, names):
    name = joined(tmp_path, "one, two\r\nthree\n\nfour", "un\tdeux\ntrois\n\nquatre\n", names)

    rows = list(table(name))

    assert [row.cells["source"] for row in rows] == ["one, two", "three", "four"]
    assert [row.cells["target"] for row in rows] == ["un\tdeux", "trois", "quatre"]
    assert [row.place.line for row in rows] == [1, 2, 4]  # a line that is empty in both is none


@pytest.mark.parametrize(("more", "less"), [("a.en", "a.fr"), ("a.fr", "a.en")])
def test_unequal_numbers_of_lines_are_told_both(tmp_path, more, less):
    write(tmp_path / more, "a\nb\nc\nd\ne")
    write(tmp_path / less, "a\nb\n")
    name = f"{tmp_path / 'a.en'},{tmp_path / 'a.fr'}"

    with pytest.raises(UserError) as caught:
        list(table(name, on_bad="skip"))

    assert f"{more} has 5 lines" in caught.value.what and f"{less} has 2 lines" in caught.value.what


@pytest.mark.parametrize(
    ("source", "target", "place", "what"),
    [
        ("a\nb\nc\n", "x\n \nz\n", "a.fr:2", "the target is empty"),
        ("a\n\nc\n", "x\ny\nz\n", "a.en:2", "the source is empty"),
        ("a\nb\nc\n", "x\ny\n" + "z" * 99 + "\n", "a.fr:3", "more than 50 bytes"),
    ],
)
def test_a_fault_names_its_own_file_and_line(tmp_path, source, target, place, what):
    name = joined(tmp_path, source, target)

    [bad] = [row for row in table(name, longest_line=50) if isinstance(row, Bad)]

    assert str(bad.place).endswith(place) and what in bad.what
    assert len(list(table(name, longest_line=50, on_bad="skip").rows())) == 2
    with pytest.raises(UserError, match=place):
        list(table(name, longest_line=50).rows())


def test_a_byte_that_is_not_text_is_found_in_its_file(tmp_path):
    name = joined(tmp_path, "a\nb\n", b"x\ncaf\xe9\n")
    with pytest.raises(UserError, match=r"a\.fr:2: byte 4 of the line, 0xe9"):
        list(table(name))


def test_a_comma_joins_two_files_that_are_there(tmp_path):
    here = write(tmp_path / "a.en", "a\n")
    with pytest.raises(UserError, match=r"a\.fr: there is no such file"):
        table(f"{here},{tmp_path / 'a.fr'}")
    with pytest.raises(UserError, match="joins 3 names"):
        table(f"{here},{here},{here}")
    with pytest.raises(UserError, match=r"b,c: there is no such file"):
        table(tmp_path / "b,c")
    both = write(tmp_path / "x,y.tsv", "a\tb\n")  # a file whose name has a comma is one file
    assert pairs(both) == [("a", "b")]


def test_other_tasks_refuse_two_files(tmp_path):
    name = joined(tmp_path, "a\n", "x\n")
    with pytest.raises(UserError) as caught:
        list(table(name, roles=[role for field in Classify().fields(DataConfig()) for role in field.roles()]))
    assert "put a space between them" in caught.value.fix


# Tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "Go.\tVa !\nHi.\tSalut !\n", [("Go.", "Va !"), ("Hi.", "Salut !")]),
        (
            "a.tsv",
            "text\ttexte\nword\tmot\n",
            [("text", "texte"), ("word", "mot")],
        ),  # a usual name is a word, too
        ("a.tsv", "Go.\tVa !\tCC-BY\nHi.\tSalut !\tCC-BY\n", [("Go.", "Va !"), ("Hi.", "Salut !")]),
        ("a.csv", "1,one\n2,two\n3,three\n", [("1", "one"), ("2", "two"), ("3", "three")]),
        ("a.csv", "French,English\nVa,Go\n", [("Go", "Va")]),
        ("a.csv", "id,target,source\n7,Va,Go\n", [("Go", "Va")]),
        ("a.jsonl", '{"en": "Go", "fr": "Va"}\n', [("Go", "Va")]),
        ("a.jsonl", '{"fr": "Va", "nl": "Ga"}\n', [("Ga", "Va")]),  # one name known: the other is it
        ("a.jsonl", '{"x": "Go", "y": "Va", "z": "?"}\n', [("Go", "Va")]),  # none known: the first two
    ],
)
def test_columns_are_found_by_their_names_or_are_the_first_two(tmp_path, name, content, expected):
    assert pairs(write(tmp_path / name, content)) == expected


def test_columns_can_be_told(tmp_path):
    path = write(tmp_path / "a.tsv", "Va\tx\tGo\nSalut\tx\tHi\n")
    assert pairs(path, columns={"source": "3", "target": "1"}) == [("Go", "Va"), ("Hi", "Salut")]
    assert pairs(path, columns={"source": "3"}) == [("Go", "Va"), ("Hi", "Salut")]
    path = write(tmp_path / "a.csv", "source,target\nGo,Va\n")
    assert pairs(path, columns={"source": "target", "target": "source"}) == [("Va", "Go")]


@pytest.mark.parametrize("content", ["one un\ntwo deux\n", "source\none\ntwo\n"])
def test_one_column_is_not_enough(tmp_path, content):
    with pytest.raises(UserError) as caught:
        pairs(write(tmp_path / "a.tsv", content))
    assert "one column" in caught.value.what and "train.en,train.fr" in caught.value.fix


def test_lines_of_text_are_sources_alone(tmp_path):
    path = write(tmp_path / "a.txt", "Go.\nHi, you.\n")
    with pytest.raises(UserError) as caught:
        pairs(path)
    assert (
        "no target" in caught.value.what
        and ".tsv" in caught.value.fix
        and "train.en,train.fr" in caught.value.fix
    )
    assert [row.cells for row in table(path, (SOURCE,))] == [{"source": "Go."}, {"source": "Hi, you."}]
    only = write(tmp_path / "a.csv", "id,source\n1,Go.\n")
    assert [row.cells for row in table(only, (SOURCE,))] == [{"source": "Go."}]


def test_an_empty_cell_is_a_fault_of_its_line(tmp_path):
    path = write(tmp_path / "a.tsv", "Go\tVa\nHi\t\n\tSalut\n")
    faults = [row for row in table(path) if not isinstance(row, Row)]
    assert [(bad.place.line, bad.what) for bad in faults] == [
        (2, "the target is empty."),
        (3, "the source is empty."),
    ]


# The survey -------------------------------------------------------------------------------------------------

LONG = "a sentence that goes on for quite a while before it ends"


def surveyed(folder, length=512, **splits):
    paths = {}
    for split, rows in splits.items():
        paths[split] = (str(write(folder / f"{split}.tsv", "".join(f"{one}\t{two}\n" for one, two in rows))),)
    return Files(Translate(), DataConfig(**paths, length=length, header=False), keep_all_faults=True)


def said(found, severity):
    return [str(problem) for problem in found.problems if problem.severity == severity]


def far_apart(found):
    """Rows whose sides have lengths that hardly belong together."""
    source, target = (found.train.looks[side] for side in ("source", "target"))
    return set(apart(source.letters, target.letters).tolist())


def test_rows_and_lengths_of_both_sides_are_counted(tmp_path):
    found = surveyed(tmp_path, train=[("a b", "x"), ("c", "y y y"), ("d d d", "z")])
    source, target = (found.train.looks[side] for side in ("source", "target"))

    assert source.words.tolist() == [2, 1, 3] and target.words.tolist() == [1, 3, 1]
    assert source.letters.tolist() == [3, 1, 5] and target.letters.tolist() == [1, 5, 1]
    assert found.characters == 16 and found.size.rows == 3 and found.size.words == 2
    columns, headline, *sides = found.lines()[:4]
    assert columns == 'columns: source is column "1", target is column "2"'
    assert headline == f"train: 3 pairs in {tmp_path / 'train.tsv'}"
    assert sides[0].startswith("  source: half have up to 2, 95 % up to 3, the longest 3 words (line 3);")
    assert sides[1].startswith("  target: half have up to 1, 95 % up to 3, the longest 3 words (line 2);")
    assert sides[1].endswith("; half have up to 1, 95 % up to 5, the longest 5 characters")


def test_copies_repeats_and_several_targets_are_told(tmp_path):
    rows = [("a", "x"), ("b", "b"), ("c", "z"), ("a", "y"), ("c", "z"), ("d", " d "), ("e", "v"), ("f", "w")]
    found = surveyed(tmp_path, train=rows)

    [copies] = said(found, "warning")
    assert (
        "train.tsv:2: train: in 2 rows (25.0 %) the target is the source itself, as at" in copies
        and "train.tsv:6" in copies
    )
    repeats, several = said(found, "note")
    assert "in 1 row (12.5 %) an earlier pair comes again" in repeats and "for 1 of the sources" in several


def test_sides_whose_lengths_do_not_belong_together_are_told(tmp_path):
    rows = [(f"{LONG} {number}", f"{LONG} {number} !") for number in range(20)]
    found = surveyed(
        tmp_path, train=[*rows, ("short", LONG), (LONG * 2, "a few words"), ("yes", "of course, why not?")]
    )

    assert far_apart(found) == {20, 21}  # the last is short on both sides
    assert any("train.tsv:21" in warning and "far longer" in warning for warning in said(found, "warning"))


def test_lengths_that_never_belonged_together_are_no_warning(tmp_path):
    """Questions and answers: the spread of the ratios is wide, so a wide one is nothing special."""
    draw = np.random.default_rng(0)
    rows = [(f"{number} " + "w " * int(one), f"{number} " + "v " * int(two)) for number, (one, two) in
            enumerate(np.exp(draw.normal(3, 1, (200, 2))))]  # fmt: skip
    found = surveyed(tmp_path, train=rows)

    assert not far_apart(found) and not said(found, "warning")


def test_splits_that_share_sources_and_long_pairs_are_told(tmp_path):
    rows = [("a b c", "x"), ("d", "y y y y"), ("e", "z"), ("f", "z")]
    found = surveyed(tmp_path, length=3, train=rows, valid=[("e", "other"), ("g", "z")])

    assert any(
        "valid.tsv:1: 1 row of valid is also in train" in warning for warning in said(found, "warning")
    )
    assert any(
        "train.tsv:2: train: in 1 row (25.0 %) a side has more than 3 words" in note
        for note in said(found, "note")
    )


def test_faults_of_one_side_are_kept_with_their_lines(tmp_path):
    found = surveyed(tmp_path, train=[("a", "x"), ("", "y"), ("c", ""), ("d", "w")])

    assert [error.partition("train.tsv:")[2] for error in said(found, "error")] == [
        "2: the source is empty.",
        "3: the target is empty.",
    ]


def test_not_a_single_pair_is_an_error(tmp_path):
    found = surveyed(tmp_path, train=[("a", ""), ("", "b")])

    assert "train.tsv:1: train: not a single row can be used." in "\n".join(said(found, "error"))
    assert found.faulty and "3 errors" in found.lines()


def test_nothing_wrong_is_said_so(tmp_path):
    rows = [(f"source {number}", f"target {number}") for number in range(30)]
    assert surveyed(tmp_path, train=rows).lines()[-1] == "Nothing is wrong with it."


def test_of_two_files_no_columns_are_told(tmp_path):
    name = joined(tmp_path, "one\ntwo\nthree\n", "un\ndeux\ntrois\n")
    lines = Files(Translate(), DataConfig(train=(name,))).lines()

    assert lines[0].startswith("train: 3 pairs in ") and lines[1].startswith("  source: half have up to 1,")


# What becomes of them ---------------------------------------------------------------------------------------

NOTHING = Store({}, {})


@given(st.lists(st.lists(st.integers(7, 50), max_size=5), min_size=1, max_size=9))
def test_marks_stand_around_every_row(rows):
    found = marked(Ragged.of(rows, np.int64), (5,), (6,))
    assert [found.row(place) for place in range(len(rows))] == [[5, *row, 6] for row in rows]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80), st.integers(1, 500)
)
@settings(deadline=None)
def test_every_pair_comes_once_an_epoch_within_the_budget_on_both_sides(sizes, budget):
    written, read = np.array(sizes).T
    batches = Plan(written, budget, 0, beside=read).epoch(3)
    assert sorted(np.concatenate(batches)) == list(range(len(sizes)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(written[rows].max(), read[rows].max()) <= budget


def test_pairs_are_batched_by_both_lengths():
    """Lengths spread as they are in translations; batched by the longer side alone there is nearly twice the
    padding."""
    draw = np.random.default_rng(0)
    read = draw.integers(5, 40, 20_000)
    written = np.maximum(1, np.rint(read * np.exp(draw.normal(0.1, 0.15, len(read))))).astype(np.int64)

    def padding(batches):
        padded = sum(len(rows) * (read[rows].max() + written[rows].max()) for rows in batches)
        return 1 - (read + written).sum() / padded

    one_side = Plan(np.maximum(read, written), 1024, 0).epoch(0)
    assert padding(Plan(written, 1024, 0, beside=read).epoch(0)) < 0.06 < 0.09 < padding(one_side)


def test_equal_sources_are_one_item_with_several_references():
    pairs = [("a", "x"), ("b", "y"), ("a", "z"), ("a", "x")]
    items = Items.of(NOTHING, [(one, one) for one, _ in pairs], [[two] for _, two in pairs])
    assert (
        items.sources == ["a", "b"]
        and items.references == [["x", "z", "x"], ["y"]]
        and items.rows.tolist() == [0, 1]
    )
    assert items.some(1).sources == ["a"] and items.some(9).sources == ["a", "b"]
    many = Items.of(NOTHING, [(number, str(number)) for number in range(100)], [["x"]] * 100).some(3)
    assert many.sources == ["0", "50", "99"] and many.rows.tolist() == [0, 50, 99]
