"""A trained run, which is its folder: `seqlab.load("runs/reviews")`. It predicts, scores itself and
explains."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError

from seqlab import config
from seqlab.answers.answer import Answer, Extent, Findings, Judged, Known, Prediction
from seqlab.baselines.baseline import Baseline
from seqlab.data.batches import chunks
from seqlab.data.cells import Cells
from seqlab.data.files import Place
from seqlab.data.read import DataConfig, Row, Table
from seqlab.data.store import Store, StoreWriter, cache_folder
from seqlab.decode import DecodeConfig
from seqlab.errors import UserError
from seqlab.fields.field import DataFacts, Given, GivenField, ReadField
from seqlab.files import write_json, write_text
from seqlab.folder import BASELINE, CONFIG, FACTS, FORMAT, METRICS, WEIGHTS, damaged, read_part
from seqlab.memory import keep_big_blocks
from seqlab.model import Model
from seqlab.report.evaluate import Scores
from seqlab.report.explanation import Explanation
from seqlab.request import refuse_other, searching
from seqlab.settings import Settings
from seqlab.tasks.prepare import Prepared, append, lead_of, same_columns
from seqlab.tasks.task import TaskConfig
from seqlab.training.checkpoint import load_weights

Ask = Literal["answer", "vector", "score"]
"""What is wanted for a text: what predict gives, or with --embed, or with --score."""
RunMethod = TypeVar("RunMethod", bound=Callable[..., Any])


def load(folder: str | Path) -> Run:
    """The run in a folder."""
    folder = Path(folder)
    settings = read_settings(folder)
    return Run(folder, settings, read_facts(folder, settings.task))


def one_or_many(method: RunMethod) -> RunMethod:
    """A method of texts that gives one answer, not a list, for a single text or a single pair (a tuple).

    A text is itself a sequence of letters: without this, each of them would be answered.
    """

    @wraps(method)
    def answered(run: Run, texts: Given | Sequence[Given], *others: Any, **named: Any) -> Any:
        pair = isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(text, str) for text in texts)
        if not pair and not isinstance(texts, str) and hasattr(texts, "__iter__"):
            return method(run, texts, *others, **named)
        [answer] = method(run, [texts], *others, **named)
        return answer

    return cast(RunMethod, answered)


class Run:
    """A trained model in its folder. Nothing but the folder is needed."""

    def __init__(self, folder: Path, settings: Settings, facts: DataFacts) -> None:
        self.folder, self.settings, self.facts = folder, settings, facts
        self.fields = settings.task.fields(settings.data, facts.learnt)
        self.reads = lead_of(self.fields)
        try:
            for field in self.fields:
                field.take(facts.learnt)
        except ValidationError as error:
            raise _of_wrong_kind(folder, error) from None
        for field in self.fields:
            field.set_up(settings.data, settings.model)
            field.load(folder, facts.learnt)
        self._refuse_other_symbols()

    @property
    def task(self) -> TaskConfig:
        return self.settings.task

    @cached_property
    def answer(self) -> Answer:
        """How it is asked, scored and shown."""
        settings = self.settings
        known = Known(settings.data, settings.model, settings.decode, self.facts, tuple(self.fields))
        answer = self.task.answer(known)
        answer.load(self.folder)
        return answer

    @cached_property
    def model(self) -> Model:
        """An ordinary torch.nn.Module, ready to predict."""
        keep_big_blocks()
        model = Model(self.settings.model, self.answer.parts)
        load_weights(model, self.folder / WEIGHTS)
        return model.eval()

    @cached_property
    def baselines(self) -> list[Baseline]:
        """What stands beside the model, the weakest first."""
        found = [kind.load(self.answer, self.folder / BASELINE) for kind in self.task.baselines()]
        return [baseline for baseline in found if baseline is not None]

    @property
    def example(self) -> str:
        """Something to paste after a run."""
        return self.answer.example or self.task.example

    @property
    def ask(self) -> str:
        """What to type after `seqlab predict RUN`."""
        return self.answer.ask or f'"{self.example}"'

    def history(self) -> list[dict[str, Any]]:
        """What training logged: the lines of metrics.jsonl."""
        return [json.loads(line) for line in (self.folder / METRICS).read_text(encoding="utf-8").splitlines()]

    # Asking -------------------------------------------------------------------------------------------------

    @one_or_many
    def predict(
        self, texts: Sequence[Given], settings: Mapping[str, Any] | None = None, given: Any = None
    ) -> Any:
        """One answer a text, in order; for a single text or a tuple of two, not in a list, the answer itself.

        `settings` are dotted keys: {"decode.beam": 5}. `given` is what a model writes its texts for, a label
        or a vector: one for all, or a list with one for each text.
        """
        return self.answer.predict(self.model, self.answer.joined(texts, given), self.decoding(settings))

    @one_or_many
    def embed(self, texts: Sequence[Given]) -> Any:
        """The vector of each text."""
        return self.answer.embed(self.model, texts)

    @one_or_many
    def score(self, texts: Sequence[Given], given: Any = None) -> Any:
        """How likely each text is: perplexity, and bits per character."""
        return self.answer.score(self.model, self.answer.joined(texts, given))

    @one_or_many
    def score_texts(self, texts: Sequence[Given], given: Any = None) -> Any:
        """log p of each text, in nats."""
        return self.answer.score_texts(self.model, self.answer.joined(texts, given))

    @one_or_many
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """log p of each target, given its source."""
        return self.answer.score_pairs(self.model, pairs)

    def stream(
        self, prompt: str = "", settings: Mapping[str, Any] | None = None, given: Any = None
    ) -> Iterator[str]:
        """What follows the prompt, piece by piece, as it is written."""
        [asked] = self.answer.joined([prompt], given)
        return self.answer.stream(self.model, asked, self.decoding(settings))

    def explain(self, text: Given, target: str | None = None, given: Any = None) -> Explanation:
        """Where the model looked. Draws itself in a notebook; `.save("map.html")` writes it.

        What writes a text for a text explains `target` instead of what it would write, where that is given.
        """
        [asked] = self.answer.joined([text], given)
        return self.answer.explain(self.model, asked, self.settings.decode, target)

    def answers(
        self, ask: Ask, texts: Sequence[Given], settings: Mapping[str, Any] | None = None, given: Any = None
    ) -> Sequence[Prediction]:
        """What is wanted for each text, in order."""
        self._with(settings)  # refuses settings that can't be changed, whatever is wanted
        asked = self.answer.joined(texts, given)
        wanted = {"answer": lambda: self.predict(asked, settings), "vector": lambda: self.embed(asked)}
        found: Sequence[Prediction] = wanted.get(ask, lambda: self.score(asked))()
        return found

    def answer_rows(
        self, rows: Iterable[Row], ask: Ask = "answer", settings: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Row, Prediction]]:
        """Each row with what is wanted for it, in order, a chunk at a time: files of any size pass through.
        Where a table has one answer as a whole, the rows of that."""
        whole = self.answer.rows(self.model, rows, self.decoding(settings)) if ask == "answer" else None
        if whole is not None:
            yield from whole
            return
        for some in chunks(rows, self.answer.together):
            texts = [self.answer.asked_of(row.cells) for row in some]
            yield from zip(some, self.answers(ask, texts, settings), strict=True)

    def draw(self, rows: Iterable[Row], path: Path, settings: Mapping[str, Any] | None = None) -> None:
        """The answer to a table as a picture, .html or .png."""
        self.answer.draw(self.model, rows, self.decoding(settings), path)

    # Scoring ------------------------------------------------------------------------------------------------

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the task, with its interval and the baselines beside it."""
        began = time.monotonic()
        with self.stored(data, settings) as store:
            part = self.answer.part(store, "whole")
            _, scores = self.scored(part, "whole", self.decoding(settings), began)
        return scores

    def scored(self, part: Any, extent: Extent, how: DecodeConfig, began: float) -> tuple[Judged, Scores]:
        """What the model says of a part of a store, and its scores beside those of the baselines."""
        judged, metrics = self.answer.judge(self.model, part, extent, how), self.answer.metrics
        seconds = time.monotonic() - began
        beside = {}
        for baseline in self.baselines:
            simple = baseline.judge(part)
            beside[baseline.name] = self.answer.scores(simple.said, simple.meant, metrics)
        scores = self.answer.scores(judged.said, judged.meant, metrics)
        return judged, replace(scores, seconds=seconds, baselines=beside)

    def findings(self, store: Store) -> tuple[Scores, Findings]:
        """Scores on a stored data set, and what the report shows beside them."""
        began = time.monotonic()
        part, how = self.answer.part(store, "reported"), self.settings.decode
        judged, scores = self.scored(part, "reported", how, began)
        return scores, self.answer.findings(self.model, store, part, judged)

    @contextmanager
    def stored(self, data: str | Sequence[str], settings: Mapping[str, Any] | None) -> Iterator[Store]:
        """The rows of other files as numbers, for as long as they are needed."""
        cache = cache_folder().parent
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".evaluate.") as folder:
            with StoreWriter(Path(folder) / "store") as writer:
                some = False
                for examples in chunks(
                    self._examples(self.table(data, settings, labelled=True)), self.reads.chunk
                ):
                    some = True
                    cells = [cells for _, cells in examples]
                    places = [place for place, _ in examples if place is not None]
                    append(writer, self.fields, cells, places or None, keep=True)
                if not some:
                    raise UserError(
                        what=(
                            f"{data if isinstance(data, str) else ' '.join(data)}: there is no row to score."
                        ),
                        why="The file is empty, or every row was left out as faulty (data.on_bad=skip).",
                        fix=f"See the faults with: seqlab check {self.task.kind} FILE",
                    )
            yield Store.open(Path(folder) / "store")

    def _examples(self, table: Table) -> Iterator[tuple[Place | None, Cells]]:
        """The examples of a table, with their places where each is one row."""
        if self.reads.gathers:
            yield from ((None, cells) for cells in self.reads.gathered(row.cells for row in table.rows()))
        else:
            yield from ((row.place, row.cells) for row in table.rows())

    # Other files --------------------------------------------------------------------------------------------

    def rows(
        self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool
    ) -> Iterator[Row]:
        """The good rows of other files, read as the training files were."""
        return self.table(data, settings, labelled=labelled).rows()

    def table(
        self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool
    ) -> Table:
        """Only columns that are asked for need be there: a file to answer for may have no labels."""
        reads = [field for field in self.fields if isinstance(field, (ReadField, GivenField))]
        fields = self.fields if labelled else reads
        roles = [role for field in fields for role in field.roles(self.facts.columns)]
        told = same_columns(self.data_with(settings), self.facts.columns)
        told = self.reads.elsewhere(told, settings or ())
        columns = {role.name: told.columns[role.name] for role in roles if role.name in told.columns}
        names = [data] if isinstance(data, str) else list(data)
        told = replace(told, columns=columns)
        return (self.reads.open if labelled else self.reads.asked)(names, told, roles)

    def data_with(self, settings: Mapping[str, Any] | None) -> DataConfig:
        """How files are read, with some settings changed."""
        return self._with(settings).data

    def decoding(self, settings: Mapping[str, Any] | None = None) -> DecodeConfig:
        """How texts are written, with some settings changed: {"decode.beam": 5}."""
        return self._with(settings).decode

    def _with(self, settings: Mapping[str, Any] | None) -> Settings:
        if not settings:
            return self.settings
        trained = config.dump(self.settings)
        tree = config.override(trained, searching(settings, "decode."), Settings)
        told = config.build(Settings, tree, "settings")
        refuse_other(trained, config.dump(told), settings)
        return told

    def _refuse_other_symbols(self) -> None:
        """A UserError where the tokenizers have other vocabularies than facts.json tells of."""
        symbols = {name: count for field in self.fields for name, count in field.symbols.items()}
        if symbols != self.facts.symbols:
            raise UserError(
                what=(
                    f"{self.folder / FACTS}: {_amounts(self.facts.symbols)}, but the tokenizer has"
                    f" {_amounts(symbols)}."
                ),
                why="They come from different runs.",
                fix="Copy the whole run folder again, or train anew.",
            )


# The files of a run -----------------------------------------------------------------------------------------


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


def read_facts(folder: Path, task: TaskConfig) -> DataFacts:
    path = folder / FACTS
    tree = read_part(path)
    if tree.get("task") != task.kind:
        raise UserError(
            what=(
                f'{path}: this is of the task "{tree.get("task")}", but {folder / CONFIG} of the task'
                f' "{task.kind}".'
            ),
            why="They come from different runs.",
            fix="Copy the whole run folder again, or train anew.",
        )
    tree.pop("format", None)
    try:
        return DataFacts.of_json(tree)
    except ValidationError as error:
        raise _of_wrong_kind(folder, error) from None


def _of_wrong_kind(folder: Path, error: ValidationError) -> UserError:
    first = error.errors()[0]
    return damaged(folder / FACTS, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _amounts(symbols: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} symbols of {name}" for name, count in symbols.items()) or "no symbols"
