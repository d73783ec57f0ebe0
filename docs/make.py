"""Runs what the documents show and writes the true output back.

    python docs/make.py

Two kinds of block are kept true. A ```text block right after a ```python block is what that code prints: all
Python blocks of a document run in order, in an empty folder. A block under `<!-- output of: seqlab ... -->`
is what that command prints. The tests compare both with what stands in the documents
(tests/whole/test_documents.py).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
RUNNING = (
    "tour.md", "models.md", "translate.md", "forecast.md", "generate.md", "pretrain.md", "tag.md", "sound.md",
    "images.md",
)  # fmt: skip
"""Documents whose Python blocks are run."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OUTPUT_OF = re.compile(r"<!-- output of: (.+?) -->\n\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and where that text stands in the document."""

    language: str
    body: str
    start: int
    end: int
    command: str
    """From the comment above it, if there is one."""
    follows: bool
    """Whether nothing but white space is between it and the block before it."""


def blocks(text: str) -> Iterator[Block]:
    last = 0
    for match in _FENCE.finditer(text):
        between = text[last : match.start()]
        told = _OUTPUT_OF.search(between)
        yield Block(
            match[1],
            match[2],
            match.start(2),
            match.end(2),
            told[1] if told else "",
            last > 0 and not between.strip(),
        )
        last = match.end()


def python_outputs(text: str) -> Iterator[tuple[Block | None, str]]:
    """Run the Python blocks of a document in order, in this folder. What each prints, and the block that
    shows it."""
    names: dict[str, Any] = {"__name__": "document"}
    found = list(blocks(text))
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "python":
            continue
        line = text[: block.start].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block.body, "document", "exec"), names)
        shown = after if after is not None and after.follows and after.language == "text" else None
        yield shown, printed.getvalue()


def rewritten(text: str, run: Callable[[str], str], running: bool) -> str:
    """The document with its outputs as they are now."""
    changes = [(block, run(block.command)) for block in blocks(text) if block.command]
    if running:
        changes += [(block, printed) for block, printed in python_outputs(text) if block is not None]
    for block, printed in sorted(changes, key=lambda change: -change[0].start):
        text = text[: block.start] + printed + text[block.end :]
    return text


def command_output(command: str) -> str:
    program, *words = shlex.split(command)
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.environ["SEQLAB_CACHE"] = str(Path(folder) / "cache")
            path.write_text(rewritten(text, command_output, path.name in RUNNING), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
