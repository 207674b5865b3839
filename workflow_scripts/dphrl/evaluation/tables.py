"""The tables of the report on each policy by itself, from the evaluations of all policies.

Every function takes `evaluations`: the frames of `evaluate` below each other, with the columns method str ("base" or a
method), seed i32 and step i32 (0 for base) and dataset str before them. Intervals resample prompts (`bootstrap`,
`seed`), or clusters of them where a column `cluster` str names 20 or more for a dataset. `consistency` and `diversity`
also read the columns of `classes`, `per_level` the column `level`; what is not there gives no rows.
Rows are sorted by dataset, policy (base first) and then as the table says; the same input gives the same rows.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluate import BootstrapConfig
from dphrl.evaluation.bootstrap import Floats
from dphrl.evaluation.classes import class_counts, entropy
from dphrl.evaluation.estimator import maj_at_k, pass_hat_k
from dphrl.evaluation.study import INTERVAL_SCHEMA, POLICY_SCHEMA, Policy, datasets_with, policies, table

COUNTS = ("distinct_styles", "distinct_programs")
MOST_LEVELS = 24
"""More levels than these in a dataset are no levels but scores; they get no table."""
_METRIC_SCHEMA = {**POLICY_SCHEMA, "metric": pl.String}


def passk(evaluations: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, k i32, value, low, high: mean of pass@k over prompts, a row for each k up to n.

    Raises:
        ValueError: every k is larger than the number of samples, or policies were evaluated on different prompts.
    """
    rows = []
    for policy in policies(evaluations, ["c"], bootstrap, seed):
        known = policy.up_to_n(k)
        values = policy.bootstrap.ratio(policy.pass_at(known))
        rows += [(*policy.key, *row) for row in zip(known, *values, strict=True)]
    return table(rows, {**POLICY_SCHEMA, "k": pl.Int32, **INTERVAL_SCHEMA})


