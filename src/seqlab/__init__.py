"""seqlab: bring a file of sequences, leave with a model you own, understand and can serve."""

from typing import Any

from seqlab.threads import set_up

__version__ = "0.1.0"
__all__ = ["load", "train"]

set_up()  # before torch is loaded


def __getattr__(name: str) -> Any:
    """`seqlab.train` and `seqlab.load` on first use, so that `seqlab --help` does not wait for torch."""
    if name == "load":
        from seqlab.run import load

        return load
    if name == "train":
        from seqlab.session import train

        return train
    raise AttributeError(f"module 'seqlab' has no attribute '{name}'")
