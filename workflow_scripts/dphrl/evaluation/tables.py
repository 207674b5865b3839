"""The tables of a run, each made from the `Study` of its evaluations and declared in `store/catalogue.py`.

Intervals are over prompts, or clusters of them where five or more are named for a dataset (`interval.ratio`).
Rows are sorted by dataset, policy (base first) and then as the table says; the same input gives the same rows.
Tables of pass@k and the like raise `ValueError` where every k is larger than the number of samples.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.claims import judged
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import frontier_table, paths
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.names import STYLES
from dphrl.evaluation.study import Policy, Study
from dphrl.evaluation.variety import rarefaction
from dphrl.store.catalogue import SCHEMAS


def tabulate(study: Study) -> dict[str, pl.DataFrame]:
    """The tables by name, but those of the diagnoses; columns and errors are described at the function of each."""
    followed = [*paths(study)]
    contrasts = comparisons(study, followed)
    return {
        "headline": headline(study),
        "passk": passk(study),
        "styles": styles(study),
        "keep_explore": keep_explore(study),
        "rarefied": rarefaction(study),
        "frontier": frontier_table(followed),
        "comparisons": contrasts,
        "claims": judged(study.claims, contrasts, study.config.roles, study.config.claims),
    }


def passk(study: Study) -> pl.DataFrame:
    """The mean of pass@k over prompts, a row for each k up to n."""
    rows: list[tuple[object, ...]] = []
    for policy in study.policies:
        k = policy.up_to_n(study.config.k)
        rows += _rows(policy, policy.pass_at(k), k)
    return SCHEMAS["passk"].frame(rows)


def headline(study: Study) -> pl.DataFrame:
    """The figures that are quoted.

    Metrics in order: greedy (of a policy with greedy responses), mean@n and pass@k for the two largest k up to n,
    proportions; then distinct_styles, the mean number of styles of a prompt, where there are style rules; then
    constants, the share of the right samples that read no table, of programs.
    """
    rows: list[tuple[object, ...]] = []
    styled = study.datasets_with("styles")
    for policy in study.policies:
        proportions = policy.proportions(study.config.k)
        rows += _rows(policy, np.hstack(list(proportions.values())), proportions)
        if policy.key.dataset in styled:
            rows += _rows(policy, policy.column(STYLES), [STYLES], proportion=False)
        if "constants" in policy.rows.columns and policy.rows["constants"].count():
            # Null where no verdict on a right sample tells whether it read a table.
            constants = policy.column("constants")
            above, below = (np.where(np.isnan(constants), 0.0, each) for each in (constants, policy.column("c")))
            (value,), (low,), (high,) = policy.ratio(above, below)
            rows.append((*policy.key, "constants", value, low, high))
    return SCHEMAS["headline"].frame(rows)


def styles(study: Study) -> pl.DataFrame:
    """How the samples divide among styles.

    Rows are the styles that any policy shows on a dataset, alphabetical; shares of a policy add up to 1.
    `distinct_styles` is the mean number of styles among the samples of a prompt, repeated on each row of a policy.
    Datasets without style rules have no rows.
    """
    shown: dict[str, set[str]] = defaultdict(set)
    for policy in study.policies:
        shown[policy.key.dataset].update(policy.rows["styles"].explode().drop_nulls().unique())
    rows: list[tuple[object, ...]] = []
    for policy in study.policies:
        if names := sorted(shown[policy.key.dataset]):
            counts = np.stack([policy.rows["styles"].list.count_matches(name).to_numpy() for name in names], axis=1)
            distinct = float((counts > 0).sum(axis=1).mean())
            rows += [(*row, distinct) for row in _rows(policy, counts / policy.sizes[:, None], names)]
    return SCHEMAS["styles"].frame(rows)


def _rows(
    policy: Policy, values: Floats, *labels: Iterable[object], proportion: bool = True
) -> Iterator[tuple[object, ...]]:
    """A row for each column of `values`, (prompts, rows): key of the policy, labels, mean and its interval."""
    intervals = policy.ratio(values, proportion=proportion)
    return ((*policy.key, *row) for row in zip(*labels, *intervals, strict=True))
