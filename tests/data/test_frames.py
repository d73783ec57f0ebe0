"""Frames of sound: the formula, and what of it is hidden while training."""

import numpy as np
import pytest

from seqlab.data.sound import FLOOR, MaskConfig, SoundConfig, log_mel, masked, mel_filters
from seqlab.errors import UserError


def plainly(samples: np.ndarray, rate: int, config: SoundConfig) -> np.ndarray:
    """Log-mel energies by loops: the sums of the docstrings, with nothing of torch and no FFT."""
    window, hop = round(config.window * rate), round(config.hop * rate)
    points = 1
    while points < window:
        points *= 2
    frames = 1
    while window + (frames - 1) * hop < len(samples):
        frames += 1
    padded = np.concatenate([samples, np.zeros(window + frames * hop)])
    weights = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(points // 2 + 1), np.arange(window)) / points)

    def mel(hertz: float) -> float:
        return 2595 * np.log10(1 + hertz / 700)  # the same scale, but for a factor

    low, high = mel(config.low), mel(rate / 2)
    edges = [low + (high - low) * place / (config.bands + 1) for place in range(config.bands + 2)]
    found = np.zeros((frames, config.bands))
    for t in range(frames):
        power = np.abs(turns @ (weights * padded[t * hop : t * hop + window])) ** 2
        for band in range(config.bands):
            left, middle, right = edges[band : band + 3]
            energy = 0.0
            for k in range(points // 2 + 1):
                at = mel(k * rate / points)
                if left < at < right:
                    rise = (at - left) / (middle - left) if at <= middle else (right - at) / (right - middle)
                    energy += rise * power[k]
            found[t, band] = np.log(FLOOR + energy)
    return found


@pytest.mark.parametrize(
    ("rate", "count", "config"),
    [
        (8000, 1000, SoundConfig(bands=12)),
        (16000, 801, SoundConfig(bands=20, window=0.02, low=60)),
        (11025, 40, SoundConfig(bands=8)),
        (8000, 200, SoundConfig(bands=12)),
        (8000, 201, SoundConfig(bands=12)),
    ],
)
def test_log_mel_energies_are_those_of_a_plain_loop(rate, count, config):
    samples = 0.1 * np.random.default_rng(count).standard_normal(count)
    found = log_mel(samples, rate, config)
    np.testing.assert_allclose(found, plainly(samples, rate, config), atol=2e-4)


def test_a_tone_is_loudest_in_the_band_it_is_in():
    config, rate = SoundConfig(), 16000
    middles = 700 * (np.exp(np.linspace(0, 2840, 42)[1:-1] / 1127) - 1)  # hertz, nearly
    for hertz in (300, 1000, 3000):
        frames = log_mel(np.sin(2 * np.pi * hertz * np.arange(rate) / rate), rate, config)
        assert abs(frames.mean(axis=0).argmax() - np.abs(middles - hertz).argmin()) <= 1


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_every_band_of_the_default_hears_something(rate):
    points = 1 << (round(0.025 * rate) - 1).bit_length()
    weights = mel_filters(40, points, rate, 20.0)
    assert weights.shape == (40, points // 2 + 1) and (weights.sum(dim=1) > 0).all()


def test_bands_that_are_too_narrow_are_refused():
    with pytest.raises(UserError, match=r"data\.sound\.bands is 200"):
        mel_filters(200, 256, 8000, 20.0)


def test_masks_hide_whole_stretches_of_time_and_whole_bands_within_their_limits():
    frames = np.ones((50, 20), np.float32)
    for seed in range(50):
        random = np.random.default_rng(seed)
        times = masked(frames, MaskConfig(times=1, seconds=0.2, share=0.1), 0.01, random)
        hidden = (times == 0).all(axis=1)
        assert ((times == 0).any(axis=1) == hidden).all() and hidden.sum() <= 5  # a tenth of 50
        assert np.abs(np.diff(np.concatenate([[0], hidden, [0]]))).sum() in (0, 2)  # one stretch
        bands = masked(frames, MaskConfig(bands=1, width=6), 0.01, random)
        hidden = (bands == 0).all(axis=0)
        assert ((bands == 0).any(axis=0) == hidden).all() and hidden.sum() <= 6
    assert (frames == 1).all()
    drawn = [masked(frames, MaskConfig(times=2, bands=2), 0.01, np.random.default_rng(0)) for _ in range(2)]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] == 0).any()
