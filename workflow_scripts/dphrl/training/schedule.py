"""Data order and learning rate as pure functions of (seed, step): there is no loader whose state could be lost."""

from __future__ import annotations

import hashlib


def draw(seed: int, label: str, step: int, per_step: int, total: int) -> list[int]:
    """Indices below `total` for one step: each pass takes every index once, in an order of its own.

    Args:
        label: what is drawn; different labels have unrelated orders.
        step: counted from 1.
        per_step: how many a step takes; a pass may end within a step, and the next begins there.

    Raises:
        ValueError: there is nothing to draw from.
    """
    if total < 1:
        raise ValueError(f"no {label} to draw from")
    orders: dict[int, list[int]] = {}
    indices = []
    for position in range((step - 1) * per_step, step * per_step):
        number, offset = divmod(position, total)
        if number not in orders:
            orders[number] = sorted(range(total), key=lambda i, n=number: _rank(seed, label, n, i))  # type: ignore[misc]
        indices.append(orders[number][offset])
    return indices


def learning_rate(step: int, lr: float, warmup_steps: int) -> float:
    """Constant after a linear rise over `warmup_steps`; `step` counts from 1."""
    return lr * min(1.0, step / warmup_steps) if warmup_steps else lr


def _rank(seed: int, label: str, number: int, index: int) -> bytes:
    return hashlib.blake2b(f"{seed}/{label}/{number}/{index}".encode(), digest_size=16).digest()
