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


def encoder_layer(width):
    """Four projections, a feed-forward block four times as wide, two norms: 12d² + 13d."""
    return 4 * (width**2 + width) + (8 * width**2 + 5 * width) + 4 * width


def decoder_layer(width):
    """The same, with four more projections and a norm for what is read: 16d² + 19d."""
    return encoder_layer(width) + 4 * (width**2 + width) + 2 * width


def bert(width, layers, symbols=30_522):
    """Words, 512 positions, 2 segments and a norm; layers; pooler and next-sentence head; transform, its
    norm, a bias a word."""
    below = (symbols + 512 + 2 + 2) * width + layers * encoder_layer(width)
    return below + (width**2 + width) + (2 * width + 2) + (width**2 + 3 * width) + symbols


def roberta(width, layers, symbols=50_265):
    """No segments and no pooler; two rows of positions more."""
    return (symbols + 514 + 2) * width + layers * encoder_layer(width) + (width**2 + 3 * width) + symbols


def bart(width, layers, symbols=50_265):
    """Words once for all; on each side 1,026 positions and a norm."""
    return (symbols + 2 * (1026 + 2)) * width + layers * (encoder_layer(width) + decoder_layer(width))


PRETRAINED = {
    "bert-base": (bert(768, 12), 110_106_428),
    "bert-large": (bert(1024, 24), 336_226_108),
    "roberta-base": (roberta(768, 12), 124_697_433 - 768),
    "roberta-large": (roberta(1024, 24), 355_412_057 - 1024),
    "camembert-base": (roberta(768, 12, 32_005), 110_655_493 - 768),
    "gpt-1": ((40_478 + 512) * 768 + 12 * encoder_layer(768), 116_534_784),
    "gpt-2-small": ((50_257 + 1024 + 2) * 768 + 12 * encoder_layer(768), 124_439_808),
    "bart-base": (bart(768, 6), 139_420_416),
    "bart-large": (bart(1024, 12), 406_291_456),
}
"""By formula, and as the published checkpoints count; RoBERTa's one token-type vector is part of its
positions here."""


@pytest.mark.parametrize("name", PRETRAINED)
def test_the_pretrained_families_have_the_published_number_of_parameters(seqlab, name):
    code, out, err = seqlab("inspect", name, "--task", "pretrain", "--json")
    assert code == 0, err
    parameters = json.loads(out)["parameters"]
    assert [parameters["total"], parameters["formula_total"]] == [PRETRAINED[name][0]] * 2
    assert PRETRAINED[name][0] == PRETRAINED[name][1]


def test_training_gpt_3_takes_3_640_petaflop_s_days(seqlab):
    """6 · parameters · 300 billion tokens, a petaflop/s-day being 10¹⁵ · 86,400 operations."""
    code, out, err = seqlab("inspect", "gpt-3", "--tokens", "300e9")
    assert code == 0, err
    days = 6 * 174_604_259_328 * 300e9 / (1e15 * 86_400)
    assert 3_600 < days < 3_680
    assert f"{days:,.4g} petaflop/s-days" in out


def test_the_language_model_of_t3_from_the_command_line(seqlab):
    code, out, err = seqlab(
        "inspect",
        "transformer",
        "--task",
        "generate",
        "--vocabulary",
        "100",
        "--json",
        "model.decoder.width=200",
        "model.decoder.body.layers=4",
        "model.decoder.body.feed_forward=200",
        "model.decoder.body.norm=post",
        "model.decoder.tied=false",
        "model.decoder.bias=true",
    )
    assert code == 0, err
    assert json.loads(out)["parameters"]["total"] == 1_008_100


@pytest.mark.parametrize(
    ("more", "total"), [((), 63_082_496), (("model.shared=false", "model.decoder.tied=false"), 100_970_496)]
)
def test_the_base_transformer_of_2017_from_the_command_line(seqlab, more, total):
    """The preset, and the same written out, as docs/translate.md has it (SPEC T3)."""
    same = ("layers=6", "heads=8", "feed_forward=2048", "norm=post")
    written_out = (
        "transformer",
        "--task",
        "translate",
        "--vocabulary",
        "37000",
        "model.input.width=512",
        "model.decoder.width=512",
        *(f"model.encoder.{one}" for one in same),
        *(f"model.decoder.body.{one}" for one in same),
    )
    for words in (("transformer-base",), written_out):
        code, out, err = seqlab("inspect", *words, *more, "--json")
        assert code == 0, err
        parameters = json.loads(out)["parameters"]
        assert parameters["total"] == parameters["formula_total"] == total
