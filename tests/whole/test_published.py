"""The published sizes, from the command line."""

import json

import pytest

GPT = {"gpt-1": 116_534_784, "gpt-2": 1_557_611_200, "gpt-3": 174_604_259_328}


@pytest.mark.parametrize(("name", "total"), GPT.items())
def test_the_gpt_presets_have_the_published_number_of_parameters(seqlab, name, total):
    """By counting and by formula, without memory for the weights (SPEC T6)."""
    code, out, err = seqlab("inspect", name, "--json")
    assert code == 0, err
    parameters = json.loads(out)["parameters"]
    assert parameters["total"] == parameters["formula_total"] == total


def test_training_gpt_3_takes_3_640_petaflop_s_days(seqlab):
    """6 · parameters · 300 billion tokens, a petaflop/s-day being 10¹⁵ · 86,400 operations."""
    code, out, err = seqlab("inspect", "gpt-3", "--tokens", "300e9")
    assert code == 0, err
    days = 6 * 174_604_259_328 * 300e9 / (1e15 * 86_400)
    assert 3_600 < days < 3_680
    assert f"{days:,.4g} petaflop/s-days" in out


def test_the_language_model_of_t3_from_the_command_line(seqlab):
    code, out, err = seqlab(
        "inspect", "transformer", "--task", "generate", "--vocabulary", "100", "--json", "model.decoder.width=200",
        "model.decoder.body.layers=4", "model.decoder.body.feed_forward=200", "model.decoder.body.norm=post",
        "model.decoder.tied=false", "model.decoder.bias=true",
    )    # fmt: skip
    assert code == 0, err
    assert json.loads(out)["parameters"]["total"] == 1_008_100


@pytest.mark.parametrize(("more", "total"), [((), 63_082_496), (("model.shared=false", "model.decoder.tied=false"), 100_970_496)])
def test_the_base_transformer_of_2017_from_the_command_line(seqlab, more, total):
    same = ("layers=6", "heads=8", "feed_forward=2048", "norm=post")
    code, out, err = seqlab(
        "inspect", "transformer", "--task", "translate", "--vocabulary", "37000", "--json", "model.input.width=512",
        "model.decoder.width=512", *(f"model.encoder.{one}" for one in same), *more,
        *(f"model.decoder.body.{one}" for one in same),
    )    # fmt: skip
    assert code == 0, err
    assert json.loads(out)["parameters"]["total"] == total
