"""Errors that a user can act on: what happened, why it matters, how to go on."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
"""Numbers by which the operating system says that a disk is full or broken."""


class SeqlabError(Exception):
    """An ending that is told in three lines, without a traceback.

    what: the file and line, or the dotted key, and the value we got.
    why:  what makes it a problem.
    fix:  something to paste or to do.
    """

    exit_code = 1

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.fix = what, why, fix

    def __str__(self) -> str:
        first, *rest = [
            line for part in (self.what, self.why, self.fix) for line in part.splitlines() if line
        ]
        return "\n".join([first, *("  " + line for line in rest)])


class UserError(SeqlabError):
    """The input or the settings are at fault."""

    exit_code = 2


class MachineError(SeqlabError):
    """The machine gave out (disk, memory), or training diverged."""

    exit_code = 3


class Stopped(SeqlabError):
    """Somebody stopped us, and the state is saved: exit 130 after Ctrl-C, 143 after SIGTERM."""

    def __init__(self, signal: int, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.exit_code = 128 + signal


def number_of(error: BaseException) -> int | None:
    """The operating system's number of an error; safetensors tells it in its words alone."""
    if isinstance(error, OSError):
        return error.errno
    told = re.search(r"\(os error (\d+)\)", str(error))
    return int(told[1]) if told else None


def in_plain_words(error: Exception) -> SeqlabError | None:
    """What to tell when memory, disk or file system refuse; None for anything else, which is a defect of
    ours."""
    number, words = number_of(error), str(error)
    if (
        isinstance(error, MemoryError)
        or number == errno.ENOMEM
        or re.search(r"can't allocate memory|out of memory", words)
    ):
        return MachineError(
            what="The machine has no memory left.",
            why=words.splitlines()[0][:200] if words else "",
            fix="Try a smaller training.batch_tokens, data.length or model, or end other programs.",
        )
    if number in DISK:
        return MachineError(
            what=(
                f"{getattr(error, 'filename', None) or 'Something'} could not be written:"
                f" {os.strerror(number)}."
            ),
            why="The disk is full or broken.",
            fix="Free some space, then go on; a training run continues with: seqlab train --resume DIR",
        )
    if isinstance(error, OSError) and error.filename:
        return UserError(
            what=f"{error.filename}: {error.strerror}.",
            why="The operating system refuses it.",
            fix="Check the name, and who may read and write there.",
        )
    return None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean "lstm"?' when something close is known, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{close[0]}"?' if close else ""


def one_of(known: Iterable[str]) -> str:
    """'a, b or c', for a sentence that lists the choices."""
    *most, last = list(known)
    return f"{', '.join(most)} or {last}" if most else last
