"""What `make lint` says of style sheets: each fault that a browser would pass over, at its line."""

import runpy
from pathlib import Path

import pytest

LINTER = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "lint_css.py"))
FAULTS = {
    ".a { colour: red; }": "unknown property colour",
    ".a { color: red; color: blue; }": "color is set twice",
    ".a { color red; }": "{} block",
    ".a { color: ; }": "color has no value",
    ".a { color: red margin: 0; }": "semicolon",
    ".a { color: var(--txt); }": "nothing sets --txt",
    ".a { color: #12; }": "#12 is no colour",
    ".a > { color: red; }": "the selector",
    ".a:hoverr { color: red; }": "the selector: hoverr",
    ".a {}": "nothing between the braces",
    ".a { color: red; .b { margin: 0; }": "a brace missing",
    ".a { color: red;": "a brace is still open",
    ".a { color: red; } }": "{} block",
    "@media print { .a { colour: red; } }": "unknown property colour",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_found_at_its_line(text):
    found = list(LINTER["faults"](f":root {{ --text: red; }}\n{text}", {"--text"}))
    assert any(line == 2 and FAULTS[text] in what for line, what in found), found


def test_a_sheet_without_a_fault_is_left_alone(tmp_path, capsys):
    path = tmp_path / "good.css"
    path.write_text(
        ":root { --text: red; }\n@media (max-width: 9rem) { th, td > b:hover { color: var(--text); } }\n"
    )
    assert LINTER["main"](str(tmp_path)) == 0
    path.write_text(".a { color: var(--text); }")
    assert LINTER["main"](str(tmp_path)) == 1
    assert "good.css:1: nothing sets --text" in capsys.readouterr().out
