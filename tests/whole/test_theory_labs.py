"""Labs about gradients, costs, positions, heads, merged matrices and redundant hops: their mathematics, and
that each ends in a table, a picture and a verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from seqlab.labs import begin, costs, gradients, heads, merged, positions, redundancy
from seqlab.labs.small import NOTHING, accuracy, teach
from seqlab.nn.attention import Form, MultiHeadAttention
from seqlab.seq import Seq


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Each from beginning to end ---------------------------------------------------------------------------------

SMALL = {
    "costs": {"ROUNDS": (2, 2), "MEETING": ((8, 16), (8, 16)),
              "CASES": tuple(replace(case, sizes=(8, 16), other=16, rows=1) for case in costs.CASES)},
    "gradients": {"STEPS": (2, 2), "LAGS": (1, 2, 4, 8, 16, 32, 63)},
    "heads": {"STEPS": (10, 10)},
    "merged": {"STEPS": (10, 10)},
    "positions": {"STEPS": (2, 2), "LENGTHS": (8, 16, 64)},
    "redundancy": {"STEPS": (2, 2), "SIZES": ((2, 3, 4),)},
}  # fmt: skip
FILES = {"table.md", "table.json", "picture.png", "index.html", "lab.json", "trials"}


@pytest.mark.parametrize("name", SMALL)
def test_a_lab_ends_in_a_table_a_picture_and_a_verdict_and_goes_on(name, tmp_path, monkeypatch):
    module = {"costs": costs, "gradients": gradients, "heads": heads, "merged": merged,
              "positions": positions, "redundancy": redundancy}[name]  # fmt: skip
    for constant, value in SMALL[name].items():
        monkeypatch.setattr(module, constant, value)
    threads = torch.get_num_threads()
    asked = {"quick": True, "seeds": 2, "out": tmp_path / "lab", "quiet": True}
    outcome = begin(name, asked)

    assert {path.name for path in (tmp_path / "lab").iterdir()} == FILES
    assert (tmp_path / "lab" / "picture.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads((tmp_path / "lab" / "table.json").read_text())
    assert told["lab"] == name and told["verdict"] == outcome.verdict and "nan" not in outcome.verdict
    table = outcome.tables[0]
    assert all(len(row) == len(table.header) for table in outcome.tables for row in table.rows) and table.rows
    assert torch.get_num_threads() == threads
    trials = {path: path.stat().st_mtime_ns for path in (tmp_path / "lab" / "trials").iterdir()}
    again = begin(name, asked)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "lab" / "trials").iterdir()} == trials
    assert again.numbers == outcome.numbers or name == "redundancy"  # which times its penalties


# gradients --------------------------------------------------------------------------------------------------


def test_a_linear_rnn_goes_by_the_powers_of_its_scale():
    """An orthogonal matrix times s has the norm s, and its k-th power s^k: SPEC R7, to 1e-5."""
    for scale in gradients.SCALES:
        flow = gradients.scaled(scale, "linear")
        assert flow.norms == pytest.approx([scale**lag for lag in gradients.LAGS], rel=1e-5)


def test_what_is_asked_for_is_the_symbol_that_was_marked_last():
    ids, answers = gradients.marked(20, random(), length=15, share=0.3)
    for row, answer in zip(ids.tolist(), answers.tolist(), strict=True):
        last = None
        for read, said in zip(row, answer, strict=True):
            last = read - gradients.SYMBOLS if read >= gradients.SYMBOLS else last
            assert said == last


def test_the_gradient_through_all_steps_is_the_full_one():
    """By autograd through the whole model at once; cut off, it is another one."""
    torch.manual_seed(0)
    model = gradients.SmallReader(8, 4, 16, gradients.CELLS["gru"](width=5))
    ids, answers = gradients.marked(6, random())
    loss = nn.functional.cross_entropy(model(ids)[:, -1], answers[:, -1])
    wanted = torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.encoder.parameters()))])
    full, cut = (gradients.cut_off(model, window, (ids, answers)) for window in (gradients.LENGTH, 2))
    assert torch.allclose(full, wanted, atol=1e-6) and not torch.allclose(cut, wanted, atol=1e-4)


def test_self_attention_is_flat_and_a_taught_lstm_remembers_longer_than_a_taught_rnn():
    flat = gradients.attending()
    assert flat.lasts and 0.5 < flat.norms[-1] / flat.norms[0] < 2
    rnn, lstm = (gradients.taught(name, 0, 500) for name in ("rnn", "lstm"))
    assert min(rnn["accuracy"], lstm["accuracy"]) > 0.9
    assert lstm["memory"] >= 3 * rnn["memory"]


# costs ------------------------------------------------------------------------------------------------------


def test_curves_cross_where_their_formulas_do():
    """n² and 10n meet at n = 10; a curve that is always above the other overtakes nowhere."""
    sizes = (2, 4, 8, 16, 32)
    assert costs.crossing(sizes, [n * n for n in sizes], [10 * n for n in sizes]) == pytest.approx(10)
    assert costs.crossing(sizes, [2.0] * 5, [1.0] * 5) is None


def test_every_case_is_the_layer_that_it_says():
    """The same numbers as attention by hand; and rows of every kind come out as long as they went in."""
    x = torch.randn(1, 12, 16)
    by_hand = (x @ x.mT / 4).softmax(dim=-1) @ x
    assert torch.allclose(costs.products(16)(x), by_hand, atol=1e-5)
    for case in costs.CASES:
        found = case.build(16)(x)
        values = found[0] if isinstance(found, list) else found.values if isinstance(found, Seq) else found
        assert values.shape == x.shape


# positions --------------------------------------------------------------------------------------------------


def test_a_shift_turns_the_sinusoids_whatever_the_position():
    """SPEC T1: PE(i + k) = R(k) PE(i); R(k) is orthogonal, and R(a) R(b) = R(a + b)."""
    assert max(positions.rotation_error(steps) for steps in (1, 5, 40)) < 1e-9
    three, four, seven = (positions.rotation(steps) for steps in (3, 4, 7))
    assert torch.allclose(three @ four, seven) and torch.allclose(three @ three.T, torch.eye(32).double())


def test_only_without_positions_permuting_the_inputs_permutes_the_outputs():
    found = {kind: positions.permutation_error(config) for kind, config in positions.KINDS.items()}
    assert found.pop("none") < 1e-5 and min(found.values()) > 1e-3


def test_the_symbol_some_places_back_is_asked_for_and_the_picture_counts_in_binary():
    ids, answers = positions.back(5, random(), length=9)
    assert (answers[:, : positions.BACK] == NOTHING).all()
    assert (answers[:, positions.BACK :] == ids[:, : -positions.BACK]).all()
    lengths = {positions.back(1, random(seed))[0].shape[1] for seed in range(40)}
    assert max(lengths) <= positions.TRAINED < max(positions.LENGTHS)
    entry = {"right": [0.5] * len(positions.LENGTHS)}
    waves, bits, _ = positions.pictures({"none": [entry, entry]})
    assert (len(waves.values), len(waves.values[0])) == (60, 32) and waves.values[0][:2] == [0.0, 1.0]
    numbers = [sum(2**place * bit for place, bit in enumerate(row)) for row in bits.values]
    assert numbers == list(range(60))


# heads ------------------------------------------------------------------------------------------------------


def test_questions_ask_for_the_symbols_that_stand_with_their_keys():
    ids, answers = heads.looked_up(20, random())
    for row, asked in zip(ids.tolist(), answers.tolist(), strict=True):
        pairs = dict(divmod(pair, heads.SYMBOLS) for pair in row[: heads.KEYS])
        assert len(pairs) == heads.KEYS and asked[: 2 * heads.KEYS] == [NOTHING] * 2 * heads.KEYS
        keys = [divmod(one - heads.KEYS * heads.SYMBOLS, heads.KEYS) for one in row[heads.KEYS :]]
        assert asked[2 * heads.KEYS :] == [pairs[key] for both in keys for key in both]


def test_heads_have_equal_parameters_and_chance_is_what_a_new_model_has():
    counts = {sum(one.numel() for one in heads.build(count).parameters()) for count in heads.HEADS}
    assert len(counts) == 1
    assert accuracy(heads.build(2), heads.looked_up(200, random())) < 0.25  # 1/8 by chance
    assert heads.likeness(heads.build(1)) == pytest.approx(1.0, abs=1e-5)


# merged -----------------------------------------------------------------------------------------------------


def test_parameters_are_2ij_and_j_squared_equal_at_half_the_width():
    """SPEC A4, of one head without biases."""
    for key in (8, 16, 24, 32):
        assert merged.query_key_parameters(32, key, merged=False) == 2 * key * 32
        assert merged.query_key_parameters(32, key, merged=True) == 32 * 32
    assert merged.query_key_parameters(32, 16, False) == merged.query_key_parameters(32, 16, True)


def test_taught_layers_are_the_same_attention_in_either_form():
    """Both ways, to 1e-5; keys narrower than the rank lose something, the more the narrower."""
    torch.manual_seed(0)
    separate, joint = heads.build(2), heads.build(2, merged=True)
    for model in (separate, joint):
        teach(model, heads.looked_up, 20, 0, heads.RATE)
    assert (
        merged.gap(merged.attention_of(separate), merged.merge_query_key(merged.attention_of(separate)))
        < 1e-5
    )
    layer = merged.attention_of(joint)
    widths = [merged.gap(layer, merged.parted(layer, key)) for key in (2, 8, 17)]
    assert widths[0] > widths[1] > 1e-3 > 1e-5 > widths[2]
    other = MultiHeadAttention(Form.standard(merged.WIDTH, 2))
    assert merged.gap(layer, other) > 0.01


# redundancy -------------------------------------------------------------------------------------------------


def test_rows_hold_one_symbol_of_each_group():
    ids, symbols = redundancy.mixed(30, random())
    for row, wanted in zip(ids.tolist(), symbols.tolist(), strict=True):
        groups = sorted(divmod(one, redundancy.SYMBOLS) for one in row if one < 18)
        assert [group for group, _ in groups] == [0, 1, 2] and [symbol for _, symbol in groups] == wanted


def test_the_penalty_parts_the_hops():
    """With far more than the half that is asked for, and nothing but the penalty different."""
    alone, parted = (redundancy.one_run(name, 0, 300) for name in ("none", "overlap"))
    assert parted["cosine"] < alone["cosine"] / 2
