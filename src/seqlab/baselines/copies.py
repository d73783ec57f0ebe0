"""Baselines of what writes: the source as it is, and each word as it is most often translated."""

from __future__ import annotations

from pathlib import Path

from seqlab.answers.answer import Judged
from seqlab.answers.written import Items, WrittenAnswer
from seqlab.baselines import word_table
from seqlab.baselines.baseline import Baseline, Lesson
from seqlab.baselines.word_table import FILE, WordTable
from seqlab.data.tokenizers import CharacterTokens, TokensConfig, WordTokens


class Copy(Baseline):
    """The source."""

    name = "copy"
    does = "the source as it is"
    learns = False

    def judge(self, part: Items) -> Judged:
        return Judged(part.sources, part.references)


class WordByWord(Baseline):
    """A table that says of each word, letter or symbol what it most often becomes."""

    name = "word table"
    does = "each word as it is most often translated"
    answer: WrittenAnswer

    def __init__(self, answer: WrittenAnswer, table: WordTable) -> None:
        super().__init__(answer)
        self.table = table
        data = answer.known.data
        self.kinds = _kind(data.tokens), _kind(data.target_tokens or data.tokens)

    @classmethod
    def learn(cls, lesson: Lesson, folder: Path) -> Baseline:
        answer = lesson.answer
        assert isinstance(answer, WrittenAnswer)
        one, two = cls(answer, WordTable({})).kinds
        pairs = (
            (word_table.split_tokens(row["source"], one), word_table.split_tokens(row["target"], two))
            for row in lesson.rows()
        )
        table = WordTable.train(pairs)
        table.save(folder)
        return cls(answer, table)

    @classmethod
    def load(cls, answer: WrittenAnswer, folder: Path) -> Baseline | None:
        return cls(answer, WordTable.load(folder)) if (folder / FILE).exists() else None

    def judge(self, part: Items) -> Judged:
        return Judged([self.translated(source) for source in part.sources], part.references)

    def translated(self, source: str) -> str:
        one, two = self.kinds
        return word_table.join(self.table.translate(word_table.split_tokens(source, one)), two)


def _kind(tokens: TokensConfig) -> word_table.TokenUnit:
    """How a side is cut for the table."""
    if isinstance(tokens, CharacterTokens):
        return "characters"
    return "symbols" if isinstance(tokens, WordTokens) and tokens.split == "spaces" else "words"
