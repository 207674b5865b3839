"""Verdicts and gold answers as tables."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from dphrl.scoring.verdict import Scorer, Verdict, score_answers
from dphrl.store.catalogue import SCHEMAS
from dphrl.text import percent, visible

# A share of samples without an answer that is said, and so many characters of one.
_MANY = 0.1
_SHOWN = 80


def verdict_frame(keys: pl.DataFrame, verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """Verdicts as a table of the schema `verdicts`; `keys`: prompt_id and sample_index of each, in their order."""
    schema = SCHEMAS["verdicts"]
    columns: dict[str, Any] = {}
    for name in schema.columns:
        if name in schema.key:
            columns[name] = keys[name]
            continue
        values = [getattr(verdict, name) for verdict in verdicts]
        # Tables cannot hold lone surrogates.
        columns[name] = [v.encode("utf-8", "replace").decode("utf-8") if isinstance(v, str) else v for v in values]
    return schema.frame(columns)


def score_rollouts(
    rollouts: pl.DataFrame, gold: pl.DataFrame, prompts: pl.DataFrame, scorer: Scorer, thoughts: Mapping[str, str]
) -> pl.DataFrame:
    """A verdict for each rollout, as a table of the schema `verdicts`.

    Args:
        gold, prompts: the ground truth of each prompt, and whether it ends inside of a thought.
        thoughts: `scoring.thoughts`.
    """
    truths = dict(gold.select("prompt_id", "ground_truth").iter_rows())
    ground_truths = [json.loads(truths[prompt_id]) for prompt_id in rollouts["prompt_id"]]
    inside = dict(prompts.select("prompt_id", "thought_open").iter_rows())
    opened = [inside[prompt_id] for prompt_id in rollouts["prompt_id"]]
    return verdict_frame(rollouts, score_answers(scorer, thoughts, rollouts["text"].to_list(), ground_truths, opened))


def correct(verdicts: pl.LazyFrame) -> str:
    """How many samples are correct, as the evaluation counts them, and how many greedy ones, if there are any."""
    greedy = pl.col("sample_index") < 0
    counts = verdicts.group_by(greedy.alias("greedy")).agg(right=pl.col("correct").sum(), all=pl.len()).sort("greedy")
    names = {False: "samples", True: "greedy ones"}
    return ", ".join(f"{right} of {all} {names[kind]} correct" for kind, right, all in counts.collect().iter_rows())


def unanswered_or_cut_off(rollouts: pl.LazyFrame, verdicts: pl.LazyFrame, place: str | None) -> str:
    """The share of samples in which no answer was found with an example, else the share cut off; empty below a tenth.

    A custom scorer may find an answer in each sample, also in one that was cut off before its answer.

    Args:
        place: the value of `datasets.<name>.answer` or of the task's block; None for a custom scorer.
    """
    share = verdicts.select((pl.col("verdict") == "no_answer").mean()).collect().item() or 0.0
    cut = rollouts.select((pl.col("finish_reason") == "length").mean()).collect().item() or 0.0
    if max(share, cut) < _MANY:
        return ""
    if share < _MANY:
        ended = rollouts.select("prompt_id", "sample_index", cut=pl.col("finish_reason") == "length")
        judged = ended.join(verdicts, on=["prompt_id", "sample_index"]).group_by("cut").agg(pl.col("correct").mean())
        right = dict(judged.collect().iter_rows())
        others = f", and {percent(right[False])} % of the others" if False in right else ""
        return (
            f"{percent(cut)} % of the samples were cut off at max_tokens; {percent(right[True])} % of these are"
            f" right{others}"
        )
    first = verdicts.filter(verdict="no_answer").select("prompt_id", "sample_index").head(1).collect()
    text = rollouts.join(first.lazy(), on=first.columns, how="semi").select("text").collect().item()
    end = visible(text[-_SHOWN:], "")
    advice = "" if place is None else f" ({place}, see datasets.<name>.answer)"
    return (
        f"no answer was found{advice} in {percent(share)} % of the samples, {percent(cut)} % were cut off at"
        f" max_tokens; the end of one without an answer: {'...' * (len(text) > _SHOWN)}{end!r}"
    )


def audit_gold(gold: pl.DataFrame, scorer: Scorer, drop: Collection[str]) -> pl.DataFrame:
    """The gold (of `dphrl.data.gold.gold_of`) with the scorer's verdict on each row, as a table of the schema `gold`.

    Rows that are `unrunnable` or have a reason in `drop` are not kept. With several reasons, the table names the first
    that drops the row, else the first of all; reasons in `gold` come before reasons of the audit.
    """
    audited = scorer.audit([json.loads(truth) for truth in gold["ground_truth"].to_list()])
    rows = []
    columns = gold.select("prompt_id", "ground_truth", "reason").iter_rows()
    for (key, truth, earlier), (verdict, fault) in zip(columns, audited, strict=True):
        reasons = [reason for reason in (earlier, fault) if reason is not None]
        decisive = [reason for reason in reasons if reason == "unrunnable" or reason in drop]
        rows.append((key, truth, verdict, not decisive, next(iter(decisive + reasons), None)))
    return SCHEMAS["gold"].frame(rows)
