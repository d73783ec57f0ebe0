"""Where a sentence ends: after . ! ? before a new beginning, and at line and HTML breaks."""

from __future__ import annotations

import re

_LINES = re.compile(r"(?:\s*(?:<br\s*/?>|\n))+\s*", re.IGNORECASE)
_STOP = re.compile(
    r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[]*(\w))"""        # closing marks, space, opening marks, then a letter or digit
    r"""|(?<=[^\W\d_]{2}[.!?])(?=[A-Z][\w'’]*\s)"""          # no space: "the end.Then came"
)
_LAST_WORD = re.compile(r"[\w.'’-]*$")
_SHORT = frozenset(
    "mr mrs ms messrs dr prof st mt sr jr gen col capt maj lt sgt cmdr adm rev hon gov sen rep pres supt "
    "vs e.g i.e cf viz fig figs eq vol vols pp ed eds dept univ approx est ca al inc ltd corp co bros "
    "jan feb mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu thur thurs fri sat sun m mme mlle".split()    # noqa: SIM905
)
_BEFORE_NUMBERS = frozenset(("no", "nos", "p", "art", "nr", "chap", "sec"))


def split(text: str) -> list[str]:
    """The sentences of a text, without the white space between them. A blank text has none."""
    sentences: list[str] = []
    for line in _LINES.split(text):
        start = 0
        flat = line == line.lower()                            # text without capitals: a small letter may begin a sentence
        for stop in _STOP.finditer(line):
            if _ends(line, start, stop, flat):
                end = stop.end(1) if stop[1] else stop.end()
                sentences.append(line[start:end].strip())
                start = stop.end()
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends(line: str, start: int, stop: re.Match[str], flat: bool) -> bool:
    """Whether a sentence ends at this stop."""
    if not stop[1]:
        return True
    first = stop[2]
    if first.islower() and not flat:
        return False                                           # "What?" he said. Yahoo! is
    if not stop[1].startswith(".") or stop[1].startswith(".."):
        return True
    found = _LAST_WORD.search(line[max(start, stop.start() - 20) : stop.start()])
    word = found[0] if found else ""
    if len(word) == 1 and word.isalpha() and word not in "Ia":
        return False                                           # an initial: J. R. R. Tolkien
    if re.fullmatch(r"(?:[^\W\d]\.)+[^\W\d]", word):
        return False                                           # U.S., a.m.
    if word.lower() in _BEFORE_NUMBERS:
        return not first.isdigit()                             # No. 5, p. 12
    return word.lower() not in _SHORT
