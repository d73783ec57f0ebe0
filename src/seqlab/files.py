"""Saves that are whole or not there: write beside, fsync, rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seqlab.errors import DISK, MachineError, UserError, number_of

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


@contextmanager
def disk_trouble(what: str) -> Iterator[None]:
    """Turns a full or broken disk into an error that says so."""
    try:
        yield
    except Exception as error:
        number = number_of(error)
        if number not in DISK:
            raise
        raise MachineError(
            what=f"{what}: {os.strerror(number)}.",
            why="Nothing was half-written: the files that were there before are as they were.",
            fix="Free some space, then go on; a training run continues with: seqlab train --resume DIR",
        ) from None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """No other process may be in here with the same folder. It ends with this process, even by SIGKILL."""
    handle = locked(folder)
    if handle is None:
        raise UserError(
            what=f"Another process is training {folder}.",
            why="Two of them would write over each other's files.",
            fix="Wait for it or stop it; what it saved can then be gone on with.",
        )
    try:
        yield
    finally:
        os.close(handle)


def locked(folder: Path) -> int | None:
    """A handle that locks a folder until it is closed or this process ends; None where another has it."""
    if fcntl is None:  # a system without such locks
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A path to write to; it takes the name `path` only when the block ends well."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with disk_trouble(f"{path} could not be saved"):
        try:
            yield beside
            usual_permissions(beside)
            flush(beside)
            os.replace(beside, path)
            flush(path.parent)
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """An empty folder to fill; it takes the name `path` only when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with disk_trouble(f"{path} could not be saved"):
        try:
            shutil.rmtree(beside, ignore_errors=True)  # a killed process may have had our number
            beside.mkdir()
            yield beside
            for file in (*beside.iterdir(), beside):
                flush(file)
            try:
                beside.rename(path)
            except OSError as error:
                if error.errno not in (
                    errno.ENOTEMPTY,
                    errno.EEXIST,
                ):  # another process may have been first with the same
                    raise
            flush(path.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def new_folder(names: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """The first of these names that no other process has, and an empty folder to fill.

    The name is ours from the start of the block, by a lock on the folder beside it, which takes the name when
    the block ends well. Nothing stays of a block that fails. A process that is killed leaves a hidden folder
    without a lock: the next one that wants the name takes it over.
    """
    for path in names:
        beside = path.with_name(f".{path.name}.part")
        made = [parent for parent in path.parents if not parent.exists()]
        handle = _made_and_locked(beside)
        if handle is None:
            continue
        try:
            if path.exists():  # the process that had the lock before us has finished
                continue
            yield path, beside
            with disk_trouble(f"{path} could not be saved"):
                for file in (*beside.iterdir(), beside):
                    flush(file)
                beside.rename(path)
                flush(path.parent)
            return
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            for parent in made:
                with suppress(OSError):  # one that is not empty stays
                    parent.rmdir()
            os.close(handle)
    raise UserError(
        what=f"Another process has taken {path}.",
        why="Two of them would write over each other's files.",
        fix=f"Choose another --out, for instance: --out {path}-2",
    )


def _made_and_locked(folder: Path) -> int | None:
    """The lock of a folder, now empty, that a killed process may have left; None where another has it."""
    while True:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(exist_ok=True)
            handle = locked(folder)
            if handle is None:
                return None
            if fcntl is None or os.path.samestat(os.stat(folder), os.fstat(handle)):
                break
            os.close(handle)  # it has got another name since we opened it
        except FileNotFoundError:  # the process that had it was just removing it
            continue
    for inner in folder.iterdir():
        shutil.rmtree(inner) if inner.is_dir() else inner.unlink()
    return handle


def clear_unfinished(folder: Path) -> None:
    """Remove what a killed process was writing in a folder that is ours alone."""
    for beside in folder.glob(".*.part"):
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: Path, tree: Any) -> None:
    write_text(path, json.dumps(tree, indent=1, ensure_ascii=False) + "\n")


def usual_permissions(path: Path) -> None:
    """Let others at a file as far as the umask does; safetensors makes its files for their owner alone."""
    mask = os.umask(0o077)  # the only way to read it is to set it
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
