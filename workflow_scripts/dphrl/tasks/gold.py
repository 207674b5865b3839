"""The ground truths of a dataset's prompts; prompts and gold are apart, so that a fix of scoring redraws no sample."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from dphrl.tasks.fields import Fields, canonical
from dphrl.tasks.ground_truth import comparable, truth_of


def gold_of(
    prompts: pl.DataFrame,
    rejected: pl.DataFrame,
    rows: Sequence[dict[str, Any]],
    task: str,
    *,
    fields: Mapping[str, str] = MappingProxyType({}),
    comparison: str | None = None,
) -> pl.DataFrame:
    """The ground truth of each prompt.

    Where rows with the same prompt have different ground truths, that of the first is set aside as `conflicting`.
    Differences in how a number is written count for nothing.

    Args:
        prompts, rejected: as `prepare` gives them for these `rows`, `task` and `fields`.
        comparison: how the answers of a SQL dataset are compared, whatever its rows say.

    Returns:
        prompt_id str, ground_truth (JSON) str, kept bool, reason str|null (conflicting), in the order of `prompts`.
    """
    lookup = Fields(fields)
    override = {"comparison": comparison} if comparison and task == "sql" else {}

    def truth(index: int) -> dict[str, Any]:
        return {**truth_of(rows[index], task, lookup), **override}

    again = defaultdict(set)
    duplicates = rejected.filter(pl.col("duplicate_of").is_not_null())
    for index, first in duplicates.select("source_index", "duplicate_of").iter_rows():
        again[first].add(comparable(truth(index), task))
    gold = []
    for key, index in prompts.select("prompt_id", "source_index").iter_rows():
        own = truth(index)
        conflicting = bool(again[index] - {comparable(own, task)})
        gold.append((key, canonical(own), not conflicting, "conflicting" if conflicting else None))
    return pl.DataFrame(
        gold,
        schema={"prompt_id": pl.String(), "ground_truth": pl.String(), "kept": pl.Boolean(), "reason": pl.String()},
        orient="row",
    )
