"""What the penalty does to structured attention (SPEC A5): overlap between hops and accuracy, with and
without it.

Overlap is told twice, as the mean over pairs of hops and test rows. Products: the off-diagonal entries of
G = AAᵀ, 1 when all hops look at one word alone, and small for flat hops although they are all alike. Cosine:
g_ij / √(g_ii g_jj), 1 when all hops are alike, 0 when no two look at the same word.

    python benchmarks/hop_overlap.py [steps a run] [seeds]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

import seqlab
from seqlab.answers.row import row_batch
from seqlab.data.batches import in_order
from seqlab.data.store import Store
from seqlab.inference import by_row, predicted
from seqlab.outputs import hop_cosine, hop_products
from seqlab.parts import Batch, Output
from seqlab.run import Run

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data")) / "ag_news"


def overlap(run: Run, test: str) -> list[float]:
    """Products and cosine, the means over rows."""
    texts = [row.cells["text"] for row in run.rows(test, labelled=True)]
    store: Store = run.answer.read(texts)
    names = run.answer.reads.names

    def wanted(output: Output, batch: Batch) -> np.ndarray:
        assert output.pooled is not None and output.pooled.weights is not None
        weights = output.pooled.weights
        return np.stack([hop_products(weights).cpu().numpy(), hop_cosine(weights).cpu().numpy()], axis=1)

    groups = in_order(store.sizes(), 16_384)
    found = by_row(predicted(run.model, groups, lambda rows: row_batch(store, names, rows), wanted))
    return [float(one) for one in found.mean(axis=0)]


def main(steps: int, seeds: int) -> None:
    test = str(DATA / "test.tsv.gz")
    table: dict[float, list[list[float]]] = {}
    folder = Path(tempfile.mkdtemp())
    for seed in range(seeds):
        for penalty in (0.0, None):
            settings = {"training.baseline": False} | ({} if penalty is None else {"task.penalty": penalty})
            run = seqlab.train(
                "classify",
                str(DATA / "train.tsv.gz"),
                valid=str(DATA / "val.tsv.gz"),
                model="self-attentive",
                steps=steps,
                seed=seed,
                out=folder / f"{seed}-{penalty}",
                settings=settings,
                quiet=True,
            )
            row = [*overlap(run, test), run.evaluate(test).metrics["accuracy"].value]
            table.setdefault(run.task.penalty, []).append(row)
            told = "products {:.4f}, cosine {:.4f}, accuracy {:.4f}".format(*row)
            print(f"seed {seed}, penalty {run.task.penalty:g}: {told}", flush=True)
    for penalty, rows in table.items():
        columns = list(zip(*rows, strict=True))
        spreads = [statistics.stdev(column) if len(rows) > 1 else 0.0 for column in columns]
        told = (
            f"{name} {statistics.mean(column):.4f} ± {spread:.4f}"
            for name, column, spread in zip(("products", "cosine", "accuracy"), columns, spreads, strict=True)
        )
        print(f"penalty {penalty:g}, {steps} steps: {', '.join(told)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
