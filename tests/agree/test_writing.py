"""Decoders against plain loops from the equations, torch's own layers, and the published counts."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from seqlab.decoders import Attending, Causal
from seqlab.encoders import Gru, Lstm, Rnn, Transformer
from seqlab.encoders.recurrent import RecurrentEncoder
from seqlab.model import ModelConfig, count_parameters, sketch
from seqlab.nn.loss import candidates, linear_cross_entropy, sampled_cross_entropy
from seqlab.parts import Facts
from seqlab.seq import Seq, mask_of


def memory(width: int, directions: str = "both") -> Seq:
    """States of a recurrent encoder over rows of 5 and 3 vectors."""
    torch.manual_seed(1)
    encoder = Rnn(width=width, directions=directions).build(4)  # type: ignore[arg-type]
    states: Seq = encoder(Seq(torch.randn(2, 5, 4), mask_of(torch.tensor([5, 3]))))
    return states


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_early_attention_is_r9_word_for_word(cell):
    """P(w_t) = softmax_w e[w] W_auto h[t-1]; α = softmax of h[t-1] W_key M; v = Σ α M; h[t] = CELL(h[t-1], v,
    e[w_t])."""
    torch.manual_seed(0)
    read = memory(6)
    body = (Rnn if cell == "rnn" else Gru)(width=6)
    decoder = (
        Attending(width=5, body=body, attend="early", begin="backward").build(read.values.shape[-1], 9).eval()
    )
    words = torch.tensor([[0, 3, 4, 1], [0, 7, 7, 2]])  # BOS, then w_1 w_2 w_3
    states, _ = decoder.advance(words, decoder.start(read, 2))
    scores = decoder.answer(states.flatten(0, 1)).scores.unflatten(
        0, states.shape[:2]
    )  # P(w_1), P(w_2), P(w_3), P(w_4)

    embedding, auto = decoder.embedding.weight, decoder.combine.weight
    key = decoder.look.query.weight.T  # h W_key m with W_key: D × M
    step = {"rnn": nn.RNNCell, "gru": nn.GRUCell}[cell](5 + 12, 6)
    (layer,) = decoder.body.ahead
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(step, name).data.copy_(getattr(layer, f"{name}_l0"))
    for row in range(2):
        slots = read.values[row, : int(read.lengths[row])]  # M[t_in]
        hidden = read.values[row, 0, 6:]  # the right-to-left pass ends at the first slot
        assert_close(scores[row, 0], embedding @ (auto @ hidden), atol=1e-5, rtol=1e-5)
        for time in range(1, words.shape[1]):
            weights = torch.softmax(slots @ (hidden @ key), dim=0)
            seen = weights @ slots
            hidden = step(torch.cat([embedding[words[row, time]], seen]).unsqueeze(0), hidden.unsqueeze(0))[0]
            assert_close(scores[row, time], embedding @ (auto @ hidden), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("score", ["bilinear", "additive", "dot", "scaled-dot"])
@pytest.mark.parametrize("feeding", [False, True])
def test_late_attention_is_a_plain_loop(score, feeding):
    """h[t] = CELL(h[t-1], w_t, fed); α over slots of score(h[t], M); tanh(W [h[t]; v]) is scored, and fed on
    where asked."""
    torch.manual_seed(0)
    read = memory(3)
    config = Attending(width=5, body=Lstm(width=6), score=score, hidden=4, feeding=feeding)
    decoder = config.build(6, 9).eval()
    words = torch.tensor([[0, 3, 4, 1], [0, 7, 7, 2]])
    states, _ = decoder.advance(words, decoder.start(read, 2))

    look, (layer,) = decoder.look, decoder.body.ahead
    step = nn.LSTMCell(layer.input_size, 6)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(step, name).data.copy_(getattr(layer, f"{name}_l0"))
    for row in range(2):
        slots = read.values[row, : int(read.lengths[row])]
        first = torch.tanh(decoder.bridge(read.summary[row])).split(6)
        hidden, cell, answer = first[0], first[1], torch.zeros(5)
        for time in range(words.shape[1]):
            vector = decoder.embedding.weight[words[row, time]]
            vector = torch.cat([vector, answer]) if feeding else vector
            hidden, cell = (
                one[0] for one in step(vector.unsqueeze(0), (hidden.unsqueeze(0), cell.unsqueeze(0)))
            )
            fits = {
                "bilinear": lambda m, h: (look.query.weight @ h) @ m,
                "additive": lambda m, h: look.value.weight[0] @ torch.tanh(look.query(h) + look.key(m)),
                "dot": lambda m, h: h @ m,
                "scaled-dot": lambda m, h: h @ m / 6**0.5,
            }[score]
            weights = torch.softmax(torch.stack([fits(slot, hidden) for slot in slots]), dim=0)
            answer = torch.tanh(decoder.combine(torch.cat([hidden, weights @ slots])))
            assert_close(states[row, time], answer, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("every", [False, True])
def test_without_attention_the_context_begins_it_or_stands_beside_every_word(every):
    """R6: h[0] from c. R3: h_t = φ(W_xh [y; x] + W_hh h), x the same at every step."""
    torch.manual_seed(0)
    read = memory(3)
    context = "every-step" if every else "start"
    decoder = Attending(width=5, body=Rnn(width=4), attend="none", context=context).build(6, 9).eval()
    words = torch.tensor([[0, 3, 4, 1], [0, 7, 7, 2]])
    states, _ = decoder.advance(words, decoder.start(read, 2))
    (layer,) = decoder.body.ahead
    for row in range(2):
        hidden = torch.tanh(decoder.bridge(read.summary[row]))
        for time in range(4):
            vector = decoder.embedding.weight[words[row, time]]
            vector = torch.cat([vector, read.summary[row]]) if every else vector
            pushed = (
                layer.weight_ih_l0 @ vector
                + layer.bias_ih_l0
                + layer.weight_hh_l0 @ hidden
                + layer.bias_hh_l0
            )
            hidden = torch.tanh(pushed)
            assert_close(states[row, time], decoder.combine(hidden), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_transformer_decoder_is_torchs(norm):
    """nn.TransformerDecoder with the same weights gives the same states, padding of the memory included."""
    torch.manual_seed(0)
    config = Causal(width=8, body=Transformer(layers=2, heads=2, feed_forward=12, norm=norm, dropout=0.0))
    decoder = config.build(8, 9).eval()
    layer = nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=norm == "pre")
    theirs = nn.TransformerDecoder(layer, 2, nn.LayerNorm(8) if norm == "pre" else None).eval()
    for mine, other in zip(decoder.body.layers, theirs.layers, strict=True):
        for attention, its in ((mine.attention, other.self_attn), (mine.cross, other.multihead_attn)):
            its.in_proj_weight.data.copy_(
                torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
            )
            its.in_proj_bias.data.copy_(
                torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
            )
            its.out_proj.load_state_dict(attention.output.state_dict())
        other.linear1.load_state_dict(mine.feed_forward.hidden.state_dict())
        other.linear2.load_state_dict(mine.feed_forward.output.state_dict())
        norms = (mine.attention_norm, mine.cross_norm, mine.feed_forward_norm)
        for own, its_norm in zip(norms, (other.norm1, other.norm2, other.norm3), strict=True):
            its_norm.load_state_dict(own.state_dict())
    read = Seq(torch.randn(2, 5, 8), mask_of(torch.tensor([5, 3])))
    words = torch.randint(0, 9, (2, 6))
    states, _ = decoder.advance(words, decoder.start(read, 2))
    fed = decoder.body.positions(decoder.embedding(words) * 8**0.5)
    triangle = nn.Transformer.generate_square_subsequent_mask(6)
    expected = theirs(
        fed, read.values, tgt_mask=triangle, memory_key_padding_mask=~read.mask, tgt_is_causal=True
    )
    assert_close(states, expected, atol=1e-5, rtol=1e-5)


# The loss ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [40, 10**6])
def test_the_chunked_loss_is_cross_entropy(monkeypatch, smoothing, bias, chunk):
    """Value and gradients, in double precision, whatever the chunks."""
    monkeypatch.setattr("seqlab.nn.loss.CHUNK", chunk)
    torch.manual_seed(0)
    states, weight, shift = torch.randn(23, 6), torch.randn(13, 6), torch.randn(13)
    targets = torch.randint(0, 13, (23,))

    def run(fused: bool) -> list[torch.Tensor]:
        leaves = [one.double().clone().requires_grad_() for one in (states, weight, shift)]
        added = leaves[2] if bias else None
        if fused:
            total = linear_cross_entropy(leaves[0], leaves[1], added, targets, smoothing)
        else:
            total = F.cross_entropy(
                F.linear(leaves[0], leaves[1], added), targets, reduction="sum", label_smoothing=smoothing
            )
        (total / 7).backward()
        return [total, *(leaf.grad for leaf in leaves[: 3 if bias else 2])]  # type: ignore[misc]

    for mine, theirs in zip(run(True), run(False), strict=True):
        assert_close(mine, theirs, atol=1e-9, rtol=1e-9)
    with torch.no_grad():
        told = linear_cross_entropy(states, weight, shift if bias else None, targets, smoothing)
    assert_close(told.double(), run(True)[0].detach(), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_a_sampled_loss_estimates_the_sum_over_the_vocabulary_without_bias(bias):
    """Ẑ averaged over draws is Z; against the whole vocabulary the loss is exact; its gradient is that of the
    estimate."""
    torch.manual_seed(0)
    states, weight, targets = (
        torch.randn(5, 4).double(),
        torch.randn(60, 4).double(),
        torch.randint(0, 60, (5,)),
    )
    shift = torch.randn(60).double() if bias else None
    scores = F.linear(states, weight, shift)

    sums = []
    for seed in range(3000):
        some, more, places = candidates(targets, 60, 20, torch.Generator().manual_seed(seed))
        assert torch.equal(some[places], targets) and len(some.unique()) == len(some)
        assert set(range(10)) <= set(some.tolist()) and 20 <= len(some) <= 25
        sums.append((scores[:, some] + more).exp().sum(dim=1))
    estimates = torch.stack(sums)
    error = estimates.std(dim=0) / len(sums) ** 0.5
    assert ((estimates.mean(dim=0) - scores.exp().sum(dim=1)).abs() < 4 * error).all() and (error > 0).all()

    exact = F.cross_entropy(scores, targets, reduction="sum")
    assert_close(sampled_cross_entropy(states, weight, shift, targets, 60), exact, atol=1e-9, rtol=1e-9)
    once, again = (sampled_cross_entropy(states, weight, shift, targets, 20) for _ in range(2))
    assert once == again and once != exact

    def draw() -> torch.Tensor:
        mark = int(states[0, 0].float().view(torch.int32)) + int(targets.sum())
        some, more, places = candidates(targets, 60, 20, torch.Generator().manual_seed(mark))
        compared = F.linear(states, weight[some], None if shift is None else shift[some]) + more
        return F.cross_entropy(compared, places, reduction="sum")

    leaves = [one for one in (weight, shift) if one is not None]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = torch.autograd.grad(draw(), leaves)
    found = torch.autograd.grad(sampled_cross_entropy(states, weight, shift, targets, 20), leaves)
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs, atol=1e-6, rtol=1e-6)


def test_a_tied_matrix_gets_the_gradient_of_both_its_uses():
    """Embedding and vocabulary in one: autograd through plain operations gives the same."""
    torch.manual_seed(0)
    table = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    ids, targets = torch.tensor([1, 2, 5]), torch.tensor([2, 5, 0])
    linear_cross_entropy(F.embedding(ids, table), table, None, targets).backward()
    mine = table.grad.clone()
    table.grad = None
    F.cross_entropy(F.embedding(ids, table) @ table.T, targets, reduction="sum").backward()
    assert_close(mine, table.grad)


# Truncated backpropagation through time ---------------------------------------------------------------------


def test_autograd_is_the_explicit_sum_of_backpropagation_through_time():
    """R7, linear RNN h_t = w h_{t-1} + x_t of one unit: ∂h_t/∂w = Σ_i (Π_{i<j≤t} w) h_{i-1}."""
    encoder = Rnn(width=1, activation="relu").build(1)
    (cell,) = encoder.ahead
    w = 0.9
    cell.weight_hh_l0.data.fill_(w), cell.weight_ih_l0.data.fill_(1.0)
    x = torch.tensor([0.5, 1.0, 0.25, 2.0])  # positive, so ReLU is linear here
    states, _ = encoder.extend(x.view(1, 4, 1), encoder.begin(1))
    states.mean().backward()
    hidden = [0.0]
    for value in x.tolist():
        hidden.append(w * hidden[-1] + value)
    explicit = sum(sum(w ** (t - i) * hidden[i - 1] for i in range(1, t + 1)) for t in range(1, 5)) / 4
    assert_close(cell.weight_hh_l0.grad.item(), explicit)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_explicit_sum_with_matrices_is_autograd(activation):
    """R7 for three units, by every entry of every parameter w of h_t = f(V h_{t-1} + U x_t + b + c):
    dh_t/dw = Σ_{i≤t} (Π_{i<j≤t} J_j) ∂f_i/∂w with J_j = diag(f'_j) V, and L = (1/T) Σ g_t · h_t."""
    torch.manual_seed(0)
    width, inputs, length = 3, 2, 5
    encoder = Rnn(width=width, activation=activation).build(inputs).double()
    (cell,) = encoder.ahead
    for tensor in cell.parameters():
        nn.init.normal_(tensor, std=0.7)
    x, g = torch.randn(length, inputs).double(), torch.randn(length, width).double()
    states, _ = encoder.extend(x.unsqueeze(0), encoder.begin(1))
    ((states[0] * g).sum() / length).backward()

    f = {"relu": torch.relu, "tanh": torch.tanh}[activation]
    slope = {"relu": lambda h: (h > 0).double(), "tanh": lambda h: 1 - h**2}[activation]
    v, u = cell.weight_hh_l0.detach(), cell.weight_ih_l0.detach()
    b = (cell.bias_ih_l0 + cell.bias_hh_l0).detach()
    hidden = [torch.zeros(width).double()]
    for step in range(length):
        hidden.append(f(v @ hidden[-1] + u @ x[step] + b))

    def direct(i, what):
        """∂f_i/∂w with h_{i-1} held fast (D, then the shape of w)."""
        diagonal = torch.diag(slope(hidden[i]))
        beside = {"weight_hh_l0": hidden[i - 1], "weight_ih_l0": x[i - 1]}.get(what)
        return diagonal if beside is None else diagonal.unsqueeze(-1) * beside

    for name, tensor in cell.named_parameters():
        total = torch.zeros_like(tensor)
        for t in range(1, length + 1):
            for i in range(1, t + 1):
                product = torch.eye(width).double()
                for j in range(i + 1, t + 1):  # the later ones stand to the left
                    product = torch.diag(slope(hidden[j])) @ v @ product
                total += torch.tensordot(g[t - 1] @ product, direct(i, name), dims=1) / length
        assert_close(tensor.grad, total)
        assert tensor.grad.abs().max() > 1e-3  # there is something to compare


def test_a_carried_state_goes_on_but_lets_no_gradient_back():
    encoder = Lstm(width=3).build(2)
    first, second = torch.randn(2, 4, 2, requires_grad=True), torch.randn(2, 4, 2)
    _, state = encoder.extend(first, encoder.begin(2))
    after, _ = encoder.extend(second, state.detach())
    whole, _ = encoder.extend(torch.cat([first, second], dim=1), encoder.begin(2))
    assert_close(after, whole[:, 4:])
    after.sum().backward()
    assert first.grad is None
    assert isinstance(encoder, RecurrentEncoder)


# Published counts -------------------------------------------------------------------------------------------


def language(symbols: int, **settings: object) -> int:
    config = ModelConfig(input=None, encoder=None, pool=None, head=None, decoder=Causal(**settings))  # type: ignore[arg-type]
    model = sketch(config, Facts(symbols={"written": symbols}))
    total = count_parameters(model)
    assert sum(cost.parameters for cost in model.costs(32)) == total
    return total


def test_the_language_model_of_t3_has_1_008_100_parameters():
    body = Transformer(layers=4, heads=4, feed_forward=200, norm="post")
    assert language(100, width=200, body=body, tied=False, bias=True) == 1_008_100


@pytest.mark.parametrize(("shared", "tied", "total"), [(True, True, 63_082_496), (False, False, 100_970_496)])
def test_the_base_transformer_of_2017(shared, tied, total):
    from seqlab.inputs import Tokens

    body = Transformer(layers=6, heads=8, feed_forward=2048, norm="post")
    config = ModelConfig(
        input=Tokens(width=512),
        encoder=body,
        pool=None,
        head=None,
        shared=shared,
        decoder=Causal(width=512, body=body, tied=tied),
    )
    model = sketch(config, Facts(symbols={"text": 37_000, "written": 37_000}))
    assert count_parameters(model) == total
    assert sum(cost.parameters for cost in model.costs(32)) == total
