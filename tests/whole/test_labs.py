"""Labs end to end: every cell, the same rows for every side, nothing trained twice, and what can't work is
told."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import threading
import time

import pytest
import yaml
from made import opinions, write_table

from seqlab import session
from seqlab.data.builtin import write_stress_tables
from seqlab.errors import MachineError, Stopped, UserError
from seqlab.labs import LABS, begin, few_labels, lab, objectives, options, transfer, trials
from seqlab.labs.lab import Spread
from seqlab.labs.options import parse_counts
from seqlab.labs.rows import LabelledRows
from seqlab.labs.trials import Trial, train_all

COMMON = {
    "pretrain.data.tokens.vocabulary": 300,
    "pretrain.task.context": 32,
    "pretrain.training.batch_tokens": 512,
    "pretrain.training.threads": 1,
    "pretrain.model.input.width": 16,
    "pretrain.model.encoder.feed_forward": 32,
    "training.threads": 1,
    "training.rate": 0.01,
}
ASKED = {"quick": True, "labels": "30,90", "seeds": 2, "epochs": 2, "quiet": True}
"""Small enough for a test."""


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return str(write_table(tmp_path_factory.mktemp("labelled") / "reviews.csv", opinions(300)))


@pytest.fixture(scope="module", autouse=True)
def _few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "QUICK_STEPS", 6)
        yield


@pytest.fixture(scope="module")
def found(reviews, tmp_path_factory):
    """A lab that has been run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        return transfer.run(
            data=reviews, settings=COMMON, out=tmp_path_factory.mktemp("labs") / "one", **ASKED
        )


def settings_of(folder):
    return yaml.safe_load((folder / "config.yaml").read_text())


def first_seed(outcome):
    """What each side reached with 30 labels and the first seed."""
    return {
        cell["side"]: cell["test_accuracy"]["values"][:1]
        for cell in outcome.numbers["cells"]
        if cell["labels"] == 30
    }


# transfer ---------------------------------------------------------------------------------------------------


def test_every_cell_is_the_mean_over_the_seeds_of_its_runs(found):
    told = json.loads((found.folder / "table.json").read_text())
    cells = {(cell["side"], cell["labels"]): cell for cell in told["cells"]}

    assert set(cells) == {
        (side, count) for side in ("pretrained", "from scratch", "bow") for count in (30, 90)
    }
    for (side, count), cell in cells.items():
        folders = [found.folder / "trials" / f"{side.replace(' ', '-')}-{count}-{seed}" for seed in range(2)]
        scores = [json.loads((folder / "scores.json").read_text()) for folder in folders]
        assert [score["split"] for score in scores] == ["test", "test"]
        values = [score["metrics"]["accuracy"]["value"] for score in scores]
        assert cell["test_accuracy"]["values"] == values
        assert cell["test_accuracy"]["mean"] == pytest.approx(sum(values) / 2)
        assert cell["test_accuracy"]["deviation"] == pytest.approx(abs(values[0] - values[1]) / math.sqrt(2))
        assert side == "bow" or len(cell["valid_accuracy_by_epoch"]) == 2
    for change in told["differences"]:
        one, two = (
            cells[side, change["labels"]]["test_accuracy"]["values"]
            for side in ("pretrained", "from scratch")
        )
        assert change["values"] == pytest.approx([a - b for a, b in zip(one, two, strict=True)])
        assert change["ahead_at_the_end"] == (statistics.mean(one) > statistics.mean(two))


def test_both_sides_have_the_same_rows_settings_and_epochs(found):
    """All settings but where the weights come from; the parts share no text, each label occurs, few are among
    more."""
    rows = {
        path.stem: [json.loads(line) for line in path.open()]
        for path in (found.folder / "data").glob("*.jsonl")
    }
    for count in (30, 90):
        for seed in range(2):
            sides = ("pretrained", "from-scratch", "bow")
            one, two, bow = (
                settings_of(found.folder / "trials" / f"{side}-{count}-{seed}") for side in sides
            )
            assert (
                one["transfer"].pop("start") == str(found.folder / "pretrained")
                and two["transfer"].pop("start") == ""
            )
            assert one == two
            assert all(bow["data"][split] == one["data"][split] for split in ("train", "valid", "test"))
            assert one["data"]["train"] == [str(found.folder / "data" / f"{count}-{seed}.jsonl")]
            assert len(rows[f"{count}-{seed}"]) == count and {
                row["label"] for row in rows[f"{count}-{seed}"]
            } == {"good", "bad"}
    assert rows["90-0"][:30] == rows["30-0"] != rows["30-1"]
    parts = [{row["text"] for row in rows[name]} for name in ("90-0", "valid", "test")]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
    assert not {row["text"] for row in rows["texts"]} & (parts[1] | parts[2])


