"""Settings: frozen dataclasses that live beside what they configure, read from YAML and `key.path=value`.

A `Variant` is a family of dataclasses told apart by `kind`: the class is the variant, `kind` its name in
YAML. This file turns plain trees (dicts) into such objects and back. Leaves are validated by pydantic, and
every fault of a tree is reported at once, each with its dotted key. Nothing here knows any particular
setting.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from annotated_types import Ge, Gt, Le, Lt

from seqlab.errors import UserError, did_you_mean, one_of

Positive = Annotated[int, Gt(0)]
Count = Annotated[int, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Probability = Annotated[float, Ge(0), Lt(1)]
Share = Annotated[float, Ge(0), Le(1)]

SEE = "See every key and its meaning with: seqlab init {task}"
Tree = dict[str, Any]
T = TypeVar("T")


class Variant:
    """Base of a family of settings. A direct subclass starts a family; a subclass with `kind=` joins it."""

    kinds: ClassVar[dict[str, type]]
    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if Variant in cls.__bases__:
            cls.kinds = {}
        if kind:
            cls.kind = kind
            cls.kinds[kind] = cls


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one key."""

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" if self.key else self.what


class Contradiction(Fault):
    """Two keys that do not go together, though each is right by itself."""


class RawText(str):
    """A value typed on the command line: text until the type of its key is known."""


def read_yaml(text: str, where: str) -> Tree:
    """The tree in a settings file."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it can't be read"
        raise UserError(
            what=f"{where}{line}: this is not valid YAML: {problem}.",
            why="A settings file is YAML: `key: value`, with deeper keys indented by spaces.",
            fix="Compare it with the output of: seqlab init TASK",
        ) from None
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise UserError(
            what=f"{where}: the settings are a {type(tree).__name__}, not a mapping of keys to values.",
            fix="Start from the output of: seqlab init TASK",
        )
    return tree


def read_file(path: Path) -> Tree:
    """A settings file as a tree."""
    try:
        return read_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UserError(what=f"{path} is not UTF-8 text.", fix="Save the settings file as UTF-8.") from None
    except OSError as error:
        raise UserError(
            what=f"{path} can't be read: {error.strerror}.", fix="Check the name of the settings file."
        ) from None


def write_yaml(tree: Tree) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)


def parse_overrides(words: Iterable[str]) -> dict[str, RawText]:
    """`["training.steps=500"]` → `{"training.steps": "500"}`, text as typed."""
    overrides: dict[str, RawText] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(
                what=f'"{word}" is not a setting.',
                why="Words after the data are settings, written key.path=value.",
                fix="For instance: training.steps=500",
            )
        overrides[key] = RawText(value)
    return overrides


def override(tree: Tree, overrides: Mapping[str, Any], root: type) -> Tree:
    """The tree with dotted keys replaced. A new `kind` keeps those old keys that the new variant has, too."""
    tree = dump(tree)  # unlike a deepcopy, which leaves a group that stands at two places one group
    for key in sorted(overrides, key=lambda key: (not key.endswith("kind"), key.count("."))):
        *above, last = key.split(".")
        node, hint = tree, root
        for name in above:
            hint = _hint_below(hint, node, name)
            if not isinstance(node.get(name), dict):
                node[name] = {}
            node = node[name]
        if (
            last == "kind"
            and (family := _family(hint))
            and (variant := family.kinds.get(str(overrides[key])))
        ):
            known = {field.name for field in dataclasses.fields(variant)}
            for old in [name for name in node if name not in known]:
                del node[old]
        node[last] = overrides[key]
    return tree


def build(cls: type[T], tree: Tree, where: str) -> T:
    """The settings object of a tree, or one UserError that names every fault.

    Contradictions are told when each key is right by itself: one that is not may be the reason for them.
    """
    faults: list[Fault] = []
    settings: T = _build(cls, tree, "", faults)
    if faults:
        faults = [fault for fault in faults if not isinstance(fault, Contradiction)] or faults
        task = tree.get("task")
        raise faulty(
            where, faults, str(task["kind"]) if isinstance(task, dict) and "kind" in task else "TASK"
        )
    return settings


def faulty(where: str, faults: list[Fault], task: str = "TASK") -> UserError:
    """One error for all faults."""
    fix = SEE.format(task=task)
    if len(faults) == 1:
        return UserError(
            what=f"{where}: {faults[0]}",
            why="Settings are checked before anything is read or written.",
            fix=fix,
        )
    lines = "\n".join(f"- {fault}" for fault in faults)
    return UserError(what=f"{where}: {len(faults)} settings are wrong.", why=lines, fix=fix)


def dump(settings: Any) -> Any:
    """The plain tree of a settings object: what `build` reads."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        tree: Tree = {"kind": settings.kind} if isinstance(settings, Variant) else {}
        for field in dataclasses.fields(settings):
            tree[field.name] = dump(getattr(settings, field.name))
        return tree
    if isinstance(settings, (list, tuple)):
        return [dump(item) for item in settings]
    if isinstance(settings, dict):
        return {str(key): dump(value) for key, value in settings.items()}
    return settings


