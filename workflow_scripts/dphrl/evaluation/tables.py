"""The tables of the report, from the evaluations of all policies.

Every function takes `evaluations`: the frames of `evaluate` below each other, with the columns method str ("base" or a
method), seed i32 and step i32 (0 for base) and dataset str before them. Intervals resample prompts (`bootstrap`,
`seed`). Rows are sorted by dataset, policy (base first) and then as the table says; the same input gives the same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dphrl.config.evaluate import BootstrapConfig
from dphrl.evaluation.bootstrap import Floats, PromptBootstrap
from dphrl.evaluation.estimator import pass_at_k

SECOND_DRAW = "base_second_draw"
_BASE = "base"
_POLICY = ["method", "seed", "step"]
_POLICY_SCHEMA = {"method": pl.String, "seed": pl.Int32, "step": pl.Int32, "dataset": pl.String}
_INTERVAL_SCHEMA = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
_FIRST = 8


@dataclass(frozen=True)
class _Policy:
    """One policy on one dataset, rows sorted by prompt_id."""

    key: tuple[str, int, int, str]
    rows: pl.DataFrame
    bootstrap: PromptBootstrap

    def column(self, name: str) -> Floats:
        return self.rows[name].cast(pl.Float64).to_numpy().reshape(-1, 1)

    @property
    def samples(self) -> Floats:
        """(prompts, n), 1 for a correct sample."""
        return np.array(self.rows["correct"].to_list(), dtype=np.float64)


def passk(evaluations: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, k i32, value, low, high: mean of pass@k over prompts, a row for each k in order.

    Raises:
        ValueError: a k is larger than the number of samples, or policies were evaluated on different prompts.
    """
    rows = []
    for policy in _policies(evaluations, bootstrap, seed):
        values, lows, highs = policy.bootstrap.ratio(_pass_at(policy, k))
        rows += [(*policy.key, *row) for row in zip(k, values, lows, highs, strict=True)]
    return _frame(rows, {**_POLICY_SCHEMA, "k": pl.Int32, **_INTERVAL_SCHEMA})


