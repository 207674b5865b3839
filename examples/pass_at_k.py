"""pass@k with 95 % intervals from a JSONL of samples, one row per sample: {"question", "correct"}.

    python examples/pass_at_k.py [samples.jsonl]

The samples in this folder are four for each of 20 questions, of which five have 4 right ones, five 2, five 1 and five
none. It prints, in per cent:

    pass@1   43.8  [26.0, 61.5]
    pass@2   58.3  [40.0, 76.7]
    pass@4   75.0  [54.2, 95.8]
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

from dphrl.evaluation import pass_at_k
from dphrl.evaluation.interval import ratio

K = np.array([1, 2, 4])

if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("samples.jsonl")
    samples = pl.read_ndjson(file).group_by("question", maintain_order=True)
    questions = samples.agg(n=pl.len(), c=pl.col("correct").sum())
    n, c = (questions[name].to_numpy()[:, None] for name in ("n", "c"))
    # (questions, k): the samples of a question are not independent of each other, so intervals are over questions.
    shares = pass_at_k(n, c, K)
    for k, value, low, high in zip(K, *(100 * column for column in ratio(shares)), strict=True):
        print(f"pass@{k}  {value:5.1f}  [{low:.1f}, {high:.1f}]")
