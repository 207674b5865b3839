"""Variety among right answers: how many different ones a tuned model has where it has as many as the base."""

from dataclasses import dataclass

import numpy as np

from dphrl.diagnose.verdict import Paired, paired
from dphrl.evaluation.estimator import class_counts, rarefied
from dphrl.evaluation.rarefied import FEWEST_PROMPTS, SIZES
from dphrl.evaluation.study import Policy

KINDS = {"programs": "programs", "styles": "styles", "skeletons": "ways of calculating", "answers": "answers"}
"""Kinds of classes in the order in which the first that there is is reported, with the words for them."""


@dataclass(frozen=True)
class Variety:
    """Different classes among m right answers, over the questions of which both models have m.

    Attributes:
        kind: a key of `KINDS`.
        m: right answers.
        base, tuned: the expected numbers of classes among them, means over questions.
        difference: of the two, per question.
    """

    kind: str
    m: int
    base: float
    tuned: float
    difference: Paired


def variety(base: Policy, tuned: Policy, kind: str) -> Variety | None:
    """The comparison at the largest m of 8, 4 and 2 with at least 30 questions; None where there is none."""
    counts = [class_counts(policy.codes(kind), policy.samples) for policy in (base, tuned)]
    for m in sorted(SIZES, reverse=True):
        before, after = (rarefied(one, m) for one in counts)
        common = ~np.isnan(before + after)
        if common.sum() >= FEWEST_PROMPTS:
            difference = paired(after[common] - before[common])
            return Variety(kind, m, float(before[common].mean()), float(after[common].mean()), difference)
    return None
