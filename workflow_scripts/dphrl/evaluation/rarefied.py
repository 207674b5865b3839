"""Diversity at equal numbers of right answers.

The number of different classes among however many answers are right grows with accuracy: it can rise while a policy
narrows. Both tables compare policies after their last step.
"""

import numpy as np
import polars as pl

from dphrl.evaluation.estimator import class_counts, rarefied
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

SIZES = (2, 4, 8)
"""Numbers of right answers at which classes are counted."""
FEWEST_PROMPTS = 30
_KINDS = ("styles", "answers", "programs", "skeletons")


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
    having = {kind: last.datasets_with(kind) for kind in _KINDS}
    having["skeletons"] -= having["programs"]
    for dataset, policies in last.by_dataset().items():
        by_kind = {kind: [_rarefied(policy, kind) for policy in policies] for kind in _KINDS if dataset in having[kind]}
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


def _rarefied(policy: Policy, kind: str) -> Floats:
    """(prompts, sizes), NaN for prompts with fewer right answers."""
    counts = class_counts(policy.codes(kind), policy.samples)
    return np.stack([rarefied(counts, m) for m in SIZES], axis=1)
