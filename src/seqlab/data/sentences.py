"""Where a sentence ends: after . ! ? before a new beginning, and at line and HTML breaks."""

from __future__ import annotations

import re

_LINE = re.compile(r"<br\s*/?>|\n", re.IGNORECASE)
_STOP = re.compile(
    r"""([.!?…]+["'”’»)\]]*)"""  # a stop and closing marks
    r"""(\s+|(?=[A-Z][\w'’]*\s))"""  # space, or none: "the end.Then came"
    r"""(?=["'“‘«(\[]*(\w))"""  # opening marks and the first letter or digit
)
_LAST_WORD = re.compile(r"[\w.'’-]*$")
_SHORT = frozenset(
    (
        "mr",
        "mrs",
        "ms",
        "messrs",
        "dr",
        "prof",
        "st",
        "mt",
        "sr",
        "jr",
        "gen",
        "col",
        "capt",
        "maj",
        "lt",
        "sgt",
        "cmdr",
        "adm",
        "rev",
        "hon",
        "gov",
        "sen",
        "pres",
        "supt",
        "vs",
        "e.g",
        "i.e",
        "cf",
        "viz",
        "figs",
        "eq",
        "vol",
        "vols",
        "pp",
        "eds",
        "dept",
        "univ",
        "approx",
        "ca",
        "al",
        "inc",
        "ltd",
        "corp",
        "co",
        "bros",
        "jan",
        "feb",
        "apr",
        "jun",
        "jul",
        "aug",
        "sept",
        "sep",
        "oct",
        "nov",
        "dec",
        "tue",
        "tues",
        "thu",
        "thur",
        "thurs",
        "fri",
        "m",
        "mme",
        "mlle",
    )
)
_BEFORE_NUMBERS = frozenset(("no", "nos", "p", "art", "nr", "chap", "sec"))


def split(text: str) -> list[str]:
    """The sentences of a text, without the white space between them. A blank text has none."""
    sentences: list[str] = []
    for line in _LINE.split(text):
        start = 0
        flat = line == line.lower()  # text without capitals: a small letter may begin a sentence
        for stop in _STOP.finditer(line):
            if _ends(line, start, stop, flat):
                sentences.append(line[start : stop.end(1)].strip())
                start = stop.end()
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends(line: str, start: int, stop: re.Match[str], flat: bool) -> bool:
    """Whether a sentence ends at this stop."""
    marks, space, first = stop.groups()
    if not space:
        return stop.start() > start + 1 and line[stop.start() - 2 : stop.start()].isalpha()
    if first.islower() and not flat:
        return False  # "What?" he said. Yahoo! is
    if marks[0] != "." or marks.startswith(".."):
        return True
    found = _LAST_WORD.search(line[max(start, stop.start() - 20) : stop.start()])
    word = found[0] if found else ""
    if len(word) == 1 and word.isalpha() and word not in "Ia":
        return False  # an initial: J. R. R. Tolkien
    if re.fullmatch(r"(?:[^\W\d]\.)+[^\W\d]", word):
        return False  # U.S., a.m.
    if word.lower() in _BEFORE_NUMBERS:
        return not first.isdigit()  # No. 5, p. 12
    return word.lower() not in _SHORT
