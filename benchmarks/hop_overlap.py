"""What the penalty does to structured attention (SPEC A5): overlap between hops and accuracy, with and
without it.

The overlap is the mean off-diagonal entry of AAᵀ over the test rows: 1 when all hops look at the same word, 0
when no two hops look at the same one.

    python benchmarks/hop_overlap.py [minutes a run] [seeds]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import seqlab
from seqlab.data.batches import in_order
from seqlab.run import Run
from seqlab.tasks import classify

DATA = Path(os.environ.get("SEQLAB_DATA", "../shared/data")) / "ag_news"


@torch.no_grad()
def overlap(run: Run, texts: list[str]) -> float:
    """The mean off-diagonal of AAᵀ, over pairs of hops and rows."""
    fields = run.reading.encode(texts).fields
    found = []
    for rows in in_order(classify.sizes(fields), 16_384):
        weights = run.model(classify.make_batch(fields, None, rows)).pooled.weights  # B R T
        products = weights @ weights.transpose(1, 2)  # B R R
        hops = weights.shape[1]
        apart = ~torch.eye(hops, dtype=torch.bool)
        found.append(products[:, apart].mean(dim=1).numpy())
    return float(np.concatenate(found).mean())


def main(minutes: float, seeds: int) -> None:
    test = str(DATA / "test.tsv.gz")
    table: dict[float, list[tuple[float, float]]] = {}
    folder = Path(tempfile.mkdtemp())
    for seed in range(seeds):
        for penalty in (0.0, None):
            settings = {"training.baseline": False} | ({} if penalty is None else {"task.penalty": penalty})
            run = seqlab.train(
                "classify",
                str(DATA / "train.tsv.gz"),
                valid=str(DATA / "val.tsv.gz"),
                model="self-attentive",
                minutes=minutes,
                seed=seed,
                out=folder / f"{seed}-{penalty}",
                settings=settings,
                quiet=True,
            )
            texts = [row.cells["text"] for row in run.rows(test, labelled=True)]
            accuracy = run.evaluate(test).metrics["accuracy"].value
            shared = overlap(run, texts)
            table.setdefault(run.task.penalty, []).append((shared, accuracy))
            print(
                f"seed {seed}, penalty {run.task.penalty:g}: overlap {shared:.4f}, accuracy {accuracy:.4f}",
                flush=True,
            )
    for penalty, rows in table.items():
        means = [statistics.mean(column) for column in zip(*rows, strict=True)]
        spreads = [statistics.stdev(column) if len(rows) > 1 else 0.0 for column in zip(*rows, strict=True)]
        print(
            f"penalty {penalty:g}: overlap {means[0]:.4f} ± {spreads[0]:.4f}, accuracy {means[1]:.4f} ±"
            f" {spreads[1]:.4f}"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.5, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
