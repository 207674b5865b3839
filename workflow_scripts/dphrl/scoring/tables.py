"""Verdicts and gold as tables. polars is imported late: the worker processes import this package too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dphrl.scoring.maths import MathScorer
from dphrl.scoring.program import nondeterministic
from dphrl.scoring.sql import SqlScorer
from dphrl.scoring.verdict import EMPTY_ANSWER, Verdict

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


def score_rollouts(rollouts: pl.DataFrame, gold: pl.DataFrame, scorer: SqlScorer | MathScorer) -> pl.DataFrame:
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


def audit_gold(gold: pl.DataFrame, scorer: SqlScorer | MathScorer) -> pl.DataFrame:
    """The gold with a verdict on each row: every gold is scored as if a model had answered it.

    A SQL gold is kept if it runs, gives rows and depends on neither chance nor the clock; a maths gold, if it can be
    read. A row that was already set aside (kept = false) stays so, with its reason.

    Args:
        gold: prompt_id str, ground_truth (JSON) str, kept bool, reason str|null, as `dphrl.tasks.prepare` makes it.
        scorer: of the task that the ground truths belong to.

    Returns:
        prompt_id, ground_truth, verdict str, kept bool, reason str|null (unrunnable, empty, nondeterministic,
        conflicting), in the order of `gold`.
    """
    import polars as pl

    truths = [json.loads(truth) for truth in gold["ground_truth"].to_list()]
    audited = _audit_sql(truths, scorer) if isinstance(scorer, SqlScorer) else _audit_math(truths, scorer)
    before = zip(gold["kept"].to_list(), gold["reason"].to_list(), strict=True)
    rows = [
        (verdict, kept and found is None, found if kept else reason)
        for (verdict, found), (kept, reason) in zip(audited, before, strict=True)
    ]
    return gold.select("prompt_id", "ground_truth").with_columns(
        pl.Series("verdict", [row[0] for row in rows], dtype=pl.String()),
        pl.Series("kept", [row[1] for row in rows], dtype=pl.Boolean()),
        pl.Series("reason", [row[2] for row in rows], dtype=pl.String()),
    )


def _audit_sql(truths: list[Mapping[str, Any]], scorer: SqlScorer) -> list[tuple[str, str | None]]:
    audited: list[tuple[str, str | None]] = []
    verdicts = scorer.score_sql([str(truth["gold_sql"]) for truth in truths], truths)
    for truth, verdict in zip(truths, verdicts, strict=True):
        reason = None
        if nondeterministic(truth["gold_sql"]):
            reason = "nondeterministic"
        elif not verdict.correct:
            reason = "unrunnable"
        elif verdict.answer_class == EMPTY_ANSWER:
            reason = "empty"
        audited.append((verdict.verdict, reason))
    return audited


def _audit_math(truths: list[Mapping[str, Any]], scorer: MathScorer) -> list[tuple[str, str | None]]:
    return [("correct", None) if good else ("gold_error", "unrunnable") for good in scorer.parses(truths)]


def _storable(value: Any) -> Any:
    """Text without lone surrogates, which no table can hold."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
