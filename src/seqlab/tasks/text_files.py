"""Files of text without labels, as `generate` and `pretrain` take them: running text, or rows that are texts of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from seqlab.data.files import find
from seqlab.data.read import DataConfig, Table
from seqlab.data.stream import TEXT, Text
from seqlab.data.survey import Problem
from seqlab.data.survey_text import TextSurvey, look_at
from seqlab.data.text import Tokenizer, TokensConfig
from seqlab.folder import TOKENIZER
from seqlab.tasks.task import Files, Size, TaskConfig, good_rows, same_columns

Flow = Literal["text", "rows"]


def open_table(names: Sequence[str], data: DataConfig, flow: Flow) -> Table:
    """Files as running text or as rows."""
    return Text(names, data) if flow == "text" else Table(names, data, [TEXT])


class TextFiles(Files):
    """The files of a run, looked at once."""

    cuts: ClassVar[bool] = True
    """Whether rows that are too long lose their end; else they are read in blocks."""

    def __init__(self, task: TaskConfig, data: DataConfig, flow: Flow | None, keep_all_faults: bool = False) -> None:
        self.task, self.data = task, data
        tables = any(source.format not in ("txt", "") for source in find(data.train))
        self.flow: Flow = flow or ("rows" if tables else "text")
        self.tables: dict[str, Table] = {}
        for split, names in {"train": data.train, "valid": data.valid, "test": data.test}.items():
            if names:
                like_train = data if split == "train" else same_columns(data, self.tables["train"].found)
                self.tables[split] = open_table(names, like_train, self.flow)
        looked = {split: look_at(split, table, keep_all_faults) for split, table in self.tables.items()}
        self.survey = TextSurvey(looked, self.cuts)
        self.characters = self.survey.train.characters

    def problems(self) -> list[Problem]:
        return self.survey.problems()

    def lines(self) -> list[str]:
        what = {"text": "running text, line ends included", "rows": "each row is a text of its own"}[self.flow]
        return [f"task.flow is {self.flow}: {what}", *self.survey.lines()]

    @property
    def size(self) -> Size:
        train = self.survey.train
        return Size(rows=train.rows, words=train.words / max(1, train.rows), characters=train.characters)

    def train_tokenizer(self, tokens: TokensConfig, folder: Path) -> Tokenizer:
        """A tokenizer for the training texts, saved in the folder."""
        chosen = ~self.survey.held
        tokenizer = tokens.train(row.cells["text"] for row in good_rows(self.tables["train"], chosen))
        tokenizer.save(folder / TOKENIZER)
        return tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder / TOKENIZER)
