"""Where a loss sits: pass@k by how often the base solves a question, against another draw of the base.

Questions chosen by the samples that also measure the base show a loss where there is none: those that it solved by luck
are solved less often by any draw after it. So one half of the base's samples decides the stratum of a question, and the
other half is the base's pass@k. All ways to divide the samples count alike. That is exact from n and c, and nothing is
sampled again: of c right samples, a are in the first half with the hypergeometric chance.
"""

from collections.abc import Mapping

import numpy as np

from dphrl.evaluation.estimator import pass_at_k, right_among
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.names import STRATA
from dphrl.evaluation.study import Policy


def strata(base: Policy, k: int) -> Mapping[str, tuple[Floats, Floats]]:
    """Of each stratum (questions,): the chance to be in it, and to be in it and solved by k samples of the other half.

    Args:
        k: at most half of the samples of each question.
    """
    sizes, right, place = base.pairs
    chances = np.zeros((2, len(STRATA), len(sizes)))
    for pair, (n, c) in enumerate(zip(sizes.tolist(), right.tolist(), strict=True)):
        half = n // 2
        first = np.arange(max(0, c - (n - half)), min(c, half) + 1)
        chance = right_among(n, half)[c, first]
        stratum = np.sum([first > 0, 8 * first > half, 2 * first > half], axis=0)
        solved = chance * pass_at_k(n - half, c - first, k)
        chances[:, :, pair] = [np.bincount(stratum, weights, len(STRATA)) for weights in (chance, solved)]
    return {name: (inside[place], solved[place]) for name, inside, solved in zip(STRATA, *chances, strict=True)}
