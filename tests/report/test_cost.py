"""What `inspect` says: counts by formula and by counting, its JSON, and growth as predicted."""

import json

import pytest

from seqlab.encoders import Lstm, Transformer
from seqlab.inputs import Tokens
from seqlab.model import ModelConfig, sketch
from seqlab.outputs import Mean
from seqlab.outputs.pools import Structured
from seqlab.parts import Facts
from seqlab.report.amounts import memory, short
from seqlab.report.cost import inspect_model, measure
from seqlab.report.growth import exponent


@pytest.fixture
def inspection():
    """SPEC T3: V = 100, width 200, 4 layers, feed-forward width 200, post-norm, mean pool, two classes."""
    encoder = Transformer(layers=4, heads=4, feed_forward=200, norm="post")
    config = ModelConfig(input=Tokens(width=200), encoder=encoder, pool=Mean())
    return inspect_model(
        sketch(config, Facts(symbols={"text": 100}, outputs={"row": 2})), length=50, tokens=1000
    )


def test_the_worked_example_comes_out_by_counting_and_by_formula(inspection):
    assert inspection.total == inspection.formula_total == 988_402
    assert inspection.by_part == {"input": 20_000, "encoder": 968_000, "pool": 0, "head": 402}


def test_json_is_what_the_interface_promises(inspection):
    tree = json.loads(json.dumps(inspection.to_json()))
    assert tree["parameters"]["total"] == tree["parameters"]["formula_total"] == 988_402
    assert sum(tree["parameters"]["by_part"].values()) == 988_402
    assert sum(layer["parameters"] for layer in tree["layers"]) == 988_402
    for layer in tree["layers"]:
        assert {
            "name",
            "work",
            "work_formula",
            "sequential_steps",
            "longest_path",
            "memory",
            "projections",
        } <= set(layer)
    attention = next(layer for layer in tree["layers"] if layer["name"] == "encoder.layers.0.attention")
    assert (
        attention["work"] == 50 * 50 * 200 and attention["projections"] == 4 * 50 * 200 * 200
    )  # n²d and 4nd²
    assert tree["training"]["flops"] == 6 * 988_402 * 1000


def test_it_prints_as_a_table_with_a_total(inspection):
    text = str(inspection)
    assert "988,402 parameters by counting and by formula" in text
    header, *rows = text.split("\n\n")[0].splitlines()
    assert header.split()[:2] == ["layer", "parameters"] and rows[-1].startswith("in all")
    assert "988,402" in inspection._repr_html_()


def test_recurrent_layers_take_a_step_a_position():
    config = ModelConfig(
        input=Tokens(width=8), encoder=Lstm(width=8, directions="both"), pool=Structured(hops=2)
    )
    found = inspect_model(sketch(config, Facts(symbols={"text": 10}, outputs={"row": 2})), length=77)
    steps = {layer.name: layer.sequential_steps for layer in found.layers}
    assert steps["encoder.ahead.0"] == steps["encoder.back.0"] == 77 and steps["pool"] == 1


def test_an_exponent_is_the_slope_between_logarithms():
    assert exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_measured_growth_stands_beside_the_predicted():
    found = measure(lengths=(32, 64), widths=(16, 32), repeats=1)
    assert [one.axis for one in found] == [*"nnnndddd"]
    assert [one.limit for one in found] == [2, 1, 1, 1, 1, 2, 2, 1]  # n²d, nd², knd², rnd
    assert all(len(one.seconds) == 2 and one.seconds[0] > 0 for one in found)
    json.dumps([one.to_json() for one in found])
    assert "n²d" in str(found[0])


def test_sizes_are_written_for_people():
    assert [short(0), short(950), short(12_345_678)] == ["", "950", "12.3 M"]
    assert [memory(0), memory(512), memory(3_200_000)] == ["", "512 B", "3.2 MB"]