def headline(evaluations: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, metric, value, low, high: the figures that are quoted.

    Metrics in order: greedy, mean@n and pass@k for the two largest k, proportions; then distinct_styles (of all
    samples) and distinct_programs (among the correct), means per prompt. A policy without greedy responses has no
    greedy, a dataset without style rules no distinct_styles, one without programs (maths) no distinct_programs.

    Raises:
        ValueError: as `passk`.
    """
    rows = []
    top = sorted(k)[-2:]
    programmed = set(evaluations.filter(pl.col("distinct_programs") > 0)["dataset"])
    for policy in _policies(evaluations, bootstrap, seed):
        n = int(policy.rows["n"][0])
        greedy = [] if policy.rows["greedy_correct"].null_count() else [policy.column("greedy_correct")]
        shares = np.hstack([*greedy, policy.column("c") / n, _pass_at(policy, top)])
        names = [*(["greedy"] if greedy else []), f"mean@{n}", *(f"pass@{one}" for one in top)]
        rows += [(*policy.key, *row) for row in zip(names, *policy.bootstrap.ratio(shares), strict=True)]
        counts = ["distinct_styles"] if policy.rows["styles"].list.len().min() else []
        if policy.key[3] in programmed:
            counts.append("distinct_programs")
        if not counts:
            continue
        means = np.hstack([policy.column(name) for name in counts])
        intervals = policy.bootstrap.ratio(means, proportion=False)
        rows += [(*policy.key, *row) for row in zip(counts, *intervals, strict=True)]
    return _frame(rows, {**_POLICY_SCHEMA, "metric": pl.String, **_INTERVAL_SCHEMA})


def styles(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, style, share, low, high, distinct_styles: how the samples divide among styles.

    A dataset has a row for each style that any policy shows on it, alphabetical; shares of a policy add up to 1.
    `distinct_styles` f64 is the mean number of styles among the samples of a prompt, repeated on each row of a policy.
    Datasets without style rules have no rows.

    Raises:
        ValueError: policies were evaluated on different prompts.
    """
    seen = evaluations.select("dataset", pl.col("styles").alias("style")).explode("style").drop_nulls()
    names = {name: sorted(group["style"].unique()) for (name,), group in seen.group_by("dataset")}
    rows = []
    for policy in _policies(evaluations, bootstrap, seed):
        shown = names.get(policy.key[3], [])
        if shown:
            given = policy.rows["styles"].to_list()
            shares = np.array([[one.count(name) / len(one) for name in shown] for one in given])
            distinct = float(policy.rows["distinct_styles"].mean())  # type: ignore[arg-type]
            intervals = policy.bootstrap.ratio(shares)
            rows += [(*policy.key, *row, distinct) for row in zip(shown, *intervals, strict=True)]
    numbers = dict.fromkeys(("share", "low", "high", "distinct_styles"), pl.Float64)
    return _frame(rows, {**_POLICY_SCHEMA, "style": pl.String, **numbers})


def keep_explore(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """How much of what the base solved a policy still solves, and how much it adds (arXiv 2509.07430, section 6).

    A prompt is solved if one of its first 8 samples (all, if there are fewer) is right. `keep` is the share of the
    prompts solved by the base (n_solved) that the policy solves, `explore` the share of the others (n_unsolved), so
    that pass@8 = keep * n_solved / N + explore * n_unsolved / N. A rate over no prompts is null.
    Where the base has 16 samples or more, the row `base_second_draw` holds its samples 8..15 against its first 8:
    the ceiling for keep, below 1 by chance alone.

    Returns:
        method, seed, step, dataset, keep, keep_low, keep_high, explore, explore_low, explore_high (f64, null if
        over no prompts), n_solved i32, n_unsolved i32.

    Raises:
        ValueError: a dataset has no evaluation of the base, or policies were evaluated on different prompts.
    """
    rows = []
    solved: dict[str, Floats] = {}
    for policy in _policies(evaluations, bootstrap, seed):
        method, *_, dataset = policy.key
        key, samples = policy.key, policy.samples
        if method == _BASE:
            solved[dataset] = samples[:, :_FIRST].max(axis=1, keepdims=True)
            if samples.shape[1] < 2 * _FIRST:
                continue
            key, samples = (SECOND_DRAW, *policy.key[1:]), samples[:, _FIRST:]
        if dataset not in solved:
            raise ValueError(
                f"keep_explore: dataset {dataset!r} has no evaluation of the base policy; evaluate it first"
            )
        now = samples[:, :_FIRST].max(axis=1, keepdims=True)
        groups = np.hstack([solved[dataset], 1.0 - solved[dataset]])
        rate, low, high = policy.bootstrap.ratio(groups * now, groups)
        n_solved, n_unsolved = (int(size) for size in groups.sum(axis=0))
        rows.append((*key, rate[0], low[0], high[0], rate[1], low[1], high[1], n_solved, n_unsolved))
    names = [f"{rate}{end}" for rate in ("keep", "explore") for end in ("", "_low", "_high")]
    rates = dict.fromkeys(names, pl.Float64)
    frame = _frame(rows, {**_POLICY_SCHEMA, **rates, "n_solved": pl.Int32, "n_unsolved": pl.Int32})
    return frame.with_columns(pl.col(names).fill_nan(None))


def _pass_at(policy: _Policy, k: Sequence[int]) -> Floats:
    n, c = (policy.rows[name].to_numpy().reshape(-1, 1) for name in ("n", "c"))
    try:
        return np.atleast_2d(pass_at_k(n, c, np.array([list(k)])))
    except ValueError as error:
        method, _, step, dataset = policy.key
        raise ValueError(
            f"{method} step {step} on {dataset!r}: {error}; check evaluate.k and sampling.evaluate.n"
        ) from error


def _policies(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> Iterator[_Policy]:
    """All policies, dataset by dataset, base first."""
    ordered = evaluations.sort("dataset", pl.col("method") != _BASE, *_POLICY, "prompt_id")
    for _, rows in ordered.group_by("dataset", maintain_order=True):
        dataset = str(rows["dataset"][0])
        expected: list[str] = []
        for (method, policy_seed, step), group in rows.group_by(_POLICY, maintain_order=True):
            prompts = group["prompt_id"].to_list()
            if not expected:
                expected = prompts
                draws = PromptBootstrap(len(prompts), dataset, bootstrap, seed)
            if prompts != expected:
                differing = sorted(set(prompts) ^ set(expected)) or prompts
                raise ValueError(
                    f"{method} seed {policy_seed} step {step} on {dataset!r} covers other prompts than the first"
                    f" policy, for instance {differing[0]!r} ({len(prompts)} rows, expected {len(expected)});"
                    " evaluate it again"
                )
            yield _Policy((str(method), int(policy_seed), int(step), dataset), group, draws)


def _frame(rows: Sequence[tuple[object, ...]], schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")