def headline(evaluations: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, metric, value, low, high: the figures that are quoted.

    Metrics in order: greedy, mean@n and pass@k for the two largest k up to n, proportions; then distinct_styles (of all
    samples) and distinct_programs (among the correct), means per prompt. A policy without greedy responses has no
    greedy, a dataset without style rules no distinct_styles, one without programs (maths) no distinct_programs.

    Raises:
        ValueError: as `passk`.
    """
    rows: list[tuple[object, ...]] = []
    named = {name: datasets_with(evaluations, name) for name in COUNTS}
    for policy in policies(evaluations, ["c", "greedy_correct", *COUNTS], bootstrap, seed):
        rows += _rows(policy, proportions(policy, k))
        counts = {name: policy.column(name) for name, datasets in named.items() if policy.key[3] in datasets}
        rows += _rows(policy, counts, proportion=False)
    return table(rows, {**_METRIC_SCHEMA, **INTERVAL_SCHEMA})


def proportions(policy: Policy, k: Sequence[int]) -> dict[str, Floats]:
    """greedy (where there is one), mean@n and pass@k for the two largest k up to n, (prompts, 1) each."""
    k = policy.up_to_n(k)[-2:]
    greedy = {} if policy.rows["greedy_correct"].null_count() else {"greedy": policy.column("greedy_correct")}
    passed = policy.pass_at(k)
    solved = {f"pass@{one}": passed[:, [place]] for place, one in enumerate(k)}
    return {**greedy, f"mean@{policy.n}": policy.column("c") / policy.n, **solved}


def consistency(evaluations: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, metric, k i32, value, low, high: how far k samples of a prompt agree.

    Metrics: pass^k, all k are right; maj@k, their most frequent answer is right (`maj_at_k`), for datasets with
    answer classes. At k = 1 pass^k is the mean, and maj@k too if every sample has an answer.

    Raises:
        ValueError: as `passk`.
    """
    answered = datasets_with(evaluations, "answers")
    columns = ["c", "correct", *(["answers"] if answered else [])]
    rows = []
    for policy in policies(evaluations, columns, bootstrap, seed):
        known = policy.up_to_n(k)
        found = {"pass^k": policy.pass_at(known, pass_hat_k)}
        if policy.key[3] in answered:
            votes = [maj_at_k(policy.codes("answers"), policy.samples, one, seed) for one in known]
            found["maj@k"] = np.stack(votes, axis=1)
        for metric, values in found.items():
            intervals = policy.bootstrap.ratio(values)
            rows += [(*policy.key, metric, *row) for row in zip(known, *intervals, strict=True)]
    return table(rows, {**_METRIC_SCHEMA, "k": pl.Int32, **INTERVAL_SCHEMA})


def diversity(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, metric, value, low, high: how varied the samples of a prompt are, means per prompt.

    - distinct_styles, style_entropy: of all samples.
    - distinct_answers, answer_entropy: of all samples; distinct_answers_wrong: of the wrong ones.
    - distinct_programs, program_entropy and, without programs, distinct_skeletons, skeleton_entropy: of the correct.

    Entropies are in bits, over the prompts with a sample that has a class; a policy without one has no such row.

    Raises:
        ValueError: policies were evaluated on different prompts.
    """
    named = {name: datasets_with(evaluations, name) for name in ("styles", "answers", "programs", "skeletons")}
    named["skeletons"] -= named["programs"]
    columns = ["correct", *(name for name, datasets in named.items() if datasets)]
    shown = _style_names(evaluations)
    rows: list[tuple[object, ...]] = []
    for policy in policies(evaluations, columns, bootstrap, seed):
        counts: dict[str, NDArray[np.int64]] = {}
        for name in (name for name, datasets in named.items() if policy.key[3] in datasets):
            if name == "styles":
                counts["style"] = _style_counts(policy, shown[policy.key[3]])
            elif name == "answers":
                counts["answer"] = class_counts(policy.codes(name))
                counts["answer_wrong"] = class_counts(policy.codes(name), ~policy.samples)
            else:
                counts[name.removesuffix("s")] = class_counts(policy.codes(name), policy.samples)
        for name, found in counts.items():
            kind, _, among = name.partition("_")
            distinct = f"distinct_{kind}s{among and '_'}{among}"
            rows += _rows(policy, {distinct: (found > 0).sum(axis=1, keepdims=True).astype(float)}, proportion=False)
            if not among and found.any():
                counted = found.any(axis=1, keepdims=True).astype(float)
                value, low, high = policy.bootstrap.ratio(entropy(found)[:, None], counted, proportion=False)
                rows.append((*policy.key, f"{kind}_entropy", value[0], low[0], high[0]))
    return table(rows, {**_METRIC_SCHEMA, **INTERVAL_SCHEMA})


def styles(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, style, share, low, high, distinct_styles: how the samples divide among styles.

    A dataset has a row for each style that any policy shows on it, alphabetical; shares of a policy add up to 1.
    `distinct_styles` f64 is the mean number of styles among the samples of a prompt, repeated on each row of a policy.
    Datasets without style rules have no rows.

    Raises:
        ValueError: policies were evaluated on different prompts.
    """
    names = _style_names(evaluations)
    rows = []
    for policy in policies(evaluations, ["styles"], bootstrap, seed):
        shown = names.get(policy.key[3], [])
        if shown:
            counts = _style_counts(policy, shown)
            distinct = float((counts > 0).sum(axis=1).mean())
            intervals = policy.bootstrap.ratio(counts / policy.n)
            rows += [(*policy.key, *row, distinct) for row in zip(shown, *intervals, strict=True)]
    numbers = dict.fromkeys(("share", "low", "high", "distinct_styles"), pl.Float64)
    return table(rows, {**POLICY_SCHEMA, "style": pl.String, **numbers})


def style_counts(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, styles i32, share, low, high: how many prompts show that number of different styles
    among their samples (arXiv 2509.07430, appendix B).

    A dataset has a row for each number from 1 to the most that any policy shows on a prompt of it; shares of a policy
    add up to 1. Datasets without style rules have no rows.

    Raises:
        ValueError: policies were evaluated on different prompts.
    """
    named = datasets_with(evaluations, "distinct_styles")
    most = dict(evaluations.group_by("dataset").agg(pl.col("distinct_styles").max()).iter_rows())
    rows = []
    for policy in policies(evaluations, ["distinct_styles"], bootstrap, seed):
        if policy.key[3] in named:
            numbers = np.arange(1, most[policy.key[3]] + 1)
            intervals = policy.bootstrap.ratio((policy.column("distinct_styles") == numbers).astype(np.float64))
            rows += [(*policy.key, *row) for row in zip(numbers.tolist(), *intervals, strict=True)]
    return table(rows, {**POLICY_SCHEMA, "styles": pl.Int32, **dict.fromkeys(("share", "low", "high"), pl.Float64)})


def per_level(evaluations: pl.DataFrame, make: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """A table for the prompts of each level alone, below each other, with the columns level str and prompts i32 first.

    Args:
        evaluations: with the column level str|null: null for prompts without one.
        make: a table of evaluations, such as `lambda rows: headline(rows, k, bootstrap, seed)`.

    Returns:
        Its rows, sorted by level; no rows where no prompt has a level, or for a dataset with more than `MOST_LEVELS`.
    """
    marks = {"level": pl.String, "prompts": pl.Int32}
    if "level" not in evaluations.columns:
        evaluations = evaluations.with_columns(level=pl.lit(None, pl.String))
    empty = make(evaluations.clear())
    few = pl.col("level").n_unique().over("dataset") <= MOST_LEVELS
    found = [pl.DataFrame(schema={**marks, **empty.schema})]
    for (level, _), rows in (
        evaluations.drop_nulls("level")
        .filter(few)
        .sort("level", "dataset")
        .group_by("level", "dataset", maintain_order=True)
    ):
        size = rows["prompt_id"].n_unique()
        found.append(make(rows).select(pl.lit(level).alias("level"), pl.lit(size, pl.Int32).alias("prompts"), pl.all()))
    return pl.concat(found)


def _rows(policy: Policy, metrics: dict[str, Floats], proportion: bool = True) -> Iterator[tuple[object, ...]]:
    if metrics:
        intervals = policy.bootstrap.ratio(np.hstack(list(metrics.values())), proportion=proportion)
        yield from ((*policy.key, *row) for row in zip(metrics, *intervals, strict=True))


def _style_names(evaluations: pl.DataFrame) -> dict[str, list[str]]:
    seen = evaluations.select("dataset", style="styles").explode("style").drop_nulls().unique().sort("style")
    return {str(name): group["style"].to_list() for (name,), group in seen.group_by("dataset")}


def _style_counts(policy: Policy, names: Sequence[str]) -> NDArray[np.int64]:
    """(prompts, names), how many samples have each style."""
    given = policy.rows["styles"]
    return np.stack([given.list.count_matches(name).to_numpy() for name in names], axis=1).astype(np.int64)
