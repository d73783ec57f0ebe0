"""A run that is stopped or killed at any moment and resumed ends bit for bit where an undisturbed one
ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from made import opinions, write_table

from seqlab import cli, session
from seqlab.training import checkpoint
from seqlab.training.checkpoint import Checkpoints

STEPS = 150
SETTINGS = {
    "model.input.width": 16,
    "model.encoder.width": 32,
    "training.baseline": False,
    "training.batch_tokens": 256,
    "training.accumulate": 2,
    "training.patience": 50,
    "training.save_seconds": 0.03,
    "training.threads": 1,
}
"""Two batches a step, dropout, and a save every few steps: all that has to be remembered plays a part."""

processes = multiprocessing.get_context(
    "forkserver"
)  # forks of a process that has torch ready: no wait for imports
processes.set_forkserver_preload(["seqlab.session", "torch._dynamo"])  # the optimiser imports the second


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The undisturbed run `whole`, beside its `rows.csv`."""
    folder = tmp_path_factory.mktemp("whole")
    table = write_table(folder / "rows.csv", opinions(400))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLAB_CACHE", str(folder / "cache"))
        session.train(
            "classify",
            str(table),
            model="cnn",
            steps=STEPS,
            out=folder / "whole",
            settings=SETTINGS,
            quiet=True,
        )
    return folder / "whole"


@pytest.fixture
def start(whole, tmp_path):
    """Starts the command in another process; what it says is in the file `told`."""
    alive: list[multiprocessing.process.BaseProcess] = []

    def begin(*words: object, file_bytes: int = 0, more_memory: int = 0):
        (tmp_path / "told").unlink(missing_ok=True)
        given = (
            [str(word) for word in words],
            os.environ["SEQLAB_CACHE"],
            tmp_path / "told",
            file_bytes,
            more_memory,
        )
        process = processes.Process(target=command, args=given)
        process.start()
        alive.append(process)
        return process

    yield begin
    for process in alive:
        process.kill()
        process.join()


