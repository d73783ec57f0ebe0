"""Work, time with unlimited processors, lengths and crossings, several models, the page."""

import json
import math
import re

import pytest

from seqlab.encoders import BothWays, Conv, Gru, Lstm, Rnn, Transformer
from seqlab.inputs import Patches, Tokens
from seqlab.model import ModelConfig, sketch
from seqlab.outputs import Attention, Mean
from seqlab.parts import Facts
from seqlab.report.amounts import operations
from seqlab.report.beside import SideBySide
from seqlab.report.cost import inspect_model
from seqlab.report.layer_costs import levels
from seqlab.report.lengths import crossing, layer_crossings, model_crossings
from seqlab.report.model_drawing import draw_model, flows_of
from seqlab.report.published import Published

FACTS = Facts(symbols={"text": 50}, outputs={"row": 3}, features={"image": 3})


def model(encoder, width=64, pool=None, reads=None):
    config = ModelConfig(input=reads or Tokens(width=width), encoder=encoder, pool=pool or Mean())
    return sketch(config, FACTS)


def layer(encoder, length, kind, width=64, **more):
    """The first layer of a kind."""
    found = inspect_model(model(encoder, width, **more), length)
    return next(one for one in found.layers if one.kind == kind)


def self_attention(length, width):
    return layer(Transformer(layers=1, heads=4), length, "self-attention", width)


def test_so_many_additions_follow_one_another_in_a_tree():
    assert [levels(count) for count in (0, 1, 2, 3, 4, 5, 1024, 1025)] == [0, 0, 1, 2, 2, 3, 10, 11]


@pytest.mark.parametrize("length", [64, 256])
@pytest.mark.parametrize("width", [32, 128])
def test_self_attention_with_unlimited_processors(length, width):
    """SPEC M2: O(ln T + ln J), or O(J + ln T) when inner products are added up one by one."""
    one = self_attention(length, width)
    assert one.trees == math.log2(length) + math.log2(width)
    assert one.serial == width + math.log2(length)


def test_soft_attention_with_unlimited_processors():
    """SPEC M2: O(ln T + ln U) and O(U + ln T)."""
    one = layer(Lstm(width=64), 256, "attention", pool=Attention(hidden=16))
    assert (one.trees, one.serial) == (8 + 6, 64 + 8)


def test_spatial_attention_adds_up_over_all_slots():
    """SPEC M2: O(ln XY + ln J). Patches of 8 make 16 × 16 slots of a picture of 128 × 128."""
    patches = Patches(width=64, patch=8)
    one = layer(Transformer(layers=1), 128, "spatial self-attention", reads=patches)
    assert one.over == 256 and one.trees == 8 + 6 and one.work == 256 * 256 * 64


@pytest.mark.parametrize("layers", [1, 3])
def test_stacks_with_unlimited_processors(layers):
    """SPEC M2: O(T + L) for recurrent layers of one direction, O(L) for convolutions however long the text
    is. Layers that read both directions of the ones below wait for their ends: T · L."""
    times = {
        name: [inspect_model(model(encoder), length).parallel[0] for length in (128, 256)]
        for name, encoder in {
            "one": Rnn(width=64, layers=layers),
            "apart": BothWays(body=Rnn(width=64, layers=layers)),
            "mixed": Rnn(width=64, layers=layers, directions="both"),
            "conv": Conv(width=64, layers=layers, kernel=4),
        }.items()
    }
    head = {"one": 6, "apart": 7, "mixed": 7, "conv": 6}  # log2 of what the head adds up
    assert times["one"] == [6 * (length + layers - 1) + head["one"] for length in (128, 256)]
    assert times["apart"] == [6 * (length + layers - 1) + head["apart"] for length in (128, 256)]
    assert times["mixed"] == [6 * length * layers + head["mixed"] for length in (128, 256)]
    assert times["conv"] == [8 * layers + head["conv"]] * 2  # log2(4 · 64)


def test_both_products_of_attention_count_as_work():
    """2n²d + 4nd² forward, twice that backward."""
    one = self_attention(100, 32)
    assert one.work == 100 * 100 * 32 and one.projections == 4 * 100 * 32 * 32
    assert one.forward == 2 * one.work + one.projections and one.backward == 2 * one.forward


@pytest.mark.parametrize("width", [64, 200])
def test_self_attention_overtakes_a_recurrent_layer_at_n_around_d(width):
    """n²d > nd² from n = d + 1 on. With all products 2n²d + 4nd² > 6nd² (GRU) from d + 1, > 8nd² (LSTM) from
    2d + 1, and always > 2nd² (RNN)."""
    leading, whole = layer_crossings(width)
    assert f"up to n = {width}, and more from n = {width + 1} on" in leading
    assert f"rnn at any length, gru from n = {width + 1} on and lstm from n = {2 * width + 1} on" in whole


def test_models_that_cross_say_where():
    """By the totals at that length and the one before."""
    models = {"gru": model(Gru(width=64)), "transformer": model(Transformer(layers=1, feed_forward=16))}
    [line] = model_crossings(models)
    place = int(re.search(r"transformer takes more work forward than gru from n = (\d+) on", line)[1])
    at = {n: {k: inspect_model(m, n).forward for k, m in models.items()} for n in (place - 1, place)}
    assert at[place]["transformer"] > at[place]["gru"]
    assert at[place - 1]["transformer"] <= at[place - 1]["gru"]


def test_a_crossing_is_the_first_length_that_costs_more():
    assert crossing(lambda n: n * n, lambda n: 10 * n) == 11
    assert crossing(lambda n: n, lambda n: n + 1) is None
    assert crossing(lambda n: n + 1, lambda n: n) == 1


def test_a_run_folder_holds_weights_and_two_states():
    """Weights once; weights, averages and two moments twice; without moments where the optimiser has none."""
    found = inspect_model(model(Lstm(width=64)), 10)
    assert found.folder == 4 * found.total * (1 + 2 * 4)
    assert inspect_model(model(Lstm(width=64)), 10, moments=0).folder == 4 * found.total * (1 + 2 * 2)


def test_models_stand_side_by_side_with_what_some_lack_left_empty():
    known = Published(symbols=50, size="1 M", data="books", year=2018, operations=6e9, tokens=3e5)
    one = inspect_model(model(Lstm(width=64)), 10, name="one", task="a", published=known)
    other = inspect_model(model(Conv(width=64)), 10, name="other", task="b")
    text = str(SideBySide([one, other]))
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines() if line}
    assert rows["parameters, counted"][-2:] != rows["sequential steps"][-2:] == ["10", "1"]
    assert "books" in text and operations(6 * one.total * 3e5) in text
    tree = json.loads(json.dumps(SideBySide([one, other]).to_json()))
    assert [each["name"] for each in tree["models"]] == ["one", "other"]
    assert tree["models"][0]["published"]["by_formula"] == 6 * one.total * 3e5
    assert "published" not in tree["models"][1]


def test_a_model_is_drawn_with_its_shapes():
    flows = flows_of(sketch(ModelConfig(encoder=Conv(width=32, stride=2, layers=2)), FACTS), FACTS, 100)
    drawn = draw_model(flows, "a <b>")
    assert "a &lt;b&gt;" in drawn
    told = re.findall(r'class="shape"[^>]*>([^<]*)<', drawn)
    assert told == ["B × 100", "B × 100 × 128", "B × 25 × 32", "B × 32", "B × 3"]
    assert [box.name for box in flows[0].boxes] == ["input", "encoder", "pool", "head"]