def commented(settings: Any, indent: int = 0) -> str:
    """YAML with every key's meaning beside it, for `seqlab init`."""
    lines: list[str] = []
    pad = "  " * indent
    if isinstance(settings, Variant):
        choices = f"   # one of: {', '.join(type(settings).kinds)}" if len(type(settings).kinds) > 1 else ""
        lines.append(f"{pad}kind: {settings.kind}{choices}")
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            lines += [f"{pad}{field.name}:", commented(value, indent + 1)]
            continue
        note = field_notes(type(settings)).get(field.name, "") + _choices(type(settings), field.name)
        lines += [f"{pad}# {line}" for line in textwrap.wrap(note, 100)]
        lines.append(f"{pad}{field.name}: {_one_line(value)}".rstrip())
    return "\n".join(lines)


def _choices(cls: type, name: str) -> str:
    """What a field that takes one of a few words takes."""
    hint = typing.get_type_hints(cls, include_extras=True)[name]
    hint = _optional(hint) or hint
    return (
        f" One of: {', '.join(map(str, typing.get_args(hint)))}."
        if typing.get_origin(hint) is typing.Literal
        else ""
    )


def _one_line(value: Any) -> str:
    """A value as YAML writes it within a line; nothing for None."""
    if value is None:
        return ""
    return (
        yaml.safe_dump(dump(value), default_flow_style=True, width=1000).strip().removesuffix("...").strip()
    )


