"""Alignments: rows are what was written, columns what was read, and user text never becomes mark-up."""

import json

import numpy as np
import pytest
import torch

from seqlab.answers.searching import written_tokens
from seqlab.data.tokenizers import BOS, EOS, BpeTokens
from seqlab.decoders import Attending, Causal
from seqlab.encoders import Conv, Gru, Lstm, Transformer
from seqlab.errors import UserError
from seqlab.inputs import Tokens
from seqlab.model import Model, ModelConfig
from seqlab.parts import Batch, Facts
from seqlab.report.alignment import TextFollowed, align, alignment_maps, looks
from seqlab.report.maps import html_part
from seqlab.seq import pad

READ = ["the", "<b>", " riv", "er", "[EOS]"]
WRITTEN = ["la", ' "ri', "vière", "[EOS]"]
LAYER = Transformer(layers=2, heads=2, feed_forward=16)


def writer(decoder, encoder=None):
    torch.manual_seed(0)
    body = encoder or Lstm(width=6)
    parts = ModelConfig(input=Tokens(width=8), encoder=body, pool=None, head=None, decoder=decoder)
    return Model(parts, Facts(symbols={"text": 20, "written": 20})).eval()


def batch():
    read, written = torch.arange(7, 7 + len(READ)), torch.tensor([BOS, 7, 8, 9, EOS])
    return Batch({"text": pad([read])}, torch.tensor([0]), {"written": pad([written])})


def explained(decoder, encoder=None):
    model, texts = writer(decoder, encoder), {"text": "the <b> river", "said": "la rivière"}
    return align(model, batch(), **texts, read=READ, written=WRITTEN)


ATTENDING = {
    "late": (Attending(width=8, body=Gru(width=6)), 1, 4),
    "fed": (Attending(width=8, body=Gru(width=6), feeding=True), 1, 4),
    "early": (Attending(width=8, body=Gru(width=6), attend="early"), 1, 3),
    "transformer": (Causal(width=8, body=LAYER), 2, 4),
}


@pytest.mark.parametrize("kind", ATTENDING)
def test_every_decoder_that_looks_gives_a_row_of_shares_for_each_piece_it_wrote(kind):
    """`early` looks before each step of its cell: the first id is said without a look."""
    decoder, heads, rows = ATTENDING[kind]
    maps = explained(decoder).maps

    assert [len(one.weights) for one in maps] == ([1] if heads == 1 else [1, heads, heads])
    for one in maps:
        assert one.kind == "alignment" and list(one.pieces) == READ and list(one.written) == WRITTEN[-rows:]
        assert one.weights.shape[1:] == (rows, len(READ))
        np.testing.assert_allclose(one.weights.sum(axis=2), 1, atol=1e-5)


def test_the_first_map_is_the_mean_of_the_layers_and_heads():
    mean, *layers = explained(*ATTENDING["transformer"][:1]).maps
    by_hand = np.mean([layer.weights for layer in layers], axis=(0, 1))
    np.testing.assert_allclose(mean.weights[0], by_hand, atol=1e-6)


def test_a_stride_groups_the_pieces_behind_each_slot():
    [one] = explained(ATTENDING["late"][0], Conv(width=6, stride=2, layers=1)).maps
    assert one.pieces == ("the <b>", " riv er", "[EOS]") and one.weights.shape == (1, 4, 3)


def test_without_attention_it_says_so():
    decoder = Attending(width=8, body=Gru(width=6), attend="none")
    assert not looks(writer(decoder)) and looks(writer(ATTENDING["late"][0]))
    with pytest.raises(UserError, match="no attention between what it reads and what it writes"):
        explained(decoder)


def test_self_attention_is_no_alignment():
    assert alignment_maps({"encoder.layers.0.attention": [torch.ones(1, 2, 5, 5)]}, READ, WRITTEN) == []


def test_what_users_wrote_is_no_mark_up():
    drawn = html_part(explained(ATTENDING["transformer"][0]))
    assert "<b>" not in drawn.replace("<b>la rivière</b>", "")  # the bold answer is ours
    assert "\\u003cb>" in drawn, "and in a script's data it can't end the script"


def test_what_is_followed_is_the_mean_log_probability_of_what_was_written():
    """By hand from the scores of one pass; hiding a piece of the source changes it."""
    found = explained(ATTENDING["transformer"][0]).beside
    scores = writer(ATTENDING["transformer"][0])(batch()).answers["written"].scores
    ids = batch().written.values[0, 1:]
    logs = scores.log_softmax(dim=-1)[torch.arange(len(ids)), ids]

    assert found.deletion.gone.tolist() == [0, 1, 2, 3, 4, 5]
    for curve in found.deletion.curves.values():
        assert curve[0] == pytest.approx(logs.mean().exp().item(), abs=1e-5)
    assert set(found.deletion.curves) == {"attention", *(one.name for one in found.maps)}
    assert all(one.pieces == tuple(READ) for one in found.maps)
    assert TextFollowed(ids).score(writer(ATTENDING["transformer"][0])(batch())).shape == (1,)


@pytest.mark.parametrize("ending", ["html", "png", "svg", "json"])
def test_it_is_saved_in_every_format(ending, tmp_path):
    path = explained(ATTENDING["transformer"][0]).save(tmp_path / f"map.{ending}")
    if ending == "json":
        tree = json.loads(path.read_text())
        assert tree["maps"][0]["written"] == WRITTEN and np.shape(tree["maps"][1]["weights"]) == (2, 4, 5)
    else:
        assert path.stat().st_size > 2000


def test_pieces_that_were_written_join_to_the_text():
    """Of the bytes of a rare sign the last shows it; an id may cut words as `encode` never would."""
    tokenizer = BpeTokens(vocabulary=300).train(["la rivière est pleine", "la rivière"])
    ids = [*tokenizer.encode(["la rivière 🐟!"]).row(0), EOS]
    odd = tokenizer.ids(["l", "a", "Ġ", "r"])
    text = tokenizer.decode(ids)

    pieces = written_tokens(tokenizer, ids)

    assert len(pieces) == len(ids) and pieces[-1] == "[EOS]"
    assert "".join(pieces[:-1]) == text == "la rivière 🐟!"
    assert "🐟" in pieces and "\ufffd" not in "".join(pieces)
    assert written_tokens(tokenizer, odd) == ["l", "a", " ", "r"]
