"""Shares, and differences of shares, as text."""

from collections.abc import Iterable


def percent(share: float) -> str:
    """A share in per cent, with one digit."""
    return f"{100 * share:.1f}"


def points(share: float) -> str:
    """A margin in points, without needless digits."""
    return f"{100 * share:g}"


def signed(share: float) -> str:
    """A difference of shares in points."""
    return f"{100 * share:+.1f}"


def interval(ends: Iterable[float]) -> str:
    """An interval of a difference of shares, in points."""
    return f"[{', '.join(signed(end) for end in ends)}]"
