"""The run folder, which is the product, and what can be done with it: predict, evaluate, explain."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from seqlab import config
from seqlab.data.fields import Reading
from seqlab.data.read import Row, Table
from seqlab.data.store import Ragged
from seqlab.errors import UserError
from seqlab.files import write_json, write_text
from seqlab.model import Model
from seqlab.report.attention import Explanation, explain
from seqlab.report.evaluate import Scores, evaluate_labels, evaluate_numbers, majority, training_mean
from seqlab.settings import Settings
from seqlab.tasks import classify
from seqlab.tasks.classify import Classify, ClassifyFacts
from seqlab.training.checkpoint import load_weights

CONFIG, FACTS, WEIGHTS, METRICS, BASELINE = "config.yaml", "facts.json", "model.safetensors", "metrics.jsonl", "baseline"
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of one text: a label with all labels' probabilities, or a number."""

    label: str | None = None
    scores: dict[str, float] | None = None
    value: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value} if self.label is None else {"label": self.label, "scores": self.scores}


@dataclass(frozen=True)
class Embedding:
    """What a model makes of one text before it answers."""

    vector: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {"vector": list(self.vector)}


class Run:
    """A trained model in its folder. Nothing but the folder is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = config.build(Settings, _read(folder / CONFIG), str(folder / CONFIG))
        self.facts = read_facts(folder)
        self.reading = classify.new_reading(self.settings.data, self.settings.model, self.facts).load(folder)
        if self.reading.symbols != self.facts.symbols:
            raise UserError(
                what=f"{folder / FACTS}: {_amounts(self.facts.symbols)}, but the tokenizer has {_amounts(self.reading.symbols)}.",
                why="They come from different runs.",
                fix="Copy the whole run folder again, or train anew.",
            )

    @property
    def task(self) -> Classify:
        assert isinstance(self.settings.task, Classify)
        return self.settings.task

    @cached_property
    def model(self) -> Model:
        """An ordinary torch.nn.Module, ready to predict."""
        model = Model(self.settings.model, self.facts.parts)
        load_weights(model, self.folder / WEIGHTS)
        return model.eval()

    @cached_property
    def baseline(self) -> Run | None:
        """The bag of words that was trained beside this model."""
        folder = self.folder / BASELINE
        return Run(folder) if (folder / WEIGHTS).exists() else None

    # Answers -----------------------------------------------------------------------------------------------------

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """One prediction a text, in order. A pair is a tuple of two texts."""
        if not texts:
            return []
        return [self._prediction(row) for row in classify.scores(self.model, self._fields(texts))]

    def embed(self, texts: Sequence[Text]) -> list[Embedding]:
        """The pooled vector of each text, which the head reads: texts that are alike to the model lie close together."""
        if not texts:
            return []
        return [Embedding(tuple(row.tolist())) for row in classify.vectors(self.model, self._fields(texts))]

    def answer_rows(self, rows: Iterable[Row], embed: bool, chunk: int = 2048) -> Iterator[tuple[Row, Prediction | Embedding]]:
        """Each row with its prediction or vector, in order, a chunk at a time: files of any size pass through."""
        for some in classify.chunks(rows, chunk):
            texts = [self._text(row) for row in some]
            yield from zip(some, self.embed(texts) if embed else self.predict(texts), strict=True)

    def evaluate(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None) -> Scores:
        """Every metric of the task, with its interval and the baselines beside it."""
        began = time.monotonic()
        meant: list[np.ndarray] = []
        said: list[np.ndarray] = []
        simple: list[np.ndarray] = []
        for rows in classify.chunks(self.rows(data, settings, labelled=True), 8192):
            texts = [self._text(row) for row in rows]
            meant.append(classify.targets(rows, self.facts))
            said.append(classify.scores(self.model, self._fields(texts)))
            if self.baseline is not None:
                simple.append(classify.scores(self.baseline.model, self.baseline._fields(texts)))
        if not said:
            raise UserError(
                what=f"{data if isinstance(data, str) else ' '.join(data)}: there is no row to score.",
                why="Every row was left out as faulty (data.on_bad=skip).",
                fix="See the faults with: seqlab check classify FILE",
            )
        return self.scored(
            np.concatenate(said), np.concatenate(meant), np.concatenate(simple) if simple else None, time.monotonic() - began
        )

    def scored(self, said: np.ndarray, meant: np.ndarray, simple: np.ndarray | None, seconds: float) -> Scores:
        """Scores from the model's answers (N C), the targets (N) and the answers of the bag of words, if there is one."""
        facts = self.facts
        if facts.target == "number":
            truth = meant.astype(np.float64) * facts.spread + facts.mean

            def numbers(answers: np.ndarray) -> np.ndarray:
                return answers[:, 0].astype(np.float64) * facts.spread + facts.mean

            beside = {"training mean": training_mean(facts.mean, truth)}
            if simple is not None:
                beside["bow"] = evaluate_numbers(numbers(simple), truth, centre=facts.mean)
            return evaluate_numbers(numbers(said), truth, centre=facts.mean, seconds=seconds, baselines=beside)
        beside = {"majority": majority(np.array(facts.label_counts), meant, facts.labels)}
        if simple is not None:
            beside["bow"] = evaluate_labels(classify.probabilities(simple), meant, facts.labels)
        return evaluate_labels(classify.probabilities(said), meant, facts.labels, seconds=seconds, baselines=beside)

    def explain(self, text: Text) -> Explanation:
        """Where the model looked. Draws itself in a notebook; `.save("map.html")` writes it."""
        first, second = text if isinstance(text, tuple) else (text, None)
        fields = self._fields([text])
        batch = classify.make_batch(fields, None, np.array([0]))
        rows = self.reading.pieces(first, second)
        pieces = rows if self.settings.model.input.reads == "sentences" else rows[0]
        shown = first if second is None else f"{first}\t{second}"
        return explain(self.model, batch, text=shown, pieces=pieces, said=self.predict([text])[0].to_json())

    def rows(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool) -> Iterator[Row]:
        """The good rows of other files, read as the training files were."""
        return self.table(data, settings, labelled=labelled).rows()

    def table(self, data: str | Sequence[str], settings: Mapping[str, Any] | None = None, *, labelled: bool) -> Table:
        names = [data] if isinstance(data, str) else list(data)
        tree = config.override(config.dump(self.settings), settings or {}, Settings)
        data_config = classify.same_columns(config.build(Settings, tree, "settings").data, self.facts.columns)
        roles = classify.roles(labelled=labelled, pair=self.facts.pair, number=labelled and self.facts.target == "number")
        return Table(names, data_config, roles)

    def _text(self, row: Row) -> Text:
        return (row.cells["text"], row.cells.get("text2", "")) if self.facts.pair else row.cells["text"]

    def _fields(self, texts: Sequence[Text]) -> dict[str, Ragged]:
        if any(self.facts.pair != isinstance(text, tuple) for text in texts):
            raise UserError(
                what=f"This model reads {'pairs of texts' if self.facts.pair else 'single texts'}.",
                why="It was trained on such rows.",
                fix="Join two texts by a tab; in Python, give a tuple." if self.facts.pair else "Give one text, without a tab.",
            )
        first = [text[0] if isinstance(text, tuple) else text for text in texts]
        second = [text[1] for text in texts if isinstance(text, tuple)] or None
        return self.reading.encode(first, second).fields

    def _prediction(self, scores: np.ndarray) -> Prediction:
        if self.facts.target == "number":
            return Prediction(value=float(scores[0]) * self.facts.spread + self.facts.mean)
        shares = classify.probabilities(scores)
        return Prediction(
            label=self.facts.labels[int(shares.argmax())],
            scores={label: round(float(share), 6) for label, share in zip(self.facts.labels, shares, strict=True)},
        )


