"""What a user asked for: a task and a preset, or a settings file, and settings on top; said without torch."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seqlab import config
from seqlab.config import Tree
from seqlab.data.kinds import kind_of
from seqlab.errors import UserError, did_you_mean, one_of

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What a user asked for, before the data is known."""

    task: str = ""
    preset: str = ""
    tree: Tree | None = None
    """From a settings file, instead of a preset."""
    overrides: Mapping[str, Any] | None = None
    where: str = "settings"
    adapt: Callable[[Tree, str], Tree] | None = None
    """What puts the body of a trained run into a tree of settings, given the task."""

    def built(self, preset_tree: Callable[[str, str], Tree], root: type[T]) -> T:
        """The settings, an object of the class `root`; `preset_tree` gives the tree of a task's preset."""
        if self.tree is None:
            tree = preset_tree(self.task, self.preset)
        elif self.preset:  # the model of the preset, the rest as the file says
            rest = {part: below for part, below in self.tree.items() if part != "model"}
            if isinstance(how := rest.get("decode"), dict):
                rest["decode"] = searching(how)
            tree = merge_trees(preset_tree(self.task, self.preset), rest)
        else:
            tree = self.tree
        if self.adapt is not None:
            parts = dict(self.overrides or {}).get("transfer.parts")
            told = merge_trees(tree, {"transfer": {"parts": str(parts)}}) if parts else tree
            tree = self.adapt(told, self.task or str(dict(tree.get("task", {})).get("kind", "")))
        tree = config.override(tree, searching(self.overrides or {}, "decode."), root)
        return config.build(root, tree, self.where)

    def reads(self, tables: Mapping[str, Mapping[str, Tree]], choice: str = "reads") -> str:
        """What is read: as told, as the first file looks, or as the preset needs it; else the first of all.

        `tables` are the presets of the task, by what they read; `choice` is the setting of the task that says
        which. Only of "reads" a file tells.
        """
        if len(tables) == 1:
            return next(iter(tables))
        given, tree = dict(self.overrides or {}), self.tree or {}
        task, data = (part if isinstance(part := tree.get(name), dict) else {} for name in ("task", "data"))
        if told := str(given.get(f"task.{choice}") or task.get(choice) or ""):
            return told if told in tables else next(iter(tables))
        if choice != "reads":
            return next(iter(tables))
        names = given.get("data.train") or data.get("train") or ()
        columns = dict(data.get("columns") or {})
        columns |= {
            key.removeprefix("data.columns."): str(name) for key, name in given.items() if ".columns." in key
        }
        if names:
            return kind_of(
                [str(name) for name in ([names] if isinstance(names, str) else names)], columns, list(tables)
            )
        return next((reads for reads, table in tables.items() if self.preset in table), next(iter(tables)))

    def usual(self, default: str, instead: Mapping[str, str]) -> str:
        """The preset where none is named: the default one, or another where settings of the task call for
        it."""
        task = (self.tree or {}).get("task")
        told = {f"task.{key}": value for key, value in task.items()} if isinstance(task, dict) else {}
        given = {f"{key}={value}" for key, value in {**told, **dict(self.overrides or {})}.items()}
        return next((preset for setting, preset in instead.items() if setting in given), default)

    @property
    def start(self) -> str:
        """The folder of the run to start from; empty where none is named."""
        transfer = (self.tree or {}).get("transfer")
        in_file = transfer.get("start") if isinstance(transfer, dict) else ""
        return str((self.overrides or {}).get("transfer.start") or in_file or "")


def known_task(task: str, tasks: Iterable[str]) -> str:
    if task not in (known := list(tasks)):
        raise UserError(
            what=f'There is no task "{task}".{did_you_mean(task, known)}',
            why=f"seqlab has {one_of(known)}.",
            fix=f"Write: seqlab train {known[0]} DATA",
        )
    return task


def known_preset(
    task: str,
    preset: str,
    tables: Mapping[str, Mapping[str, Tree]],
    reads: str,
    default: str,
    choice: str = "reads",
) -> Tree:
    """The settings tree of a preset of a task, or of its default preset; `tables` are by what is read, the
    usual first, as the setting `choice` of the task says."""
    table = tables[reads]
    usual = default if default in table else next(iter(table))
    name = preset or usual
    if name not in table:
        others = [other for other, presets in tables.items() if name in presets]
        elsewhere = f" It reads {one_of(others)}; these data are {reads} (task.{choice})." if others else ""
        raise UserError(
            what=f'There is no model "{name}" for {task}.{did_you_mean(name, table)}',
            why=f"The presets of {task} are {one_of(table)}.{elsewhere}",
            fix=(
                f"Choose one with --model, for instance --model {usual}; its parts can be changed with"
                " key.path=value."
            ),
        )
    what = {"kind": task} | ({choice: reads} if reads != next(iter(tables)) else {})
    return {
        "task": what,
        **{part: dict(below) for part, below in merge_trees({"task": what}, table[name]).items()},
    }


