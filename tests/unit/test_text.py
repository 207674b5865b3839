"""Texts for people: numbers, and control characters as visible symbols."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.text import change, count, interval, margin_in_points, percent, points, probability, visible


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("a\rb\x00\x7f", "a␍b␀␡"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("\u202egnp.exe\u2066\u200f", "\\u202egnp.exe\\u2066\\u200f"),
        ("\udc80", "\\udc80"),
        ("größe 東京 👩‍💻 \u00a0\u200b", "größe 東京 👩‍💻 \u00a0\u200b"),
    ],
)
def test_a_terminal_obeys_nothing_of_a_text(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_line_break_is_shown_where_it_would_begin_another_line() -> None:
    assert visible("a\nFAILED\tb", keep="") == "a␊FAILED␉b"
    assert visible("a\nb\tc", keep="\t") == "a␊b\tc"


def test_no_control_character_is_left_and_all_others_are() -> None:
    order = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    every = map(chr, range(0x11_0000))
    is_control = {char: unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in order for char in every}
    controls = "".join(char for char, control in is_control.items() if control)
    shown = visible(controls, keep="")
    shown.encode()
    assert {*shown}.isdisjoint(controls)
    others = "".join(char for char, control in is_control.items() if not control)
    assert visible(others, keep="") == others
