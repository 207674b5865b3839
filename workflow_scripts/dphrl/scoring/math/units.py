r"""Words and units around the value of an answer: `\$5\text{ per hour}` is 5 with the text `dollar / h`.

The text of an answer is equal to the gold's, or one of the two has none. Scale words (million) are factors. Words that
change a value (ago, or, not, six) are refused.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Final

from dphrl.scoring.math.forms import DEGREE, PLAIN_NUMBER

CURRENCY: Final = "\u00a4"
"""The sign that `clean` writes for a dollar sign that is not a delimiter."""
BASE: Final = "base"
"""The first word of the unit of a number with a base."""

_SIGNS: Final = {
    CURRENCY: "dollar",
    "\u20ac": "euro",
    "\u00a3": "pound",
    "\u00a5": "yen",
    "\u20b9": "rupee",
}
# Singular, in small letters.
_SPELLINGS: Final = {
    "millimeter": "mm", "centimeter": "cm", "meter": "m", "kilometer": "km", "inch": "in", "inche": "in", "foot": "ft",
    "feet": "ft", "gram": "g", "kilogram": "kg", "sec": "s", "second": "s", "minute": "min", "hr": "h", "hour": "h",
    "mile": "mi", "mph": "mi / h", "per": "/", "degree": DEGREE, "celsius": "C", "fahrenheit": "F",
}  # fmt: skip
_SCALES: Final = {
    "k": 10**3, "dozen": 12, "hundred": 100, "thousand": 10**3, "lakh": 10**5, "million": 10**6, "crore": 10**7,
    "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
# Next to a currency these letters are no units.
_SCALES_OF_MONEY: Final = _SCALES | {"K": 10**3, "m": 10**6, "M": 10**6, "b": 10**9, "B": 10**9, "bn": 10**9}
_DOUBTS: Final = """
    not isn never wrong false incorrect except maybe perhaps possibly probably likely guess think unsure approximately
    roughly nearly almost either neither hopefully presumably supposedly apparently approx cannot impossible unknown
    uncertain undefined estimate might ruled excluded eliminated rejected alternatively instead unless
"""
DOUBTS: Final = frozenset(_DOUBTS.split())
"""Words that make a value uncertain, also in its name; most other words there say which value it is."""
_OTHERS: Final = """
    or and between about nor believe around any other another anything something least most than minus plus over
    under if but half quarter third double doubled halved twice triple score ago from later earlier pi quadrillion
    before after negative zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
    sixty seventy eighty ninety else no to through doesn ish none nan infinity factorial halves thirds fourth fourths
    fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths hundredth hundredths
    thousandth thousandths millionth millionths
