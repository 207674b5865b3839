"""The smallest k at which pass@k of a tuned model is below the base's."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from dphrl.evaluation.interval import Floats
from dphrl.evaluation.study import Policy
from dphrl.store.catalogue import SCHEMAS

# Above this k the curves are compared at steps of about 5 %.
_EVERY_K = 64
_STEP = 1.05
_TOLERANCE = 1e-9


def crossing(base: Policy, tuned: Sequence[Policy]) -> pl.DataFrame:
    """The smallest k at which pass@k of each policy is below the base's; null if there is none up to `up_to`.

    `low`: first k whose interval of the difference contains negative values. `high`: first k whose interval is
    entirely negative. A null `high`: the policy may not cross up to `up_to`. A null `low`: it does not cross. k = 1:
    the policy is below from the start.

    Returns:
        The table "crossing".
    """
    rows: list[tuple[object, ...]] = []
    for policy in tuned:
        k = compared_k(min(base.n, policy.n))
        intervals = policy.ratio(policy.pass_at(k) - base.pass_at(k), proportion=False)
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
