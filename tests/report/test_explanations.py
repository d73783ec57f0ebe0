"""Maps: weights are shares, they sit on the right pieces, and user text never becomes mark-up."""

import base64
import json
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from seqlab.encoders import Conv, Gru, Lstm, NoEncoder, Stack, Transformer
from seqlab.errors import UserError
from seqlab.inputs import Bag, Tokens
from seqlab.inputs.nested import NestedConfig, NestedContextConfig
from seqlab.model import Model, ModelConfig
from seqlab.outputs import Linear, Mean
from seqlab.outputs.heads import Direct
from seqlab.outputs.pools import Attention, Max, Structured
from seqlab.parts import Batch, Facts
from seqlab.report import viewer
from seqlab.report.attention import explain, grouped
from seqlab.report.explanation import Explanation, Map
from seqlab.report.gradients import answer_score, contributions
from seqlab.report.maps import html_part
from seqlab.report.viewer import coded, panels_of, spaced
from seqlab.seq import Nested, pad

FACTS = Facts(symbols={"text": 50, "grams": 64}, outputs={"row": 3})
WORDS = ["this", "movie", "is", "so", "<script>alert(1)</script>", "great", "&", "warm"]
SENTENCES = [["a", "bad", "start"], ["then"], ["it", "gets", "so", "much", "better", "!"]]
SAID = {"label": "positive", "scores": {"positive": 0.7, "<i>": 0.2, "negative": 0.1}}
TOKENS = Tokens(width=8)
HAN = {
    "input": NestedConfig(inner=TOKENS, encoder=Gru(width=4), pool=Attention()),
    "encoder": Gru(width=4),
    "pool": Attention(),
}
HAN_CONTEXT = {
    "input": NestedContextConfig(inner=TOKENS, encoder=Gru(width=4)),
    "encoder": NoEncoder(),
    "pool": Attention(),
}


def model(**parts):
    torch.manual_seed(0)
    return Model(ModelConfig(**parts), FACTS).eval()


def sentence():
    return Batch({"text": pad([torch.arange(len(WORDS))])}, torch.tensor([0]))


def document():
    rows = [torch.randint(0, 50, (len(words),)) for words in SENTENCES]
    return Batch({"text": Nested(pad(rows), torch.ones(1, 3, dtype=torch.bool))}, torch.tensor([0]))


def explained(batch=None, pieces=WORDS, **parts):
    return explain(
        model(**parts), batch or sentence(), text=" ".join(map(str, pieces)), pieces=pieces, said=SAID
    )


def test_attention_pooling_is_one_row_of_shares():
    [one] = explained(input=TOKENS, encoder=Gru(width=6), pool=Attention()).maps
    assert one.kind == "tokens" and list(one.pieces) == WORDS
    assert one.weights.sum() == pytest.approx(1, abs=1e-5)


def test_hops_are_rows_of_shares():
    [one] = explained(input=TOKENS, encoder=Gru(width=6), pool=Structured(hops=3)).maps
    assert one.kind == "hops" and one.weights.shape == (3, len(WORDS))
    np.testing.assert_allclose(one.weights.sum(axis=1), 1, atol=1e-5)


def test_self_attention_is_shown_by_layer_and_head_with_what_each_piece_receives_first():
    first, *layers = explained(input=TOKENS, encoder=Transformer(layers=2, heads=4), pool=Mean()).maps
    assert first.kind == "tokens" and first.weights.sum() == pytest.approx(1, abs=1e-5)
    assert [one.weights.shape for one in layers] == [(4, len(WORDS), len(WORDS))] * 2
    for one in layers:
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)
    received = np.mean([one.weights for one in layers], axis=(0, 1, 2))
    np.testing.assert_allclose(first.weights, received, atol=1e-6)


def test_a_pool_above_self_attention_comes_first():
    first, *layers = explained(input=TOKENS, encoder=Transformer(layers=2, heads=2), pool=Attention()).maps
    assert first.name == "attention of the pool" and len(layers) == 2


@pytest.mark.parametrize("parts", [HAN, HAN_CONTEXT], ids=["han", "han-context"])
def test_documents_have_shares_of_sentences_and_of_words_in_each(parts):
    [one] = explained(document(), SENTENCES, **parts).maps
    assert one.kind == "document" and one.weights.sum() == pytest.approx(1, abs=1e-5)
    assert [len(words) for words in one.words] == [3, 1, 6]
    assert [float(words.sum()) for words in one.words] == pytest.approx([1, 1, 1], abs=1e-5)


