"""The task `forecast`: the next steps of series over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqlab import rules
from seqlab.answers.answer import Answer, Known
from seqlab.answers.curve import CurveAnswer
from seqlab.answers.forecast import DirectForecast, StepsForecast
from seqlab.answers.forecast_predictions import Options
from seqlab.baselines.baseline import Baseline
from seqlab.baselines.curve import LinearCurve, MeanCurve
from seqlab.baselines.forecast import LeastSquares, Repeat, SeasonalRepeat
from seqlab.config import Positive, Probability
from seqlab.data.read import DataConfig
from seqlab.errors import UserError
from seqlab.fields.curve import CurveField
from seqlab.fields.field import Field
from seqlab.fields.read_vector import ReadVectorField
from seqlab.fields.series import SeriesField
from seqlab.model import ModelConfig
from seqlab.objectives import GaussianNats, SquaredError
from seqlab.parts import Facts
from seqlab.report.words import Words, WorstTable
from seqlab.tasks import forecast_presets
from seqlab.tasks.task import TaskConfig, Weighted


@dataclass(frozen=True, kw_only=True)
class Forecast(TaskConfig, kind="forecast"):
    """The next steps of one or several series, with intervals."""

    reads: Literal["values", "vector"] = "values"
    """What is read: series over time; or one vector a row, from which a sequence of numbers is written."""
    window: Positive = 48
    """Steps that are seen."""
    horizon: Positive = 12
    """Steps that are forecast."""
    targets: tuple[str, ...] = ()
    """Columns to forecast; none: all that hold numbers and are not named below, or y beside unique_id."""
    past: tuple[str, ...] = ()
    """Columns that are read beside them and not forecast."""
    future: tuple[str, ...] = ()
    """Columns that are known of the future, too: holidays, prices that are set."""
    level: Literal["none", "mean", "last"] = "none"
    """Each window is read, and forecast, relative to nothing, to its mean or to its last step: the latter two
    for series that wander."""
    gaps: Literal["stop", "break"] = "stop"
    """Missing rows and empty cells are an error; or no window reaches over one."""
    coverage: Probability = 0.9
    """Share of what comes that an interval is to hold."""
    intervals: Literal["conformal", "learned"] = "conformal"
    """conformal: as wide as errors on validation rows were. learned: by the variances that the model says
    (model.head.kind=gaussian, or model.decoder.variance=learned)."""
    trajectories: Positive = 200
    """Futures that are drawn for learned intervals, where a decoder writes step by step."""

    example: ClassVar[str] = ""
    data_example: ClassVar[str] = "sales.csv"
    default: ClassVar[str] = "linear"
    readable: ClassVar = ("values", "vector")
    passes: ClassVar = (
        (3_000, 60),
        (10_000, 40),
        (50_000, 20),
        (200_000, 8),
        (1_000_000, 3),
        (rules.ENDLESS, 1),
    )
    splits: ClassVar = True
    presets = staticmethod(forecast_presets.presets)

    def fields(self, data: DataConfig, learnt: Mapping[str, Any] | None = None) -> list[Field]:
        if self.reads == "vector":
            return [ReadVectorField(lists=("values",)), CurveField()]
        return [SeriesField(self.window, self.horizon, self.targets, self.past, self.future, self.gaps)]

    def answer(self, known: Known) -> Answer:
        if self.reads == "vector":
            return CurveAnswer(known)
        how = Options(self.window, self.horizon, self.level, self.coverage, self.intervals, self.trajectories)
        return (DirectForecast if known.model.decoder is None else StepsForecast)(known, how)

    def baselines(self) -> Sequence[type[Baseline]]:
        return (MeanCurve, LinearCurve) if self.reads == "vector" else (Repeat, SeasonalRepeat, LeastSquares)

    def imagined(self, symbols: int, outputs: int) -> Facts:
        return Facts(
            symbols={},
            outputs={"row": self.horizon},
            features={"values": 1, "written": 1},
            window=self.window,
        )

    def refuse(self, data: DataConfig) -> None:
        if data.split and self.reads == "vector":
            raise UserError(
                what=f"data.split={','.join(data.split)} is for series over time, but task.reads is vector.",
                why="Rows with a vector each are in no order of time.",
                fix="Leave it out, or give files of their own with --valid and --test.",
            )
        if data.split and (data.valid or data.test):
            raise UserError(
                what=f"data.split={','.join(data.split)} stands beside --valid or --test.",
                why="Either the training file is cut up in time, or the others are files of their own.",
                fix="Leave one of them out.",
            )

    def objectives(self, model: ModelConfig) -> Weighted:
        if model.input is None or model.input.reads != "values":
            raise UserError(
                what=f"model.input is {'empty' if model.input is None else f'of kind {model.input.kind}'}.",
                why=f"{self.kind} reads numbers.",
                fix="Set model.input.kind=vectors.",
            )
        head = model.decoder or model.head
        if head is None:
            raise UserError(
                what="The model has neither a pool and a head nor a decoder.",
                why="A head says all steps at once, a decoder one after the other.",
                fix="Set model.pool.kind=last and model.head.kind=linear.",
            )
        if self.reads == "vector" and model.decoder is None:
            raise UserError(
                what="model.decoder is empty.",
                why="From a vector the numbers are written one step after the other, which a decoder does.",
                fix="Set model.decoder.kind=attending, or choose --model lstm.",
            )
        learned = getattr(head, "variance", "") == "learned" or head.kind == "gaussian"
        if self.intervals == "learned" and not learned:
            raise UserError(
                what="task.intervals is learned, but the model says no variances.",
                why="Its answers are means alone.",
                fix="Set model.head.kind=gaussian, or model.decoder.variance=learned; or"
                " task.intervals=conformal.",
            )
        reads = "written" if model.decoder else "row"
        return [(1.0, GaussianNats(reads) if learned else SquaredError(reads))]

    def words(self, answer: Answer) -> Words:
        if self.reads == "vector":
            return self._words_of_curves(answer)
        return Words(
            purpose=f"forecasts the next {self.horizon} steps from {self.window}",
            counted="steps",
            scored="windows",
            summed="windows",
            drawn=1,
            worst=WorstTable(
                "Where it was furthest off",
                ("forecast from", "MSE"),
                "Windows that do not overlap. Often something happened there that the past did not tell.",
            ),
            shell=(
                "seqlab predict . --input past.csv --output forecast.csv",
                "seqlab predict . --input past.csv --output forecast.html",
                "seqlab evaluate . more.csv",
            ),
            explain='seqlab explain . "0.1, 0.4, 0.3, ..." --out map.html',
            python=("run.predict([past])[0].values    # past: a list of numbers",),
            limits=(
                "It knows nothing but the past of these columns: what never happened is not predicted.",
                "Intervals hold as often as told only while the series goes on as it did.",
            ),
        )

    def _words_of_curves(self, answer: Answer) -> Words:
        yours = answer.example or answer.reads.yours
        return Words(
            purpose="writes a sequence of numbers for a vector",
            scored="rows",
            drawn=1,
            worst=WorstTable(
                "Where it was furthest off", ("vector", "MSE"), "Often vectors unlike all others."
            ),
            shell=(f'seqlab predict . "{yours}"', "seqlab evaluate . more.jsonl"),
            explain=f'seqlab explain . "{yours}" --out map.html',
            python=(f'run.predict("{yours}").values',),
            limits=("It writes something for any vector, also for one unlike all that it has learnt from.",),
        )
