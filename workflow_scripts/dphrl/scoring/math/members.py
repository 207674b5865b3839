r"""The values that an answer lists, each at its relations and units; `1, 2 \text{ or } 3` lists three."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Final, TypeVar

from dphrl.data.answer_text import split_at_commas
from dphrl.scoring.math.answers import normal_form, number
from dphrl.scoring.math.forms import PLAIN_NUMBER
from dphrl.scoring.math.relations import Sides, decimals, sides, symbols
from dphrl.scoring.math.units import BASE, Quantity, quantity
from dphrl.scoring.verdict import digest

_Value = TypeVar("_Value")
_TEXT: Final = re.compile(r"\\text\s*\{([^{}]*)\}")
_CONNECTIVE: Final = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
_SEPARATOR: Final = re.compile(
    r"(?:\s|(?<=\)))(?:and|or)(?:\s|(?=\())|;|\\(?:vee|lor)(?![A-Za-z])|\\(?:wedge|land)(?![A-Za-z])(?=.*=)"
)
_BOTH: Final = re.compile(r"\\text\s*\{\s*and\s*\}|\sand\s|\\(?:wedge|land)(?![A-Za-z])")
_PLUS_MINUS: Final = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
_SET_OF: Final = re.compile(r"(?:[A-Za-z]|\\text\s*\{[^{}]*\})\s*(?:=|\\in(?![A-Za-z]))\s*(?=\\\{)")
_EMPTY: Final = re.compile(r"\s*\\emptyset\s*")
AND: Final = " \\wedge "
"""Between the inequalities of a member that must all hold."""
_STATEMENT: Final = re.compile(r"(?<![\\A-Za-z_{])(?:for|when|where|if|so|at|then|with)(?![A-Za-z])|(?<=[\d)}])\. ")
_PRECISE: Final = re.compile(r"\s*-?(?=(?:\.?\d){3})\d*\.\d+\D*")


@dataclass(frozen=True)
class Member:
    """One of the values that an answer lists; `text` is clean."""

    text: str

    @cached_property
    def decimal(self) -> Fraction | None:
        """The value of a text that is nothing but a decimal number, which needs no further reading."""
        return Fraction(self.text) if PLAIN_NUMBER.fullmatch(self.text) else None

    @cached_property
    def whole(self) -> str:
        """The normal form of the text, all sides of a relation included."""
        return normal_form(self.text)

    @cached_property
    def sides(self) -> Sides:
        return sides(self.text)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The numbers and units of each side that may be the value."""
        return tuple(map(quantity, self.sides.values))

    @property
    def refused(self) -> bool:
        """Whether a word changes the value, or begins another statement between two sides."""
        joint = any(map(_STATEMENT.search, self.sides.values[:-1]))
        return joint or any(quantity.refused for quantity in self.quantities)

    @cached_property
    def is_single(self) -> bool:
        """Whether the text is a single value, perhaps with a name and a unit."""
        if self.decimal is not None:
            return True
        return self.sides.kind in ("value", "named") and len(self.sides.values) == 1

    @cached_property
    def all_sides(self) -> list[tuple[Quantity, Fraction | None]]:
        """Each side with the error that its digits allow, where it follows a sign of approximation."""
        return list(zip(self.quantities, map(_error, self.sides.values, self.sides.approximate), strict=True))

    @cached_property
    def accepted(self) -> list[tuple[Quantity, Fraction | None]]:
        r"""As a gold: the sides that are its value, each with the error that its digits allow.

        Of `a = b` it is b, of `a \approx b` it is a, exactly, and b at its digits.
        """
        if self.sides.kind not in ("value", "named", "computed"):
            return []
        return self.all_sides if any(self.sides.approximate) else self.all_sides[-1:]

    @cached_property
    def shown(self) -> list[Quantity]:
        r"""As an answer: the sides that are its value.

        Of `\frac{40}{3} \approx 13.33` they are both, of `5.4 \approx 5` it is the last.
        """
        if self.sides.kind not in ("value", "named", "computed", "asked"):
            return []
        last = len(self.quantities) - 1
        if not self.sides.approximate[-1] or last == 0 or decimals(self.sides.values[-2]) is not None:
            return [self.quantities[last]]
        # Rounded to few digits, it would be right for two golds.
        precise = _PRECISE.fullmatch(self.sides.values[-1]) is not None
        return [self.quantities[last - 1], self.quantities[last]] if precise else [self.quantities[last - 1]]

    @property
    def is_number(self) -> bool:
        """Whether the value is free of symbols."""
        return not symbols(self.sides.values[-1])

    @cached_property
    def entries(self) -> list["Member"]:
        """The entries of a tuple, a point or an interval, in order; none of any other text."""
        text = self.sides.values[-1].strip()
        depth = list(accumulate((character in "([{") - (character in ")]}") for character in text))
        if text[:1] not in ("(", "[") or text[-1:] not in (")", "]") or 0 in depth[:-1] or depth[-1]:
            return []
        parts = split_at_commas(text[1:-1])
        return [Member(part.strip()) for part in parts] if len(parts) > 1 else []

    @property
    def ends(self) -> tuple[str, str]:
        """The brackets around the entries; an infinite end is open, however it is written."""
        text = self.sides.values[-1].strip()
        first, last = ("\\infty" in self.entries[index].text for index in (0, -1))
        return "(" if first else text[0], ")" if last else text[-1]

    @cached_property
    def form(self) -> str:
        """The normal form of the value: `11` for `x = 11_8` and for `11 cm`. Other texts keep all sides."""
        if self.decimal is not None:
            return self.text
        return normal_form(self.quantities[0].value) if self.is_single else self.whole

    @property
    def base(self) -> str | None:
        """The base of a number (`base 8`)."""
        unit = self.quantities[0].unit if self.is_single else ""
        return unit if unit.startswith(BASE) else None

    @property
    def percent(self) -> bool:
        return "%" in self.form

    @cached_property
    def value(self) -> Fraction | None:
        """The value of a plain number; digits of another base are read as decimal ones."""
        if self.decimal is not None:
            return self.decimal
        return None if self.refused else number(self.form)


