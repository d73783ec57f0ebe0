"""Files become rows with exact line numbers, and every fault is told with its place and a way out."""

import csv
import gzip
import io
import json
import sys
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqlab.data import files
from seqlab.data.read import Bad, DataConfig, Role, Row, Table
from seqlab.errors import UserError

TEXT, LABEL = Role("text", ("text", "review")), Role("label", ("label", "class"))
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def table(path, *, roles=(TEXT, LABEL), **config):
    return Table([str(path)], DataConfig(**config), roles)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def error_of(make):
    with pytest.raises(UserError) as caught:
        make()
    assert caught.value.fix, "every fault comes with a way out"
    return str(caught.value)


# What is read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'label,text\npos,"good, really"\nneg,bad\n'),
        ("a.tsv", "label\ttext\r\npos\tgood, really\r\nneg\tbad"),
        ("a.jsonl", '{"text": "good, really", "label": "pos"}\n\n{"label": "neg", "text": "bad"}\n'),
        ("a.csv", '\ufefflabel,text\npos,"good, really"\nneg,bad\n'),
        (
            "a.csv",
            gzip.compress(b'label,text\npos,"good, really"\nneg,bad\n', mtime=0),
        ),  # packed, though not by its name
        ("a.csv.gz", b'label,text\npos,"good, really"\nneg,bad\n'),  # not packed, though its name says so
    ],
)
def test_every_format_gives_the_same_rows(tmp_path, name, content):
    rows = list(table(write(tmp_path, name, content)).rows())

    assert [row.cells for row in rows] == [
        {"text": "good, really", "label": "pos"},
        {"text": "bad", "label": "neg"},
    ]


