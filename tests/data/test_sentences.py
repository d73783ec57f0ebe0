"""Where sentences end."""

import pytest

from seqlab.data.sentences import split

CASES = {
    "It works. It does!": ["It works.", "It does!"],
    'He asked "Why?" and left. "Yes." Then silence': ['He asked "Why?" and left.', '"Yes."', "Then silence"],
    "One line\nanother<br /><br />and a third": ["One line", "another", "and a third"],
    "Dr. Who met Mrs. X at 5 p.m. on 3.5 Mars": ["Dr. Who met Mrs. X at 5 p.m. on 3.5 Mars"],
    "J. R. R. Tolkien wrote it. I know it.": ["J. R. R. Tolkien wrote it.", "I know it."],
    "The U.S. Army, e.g. the 5th. And more": ["The U.S. Army, e.g. the 5th.", "And more"],
    "No. 5 is alive. No. It is not.": ["No. 5 is alive.", "No.", "It is not."],
    "It was the end.Then it went on": ["It was the end.", "Then it went on"],
    "He sat in the sun... And waited": ["He sat in the sun...", "And waited"],
    "He sat. It rained.": ["He sat.", "It rained."],
    "no capitals . not one ! really ? yes": ["no capitals .", "not one !", "really ?", "yes"],
    "Yahoo! is a name. Été. Über alles.": ["Yahoo! is a name.", "Été.", "Über alles."],
    " \n <br> ": [],
    "": [],
}


@pytest.mark.parametrize("text", CASES)
def test_sentences_end_where_a_reader_would_say(text):
    assert split(text) == CASES[text]
