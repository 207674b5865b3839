"""Numbers as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.pages.numbers import change, count, interval, margin_in_points, percent, points, probability


def test_shares_are_in_per_cent_and_differences_in_points() -> None:
    assert (percent(0.3749), percent(0.3749, 2), points(0.2), points(-0.081)) == ("37.5", "37.49", "+20.0", "-8.1")
    assert (margin_in_points(0.05), margin_in_points(0.025)) == ("5", "2.5")
    assert (count(1.5), change(1.5), change(-0.25)) == ("1.50", "+1.50", "-0.25")
    assert [probability(p) for p in (None, 0.0001, 0.0214)] == ["-", "< 0.001", "0.021"]


@pytest.mark.parametrize(
    ("ends", "text", "expected"),
    [
        ((-0.0003, 0.12), points, "[-0.03, +12.0]"),
        ((0.0, 0.0004), percent, "[0.0, 0.04]"),
        ((-0.001, 0.3), change, "[-0.001, +0.30]"),
    ],
)
def test_a_bound_that_would_read_as_zero_has_another_digit(ends, text, expected) -> None:
    assert interval(ends, text) == expected


@given(st.floats(-1, 1).filter(lambda value: abs(value) > 1e-4))
def test_a_bound_shows_on_which_side_of_zero_it_is(value: float) -> None:
    shown = float(interval((value, value)).strip("[]").split(",")[0])
    assert shown * value > 0
