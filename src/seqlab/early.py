"""Mistakes that are told before torch is imported, which takes seconds.

The whole check comes afterwards and calls the same functions, so the wording is the same. It knows more: what
can't be known for sure here is left to it. Where torch is imported already, somebody calls the command from
Python: nothing is to be gained, and there may be tasks and parts of theirs that settings.json does not know.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from seqlab import config, schema
from seqlab.config import Tree
from seqlab.data.files import find
from seqlab.folder import CONFIG, FACTS, SCORES, read_part, refuse_taken, stored_tree
from seqlab.request import (
    Request,
    known_model,
    known_preset,
    known_task,
    of_model,
    refuse_no_data,
    refuse_other,
    task_of,
)

CommandArguments = ParamSpec("CommandArguments")
OF_THE_START = ("task", "model", "data.tokens", "data.target_tokens")
"""Settings that come from the run to start from, so that only this run tells what keys they have."""


def before_torch(check: Callable[CommandArguments, None]) -> Callable[CommandArguments, None]:
    """A check that is left out where torch is there already."""

    @functools.wraps(check)
    def checked(*given: CommandArguments.args, **named: CommandArguments.kwargs) -> None:
        if "torch" not in sys.modules:
            check(*given, **named)

    return checked


@before_torch
def train(request: Request, out: str) -> None:
    """What `seqlab train` may be told wrong: the run to start from, the settings, the data, the folder."""
    if request.start:
        _read_run(request.start)
        if _depends_on_start(request):
            return
    data = _data_of(request, "train")
    if out:
        refuse_taken(Path(out))
    find_all(data)


@before_torch
def check(request: Request) -> None:
    find_all(_data_of(request, "check"))


@before_torch
def init(request: Request) -> None:
    _settings_of(request)


@before_torch
def resume(folder: str) -> None:
    settings: Any = config.build(schema.settings(), stored_tree(Path(folder)), str(Path(folder) / CONFIG))
    read_part(Path(folder) / FACTS)
    if not (Path(folder) / SCORES).exists():
        find_all(_files(settings))


@before_torch
def use(folder: str, data: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> None:
    """A run, and the files and settings that it is used with."""
    trained, told = _read_run(folder, overrides)
    refuse_other(trained, told, overrides or ())
    find_all(data)


@before_torch
def inspect(name: str, task: str, overrides: Mapping[str, Any]) -> None:
    """A run, a preset or a settings file, and settings on top."""
    if (Path(name) / CONFIG).exists():
        _read_run(name, overrides, where=name)
    else:
        presets = {task: set().union(*about["presets"].values()) for task, about in _tasks().items()}
        if not task:
            known_model(name, presets)
        _settings_of(of_model(name, task or task_of(name, presets, schema.first_task()), overrides))


def find_all(names: Sequence[str]) -> None:
    """Refuse files that are not there. Standard input is not read, and endings are left to the task."""
    find([name for name in names if name != "-"], any_ending=True)


def stored_preset(request: Request, task: str, preset: str) -> Tree:
    """A preset as settings.json has it: its numbers are the default ones."""
    about = _tasks()[known_task(task, _tasks())]
    tables, usual = about["presets"], request.usual(about["default"], about["instead"])
    choice = about["choice"]
    return known_preset(task, preset, tables, request.reads(tables, choice), usual, choice)


def _tasks() -> dict[str, Tree]:
    tasks: dict[str, Tree] = schema.stored()["tasks"]
    return tasks


def _settings_of(request: Request) -> Any:
    """Settings in classes that do nothing."""
    return request.built(functools.partial(stored_preset, request), schema.settings())


def _data_of(request: Request, verb: str) -> tuple[str, ...]:
    """The files that are named, after a look at all settings."""
    settings = _settings_of(request)
    task = settings.task.kind
    refuse_no_data(settings.data.train, verb, task, _tasks()[task]["data_example"])
    return _files(settings)


def _files(settings: Any) -> tuple[str, ...]:
    return (*settings.data.train, *settings.data.valid, *settings.data.test)


def _read_run(
    folder: str, overrides: Mapping[str, Any] | None = None, where: str = "settings"
) -> tuple[Tree, Tree]:
    """A run's settings, and those with some changed; its facts are read, too."""
    path, root = Path(folder) / CONFIG, schema.settings()
    settings: Any = config.build(root, read_part(path), str(path))
    read_part(Path(folder) / FACTS)
    trained = config.dump(settings)
    told: Any = config.build(root, config.override(trained, overrides or {}, root), where)
    return trained, config.dump(told)


def _depends_on_start(request: Request) -> bool:
    """Whether settings are given that may stand below those of the run to start from."""
    given = [f"{key}." for key in request.overrides or {}]
    return request.tree is not None or any(
        key.startswith(f"{part}.") for key in given for part in OF_THE_START
    )
