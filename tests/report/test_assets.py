"""The style sheets and scripts of pages: files of the package, each in some page, none in a Python string."""

import ast
import re
import tomllib
from fnmatch import fnmatch
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from seqlab.report import cost_page, maps
from seqlab.report.evaluate import score_labels
from seqlab.report.explanation import Explanation, Map
from seqlab.report.page import Report, report_html
from seqlab.report.words import Words, WorstTable

FOLDER = resources.files("seqlab.report")
ASSETS = sorted(file.name for file in FOLDER.iterdir() if file.name.endswith((".css", ".js")))
SETTINGS = "model: {input: {kind: tokens}, encoder: {kind: lstm}, pool: {kind: max}, head: {kind: linear}}\n"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
TOKENS = Map(name="attention", kind="tokens", weights=np.array([0.3, 0.7]), pieces=("good", "film"))
WORDS = Words(
    purpose="says yes or no",
    worst=WorstTable("The worst", ("text", "meant", "said", "score"), "All of them."),
    shell=("seqlab predict . TEXT",),
    python=("run.predict(TEXT)",),
)
EXPLAINED = Explanation(text="good film", label="yes", scores={}, maps=(TOKENS,), method="attention")


def a_report() -> str:
    scores = score_labels(np.array([0, 1]), np.array([0, 1]), ["no", "yes"])
    told = {"title": "run", "words": WORDS, "settings_text": SETTINGS}
    return report_html(Report(**told, scores=scores, split="valid", rows={"train": 2}))


def code_in_strings(source: str) -> list[int]:
    """The lines at which strings begin that hold three or more lines with braces: style sheets or scripts."""
    constants = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    texts = [node for node in constants if isinstance(node.value, str)]
    return [node.lineno for node in texts if len(re.findall(r"(?m)^.*[{}]", node.value)) >= 3]


@pytest.mark.parametrize("name", ASSETS)
def test_every_style_sheet_and_script_is_installed_with_the_package(name):
    globs = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]["seqlab"]
    assert any(fnmatch(f"report/{name}", pattern) for pattern in globs)


OF_PAGES = ("document.css", "page.css", "confusion.css", "tagged.css", "forecast.css")
"""What a map in a notebook does not need."""
OF_COSTS = ("cost_page.css", "model_drawing.css")
"""What only the page of `inspect --out` needs."""


@pytest.mark.parametrize("name", ASSETS)
def test_every_style_sheet_and_script_is_carried_by_the_pages_that_need_it(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert (text in cost_page.CSS) == (name in OF_COSTS)
    in_notebooks, in_reports = text in maps.html_notebook(EXPLAINED), text in a_report()
    assert in_notebooks == (name not in (*OF_PAGES, *OF_COSTS))
    assert in_reports == (name not in ("notebook.css", *OF_COSTS))


@pytest.mark.parametrize("name", ASSETS)
def test_nothing_in_a_style_sheet_or_script_ends_the_element_that_holds_it_or_asks_the_network(name):
    text = (FOLDER / name).read_text(encoding="utf-8").lower()
    assert not re.search(r"</(style|script)|<!--|http|url\(|@import|\bimport\b|fetch", text)


@pytest.mark.parametrize("path", sorted(Path(str(FOLDER)).glob("*.py")), ids=lambda path: path.name)
def test_no_style_sheet_or_script_stands_in_a_python_string(path):
    assert code_in_strings(path.read_text(encoding="utf-8")) == []


def test_the_reader_of_strings_finds_a_style_sheet_and_a_script():
    sheet = 'CSS = """\n.a{margin:0}\n.b{margin:0}\n@media print{\n.a{color:red}}\n"""\n'
    script = 'SCRIPT = f"""\nfor (const a of b) {{\n  c(a, () => {{ d(); }});\n}}\n"""\n'
    assert code_in_strings(sheet) == [1]
    assert code_in_strings(script) == [1]
    assert code_in_strings('"""Words of a file.\n\nOf many lines.\n"""\n') == []
