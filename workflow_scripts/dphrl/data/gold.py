"""Ground truths of a dataset's prompts, in a table separate from the prompts: a new ground truth resamples nothing."""

from collections import defaultdict
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from dphrl.data.fields import Fields, Renames, json_text
from dphrl.data.ground_truth import comparable, truth_of
from dphrl.store.catalogue import SCHEMAS


def gold_of(
    prompts: pl.DataFrame,
    rejected: pl.DataFrame,
    rows: Sequence[dict[str, Any]],
    task: str,
    *,
    fields: Renames = MappingProxyType({}),
    comparison: str | None = None,
) -> pl.DataFrame:
    """The ground truth of each prompt: a table of the schema `gold` in the order of `prompts`; every verdict is null.

    Rows with the same prompt can have different ground truths. Then the first is marked `conflicting` and not kept.
    Spellings of the same number are no difference.

    Args:
        prompts, rejected: as `prepare` gives them for these `rows`, `task` and `fields`.
        comparison: how the answers of a SQL dataset are compared, whatever its rows say.
    """
    lookup = Fields(fields)
    override = {"comparison": comparison} if comparison and task == "sql" else {}

    def truth(index: int) -> dict[str, Any]:
        return {**truth_of(rows[index], task, lookup), **override}

    repeated = defaultdict(set)
    duplicates = rejected.filter(pl.col("duplicate_of").is_not_null())
    for index, first in duplicates.select("source_index", "duplicate_of").iter_rows():
        repeated[first].add(comparable(truth(index), task))
    gold = []
    for key, index in prompts.select("prompt_id", "source_index").iter_rows():
        own = truth(index)
        conflicting = bool(repeated[index] - {comparable(own, task)})
        gold.append((key, json_text(own), None, not conflicting, "conflicting" if conflicting else None))
    return SCHEMAS["gold"].frame(gold)