def of_model(name: str, task: str, overrides: Mapping[str, Any]) -> Request:
    """What `inspect` is asked for: the model of a preset or of a settings file."""
    if name.endswith((".yaml", ".yml")):
        return Request(task=task, tree=config.read_file(Path(name)), overrides=overrides, where=name)
    return Request(task=task, preset=name, overrides=overrides)


def task_of(preset: str, tables: Mapping[str, Container[str]], default: str) -> str:
    """The first task that has this preset; the default one where none has."""
    return next((task for task, presets in tables.items() if preset in presets), default)


def known_model(name: str, tables: Mapping[str, Container[str]]) -> None:
    """A UserError where a name is neither a settings file nor a preset of any task."""
    if name.endswith((".yaml", ".yml")) or any(name in presets for presets in tables.values()):
        return
    known = [preset for presets in tables.values() if isinstance(presets, Iterable) for preset in presets]
    raise UserError(
        what=f'There is no run, preset or settings file "{name}".{did_you_mean(name, sorted(set(known)))}',
        why="inspect takes any number of them, and key=value settings that are meant for all.",
        fix="A preset of any task: seqlab init TASK lists them with a wrong --model. A run: ls runs",
    )


def refuse_no_page(out: str) -> None:
    """A UserError where no page can be written there; nothing is no page."""
    if out and Path(out).suffix not in (".html", ".htm"):
        raise UserError(
            what=f"--out is {out}.",
            why="What a model costs is drawn as a page.",
            fix=f"For instance: --out {Path(out).stem or 'costs'}.html",
        )
    if out and not Path(out).parent.is_dir():
        folder = Path(out).parent
        raise UserError(
            what=f"{out}: there is no folder {folder}.",
            why="Folders are not made unasked.",
            fix=f"Make it first: mkdir -p {folder}",
        )


LONGEST = 2**24
"""Positions that `inspect` counts up to."""


def lengths_of(told: str) -> tuple[int, ...]:
    """The lengths that 128 or 64..4096 names: of a range, powers of two times its beginning, and its end."""
    first, dots, last = told.partition("..")
    try:
        low, high = int(first), int(last) if dots else int(first)
    except ValueError:
        low = high = 0
        if not first.lstrip("-").isdigit() or dots:
            raise UserError(
                what=f"--length is {told}.",
                why="It is a number of positions, or two of them with .. between for a range.",
                fix="For instance: --length 128, or --length 64..4096",
            ) from None
    if low < 1:
        raise UserError(
            what=f"--length is {told}.", why="There is at least one of them.", fix="For instance: --length 2"
        )
    if high < low or high > LONGEST:
        limit = f"a range ends at {LONGEST:,} at the most" if high > LONGEST else "a range goes upwards"
        raise UserError(
            what=f"--length is {told}.",
            why=f"Lengths are doubled from the first to the last: {limit}.",
            fix="For instance: --length 64..4096",
        )
    found = [low]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    return tuple(found if found[-1] == high else [*found, high])


def refuse_no_data(names: Sequence[str], verb: str, task: str, example: str) -> None:
    if not names:
        why = {"train": "Training needs a file.", "check": "There is nothing to look at."}[verb]
        raise UserError(what="No data is named.", why=why, fix=f"Write: seqlab {verb} {task} {example}")


def merge_trees(below: Tree, above: Tree) -> Tree:
    """Two trees as one; where both have a key, `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge_trees(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


DECIDED = ("task", "model", "training", "transfer", "data.image", "data.sound")
"""Groups of settings that decided what was trained ..."""
LIMITS = ("data.image.most_pixels", "data.sound.longest")
"""... and those in them that only say what is refused."""


def refuse_other(trained: Tree, told: Tree, keys: Iterable[str]) -> None:
    """A UserError where a setting that decided what was trained is told, and is another than it was then.

    `trained` are the settings of the run as a tree, `told` those with the new ones on top.
    """
    for key in keys:
        before, now = _value_at(trained, key), _value_at(told, key)
        decided = any(f"{key}.".startswith(f"{group}.") for group in DECIDED) and key not in LIMITS
        if decided and before != now:
            raise UserError(
                what=f"settings: {key} is {_written(now)}, but the run was trained with {_written(before)}.",
                why="A trained run is used as it was trained: only which data is read and how answers are"
                " written (data.*, decode.*) can be told anew.",
                fix=f"Leave it out, or train another run with {key}={_written(now)}",
            )


def _value_at(tree: Tree, key: str) -> Any:
    """What stands at a dotted key; None where nothing does."""
    value: Any = tree
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _written(value: Any) -> str:
    """A value as it is typed in a setting."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def searching(asked: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings of decoding with what follows from them: a beam turns `sample` off, unless that is given, too.

    `before` is what stands before the keys: "decode." in dotted ones.
    """
    beam, sample = f"{before}beam", f"{before}sample"
    follows = str(asked.get(beam, 1)) != "1" and sample not in asked
    return {**asked, sample: False} if follows else dict(asked)
