"""What every run can do whatever its task; a run is its folder."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from seqlab import config
from seqlab.data.read import DataConfig, Role, Row, Table
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.files import write_json, write_text
from seqlab.folder import CONFIG, FACTS, FORMAT, WEIGHTS, damaged, read_part
from seqlab.memory import keep_big_blocks
from seqlab.model import Model
from seqlab.report.attention import Explanation
from seqlab.report.evaluate import Scores
from seqlab.report.page import Example
from seqlab.request import searching
from seqlab.settings import Settings
from seqlab.tasks.task import Files, Prepared, TaskConfig, TaskFacts, chunks, same_columns
from seqlab.training.checkpoint import load_weights

Text = str | tuple[str, str]
"""A text, or a pair of texts."""
Ask = Literal["answer", "vector", "score"]
"""What is wanted for a text: what predict gives, or with --embed, or with --score."""
Method = TypeVar("Method", bound=Callable[..., Any])


def one_or_many(method: Method) -> Method:
    """A method of texts that gives one answer, not a list, for a single text or a single pair (a tuple).

    A text is itself a sequence of letters: without this, each of them would be answered.
    """

    @wraps(method)
    def answered(run: Run, texts: Text | Sequence[Text], *others: Any, **named: Any) -> Any:
        pair = isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(text, str) for text in texts)
        if not pair and not isinstance(texts, str):
            return method(run, texts, *others, **named)
        [answer] = method(run, [texts], *others, **named)
        return answer

    return cast(Method, answered)


@runtime_checkable
class Answer(Protocol):
    """What a model says of one input."""

    def to_json(self) -> dict[str, Any]:
        """As promised for `predict --json`."""

    def shown(self) -> str:
        """In a line on a terminal."""

    def columns(self) -> dict[str, Any]:
        """The columns that it adds to a table."""


@dataclass(frozen=True)
class TextScore:
    """How well a model foresees one text."""

    perplexity: float
    """exp of the mean nats of a piece."""
    bits_per_character: float
    kind: Literal["perplexity", "pseudo-perplexity"]
    """pseudo-perplexity: each piece is foreseen from both sides, so that the product is no probability of the text."""

    @classmethod
    def of(cls, nats: float, pieces: int, characters: int, pseudo: bool = False) -> TextScore:
        bits = nats / math.log(2) / max(1, characters)
        return cls(math.exp(min(700.0, nats / max(1, pieces))), bits, "pseudo-perplexity" if pseudo else "perplexity")

    def to_json(self) -> dict[str, Any]:
        return {
            "perplexity": round(self.perplexity, 6), "bits_per_character": round(self.bits_per_character, 6), "kind": self.kind,
        }

    def shown(self) -> str:
        return f"{self.kind} {self.perplexity:.4g}\t{self.bits_per_character:.3f} bits per character"

    def columns(self) -> dict[str, Any]:
        return {self.kind.replace("-", "_"): self.perplexity, "bits_per_character": self.bits_per_character}


@dataclass(frozen=True)
class Findings:
    """What the end of a training session found out about a model."""

    scores: Scores
    worst: Sequence[Example] = ()
    """Where it went most wrong."""
    maps: Sequence[Explanation] = ()
    samples: Sequence[str] = ()
    """What it wrote, with nothing to compare with."""
    by_length: Mapping[str, Scores] | None = None
    """The same scores for shorter and longer inputs apart."""


class Run(ABC):
    """A trained model in its folder. Nothing but the folder is needed."""

    echoes: ClassVar[bool] = False
    """Whether an answer is shown beside the text it is for; a text that was written stands alone."""
    together: ClassVar[int] = 2048
    """Rows of a file that are answered at a time."""

    def __init__(self, folder: Path, settings: Settings, facts: TaskFacts) -> None:
        self.folder, self.settings, self.facts = folder, settings, facts

    @property
    def task(self) -> TaskConfig:
        return self.settings.task

    @cached_property
    def model(self) -> Model:
        """An ordinary torch.nn.Module, ready to predict."""
        keep_big_blocks()
        model = Model(self.settings.model, self.facts.parts)
        load_weights(model, self.folder / WEIGHTS)
        return model.eval()

    @property
    def example(self) -> str:
        """Something to paste after a run."""
        return self.task.example

    @abstractmethod
    def predict(self, texts: Sequence[Text], settings: Mapping[str, Any] | None = None) -> Sequence[Answer]:
        """One answer a text, in order; for a single text or a tuple of two, not in a list, the answer itself.

        `settings` are dotted keys: {"decode.beam": 5}.
        """

    @abstractmethod
    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the task, with its interval and the baselines beside it."""

    @abstractmethod
    def explain(self, text: Text) -> Explanation:
        """Where the model looked. Draws itself in a notebook; `.save("map.html")` writes it."""

    @abstractmethod
    def findings(self, prepared: Prepared, files: Files, split: str) -> Findings:
        """Score the run on a split of the data it was trained with, for the report."""

    @abstractmethod
    def roles(self, labelled: bool) -> list[Role]:
        """The columns that a table has to have."""

    def embed(self, texts: Sequence[Text]) -> Sequence[Answer]:
        raise UserError(
            what=f"{self.folder} is a run of {self.task.kind}, which gives no vectors.",
            why="A vector stands between a pool and a head, and this model has neither.",
            fix="Leave --embed out.",
        )

    def score(self, texts: Sequence[Text]) -> Sequence[TextScore]:
        raise UserError(
            what=f"{self.folder} is a run of {self.task.kind}, which does not say how likely a text is.",
            why="Only a language model does: one of generate, or one that was pretrained.",
            fix="Leave --score out.",
        )

    def signed(self, scores: Scores, sampled: int | None) -> Scores:
        """The scores; that training sampled from the vocabulary (task.sampled) stands by the first metric."""
        symbols = max(self.facts.symbols.values())
        if sampled is None or sampled >= symbols:
            return scores
        told = f"trained against {sampled:,} sampled symbols a step; scored against all {symbols:,}"
        return replace(scores, signatures={scores.main: told})

    def answers(self, ask: Ask, texts: Sequence[Text], settings: Mapping[str, Any] | None = None) -> Sequence[Answer]:
        """What is wanted for each text, in order."""
        if ask == "vector":
            return self.embed(texts)
        return self.score(texts) if ask == "score" else self.predict(texts, settings)

    def answer_rows(
        self, rows: Iterable[Row], ask: Ask = "answer", settings: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Row, Answer]]:
        """Each row with what is wanted for it, in order, a chunk at a time: files of any size pass through."""
        for some in chunks(rows, self.together):
            yield from zip(some, self.answers(ask, [self.text_of(row) for row in some], settings), strict=True)

    def text_of(self, row: Row) -> Text:
        """What of a row is read."""
        return row.cells[self.roles(labelled=False)[0].name]

    def rows(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool) -> Iterator[Row]:
        """The good rows of other files, read as the training files were."""
        return self.table(data, settings, labelled=labelled).rows()

    def table(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool) -> Table:
        names = [data] if isinstance(data, str) else list(data)
        return Table(names, same_columns(self.data_with(settings), self.facts.columns), self.roles(labelled))

    def data_with(self, settings: Mapping[str, Any] | None) -> DataConfig:
        """How files are read, with some settings changed."""
        return self._with(settings).data

    def decoding(self, settings: Mapping[str, Any] | None = None) -> DecodeConfig:
        """How texts are written, with some settings changed: {"decode.beam": 5}."""
        return self._with(settings).decode

    def _with(self, settings: Mapping[str, Any] | None) -> Settings:
        tree = config.override(config.dump(self.settings), searching(settings or {}, "decode."), Settings)
        return config.build(Settings, tree, "settings")

    def refuse_other_symbols(self, symbols: Mapping[str, int]) -> None:
        """The tokenizer has to be the one of the training."""
        if symbols != self.facts.symbols:
            raise UserError(
                what=f"{self.folder / FACTS}: {_amounts(self.facts.symbols)}, but the tokenizer has {_amounts(symbols)}.",
                why="They come from different runs.",
                fix="Copy the whole run folder again, or train anew.",
            )


