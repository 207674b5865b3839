"""Verdicts and gold as tables. polars is imported late: the worker processes import this package too."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from dphrl.scoring.protocol import Scorer
from dphrl.scoring.verdict import Verdict

if TYPE_CHECKING:
    import polars as pl


def verdict_frame(keys: pl.DataFrame, verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """Verdicts as a table of the schema `verdicts`, in the order of `keys`.

    Args:
        keys: prompt_id str, sample_index i32; one row per verdict. Further columns are left out.
        verdicts: in the order of `keys`.

    Raises:
        ValueError: there are more or fewer verdicts than keys.
    """
    import polars as pl

    if keys.height != len(verdicts):
        raise ValueError(f"{len(verdicts)} verdicts for {keys.height} keys: expected as many")
    columns = {
        "verdict": pl.String(),
        "correct": pl.Boolean(),
        "reward": pl.Float64(),
        "extracted": pl.String(),
        "answer_class": pl.String(),
        "program_class": pl.String(),
        "detail": pl.String(),
    }
    values = [
        pl.Series(name, [_storable(getattr(verdict, name)) for verdict in verdicts], dtype=dtype)
        for name, dtype in columns.items()
    ]
    return keys.select(pl.col("prompt_id"), pl.col("sample_index").cast(pl.Int32)).with_columns(values)


def score_rollouts(rollouts: pl.DataFrame, gold: pl.DataFrame, scorer: Scorer) -> pl.DataFrame:
    """A verdict for each rollout, as a table of the schema `verdicts`.

    Args:
        rollouts: prompt_id, sample_index, text.
        gold: prompt_id, ground_truth (JSON) of the same dataset.
        scorer: of the task that the ground truths belong to.

    Raises:
        ValueError: a rollout's prompt has no gold row.
    """
    truths = dict(gold.select("prompt_id", "ground_truth").iter_rows())
    orphans = sorted(set(rollouts["prompt_id"]) - truths.keys())
    if orphans:
        raise ValueError(f"{len(orphans)} prompts have rollouts but no gold, first {orphans[0]}: rerun the gold audit")
    verdicts = scorer.score(
        rollouts["text"].to_list(), [json.loads(truths[prompt_id]) for prompt_id in rollouts["prompt_id"]]
    )
    return verdict_frame(rollouts, verdicts)


def audit_gold(gold: pl.DataFrame, scorer: Scorer, drop: Collection[str]) -> pl.DataFrame:
    """The gold with a verdict on each row, and whether it may be used.

    Args:
        gold: prompt_id str, ground_truth (JSON) str, kept bool, reason str|null, as `dphrl.tasks.gold_of` makes it.
        scorer: of the task that the ground truths belong to.
        drop: reasons that set a row aside, beside `unrunnable`, which always does.

    Returns:
        prompt_id, ground_truth, verdict str, kept bool, reason str|null, in the order of `gold`. The reason is that
        which set the row aside, else that which could have; one that `gold` came with goes before one of the audit.
    """
    import polars as pl

    audited = scorer.audit([json.loads(truth) for truth in gold["ground_truth"].to_list()])
    rows = []
    for earlier, (verdict, found) in zip(gold["reason"].to_list(), audited, strict=True):
        reasons = [reason for reason in (earlier, found) if reason is not None]
        decisive = [reason for reason in reasons if reason == "unrunnable" or reason in drop]
        rows.append((verdict, not decisive, next(iter(decisive + reasons), None)))
    schema = {"verdict": pl.String(), "kept": pl.Boolean(), "reason": pl.String()}
    return gold.select("prompt_id", "ground_truth").hstack(pl.DataFrame(rows, schema, orient="row"))


def _storable(value: Any) -> Any:
    """Text without lone surrogates, which no table can hold."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
