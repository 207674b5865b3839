r"""Numbers with a base, as `2516_8` or `1101_{\text{two}}`."""

import re
from typing import Final

_NAMES: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SUBSCRIPT: Final = (
    r"_(?P<brace>(?:\\text)?\{)?(?P<text>\\text\{)?(?P<paren>\()?"
    rf"(?P<base>\d{{1,2}}|{'|'.join(_NAMES)})(?!\w)(?(paren)\))(?(text)\}})(?(brace)\}})"
)
# Not an exponent, an index or a part of a name: `\sum^5_2`, `x_{10}`, `\log_2 8`.
BASED: Final = re.compile(
    rf"(?<![\w.^}}\\])(?P<open>\()?(?=[A-Z]*\d)(?P<digits>[0-9A-Z]++(?:\.[0-9A-Z]++)?)(?(open)\)){_SUBSCRIPT}", re.ASCII
)
_WHOLE: Final = re.compile(rf"(?P<sign>[-+]?){BASED.pattern}", re.ASCII)
_LETTER: Final = re.compile("[A-Z]")


_INDEXED: Final = re.compile(r"(?<![\w.^}\\])\(?\d[\d.]*+\)?_")


def without_base(form: str) -> tuple[str, int | None]:
    """A normal form as digits and base; the form itself and None where it is no number with a base."""
    found = _WHOLE.fullmatch(form)
    base = _base(found) if found else None
    return (found["sign"] + found["digits"], base) if found and base else (form, None)


def bases(form: str) -> list[int]:
    """The bases of the numbers in a normal form, in ascending order."""
    return sorted(base for found in BASED.finditer(form) if (base := _base(found)))


def may_be_equal(gold: str, answer: str) -> bool:
    """Whether the bases in two normal forms agree; they are not compared where one has none.

    A number with an index that is no base (`204_1`) is equal to no other.
    """
    wanted, found = bases(gold), bases(answer)
    if any(len(_INDEXED.findall(form)) > len(read) for form, read in ((gold, wanted), (answer, found))):
        return False
    return not wanted or not found or wanted == found


def _base(found: re.Match[str]) -> int | None:
    """The base, from 2 to 36; None if it is none, or a letter is no digit of it (`5C_2` is a binomial coefficient)."""
    digits, written = found["digits"], found["base"]
    base = int(written) if written.isdigit() else _NAMES.index(written) + 2
    largest = max((int(letter, 36) for letter in _LETTER.findall(digits)), default=0)
    return base if 2 <= base <= 36 and largest < base else None
