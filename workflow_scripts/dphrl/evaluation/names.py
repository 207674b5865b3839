"""Names of policies and metrics; this module imports no estimator."""

import re
from collections.abc import Iterable
from typing import Final

BASE = "base"
BASE_ITSELF = "base_itself"
"""The method of rows that compare the base with an independent draw from itself."""

UNTRAINED = (BASE, BASE_ITSELF)
STYLES: Final = "distinct_styles"
"""The metric that is a count; all others are shares."""
STRATA: Final = ("never", "rarely", "sometimes", "mostly")
"""How often the base solves a question: no sample is right, up to 1/8, up to 1/2, more."""
AGAINST_ITSELF: Final = tuple(f"{name}@" for name in ("keep", "explore", *STRATA))
"""Metrics of questions that the base's samples choose: they are compared with `base_itself`."""
MIXED: Final = "mixed"
"""The end of the name of a method's path of mixtures."""


def numbered(metrics: Iterable[str], start: str) -> list[int]:
    """The numbers of all metrics named START and a number, ascending: [1, 8] for "pass@" with pass@1 and pass@8."""
    ends = (name.removeprefix(start) for name in metrics if name.startswith(start))
    return sorted(int(end) for end in ends if end.isdigit())


def average_of(role: str) -> str:
    """The name of the average over the datasets of a role, in place of a dataset name."""
    return f"average ({role.replace('_', ' ')})"


def of_mixture(method: str) -> tuple[str, int | None] | None:
    """The method of `<method>-m50`, weights mixed with the base's, and its share in per cent; None for other methods.

    `<method>-mixed`, the path of all mixtures of a method, has no share. No name of a configuration has a hyphen.
    """
    match = re.fullmatch(rf"(.+)-(?:m(\d\d?)|{MIXED})", method)
    return (match[1], int(match[2]) if match[2] else None) if match else None
