r"""Words and units next to the numbers of an answer: `5\text{ ft }3\text{ in}` is two numbers, each with its unit.

A unit may be left out. Two known units must agree, exponents included. Words that change a value (million, ago, or,
not, six) are no units.
"""

import re
from collections.abc import Iterable
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
    "mol": "mole", "c": "celsius", "f": "fahrenheit", "kelvin": "",
    "amp": "ampere", "unit": "", "person": "people", "student": "", "way": "", "am": "", "pm": "",
}  # fmt: skip
# In a text only: without one they may be products, `5nm`.
_SPELLINGS_IN_TEXT: Final = {
    "nm": "nanometer nanometre", "ns": "nanosecond", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz",
    "kj": "kilojoule", "mj": "megajoule", "kn": "kilonewton", "mw": "megawatt", "kv": "kilovolt", "kpa": "kilopascal",
    "ev": "electronvolt", "kev": "", "mev": "", "gev": "", "mmol": "millimole",
}  # fmt: skip
_BARE_NAMES, _TEXT_NAMES = (
    {
        form: name
        for name, others in spellings.items()
        for base in (name, *others.split())
        for form in (base, base + "s", base + "es")
    }
    for spellings in (_SPELLINGS, _SPELLINGS_IN_TEXT)
)
_NAMES: Final = _TEXT_NAMES | _BARE_NAMES | {"in": "in", "s": "s", "ms": "ms", "ns": "ns"}
# Words of one line exclude each other; `=` joins words of one meaning.
_OPPOSITES: Final = """
    north south east west
    up=upward=upwards=above=higher down=downward=downwards=below=lower
    left=leftward right=rightward
    clockwise counterclockwise=anticlockwise
    profit=gain=increase=more=greater loss=decrease=less=fewer=smaller
    ad=ce bc=bce
    faster slower
    older younger
    longer shorter
    ahead behind
    inside outside
    odd even
    max=maximum min=minimum
    man=men=male=males woman=women=female=females
    boy=boys girl=girls
    win=wins loss=losses
    credit debit
    dollar cent euro yen rupee
    monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
"""
_COMPOUND: Final = {"mph": "mi/h", "kmph": "km/h", "kmh": "km/h", "kph": "km/h"}
_WORDS_OF_SCALE: Final = {
    "hundred": 2,
    "thousand": 3,
    "lakh": 5,
    "million": 6,
    "crore": 7,
    "billion": 9,
    "trillion": 12,
}
_SCALES: Final = _WORDS_OF_SCALE | {f"{word}s": power for word, power in _WORDS_OF_SCALE.items()} | {"k": 3, "bn": 9}
# Next to a currency these letters are no units.
_SCALES_OF_MONEY: Final = _SCALES | {"kelvin": 3, "m": 6, "b": 9}
_VALUE_WORDS: Final = """
    or and not between about either neither nor maybe perhaps possibly probably likely think guess believe unsure
    approximately approx roughly around nearly almost any other another anything something least most than minus plus
    times over under if unless except but half quarter third double twice triple dozen score ago from later earlier
    before after negative zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
    sixty seventy eighty ninety wrong false incorrect else instead never no to through cannot isn doesn ish uncertain
    unknown undefined none nan estimate infinity factorial dozens halves thirds fourths fifths sixths sevenths
    eighths ninths tenths hundredths thousandths
"""
_CHANGING: Final = frozenset(re.findall("[a-z]+", _VALUE_WORDS))

