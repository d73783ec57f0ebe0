"""Sound as numbers: samples to frames of log-mel energies, and how they are masked while training."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from seqlab.config import Count, Positive, PositiveFloat, Share
from seqlab.errors import UserError

USUAL_RATE = 16_000
"""Samples a second that are taken, at the most, where none is told: speech has little above half of it."""
FLOOR = 1e-6
"""Added to the energy of a band, about 80 dB below a loud one: digital silence has no logarithm."""
Frames = NDArray[np.floating]
"""T F: the log-mel energies of one recording."""


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """Stretches of time and of bands that are hidden while training, others in every epoch (SpecAugment, Park
    et al. 2019, without its warping of time)."""

    times: Count = 0
    """Stretches of time in a recording."""
    seconds: PositiveFloat = 0.1
    """How long such a stretch is, at most."""
    share: Share = 0.2
    """The share of a recording that one stretch may hide, at most."""
    bands: Count = 0
    """Groups of neighbouring bands in a recording."""
    width: Positive = 8
    """Bands in such a group, at most."""


@dataclass(frozen=True, kw_only=True)
class SoundConfig:
    """How a recording becomes frames of log-mel energies."""

    endings: ClassVar[tuple[str, ...]] = (".wav", ".flac", ".ogg")

    rate: Positive | None = None
    """Samples a second that every recording is brought to; empty: those of the first recording, at most
    16,000."""
    window: PositiveFloat = 0.025
    """Seconds of sound in a frame."""
    hop: PositiveFloat = 0.01
    """Seconds from a frame to the next one."""
    bands: Positive = 40
    """Numbers in a frame: energies in bands that are equally wide on the mel scale."""
    low: PositiveFloat = 20.0
    """Where the lowest band begins, in hertz; the highest ends at half the rate."""
    longest: PositiveFloat = 60.0
    """Seconds of a recording, at most."""
    masks: MaskConfig = field(default_factory=MaskConfig)
    """What is hidden while training."""


def mel_of(hertz: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """Hertz on the mel scale: 1127 ln(1 + f / 700)."""
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))


@functools.lru_cache(maxsize=4)
def mel_filters(bands: int, points: int, rate: int, low: float) -> Float[torch.Tensor, "F K"]:
    """How much each of the K = points/2 + 1 frequencies of a spectrum counts for each band.

    F + 2 edges lie at equal distances between `low` and rate/2 on the mel scale. The weight of a frequency
    rises from 0 at edge b to 1 at edge b + 1 and falls to 0 at edge b + 2, in a straight line over mels.
    """
    if low >= rate / 2:
        raise UserError(
            what=f"The lowest band begins at {low:g} Hz (data.sound.low), at {rate:,} samples a second.",
            why=f"Nothing above half of them, {rate / 2:g} Hz, can be heard.",
            fix="Lower data.sound.low, or set data.sound.rate=16000, to which all recordings are brought.",
        )
    edges = np.linspace(mel_of(np.array(float(low))), mel_of(np.array(rate / 2)), bands + 2)
    mels = mel_of(np.arange(points // 2 + 1) * rate / points)
    step = edges[1] - edges[0]
    away = np.abs(mels - edges[1:-1, None]) / step  # F K, from the middle of the band
    weights = np.maximum(0.0, 1.0 - away)
    if not (weights.sum(axis=1) > 0).all():
        raise UserError(
            what=f"data.sound.bands is {bands}: some bands are narrower than the spectrum is fine.",
            why=f"At {rate:,} samples a second its frequencies are {rate / points:.0f} Hz apart.",
            fix=f"Set data.sound.bands={max(1, bands // 2)}, or a longer data.sound.window.",
        )
    return torch.from_numpy(weights.astype(np.float32))


def log_mel(samples: Float[np.ndarray, " N"], rate: int, config: SoundConfig) -> Float[np.ndarray, "T F"]:
    """ln(FLOOR + Σ_k M[b, k] · |X[t, k]|²) for each frame t and band b.

    X[t] is the Fourier transform of the samples from t · hop on, under a Hann window of `window` seconds,
    with zeros behind it up to a power of two. The last frame ends with zeros, so that no sample is left out:
    T = 1 + ⌈(N − window) / hop⌉, at least 1.
    """
    window, hop = max(2, round(config.window * rate)), max(1, round(config.hop * rate))
    points = 1 << (window - 1).bit_length()
    frames = 1 + max(0, -(-(len(samples) - window) // hop))
    # torch.stft reads `points` samples a frame and lays the window in their middle
    before = (points - window) // 2
    padded = np.zeros(hop * (frames - 1) + points, np.float32)
    padded[before : before + len(samples)] = samples
    spectrum = torch.stft(
        torch.from_numpy(padded),
        n_fft=points,
        hop_length=hop,
        win_length=window,
        window=torch.hann_window(window),
        center=False,
        return_complex=True,
    )  # K T
    energies = mel_filters(config.bands, points, rate, config.low) @ spectrum.abs().square()
    return (energies + FLOOR).log().T.numpy()


def masked(frames: Frames, config: MaskConfig, hop: float, random: np.random.Generator) -> Frames:
    """Frames whose mean is 0, some stretches of time and some bands of which are set to 0.

    A stretch of w ~ U{0, ..., W} steps begins at s ~ U{0, ..., T − w}; as in the paper, masks may overlap.
    """
    hidden = frames.copy()
    steps, bands = frames.shape
    longest = min(round(config.seconds / hop), int(config.share * steps))
    for _ in range(config.times):
        width = int(random.integers(longest + 1))
        start = int(random.integers(steps - width + 1))
        hidden[start : start + width] = 0
    for _ in range(config.bands):
        width = int(random.integers(min(config.width, bands) + 1))
        start = int(random.integers(bands - width + 1))
        hidden[:, start : start + width] = 0
    return hidden