def command(words: list[str], cache: str, told: Path, file_bytes: int, more_memory: int) -> None:
    """What the other process does. On request no file may grow beyond a size, or memory only by so much."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # tests that run behind a shell's & would ignore it
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    if more_memory:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more_memory, resource.RLIM_INFINITY))
    os.environ["SEQLAB_CACHE"] = cache
    sys.argv = ["seqlab", *words]
    sys.stdout = sys.stderr = told.open("w", buffering=1)
    cli.main()


def words_for(whole: Path, run: Path, **changed: object) -> list[object]:
    tree = SETTINGS | {f"training.{key}": value for key, value in changed.items()}
    settings = [f"{key}={value}" for key, value in tree.items()]
    return [
        "train",
        "classify",
        whole.parent / "rows.csv",
        "--model",
        "cnn",
        "--steps",
        STEPS,
        "--out",
        run,
        *settings,
    ]


def wait_for(
    path: Path, process: multiprocessing.process.BaseProcess | subprocess.Popen, says: str = ""
) -> None:
    end = time.monotonic() + 60
    while not (path.exists() and says in path.read_text()):
        alive = process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()
        assert alive and time.monotonic() < end, f"{path} never came"
        time.sleep(0.005)


def assert_same(run: Path, whole: Path) -> None:
    """The same weights, the same steps logged once each, and nothing that a kill left behind."""
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    ours, theirs = [
        [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (run, whole)
    ]
    for key in ("step", "epoch", "train_loss", "valid_loss", "valid_accuracy", "tokens"):
        assert [row[key] for row in ours] == [row[key] for row in theirs], key
    assert not list(run.rglob("*.part"))


# Stopped ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_first_and_the_run_goes_on(number, start, seqlab, whole, tmp_path):
    """Exit 143 or 130; the state that it saves is its only one after step 0."""
    run = tmp_path / "run"
    process = start(*words_for(whole, run, save_seconds=1000))
    wait_for(run / "metrics.jsonl", process, says="step")
    code, _, err = seqlab("train", "--resume", run)
    assert code == 2 and f"Another process is training {run}." in err
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == 128 + number
    told = (tmp_path / "told").read_text()
    assert "the state is saved" in told and f"seqlab train --resume {run}" in told and "Traceback" not in told
    assert json.loads((run / "resume" / "manifest.json").read_text())["folder"] != "step-00000000"

    code, _, err = seqlab("train", "--resume", run)
    assert code == 0, err
    assert_same(run, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_training_leaves_nothing(number, start, tmp_path):
    os.mkfifo(tmp_path / "rows.csv")  # reading waits for somebody to write
    process = start("train", "classify", tmp_path / "rows.csv", "--out", tmp_path / "run")
    wait_for(tmp_path / "told", process, says="Reading")
    # A signal that comes just before the opening of the fifo blocks is seen only after it, which is never:
    # knock again.
    for _ in range(60):
        os.kill(process.pid, number)
        process.join(1)
        if process.exitcode is not None:
            break
    assert process.exitcode == 128 + number
    assert "Traceback" not in (tmp_path / "told").read_text()
    assert not (tmp_path / "run").exists()


def test_the_installed_command_stops_and_resumes(seqlab, whole, tmp_path):
    run = tmp_path / "run"
    words = [str(word) for word in words_for(whole, run)]
    program = Path(sys.executable).with_name("seqlab")
    process = subprocess.Popen([program, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for(run / "metrics.jsonl", process, says="step")
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert not out and "seqlab train --resume" in err
    assert seqlab("train", "--resume", run)[0] == 0
    assert_same(run, whole)


# Killed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_at_any_moment_changes_nothing(seed, start, seqlab, whole, tmp_path):
    """Twice in one run: the second kill meets a resumed one. benchmarks/kill_resume.py does this on a larger
    scale."""
    draw, run = random.Random(seed), tmp_path / "run"
    for words in (words_for(whole, run), ["train", "--resume", run]):
        process = start(*words)
        wait_for(tmp_path / "told", process, says="Everything goes to")
        time.sleep(draw.uniform(0.0, 0.25))
        process.kill()
        process.join()
    code, _, err = seqlab("train", "--resume", run)
    assert code == 0, err
    assert_same(run, whole)


def test_a_kill_while_the_baseline_is_trained_changes_nothing(start, seqlab, whole, tmp_path):
    run = tmp_path / "run"
    process = start(*words_for(whole, run, baseline="true"))
    while not list(run.glob("*baseline*/resume")):
        assert process.is_alive()
        time.sleep(0.002)
    process.kill()
    process.join()
    code, out, err = seqlab("train", "--resume", run)
    assert code == 0 and "bow" in out, err
    assert_same(run, whole)
    assert not (run / "baseline" / "resume").exists()


def test_resume_before_the_first_save_starts_again(seqlab, whole, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("config.yaml", "facts.json", "tokenizer.json"):
        shutil.copy(whole / name, run / name)
    code, _, err = seqlab("train", "--resume", run)
    assert code == 0, err
    assert_same(run, whole)


def test_resuming_a_finished_run_is_harmless(seqlab, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    for _ in range(2):
        code, out, err = seqlab("train", "--resume", run)
        assert code == 0 and "Done in" in out, err
        assert_same(run, whole)
        assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_what_a_kill_tore_is_removed(seqlab, whole, tmp_path):
    """Files that were being written, and the last line of metrics.jsonl."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "scores.json").unlink()  # written last: without it the run is not finished
    for name in (
        ".model.safetensors.77.part",
        "resume/.manifest.json.77.part",
        "resume/good/.manifest.json.77.part",
    ):
        (run / name).write_bytes(b"half")
    (run / "resume" / ".step-00000007.part").mkdir()
    with (run / "metrics.jsonl").open("a") as file:
        file.write(f'{{"step": {STEPS + 5}, "train_loss": 0.1}}\n{{"step": {STEPS + 6}, "trai')
    code, _, err = seqlab("train", "--resume", run)
    assert code == 0, err
    assert_same(run, whole)