_TEXT: Final = r"\\(?:text|mbox|mathrm|textbf|textrm|textit|textnormal)\s*\{(?P<text>(?:[^{}^]++|\^\{-?\d+\}|\^)*+)\}"
_LONG: Final = sorted(
    (n for n in _BARE_NAMES | _COMPOUND | _SCALES if len(n) > 1 and n not in ("am", "pm", "ms", "as", "bn")), key=len
)
_BARE: Final = (
    r"(?<![A-Za-z\\_^{])(?P<bare>(?:square |sq\.? |cubic )?"
    rf"(?:{'|'.join(reversed(_LONG))}|(?<=\d )m(?=/s(?![A-Za-z])))(?![A-Za-z(_]))"
)
_POWER: Final = r"(?:\s*\^\s*(?:\{\s*(?P<braced>-?\d+)\s*\}|(?P<power>\d)))?"
_TOKEN: Final = re.compile(
    rf"(?:{_TEXT}|{_BARE}|(?P<rate>(?<=/)\s*(?:h|s|m|min)(?![A-Za-z]))){_POWER}|(?P<sign>[{CURRENCY}{DEGREE}\u00a2\u00a3\u00a5\u20ac\u20b9])"
    r"|\\pmod\{(?P<modulus>[^{}]*+)\}|(?P<marks>(?<=[\d.}])\s*'+)|(?P<open>\\?[(\[{])|(?P<close>\\?[)\]}])",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(r"\s*(?:/|\\cdot\b|\\times\b|\*|~|\.)?\s*")
_CURRENCY_SIGNS: Final = {
    CURRENCY: "dollar", "\u20ac": "euro", "\u00a3": "pound sterling", "\u00a5": "yen", "\u20b9": "rupee"
}  # fmt: skip
_SIGNS: Final = _CURRENCY_SIGNS | {DEGREE: "degree", "\u00a2": "cent"}
_CURRENCIES: Final = frozenset(_CURRENCY_SIGNS.values())
# Without `\\text` a word of four letters or more is no product of symbols, unless it is a function or a Greek letter.
_BARE_WORDS: Final = re.compile(
    rf"([-+]?\s*+{CURRENCY}?\s*+(?:\d[\d.,/]*+|\\frac\s*\{{\d++\}}\s*\{{\d++\}}))\s++"
    r"(?!(?:sqrt|frac|percent|infinity|(?:sin|cos|tan|cot|csc|log|exp)[a-z]?|alpha|beta|gamma|delta|theta|lambda|sigma|"
    r"omega)(?![A-Za-z]))((?:[A-Za-z]{4,}|per)(?:[ /][A-Za-z]++)*+)"
)
_KELVIN: Final = re.compile(r"(?<![A-Za-z])K(?![A-Za-z])")
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
    if text.isdigit():
        return Quantity((text,), ((),))
    words = _BARE_WORDS.fullmatch(text)
    if words:
        text = f"{words[1]}\\text{{ {words[2]}}}"
    elif "\\" not in text and not _TOKEN.search(text) and not _BARE_WORD.search(text):
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
    if strictly:
        return sorted(gold) == sorted(answer)
    if opposed(*([name for name, _ in unit] for unit in (gold, answer))):
        return False
    # A direction may be left out by itself.
    gold, answer = (tuple(part for part in unit if part[0] not in _DIRECTIONS) for unit in (gold, answer))
    if not gold or not answer or gold == answer:
        return True
    if all(name in _KNOWN or name.startswith("mod ") for name, _ in gold + answer):
        return sorted(gold) == sorted(answer)
    return [name for name, _ in gold] != [name for name, _ in answer]


def opposed(gold: Iterable[str], answer: Iterable[str]) -> bool:
    """Whether a word excludes one of the other text (`north`, `south`)."""
    left, right = ({place for word in words for place in _PLACES.get(word, ())} for words in (gold, answer))
    lines = {line for line, _ in left} & {line for line, _ in right}
    return any({place for place in left if place[0] == line}.isdisjoint(right) for line in lines)


_KNOWN: Final = frozenset(_NAMES.values()) | _CURRENCIES
# By word of `_OPPOSITES`, its lines and its places there.
_PLACES: Final[dict[str, list[tuple[int, int]]]] = {}
for _line, _words in enumerate(_OPPOSITES.strip().splitlines()):
    for _place, _same in enumerate(_words.split()):
        for _word in _same.split("="):
            _PLACES.setdefault(_word, []).append((_line, _place))
_DIRECTIONS: Final = frozenset(_PLACES) - _KNOWN
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
                # `12/\\text{hour}`: the stroke belongs to the unit.
                value = between.strip().removesuffix("/")
                values[-1] = value.rstrip()
                inverse = -1 if len(value) < len(between.strip()) else 1
                units.append(tuple((name, inverse * power) for name, power in _unit(match)))
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
    written = _KELVIN.sub("kelvin", match["text"] or match["bare"] or match["rate"] or "")
    shown = written.lower().replace(".", "").replace("~", " ")
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
    scales = _SCALES if _CURRENCIES.isdisjoint(name for name, _ in unit) else _SCALES_OF_MONEY
    power = sum(scales[name] for name, exponent in unit if name in scales and exponent == 1)
    if not power:
        return value, unit
    rest = tuple(part for part in unit if part[0] not in scales)
    return (f"{value}\\times10^{{{power}}}" if _PLAIN.fullmatch(value) else f"({value})\\cdot10^{{{power}}}"), rest


def _value_words(text: str) -> str | None:
    """The first word in a text that changes a value, or None."""
    bare = _BARE_WORD.search(text)
    if bare:
        return bare[0]
    for match in _WORDS.finditer(text):
        words = re.findall("[a-z]+", match["text"].lower())
        # Behind a digit, `squared` changes the value; behind a unit, it belongs to the unit.
        powers = ("squared", "cubed") if text[: match.start()].rstrip()[-1:].isdigit() else ()
        changing = next((word for word in words if word in _CHANGING or (word == words[0] and word in powers)), None)
        if changing:
            return changing
    return None
