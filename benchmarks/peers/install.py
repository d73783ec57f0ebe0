"""Puts the peers beside the environment of seqlab, each into a folder of its own that only the benchmarks
look at.

Nothing is resolved (`--no-deps`): every package is named here, so that torch and what seqlab runs on stay as
they are.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"
PACKAGES = {
    "transformers": ["transformers==5.22.2"],
    "accelerate": ["accelerate==1.15.0", "psutil==7.2.2"],
    "ctranslate2": ["ctranslate2==4.8.4"],
    "joeynmt": [
        "joeynmt==2.3.0", "tensorboard==2.21.0", "protobuf==7.36.2", "absl-py==2.5.1", "sentencepiece==0.2.2",
        "subword-nmt==0.3.8", "plotly==7.1.0", "importlib_metadata", "zipp",
    ],
}  # fmt: skip
"""What each peer needs beyond what seqlab has. Without versions: those of constraints.txt."""
PROBES = {"joeynmt": "joeynmt.training"}
"""What is imported to see whether a peer works, where its name alone would not tell."""


def missing(peer: str) -> str:
    """Install a peer unless it is there, and make it importable. Why it can't be used; empty when it can."""
    folder = FOLDER / peer
    if not folder.exists():
        print(f"Installing {peer} into {folder.relative_to(ROOT)}", flush=True)
        if failure := _install(peer, folder):
            return failure
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last: what seqlab has comes first
        importlib.invalidate_caches()
    try:
        importlib.import_module(PROBES.get(peer, peer))
    except ImportError as error:
        return f"{peer} can't be imported: {error}"
    return ""


def _install(peer: str, folder: Path) -> str:
    beside = folder.with_name(f".{peer}.part")
    shutil.rmtree(beside, ignore_errors=True)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--constraint", str(ROOT / "constraints.txt"), "--target", str(beside), *PACKAGES[peer]]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(beside, ignore_errors=True)
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return f"{peer} can't be installed: {said[-1] if said else 'pip failed'}"
    beside.rename(folder)
    return ""
