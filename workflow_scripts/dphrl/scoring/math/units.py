r"""Words and units next to the numbers of an answer: `5\text{ ft }3\text{ in}` is two numbers, each with its unit.

A unit may be left out. Two known units must agree, exponents included. Words that change a value (million, ago, or,
not, six) are no units.
"""

import re
from dataclasses import dataclass
from typing import Final

from dphrl.scoring.math.forms import DEGREE

CURRENCY: Final = "\u00a4"
"""The sign that `clean` writes for a dollar sign that is not a delimiter."""

_SPELLINGS: Final = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "m": "meter metre", "km": "kilometer kilometre",
    "in": "inch inches", "ft": "foot feet", "yd": "yard", "mi": "mile", "mg": "milligram", "g": "gram gm",
    "kg": "kilogram", "lb": "pound lbs", "oz": "ounce", "ms": "millisecond", "s": "sec second", "min": "minute mins",
    "h": "hr hour", "day": "", "week": "", "month": "", "year": "yr", "l": "liter litre", "ml": "milliliter millilitre",
    "gal": "gallon", "acre": "", "dollar": "usd", "cent": "", "euro": "eur", "degree": "deg", "rad": "radian",
    "hz": "hertz", "j": "joule", "n": "newton", "w": "watt", "kw": "kilowatt", "v": "volt", "pa": "pascal",
    "mol": "mole", "c": "celsius", "f": "fahrenheit",
    "amp": "ampere", "unit": "", "person": "people", "student": "", "way": "", "am": "", "pm": "",
}  # fmt: skip
_NAMES: Final = {
    form: name
    for name, others in _SPELLINGS.items()
    for base in (name, *others.split())
    for form in (base, base + "s", base + "es")
} | {"in": "in", "s": "s", "ms": "ms"}
_DIRECTIONS: Final = """
    north south east west up upward down downward left right above below clockwise counterclockwise profit gain loss
    increase decrease ad bc
"""
_COMPOUND: Final = {"mph": "mi/h", "kmph": "km/h", "kmh": "km/h", "kph": "km/h"}
_SCALES: Final = {"hundred": 2, "thousand": 3, "k": 3, "million": 6, "billion": 9, "trillion": 12}
_VALUE_WORDS: Final = """
    or and not between about either neither nor maybe perhaps possibly probably likely think guess believe unsure
    approximately approx roughly around nearly almost any other another anything something least most than minus plus
    times over under if unless except but half quarter third double twice triple dozen score ago from later earlier
    before after negative zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
    sixty seventy eighty ninety wrong false incorrect else instead never no to through
"""
_CHANGING: Final = frozenset(re.findall("[a-z]+", _VALUE_WORDS))

