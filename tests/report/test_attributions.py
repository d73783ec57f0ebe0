"""Attributions and deletion curves: against closed forms, plain loops and models that are solved by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from seqlab.encoders import Conv, Gru, Lstm, NoEncoder, Transformer
from seqlab.inputs import Bag, Tokens
from seqlab.inputs.nested import NestedConfig, NestedContextConfig
from seqlab.model import Model, ModelConfig
from seqlab.outputs import Linear, Mean
from seqlab.outputs.heads import Direct
from seqlab.outputs.pools import Attention, Max
from seqlab.parts import Batch, Facts
from seqlab.report import deletion as curves
from seqlab.report.attributions import HIDDEN, gradient_times_input, integrated_gradients, occlusion
from seqlab.report.deletion import deletion, kept_after
from seqlab.report.faded import Faded, LabelFollowed, NumberFollowed, copies
from seqlab.report.gradients import contributions
from seqlab.report.rollout import maximum_of_layers, mean_of_layers, overlap_of_hops, rollout
from seqlab.seq import Nested, pad

FACTS = Facts(symbols={"text": 50, "grams": 64}, outputs={"row": 3})
TOKENS = Tokens(width=8)
SENTENCES = (3, 1, 6)
BODIES = {
    "gru": {"input": TOKENS, "encoder": Gru(width=6), "pool": Attention()},
    "lstm max": {"input": TOKENS, "encoder": Lstm(width=6, directions="both"), "pool": Max()},
    "conv": {"input": TOKENS, "encoder": Conv(width=6, stride=2), "pool": Mean()},
    "transformer": {"input": TOKENS, "encoder": Transformer(layers=2, heads=2), "pool": Mean()},
    "han": {
        "input": NestedConfig(inner=TOKENS, encoder=Gru(width=4), pool=Attention()),
        "encoder": Gru(width=4),
        "pool": Attention(),
    },
    "han-context": {
        "input": NestedContextConfig(inner=TOKENS, encoder=Gru(width=4)),
        "encoder": NoEncoder(),
        "pool": Attention(),
    },
    "bag": {"input": Bag(width=6), "encoder": NoEncoder(), "pool": Mean(), "head": Linear(hidden=(7,))},
}


def model(**parts):
    torch.manual_seed(0)
    made = Model(ModelConfig(**parts), FACTS).eval()
    for parameter in made.parameters():  # biases and all, so that nothing is zero by accident
        nn.init.normal_(parameter, std=0.5)
    return made


def example(kind):
    if "han" in kind:
        rows = [torch.randint(0, 50, (length,)) for length in SENTENCES]
        return Batch({"text": Nested(pad(rows), torch.ones(1, 3, dtype=torch.bool))}, torch.tensor([0]))
    if kind == "bag":
        grams, weights = torch.randint(0, 64, (9,)), torch.rand(9)
        return Batch({"grams": pad([grams]), "weights": pad([weights])}, torch.tensor([0]))
    return Batch({"text": pad([torch.randint(0, 50, (8,))])}, torch.tensor([0]))


def faded(kind, followed=None):
    return Faded(
        model(**BODIES[kind]), example(kind), followed or LabelFollowed(1, "“b”"), words="han" in kind
    )


EVERY = pytest.mark.parametrize("kind", BODIES)

# The function of what is kept -------------------------------------------------------------------------------


@EVERY
def test_with_all_pieces_kept_the_model_says_what_it_says(kind):
    made = faded(kind)
    shares = made.model(made.batch).answers["row"].scores.softmax(dim=1)[0, 1].item()
    found = made.probabilities(torch.ones(3, made.places))
    assert found == pytest.approx([shares] * 3, abs=1e-5)


@EVERY
def test_copies_that_are_computed_together_are_those_that_are_computed_alone(kind):
    made = faded(kind)
    kept = (torch.rand(7, made.places, generator=torch.Generator().manual_seed(1)) > 0.4).float()
    together = made.probabilities(kept)
    assert together == pytest.approx([made.probabilities(row.unsqueeze(0))[0] for row in kept], abs=1e-5)
    assert len(np.unique(together.round(6))) > 3, "what is hidden matters"


def test_a_hidden_word_is_one_whose_vector_is_zero():
    """By hand: the same model, with an id whose row in the table of vectors is zero."""
    made = faded("gru")
    with torch.no_grad():
        made.model.input.embedding.weight[49] = 0.0
    text = made.batch.text
    other = text.values.clone()
    other[0, 3] = 49
    meant = made.model(Batch({"text": text.with_values(other)}, torch.tensor([0]))).answers["row"].scores
    kept = torch.ones(1, made.places)
    kept[0, 3] = 0.0
    assert made.probabilities(kept)[0] == pytest.approx(meant.softmax(dim=1)[0, 1].item(), abs=1e-6)


@EVERY
def test_it_leaves_no_trace_in_the_model(kind):
    made = faded(kind)
    before = made.model(made.batch).answers["row"].scores
    integrated_gradients(made.scores, made.places)
    assert torch.equal(before, made.model(made.batch).answers["row"].scores)
    assert all(parameter.grad is None for parameter in made.model.parameters())


def test_copies_of_a_document_have_its_sentences_once_each():
    batch = copies(example("han"), 4)
    field = batch.inputs["text"]
    assert batch.size == 4 and field.mask.shape == (4, 3) and field.inner.rows == 12
    assert torch.equal(field.inner.values[:3], field.inner.values[9:])


# Attributions -----------------------------------------------------------------------------------------------


def product(kept):
    """2 a b + c³, whose gradients and integrals have closed forms."""
    a, b, c = kept.unbind(dim=1)
    return 2 * a * b + c**3


def test_attributions_of_a_polynomial_are_those_of_calculus():
    """∂/∂a = 2b, so 2, 2 and 3; along the diagonal ∫ 2t dt = 1, 1 and ∫ 3t² dt = 1; without a or b 2 less."""
    found = integrated_gradients(product, 3)
    assert gradient_times_input(product, 3) == pytest.approx([2, 2, 3], abs=1e-6)
    assert found.weights == pytest.approx([1, 1, 1], abs=1e-6)
    assert (found.whole, found.nothing, found.rest) == pytest.approx((3, 0, 0), abs=1e-6)
    assert occlusion(product, 3) == pytest.approx([2, 2, 1], abs=1e-6)


def test_integrated_gradients_are_the_plain_sum_over_many_steps():
    made = faded("gru")
    total = np.zeros(made.places)
    for step in range(500):  # the midpoint rule
        leaf = torch.full((1, made.places), (step + 0.5) / 500).requires_grad_()
        [gradient] = torch.autograd.grad(made.scores(leaf).sum(), [leaf])
        total += gradient[0].double().numpy() / 500
    assert integrated_gradients(made.scores, made.places).weights == pytest.approx(total, abs=2e-3)


@EVERY
def test_integrated_gradients_add_up_to_what_the_pieces_change(kind):
    """Completeness: the sum is the score of the example less that of the baseline."""
    made = faded(kind)
    found = integrated_gradients(made.scores, made.places)
    whole, nothing = made.scores(torch.tensor([[1.0], [0.0]]).expand(2, made.places)).tolist()
    assert found.whole == pytest.approx(whole, abs=1e-5) and found.nothing == pytest.approx(nothing, abs=1e-5)
    assert found.weights.sum() == pytest.approx(whole - nothing, abs=0.011 * abs(whole - nothing) + 1e-3)


@pytest.mark.parametrize("kind", [kind for kind in BODIES if kind != "bag"])
def test_the_gradient_of_what_is_kept_is_gradient_times_input(kind):
    """Another way to the same numbers: the gradient at the input's vectors, times these."""
    best = faded(kind)
    answer = int(best.model(best.batch).answers["row"].scores.argmax())
    made = faded(kind, LabelFollowed(answer, "it"))
    expected = contributions(made.model, made.batch, inner="han" in kind)
    rows = made.in_rows(gradient_times_input(made.scores, made.places))
    np.testing.assert_allclose(rows, expected, atol=1e-4)


