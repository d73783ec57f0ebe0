"""README.md and docs/ say what is so: commands exist, outputs are true, links lead somewhere, code runs."""

import ast
import dataclasses
import importlib.util
import re
import shlex
import sys
import typing
from pathlib import Path

import pytest
import typer

from seqlab import cli
from seqlab.config import Variant, parse_overrides
from seqlab.errors import UserError
from seqlab.settings import Settings, TrainRequest, task_classes
from seqlab.tasks.task import Size

TASKS = task_classes()
PRESETS = {task: kind.presets(Size()) for task, kind in TASKS.items()}
ROOT = Path(__file__).resolve().parents[2]
PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}
ALL = pytest.mark.parametrize("name", DOCUMENTS)


def loaded(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location("docs_make", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = loaded(ROOT / "docs" / "make.py")


def shown_commands(text):
    """Every `$ seqlab ...` in a console block, with what is shown below it."""
    for block in make.blocks(text):
        if block.language == "console":
            for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if command.startswith("seqlab "):
                    yield shlex.split(command)[1:], output


COMMANDS = [(words, output) for text in DOCUMENTS.values() for words, output in shown_commands(text)]


@pytest.mark.parametrize(("words", "output"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_a_command_that_is_shown_can_be_typed(words, output):
    """Its verb and options exist, and its settings are known; or it fails with the words that are shown."""
    verb, *rest = words
    command = typer.main.get_command(cli.app).commands[verb]
    given = command.make_context(verb, list(rest)).params
    if verb == "demo" or given.get("gradients"):  # some demos are about a kind of data; gradients are of runs
        return
    names, settings = cli.split_words(given.get("words") or given.get("inputs") or [])
    preset = names[0] if verb == "inspect" else given.get("model") or ""
    task = given.get("task") or next((name for name in names[:1] if name in PRESETS), "")
    task = task or next(task for task, presets in PRESETS.items() if not preset or preset in presets)
    wishes = TrainRequest(task=task, preset=preset, overrides=parse_overrides(settings))
    if output.startswith("settings: "):
        with pytest.raises(UserError) as error:
            wishes.settings()
        assert str(error.value) == output.rstrip("\n")
    else:
        wishes.settings()


MARKED = [(name, block) for name, text in DOCUMENTS.items() for block in make.blocks(text) if block.command]


@pytest.mark.parametrize(("name", "block"), MARKED, ids=[block.command[:60] for _, block in MARKED])
def test_the_output_of_a_command_is_as_shown(name, block, seqlab):
    """`make docs` writes it anew."""
    code, out, err = seqlab(*shlex.split(block.command)[1:])
    assert code == 0, err
    assert out == block.body, f"{name} is out of date: make docs"


@pytest.mark.parametrize("name", make.RUNNING)
def test_python_in_a_document_runs_and_prints_what_is_shown(name, tmp_path, monkeypatch):
    """Whole numbers and words to the letter; digits after a point depend on the processor."""
    monkeypatch.chdir(tmp_path)
    for shown, printed in make.python_outputs(DOCUMENTS[f"docs/{name}"]):
        assert without_decimals(shown.body if shown else "") == without_decimals(printed), (
            "out of date: make docs"
        )


def without_decimals(text):
    return re.sub(r"\d+\.\d+(e-?\d+)?", "#", text)


@ALL
def test_python_is_python(name):
    for block in make.blocks(DOCUMENTS[name]):
        if block.language == "python":
            assert ast.parse(block.body).body


@ALL
def test_links_lead_somewhere(name):
    """To a file that is there, and to a heading that is in it."""
    folder = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(DOCUMENTS[name])):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        file = (folder / path).resolve() if path else ROOT / name
        assert file.exists(), f"{name}: {target}"
        if heading:
            assert heading in headings(file.read_text(encoding="utf-8")), f"{name}: {target}"


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(text):
    """As a page of Markdown names them in links."""
    lines = re.findall(r"^#+ (.+)$", without_code(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@ALL
def test_files_that_are_named_are_there(name):
    for path in re.findall(r"\b(?:src|docs|tests|benchmarks)/[\w./-]+\.(?:py|md|svg|png)\b", DOCUMENTS[name]):
        assert (ROOT / path).exists(), f"{name}: {path}"


@ALL
def test_settings_that_are_named_are_there(name):
    """Every dotted key in the text, under some kind of its branch."""
    for key in re.findall(r"\b(?:task|data|model|training|decode)(?:\.[a-z_0-9]+)+(?==|`)", DOCUMENTS[name]):
        others = (
            "model.safetensors",
            "training.stps",
            "model.encoder.widht",
        )  # a file, and mistakes shown on purpose
        assert key in others or known(Settings, key.split(".")), f"{name}: {key}"


def known(hint, names):
    """Whether a key is a field of these settings, or of any of their kinds."""
    if not names or typing.get_origin(hint) is dict:
        return True
    if typing.get_origin(hint) is not None:
        return any(known(part, names) for part in typing.get_args(hint))
    if not isinstance(hint, type):
        return False
    if issubclass(hint, Variant):
        return names == ["kind"] or any(known_field(kind, names) for kind in hint.kinds.values())
    return dataclasses.is_dataclass(hint) and known_field(hint, names)


def known_field(cls, names):
    hints = {field.name: typing.get_type_hints(cls)[field.name] for field in dataclasses.fields(cls)}
    return names[0] in hints and known(hints[names[0]], names[1:])


def test_every_preset_is_in_the_tables():
    for preset in {preset for table in PRESETS.values() for preset in table}:
        for name in ("README.md", "docs/models.md"):
            assert re.search(rf"[` ]{preset}[` ]", DOCUMENTS[name]), f"{name}: {preset}"


def test_the_default_models_that_are_named_are_the_default_models():
    defaults = {task: kind.default for task, kind in TASKS.items()}
    [told] = re.findall(r"If you name none: (.*?)\.", DOCUMENTS["docs/settings.md"])
    assert {task: preset for preset, task in re.findall(r"`([\w-]+)` for `(\w+)`", told)} == defaults
    marked = re.findall(r"`([\w-]+)` \(default\)", DOCUMENTS["docs/models.md"])
    assert sorted(marked) == sorted(defaults.values())


def test_every_verb_is_in_the_table():
    for verb in typer.main.get_command(cli.app).commands:
        assert f"`seqlab {verb}`" in DOCUMENTS["README.md"]


def test_pictures_are_small():
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 200_000, picture.name