def members(text: str) -> list[Member]:
    r"""The values that a clean answer lists (`1, 2 and 3` or `\{1, 2, 3\}`), or the answer as the only member."""
    if PLAIN_NUMBER.fullmatch(text):
        return [Member(text)]
    both = _BOTH.split(text)
    if len(both) > 1 and all(sides(part).kind == "inequality" for part in both):
        return [Member(AND.join(both))]
    if "{" in text:
        text = _TEXT.sub(_parts, text)
    text = _SEPARATOR.sub(",", text).strip()
    braced = _SET_OF.sub("", text, count=1) if text.count("\\{") == 1 else ""
    inside = braced[2:-2] if braced.startswith("\\{") and braced.endswith("\\}") else ""
    if inside and not _EMPTY.fullmatch(inside):
        text = inside
    parts = [part for part in map(str.strip, split_at_commas(text)) if normal_form(part)]
    return [Member(value) for part in parts for value in _both_signs(part)]


def _both_signs(part: str) -> list[str]:
    r"""`3 \pm \sqrt{2}` as its two values; a text with several of these signs stays whole."""
    if len(_PLUS_MINUS.findall(part)) != 1:
        return [part]
    return [_PLUS_MINUS.sub(sign, part).removeprefix("+") for sign in "+-"]


def is_set(text: str) -> bool:
    r"""Whether a clean answer is a set in braces, `\{1,2\}`."""
    return text.strip().endswith("\\}") and _SET_OF.sub("", text.strip(), count=1).startswith("\\{")


def _error(side: str, approximate: bool) -> Fraction | None:
    shown = decimals(quantity(side).value) if approximate else None
    return None if shown is None else Fraction(1, 2 * 10**shown)


def _parts(match: re.Match[str]) -> str:
    r"""`\text{ cm or }` as a unit and a comma."""
    parts = _CONNECTIVE.split(match[1])
    if len(parts) == 1:
        return match[0]
    return ",".join(f"\\text{{{part}}}" if part.strip(" ,") else "" for part in parts)


def is_near(gold: Fraction, answer: Fraction, error: Fraction | None, digits: str) -> bool:
    """Whether two numbers are equal: within an absolute error, if there is one, else exactly.

    Decimals are equal if they agree to 6 places, as for math-verify, and to 1 part in 10,000.
    """
    difference = abs(gold - answer)
    if difference == 0 or error is not None:
        return difference <= (error or 0)
    return "." in digits and round(gold, 6) == round(answer, 6) and difference <= abs(gold) / 10_000


def one_to_one(golds: Sequence[_Value], answers: Sequence[_Value], same: Callable[[_Value, _Value], bool]) -> bool:
    """Whether golds and answers can be paired so that each pair is equal and none is left over (augmenting paths)."""
    partner: dict[int, int] = {}
    equal_to: dict[int, list[int]] = {}

    def find(gold: int, tried: set[int]) -> bool:
        if gold not in equal_to:
            equal_to[gold] = [index for index, answer in enumerate(answers) if same(golds[gold], answer)]
        for index in equal_to[gold]:
            if index not in tried:
                tried.add(index)
                if index not in partner or find(partner[index], tried):
                    partner[index] = gold
                    return True
        return False

    return len(golds) == len(answers) and all(find(gold, set()) for gold in range(len(golds)))


def answer_class(listed: list[Member]) -> str:
    """Digest of an answer: equal for equal numbers and for equal normal forms, in lists regardless of order."""
    return digest(sorted(_class_of(member) for member in listed))


def _class_of(member: Member) -> str:
    value = member.value
    shown = member.form if value is None else f"{value.numerator:x}/{value.denominator:x}"
    return f"{shown}_{member.base}" if member.base else shown
