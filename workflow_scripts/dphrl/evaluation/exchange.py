"""Questions that a tuned model keeps, loses and gains, and what chance alone exchanges."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphrl.evaluation.estimator import pass_at_k, right_among
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.paired import PairedDifference, paired_difference

Counts = NDArray[np.int64]
# A fall of pass@k of one question that counts as its loss.
_HALF = 0.5


@dataclass(frozen=True)
class Exchange:
    """Expected numbers of questions that k samples solve: by both, the base only, the tuned model only, neither.

    `chance` is the number that another draw of the base loses, None without 2 k samples of each question. `fallen` is
    minus the share of questions whose pass@k fell by more than a half, less that share for draws of one model. What is
    gained does not make up for it.
    """

    kept: float
    lost: float
    gained: float
    neither: float
    chance: float | None
    fallen: PairedDifference

    def beyond(self, difference: float, margin: float) -> bool:
        """Whether others were gained for lost questions: more are lost than the difference of pass@k and chance say."""
        return self.fallen.wide[1] < min(difference, 0.0) - margin


def exchanged(base: Counts, trainings: Counts, k: int, clusters: NDArray[np.object_] | None) -> Exchange:
    """The exchange of questions between the base, (2, questions), and a model, (trainings, 2, questions)."""
    solved = np.asarray(pass_at_k(base[0], base[1], k))
    after = np.asarray(pass_at_k(trainings[:, 0], trainings[:, 1], k))
    by_chance = np.stack([_falls_by_chance(base, training, k) for training in trainings])
    fallen = paired_difference(np.zeros_like(solved), by_chance - (solved - after > _HALF), clusters)
    tuned = after.mean(axis=0)
    return Exchange(
        kept=float((solved * tuned).sum()),
        lost=float((solved * (1.0 - tuned)).sum()),
        gained=float(((1.0 - solved) * tuned).sum()),
        neither=float(((1.0 - solved) * (1.0 - tuned)).sum()),
        # Of two draws of the base, 2 k samples, only the first solves a question.
        chance=float((pass_at_k(base[0], base[1], 2 * k) - solved).sum()) if base[0].min() >= 2 * k else None,
        fallen=fallen,
    )


def _falls_by_chance(base: Counts, tuned: Counts, k: int) -> Floats:
    """(questions,), the chance that pass@k falls by more than a half if all samples of a question are of one model.

    Exact for the right samples of both together: they fall to base and tuned model as drawn without replacement.
    """
    (n, c), (m, d) = base, tuned
    chance = np.empty(len(n))
    for first, second in np.unique(np.stack([n, m]), axis=1).T.tolist():
        of_base = np.arange(first + 1)
        of_tuned = np.clip(np.arange(first + second + 1)[:, None] - of_base, 0, second)
        before = np.asarray(pass_at_k(first, of_base, k))
        after = np.asarray(pass_at_k(second, np.arange(second + 1), k))[of_tuned]
        here = (n == first) & (m == second)
        falls = right_among(first + second, first) * (before - after > _HALF)
        chance[here] = falls.sum(axis=1)[(c + d)[here]]
    return chance
