"""Diversity at equal numbers of right answers, and the parts of a loss of diversity.

The number of different classes among however many answers are right grows with accuracy: it can rise while a policy
narrows. Both tables compare policies after their last step.
"""

from itertools import groupby

import numpy as np
import polars as pl

from dphrl.evaluation.against_base import bases_of
from dphrl.evaluation.estimator import class_counts, rarefied
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

SIZES = (2, 4, 8)
"""Numbers of right answers at which classes are counted."""
FEWEST_PROMPTS = 30
_JUDGED = ("answers", "programs", "skeletons")
"""Classes whose samples are all right or all wrong, as good as always."""


def rarefaction(study: Study) -> pl.DataFrame:
    """The expected number of classes among m right answers, means over the same prompts for all policies of a dataset.

    A prompt counts for m if every policy gave it m right answers with a class; `prompts` counts these prompts. Values
    of m with fewer than `FEWEST_PROMPTS` prompts give no rows. Classes of right answers: styles, answers, programs, and
    skeletons where there are no programs.

    Returns:
        The table "rarefied".
    """
    rows: list[tuple[object, ...]] = []
    last = study.last_steps()
    kinds = _kinds(last, ("styles", *_JUDGED))
    for dataset, group in groupby(last.policies, lambda policy: policy.key.dataset):
        policies = list(group)
        by_kind = {kind: [_rarefied(policy, kind) for policy in policies] for kind in kinds[dataset]}
        common = {kind: ~np.isnan(values).any(axis=0) for kind, values in by_kind.items()}
        for number, policy in enumerate(policies):
            for kind, values in by_kind.items():
                weights = np.asarray(common[kind], dtype=np.float64)
                above = np.where(common[kind], values[number], 0.0)
                intervals = zip(*policy.ratio(above, weights, proportion=False), strict=True)
                for m, prompts, interval in zip(SIZES, common[kind].sum(axis=0), intervals, strict=True):
                    if prompts >= FEWEST_PROMPTS:
                        rows.append((*policy.key, kind, m, int(prompts), *interval))
    return SCHEMAS["rarefied"].frame(rows)


def diversity_split(study: Study) -> pl.DataFrame:
    """The parts of a fall of answer classes: means over prompts of base - policy, with intervals.

    `all` is the fall of distinct classes in n answers. A class is right or wrong, so `all` is the sum of `right` and
    `wrong`, the falls of right and of wrong classes. A skeleton can be both and then counts in both. `right` is the sum
    of `narrowing` and `rest`. `narrowing` is the fall at an equal number of right answers, on each prompt the smaller
    of the two numbers (`rarefied`). `rest` is due to more or fewer right answers.

    If one policy drew more samples of a prompt, its count of classes is the expectation at the smaller number.

    Returns:
        The table "diversity_split".
    """
    rows: list[tuple[object, ...]] = []
    last = study.last_steps()
    kinds, bases = _kinds(last, _JUDGED), bases_of(last)
    for policy in last.policies:
        base = bases[policy.key.dataset]
        if policy is not base:
            for kind in kinds[policy.key.dataset]:
                parts = _parts(base, policy, kind)
                intervals = policy.ratio(np.stack(list(parts.values()), axis=1), proportion=False)
                rows += [(*policy.key, kind, *row) for row in zip(parts, *intervals, strict=True)]
    return SCHEMAS["diversity_split"].frame(rows)


def _parts(base: Policy, policy: Policy, kind: str) -> dict[str, Floats]:
    """The parts of the fall on each prompt, (prompts,) each."""
    (right, fewer), (wrong, fewer_wrong) = (
        [class_counts(side.codes(kind), side.samples == verdict) for side in (base, policy)]
        for verdict in (True, False)
    )
    m = np.minimum(right.sum(axis=1), fewer.sum(axis=1))
    narrowing = rarefied(right, m) - rarefied(fewer, m)
    n = np.minimum(base.sizes, policy.sizes)
    of_right = rarefied(right, n, base.sizes) - rarefied(fewer, n, policy.sizes)
    of_wrong = rarefied(wrong, n, base.sizes) - rarefied(fewer_wrong, n, policy.sizes)
    rest = of_right - narrowing
    return {"all": of_right + of_wrong, "right": of_right, "wrong": of_wrong, "narrowing": narrowing, "rest": rest}


def _rarefied(policy: Policy, kind: str) -> Floats:
    """(prompts, sizes), NaN for prompts with fewer right answers."""
    counts = class_counts(policy.codes(kind), policy.samples)
    return np.stack([rarefied(counts, m) for m in SIZES], axis=1)


def _kinds(study: Study, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The members of `names` with classes on each dataset; skeletons only where there are no programs."""
    having = {name: study.datasets_with(name) for name in names}
    having["skeletons"] -= having["programs"]
    datasets = {policy.key.dataset for policy in study.policies}
    return {dataset: [name for name in names if dataset in having[name]] for dataset in datasets}
