"""How many threads there are and how they wait is set before torch is loaded, and never against a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqlab import threads

NO_LIMIT = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}
TWO_CPUS = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def before_torch(monkeypatch):
    """As it is in a process that has not loaded torch, with eight cores."""
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(threads, "usable_cores", lambda: 8)


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        (NO_LIMIT, None),
        (TWO_CPUS, 2.0),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "50000 100000\n"}, 0.5),
        # the group around it has less, and so has the one around that none
        (
            {
                "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/cpu.max": "max 100000\n",
            },
            1.5,
        ),
        # version 1, where the path is the host's and only the top folder is there
        (
            {
                "proc/self/cgroup": "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        # version 1 without a limit, and version 2 beside it without the CPU
        (
            {
                "proc/self/cgroup": "1:cpu:/\n0::/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "100000 50000\n"}, 2.0),
        # nothing of the kind, as on other systems, and what nobody expects
        ({}, None),
        ({"proc/self/cgroup": "what\n0::/\n", "sys/fs/cgroup/cpu.max": "many of them\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, None),
    ],
)  # fmt: skip
def test_the_quota_of_a_container_is_read(tmp_path, files, cpus):
    assert threads.cpu_quota(machine(tmp_path, files)) == cpus


@pytest.mark.parametrize(("allowed", "count"), [(0.25, 1), (1.0, 1), (1.5, 1), (2.0, 2), (3.9, 3)])
def test_a_part_of_a_cpu_is_no_thread_but_there_is_always_one(allowed, count):
    assert threads.whole_cpus(allowed) == count


def test_a_container_gets_as_many_threads_as_it_has_cpu(before_torch, tmp_path):
    environment: dict[str, str] = {}
    threads.set_up(environment, machine(tmp_path, TWO_CPUS))
    assert environment == {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": threads.SPIN}


def test_without_a_limit_below_the_cores_their_number_is_left_to_torch(before_torch, tmp_path, monkeypatch):
    environment: dict[str, str] = {}
    threads.set_up(environment, machine(tmp_path / "none", NO_LIMIT))
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    threads.set_up(environment, machine(tmp_path / "two", TWO_CPUS))
    assert environment == {"GOMP_SPINCOUNT": threads.SPIN}


@pytest.mark.parametrize("own", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_what_a_user_has_set_stays(before_torch, tmp_path, own):
    """GOMP_SPINCOUNT would win over a user's OMP_WAIT_POLICY, so it is not set beside it."""
    environment = {"OMP_NUM_THREADS": "5", **own}
    threads.set_up(environment, machine(tmp_path, TWO_CPUS))
    assert environment == {"OMP_NUM_THREADS": "5", **own}


def test_a_torch_that_is_there_already_changes_nothing(tmp_path):
    assert "torch" in sys.modules
    environment: dict[str, str] = {}
    threads.set_up(environment, machine(tmp_path, TWO_CPUS))
    assert environment == {}


def told_by_openmp(first: str, second: str, **own: str) -> str:
    """What GNU's OpenMP says of its spin when these two are imported in this order."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | own
    done = subprocess.run(
        [sys.executable, "-c", f"import {first}, {second}"], capture_output=True, text=True, check=True,
        env=environment | {"OMP_DISPLAY_ENV": "verbose"},
    )  # fmt: skip
    lines = [line.strip() for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not lines:
        pytest.skip("this torch has another OpenMP")
    return lines[0]


def test_openmp_itself_sees_the_short_spin():
    assert f"'{threads.SPIN}'" in told_by_openmp("seqlab", "torch")
    assert "'7'" in told_by_openmp("seqlab", "torch", GOMP_SPINCOUNT="7")


def test_a_library_user_who_has_loaded_torch_keeps_what_openmp_does():
    assert f"'{threads.SPIN}'" not in told_by_openmp("torch", "seqlab")