def test_parquet_gives_the_same_rows(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = {"text": ["good", None], "label": [1, 0], "sure": [True, False]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")

    good, bad = table(tmp_path / "a.parquet")

    assert good.record == {"text": "good", "label": "1", "sure": "true"} and good.place.line == 1
    assert isinstance(bad, Bad) and bad.place.line == 2


def test_dates_and_times_of_parquet_are_written_plainly(tmp_path):
    import pyarrow
    import pyarrow.parquet

    when = datetime(2024, 3, 1, 12, 30)
    columns = {"text": [when.date()], "label": [when]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    [row] = table(tmp_path / "a.parquet")
    assert dict(row.cells) == {"text": "2024-03-01", "label": "2024-03-01 12:30:00"}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert 'pip install "seqlab[parquet]"' in error_of(
        lambda: list(table(write(tmp_path, "a.parquet", b"PAR1")))
    )


def test_lines_of_text_are_rows(tmp_path):
    first, empty = table(write(tmp_path, "a.txt", "one, two\n\n"), roles=(TEXT,))

    assert first.cells == {"text": "one, two"}
    assert isinstance(empty, Bad) and empty.place.line == 2


def test_lines_of_text_have_no_labels(tmp_path):
    assert "one text a line" in error_of(lambda: list(table(write(tmp_path, "a.txt", "one\n"))))


def test_several_files_and_patterns_are_one_data_set_and_each_has_its_own_columns(tmp_path):
    write(tmp_path, "part-1.csv", "label,text\n1,a\n")
    write(tmp_path, "part-2.csv", "id,text,label\n7,b,0\n")
    write(tmp_path, "more.jsonl", '{"text": "c", "label": 1}\n')

    rows = Table(
        [str(tmp_path / "part-*.csv"), str(tmp_path / "more.jsonl")], DataConfig(), (TEXT, LABEL)
    ).rows()

    assert [(row.cells["text"], row.cells["label"]) for row in rows] == [("a", "1"), ("b", "0"), ("c", "1")]


def test_standard_input_can_be_read_twice(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text\tlabel\na, b\t1\n")))
    files._standard_input.cache_clear()

    data = table("-")

    assert (
        [row.cells["text"] for row in data.rows()] == [row.cells["text"] for row in data.rows()] == ["a, b"]
    )
    files._standard_input.cache_clear()


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_csv_is_read_as_python_writes_it_with_the_line_of_each_record(tmp_path_factory, rows):
    """Records, and the lines they start on, agree with Python's csv, quoted line breaks included."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    starts, text = [], io.StringIO(newline="")
    writer = csv.writer(text)
    for row in [("text", "label"), *rows]:
        starts.append(text.getvalue().count("\n") + 1)
        writer.writerow(row)
    path.write_bytes(text.getvalue().encode())

    read = list(table(path))

    for (one, two), start, row in zip(rows, starts[1:], read, strict=True):
        assert row.place.line == start
        if one.strip() and two.strip():
            assert row.cells == {"text": one, "label": two}
        else:
            assert isinstance(row, Bad)


PLAIN_CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\t\n\r"), min_size=1, max_size=20)


@given(st.lists(st.tuples(PLAIN_CELLS, PLAIN_CELLS), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_tsv_cells_come_back_as_written_quotes_and_all(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    path.write_text(
        "".join(f"{one}\t{two}\n" for one, two in [("text", "label"), *rows]), encoding="utf-8", newline=""
    )

    read = list(table(path, columns={"text": "text", "label": "label"}))

    assert [row.place.line for row in read] == list(range(2, len(rows) + 2))
    for (one, two), row in zip(rows, read, strict=True):
        assert isinstance(row, Bad) or row.cells == {"text": one, "label": two}
        assert isinstance(row, Row) == bool(one.strip() and two.strip())


VALUES = (
    CELLS.filter(str.strip) | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_jsonl_values_come_back_as_json_writes_them(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"text": one, "label": two}) + "\n" for one, two in rows), encoding="utf-8"
    )

    read = list(table(path).rows())

    shown = [[value if isinstance(value, str) else json.dumps(value) for value in row] for row in rows]
    assert [[row.cells["text"], row.cells["label"]] for row in read] == shown


# Which column is which --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "config", "found"),
    [
        ("Label,TEXT\n1,a\n", {}, {"text": "TEXT", "label": "Label"}),
        ("stars,review\n1,a\n", {"columns": {"label": "Stars"}}, {"text": "review", "label": "stars"}),
        ("pos,a fine long film\nneg,quite a dull one\npos,well acted\n", {}, {"text": "2", "label": "1"}),
        ("a fine long film,pos\nquite a dull one,neg\n", {}, {"text": "1", "label": "2"}),
        ("text,label\nlabel,text\n", {"header": False}, {"text": "1", "label": "2"}),
        ("a fine film,7,pos\na dull one,8,neg\nx y z,9,pos\n", {}, {"text": "1", "label": "3"}),
        ("a,b\nc,d\n", {"columns": {"text": "2", "label": "1"}}, {"text": "2", "label": "1"}),
        (
            "opinion,mood\na,b\nc,d\n",
            {"columns": {"text": "opinion", "label": "mood"}},
            {"text": "opinion", "label": "mood"},
        ),
    ],
)
def test_columns_are_found(tmp_path, content, config, found):
    assert table(write(tmp_path, "a.csv", content), **config).found == found


def test_a_header_without_usual_names_is_seen_as_one(tmp_path):
    data = table(write(tmp_path, "a.csv", "opinion,mood\ngood one,pos\nbad one,neg\nso so,neg\nyes,pos\n"))

    message = error_of(lambda: data.found)

    assert (
        "opinion, mood" in message
        and "data.columns.text=opinion" in message
        and "data.header=false" in message
    )


def test_a_second_column_of_the_same_name_gets_a_name_of_its_own(tmp_path):
    (row,) = table(write(tmp_path, "a.csv", "text,label,text\na,1,b\n")).rows()

    assert row.record == {"text": "a", "label": "1", "text.2": "b"}


def test_an_optional_role_may_be_missing_or_empty(tmp_path):
    roles = (TEXT, Role("text2", ("text2",), False), Role("label", ("label",), False))

    rows = list(table(write(tmp_path, "a.csv", "text,text2\na,b\nc,\n"), roles=roles).rows())

    assert [row.cells for row in rows] == [{"text": "a", "text2": "b"}, {"text": "c", "text2": ""}]


# Files that can't be read -----------------------------------------------------------------------------------

BAD_FILES = {
    "empty": ("a.csv", "", "this file is empty"),
    "blank": ("a.tsv", "\n\n  \n", "this file is empty"),
    "header only": ("a.csv", "text,label\n", "a.csv:1: there is a header but no row"),
    "missing column": ("a.csv", "text,lable\na,1\n", 'Did you mean "lable"?'),
    "open quote": ("a.csv", 'text,label\na,1\n"b,2\nc,3\n', "a.csv:3: a quote is broken"),
    "text after a quote": ("a.csv", 'text,label\n"x\ny",1\n"b"c,2\n', "a.csv:4: a quote is broken"),
    "not UTF-8": (
        "a.csv",
        "text,label\na,1\ncafé,2\n".encode("latin-1"),
        "a.csv:3: byte 4 of the line, 0xe9, is not UTF-8",
    ),
    "UTF-16": ("a.csv", "text,label\na,1\n".encode("utf-16"), "a.csv:1: this file is UTF-16"),
    "NUL": ("a.tsv", "text\tlabel\na\t1\nb\0\t2\n", "a.tsv:3: there is a NUL byte"),
    "NUL in csv": ("a.csv", 'text,label\n"a\nb",1\nb\0,2\n', "a.csv:4: there is a NUL byte"),
    "cut gzip": (
        "a.csv.gz",
        gzip.compress(b"text,label\n" + bytes(range(32, 127)) * 99, mtime=0)[:-20],
        "breaks off",
    ),
    "old Mac lines": ("a.csv", "text,label\ra,1\rb,2\r", "a.csv:1: a line ends with a carriage return alone"),
    "unknown ending": ("a.xlsx", "x", "this kind of file is not known"),
    "JSON array": ("a.json", "[]", "jq -c"),
    "no parquet": ("a.parquet", "text", "damaged or none"),
    "no object": ("a.jsonl", "[1]\n[2]\n", "a.jsonl:1: this is a JSON list, not an object"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_told_with_place_and_fix(tmp_path, name):
    file, content, says = BAD_FILES[name]

    assert says in error_of(lambda: list(table(write(tmp_path, file, content))))


def test_a_cut_gzip_names_the_line_it_breaks_off_at(tmp_path):
    whole = "text,label\n" + "".join(f"{hash((n, 1)) % 10**9},1\n" for n in range(20_000))
    path = write(tmp_path, "a.csv.gz", gzip.compress(whole.encode())[:60_000])
    rows = 0

    with pytest.raises(UserError) as caught:
        for _ in table(path):
            rows += 1

    assert (
        f"a.csv.gz:{rows + 2}:" in caught.value.what
    )  # the header, the rows that came, and the one that did not


def test_wrong_encodings_can_be_told(tmp_path):
    for encoding in ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32"):
        (row,) = table(
            write(tmp_path, "a.csv", "text,label\ncafé,1\n".encode(encoding)), encoding=encoding
        ).rows()
        assert (row.cells["text"], row.place.line) == ("café", 2)
    assert "latin-9" not in error_of(
        lambda: list(table(write(tmp_path, "a.csv", "text,label\na,1\n"), encoding="utf8x"))
    )


def test_a_missing_file_names_a_similar_one(tmp_path):
    write(tmp_path, "reviews.csv", "text,label\na,1\n")

    assert 'Did you mean "reviews.csv"?' in error_of(lambda: table(tmp_path / "review.csv"))
    assert "no such file" in error_of(lambda: table(tmp_path / "nowhere" / "a.csv"))
    assert "no such file" in error_of(lambda: table(tmp_path / "*.parquet"))


def test_a_folder_names_the_tables_in_it(tmp_path):
    write(tmp_path, "a.csv.gz", "x")

    message = error_of(lambda: table(tmp_path))

    assert "this is a folder" in message and f'"{tmp_path}/*.csv.gz"' in message


def test_a_column_that_was_told_must_be_there(tmp_path):
    data = table(write(tmp_path, "a.csv", "text,label,extra\na,1,2\n"), columns={"label": "lable"})

    message = error_of(lambda: data.found)

    assert 'no column "lable". Did you mean "label"?' in message and "data.columns.label=" in message


# Rows that can't be used ------------------------------------------------------------------------------------

A, C = '{"text": "a", "label": 1}\n', '{"text": "c", "label": 3}\n'
BAD_ROWS = {
    "too few cells": ("a.csv", "text,label\na,1\nb\nc,3\n", 3, "1 cells, but the table has 2 columns"),
    "too many cells": (
        "a.tsv",
        "text\tlabel\na\t1\nb\t1\t2\nc\t3\n",
        3,
        "3 cells, but the table has 2 columns",
    ),
    "empty text": ("a.csv", "text,label\na,1\n  ,2\nc,3\n", 3, "the text is empty"),
    "empty label": ("a.csv", "text,label\na,1\nb,\nc,3\n", 3, "the label is empty"),
    "broken JSON": ("a.jsonl", A + '{"text": \n' + C, 2, "not valid JSON"),
    "no object": ("a.jsonl", A + '"b"\n' + C, 2, "not an object"),
    "no label": ("a.jsonl", A + '{"text": "b"}\n' + C, 2, 'no "label"'),
    "list of labels": ("a.jsonl", A + '{"text": "b", "label": ["x"]}\n' + C, 2, "is a list"),
    "half a character": ("a.jsonl", A + '{"text": "\\ud83d", "label": 2}\n' + C, 2, "half a character"),
    "long csv line": ("a.csv", "text,label\na,1\n" + "b" * 2000 + ",2\nc,3\n", 3, "more than 1,000 bytes"),
    "long tsv line": (
        "a.tsv",
        "text\tlabel\na\t1\n" + "b" * 2000 + "\t2\nc\t3\n",
        3,
        "more than 1,000 bytes",
    ),
    "long JSON line": ("a.jsonl", A + '{"x": "' + "b" * 2000 + '"}\n' + C, 2, "more than 1,000 bytes"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_told_or_skipped_and_the_others_are_read(tmp_path, name):
    file, content, line, says = BAD_ROWS[name]
    path = write(tmp_path, file, content)

    rows = list(table(path, longest_line=1000))
    (bad,) = (row for row in rows if isinstance(row, Bad))
    skipped = [row.cells["text"] for row in table(path, longest_line=1000, on_bad="skip").rows()]

    assert bad.place.line == line and says in bad.what and bad.fix
    assert skipped == ["a", "c"]
    message = error_of(lambda: list(table(path, longest_line=1000).rows()))
    assert f"{file}:{line}: " in message and "data.on_bad=skip" in message


def test_several_labels_are_refused_with_a_clear_word(tmp_path):
    (bad,) = table(write(tmp_path, "a.jsonl", '{"text": "a", "label": ["x", "y"]}\n'))

    assert "Multi-label data is not supported" in bad.fix


def test_a_label_that_must_be_a_number_is_one(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\na,1.5\nb,good\nc,nan\nd,-2e3\n")

    rows = list(table(path, roles=(TEXT, Role("label", ("label",), number=True))))

    assert [isinstance(row, Bad) for row in rows] == [False, True, True, False]
    assert rows[1].place.line == 3 and '"good" is not a number' in rows[1].what


def test_a_ten_megabyte_line_and_an_endless_quote_stop_early(tmp_path):
    line = write(tmp_path, "a.tsv", b"text\tlabel\na\t1\n" + b"x" * 10_000_000 + b"\nb\t2\n")
    (bad,) = (row for row in table(line) if isinstance(row, Bad))
    assert bad.place.line == 3

    quote = write(tmp_path, "b.csv", b'text,label\na,1\n"b,2\n' + b"some text,1\n" * 500_000)
    assert "b.csv:3: a quote is broken" in error_of(lambda: list(table(quote)))


def test_csv_without_quotes_and_tsv_with_quotes_can_be_told(tmp_path):
    (plain,) = table(write(tmp_path, "a.csv", 'text,label\n"a,1\n'), quotes=False).rows()
    (quoted,) = table(write(tmp_path, "a.tsv", 'text\tlabel\n"a\tb\nc"\t1\n'), quotes=True).rows()

    assert (plain.cells["text"], quoted.cells["text"]) == ('"a', "a\tb\nc")