def test_the_two_sides_start_from_different_weights(found):
    losses = [
        json.loads((found.folder / "trials" / f"{side}-90-0" / "metrics.jsonl").read_text().splitlines()[0])[
            "train_loss"
        ]
        for side in ("pretrained", "from-scratch")
    ]
    assert losses[0] != losses[1]


def test_table_picture_and_page_are_written(found):
    text = (found.folder / "table.md").read_text()
    assert found.verdict in text and "| labels | pretrained | from scratch | bow |" in text
    assert (found.folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    page = (found.folder / "index.html").read_text()
    assert "data:image/png;base64" in page and "http" not in page.replace("http-equiv", "")
    shown = str(found)
    assert all(f"{count} labels: pretraining is " in shown for count in (30, 90))
    assert f"Next: seqlab predict {found.folder}" in shown


def test_finished_runs_are_not_trained_again_and_more_seeds_can_follow(found, reviews, monkeypatch):
    trained = []

    def counted(wishes, out, *rest):
        trained.append(out.name)
        return session.train_anew(wishes, out, *rest)

    monkeypatch.setattr(lab, "train_anew", counted)
    again = transfer.run(data=reviews, settings=COMMON, out=found.folder, **ASKED)
    assert not trained and again.verdict == found.verdict

    transfer.run(data=reviews, settings=COMMON, out=found.folder, **ASKED | {"seeds": 3, "labels": "30"})
    assert sorted(trained) == ["bow-30-2", "from-scratch-30-2", "pretrained-30-2"]
    transfer.run(data=reviews, settings=COMMON, out=found.folder, **ASKED)  # as it was, for the other tests
    assert len(trained) == 3


def test_a_stopped_lab_goes_on_where_it_was(found, reviews, monkeypatch, tmp_path):
    """Stopped in its third training: the same numbers come out as without a stop."""
    monkeypatch.chdir(tmp_path)
    less = ASKED | {"labels": "30", "seeds": 1}
    done = []

    def stopping(wishes, out, *rest):
        done.append(out)
        if len(done) == 3:
            raise Stopped(2, "Stopped at step 1.", fix="")
        return session.train_anew(wishes, out, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(lab, "train_anew", stopping)
        with pytest.raises(Stopped) as stop:
            transfer.run(data=reviews, settings=COMMON, **less)
    assert stop.value.exit_code == 130 and "--out runs/lab-transfer" in stop.value.fix
    whole = transfer.run(data=reviews, settings=COMMON, **less)

    assert str(whole.folder) == "runs/lab-transfer" and first_seed(whole) == first_seed(found)
    assert str(lab.choose_place("transfer", None, {"other": 1})) == "runs/lab-transfer-2"


def test_a_pretrained_run_can_be_taken(found, reviews, tmp_path, seqlab):
    """Through the command line, with the body that is there; the same rows, body and seed give the same
    numbers."""
    words = [f"{key}={value}" for key, value in COMMON.items() if not key.startswith("pretrain.")]
    code, out, err = seqlab(
        "lab",
        "transfer",
        "--quick",
        "--data",
        reviews,
        "--from",
        found.folder / "pretrained",
        "--labels",
        30,
        "--seeds",
        1,
        "--epochs",
        2,
        "--out",
        tmp_path / "lab",
        *words,
    )
    told = json.loads((tmp_path / "lab" / "table.json").read_text())

    assert code == 0, err
    assert "one seed" in out and "one seed can't tell that from chance" in out and "of 3 runs, about" in err
    assert not (tmp_path / "lab" / "pretrained").exists()
    assert {cell["side"]: cell["test_accuracy"]["values"] for cell in told["cells"]} == first_seed(found)


# Trials side by side ----------------------------------------------------------------------------------------


def trial(reviews, folder, **overrides):
    told = {"data.train": [reviews], "training.steps": 4, "training.threads": 1, "training.baseline": False}
    return Trial(str(folder), {**told, **overrides}, preset="bow")


def test_trials_side_by_side_give_the_numbers_of_one_after_the_other(found, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(few_labels.Comparison, "at_once", 2)
    less = ASKED | {"labels": "30", "seeds": 1}
    own = {key: value for key, value in COMMON.items() if not key.startswith("pretrain.")}
    outcome = transfer.run(
        data=reviews, start=found.folder / "pretrained", settings=own, out=tmp_path / "lab", **less
    )
    assert first_seed(outcome) == first_seed(found)


def test_one_trial_runs_on_each_core_unless_threads_are_asked_for(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(few_labels.torch, "get_num_threads", lambda: 6)
    for settings, count in (({}, 6), ({"training.threads": 2}, 1)):
        given = {"quick": True, "seeds": 1, "data": reviews, "settings": settings, "labels": "30"}
        wanted = options.LabOptions.of({**options.OPTIONS, **given})
        assert few_labels.Comparison(wanted, tmp_path, lab.Progress(quiet=True)).at_once == count


def test_a_fault_in_a_trial_is_told_and_the_other_one_is_stopped(reviews, tmp_path):
    long = trial(reviews, tmp_path / "long", **{"training.steps": 1_000_000})
    with pytest.raises(UserError) as fault:
        list(train_all([long, trial(str(tmp_path / "none.csv"), tmp_path / "wrong")], at_once=2))
    assert "none.csv" in fault.value.what and fault.value.fix
    assert not long.finished


def test_a_killed_trial_is_told(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(trials.sys, "executable", "/bin/false")
    with pytest.raises(MachineError, match="exit code 1"):
        list(train_all([trial(reviews, tmp_path / "one")], at_once=2))


def test_a_stop_saves_the_trials_that_are_at_work(reviews, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    longs = [
        trial(reviews, folder, **{"training.steps": 1_000_000, "training.validations": 10_000})
        for folder in folders
    ]

    def stop_when_both_learn():
        while not all((folder / "metrics.jsonl").exists() for folder in folders):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_when_both_learn, daemon=True).start()
    with pytest.raises(Stopped) as stop:
        list(train_all(longs, at_once=2))
    assert stop.value.exit_code == 143
    assert all(
        (folder / "resume").exists() and not one.finished for folder, one in zip(folders, longs, strict=True)
    )


# objectives -------------------------------------------------------------------------------------------------


def test_objectives_are_compared_at_equal_steps(reviews, tmp_path, seqlab):
    words = [f"{key}={value}" for key, value in COMMON.items() if ".model." not in key]
    code, out, err = seqlab(
        "lab",
        "objectives",
        "--quick",
        "--data",
        reviews,
        "--labels",
        40,
        "--seeds",
        1,
        "--epochs",
        1,
        "--out",
        tmp_path / "lab",
        *words,
    )
    told = json.loads((tmp_path / "lab" / "table.json").read_text())

    assert code == 0, err
    arms = ("roberta", "gpt", "gpt+bilstm")
    assert {cell["side"] for cell in told["cells"]} == {*arms, "bow"}
    assert [told["pretraining"][name]["step"] for name in arms] == [6, 6, 6]
    assert [told["pretraining"][name]["objective"] for name in arms] == ["masked", "causal", "causal"]
    assert "published direction" in out and "6 steps" in out and "110 million" in out
    text = (tmp_path / "lab" / "table.md").read_text()
    assert "| left to right + BiLSTM | 82.1 | 84.1 | 75.7 | 91.6 | 84.9 | gpt+bilstm |" in text

    trials = tmp_path / "lab" / "trials"
    encoder = settings_of(trials / "gpt+bilstm-40-0")["model"]["encoder"]
    assert [one["kind"] for one in encoder["encoders"]] == ["transformer", "lstm"]
    assert encoder["encoders"][1]["directions"] == "both"
    assert encoder["encoders"][0] == settings_of(trials / "gpt-40-0")["model"]["encoder"]
    assert not (tmp_path / "lab" / "pretrained-gpt+bilstm").exists()  # one body for both


def test_with_and_without_the_next_sentence_one_body_is_pretrained(tmp_path):
    """The same layers; only the pool and the head that judge pairs are missing."""
    labelled = [
        (f"{text.rstrip('.').capitalize()}. The story was long. We saw it here.", label)
        for text, label in opinions(80)
    ]
    path = write_table(tmp_path / "reviews.csv", labelled)
    small = {key: value for key, value in COMMON.items() if ".model." not in key}
    found = objectives.run(
        data=str(path), models="bert,bert-without-next", settings=small, out=tmp_path / "lab",
        **ASKED | {"labels": "40", "seeds": 1, "epochs": 1},
    )  # fmt: skip
    one, two = (settings_of(found.folder / f"pretrained-{name}") for name in found.numbers["pretraining"])
    assert [one["task"]["objective"], two["task"]["objective"]] == ["masked+next", "masked"]
    assert one["model"]["pool"] and two["model"]["pool"] is None
    assert (
        one["model"]["encoder"] == two["model"]["encoder"] and one["model"]["input"] == two["model"]["input"]
    )


# What is said -----------------------------------------------------------------------------------------------


def results(pretrained, scratch, bow):
    """Results with these accuracies at the end, and after the first epoch the same of both sides."""
    sides = {"pretrained": pretrained, "from scratch": scratch, "bow": bow}
    return few_labels.Results(
        {(side, 30): tuple(few_labels.Learnt(one, (one,)) for one in some) for side, some in sides.items()}
    )


def test_the_verdict_tells_the_truth_whoever_wins():
    """t for 2 degrees of freedom is 4.303; of differences 0.10, 0.11, 0.12 the interval is 0.11 ± 4.303 ·
    0.01 / √3."""
    ahead = transfer.transfer_verdict(results((0.8, 0.82, 0.84), (0.7, 0.71, 0.72), (0.5, 0.5, 0.5)), 30)
    behind = transfer.transfer_verdict(results((0.7, 0.71, 0.72), (0.8, 0.82, 0.84), (0.5, 0.5, 0.5)), 30)
    unsure = transfer.transfer_verdict(results((0.7, 0.9, 0.8), (0.8, 0.7, 0.75), (0.95, 0.95, 0.95)), 30)
    level = transfer.transfer_verdict(results((0.7, 0.9, 0.8), (0.7, 0.9, 0.8), (0.5, 0.5, 0.5)), 30)

    assert "pretraining is 11.0 points ahead of learning from scratch (95 % interval +8.5 to +13.5)" in ahead
    assert "it is ahead after the first epoch (0.820 against 0.710)" in ahead and "bag" not in ahead
    assert "11.0 points behind" in behind and "not ahead after the first epoch" in behind
    assert "pretraining is level with learning from scratch (95 % interval +0.0 to +0.0)" in level
    assert "3 seeds can't tell that from chance" in unsure and "better than both: 0.950" in unsure


def test_student_is_as_in_the_tables():
    """1, 4, 12 and 30 degrees of freedom, from printed tables."""
    assert [round(lab.student(freedom), 2) for freedom in (1, 4, 12, 30)] == [12.71, 2.78, 2.18, 2.04]
    assert (
        Spread((1.0, 2.0, 3.0)).margin == pytest.approx(4.303 / math.sqrt(3))
        and Spread((1.0,)).margin == math.inf
    )


def test_without_matplotlib_the_page_has_simpler_charts(found, tmp_path, monkeypatch):
    import dataclasses
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    missing = dataclasses.replace(found, folder=tmp_path).write()
    assert "seqlab[plot]" in missing and not (tmp_path / "picture.png").exists()
    assert (tmp_path / "index.html").read_text().count("<svg") == 2


def test_any_beginning_that_is_long_enough_has_every_label():
    pool = [
        {"text": str(place), "label": "rare" if place == 70 else "b" if place % 3 else "a"}
        for place in range(100)
    ]
    rows = LabelledRows(pool, [], [])
    for seed in range(5):
        order = rows.order(seed)
        assert {row["label"] for row in order[:3]} == {"rare", "a", "b"}
        assert sorted(order, key=lambda row: int(row["text"])) == pool
    assert parse_counts("all,3", rows) == (3, 100)


def test_the_list_of_labs_needs_no_torch(seqlab):
    import subprocess
    import sys

    code, out, _ = seqlab("lab")
    assert code == 0 and all(name in out and sentence in out for name, sentence in LABS.items())
    lines = ["import sys", "from seqlab.labs import LABS", "assert 'torch' not in sys.modules"]
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)]).returncode == 0


# What can't work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "told"), [
    (["transfer", "--labels", "30,9000"], "9,000 are asked for; there are 243 rows with 2 different labels"),
    (["transfer", "--labels", "1"], "Each label has to occur"),
    (["transfer", "--labels", "some"], '"some" is not a number of labels'),
    (["transfer", "--unlabelled", "nowhere.txt"], "nowhere.txt: there is no such file"),
    (["transfer", "--seeds", "0"], "--seeds is 0"),
    (["transfer", "--minutes", "-1"], "--minutes is -1"),
    (["transfer", "--model", "robert"], 'no model "robert" for pretrain. Did you mean'),
    (["transfer", "--models", "roberta,gpt"], "The lab transfer has no --models"),
    (["transfer", "more.csv"], "--data more.csv"),
    (["transfer", "training.stps=3"], "training.stps"),
    (["transfer", "--from", "nowhere"], "There is no run folder nowhere"),
    (["transfer", "--from", "nowhere", "--model", "gpt"], "--from nowhere stands beside --model"),
    (["transfr"], 'There is no lab "transfr". Did you mean "transfer"?'),
    (["objectives", "--models", "gpt"], "needs two"),
    (["objectives", "--models", "gpt,lstm"], 'no model "lstm" for pretrain'),
])  # fmt: skip
def test_what_makes_no_sense_is_said_kindly_and_leaves_nothing(
    words, told, reviews, tmp_path, monkeypatch, seqlab
):
    monkeypatch.chdir(tmp_path)
    code, out, err = seqlab(
        "lab", *words, "--data", reviews, "--quick", *(() if "--labels" in words else ("--labels", "30"))
    )
    assert code == 2 and not out and "Traceback" not in err
    assert told in err and len(err.splitlines()) >= 2
    assert not (tmp_path / "runs").exists()


