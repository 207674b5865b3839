"""What a policy keeps of what the base solved, and what it adds (arXiv 2509.07430, section 6).

A prompt is solved if one of its first 8 samples (all, if there are fewer) is right.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluate import BootstrapConfig
from dphrl.evaluation.study import BASE, POLICY, POLICY_SCHEMA, Policy, policies, table

SECOND_DRAW = "base_second_draw"
FIRST = 8


@dataclass(frozen=True)
class Against:
    """What the base and one policy solve: `base` and `now`, (prompts,) each."""

    key: tuple[str, int, int, str]
    policy: Policy
    base: NDArray[np.bool_]
    now: NDArray[np.bool_]


def keep_explore(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """The rates at which a policy keeps and explores.

    `keep` is the share of the prompts solved by the base (n_solved) that the policy solves, `explore` the share of the
    others (n_unsolved), so that pass@8 = keep * n_solved / N + explore * n_unsolved / N, which is checked. A rate over
    no prompts is null. Where the base has 16 samples or more, the row `base_second_draw` holds its samples 8..15
    against its first 8: the ceiling for keep, below 1 by chance alone.

    Returns:
        method, seed, step, dataset, keep, keep_low, keep_high, explore, explore_low, explore_high (f64, null if
        over no prompts), n_solved i32, n_unsolved i32.

    Raises:
        ValueError: a dataset has no evaluation of the base or several, or policies were evaluated on other prompts.
    """
    rows = []
    for one in against_base(evaluations, bootstrap, seed):
        groups = np.stack([one.base, ~one.base], axis=1).astype(np.float64)
        rate, low, high = one.policy.bootstrap.ratio(groups * one.now[:, None], groups)
        sizes = (int(size) for size in groups.sum(axis=0))
        rows.append((*one.key, rate[0], low[0], high[0], rate[1], low[1], high[1], *sizes))
    names = [f"{rate}{end}" for rate in ("keep", "explore") for end in ("", "_low", "_high")]
    schema = {**POLICY_SCHEMA, **dict.fromkeys(names, pl.Float64), "n_solved": pl.Int32, "n_unsolved": pl.Int32}
    found = table(rows, schema).with_columns(pl.col(names).fill_nan(None))
    check_keep_explore(found, evaluations)
    return found


def forgetting(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> pl.DataFrame:
    """method, seed, step, dataset, kept, forgotten, gained, unsolved i32: prompts solved by base and policy, by the
    base only, by the policy only, by neither; with the row `base_second_draw` as in `keep_explore`.

    Raises:
        ValueError: as `keep_explore`.
    """
    rows = [
        (*one.key, *(int(both.sum()) for both in _matrix(one.base, one.now)))
        for one in against_base(evaluations, bootstrap, seed)
    ]
    counts = dict.fromkeys(("kept", "forgotten", "gained", "unsolved"), pl.Int32)
    return table(rows, {**POLICY_SCHEMA, **counts})


def check_keep_explore(rates: pl.DataFrame, evaluations: pl.DataFrame) -> None:
    """Check that keep and exploration rates add up to pass@8: pass@8 = keep * |S+| / N + explore * |S-| / N.

    Args:
        rates: a table of `keep_explore`.
        evaluations: what it was made from.

    Raises:
        ValueError: a row does not add up, or its policy was not evaluated.
    """
    key = [*POLICY, "dataset"]
    first = pl.col("correct").list.head(FIRST)
    second = pl.col("correct").list.slice(FIRST, FIRST)
    passed = evaluations.group_by(key).agg(passed=first.list.any().mean())
    again = evaluations.filter(method=BASE).group_by(key).agg(passed=second.list.any().mean())
    known = pl.concat([passed, again.with_columns(method=pl.lit(SECOND_DRAW))])
    total = pl.col("keep").fill_null(0.0) * pl.col("n_solved") + pl.col("explore").fill_null(0.0) * pl.col("n_unsolved")
    added = rates.with_columns(added=total / (pl.col("n_solved") + pl.col("n_unsolved")))
    found = added.join(known, on=key, how="left")
    wrong = found.filter(((pl.col("added") - pl.col("passed")).abs() > 1e-9).fill_null(True))
    for method, seed, step, dataset, sum_, expected in wrong.select(*key, "added", "passed").iter_rows():
        raise ValueError(
            f"keep_explore: {method} seed {seed} step {step} on {dataset!r}: keep and explore add up to {sum_}, but"
            f" pass@8 is {expected}; make the table again from these evaluations"
        )


def against_base(evaluations: pl.DataFrame, bootstrap: BootstrapConfig, seed: int) -> Iterator[Against]:
    """Every policy but the base beside the base, and the base's second draw where there is one.

    Raises:
        ValueError: as `keep_explore`.
    """
    solved: dict[str, NDArray[np.bool_]] = {}
    for policy in policies(evaluations, ["correct"], bootstrap, seed):
        method, *_, dataset = policy.key
        key, samples = policy.key, policy.samples
        if method == BASE:
            if dataset in solved:
                raise ValueError(f"keep_explore: dataset {dataset!r} has several evaluations of the base; give one")
            solved[dataset] = _solved(samples)
            if samples.shape[1] < 2 * FIRST:
                continue
            key, samples = (SECOND_DRAW, *policy.key[1:]), samples[:, FIRST:]
        if dataset not in solved:
            raise ValueError(
                f"keep_explore: dataset {dataset!r} has no evaluation of the base policy; evaluate it first"
            )
        yield Against(key, policy, solved[dataset], _solved(samples))


def _solved(samples: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(samples[:, :FIRST].any(axis=1))


def _matrix(base: NDArray[np.bool_], now: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    return base & now, base & ~now, ~base & now, ~base & ~now