_TEXT: Final = r"\\(?:text|mbox|mathrm|textbf|textrm|textit|textnormal)\s*\{(?P<text>(?:[^{}^]++|\^\{-?\d+\}|\^)*+)\}"
_LONG: Final = sorted((n for n in _NAMES | _COMPOUND if len(n) > 1 and n not in ("am", "pm", "ms", "as")), key=len)
_BARE: Final = rf"(?<![A-Za-z\\_^{{])(?P<bare>(?:square |sq\.? |cubic )?(?:{'|'.join(reversed(_LONG))})(?![A-Za-z(_]))"
_POWER: Final = r"(?:\s*\^\s*(?:\{\s*(?P<braced>-?\d+)\s*\}|(?P<power>\d)))?"
_TOKEN: Final = re.compile(
    rf"(?:{_TEXT}|{_BARE}|(?P<rate>(?<=/)\s*(?:h|s|m|min)(?![A-Za-z]))){_POWER}|(?P<sign>[{CURRENCY}{DEGREE}\u20ac\u00a3])"
    r"|\\pmod\{(?P<modulus>[^{}]*+)\}|(?P<marks>(?<=[\d.}])\s*'+)|(?P<open>\\?[(\[{])|(?P<close>\\?[)\]}])",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(r"\s*(?:/|\\cdot\b|\\times\b|\*|~|\.)?\s*")
_SIGNS: Final = {CURRENCY: "dollar", "\u20ac": "euro", "\u00a3": "pound sterling", DEGREE: "degree"}
_CURRENCIES: Final = frozenset(_SIGNS.values()) - {"degree"}
_WORD: Final = re.compile(r"[a-z]+(?:\^\{?-?\d+)?|/", re.IGNORECASE)
_NUMERIC: Final = re.compile(r"[-+\d.,\s/{}]|\\(?:frac|times|cdot)(?![A-Za-z])|\^")
_BARE_WORD: Final = re.compile(r"(?<![\\A-Za-z_{])(?:or|and|not|between|about|either|maybe|approximately)(?![A-Za-z])")
_WORDS: Final = re.compile(rf"(?<!_)(?<!_\{{){_TEXT}")
_DIGIT: Final = re.compile(r"\d")
_PLAIN: Final = re.compile(r"[-+]?\d++(?:\.\d++)?")

Unit = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Quantity:
    """Numbers or expressions, each with its unit: `()` without one. `refused` is a word that changes the value."""

    values: tuple[str, ...]
    units: tuple[Unit, ...]
    refused: str | None = None


def quantity(text: str) -> Quantity:
    """The values and units of one side of an answer; a text without a value is its own value."""
    if text.isdigit() or ("\\" not in text and not _TOKEN.search(text) and not _BARE_WORD.search(text)):
        return Quantity((text,), ((),))
    refused = _value_words(text)
    values, units = _split(text)
    if values[0] in ("", "-", "+") and len(values) > 1 and units[0] and units[0][0][0] in _CURRENCIES:
        # A currency comes before its number.
        values = [values[0] + values[1], *values[2:]]
        units = [units[0] + (units[1] if len(units) > 1 and values[1:] == [""] else ()), *units[2:]]
    if not values[-1]:
        values = values[:-1]
    units += [()] * (len(values) - len(units))
    if not values or not values[0] or (len(values) == 1 and not any(units)):
        return Quantity((text,), ((),), refused if _DIGIT.search(text) else None)
    if len(values) > 1 and all(value[0] in "+-" for value in values[1:]) and len(set(units)) == 1:
        values, units = ["".join(values)], units[:1]
    if len(values) > 1 and not all(_NUMERIC.sub("", value) == "" for value in values):
        return Quantity((text,), ((),), "words inside of an expression")
    scaled = [_scaled(value, unit) for value, unit in zip(values, units, strict=True)]
    return Quantity(tuple(value for value, _ in scaled), tuple(unit for _, unit in scaled), refused)


def agree(gold: Unit, answer: Unit, strictly: bool = False) -> bool:
    """Whether two units may belong to equal answers; `strictly` where several numbers differ by their words."""
    if gold == answer:
        return True
    if _MARKS & {name for name, _ in gold + answer}:
        return False
    if not gold or not answer:
        return True
    if strictly or all(name in _KNOWN or name.startswith("mod ") for name, _ in gold + answer):
        return sorted(gold) == sorted(answer)
    return [name for name, _ in gold] != [name for name, _ in answer]


# A direction is left out like a unit, but two of them must be the same.
_KNOWN: Final = frozenset(_NAMES.values()) | set(re.findall("[a-z]+", _DIRECTIONS)) | {"pound sterling"}
_MARKS: Final = frozenset({"'", "''", "'''"})


def _split(text: str) -> tuple[list[str], list[Unit]]:
    """The pieces of a text outside of its words, and the units between them; units in a row are one."""
    values, units, end, depth = [""], list[Unit](), 0, 0
    for match in _TOKEN.finditer(text):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif depth == 0 and _is_unit(match):
            between = text[end : match.start()]
            if units and not values[-1] and (joint := _JOINT.fullmatch(between)):
                inverse = -1 if "/" in joint[0] else 1
                units[-1] += tuple((name, inverse * power) for name, power in _unit(match))
            else:
                values[-1] = between.strip()
                units.append(_unit(match))
                values.append("")
            end = match.end()
    values[-1] = text[end:].strip()
    return values, units


def _is_unit(match: re.Match[str]) -> bool:
    """A bare word is a unit only behind a number or another unit; a text of one letter may be a name."""
    before = match.string[: match.start()].rstrip()
    if before.endswith(("^", "_")):
        return False
    if match["bare"]:
        return (
            before[-1:].isdigit()
            or before.endswith(("}", ")", "/", DEGREE))
            or (match["bare"].lower() in ("usd", "eur") and not before)
        )
    return match["rate"] is None or before.endswith("/")


def _unit(match: re.Match[str]) -> Unit:
    if match["sign"]:
        return ((_SIGNS[match["sign"]], 1),)
    if match["marks"] or match["modulus"]:
        return ((match["marks"].strip() if match["marks"] else f"mod {match['modulus'].strip()}", 1),)
    shown = (match["text"] or match["bare"] or match["rate"] or "").lower().replace(".", "").replace("~", " ")
    power = int(match["braced"] or match["power"] or 1)
    parts, inverse, squared = list[tuple[str, int]](), 1, 1
    for word in _WORD.findall(shown.replace("p m", "pm").replace("a m", "am")):
        if word in ("/", "per"):
            inverse = -1
        elif word in ("square", "sq", "cubic"):
            squared = 3 if word == "cubic" else 2
        elif word in ("squared", "cubed") and parts:
            parts[-1] = (parts[-1][0], parts[-1][1] * (3 if word == "cubed" else 2))
        else:
            name, _, exponent = word.partition("^")
            for factor, sign in _factors(name):
                parts.append((factor, sign * inverse * squared * int(exponent.strip("{") or 1)))
            squared = 1
    if parts:
        parts[-1] = (parts[-1][0], parts[-1][1] * power)
    return tuple(parts)


def _factors(word: str) -> list[tuple[str, int]]:
    if word in _COMPOUND:
        above, _, below = _COMPOUND[word].partition("/")
        return [(above, 1), (below, -1)]
    return [(_NAMES.get(word, word), 1)]


def _scaled(value: str, unit: Unit) -> tuple[str, Unit]:
    """The value times the scale words among its units."""
    power = sum(_SCALES[name] for name, _ in unit if name in _SCALES)
    if not power:
        return value, unit
    rest = tuple(part for part in unit if part[0] not in _SCALES)
    return (f"{value}\\times10^{{{power}}}" if _PLAIN.fullmatch(value) else f"({value})\\cdot10^{{{power}}}"), rest


def _value_words(text: str) -> str | None:
    """The first word in a text that changes a value, or None."""
    bare = _BARE_WORD.search(text)
    if bare:
        return bare[0]
    for match in _WORDS.finditer(text):
        words = re.findall("[a-z]+", match["text"].lower())
        changing = next((word for word in words if word in _CHANGING), None)
        if changing:
            return changing
    return None
