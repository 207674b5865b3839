"""Answers that the scorer found wrong by a rule, or did not find, with examples, for the report page."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from dphrl.evaluation.methods import label
from dphrl.report.shown_samples import shards_of
from dphrl.scoring.verdict_tables import unanswered_or_cut_off

Shown = tuple[str, str, pl.DataFrame]
"""A table of the page: title, caption, rows."""
Scored = tuple[Sequence[str], Mapping[str, str], Mapping[str, Sequence[str]]]
"""Datasets; by method, the folder of the policy in the run; files.

The files are "gold" of each dataset and all shards of "rollouts" and "verdicts".
"""
_RULE: Final = r"^rule: (\w+)$"
_EXAMPLES: Final = 3
_LONGEST: Final = 60
_SPACE: Final = re.compile(r"\s+")
_MISSING: Final = (
    "Policies of which a tenth of the samples or more have no answer for the scorer, or were cut off. "
    "datasets.<name>.answer names the place of an answer, max_tokens of the plan evaluate its length."
)
_CAPTION: Final = (
    "Answers that a rule of docs/scoring.md found wrong, of all answers of the policies shown, with the first in order "
    "of their questions. Many have another value than the gold too. A rule that decides more often after training "
    "shows what the policy tries."
)


def missing_of_run(scored: Scored) -> list[Shown]:
    """The table of policies whose answers the scorer did not find or max_tokens cut off, or nothing."""
    datasets, policies, files = scored
    rows = []
    for dataset in datasets if files.get("rollouts") else ():
        for method, policy in policies.items():
            rollouts, verdicts = (
                shards_of(dataset, {method: policy}, files[kind])[label(method)] for kind in ("rollouts", "verdicts")
            )
            if rollouts and (note := unanswered_or_cut_off(pl.scan_parquet(rollouts), pl.scan_parquet(verdicts), None)):
                rows.append((dataset, label(method), note))
    columns = dict.fromkeys(["Dataset", "Policy", "Samples"], pl.String)
    return [("Answers not found or cut off", _MISSING, pl.DataFrame(rows, columns, orient="row"))] if rows else []


def rules_of_run(scored: Scored) -> list[Shown]:
    """The table of rules, or nothing where none decided."""
    datasets, policies, files = scored
    parts = [
        _decided(name, label(method), shards, gold)
        for name, gold in zip(datasets, files.get("gold", ()), strict=True)
        for method, policy in policies.items()
        if (shards := shards_of(name, {method: policy}, files["verdicts"])[label(method)])
    ]
    rules = pl.concat(parts) if parts else pl.DataFrame()
    return [] if rules.is_empty() else [("Rules of the maths scorer", _CAPTION, rules)]


def _decided(dataset: str, policy: str, verdicts: Sequence[str], gold: str) -> pl.DataFrame:
    """Dataset, policy, rule, how many answers of how many, and examples."""
    scanned = pl.scan_parquet(list(verdicts))
    total = scanned.select(pl.len()).collect().item()
    ruled = scanned.with_columns(rule=pl.col("detail").str.extract(_RULE)).filter(pl.col("rule").is_not_null())
    truths = pl.scan_parquet(gold).select("prompt_id", "ground_truth")
    first = pl.struct("extracted", "ground_truth").sort_by("prompt_id", "sample_index").head(_EXAMPLES)
    counted = ruled.join(truths, on="prompt_id").group_by("rule").agg(answers=pl.len(), examples=first).collect()
    rows = [
        (dataset, policy, rule, f"{answers} of {total}", "; ".join(map(_example, examples)))
        for rule, answers, examples in counted.sort("answers", "rule", descending=[True, False]).iter_rows()
    ]
    return pl.DataFrame(
        rows, dict.fromkeys(["Dataset", "Policy", "Rule", "Answers", "Examples"], pl.String), orient="row"
    )


def _example(case: Mapping[str, str]) -> str:
    truth = json.loads(case["ground_truth"])
    # A custom scorer may name rules too.
    gold = truth.get("answer", truth)
    listed = gold if isinstance(gold, list) else [gold]
    return f"{_short(case['extracted'] or '')} for {_short(', '.join(map(str, listed)))}"


def _short(text: str) -> str:
    text = _SPACE.sub(" ", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
