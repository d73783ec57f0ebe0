"""CoNLL files as rows of lists, what may be wrong with them, and text cut into words."""

from __future__ import annotations

import json

import pytest

from seqlab.data import conll
from seqlab.data.read import Bad, DataConfig, Role, Table
from seqlab.data.words import cut, listed, values_of, words_of
from seqlab.errors import UserError

TOKENS = Role("tokens", ("tokens", "form"), many=True)
TAGS = Role("tags", ("tags", "ner", "upos"), many=True)
PLAIN = "-DOCSTART- -X- O\n\nJohn NNP B-PER\nlives VBZ O\n\n\n# x\tO\nin IN O\nParis NNP B-LOC\n"
UNIVERSAL = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tE\t_\t5\tcase\t_\t_
4\tel\tel\tDET\tD\t_\t5\tdet\t_\t_
4.1\tgran\tgrande\tADJ\tA\t_\t_\t_\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\t_

1\t#\t#\tSYM\tS\t_\t0\troot\t_\t_
"""


def table(tmp_path, text, name="train.conll", roles=(TOKENS, TAGS), **settings):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return Table([str(path)], DataConfig(**settings), roles)


def rows(found: Table):
    return [(json.loads(row.cells["tokens"]), json.loads(row.cells["tags"])) for row in found.rows()]


def test_columns_comments_blank_lines_and_documents(tmp_path):
    """The tokens come first and the tags last; a line that begins with # is a token where it has all
    columns."""
    text = PLAIN.replace("# x\tO\n", "# a comment of several words\n#  SYM O\n")
    found = table(tmp_path, text)
    assert found.found == {"tokens": "column1", "tags": "column3"}
    assert rows(found) == [(["John", "lives"], ["B-PER", "O"]), (["#", "in", "Paris"], ["O", "O", "B-LOC"])]
    assert [(row.place.line, row.cells[conll.LINES]) for row in found.rows()] == [(3, "3 4"), (8, "8 9 10")]


def test_a_comment_is_no_token_where_columns_stand_between_tabs(tmp_path):
    """ "# newdoc" has two words, as many as there are columns, but no tab."""
    text = "# newdoc\nJohn\tB-PER\n\n# newdoc\n# text = in Paris\n#\tO\nin\tO\nParis\tB-LOC\n\n# end"
    assert rows(table(tmp_path, text)) == [(["John"], ["B-PER"]), (["#", "in", "Paris"], ["O", "O", "B-LOC"])]
    spaces = "# SYM\nJohn NNP\n\n# SYM\n"
    assert rows(table(tmp_path, spaces, "b.conll")) == [(["#", "John"], ["SYM", "NNP"]), (["#"], ["SYM"])]


@pytest.mark.parametrize("first", ["-DOCSTART-", "-DOCSTART- O"])
def test_the_line_of_a_document_may_have_other_columns(tmp_path, first):
    text = PLAIN.replace("-DOCSTART- -X- O", first).replace("# x\tO\n", "")
    assert rows(table(tmp_path, text)) == [
        (["John", "lives"], ["B-PER", "O"]),
        (["in", "Paris"], ["O", "B-LOC"]),
    ]


@pytest.mark.parametrize("column", ["2", "column2", "COLUMN2"])
def test_another_column_is_told_by_number_or_name(tmp_path, column):
    found = table(tmp_path, PLAIN.replace("# x\tO\n", ""), columns={"tags": column})
    assert rows(found)[0] == (["John", "lives"], ["NNP", "VBZ"])


def test_of_universal_dependencies_words_alone_are_read_by_name(tmp_path):
    """Tokens of several words and empty nodes are none; lines are those of the file."""
    found = table(tmp_path, UNIVERSAL, "train.conllu")
    assert found.found == {"tokens": "FORM", "tags": "UPOS"}
    words = ["Vamos", "nos", "a", "el", "mar"]
    assert rows(found) == [(words, ["VERB", "PRON", "ADP", "DET", "NOUN"]), (["#"], ["SYM"])]
    assert next(found.rows()).cells[conll.LINES] == "4 5 7 8 10"
    assert rows(table(tmp_path, UNIVERSAL, "b.conllu", columns={"tags": "xpos"}))[1] == (["#"], ["S"])
    assert rows(table(tmp_path, UNIVERSAL, "c.conllu", columns={"tags": "5"}))[1] == (["#"], ["S"])


def test_columns_may_be_named_by_the_first_comment(tmp_path):
    text = "# global.columns = NER FORM\nB-PER\tJohn\nO\tlives\n"
    found = table(tmp_path, text, "train.conllup")
    assert found.found == {"tokens": "FORM", "tags": "NER"} and rows(found) == [
        (["John", "lives"], ["B-PER", "O"])
    ]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_line_ends_and_the_end_of_the_file_change_nothing(tmp_path, ending, line):
    text = ("a\tX\nb\tY\n\nc\tX" + ending).replace("\n", line)
    assert rows(table(tmp_path, text)) == [(["a", "b"], ["X", "Y"]), (["c"], ["X"])]


def test_a_txt_file_with_a_tag_for_each_token_is_read_as_conll(tmp_path):
    assert rows(table(tmp_path, "a X\nb Y\n", "eng.txt")) == [(["a", "b"], ["X", "Y"])]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a X\n\nb Y\nc\nd X\n", 4, "this line has 1 column, but the file has 2"),
        ("a\tX\nNew York\tY\tZ\n", 2, "this line has 3 columns, but the file has 2"),
        ("a\tX\nb\t\n\nc\tX\n", 2, "column column2 of this line is empty"),
        ("a\tX\n#b\n\nc\tX\n", 2, "this line has 1 column, but the file has 2"),  # a tag is missing
    ],
)
def test_a_line_that_is_at_fault_is_told_and_spoils_its_sentence_alone(tmp_path, text, line, told):
    found = list(table(tmp_path, text))
    [bad] = [row for row in found if isinstance(row, Bad)]
    assert bad.place.line == line and bad.what.startswith(told) and bad.fix
    assert len(found) == 2 - (text.count("\n\n") == 0)


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("", {}, "this file is empty"),
        ("a\nb\n", {}, "there is no column for the tags"),
        ("a X\n", {"columns": {"tags": "3"}}, 'there is no column "3"'),
    ],
)
def test_a_file_without_what_is_needed_is_refused(tmp_path, text, settings, told):
    with pytest.raises(UserError) as error:
        list(table(tmp_path, text, **settings))
    assert told in error.value.what.replace("“", '"').replace("”", '"')


def test_a_task_that_reads_no_lists_says_so(tmp_path):
    with pytest.raises(UserError, match="which this task does not read"):
        list(table(tmp_path, "a X\n", roles=(Role("text", ("text",)), Role("label", ("label",)))))


# Words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("John lives in Paris.", ["John", "lives", "in", "Paris", "."]),
        ("don't (really)  “stop”", ["don't", "(", "really", ")", "“", "stop", "”"]),
        ("e\u0301te\u0301 à 3,5 €", ["e\u0301te\u0301", "à", "3", ",", "5", "€"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("  ", []),
    ],
)
def test_text_is_cut_into_words_and_marks_whose_places_are_known(text, words):
    assert [text[start:end] for start, end in cut(text)] == words


def test_lists_are_taken_as_they_are_and_text_beside_tags_at_its_spaces():
    assert listed('["a b", "c"]') == ["a b", "c"] and listed("[1.5, -2]") == ["1.5", "-2"]
    assert listed("[see] it") is None and listed('[["a"]]') is None and listed("[null]") is None
    assert values_of("U.S. B-LOC") == ["U.S.", "B-LOC"]
    assert words_of({"tokens": "the U.S."}) == ["the", "U", ".", "S", "."]
    assert words_of({"tokens": "the U.S.", "tags": "O B-LOC"}) == ["the", "U.S."]
    assert words_of({"tokens": '["the", "U.S."]'}) == ["the", "U.S."]
