"""Imports go one way."""

import ast
from pathlib import Path

import seqlab

SOURCE = Path(seqlab.__file__).parent
CORE = {"errors", "seq", "config", "files", "folder", "memory"}
PARTS = CORE | {"parts"}
MATHS = PARTS | {"nn"}
MODEL = MATHS | {"inputs", "encoders", "outputs", "decoders", "model", "objectives"}
INFER = MODEL | {"data", "inference", "likelihood"}
TASKS = INFER | {"metrics", "text_metrics", "decode", "tasks"}
RUN = TASKS | {"report", "training", "request", "settings", "uses", "run"}
ALLOWED = {
    "errors": set(), "memory": set(), "files": {"errors"}, "config": {"errors"}, "seq": set(),
    "folder": {"errors", "config"}, "request": {"errors", "config"},
    "parts": CORE, "nn": PARTS, "inputs": MATHS | {"encoders", "outputs"}, "encoders": MATHS, "outputs": MATHS,
    "decoders": MATHS | {"encoders", "outputs"}, "decode": MATHS, "text_metrics": PARTS | {"metrics"}, "uses": RUN - {"run"},
    "inference": INFER, "likelihood": INFER, "model": MODEL, "objectives": MODEL, "data": CORE, "metrics": PARTS, "tasks": TASKS,
    "report": TASKS, "training": TASKS | {"report"}, "settings": TASKS | {"training", "request"}, "run": RUN,
    "transfer": RUN, "finish": RUN, "session": RUN | {"finish", "transfer"}, "answers": RUN, "demo": RUN | {"finish", "session"},
    "schema": {"config", "files", "settings", "tasks"}, "early": {"config", "data", "folder", "request", "schema"},
    "labs": RUN | {"finish", "session", "transfer"},
    "cli": RUN | {"finish", "session", "answers", "demo", "labs", "early", "schema"},
    "__init__": RUN | {"session"},
}    # fmt: skip


def imports_of(path: Path) -> set[str]:
    """The top-level names below seqlab that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "seqlab":
            names = [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
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
