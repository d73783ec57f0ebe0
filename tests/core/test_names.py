"""What the sources name: tasks and objectives in tasks/ alone, no kind of run, hardly any `type: ignore`."""

import ast
import re
import typing
from pathlib import Path

import pytest

import seqlab
from seqlab.settings import task_classes
from seqlab.tasks.pretrain import ObjectiveName

SOURCE = Path(seqlab.__file__).parent
ABOUT_TASKS = ("tasks", "labs", "demo.py")
"""What is about certain tasks."""
TASKS = sorted(task_classes())
CLASSES = sorted(kind.__name__ for kind in task_classes().values())
OBJECTIVES = sorted(set(typing.get_args(ObjectiveName)) - {"causal", "blank", "both-ways"})
"""Those whose names mean nothing else: decoders are causal, encoders read both ways, a line may be blank."""


COLUMNS = {"tag": {"fields/tags.py"}, "caption": {"fields/target.py", "data/shapes.py"}}
"""Tasks whose names columns of tables have, too, and the files that look for such columns."""


def others() -> list[Path]:
    paths = [
        path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in ABOUT_TASKS
    ]
    assert len(paths) > 60
    return paths


def strings(tree: ast.AST) -> list[str]:
    """All texts of a file but its docstrings."""
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [node.value for node in found if id(node) not in notes]


def told(text: str) -> list[str]:
    """The tasks and objectives that a file names."""
    tree = ast.parse(text)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    wrong = sorted(named & set(CLASSES))
    for string in strings(tree):
        wrong += [task for task in TASKS if string == task or re.search(rf"seqlab \w+ {task}\b", string)]
        wrong += [objective for objective in OBJECTIVES if string == objective]
    return wrong


def test_no_file_outside_tasks_names_a_task_or_an_objective():
    found = {}
    for path in others():
        place = str(path.relative_to(SOURCE))
        columns = {task for task, files in COLUMNS.items() if place in files}
        if names := [name for name in told(path.read_text()) if name not in columns]:
            found[place] = names
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        'if task.kind == "translate": pass',
        'fix = "seqlab train classify x.csv"',
        "a: Generate",
        'x = {"masked+next": 1}',
    ],
)
def test_a_file_that_does_is_found(line):
    assert told(line)


def test_one_kind_of_run_and_few_lines_that_types_do_not_check():
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    runs = [
        path.name for path, text in texts.items() if re.search(r"isinstance\(run\b|class \w+\(Run\)", text)
    ]
    assert runs == []
    assert sum(text.count("type: ignore") for text in texts.values()) <= 10


def test_no_class_name_stands_twice():
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
