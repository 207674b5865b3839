"""Data order and learning rate as pure functions of (seed, step), and the end of a training as one of its metrics.

There is no loader whose state could be lost, and all jobs of a training agree on its end.
"""

from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from math import hypot
from typing import Final

# A step has few prompts, and an error of about ten points.
WINDOW: Final = 8
_ERRORS: Final = 2.0


def epoch_indices(seed: int, label: str, step: int, per_step: int, total: int) -> list[int]:
    """Indices below `total` for one step: each epoch takes every index once, in its own order.

    Args:
        label: kind of index; different labels have unrelated orders.
        step: counted from 1.
        per_step: indices per step; an epoch may end within a step, and the next begins there.
        total: at least 1.
    """

    def order(epoch: int) -> list[int]:
        keys = [blake2b(f"{seed}/{label}/{epoch}/{i}".encode(), digest_size=16).digest() for i in range(total)]
        return sorted(range(total), key=keys.__getitem__)

    return step_of_epochs(order, step, per_step, total)


def step_of_epochs(order: Callable[[int], Sequence[int]], step: int, per_step: int, total: int) -> list[int]:
    """The indices of one step in an endless sequence of epochs.

    Args:
        order: of all `total` indices in an epoch, which counts from 0.
        step, per_step: as in `epoch_indices`.
    """
    orders: dict[int, Sequence[int]] = {}
    indices = []
    for position in range((step - 1) * per_step, step * per_step):
        epoch, offset = divmod(position, total)
        if epoch not in orders:
            orders[epoch] = order(epoch)
        indices.append(orders[epoch][offset])
    return indices


def learning_rate(step: int, lr: float, warmup_steps: int) -> float:
    """Constant after a linear rise over `warmup_steps`; `step` counts from 1."""
    return lr * min(1.0, step / warmup_steps) if warmup_steps else lr


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