def load(folder: str | Path) -> Run:
    """The run in a folder."""
    return Run(Path(folder))


def write_run(folder: Path, settings: Settings, facts: ClassifyFacts, reading: Reading) -> None:
    """The files that say what a model is; its weights come later."""
    reading.save(folder)
    write_json(folder / FACTS, facts.to_json())
    write_text(folder / CONFIG, config.write_yaml(config.dump(settings)))


def read_facts(folder: Path) -> ClassifyFacts:
    path = folder / FACTS
    tree = _read(path)
    if tree.get("task") != "classify":
        raise UserError(
            what=f'{path}: this run is of the task "{tree.get("task")}".',
            why="This version of seqlab knows the task classify.",
            fix="Use the version of seqlab that trained it.",
        )
    try:
        return TypeAdapter(ClassifyFacts).validate_python(vars(ClassifyFacts.from_json(tree)))
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except TypeError as error:
        raise _damaged(path, str(error)) from None


def _read(path: Path) -> dict[str, Any]:
    """A JSON or YAML file of a run."""
    if not path.parent.is_dir():
        raise UserError(
            what=f"There is no run folder {path.parent}.",
            why="A run is the folder that `seqlab train` left behind.",
            fix="Look for it with: ls runs",
        )
    if not path.exists():
        raise UserError(
            what=f"{path} is missing.",
            why=f"Without it {path.parent} is not a whole run folder.",
            fix="Name the folder that `seqlab train` printed, or copy the whole folder again.",
        )
    try:
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text) if path.suffix == ".json" else config.read_yaml(text, str(path))
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(tree, dict):
        raise _damaged(path, "it does not hold a mapping")
    return tree


def _amounts(symbols: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} symbols of {name}" for name, count in symbols.items()) or "no symbols"


def _damaged(path: Path, how: str) -> UserError:
    fix = "Copy the whole run folder again, or train anew."
    return UserError(what=f"{path} is damaged: {how}.", why="The run can't be used without it.", fix=fix)