def test_another_number_of_threads_is_told(seqlab, whole, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "scores.json").unlink()  # written last: without it the run is not finished
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    code, _, err = seqlab("train", "--resume", run)
    assert code == 0 and "this run used 1 threads and now has 3" in err and "bit for bit" in err


# A machine that gives out -----------------------------------------------------------------------------------


def test_a_disk_that_takes_no_more_ends_with_exit_3_and_the_run_goes_on(start, seqlab, whole, tmp_path):
    """The operating system refuses the state, the largest file of all; with room again the run ends as it
    should."""
    run = tmp_path / "run"
    process = start(*words_for(whole, run), file_bytes=36_000)
    process.join(60)
    told = (tmp_path / "told").read_text()
    assert process.exitcode == 3, told
    assert "could not be saved: File too large" in told and "--resume" in told and "Traceback" not in told
    assert not list(run.rglob("*.part"))
    assert seqlab("train", "--resume", run)[0] == 0
    assert_same(run, whole)


def test_a_model_beyond_the_memory_ends_with_exit_3(start, whole, tmp_path):
    process = start(*words_for(whole, tmp_path / "run"), "model.input.width=30000000", more_memory=2**29)
    process.join(60)
    told = (tmp_path / "told").read_text()
    assert process.exitcode == 3, told
    assert "no memory left" in told and "training.batch_tokens" in told and "Traceback" not in told


# Inside a save ----------------------------------------------------------------------------------------------

OLD = {"weights": torch.arange(6.0), "random": torch.get_rng_state()}
NEW = {"weights": torch.arange(6.0) + 100, "random": torch.get_rng_state()}


def save_and_die(folder: Path, at: int) -> None:
    """Save the new state, but die the `at`-th time that something is asked of the file system: of a file that
    is opened to be written its empty beginning is left, of anything else nothing is done."""
    asked = 0

    def hook(event: str, given: tuple) -> None:
        nonlocal asked
        if event == "open" or event.startswith(("os.", "shutil.")):
            asked += 1
            if asked == at:
                if event == "open" and "w" in str(given[1]):
                    os.close(os.open(given[0], os.O_CREAT | os.O_TRUNC | os.O_WRONLY))
                os._exit(9)

    def torn(tensors: object, path: Path) -> None:
        path.write_bytes(b"half of the file")
        os._exit(9)

    if at == 0:
        checkpoint.save_file = torn
    else:
        sys.addaudithook(hook)
    Checkpoints(folder).save(NEW, {"step": 2})
    os._exit(0)


def test_a_kill_inside_a_save_leaves_the_old_state_or_the_new(tmp_path):
    """For every moment at which a save touches the file system; and the next save is as good as ever."""
    first = Checkpoints(tmp_path / "first")
    first.save(OLD, {"step": 1})
    found: list[int] = []
    for at in range(200):
        folder = tmp_path / str(at)
        shutil.copytree(first.folder, folder)
        process = processes.Process(target=save_and_die, args=(folder, at))
        process.start()
        process.join(60)
        tensors, counters = Checkpoints(folder).load() or ({}, {})
        assert counters["step"] in (1, 2)
        assert torch.equal(tensors["weights"], (OLD if counters["step"] == 1 else NEW)["weights"])
        found.append(counters["step"])
        Checkpoints(folder).save(NEW, {"step": 2})
        assert len(list(folder.glob("*step-*"))) == 1, "what is not needed is removed"
        assert torch.equal(Checkpoints(folder).load()[0]["weights"], NEW["weights"])
        if process.exitcode == 0:
            break
    assert process.exitcode == 0 and len(found) > 15
    assert found == sorted(found) and set(found) == {1, 2}, "from one moment on it is the new state"
