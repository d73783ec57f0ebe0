"""A classifier that is solved outright by counting words for and against: attributions find these words, and
the answer falls as they go."""

import csv
import random

import numpy as np
import pytest

import seqlab

GOOD = ["great", "warm", "funny", "bright", "lovely", "moving"]
BAD = ["dull", "cold", "slow", "empty", "weak", "boring"]
FILLERS = ["the", "plot", "was", "a", "film", "with", "its", "cast", "and", "music", "here", "then"]
SETTINGS = {
    "model.head.dropout": 0.0, "model.input.dropout": 0.0, "model.input.width": 16,
    "training.baseline": False, "training.batch_tokens": 512, "training.threads": 1,
    "data.tokens.kind": "words",
}  # fmt: skip


def reviews(count, seed):
    """Three or four words for the label, none or one against it, and nine or seven that say nothing."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        label = draw.choice(["good", "bad"])
        most, least = (GOOD, BAD) if label == "good" else (BAD, GOOD)
        against = draw.randrange(2)
        words = draw.choices(most, k=against + 3) + draw.choices(least, k=against)
        words += draw.choices(FILLERS, k=9 - 2 * against)
        draw.shuffle(words)
        rows.append((" ".join(words), label))
    return rows


@pytest.mark.parametrize("model", ["bilstm", "self-attentive"])
def test_the_answer_falls_earlier_in_the_order_of_an_attribution_than_at_random(model, tmp_path, monkeypatch):
    """The mean height of the curve was 0.41 to 0.45 for all three, 0.85 to 0.88 at random, and 0.83 in the
    order of the hops' attention."""
    monkeypatch.setenv("SEQLAB_CACHE", str(tmp_path / "cache"))
    with (tmp_path / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *reviews(800, 0)])
    table, out = str(tmp_path / "train.csv"), tmp_path / "run"
    run = seqlab.train("classify", table, model=model, steps=150, out=out, settings=SETTINGS, quiet=True)

    chance, areas, best = [], {}, []
    for text, label in reviews(12, 1):
        explanation = run.explain(text)
        found = explanation.beside
        assert explanation.label == label and found.maps[0].pieces == tuple(text.split())
        chance.append(found.deletion.random_areas.mean())
        for one in found.maps:
            areas.setdefault(one.name, []).append(found.deletion.areas[one.name])
            best.append(one.pieces[one.weights.argmax()] in (GOOD if label == "good" else BAD))
    assert list(areas) == ["gradient × input", "integrated gradients", "occlusion"]
    for name, some in areas.items():
        assert np.mean(some) < np.mean(chance) - 0.2, (name, some, chance)
    assert np.mean(best) > 0.8