def test_word_weights_stand_beside_the_words_of_their_own_sentence():
    """A sentence explained alone has the same word weights as in its document: plain HAN reads each alone."""
    whole = document()
    together = explained(whole, SENTENCES, **HAN).maps[0]
    field = whole.inputs["text"]
    for place, words in enumerate(SENTENCES):
        alone = Nested(pad([field.inner.values[place, : len(words)]]), torch.ones(1, 1, dtype=torch.bool))
        [one] = explained(Batch({"text": alone}, torch.tensor([0])), [words], **HAN).maps
        np.testing.assert_allclose(one.words[0], together.words[place], atol=1e-5)


def test_a_stride_puts_several_pieces_behind_one_state():
    assert grouped(list("abcdefg"), 4) == ("a b", "c d", "e f", "g")
    assert grouped(list("abcdefg"), 2) == ("a b c d", "e f g")
    assert grouped(["a", "b", "c"], 4, longest=7) == ("a b", "c")
    [one] = explained(input=TOKENS, encoder=Conv(width=6, stride=2), pool=Attention()).maps
    assert len(one.pieces) == len(one.weights) == -(-len(WORDS) // 2)


def test_only_self_attention_after_a_stride_is_shown():
    stack = Stack(
        encoders=(Transformer(layers=1, heads=2), Conv(width=8, stride=2), Transformer(layers=1, heads=2))
    )
    maps = explained(input=TOKENS, encoder=stack, pool=Mean()).maps
    assert [one.weights.shape[-1] for one in maps] == [-(-len(WORDS) // 2)] * 2


def test_a_model_without_attention_says_so_and_shows_gradients():
    found = explained(input=TOKENS, encoder=Lstm(width=6), pool=Max())
    assert found.method == "gradient × input" and "no attention" in found.note
    assert found.maps[0].signed and found.maps[0].weights.shape == (len(WORDS),)


def test_gradient_times_input_is_exact_for_a_linear_model():
    """Mean pool and linear head: the contributions add up to the score above the mean score, without the
    biases' part."""
    linear = model(input=TOKENS, encoder=NoEncoder(), pool=Mean(), head=Linear())
    batch = sentence()
    scores = linear(batch).answers["row"].scores
    bias = linear.head.output.bias
    expected = answer_score(scores) - (bias[scores.argmax()] - bias.mean())
    assert contributions(linear, batch).sum() == pytest.approx(expected.item(), abs=1e-5)


def test_gradients_of_a_document_have_a_row_a_sentence_in_reading_order():
    """Many sentences are read in groups of like length; their rows come back in order, 0 at the padding."""
    flat = model(
        input=NestedConfig(inner=TOKENS, encoder=NoEncoder(), pool=Mean()), encoder=NoEncoder(), pool=Mean()
    )
    lengths = [1 + place % 5 for place in range(80)]
    rows = [torch.randint(0, 50, (length,)) for length in lengths]
    batch = Batch({"text": Nested(pad(rows), torch.ones(1, 80, dtype=torch.bool))}, torch.tensor([0]))
    found = contributions(flat, batch, inner=True)
    direction = flat.head.output.weight - flat.head.output.weight.mean(dim=0)
    best = flat(batch).answers["row"].scores.argmax()
    for row, ids, length in zip(found, rows, lengths, strict=True):
        vectors = flat.input.inner(Batch({"text": pad([ids])}, torch.tensor([0]))).values[0]
        expected = (vectors @ direction[best] / length / 80).detach().numpy()
        np.testing.assert_allclose(row[:length], expected, atol=1e-6)
        assert not row[length:].any()


def test_a_bag_of_words_is_explained_exactly():
    """Σ contributions + the bias's part = the score of the answer above the mean of all scores."""
    bag = model(input=Bag(), encoder=NoEncoder(), pool=Mean(), head=Direct())
    torch.nn.init.normal_(bag.input.embedding)
    torch.nn.init.normal_(bag.head.bias)
    grams, weights = torch.tensor([3, 9, 9, 40]), torch.tensor([0.1, 0.5, 0.2, 0.8])
    batch = Batch({"grams": pad([grams]), "weights": pad([weights])}, torch.tensor([0]))
    found = explain(bag, batch, text="so good", pieces=["so", "good", "so good", "!"], said=SAID)
    scores = bag(batch).answers["row"].scores.detach()
    bias = bag.head.bias[scores.argmax()] - bag.head.bias.mean()
    assert found.method == "weight × n-gram" and "exact" in found.note
    assert found.maps[0].weights.sum() + bias.item() == pytest.approx(answer_score(scores).item(), abs=1e-5)


def test_explaining_leaves_no_trace_in_the_model():
    one = model(input=TOKENS, encoder=Transformer(layers=1, heads=2), pool=Attention())
    before = one(sentence()).answers["row"].scores
    explain(one, sentence(), text="", pieces=WORDS, said=SAID)
    contributions(one, sentence())
    assert torch.equal(before, one(sentence()).answers["row"].scores)
    assert all(parameter.grad is None for parameter in one.parameters())


# Saving ----------------------------------------------------------------------------------------------------

EVERY_KIND = {
    "tokens": {"input": TOKENS, "encoder": Gru(width=6), "pool": Attention()},
    "hops": {"input": TOKENS, "encoder": Gru(width=6), "pool": Structured(hops=3)},
    "matrix": {"input": TOKENS, "encoder": Transformer(layers=2, heads=2), "pool": Mean()},
    "signed": {"input": TOKENS, "encoder": Gru(width=6), "pool": Mean()},
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_page_needs_no_network_and_escapes_user_text(kind, tmp_path):
    path = explained(**EVERY_KIND[kind]).save(tmp_path / "map.html")
    page = path.read_text(encoding="utf-8")
    assert "alert(1)" in page and "<script>alert" not in page and "<i>" not in page.replace('<i style="', "")
    assert "http" not in page and "src=" not in page and "@import" not in page
    assert page.count("</script>") == page.count("<script"), "no word ends a script"
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"


def test_json_carries_every_weight(tmp_path):
    found = explained(**EVERY_KIND["matrix"])
    tree = json.loads(found.save(tmp_path / "map.json").read_text())
    assert tree["label"] == "positive" and tree["method"] == "attention"
    np.testing.assert_allclose(tree["maps"][1]["weights"], found.maps[1].weights)
    [one] = explained(document(), SENTENCES, **HAN).to_json()["maps"]
    assert [sentence["pieces"] for sentence in one["sentences"]] == SENTENCES


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_picture_can_be_drawn_of_every_kind(kind, tmp_path):
    path = explained(**EVERY_KIND[kind]).save(tmp_path / "map.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_drawing_is_saved_that_any_size_suits(kind, tmp_path):
    """As .svg: words stay words, and the same map makes the same file."""
    found = explained(**EVERY_KIND[kind])
    drawn = found.save(tmp_path / "map.svg").read_text(encoding="utf-8")
    tree = ElementTree.fromstring(drawn)
    texts = {part.text for part in tree.iter() if part.text}
    assert tree.tag.endswith("svg") and {"great", "integrated gradients"} <= texts
    assert "<script>alert" not in drawn
    assert found.save(tmp_path / "again.svg").read_text(encoding="utf-8") == drawn


def test_beside_the_maps_stand_three_attributions_and_how_the_answer_falls():
    found = explained(**EVERY_KIND["tokens"])
    tree = found.to_json()["beside"]
    assert [one["name"] for one in tree["maps"]] == ["gradient × input", "integrated gradients", "occlusion"]
    assert all(len(one["weights"]) == len(WORDS) for one in tree["maps"])
    assert set(tree["deletion"]["curves"]) == {"attention", *(one["name"] for one in tree["maps"])}
    assert "add up to" in tree["note"] and "probability of “positive”" in tree["deletion"]["followed"]
    gradients = contributions(model(**EVERY_KIND["tokens"]), sentence())[0]
    np.testing.assert_allclose(found.beside.maps[0].weights, gradients, atol=1e-5)


def test_of_documents_the_words_are_weighed():
    found = explained(document(), SENTENCES, **HAN).beside
    for one in found.maps:
        assert one.sentences == tuple(map(tuple, SENTENCES)) and [len(row) for row in one.words] == [3, 1, 6]
        assert one.weights == pytest.approx([row.sum() for row in one.words], abs=1e-6)
    assert found.deletion.gone[-1] == 10 and "attention" in found.deletion.curves


def test_a_number_has_attributions_and_no_curve():
    torch.manual_seed(0)
    facts = Facts(symbols={"text": 50}, outputs={"row": 1})
    one = Model(ModelConfig(input=TOKENS, encoder=Gru(width=6), pool=Attention()), facts).eval()
    found = explain(one, sentence(), text="", pieces=WORDS, said={"value": 1.5}).beside
    assert len(found.maps) == 3 and found.deletion is None and "no probability" in found.note


def test_the_viewer_is_handed_every_head_and_what_all_come_to():
    """A byte a weight, beside the largest of its row: within 1/255 of it."""
    found = explained(**EVERY_KIND["matrix"])
    [panels] = panels_of(found)
    assert [(name, list(some)) for name, some in panels.groups.items()] == [
        ("all layers", ["mean", "maximum", "rollout"]),
        ("layer 1", ["head 1", "head 2", "mean of heads"]),
        ("layer 2", ["head 1", "head 2", "mean of heads"]),
    ]
    weights = found.maps[2].weights[1]
    np.testing.assert_array_equal(panels.groups["layer 2"]["head 2"], weights)
    for one in (weights, weights - 0.1):
        tree = coded(one)
        code = np.frombuffer(base64.b64decode(tree["bytes"]), np.uint8).astype(float)
        shares = (code - 128) / 127 if tree.get("signed") else code / 255
        tops = np.array(tree["tops"])[:, None]
        assert (np.abs(shares.reshape(one.shape) * tops - one) <= tops / 200).all()


def test_a_page_that_would_be_too_large_has_the_mean_of_the_heads(monkeypatch):
    monkeypatch.setattr(viewer, "MOST_NUMBERS", 100)
    [panels] = panels_of(explained(**EVERY_KIND["matrix"]))
    assert list(panels.groups["layer 1"]) == ["mean of heads"] and "map.json has them all" in panels.told


def test_documents_and_bags_are_drawn_as_pages_and_pictures(tmp_path):
    grams = Map(
        name="n-grams", kind="grams", weights=np.array([0.2, -0.1]), pieces=("so good", "<b>"), signed=True
    )
    bag = Explanation(text="", label="yes", scores={}, maps=(grams,), method="weight × n-gram")
    for place, found in enumerate((explained(document(), SENTENCES, **HAN), bag)):
        assert found.save(tmp_path / f"{place}.png").read_bytes().startswith(b"\x89PNG")
        page = found.save(tmp_path / f"{place}.html").read_text(encoding="utf-8")
        assert "<b>&lt;b" not in page and "http" not in page


def test_dollar_signs_in_a_text_are_no_formulas(tmp_path):
    one = Map(name="attention", kind="tokens", weights=np.array([0.5, 0.5]), pieces=("$a_", "^{$"))
    path = Explanation(text="", label="$x^", scores={}, maps=(one,), method="attention").save(
        tmp_path / "map.png"
    )
    assert path.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="gif") as caught:
        explained(**EVERY_KIND["tokens"]).save(tmp_path / "map.gif")
    assert ".html, .png, .svg or .json" in str(caught.value)


def test_without_matplotlib_a_picture_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError) as caught:
        explained(**EVERY_KIND["tokens"]).save(tmp_path / "map.png")
    assert 'pip install "seqlab[plot]"' in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_notebooks_get_the_drawing_with_its_own_colours():
    drawn = explained(**EVERY_KIND["hops"])._repr_html_()
    assert drawn.startswith('<div class="seqlab">') and "hop 3" in drawn and ":root" not in drawn


def test_pieces_are_spaced_as_they_were_read():
    assert spaced(["good", "film"]) == (False, [(" ", "good"), (" ", "film")])
    assert spaced(list("abc")) == (True, [("", "a"), ("", "b"), ("", "c")])
    assert spaced(["Ġso", "me", "Ġwords"])[1] == [(" ", "so"), ("", "me"), (" ", "words")]


def test_weights_that_are_all_zero_are_drawn_without_a_fault():
    one = Map(name="nothing", kind="tokens", weights=np.zeros(2), pieces=("a", "b"), signed=True)
    assert "nan" not in html_part(
        Explanation(text="", label="1.5", scores={}, maps=(one,), method="gradient × input")
    )
