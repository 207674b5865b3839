r"""Mathematical answers as text: the final answer of a response, and normal forms that make equal answers equal."""

import re
from fractions import Fraction
from typing import Final

from dphrl.data.answer_text import last_boxed
from dphrl.scoring.math.forms import DEGREE, PLAIN_NUMBER, usual
from dphrl.scoring.math.units import BASED, CURRENCY

MAX_RESPONSE: Final = 4_000_000
MAX_CHARACTERS: Final = 4000
LARGEST_EXPONENT: Final = 400
_MOST_BOXES: Final = 16

_INVISIBLE: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
# The first character in any case is what `re` finds fast.
_OPENING: Final = r"[<\[](?i:(?:answer|solution)>|answer\]|\|begin_of_box\|>)"
# A tag may lack its end: generation often stops at it.
_TAGGED: Final = re.compile(
    rf"{_OPENING}(?:\s*+{_OPENING})*+(.*?)(?:(?i:</(?:answer|solution)>|\[/answer\]|<\|end_of_box\|>)|\Z)", re.DOTALL
)
# Words behind `####` are a heading, unless the text ends with them; so are numbered words.
_MARKED: Final = re.compile(
    r"^[ \t]*(?:####|A:)[ \t]*+(?:(?:The )?(?:Final )?Answer(?: is)?:?[ \t]++)?"
    r"((?!\**[^\W\d_]{2}|\**\d++[.):][ \t]++(?:\*|[^\W\d_]))\S[^\n]*$|\S[^\n]*+(?=\s*+\Z))",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL: Final = re.compile(r"final answer.{0,100}?\sis\b", re.IGNORECASE | re.DOTALL)
# A number with a full stop or bracket at the start of a line is an item of a list.
_STATED: Final = re.compile(
    r"(?:\b(?:answer|option|choice)(?:\s++is\b|\**\s*+[:\uff1a])|答案(?:是|为|為)?)[\s:\uff1a*]*+(?:(?:option|choice)\s++)?"
    r"(?!(?:(?<=\n)|(?<=\n\*\*))\d++[.)]\**[ \t])(?=[-+\u2212\u2013≈~$€£¥√π\\(\[{|\"'“.\d]|[A-Z]\b|sqrt)",
    re.IGNORECASE,
)
# An expression that is the whole statement, in quotes or not, perhaps with a word behind it; a formula.
_STATEMENT: Final = re.compile(
    r"[\"'“≈~*]*+(?P<value>\$\$?[^$\n]++\$\$?|\$?(?:\\[A-Za-z]++|\\.|\.(?=\d)|[^A-Za-z\\.!。$\n]"
    r"|(?<![A-Za-z])(?:[A-Za-z]|sqrt|pi|and|or)(?![A-Za-z])){1,200}?)"
    r"(?:(?<=[\d)}π%])[ ]?(?P<unit>[A-Za-z]{2,}+(?:/[A-Za-z]++)?(?:\^\d)?))?"
    r"[\"'”*]*[.!。]?[\"'”*]*(?=\s*\Z|[ \t]*\n|(?<=[.!。*])\s)"
)
# Words are "and", "or" and names of parts (`y_2 =`, "for part (b)"): others may correct what is before them.
_SEPARATORS: Final = re.compile(
    r"(?:[\s$,;&}]|\\[,;!()\[\]]|\\q?quad(?![a-z])|\\text\{|\b(?:and|or)\b|(?:for )?part \([a-z]\)"
    r"|[A-Za-z](?:_\{?\w\}?)?\s*=)*+",
    re.IGNORECASE,
)
# Before a number math-verify expects a blank.
_BEFORE_NUMBER: Final = re.compile(r"(?<!\d)([>:\"'≈|\]\u3000-\u9fff\uff1a])(?=[-+]?\d)")

# Money in a sentence: `$5`, `$70,000 on the house`, `$20/hour`. In a formula an operator or a single letter follows.
_AMOUNT: Final = re.compile(
    r"\$(\d[\d,]*+(?:\.\d++)?(?:[.,;:!?)]*$|[.,;:!?)]*\s+\(?[A-Za-z]{2,}|/[A-Za-z]{2,}))", re.ASCII
)

_DELIMITER: Final = re.compile(r"\$|(?<!\\)\\[()\[\]](?![a-z])")
_NEXT_FORMULA: Final = re.compile(r"\$\s*\n\s*\$")
_GROUPED_IN_BRACES: Final = re.compile(r"(?<!\\)\{(\d{1,3}(?:,\d{3})+)\}")
_LOST_ROW_BREAK: Final = re.compile(r"(?<!\\)\\(?=[-+.\d])")
_BACKSLASHES: Final = re.compile(r"\\{2,}")
_GAP: Final = re.compile(r"\s+")
# A blank between digits stays: "1 2/3" is not 12/3.
_LOOSE_BLANK: Final = re.compile(r"(?<!\d) | (?!\d)")
_WRAPPED: Final = re.compile(r"\\(?:text|operatorname)\{([^{}]*)\}")
_TIME: Final = re.compile(r"(\d{1,2})(:\d\d)?([ap])\.?m\.?")
# The exponent of a unit, `\mathrm{m/s^2}`, is no number.
_WORDS_WITH_DIGITS: Final = re.compile(r"\\text\{((?:[^{}\d^]++|(?<=[mstgdnhK])\^-?\d?)*+\d[^{}]*+)\}")
_UPRIGHT: Final = re.compile(r"\\(?:text|mathrm)\{([iexyz])\}")
_NO_VALUE: Final = str.maketrans("", "", DEGREE + CURRENCY)

_DECIMAL: Final = r"(?:\d++(?:\.\d*+)?|\.\d++)"
# Words, units and a name around it; in brackets and next to other numbers a comma may be one of a list.
_ONLY_THOUSANDS: Final = re.compile(r"[^\d,()\[\]{}]*\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:[^\d,]|(?<=\^)\d|(?<=\^\{)\d)*")
_NUMBER: Final = re.compile(rf"([-+]?{_DECIMAL})(?:(?:[eE]|\\(?:times|cdot)10\^)(\{{[-+]?\d+\}}|[-+]?\d+))?")
_FRACTION: Final = re.compile(
    r"([-+]?)(?:(\d+)(?:\s|(?=\\frac)))?(?:\\frac\{([-+]?\d+)\}\{([-+]?\d+)\}|\\frac(\d)(\d)|(\d+)\.?/(\d+)\.?)"
)
_PERCENT: Final = re.compile(r"\\?%$")


def final_answer(response: str, mode: str) -> tuple[str, bool] | None:
    r"""The answer of a response, and whether it is prose that contains the answer; None if there is none.

    `mode` is `boxed` (the last \boxed{}) or `final`, within the last tag such as `<answer>` if there is one: the last
    box, with those beside it, unless "final answer is" comes after it; else the text after the last `####` or `A:` at
    the start of a line; else the value of the last "answer is", "Answer:" or "答案"; else the content of the tag, if
    it is a line; else the last 4000 characters, as prose.
    """
    if mode == "boxed":
        boxed = last_boxed(response)
        return (boxed, False) if boxed else None
    tagged = next((content for content in reversed(_TAGGED.findall(response)) if content.strip()), "").strip()
    prose = tagged or response.strip()
    end = prose[-MAX_CHARACTERS:]
    boxes = None if _FINAL.search(end.rpartition("\\boxed")[2]) else _boxes(prose)
    answer = boxes or _marked(prose) or _stated(end) or ("" if "\n" in tagged else tagged)
    if answer:
        return answer, False
    if len(prose) > MAX_CHARACTERS:
        # A line that is cut may have lost the `$` before a formula.
        prose = prose[-MAX_CHARACTERS:]
        prose = prose.partition("\n")[2].strip() or prose
    prose = _UPRIGHT.sub(r"\1", prose).replace("\\$", "").replace("\u2212", "-")
    prose = _BEFORE_NUMBER.sub(r"\1 ", prose)
    return ("\n".join(map(_close, prose.split("\n"))), True) if prose else None


def gold_answer(text: str) -> str:
    """The answer in a gold text, which may be a whole solution that ends with its answer."""
    return _boxes(text) or _marked(text) or text


def _marked(text: str) -> str | None:
    marked = _MARKED.findall(text)
    return marked[-1].strip() if marked else None


def _stated(text: str) -> str | None:
    """The value of the last statement of an answer; None if it is no value, or has more beside it."""
    *_, last = [None, *_STATED.finditer(text)]
    value = _STATEMENT.match(text, last.end()) if last else None
    if value is None:
        return None
    return f"{value['value']}\\text{{ {value['unit']}}}" if value["unit"] else value["value"]


def _boxes(response: str) -> str | None:
    r"""The last \boxed{}, with those before it that only separators part from it, joined by commas."""
    contents: list[str] = []
    for piece in reversed(response.rsplit("\\boxed", _MOST_BOXES)[1:]):
        content = last_boxed("\\boxed" + piece)
        if not content:
            if contents:
                break
            continue
        after = piece.split("{", 1)[1].lstrip()[len(content) :].lstrip()[1:]
        if contents and not _SEPARATORS.fullmatch(after):
            break
        if content not in contents[-1:]:
            contents.append(content)
    return ",".join(reversed(contents)) or None


def _close(line: str) -> str:
    """A line whose `$` are in pairs, for math-verify; an amount of money loses its sign, else a formula is closed."""
    if line.count("$") % 2 == 0:
        return line if "$" in line else BASED.sub(lambda match: f"${match[0]}$", line)
    without, amounts = _AMOUNT.subn(r"\1", line, count=1)
    if amounts:
        return without
    formula = line.rstrip(". ")
    return line.replace("$", "", 1) if formula.endswith("$") else formula + "$"


def clean(text: str) -> str:
    """The answer as LaTeX for math-verify: no invisible characters, no delimiters, numbers in a form that it parses."""
    if PLAIN_NUMBER.fullmatch(text):
        return text
    text = _INVISIBLE.sub("", text).replace("\\$", CURRENCY)
    # Formulas below each other are a list.
    text = usual(_DELIMITER.sub("", _NEXT_FORMULA.sub(", ", text)))
    text = _GROUPED_IN_BRACES.sub(lambda group: "{" + group[1].replace(",", "") + "}", text)
    if "matrix}" in text:
        # Some copies of MATH lost one backslash of each row break.
        text = _LOST_ROW_BREAK.sub(r"\\\\", text)
    # math-verify drops words after a number, and with them the second half of 2\text{ or 3}.
    text = _UPRIGHT.sub(r"\1", _WORDS_WITH_DIGITS.sub(r" \1 ", text))
    text = _GAP.sub(" ", text).strip().rstrip(". ")
    return text.replace(",", "") if _ONLY_THOUSANDS.fullmatch(_WRAPPED.sub("", text)) else text


def normal_form(text: str) -> str:
    """A clean answer without all that does not change its value; equal forms are equal answers."""
    text = text.translate(_NO_VALUE).lstrip().removeprefix("\\approx")
    # Row breaks too: some copies of MATH have one backslash in place of two.
    text = _BACKSLASHES.sub(r"\\", text).strip()
    wrapped = _WRAPPED.fullmatch(text)
    text = wrapped[1] if wrapped else text
    text = _LOOSE_BLANK.sub("", _GAP.sub(" ", text.strip())).rstrip(".")
    time = _TIME.fullmatch(_WRAPPED.sub(r"\1", text).lower())
    if time:
        return f"{time[1]}{time[2] or ':00'}{time[3]}m"
    is_word = len(text) > 2 and text.isalpha() and (wrapped or text.istitle() or text.isupper())
    return text.lower() if is_word else text


def number(form: str) -> Fraction | None:
    """The value of a normal form that is a decimal, a fraction or a mixed number, exactly; None for anything else.

    A percent sign is ignored.
    """
    form = _PERCENT.sub("", form).rstrip(" \\")
    plain = _NUMBER.fullmatch(form)
    if plain is not None:
        exponent = int((plain[2] or "0").strip("{}"))
        return None if abs(exponent) > LARGEST_EXPONENT else Fraction(plain[1]) * Fraction(10) ** exponent
    fraction = _FRACTION.fullmatch(form)
    if fraction is None:
        return None
    sign, whole = fraction[1], int(fraction[2] or 0)
    top, bottom = (int(group) for group in fraction.groups()[2:] if group is not None)
    if bottom == 0 or (whole and (top < 0 or bottom < 0)):
        return None
    value = whole + Fraction(top, bottom)
    return -value if sign == "-" else value
