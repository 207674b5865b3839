"""Evaluations of made-up policies, and their study."""

import numpy as np
import polars as pl

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import tabulate
from dphrl.report.collapse import collapse


def study(evaluations, k=(1, 2, 8, 16), seed=1):
    return Study.from_evaluations(evaluations, EvaluateConfig(k=k), seed)


def all_tables(study):
    return tabulate(study) | collapse(study)


def evaluation(correct, method="base", dataset="d", seed=0, step=0, style=("a",)):
    """Evaluation frame of one policy from its matrix (prompts, n) of right samples."""
    correct = np.asarray(correct, dtype=bool)
    n = correct.shape[1]
    given_styles = [
        [style[(row + sample) % len(style)] for sample in range(n)] if style else [] for row in range(len(correct))
    ]
    found = [len(set(one)) for one in given_styles]
    frame = pl.DataFrame(
        {
            "method": method,
            "seed": seed,
            "step": step,
            "dataset": dataset,
            "prompt_id": [f"p{row:03}" for row in range(len(correct))],
            "n": n,
            "c": correct.sum(axis=1),
            "correct": correct.tolist(),
            "greedy_correct": correct[:, 0],
            "styles": pl.Series(given_styles, dtype=pl.List(pl.String)),
            "distinct_styles": found,
        }
    )
    return frame.with_columns(pl.col("seed", "step", "n", "c", "distinct_styles").cast(pl.Int32))


def with_classes(frame, answers, programs=None, skeletons=None):
    """An evaluation with the classes of its samples, from matrices or nothing."""
    lists = {"answers": answers, "programs": programs, "skeletons": skeletons}
    empty = [[] for _ in range(frame.height)]
    return frame.with_columns(
        pl.Series(name, empty if found is None else found, dtype=pl.List(pl.Int32)) for name, found in lists.items()
    )
