"""Which samples of a prompt are alike: by answer, by program, and by skeleton where there are no programs."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.evaluation.per_prompt import Alike, alike, judged_samples

NO_CLASS = -1
# What a mathematical solution does, in the spelling of one character each.
_OPERATORS = {
    r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}": "$1/$2",
    r"\\[dt]?frac\b": "/",
    r"\\div\b|÷": "/",
    r"\\times\b|\\cdot\b|\u{D7}|·": "*",
    r"\\sqrt\b": "√",
    r"[\u{2212}\u{2013}]": "-",
}
# Marks of lists, headings and emphasis, and words with the hyphens and slashes inside them, are no arithmetic.
_PROSE = r"(?m)^[ \t]*(?:[-*+•]|#+|\d+[.)])\s+|\*\*|\\?[A-Za-z]{2,}(?:[-/][A-Za-z]{2,})*"
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+"
_COLUMNS = {"answers": "answer_class", "programs": "program_class", "skeletons": "skeleton"}


def classes(rollouts: pl.DataFrame, verdicts: pl.DataFrame, dataset: Alike | None = None) -> pl.DataFrame:
    """One row per prompt: for each sample the first sample of the prompt that is like it.

    Args:
        rollouts, verdicts, dataset: as for `evaluate`.

    Returns:
        prompt_id str; answers, programs, skeletons list[i32], in sample order. An element is the number of the first
        sample of the prompt in the same class, null where the sample has no class, so that the number of distinct
        answers is the number of distinct elements. A list is empty where no sample of the dataset has such a class;
        skeletons (`skeleton`) are told apart only where there are no programs, as in mathematics. Sorted by prompt_id.

    Raises:
        ValueError: as `evaluate`.
    """
    dataset = dataset or alike([verdicts])
    rows = judged_samples(rollouts, verdicts, dataset).filter(pl.col("sample_index") >= 0)
    told = dataset.classes
    if "program_class" not in told:
        rows, told = rows.with_columns(skeleton=skeleton(pl.col("text"))), told | {"skeleton"}
    rows = rows.drop("text").with_columns(row=pl.col("prompt_id").rle_id())
    # One after the other: the windows over ten million rows are the peak of memory.
    firsts = {
        name: rows.select(_first_alike(column)).to_series() for name, column in _COLUMNS.items() if column in told
    }
    lists = rows.select("prompt_id").with_columns(**firsts).group_by("prompt_id", maintain_order=True).agg(*firsts)
    empty = [pl.lit([], pl.List(pl.Int32)).alias(name) for name in _COLUMNS if name not in firsts]
    return lists.with_columns(empty).select("prompt_id", *_COLUMNS)


def skeleton(text: pl.Expr) -> pl.Expr:
    """What a mathematical solution computes: its lines with numbers as `#` and operators, without words and letters.

    "First, 3 + 4 = 7" and "Adding: 12 + 5 = 17." are both `#+#=#`. Lines without an operator are left out, so that the
    skeleton of a bare answer is empty. Two solutions with one skeleton take the same steps in the same order; whether
    they reason alike it does not say.
    """
    for pattern, operator in _OPERATORS.items():
        text = text.str.replace_all(pattern, operator)
    text = text.str.replace_all(_PROSE, "").str.replace_all(_NUMBER, "#").str.replace_all(r"[^#+\-*/^=<>√\n]", "")
    # What stood between two numbers without an operator was prose: "Step 1: 3 + 4".
    text = text.str.replace_all("#+", "#")
    # A line says something if an operator stands in it beside a number.
    text = text.str.replace_all(r"(?m)^(?:#|[^#\n]*)$", "").str.replace_all(r"\n+", "\n")
    return text.str.strip_chars("\n")


def class_counts(codes: NDArray[np.integer], among: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """How many samples of each class every prompt has.

    Args:
        codes: (prompts, samples), each at most the number of samples - 1 per prompt; `NO_CLASS` is not counted.
        among: (prompts, samples), the samples that count; None for all.

    Returns:
        (prompts, classes) int64, classes = the largest code + 1.
    """
    counted = codes != NO_CLASS if among is None else (codes != NO_CLASS) & among
    width = int(codes.max(initial=0)) + 1
    places = np.arange(len(codes))[:, None] * width + codes
    return np.bincount(places[counted], minlength=len(codes) * width).reshape(len(codes), width)


def entropy(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Entropy in bits of each row of counts, (prompts, classes) to (prompts,); 0 where nothing was counted."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    # Adding 0 turns -0 into 0.
    return -(shares * logs).sum(axis=1) + 0.0


def _first_alike(column: str) -> pl.Expr:
    first = pl.col("sample_index").min().over("row", column).cast(pl.Int32)
    return pl.when(pl.col(column).is_not_null()).then(first)