def write_run(folder: Path, settings: Settings, prepared: Prepared) -> None:
    """The files that say what a model is; its weights come later."""
    prepared.save(folder)
    write_json(folder / FACTS, {"format": FORMAT, **prepared.facts.to_json()})
    write_text(folder / CONFIG, config.write_yaml(config.dump(settings)))


def read_settings(folder: Path) -> Settings:
    """The settings that the model in a folder was trained with."""
    settings = config.build(Settings, read_part(folder / CONFIG), str(folder / CONFIG))
    return settings if "format" in read_part(folder / FACTS) else _of_format_1(settings)


def _of_format_1(settings: Settings) -> Settings:
    """The settings of an older folder, as they were meant there."""
    model, how = settings.model, settings.decode
    if model.decoder is None or model.input is not None or how.beam > 1:
        return settings
    temperature = 0.8 if how.temperature == 1.0 else how.temperature
    return replace(settings, decode=replace(how, sample=True, temperature=temperature))


def read_facts(folder: Path, task: TaskConfig) -> TaskFacts:
    path = folder / FACTS
    tree = read_part(path)
    if tree.get("task") != task.kind:
        raise UserError(
            what=f'{path}: this is of the task "{tree.get("task")}", but {folder / CONFIG} of the task "{task.kind}".',
            why="They come from different runs.",
            fix="Copy the whole run folder again, or train anew.",
        )
    try:
        tree.pop("format", None)
        facts = task.facts(tree)
        return TypeAdapter(type(facts)).validate_python(vars(facts))
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except TypeError as error:
        raise damaged(path, str(error)) from None


def _amounts(symbols: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} symbols of {name}" for name, count in symbols.items()) or "no symbols"
