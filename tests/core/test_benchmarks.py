"""Benchmarks take minutes and run by hand; what they take from seqlab has to be there all the same."""

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_a_benchmark_takes_from_seqlab_what_is_there(name):
    missing = []
    for node in ast.walk(ast.parse((FOLDER / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seqlab":
            module = importlib.import_module(node.module)
            missing += [f"{node.module}.{one.name}" for one in node.names if not hasattr(module, one.name)]
    assert not missing
