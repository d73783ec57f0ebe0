"""Pictures against what the equations say: positions in two dimensions, attention over (x, y), CIDEr-D."""

from __future__ import annotations

import io
import math
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from sacrebleu.metrics import BLEU
from torch.testing import assert_close

from seqlab.caption_metrics import CaptionBleu, CaptionBleu1, CaptionBleu2, CaptionBleu3, CiderD, words_of
from seqlab.decoders import Attending
from seqlab.encoders import Lstm, Transformer
from seqlab.inputs import Grid, Patches
from seqlab.nn.grid_positions import grid_sinusoids
from seqlab.nn.positions import NoPositions
from seqlab.parts import Batch, Facts, record
from seqlab.report.overlays import png_of
from seqlab.seq import Seq

FACTS = Facts(symbols={}, features={"image": 3})


def batch(*seeds: int, side: int = 16) -> Batch:
    """Pictures of random bytes."""
    drawn = [np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8) for seed in seeds]
    pixels = torch.from_numpy(np.stack(drawn))
    return Batch(
        {"image": Seq(pixels, torch.ones(pixels.shape[:2], dtype=torch.bool))}, torch.arange(len(seeds))
    )


# Positions (SPEC T1, A7) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", ["down", "across"])
def test_a_step_along_an_axis_is_a_rotation_that_depends_on_the_step_alone(axis):
    """p(y + k, x) = R(k) p(y, x), R block-diagonal with turns by k / N^(2j/h); the other half stays."""
    features, base, k = 12, 50.0, 3
    half = features // 2
    p = grid_sinusoids(9, 9, features, base)  # D Y X
    turned, still = (slice(0, half), slice(half, None))
    if axis == "across":
        turned, still = still, turned
    rotation = torch.zeros(half, half, dtype=p.dtype)
    for j in range(half // 2):
        angle = k / base ** (2 * j / half)
        cos, sin = math.cos(angle), math.sin(angle)
        rotation[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    before, after = (p[:, :-k], p[:, k:]) if axis == "down" else (p[:, :, :-k], p[:, :, k:])
    assert_close(after[turned], torch.einsum("de,eyx->dyx", rotation, before[turned]), atol=1e-6, rtol=0)
    assert_close(after[still], before[still])


def test_permuting_patches_without_positions_permutes_the_outputs():
    torch.manual_seed(0)
    read = Patches(width=8, patch=4).build(FACTS).eval()
    look = Transformer(heads=2, feed_forward=12, positions=NoPositions()).build(8).eval()
    [order] = [torch.randperm(16, generator=torch.Generator().manual_seed(1))]
    given = batch(3)
    pixels = given.inputs["image"].values
    cut = pixels.reshape(1, 4, 4, 4, 4, 3).permute(0, 1, 3, 2, 4, 5).reshape(1, 16, 4, 4, 3)
    mixed = cut[:, order].reshape(1, 4, 4, 4, 4, 3).permute(0, 1, 3, 2, 4, 5).reshape(pixels.shape)
    moved = Batch({"image": given.inputs["image"].with_values(mixed)}, given.rows)
    assert not torch.equal(mixed, pixels)
    assert_close(look(read(moved)).values, look(read(given)).values[:, order], atol=1e-5, rtol=1e-5)


def test_a_patch_is_one_linear_layer_over_its_pixels():
    torch.manual_seed(0)
    read, given = Patches(width=5, patch=4).build(FACTS).eval(), batch(7)
    got = read(given)
    assert got.grid == (4, 4)
    real = given.inputs["image"].values[0].float() / 127.5 - 1  # H W C
    weight = read.linear.weight  # D C p p
    for y in range(4):
        for x in range(4):
            patch = real[4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
            by_hand = torch.einsum("dcij,ijc->d", weight, patch) + read.linear.bias
            assert_close(got.values[0, 4 * y + x], by_hand, atol=1e-5, rtol=1e-5)


# Attention over (x, y) (SPEC R9, A8) ------------------------------------------------------------------------


@torch.no_grad()
def test_a_caption_is_written_by_r9_over_x_and_y():
    """M[x, y] = CNN(picture); h[0] = tanh(W mean M); P(w_t) from h[t−1]; α[x, y] = softmax h[t−1]·W M[x, y];
    v = Σ α M; h[t] = LSTM(h[t−1], [e[w_t]; v])."""
    torch.manual_seed(0)
    read = Grid(channels=(8, 6), least=3).build(FACTS).eval()
    decoder = Attending(width=5, body=Lstm(width=7), attend="early").build(6, 11).eval()
    memory, ids = read(batch(1, 2)), torch.tensor([[2, 7, 9, 8], [2, 8, 7, 10]])
    height, width = memory.grid
    assert height * width == memory.values.shape[1] > 4
    with record(decoder) as tapes:
        states, _ = decoder.advance(ids, decoder.start(memory, 2))
    taped = torch.cat(tapes["look"], dim=2)  # B 1 U−1 Y·X
    said = decoder.answer(states.flatten(0, 1)).scores.log_softmax(-1).reshape(2, 4, -1)
    cell, embedding = torch.nn.LSTMCell(11, 7), decoder.embedding.weight
    (layer,) = decoder.body.ahead
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data.copy_(getattr(layer, f"{name}_l0"))
    for row in range(2):
        grid = memory.values[row].reshape(height, width, -1)  # M[y][x]
        mean = sum(grid[y, x] for y in range(height) for x in range(width)) / (height * width)
        h, c = torch.tanh(decoder.bridge(mean)).split(7)
        for step in range(4):
            probabilities = (embedding @ decoder.combine(h)).log_softmax(-1)
            assert_close(said[row, step], probabilities, atol=1e-5, rtol=1e-4)
            if step == 3:
                break
            asked = decoder.look.query.weight @ h
            scores = {(y, x): float(asked @ grid[y, x]) for y in range(height) for x in range(width)}
            total = sum(map(math.exp, scores.values()))
            alpha = {place: math.exp(score) / total for place, score in scores.items()}
            seen = sum(share * grid[place] for place, share in alpha.items())
            for (y, x), share in alpha.items():
                assert float(taped[row, 0, step, y * width + x]) == pytest.approx(share, abs=1e-5)
            fed = torch.cat([embedding[ids[row, step + 1]], seen])
            h, c = (one[0] for one in cell(fed.unsqueeze(0), (h.unsqueeze(0), c.unsqueeze(0))))


# Metrics ----------------------------------------------------------------------------------------------------

SAID = ["a red circle left of a square", "a man rides a horse", "two dogs", "A red circle!"]
MEANT = [
    ["a red circle left of a blue square", "a circle and a square"],
    ["a man on a brown horse", "A man is riding a horse.", "someone rides"],
    ["two dogs play in the snow", "dogs play"],
    ["a red circle", "a circle"],
]


def cider_by_hand(said, meant):
    """CIDEr-D as the paper writes it (section 4 and 7), for one order at a time, over whole vocabularies."""
    total = np.zeros(len(said))
    for n in range(1, 5):
        grams = lambda text: Counter(zip(*(words_of(text)[i:] for i in range(n)), strict=False))  # noqa: B023, E731
        vocabulary = sorted({gram for texts in meant for text in texts for gram in grams(text)})
        extra = sorted({gram for text in said for gram in grams(text)} - set(vocabulary))
        vocabulary += extra
        document = np.array(
            [sum(any(gram in grams(text) for text in texts) for texts in meant) for gram in vocabulary]
        )
        idf = np.log(len(meant)) - np.log(np.maximum(1, document))
        vector = lambda text: np.array([grams(text)[gram] for gram in vocabulary]) * idf  # noqa: B023, E731
        for row, (text, references) in enumerate(zip(said, meant, strict=True)):
            c = vector(text)
            for reference in references:
                r = vector(reference)
                norms = np.linalg.norm(c) * np.linalg.norm(r)
                cosine = (np.minimum(c, r) @ r) / norms if norms else 0.0
                apart = len(words_of(text)) - len(words_of(reference))
                total[row] += 10 * cosine * math.exp(-(apart**2) / 72) / len(references) / 4
    return total


def test_cider_d_is_what_the_formula_gives():
    metric = CiderD()
    counts = metric.count(SAID, MEANT)
    np.testing.assert_allclose(counts[:, 0], cider_by_hand(SAID, MEANT), atol=1e-9)
    assert metric(SAID, MEANT) == pytest.approx(cider_by_hand(SAID, MEANT).mean())
    assert "sigma:6" in metric.signature(MEANT) and "4 scored" in metric.signature(MEANT)


def test_cider_d_worked_out_on_paper():
    """Two pictures, one reference each: every n-gram stands in one of them, so all weigh log 2 alike. "x y"
    against "x z": one of two words in common, cosine 1/2, no bigram, so 10 · (1/2 + 0 + 0 + 0) / 4."""
    assert CiderD().count(["x y", "p q"], [["x z"], ["p q"]])[:, 0] == pytest.approx([1.25, 5.0])
    longer = CiderD().count(["p q p", "x"], [["p q"], ["x"]])[0, 0]  # p counts twice, but is clipped to one
    unigrams, bigrams = 2 / (math.sqrt(5) * math.sqrt(2)), 1 / math.sqrt(2)
    assert longer == pytest.approx(10 * (unigrams + bigrams) / 4 * math.exp(-1 / 72))


@pytest.mark.parametrize(
    ("metric", "order"), [(CaptionBleu1(), 1), (CaptionBleu2(), 2), (CaptionBleu3(), 3), (CaptionBleu(), 4)]
)
def test_bleu_of_each_order_is_that_of_sacrebleu(metric, order):
    ranked = [[some[rank] if rank < len(some) else None for some in MEANT] for rank in range(3)]
    theirs = BLEU(lowercase=True, max_ngram_order=order, force=True).corpus_score(SAID, ranked)
    assert metric(SAID, MEANT) == pytest.approx(theirs.score, abs=1e-9)
    assert "case:lc" in metric.signature(MEANT)


# Pages ------------------------------------------------------------------------------------------------------


def test_a_picture_that_a_page_carries_is_read_back_as_it_was():
    pixels = batch(5, side=11).inputs["image"].values[0].numpy()[:, :7]
    with Image.open(io.BytesIO(png_of(pixels))) as read:
        assert np.array_equal(np.asarray(read), pixels)
