"""Numbers as text, the same in the terminal, on pages and in tables.

Shares are in per cent, their differences in points. A bound of an interval that would read 0.0 gets one more digit, so
that a reader sees on which side of zero it is.
"""

from collections.abc import Callable, Iterable
from typing import Final

_MOST_DIGITS: Final = 3


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent."""
    return f"{100 * share:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """A difference of shares in points, with its sign; with more digits, up to 3, where it would read as 0."""
    digits = next((places for places in range(digits, _MOST_DIGITS + 1) if round(100 * difference, places)), digits)
    return f"{100 * difference if round(100 * difference, digits) else 0.0:+.{digits}f}"


def margin_in_points(share: float) -> str:
    """A margin in points, without needless digits."""
    return f"{100 * share:g}"


def count(value: float, digits: int = 2) -> str:
    """A mean of counts."""
    return f"{value:.{digits}f}"


def change(value: float, digits: int = 2) -> str:
    """A difference of means of counts, with its sign."""
    return f"{value:+.{digits}f}"


def interval(ends: Iterable[float], text: Callable[..., str] = points) -> str:
    """An interval in brackets.

    Args:
        ends: lower and upper bound.
        text: the function of this module for one bound.
    """
    return f"[{', '.join(_bound(end, text) for end in ends)}]"


def probability(p: float | None) -> str:
    """A p value; "-" for none."""
    return "-" if p is None else f"{p:.3f}".replace("0.000", "< 0.001")


def _bound(value: float, text: Callable[..., str]) -> str:
    short = text(value)
    reads_as_zero = bool(value) and not float(short)
    return text(value, digits=len(short.partition(".")[2]) + 1) if reads_as_zero else short
