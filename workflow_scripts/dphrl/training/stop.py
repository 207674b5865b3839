"""The end of a training by its coverage (`train.stop`): a rule on the metrics of its steps, so that all jobs agree."""

from collections.abc import Collection
from math import hypot
from typing import Final

# A step has few prompts, and an error of about ten points.
WINDOW: Final = 8
_ERRORS: Final = 2.0


def ends(rows: Collection[tuple[int, str, float]], below: float | None) -> bool:
    """Whether a training ends after the last of these steps, of which no earlier one ended it.

    The mean of `coverage_gap` over the last 8 steps plus twice its error is below -`below`. A training that ended by
    chance is lost, while one that goes on keeps its earlier policies: so the error speaks for going on.

    Args:
        rows: of the metrics of all steps, in key order.
        below: `train.stop.coverage_below`; None: no training ends early.
    """
    if below is None:
        return False
    gaps, errors = (
        [value for _, metric, value in rows if metric == name][-WINDOW:]
        for name in ("coverage_gap", "coverage_gap_error")
    )
    return len(gaps) == WINDOW and (sum(gaps) + _ERRORS * hypot(*errors)) / WINDOW < -below