def test_of_a_linear_model_all_three_are_the_same():
    linear = model(input=Bag(), encoder=NoEncoder(), pool=Mean(), head=Direct())
    made = Faded(linear, example("bag"), NumberFollowed())
    exact = gradient_times_input(made.scores, made.places)
    rows, weights = (
        linear.input.embedding[made.batch.inputs["grams"].values[0], 0],
        made.batch.inputs["weights"],
    )
    np.testing.assert_allclose(exact, (rows * weights.values[0]).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(integrated_gradients(made.scores, made.places).weights, exact, atol=1e-5)
    np.testing.assert_allclose(occlusion(made.scores, made.places), exact, atol=1e-5)
    assert not made.has_probability


def test_occlusion_is_a_loop_over_pieces():
    made = faded("lstm max")
    [whole] = made.scores(torch.ones(1, made.places)).tolist()
    for place, weight in enumerate(occlusion(made.scores, made.places)):
        kept = torch.ones(1, made.places)
        kept[0, place] = 0.0
        assert weight == pytest.approx(whole - made.scores(kept).item(), abs=1e-5)


def test_of_many_pieces_neighbours_are_hidden_together_and_share():
    """Σ i kept_i falls by the sum of a group, which its pieces share alike."""
    places = 2 * HIDDEN + 1
    sizes = torch.arange(float(places))
    found = occlusion(lambda kept: kept @ sizes, places)
    assert found[:4] == pytest.approx([1, 1, 1, 4], abs=0.01), "groups of three: 0 + 1 + 2 and 3 + 4 + 5, / 3"
    assert found.sum() == pytest.approx(float(sizes.sum()), rel=1e-4)


# Deletion curves --------------------------------------------------------------------------------------------


def test_the_largest_weights_go_first():
    order = np.argsort(-np.array([0.1, 0.9, 0.5]), kind="stable")
    assert kept_after(order, np.array([0, 1, 2, 3])).tolist() == [[1, 1, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_a_deletion_curve_is_what_is_left_in_each_order():
    """Of the function Σ w_i kept_i the curve is the sum of the weights that are left; its area by hand."""
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    found = deletion(lambda kept: kept.numpy() @ weights, "a sum", {"right": weights, "wrong": -weights})
    assert found.gone.tolist() == [0, 1, 2, 3, 4]
    assert found.curves["right"] == pytest.approx([1, 0.6, 0.3, 0.1, 0], abs=1e-6)
    assert found.curves["wrong"] == pytest.approx([1, 0.9, 0.7, 0.4, 0], abs=1e-6)
    assert found.areas["right"] == pytest.approx((0.8 + 0.45 + 0.2 + 0.05) / 4, abs=1e-6)
    assert found.orders.shape == (10, 5) and found.areas["right"] < found.random_areas.min()
    assert found.mean == pytest.approx(found.orders.sum(axis=0) / 10)
    assert found.spread[0] == 0 and found.spread[2] > 0
    again = deletion(lambda kept: kept.numpy() @ weights, "a sum", {"right": weights})
    np.testing.assert_array_equal(again.orders, found.orders)


def test_of_long_texts_curves_have_ten_points():
    weights = np.arange(curves.LONG + 50.0)
    found = deletion(lambda kept: kept.numpy() @ weights, "a sum", {"right": weights})
    assert len(found.gone) == 11 and len(found.orders) == 5 and found.gone[-1] == len(weights)


# Several layers ---------------------------------------------------------------------------------------------


def test_rollout_is_the_product_of_what_each_layer_hands_on():
    """By plain loops over three layers of four heads, and by hand for one layer."""
    draw = np.random.default_rng(0)
    layers = [draw.dirichlet(np.ones(5), size=(4, 5)) for _ in range(3)]
    reached = np.eye(5)
    for layer in layers:
        mixed = np.zeros((5, 5))
        for row in range(5):
            for column in range(5):
                mixed[row, column] = (sum(head[row, column] for head in layer) / 4 + (row == column)) / 2
            mixed[row] /= mixed[row].sum()
        reached = np.array(
            [[sum(mixed[r, m] * reached[m, c] for m in range(5)) for c in range(5)] for r in range(5)]
        )
    np.testing.assert_allclose(rollout(layers), reached, atol=1e-12)
    np.testing.assert_allclose(rollout(layers).sum(axis=1), 1)
    np.testing.assert_allclose(rollout([np.array([[[0.0, 1.0], [1.0, 0.0]]])]), [[0.5, 0.5], [0.5, 0.5]])


def test_causal_layers_roll_out_to_a_causal_map():
    layers = [np.tril(np.ones((1, 4, 4))) / np.arange(1, 5)[:, None]] * 3
    assert not np.triu(rollout(layers), k=1).any()


def test_mean_and_maximum_are_over_heads_and_layers():
    layers = [np.array([[[0.2, 0.8]], [[0.6, 0.4]]]), np.array([[[1.0, 0.0]]])]
    np.testing.assert_allclose(mean_of_layers(layers), [[0.7, 0.3]])
    np.testing.assert_allclose(maximum_of_layers(layers), [[1.0, 0.8]])


def test_the_overlap_of_hops_is_their_mean_cosine():
    """Flat hops that are all alike overlap wholly, though AAᵀ off the diagonal is small there."""
    assert overlap_of_hops(np.full((3, 40), 1 / 40)) == pytest.approx(1)
    assert overlap_of_hops(np.eye(3)) == 0
    assert overlap_of_hops(np.array([[1.0, 0.0], [0.6, 0.8]])) == pytest.approx(0.6)
