"""The settings as a JSON Schema, and back again as classes that have fields but do nothing.

The classes of the settings stand beside modules of torch, whose import takes seconds. settings.json says of
them what is needed to find a mistake: `config.build` takes the classes that are made from it as it takes the
real ones, and tells the same faults; only how two keys contradict each other is left to the real ones.
`python -m seqlab.schema` writes settings.json from the real classes; a test says when that was forgotten.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import operator
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Le, Lt

from seqlab import config
from seqlab.config import Tree, Variant
from seqlab.files import write_text

FILE = Path(__file__).with_name("settings.json")
PLAIN = {"boolean": bool, "integer": int, "number": float, "string": str, "null": type(None)}
LIMITS: dict[str, Any] = {"minimum": Ge, "exclusiveMinimum": Gt, "maximum": Le, "exclusiveMaximum": Lt}
PLACE = "#/$defs/"
"""Where a schema keeps the classes and families that it refers to, by name."""


@functools.cache
def stored() -> Tree:
    """What settings.json says: the schema, and under "tasks" the presets and advice of each task."""
    tree: Tree = json.loads(FILE.read_text(encoding="utf-8"))
    return tree


def first_task() -> str:
    """The task that is meant where none is named."""
    return str(next(iter(stored()["tasks"])))


def for_editors() -> str:
    """The schema alone."""
    return json.dumps({key: value for key, value in stored().items() if key != "tasks"}, indent=1)


# From the settings to their schema --------------------------------------------------------------------------


def current() -> Tree:
    """What settings.json has to say."""
    from seqlab.settings import Settings, task_classes
    from seqlab.tasks import DEFAULT
    from seqlab.tasks.task import Size

    tasks = {
        task: {
            "data_example": kind.data_example,
            "default": kind.default,
            "instead": dict(kind.instead),
            "choice": kind.choice,
            "presets": {
                reads: {name: without_numbers(tree) for name, tree in presets.items()}
                for reads, presets in kind.tables(Size()).items()
            },
        }
        for task, kind in sorted(
            task_classes().items(), key=lambda one: one[0] != DEFAULT.kind
        )  # that one first
    }
    found: dict[str, Tree] = {}
    root = schema_of(Settings, found)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **root, "$defs": dict(sorted(found.items())), "tasks": tasks}


def without_numbers(tree: Tree) -> Tree:
    """A preset's kinds and other words, which decide what keys there are and what they may be; rules tune its
    numbers."""
    kept = {name: _without_numbers(below) for name, below in tree.items()}
    return {name: below for name, below in kept.items() if isinstance(below, dict | list | str | None)}


def _without_numbers(below: Any) -> Any:
    """The same of what stands in it: of a list, the groups; of a list of numbers, nothing."""
    if isinstance(below, list):
        return [without_numbers(one) for one in below if isinstance(one, dict)] or 0
    return without_numbers(below) if isinstance(below, dict) else below


def schema_of(hint: Any, found: dict[str, Tree]) -> Tree:
    """The schema of a type. What it refers to is put into `found`."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        names = {cls: name for name, cls in LIMITS.items()}
        limits = {names[type(limit)]: dataclasses.astuple(limit)[0] for limit in parts[1:]}
        return schema_of(parts[0], found) | limits
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(part, found) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple and parts[1:] == (...,):
        one_alone = parts[0] is str  # data.train: reviews.csv
        return {"type": ["array", "string"] if one_alone else "array", "items": schema_of(parts[0], found)}
    if hint == dict[str, str]:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if hint in PLAIN.values():
        return {"type": next(name for name, plain in PLAIN.items() if plain is hint)}
    return {"$ref": PLACE + _described(hint, found)}


def _described(cls: type, found: dict[str, Tree]) -> str:
    """The name of a class of settings, or of the family of a base that several kinds share."""
    family = issubclass(cls, Variant) and not cls.kind
    if family:
        cls = next(base for base in cls.__mro__ if Variant in base.__bases__)
    if cls.__name__ not in found:
        found[cls.__name__] = {}  # it may hold itself
        found[cls.__name__] = _choice(cls, found) if family else _group(cls, found)
    return cls.__name__


