"""Control characters as visible symbols."""

import re
import unicodedata

import pytest

from dphrl.pages.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT 1;\n\tLIMIT 2", "SELECT 1;\n\tLIMIT 2"),
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
    every = "".join(map(chr, range(0x11_0000)))
    left = visible(every, keep="")
    assert {unicodedata.category(char) for char in left}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert not re.search("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", left)
    left.encode()
    controls = {char for char in every if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}
    assert len({*every} - {*left} - controls) == len("\u061c\u200e\u200f") + 5 + 4
