"""The k at which a policy's pass@k falls below the base's (arXiv 2504.13837), after the last step."""

import numpy as np
import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.evaluation.crossed import Floats
from dphrl.evaluation.keep_explore import bases_of
from dphrl.evaluation.study import Study

# Above this k the curves are compared at steps of about 5 %.
_EVERY_K = 64
_STEP = 1.05
_TOLERANCE = 1e-9


def crossing(study: Study) -> pl.DataFrame:
    """The smallest k of which pass@k of a policy is below that of the base; null if there is none up to `up_to`.

    `low` and `high` are the smallest k at which the interval of the difference (bootstrap over prompts) reaches below 0
    and is wholly below 0: the k at which "not below yet" is first doubted, and first refused. Where the curves cross
    once in every resample they are the quantiles of the resampled crossing. `high` is null if the policy may not cross
    up to `up_to`, `low` if it does not cross for sure. k = 1 says that the policy is below from the start.

    Returns:
        The table "crossing".
    """
    rows: list[tuple[object, ...]] = []
    last = study.last_steps()
    bases = bases_of(last)
    for policy in last.policies:
        base = bases[policy.key.dataset]
        if policy is not base:
            k = compared_k(min(base.n, policy.n))
            intervals = policy.bootstrap.ratio(policy.pass_at(k) - base.pass_at(k), proportion=False)
            rows.append((*policy.key, *(_first_below(curve, k) for curve in intervals), k[-1]))
    return SCHEMAS["crossing"].frame(rows)


def compared_k(most: int) -> list[int]:
    """The k from 1 to `most` at which curves are compared: all up to 64, then steps of about 5 %."""
    steps = int(np.ceil(np.log(max(most / _EVERY_K, 1.0)) / np.log(_STEP))) + 1
    above = np.geomspace(_EVERY_K, most, steps).round().astype(int).tolist() if most > _EVERY_K else []
    return sorted({*range(1, min(most, _EVERY_K) + 1), *above})


def _first_below(curve: Floats, k: list[int]) -> int | None:
    below = np.flatnonzero(curve < -_TOLERANCE)
    return k[below[0]] if below.size else None