def _choice(family: Any, found: dict[str, Tree]) -> Tree:
    """One of the kinds of a family, which may also be named alone."""
    return {
        "anyOf": [{"enum": list(family.kinds)}, *(schema_of(kind, found) for kind in family.kinds.values())]
    }


def _group(cls: Any, found: dict[str, Tree]) -> Tree:
    """A mapping with the fields of a class."""
    hints, notes = typing.get_type_hints(cls, include_extras=True), config.field_notes(cls)
    properties: Tree = {"kind": {"const": cls.kind}} if issubclass(cls, Variant) else {}
    required = []
    for field in dataclasses.fields(cls):
        properties[field.name] = schema_of(hints[field.name], found)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if default is dataclasses.MISSING:
            required.append(field.name)
        else:
            properties[field.name]["default"] = config.dump(default)
        if note := notes.get(field.name):
            properties[field.name]["description"] = note
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def lines_of(tree: Any, depth: int = 4) -> str:
    """JSON with a line for each setting and each preset, so that a change touches few lines."""
    if not depth or not isinstance(tree, dict) or not tree:
        return json.dumps(tree, ensure_ascii=False)
    below = [f"{json.dumps(name)}: {lines_of(value, depth - 1)}" for name, value in tree.items()]
    inside = ",\n".join(below).replace("\n", "\n ")
    return f"{{\n {inside}\n}}"


# And back ---------------------------------------------------------------------------------------------------


@functools.cache
def settings() -> type:
    """The class of all settings."""
    return classes()[_name(stored())]


@functools.cache
def classes() -> dict[str, type]:
    """Classes by name. All of them are made before the first is given fields, because they name each
    other."""
    described: dict[str, Tree] = stored()["$defs"]
    made: dict[str, type] = {}
    for name, below in described.items():
        if "anyOf" in below:
            family = made[name] = types.new_class(name, (Variant,))
            for member in map(_name, below["anyOf"][1:]):
                kind = described[member]["properties"]["kind"]["const"]
                made[member] = types.new_class(member, (family,), {"kind": kind})
    made |= {name: types.new_class(name) for name in described if name not in made}
    for name, below in described.items():
        if "anyOf" not in below:
            _give_fields(made[name], below, made)
    return made


def _give_fields(cls: type, described: Tree, made: dict[str, type]) -> None:
    fields = {name: below for name, below in described["properties"].items() if "const" not in below}
    cls.__annotations__ = {name: hint_of(below, made) for name, below in fields.items()}
    for name, below in fields.items():
        if "default" in below:
            setattr(cls, name, dataclasses.field(default_factory=_default_of(below, made)))
    dataclasses.dataclass(kw_only=True)(cls)


def _default_of(schema: Tree, made: dict[str, type]) -> Callable[[], Any]:
    """What makes the value of a key that is not given."""
    groups = [made[_name(part)] for part in schema.get("anyOf", [schema]) if "$ref" in part]
    if groups and schema["default"] is not None:
        return functools.partial(config.build, groups[0], schema["default"], FILE.name)
    return functools.partial(copy.copy, schema["default"])


def hint_of(schema: Tree, made: dict[str, type]) -> Any:
    """The type that has this schema."""
    if "anyOf" in schema:
        return functools.reduce(operator.or_, (hint_of(part, made) for part in schema["anyOf"]))
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "$ref" in schema:
        return made[_name(schema)]
    if "items" in schema:
        return tuple[hint_of(schema["items"], made), ...]  # type: ignore[misc]
    if schema["type"] == "object":
        return dict[str, str]
    limits = [limit(schema[name]) for name, limit in LIMITS.items() if name in schema]
    plain = PLAIN[schema["type"]]
    return Annotated[plain, *limits] if limits else plain


def _name(reference: Tree) -> str:
    return str(reference["$ref"]).removeprefix(PLACE)


if __name__ == "__main__":
    write_text(FILE, lines_of(current()) + "\n")
    print(f"{FILE} says what the classes of the settings say.")
