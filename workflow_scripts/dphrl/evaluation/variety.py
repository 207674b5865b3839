"""Variety: the expected number of different classes among equal numbers of right answers.

The number of classes among however many answers are right grows with accuracy: it can rise while a policy narrows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.evaluation.estimator import class_counts, pass_at_k
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.paired import PairedDifference, paired_difference
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

SIZES = (2, 4, 8)
"""Numbers of right answers at which classes are counted."""
FEWEST_PROMPTS = 30
# In the order of preference; the first kind of a file is reported.
_KINDS = ("programs", "styles", "skeletons", "answers")
# The smallest loss of variety that is named, as a share of the base's excess over one class.
_NAMED = 0.1
# Sums of chances of equal samples differ in the last bits.
_DIGITS = 9


def rarefied(counts: NDArray[np.integer], m: int) -> NDArray[np.float64]:
    """The expected number of classes among m of a prompt's c samples: sum over classes of 1 - C(c - c_j, m) / C(c, m).

    Without bias for m independent samples, whatever c is, so that policies with different numbers of right samples
    compare (rarefaction: Hurlbert 1971, Ecology 52, 577-586).

    Args:
        counts: (prompts, classes) integers, the samples c_j of each class; c is their sum.
        m: 1 or more.

    Returns:
        (prompts,) float64; NaN where c < m.
    """
    total = counts.sum(axis=1)
    enough = total >= m
    prompts, classes = np.nonzero((counts > 0) & enough[:, None])
    # A class is among m samples as a right sample is among k.
    chances = pass_at_k(total[prompts], counts[prompts, classes], m)
    return np.where(enough, np.bincount(prompts, weights=chances, minlength=len(total)), np.nan)


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
        by_kind: dict[str, list[Floats]] = {}
        for kind in _KINDS:
            if dataset in having[kind]:
                counts = [class_counts(policy.codes(kind), policy.samples) for policy in policies]
                # (prompts, sizes), NaN for prompts with fewer right answers.
                by_kind[kind] = [np.stack([rarefied(each, m) for m in SIZES], axis=1) for each in counts]
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


@dataclass(frozen=True)
class Variety:
    """Different classes among m right answers, over the questions of which both models have m.

    Attributes:
        kind: of the classes: programs, styles, skeletons, answers, or responses in files without classes of answers.
        m: right answers.
        difference: of the expected numbers of classes among them.
    """

    kind: str
    m: int
    difference: PairedDifference

    @property
    def narrowed(self) -> bool:
        """Whether variety fell by a tenth of the base's excess over one class or more, with 95 % confidence."""
        return self.difference.wide[1] < -_NAMED * (self.difference.base - 1.0)


def kinds_of(study: Study) -> list[str]:
    """The kinds of classes of the policies. Where solutions calculate, skeletons replace the equal right answers."""
    kinds = [kind for kind in _KINDS if study.datasets_with(kind)]
    if "skeletons" in kinds:
        calculated = any((policy.codes("skeletons") > 0).any() for policy in study.policies)
        kinds.remove("answers" if calculated else "skeletons")
    return kinds


def varied(base: Policy, trainings: Sequence[Policy], kind: str) -> Variety | None:
    """The comparison at the largest m of 8, 4 and 2 with at least 30 questions; None where there is none."""
    column = "answers" if kind == "responses" else kind
    of_policies = [class_counts(policy.codes(column), policy.samples) for policy in (base, *trainings)]
    for m in sorted(SIZES, reverse=True):
        before, *after = (rarefied(of_policy, m).round(_DIGITS) for of_policy in of_policies)
        common = ~np.isnan(before + sum(after))
        if common.sum() >= FEWEST_PROMPTS:
            clusters = None if base.clusters is None else base.clusters[common]
            difference = paired_difference(before[common], np.stack(after)[:, common], clusters, shares=False)
            return Variety(kind, m, difference)
    return None
