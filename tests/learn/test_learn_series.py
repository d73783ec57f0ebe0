"""Series whose best forecast is known are learnt, and intervals hold as often as they say."""

import made_series
import numpy as np
import pytest

from seqlab import session
from seqlab.settings import TrainRequest
from seqlab.training.progress import Progress

HORIZON = 12
SMALL = {
    "linear": {"training.steps": 600, "training.rate": 3e-3},
    "lstm-steps": {
        "training.steps": 250, "training.rate": 5e-3, "model.input.width": 16, "model.encoder.width": 16,
        "model.decoder.width": 16, "model.decoder.body.width": 16,
    },
}  # fmt: skip


@pytest.mark.parametrize("preset", SMALL)
def test_an_autoregression_is_forecast_nearly_as_well_as_can_be(preset, tmp_path, monkeypatch):
    """x_t = 0.6 x_{t-1} − 0.3 x_{t-2} + ε_t: nothing is better at one step than the variance of ε, which is
    1; far ahead nothing is better than that of x, which is 1.40 (Yule and Walker: ρ₁ = 0.6/1.3,
    ρ₂ = 0.6 ρ₁ − 0.3, 1 / (1 − 0.6 ρ₁ + 0.3 ρ₂)).

    The errors are measured against the ε of the test itself, and validation and test are long, so that what
    chance adds is small: the coverage of 6,000 windows has a standard error of about 0.6 points."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    series = made_series.autoregression(20_000)
    path = made_series.written(tmp_path / "series.csv", made_series.table(["x"], [series.tolist()]))
    settings = {
        "data.train": (str(path),), "data.split": ("0.4", "0.3", "0.3"), "task.window": 12,
        "task.horizon": HORIZON, "training.batch_tokens": 2048, "training.validations": 5,
    }  # fmt: skip
    request = TrainRequest(task="forecast", preset=preset, overrides=settings | SMALL[preset])
    run = session.train_anew(request, tmp_path / "run", Progress(quiet=True), 0.0)
    test = made_series.written(tmp_path / "test.csv", made_series.table(["x"], [series[14_000:].tolist()]))
    with run.stored(str(test), None) as store:
        windows = run.answer.part(store, "whole")
        said, meant = run.answer.forecast(run.model, windows), run.answer.meant(windows)
    errors = ((said.units - meant.units) ** 2).mean(axis=(0, 2))
    held = ((said.low <= meant.units) & (meant.units <= said.high)).mean(axis=(0, 2))
    known = series[14_000:]
    noise = known[2:] - 0.6 * known[1:-1] + 0.3 * known[:-2]
    of_first_steps = noise[10 : 10 + len(windows)]  # the first window forecasts known[12]
    print(preset, errors.round(3), held.round(3), (of_first_steps**2).mean())
    assert errors[0] < 1.1 * (of_first_steps**2).mean()
    assert errors[-1] < 1.1 * known.var()
    assert 0.87 < held[-1] < 0.93 and 0.87 < held[0] < 0.93
    wide = (said.high - said.low).mean(axis=(0, 2))
    assert wide[0] < np.median(wide[4:])
