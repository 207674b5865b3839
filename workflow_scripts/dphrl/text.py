"""Texts for people: numbers, the same in the terminal, on pages and in tables, and foreign texts made visible.

Shares are in per cent, their differences in points. A bound of an interval that would read 0.0 gets one more digit, so
that a reader sees on which side of zero it is.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

_MOST_DIGITS: Final = 3
_C0, _C1 = (*range(0x20), 0x7F), range(0x80, 0xA0)
# Marks, line separators, embeddings and isolates move or reorder the text after them.
_ORDER = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SURROGATES = range(0xD800, 0xE000)


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
    bounds = []
    for end in ends:
        bound = text(end)
        if end and not float(bound):
            bound = text(end, digits=len(bound.partition(".")[2]) + 1)
        bounds.append(bound)
    return f"[{', '.join(bounds)}]"


def probability(p: float | None) -> str:
    """A p value; "-" for none."""
    return "-" if p is None else f"{p:.3f}".replace("0.000", "< 0.001")


def visible(text: str, keep: str = "\n\t") -> str:
    """The text with a symbol for each character that a terminal obeys, a browser drops or no encoding supports.

    Args:
        keep: control characters that stay; "" where a line break would look like another line of the program.
    """
    return text.translate(_symbols(keep))


@cache
def _symbols(keep: str) -> dict[int, str]:
    symbols = {code: chr(0x2421 if code == 0x7F else 0x2400 + code) for code in _C0}
    symbols |= {code: f"\\x{code:02x}" for code in _C1}
    symbols |= {code: f"\\u{code:04x}" for code in (*_ORDER, *_SURROGATES)}
    return {code: symbol for code, symbol in symbols.items() if chr(code) not in keep}
