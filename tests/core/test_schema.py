"""settings.json says of the settings what their classes say, and finds the same faults."""

import dataclasses
import functools
import itertools
import subprocess
import sys
import typing

import pytest

from seqlab import config, schema
from seqlab.config import RawText, Variant
from seqlab.early import stored_preset
from seqlab.errors import UserError
from seqlab.request import Request
from seqlab.settings import Settings, TrainRequest, task_classes
from seqlab.tasks.task import Size

NAMED = [(task, preset) for task, kind in task_classes().items() for preset in kind.presets(Size())]
TYPED = [
    "", "null", "abc", "3", "-1", "0.5", "1e-3", "yes", "no", "all", "lstm", "bpe", "a,b", "1,2",
    "[1, 2]", "{kind: gru}",
]  # fmt: skip
PROBES = [
    None, True, -1, 0, 1, 1.0, 0.5, 1.5, -0.5, 1e-3, 3, "", "abc", "none", "both", "all", "lstm", "bpe",
    [], [1], [0], ["a"], ["mask"], [{"kind": "lstm"}],
    {}, {"kind": "gru"}, {"kind": "nothing"}, {"strange": 1}, {"text": 3},
    *map(RawText, TYPED),
]  # fmt: skip
"""Values of every sort: each is right for some settings and wrong for others."""


def hints_of(cls):
    """The types of the fields of a class."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def classes_within(hint):
    """The classes of settings that a type leads to: groups, and all kinds of a family."""
    if isinstance(hint, type) and issubclass(hint, Variant):
        return set(hint.kinds.values())
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return {hint}
    return {cls for part in typing.get_args(hint) for cls in classes_within(part)}


def all_classes():
    found, left = set(), {Settings}
    while left:
        found |= left
        left = {
            cls for group in left for hint in hints_of(group).values() for cls in classes_within(hint)
        } - found
    return sorted(found, key=lambda cls: cls.__name__)


CLASSES = all_classes()


@pytest.fixture
def no_contradictions(monkeypatch):
    """Keys alone are checked, not how they go together."""
    for cls in CLASSES:
        if hasattr(cls, "__post_init__"):
            monkeypatch.setattr(cls, "__post_init__", lambda self: None)


def faults_of(hint, value):
    faults = []
    config._build(hint, value, "key", faults)
    return list(map(str, faults))


def told(build):
    """The settings as a tree, or what is told instead."""
    try:
        return config.dump(build())
    except UserError as error:
        return str(error)


def test_the_file_is_what_the_classes_say_now():
    """In a process of its own, in which no other test has decided what is imported first."""
    words = [sys.executable, "-c", "from seqlab import schema; print(schema.lines_of(schema.current()))"]
    now = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert now == schema.FILE.read_text(), (
        "settings or presets have changed; write them down: python -m seqlab.schema"
    )


def test_each_class_comes_back_under_its_name():
    names = [cls.__name__ for cls in CLASSES]
    assert len(names) == len(set(names)) > 40
    assert set(names) <= set(schema.classes())
    for cls in CLASSES:
        assert list(hints_of(schema.classes()[cls.__name__])) == list(hints_of(cls))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_each_value_of_each_key_has_the_same_faults(cls, no_contradictions):
    """In the same words, or none."""
    bare = schema.classes()[cls.__name__]
    hints, others = hints_of(cls), hints_of(bare)
    for name in hints:
        for value in PROBES:
            assert faults_of(others[name], value) == faults_of(hints[name], value), (name, value)
    for tree in ({}, {"strange": 1}):
        assert told(functools.partial(config.build, bare, tree, "")) == told(
            functools.partial(config.build, cls, tree, "")
        )


def words(tree):
    """What is text in a tree of settings, the kinds among it."""
    below = {name: words(value) if isinstance(value, dict) else value for name, value in tree.items()}
    return {name: value for name, value in below.items() if isinstance(value, dict | str)}


@pytest.mark.parametrize("task, preset", NAMED)
def test_each_preset_has_its_words_and_all_its_settings_pass(task, preset):
    real = config.dump(TrainRequest(task=task, preset=preset).settings())
    request = Request(task=task, preset=preset)
    bare = config.dump(request.built(functools.partial(stored_preset, request), schema.settings()))
    assert words(bare) == words(real)
    assert config.dump(config.build(schema.settings(), real, "settings")) == real


def changes(hint, tree, key=""):
    """Overrides, right and wrong, for each group of a tree of settings: other kinds, no group at all, strange
    keys."""
    hint = config._optional(hint) or hint
    family = config._family(hint)
    for kind in family.kinds if family and not family.kind else ():
        swap = {f"{key}.kind": RawText(kind)}
        yield swap
        yield {key: RawText(kind)}
        yield swap | {f"{key}.dropout": RawText("0.1"), f"{key}.width": RawText("8"), f"{key}.strange": 1}
    if family and not family.kind:
        yield {key: RawText("")}
        yield {key: RawText("strange")}
    if isinstance(tree, dict) and dataclasses.is_dataclass(
        cls := family.kinds[tree["kind"]] if family else hint
    ):
        dotted = f"{key}.".lstrip(".")
        yield {f"{dotted}widht": 3, f"{dotted}layers": RawText("none"), "training.rate": RawText("fast")}
        for name, below in hints_of(cls).items():
            yield from changes(below, tree[name], dotted + name)


@pytest.mark.parametrize("task, preset", NAMED)
def test_what_is_changed_upon_a_preset_is_told_in_the_same_words_or_passes(task, preset, no_contradictions):
    tree = config.dump(TrainRequest(task=task, preset=preset).settings())
    outcomes = set()
    start = NAMED.index((task, preset)) % 10  # a tenth for each preset: all of them would take minutes
    for overrides in itertools.islice(changes(Settings, tree), start, None, 10):
        real = told(TrainRequest(task=task, preset=preset, overrides=overrides).settings)
        request = Request(task=task, preset=preset, overrides=overrides)
        bare = told(
            functools.partial(request.built, functools.partial(stored_preset, request), schema.settings())
        )
        refused = isinstance(real, str)
        assert bare == real if refused else isinstance(bare, dict), overrides
        outcomes.add(refused)
    assert outcomes == {True, False}


def test_a_type_that_no_schema_is_known_for_is_refused():
    for hint in (bytes, dict[str, int], typing.Annotated[int, "odd"]):
        with pytest.raises((KeyError, TypeError)):
            schema.schema_of(hint, {})
