"""What a policy keeps of what the base solved, and what it adds (arXiv 2509.07430, section 6).

A prompt is solved if one of its first 8 samples (all, if there are fewer) is right. A dataset without an evaluation of
the base, or with several, is a `ValueError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.evaluation.bootstrap import PromptBootstrap
from dphrl.evaluation.study import BASE, PolicyKey, Study

SECOND_DRAW = "base_second_draw"
FIRST = 8


@dataclass(frozen=True)
class SolvedPair:
    """Which prompts the base and which a policy solves, (prompts,) each."""

    key: PolicyKey
    bootstrap: PromptBootstrap
    by_base: NDArray[np.bool_]
    by_policy: NDArray[np.bool_]


def keep_explore(study: Study) -> pl.DataFrame:
    """The rates at which a policy keeps and explores.

    `keep` is the share of the prompts solved by the base (n_solved) that the policy solves, `explore` the share of the
    others (n_unsolved), so that pass@8 = keep * n_solved / N + explore * n_unsolved / N, which is checked. A rate over
    no prompts is null. Where the base has 16 samples or more, the row `base_second_draw` compares its samples 8..15
    with its first 8: the largest keep that can be expected, below 1 by chance alone.
    """
    rows: list[tuple[object, ...]] = []
    for pair in solved_pairs(study):
        groups = np.stack([pair.by_base, ~pair.by_base], axis=1).astype(np.float64)
        rate, low, high = pair.bootstrap.ratio(groups * pair.by_policy[:, None], groups)
        sizes = (int(size) for size in groups.sum(axis=0))
        rows.append((*pair.key, rate[0], low[0], high[0], rate[1], low[1], high[1], *sizes))
    found = SCHEMAS["keep_explore"].frame(rows).with_columns(pl.selectors.float().fill_nan(None))
    check_keep_explore(found, study)
    return found


def forgetting(study: Study) -> pl.DataFrame:
    """Prompts solved by base and policy (kept), by the base only (forgotten), by the policy only (gained), by neither
    (unsolved); with the row `base_second_draw` as in `keep_explore`.
    """
    rows: list[tuple[object, ...]] = []
    for pair in solved_pairs(study):
        base, policy = pair.by_base, pair.by_policy
        groups = (base & policy, base & ~policy, ~base & policy, ~base & ~policy)
        rows.append((*pair.key, *(int(group.sum()) for group in groups)))
    return SCHEMAS["forgetting"].frame(rows)


def check_keep_explore(rates: pl.DataFrame, study: Study) -> None:
    """Check the rates of a study: pass@8 = keep * n_solved / N + explore * n_unsolved / N.

    Raises `ValueError` where a row does not add up, or its policy was not evaluated.
    """
    passed: dict[PolicyKey, float] = {}
    for policy in study.policies:
        passed[policy.key] = float(_solved(policy.samples).mean())
        if policy.key.method == BASE:
            passed[policy.key._replace(method=SECOND_DRAW)] = float(_solved(policy.samples[:, FIRST:]).mean())
    columns = (*PolicyKey._fields, "keep", "explore", "n_solved", "n_unsolved")
    for *names, keep, explore, solved, unsolved in rates.select(columns).iter_rows():
        key = PolicyKey(*names)
        added, expected = ((keep or 0.0) * solved + (explore or 0.0) * unsolved) / (solved + unsolved), passed.get(key)
        if expected is None or abs(added - expected) > 1e-9:
            raise ValueError(
                f"keep_explore: {key.method} seed {key.seed} step {key.step} on {key.dataset!r}: keep and explore add"
                f" up to {added}, but pass@8 is {expected}; make the table again from these evaluations"
            )


def solved_pairs(study: Study) -> Iterator[SolvedPair]:
    """The base with every other policy, and with its second draw where it has one."""
    solved: dict[str, NDArray[np.bool_]] = {}
    for policy in study.policies:
        key, samples = policy.key, policy.samples
        if key.method == BASE:
            if key.dataset in solved:
                raise ValueError(f"keep_explore: dataset {key.dataset!r} has several evaluations of the base; give one")
            solved[key.dataset] = _solved(samples)
            if policy.n < 2 * FIRST:
                continue
            key, samples = key._replace(method=SECOND_DRAW), samples[:, FIRST:]
        if key.dataset not in solved:
            raise ValueError(
                f"keep_explore: dataset {key.dataset!r} has no evaluation of the base policy; evaluate it first"
            )
        yield SolvedPair(key, policy.bootstrap, solved[key.dataset], _solved(samples))


def _solved(samples: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(samples[:, :FIRST].any(axis=1))
