"""Threads of this process: how many there are, and how they wait for one another.

Both are decided while torch is loaded, by environment variables, so they are set when seqlab is imported.
Where torch was there before, or a user has set them, nothing is changed.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

SPIN = "1000"
"""Rounds that a thread spins at a barrier of GNU's OpenMP before it sleeps; 300,000 without this. The long
spin takes the core from the very thread that is waited for, once there are other processes; sleeping at once
makes each of the many barriers of a step cost a wake-up (benchmarks/recipes.md)."""


def set_up(environment: MutableMapping[str, str] = os.environ, root: Path = Path("/")) -> None:
    """Before torch is loaded: no more threads than CPUs, and a short spin. What a user has set stays."""
    if "torch" in sys.modules:
        return
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(environment):
        environment["GOMP_SPINCOUNT"] = SPIN
    allowed, cores = cpu_quota(root), usable_cores()
    if allowed is not None and allowed < cores:
        environment.setdefault("OMP_NUM_THREADS", str(whole_cpus(allowed)))


def usable_cores() -> int:
    """Cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def whole_cpus(allowed: float) -> int:
    """Threads for so many CPUs: a part of one would stop its thread in the middle of a step, and all others
    wait for it."""
    return max(1, math.floor(allowed + 1e-6))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the control groups of this process let it have, as in a container; None where there is no
    limit.

    A group has no more than the groups around it, so the smallest number counts. Files that are missing or
    strange say nothing.
    """
    found = [cpus for folder in control_groups(root) if (cpus := quota_of(folder)) is not None]
    return min(found, default=None)


def control_groups(root: Path) -> Iterator[Path]:
    """Folders of the control groups of this process that may limit its CPU, those around it too, of both
    versions.

    In a container a group's path may be told as the host sees it, where nothing is: then the top folder is
    the container's own.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            tops = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif "cpu" in controllers.split(","):
            tops = ["sys/fs/cgroup/cpu", f"sys/fs/cgroup/{controllers}"]
        else:
            continue
        names = [name for name in path.split("/") if name]
        depth = 0 if ".." in names else len(names)
        for top in tops:
            yield from (root.joinpath(top, *names[:end]) for end in range(depth + 1))


def quota_of(folder: Path) -> float | None:
    """CPUs that one control group may use: time over period, in version 2 in one file, in version 1 in
    two."""
    words = _text(folder / "cpu.max").split() or [
        word for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us") for word in _text(folder / name).split()
    ]
    try:
        time, period = (float(word) for word in words)
    except ValueError:  # no such file, or "max"
        return None
    return time / period if time > 0 and period > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
