"""docs/theory.md: every row of the theory is there, and all that it names exists and runs."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from seqlab.labs import LABS

ROOT = Path(__file__).parents[2]
ROWS = {"S": 4, "R": 10, "C": 2, "A": 8, "T": 6, "P": 7, "M": 2, "L": 3}
"""How many rows of each kind there are."""
FIELDS = ("equation", "code", "test", "command", "see", "differs")


def sections():
    """Of each row: its title, its two sentences, and its table."""
    text = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = re.split(r"^## ", part, flags=re.MULTILINE)[0].partition("\n")
        cells = dict(re.findall(r"^\| (\w+) \| (.*) \|$", rest, flags=re.MULTILINE))
        yield title, rest.split("| | |")[0].strip(), cells


SECTIONS = list(sections())
EACH = pytest.mark.parametrize("cells", [cells for *_, cells in SECTIONS], ids=[t for t, *_ in SECTIONS])


def test_every_row_is_there_once_in_order_and_has_a_name():
    wanted = [f"{letter}{number}" for letter, most in ROWS.items() for number in range(1, most + 1)]
    assert [title.split(" ")[0] for title, *_ in SECTIONS] == wanted
    assert all(len(title.split(" ", 1)[1]) > 2 for title, *_ in SECTIONS)


@pytest.mark.parametrize(("title", "idea", "cells"), SECTIONS, ids=[title for title, *_ in SECTIONS])
def test_nothing_is_left_empty(title, idea, cells):
    assert idea.count(". ") == 1 and idea.endswith("."), "two sentences"
    assert tuple(cells) == FIELDS
    assert all(cell.strip() for cell in cells.values())


@cache
def names_in(path):
    """Functions, classes and assigned names at the top of a file."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def named(cell):
    """The files of a cell with the names that stand after each."""
    for file, names in re.findall(r"\[[^]]+\]\(\.\./([^)]+)\)((?: `[^`]+`)+)", cell):
        yield ROOT / file, re.findall(r"`([^`]+)`", names)


@EACH
def test_code_and_tests_that_are_named_are_there(cells):
    for field in ("code", "test"):
        found = list(named(cells[field]))
        assert len(found) == cells[field].count("](")
        for path, names in found:
            assert set(names) <= names_in(path), f"{path.name}: {set(names) - names_in(path)}"


@EACH
def test_a_command_ends_well(cells, seqlab):
    """Labs take minutes: they are run by tests of their own, here they have to be known."""
    verb, *words = shlex.split(cells["command"].strip("`"))[1:]
    if verb == "lab":
        assert words[0] in LABS
        return
    code, out, err = seqlab(verb, *words)
    assert code == 0, err
    assert "parameters" in out


@EACH
def test_labs_that_are_named_are_there(cells):
    assert set(re.findall(r"lab `([\w-]+)`", cells["see"])) <= set(LABS)
