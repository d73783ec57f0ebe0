"""Imports go one way."""

import ast
import re
from pathlib import Path

import seqlab

SOURCE = Path(seqlab.__file__).parent
CORE = {"errors", "seq", "config", "files", "folder", "memory"}
PARTS = CORE | {"parts"}
MATHS = PARTS | {"nn"}
MODEL = MATHS | {"inputs", "encoders", "outputs", "decoders", "model", "objectives"}
DATA = CORE | {"data"}
INFER = MODEL | {"data", "inference", "likelihood"}
SCORES = {"forecast_metrics", "metrics", "span_metrics", "spans", "text_metrics", "caption_metrics"}
REPORT = MODEL | SCORES
TRAINING = MODEL | {"data", "report"}
FIELDS = MODEL | {"data", "spans", "text_metrics"}
ANSWERS = INFER | SCORES | {"decode", "fields", "report", "training"}
BASELINES = ANSWERS | {"answers", "rules"}
TASKS = BASELINES | {"baselines"}
SETTINGS = TASKS | {"tasks", "request"}
RUN = SETTINGS | {"settings"}
SESSION = RUN | {"run", "transfer", "microscope"}
ALLOWED = {
    "errors": set(),
    "memory": set(),
    "threads": set(),
    "files": {"errors"},
    "config": {"errors"},
    "seq": set(),
    "folder": {"errors", "config"},
    "request": {"errors", "config", "data"},
    "rules": {"config"},
    "parts": CORE,
    "nn": PARTS,
    "inputs": MATHS | {"encoders", "outputs"},
    "encoders": MATHS,
    "outputs": MATHS,
    "decoders": MATHS | {"encoders", "outputs"},
    "decode": MATHS | {"outputs"},
    "model": MODEL,
    "objectives": MODEL,
    "data": CORE,
    "metrics": PARTS,
    "spans": set(),
    "span_metrics": PARTS | {"metrics", "spans"},
    "text_metrics": PARTS | {"metrics"},
    "caption_metrics": PARTS | {"metrics", "text_metrics"},
    "forecast_metrics": PARTS | {"metrics"},
    "inference": INFER,
    "likelihood": INFER,
    "report": REPORT,
    "training": TRAINING,
    "fields": FIELDS,
    "answers": ANSWERS,
    "baselines": BASELINES,
    "tasks": TASKS,
    "settings": SETTINGS | {"training"},
    "run": RUN,
    "transfer": RUN | {"run"},
    "microscope": RUN | {"run"},
    "session": SESSION,
    "verbs": SESSION,
    "probe": SESSION,
    "ledger": SESSION | {"probe"},
    "demo": SESSION | {"session"},
    "labs": SESSION | {"session"},
    "schema": {"config", "files", "settings", "tasks"},
    "early": {"config", "data", "folder", "request", "schema"},
    "cli": SESSION | {"session", "verbs", "ledger", "demo", "labs", "early", "schema"},
    "__init__": {"run", "session", "threads"},
    "__main__": {"cli"},
}


def imports_of(path: Path) -> set[str]:
    """The top-level names below seqlab that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "seqlab":
            names = (
                [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            )
            found |= set(names)
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("seqlab.")}
    return found


def test_every_import_follows_an_arrow():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        strange = imports_of(path) - ALLOWED[place] - {place, "__version__"}
        wrong += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(strange)]
    assert not wrong


SHARED = {
    "tasks": {"task", "prepare", "published", "writing"},
    "answers": {
        "answer",
        "documents",
        "exercise_counts",
        "exercises",
        "fill_blanks",
        "forecast_pictures",
        "forecast_predictions",
        "forecasting",
        "searching",
        "series_ends",
        "writer",
    },
    "fields": {"field"},
    "baselines": {"baseline", "ngrams", "word_table"},
}
"""What several tasks, answers, fields or baselines are made of; none of these is one itself."""


def test_no_task_answer_or_field_imports_its_sibling():
    """A task may have its presets in a file of its own, which bears its name."""
    wrong = []
    for room, shared in SHARED.items():
        for path in sorted((SOURCE / room).glob("*.py")):
            if path.stem == "__init__":
                continue
            text = path.read_text()
            siblings = set(re.findall(rf"from seqlab\.{room}\.(\w+) import", text))
            for names in re.findall(rf"from seqlab\.{room} import ([\w, ]+)", text):
                siblings |= set(names.split(", "))
            strange = {name for name in siblings - shared if not name.startswith(f"{path.stem}_")}
            wrong += [f"{room}/{path.name} imports {name}" for name in sorted(strange)]
    assert not wrong


def test_the_reader_of_imports_finds_a_wrong_arrow(tmp_path):
    file = tmp_path / "parts.py"
    file.write_text("from seqlab.training.loop import Training\nfrom seqlab import run\nimport seqlab.cli\n")
    assert imports_of(file) == {"training", "run", "cli"}


def test_help_does_not_import_torch():
    import subprocess
    import sys

    lines = ["import sys; sys.argv = ['seqlab', '--help']", "from seqlab.cli import main", "try: main()"]
    lines += ["except SystemExit: pass", "assert 'torch' not in sys.modules"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout


def test_nothing_needs_rich():
    """typer has it installed beside itself; our help, our errors and our tables are plain text without it."""
    import subprocess
    import sys

    commands = {"--help": (0, "train"), "train --bogus": (2, "--bogus"), "inspect lstm": (0, "embedding")}
    for words, (code, told) in commands.items():
        lines = [f"import sys; sys.modules['rich'] = None; sys.argv = ['seqlab', *{words.split()}]"]
        lines += ["from seqlab.cli import main", "main()"]
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
        assert done.returncode == code and told in done.stdout + done.stderr, done.stderr