def field_notes(cls: type) -> dict[str, str]:
    """The docstring under each field, by field name."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]).body
        for line, below in itertools.pairwise(body):
            match line, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(note))):
                    notes[name] = " ".join(note.split())
    return notes


def _build(hint: Any, value: Any, key: str, faults: list[Fault]) -> Any:
    """The object that `value` describes; faults are added to the list and None comes back for the faulty
    part."""
    if (choices := _optional(hint)) is not None:
        if value is None or (isinstance(value, RawText) and value.lower() in ("", "null", "none", "~")):
            return None
        hint = choices
    if _family(hint) or dataclasses.is_dataclass(hint):
        return _build_object(hint, value, key, faults)
    if (
        typing.get_origin(hint) is tuple
        and (item := typing.get_args(hint)[0])
        and (_family(item) or item is str)
    ):
        if isinstance(value, RawText):
            value = value.split(",") if item is str else yaml.safe_load(value)
        if item is str and isinstance(value, str):
            value = [value]
        if not isinstance(value, (list, tuple)):
            faults.append(Fault(key, f"{value!r} is not a list."))
            return None
        return tuple(_build(item, part, f"{key}[{place}]", faults) for place, part in enumerate(value))
    return _build_leaf(hint, value, key, faults)


def _build_object(hint: Any, value: Any, key: str, faults: list[Fault]) -> Any:
    cls = hint
    if isinstance(value, RawText):
        value = {"kind": value} if _family(hint) and not value.startswith("{") else _parse(value)
    if dataclasses.is_dataclass(value) and isinstance(value, hint):
        return value
    if isinstance(value, str) and _family(hint):
        value = {"kind": value}
    if not isinstance(value, dict):
        faults.append(Fault(key, f"{value!r} is not a group of settings."))
        return None
    value = dict(value)
    if family := _family(hint):
        kind = str(value.pop("kind", cls.kind))
        if not kind:
            faults.append(Fault(key, f"`kind` is missing; it is {one_of(family.kinds)}."))
            return None
        if kind not in family.kinds:
            name = f"{key}.kind".lstrip(".")
            known = f"it is {one_of(family.kinds)}.{did_you_mean(kind, family.kinds)}"
            faults.append(Fault(name, f'there is no "{kind}"; {known}'))
            return None
        cls = family.kinds[kind]
        if not issubclass(cls, hint):  # where one kind alone has a place
            faults.append(Fault(f"{key}.kind".lstrip("."), f'it is "{hint.kind}" here, not "{kind}".'))
            return None
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    below = (key + ".").lstrip(".")
    for name in value:
        if name not in fields:
            kind = f' of kind "{cls.kind}"' if _family(hint) else ""
            known = f"{did_you_mean(str(name), fields)} Known: {', '.join(fields) or 'none'}."
            faults.append(Fault(below + str(name), f"there is no such key{kind}.{known}"))
    before = len(faults)
    given = {
        name: _build(hints[name], _upon_default(value[name], field), below + name, faults)
        # in their own order, whatever was written first, the user or a preset
        for name, field in fields.items()
        if name in value
    }
    for name, field in fields.items():
        if (
            name not in value
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            faults.append(Fault(below + name, "this key is missing."))
    if len(faults) > before:
        return None
    try:
        return cls(**given)
    except ValueError as error:  # __post_init__ says how two keys contradict each other
        faults.append(Contradiction(key, str(error)))
        return None


def _upon_default(value: Any, field: dataclasses.Field[Any]) -> Any:
    """A group of settings that names no kind, or the default's, changes the default instead of starting
    anew."""
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if not isinstance(value, dict) or not dataclasses.is_dataclass(default):
        return value
    tree = dump(default)
    return {**tree, **value} if value.get("kind", tree.get("kind")) == tree.get("kind") else value


def _build_leaf(hint: Any, value: Any, key: str, faults: list[Fault]) -> Any:
    import pydantic  # 0.1 s that `seqlab --help` does not pay

    adapter = _adapter(hint)
    if hint == dict[str, str] and isinstance(value, dict):
        return {str(name): _build_leaf(str, below, f"{key}.{name}", faults) for name, below in value.items()}
    if typing.get_origin(hint) is tuple and isinstance(value, RawText):
        value = [_parse(part) for part in value.strip("[]()").split(",") if part.strip()]
    tries = [value]
    if isinstance(value, RawText):
        tries = [str(value), _parse(value)] if _accepts_text(hint) else [_parse(value), str(value)]
    elif isinstance(value, bool) and _accepts_text(hint) and not _accepts_bool(hint):
        quoted = f'{key.split(".")[-1]}: "..."'
        faults.append(
            Fault(key, f"YAML reads yes, no, on and off as true or false. Quote the word: {quoted}")
        )
        return None
    elif isinstance(value, bool) and not _accepts_bool(hint):
        faults.append(Fault(key, f"{str(value).lower()} is not a number."))
        return None
    elif isinstance(value, (int, float)) and _accepts_text(hint):
        tries = [value, str(value)]  # a column named 2024 is a column
    for one in tries:
        try:
            return adapter.validate_python(one)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
    faults.append(Fault(key, f"{_shown(value)}: {_in_plain_words(first)}."))
    return None


@functools.cache
def _adapter(hint: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(hint)


def _in_plain_words(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Input ").replace("Input", "it")
    return message[0].lower() + message[1:]


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _parse(text: str) -> Any:
    """A command-line value as YAML reads it; text that is no YAML stays text."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return str(text)


def _leaf_types(hint: Any) -> list[Any]:
    if typing.get_origin(hint) is Annotated:
        return _leaf_types(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [leaf for part in typing.get_args(hint) for leaf in _leaf_types(part)]
    if typing.get_origin(hint) is typing.Literal:
        return [type(choice) for choice in typing.get_args(hint)]
    return [hint]


def _accepts_text(hint: Any) -> bool:
    return str in _leaf_types(hint)


def _accepts_bool(hint: Any) -> bool:
    return bool in _leaf_types(hint)


def _optional(hint: Any) -> Any:
    """X for `X | None`, else None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(parts) < len(typing.get_args(hint)):
            return functools.reduce(lambda a, b: a | b, parts)
    return None


def _family(hint: Any) -> Any:
    return hint if isinstance(hint, type) and issubclass(hint, Variant) else None


def _hint_below(hint: Any, node: Tree, name: str) -> Any:
    """The type of the setting `name` under `hint`, or None where it is not known."""
    cls = hint
    if (family := _family(hint)) and isinstance(node, dict):
        cls = family.kinds.get(str(node.get("kind", hint.kind)))
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return None
    below = typing.get_type_hints(cls, include_extras=True).get(name)
    return _optional(below) or below