def test_a_run_that_learnt_from_labels_is_refused(found, reviews, seqlab):
    code, _, err = seqlab(
        "lab", "transfer", "--data", reviews, "--from", found.folder / "trials" / "pretrained-30-0"
    )
    assert code == 2 and "is a run of classify" in err and "seqlab train pretrain" in err


def test_a_folder_is_not_gone_on_with_otherwise(found, reviews, tmp_path):
    with pytest.raises(UserError, match="epochs was 2 and is 3"):
        transfer.run(data=reviews, settings=COMMON, out=found.folder, **ASKED | {"epochs": 3})
    with pytest.raises(UserError, match="belongs to the lab transfer"):
        objectives.run(data=reviews, settings=COMMON, out=found.folder, **ASKED)
    with pytest.raises(UserError, match="not the folder of a lab"):
        transfer.run(data=reviews, settings=COMMON, out=tmp_path, **ASKED)


def test_pretraining_that_is_refused_leaves_no_folder(reviews, tmp_path):
    with pytest.raises(UserError, match=r"task\.context"):
        transfer.run(
            data=reviews, settings=COMMON | {"pretrain.task.context": 9000}, out=tmp_path / "lab", **ASKED
        )
    assert not (tmp_path / "lab").exists()


def test_the_built_in_data_is_words_with_their_stress(tmp_path, monkeypatch):
    """Begin the lab as it is typed without data, up to its first training."""
    begun = []

    def first(wishes, out, *_):
        begun.append(wishes)
        raise Stopped(2, "", "")

    monkeypatch.setattr(lab, "train_anew", first)
    with pytest.raises(Stopped):
        begin("transfer", {"quick": True, "out": tmp_path / "lab", "quiet": True})
    texts = {json.loads(line)["text"] for line in (tmp_path / "lab" / "data" / "texts.jsonl").open()}
    train, _, test = write_stress_tables(tmp_path)
    words = {line.partition(",")[0] for line in train.read_text().splitlines()[1:]}

    assert (
        begun[0].settings().data.tokens.kind == "characters"
        and begun[0].settings().task.objective == "masked"
    )
    assert texts < words and len(words) - len(texts) == 1000  # to validate on
    assert not texts & {line.partition(",")[0] for line in test.read_text().splitlines()[1:]}