"""
_CHANGING: Final = DOUBTS | frozenset(_OTHERS.split())

_TEXT: Final = r"\\text\s*\{(?P<text>(?:[^{}^]++|\^\{-?\d+\}|\^)*+)\}"
_POWER: Final = r"(?:\s*\^\s*(?:\{\s*-?\d+\s*\}|\d))?"
_PIECE: Final = re.compile(
    rf"{_TEXT}{_POWER}|[{''.join(_SIGNS)}{DEGREE}\u00a2]|\\pmod\{{[^{{}}]*+\}}|(?<=[\d.}}])\s*'+"
)
_JOINT: Final = re.compile(r"(?:\s|/|\.|\*|\\(?:cdot|times)(?![A-Za-z]))*+")
_INSIDE: Final = re.compile(rf"[A-Za-z\d}})]\s*{_TEXT}")
_BEFORE: Final = re.compile(rf"\s*([-+]?)\s*([{''.join(_SIGNS)}])")
# Without `\\text` a word of four letters or more is no product of symbols, unless it is a function or a Greek letter.
_BARE_WORDS: Final = re.compile(
    r"(?<=[\d.)}])(?:\s*(?:mm|cm|km|ft|kg|mph|min|m(?=/s))|\s+(?:in|lb|hr|sec|am|pm|per)|"
    r"\s+(?!(?:sqrt|frac|infinity|(?:sin|cos|tan|cot|csc|log|exp)[a-z]?|alpha|beta|gamma|delta|theta|lambda|sigma|"
    rf"omega)(?![A-Za-z]))[A-Za-z]{{4,}})(?![A-Za-z(_]){_POWER}(?:[ /]+[A-Za-z]+{_POWER})*+\.?$",
    re.IGNORECASE,
)
_BARE_WORD: Final = re.compile(r"(?<![\\A-Za-z_{])(?:or|and|not|between|about|either|maybe|approximately)(?![A-Za-z])")
_WORDS: Final = re.compile(rf"(?<!_)(?<!_\{{){_TEXT}")
_COMMAND: Final = re.compile(r"\\[A-Za-z]+")
_BASE_NAMES: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SUBSCRIPT: Final = (
    r"_(?P<brace>(?:\\text)?\{)?(?P<text>\\text\{)?(?P<paren>\()?"
    rf"(?P<base>\d{{1,2}}|{'|'.join(_BASE_NAMES)})(?!\w)(?(paren)\))(?(text)\}})(?(brace)\}})"
)
# Not an exponent, an index or a part of a name: `\sum^5_2`, `x_{10}`, `\log_2 8`.
BASED: Final = re.compile(
    rf"(?<![\w.^}}\\])(?P<open>\()?(?=[A-Z]*\d)(?P<digits>[0-9A-Z]++(?:\.[0-9A-Z]++)?)(?(open)\)){_SUBSCRIPT}", re.ASCII
)
"""A number with its base: `2516_8`, `(A1)_{16}`, `11.01_{\text{two}}`."""
_WITH_BASE: Final = re.compile(rf"(?P<outer>[({{])?(?P<sign>[-+]?){BASED.pattern}(?(outer)[)}}])", re.ASCII)
_INDEXED: Final = re.compile(r"(?<![\w.^}\\])\(?\d[\d.]*+\)?_")
_TOKEN: Final = re.compile(rf"[A-Za-z]+|\d+|'+|[-/^{DEGREE}\u00a2]")
_INVERSE: Final = re.compile(r"(\S+) \^ - (\d+)")


@dataclass(frozen=True)
class Quantity:
    """An expression and the text around it, empty if there is none. `refused`: a word changes the value."""

    value: str
    unit: str = ""
    refused: bool = False


def quantity(text: str) -> Quantity:
    """The value of one side of an answer, and the text around it; a text without a value is its own value."""
    if text.isdigit():
        return Quantity(text)
    if "_" in text and (based := _with_base(text.replace(" ", ""))):
        return based
    bare = _BARE_WORDS.search(text)
    if bare:
        text = f"{text[: bare.start()]}\\text{{{bare[0].rstrip('.')}}}"
    refused = _is_refused(text)
    value, unit = _behind(text)
    currency = _BEFORE.match(value)
    if currency:
        value, unit = currency[1] + value[currency.end() :].lstrip(), f"{currency[2]} {unit}"
    if not value:
        return Quantity(text)
    if _INSIDE.search(value):
        # As a whole it may still be equal: `3\\text{ h }20\\text{ min}`.
        return Quantity(_PIECE.sub(lambda piece: f"\\text{{{_unit(_tokens(piece[0]))}}}", text), refused=True)
    tokens = _tokens(unit)
    factor = 1
    scales = _SCALES_OF_MONEY if tokens and tokens[0] in _SIGNS.values() else _SCALES
    for token in tokens:
        factor *= scales.get(token, 1)
    if factor != 1:
        tokens = [token for token in tokens if token not in scales]
        if PLAIN_NUMBER.fullmatch(value):
            exact = Fraction(value) * factor
            value = f"\\frac{{{exact.numerator}}}{{{exact.denominator}}}"
        else:
            value = f"({value})\\cdot{factor}"
    return Quantity(value, _unit(tokens), refused)


def _with_base(text: str) -> Quantity | None:
    """The digits of a number with its base as unit; None for other texts, and where a digit is not below the base."""
    match = _WITH_BASE.fullmatch(text)
    if match is None:
        return None
    sign, digits, written = match["sign"], match["digits"], match["base"]
    base = int(written) if written.isdigit() else _BASE_NAMES.index(written) + 2
    if not (2 <= base <= 36 and all(int(digit, 36) < base for digit in digits if digit != ".")):
        return None
    # `1E5` is no power of ten.
    value = sign + digits if digits.replace(".", "").isdecimal() else f"\\text{{digits {sign}{digits}}}"
    return Quantity(value, f"{BASE} {base}")


def agree(gold: str, answer: str) -> bool:
    """Whether two texts may belong to equal answers: equal, or one of them absent; prime marks are never left out."""
    return gold == answer or ((not gold or not answer) and "'" not in gold + answer)


def _behind(text: str) -> tuple[str, str]:
    """A text in front of its last words and units, and these."""
    start, end = len(text), 0
    for piece in _PIECE.finditer(text):
        if start == len(text) or not _JOINT.fullmatch(text, end, piece.start()):
            start = piece.start()
        end = piece.end()
    value = text[:start].rstrip()
    if text[end:].strip(" .") or value.endswith(("_", "^")):
        return text.strip(), ""
    return (value[:-1].rstrip(), f"/{text[start:]}") if value.endswith("/") else (value, text[start:])


def _tokens(unit: str) -> list[str]:
    """The words and signs of a unit, each in one spelling; a single letter keeps its case."""
    for sign, name in _SIGNS.items():
        unit = unit.replace(sign, f" {name} ")
    tokens, exponent = list[str](), ""
    for word in _TOKEN.findall(_COMMAND.sub(" ", unit.replace("\\pmod", "mod").replace(".", ""))):
        name = word if len(word) == 1 else word.lower()
        name = name[:-1] if len(name) > 2 and name[-1] == "s" else name
        if name in ("square", "sq", "cubic"):
            exponent = "3" if name == "cubic" else "2"
        elif tokens and name in ("squared", "cubed"):
            tokens += ["^", "3" if name == "cubed" else "2"]
        else:
            tokens += [*_SPELLINGS.get(name, name).split(), *(("^", exponent) if exponent else ())]
            exponent = ""
    return [token for token, _ in groupby(tokens)]


def _unit(tokens: list[str]) -> str:
    """Tokens as one text; `s ^ - 1` is `/ s`."""
    return _INVERSE.sub(r"/ \1 ^ \2", " ".join(tokens)).replace(" ^ 1", "")


def _is_refused(text: str) -> bool:
    """Whether a word in a text changes its value, or a number has an index that is no base (`204_1`)."""
    if ("_" in text and _INDEXED.search(text)) or _BARE_WORD.search(text):
        return True
    for match in _WORDS.finditer(text):
        words = re.findall("[a-z]+", match["text"].lower())
        # Behind a digit, `squared` changes the value; behind a unit, it belongs to the unit.
        squared = words[:1] in (["squared"], ["cubed"]) and text[: match.start()].rstrip()[-1:].isdigit()
        if squared or not _CHANGING.isdisjoint(words):
            return True
    return False
