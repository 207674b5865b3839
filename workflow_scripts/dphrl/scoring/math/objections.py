r"""Named rules on the text around a value; the first rule that objects makes an answer wrong.

A reader of expressions drops words, units, marks and names. Each rule reads a member of the gold and a member of the
answer in the same way, and objects where they differ in such a part. A rule that cannot be decided objects too. Equal
texts are right before any rule.
"""

import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from dphrl.scoring.math.answers import may_be_equal
from dphrl.scoring.math.members import Member
from dphrl.scoring.math.relations import names_agree
from dphrl.scoring.math.units import agree

_HIDDEN: Final = re.compile(r"\\(?:[hv]?phantom|[bx]?cancel|sout|boxed|fbox|label|tag|href|footnote)(?![A-Za-z])")
_MARK: Final = re.compile(
    r"(?<=[A-Za-z})\]'])'|\^\s*(?:\{\s*)?(?:T|\\top|\\(?:text|mathrm|mathsf)\{T\}|\\dagger|\*)\s*(?=\}|$|[^A-Za-z])|"
    r"\\Pi(?![A-Za-z])|\\(?:iff|implies)(?![A-Za-z])|\\(?:long)?(?:left|right|leftright|Left|Right|Leftright|up|down)arrow(?![A-Za-z])"
)
_OPERATOR: Final = re.compile(
    r"\\(?:[io]*int|sum|prod|lim|det|gcd|lcm|max|min)(?![A-Za-z])|\\begin\s*\{vmatrix\}|"
    r"\\frac\s*\{\s*d\s*(?:\^\s*\{?\d\}?\s*)?\}\s*\{\s*d"
)
# In a name; most other words there say which value it is.
_DOUBT: Final = re.compile(
    r"(?<![A-Za-z])(?:not|isn|never|wrong|false|incorrect|except|maybe|perhaps|possibly|probably|likely|guess|think|"
    r"unsure|approximately|roughly|nearly|almost|either|neither)(?![A-Za-z])",
    re.IGNORECASE,
)
_LETTER_OF_CHOICE: Final = re.compile(r"[({]*([A-J])[)},.]*")
_DESCRIBED_CHOICE: Final = re.compile(
    r"(?:\\text[a-z]*\s*\{)?\s*\(?([A-J])[):.]+[\s}]*(?:\\text\s*\{\s*)?(?=.*[A-Za-z]{3})[A-Za-z].*"
)
_CHOICE: Final = re.compile(r"(?<![A-Za-z])[A-J][):.]")
_INDEX: Final = re.compile(r"[\d{}\s]")
_ADJACENT: Final = re.compile(r"(?<![\w.}\\{^])\d++(?:\.\d*+)?(?:\s+|\s*\{\s*)\.?\d")
_MIXED: Final = re.compile(r"\d+\s+\d+\s*/\s*\d+")
_BRACE: Final = re.compile(r"(?:\\setminus\s*)?\\[{}]")


def compare(gold: Member, answer: Member, tolerance: Fraction | None = None) -> bool | str | None:
    """True or False where text or numbers decide, the name of the rule that objects, or None where it takes algebra."""
    if gold.decimal is not None and answer.decimal is not None:
        return is_near(gold.decimal, answer.decimal, tolerance, gold.text + answer.text)
    if gold.whole == answer.whole or (gold.sides.name, gold.quantities) == (answer.sides.name, answer.quantities):
        return True
    if _chooses(gold, answer) or _chooses(answer, gold):
        return True
    objection = next((name for name, objects in RULES.items() if objects(gold, answer)), None)
    if objection:
        return objection
    if not (gold.is_single and answer.is_single):
        return None
    if gold.form == answer.form:
        return True
    if gold.value is None or answer.value is None:
        return None
    if is_near(gold.value, answer.value, gold.error if gold.error is not None else tolerance, gold.form + answer.form):
        return True
    if gold.percent != answer.percent:
        whole, part = (gold.value, answer.value / 100) if answer.percent else (gold.value / 100, answer.value)
        return is_near(whole, part, tolerance, gold.form + answer.form) or None
    return None if gold.percent else False


def _chooses(letter: Member, answer: Member) -> bool:
    r"""`\textbf{(B) }7` and `(B) a text` for B."""
    choice = _LETTER_OF_CHOICE.fullmatch(letter.whole)
    if choice is None:
        return False
    described = _DESCRIBED_CHOICE.fullmatch(answer.text)
    if described and len(_CHOICE.findall(answer.text)) == 1 and not _DOUBT.search(answer.text):
        return choice[1] == described[1]
    return answer.sides.name == f"\\text{{choice {choice[1]}}}"


def is_near(gold: Fraction, answer: Fraction, error: Fraction | None, digits: str) -> bool:
    """Whether two numbers are equal: within an absolute error, if there is one, else exactly.

    Decimals are equal if they agree to 6 places, as for math-verify, and to 1 part in 10,000.
    """
    difference = abs(gold - answer)
    if difference == 0 or error is not None:
        return difference <= (error or 0)
    return "." in digits and round(gold, 6) == round(answer, 6) and difference <= abs(gold) / 10_000


def _hidden(gold: Member, answer: Member) -> bool:
    r"""`\phantom{0}` shows nothing, `\boxed{5}6` is two answers."""
    return any("\\" in member.text and _HIDDEN.search(member.text) for member in (gold, answer))


def _words(gold: Member, answer: Member) -> bool:
    r"""`5\text{ or so}`, `5\text{ years ago}`: a word changes the value, or says that it may be another."""
    return any(member.refused is not None or _DOUBT.search(member.sides.name) for member in (gold, answer))


def _restated(gold: Member, answer: Member) -> bool:
    r"""`\sum_{k=1}^{9} k` for 45 repeats the question; a gold may be such an expression."""
    return "\\" in answer.text and bool(_OPERATOR.search(answer.sides.values[-1])) and not _OPERATOR.search(gold.text)


def _tautology(gold: Member, answer: Member) -> bool:
    """`x=x` holds for every x; the libraries below may need minutes to see that it is not `y=x^2`."""
    sides = (member.sides for member in (gold, answer) if member.sides.kind in ("named", "asked", "unsolved"))
    return any(side.name == side.values[-1] if side.name else side.values[0] == side.values[-1] for side in sides)


def _equation(gold: Member, answer: Member) -> bool:
    """A number is no answer where the gold is an equation that does not name a value (`x+2y=z`, `x^2-7=0`)."""
    return gold.sides.kind in ("asked", "unsolved") and answer.sides.kind in ("value", "computed")


def _names(gold: Member, answer: Member) -> bool:
    """`f(2)=5` for `f(1)=5`, `y=5` for `x=5`; a name on one side only is not compared."""
    if gold.sides.kind != "named" or answer.sides.kind != "named":
        return False
    if names_agree(gold.sides.name, answer.sides.name):
        return False
    # `x=y/2` may be `y=2x`.
    functions = "(" in gold.sides.name and "(" in answer.sides.name
    other_index = _INDEX.sub("", gold.sides.name) == _INDEX.sub("", answer.sides.name)
    number = gold.is_number or answer.is_number
    return functions or other_index or number or ("'" in gold.sides.name + answer.sides.name)


def _marks(gold: Member, answer: Member) -> bool:
    r"""`f'(x)` for `f(x)`, `A^T` for `A`, `\leftarrow` for `\rightarrow`, `\Pi` for `\pi`: a reader drops the mark."""
    return _marks_of(gold) != _marks_of(answer)


def _marks_of(member: Member) -> Counter[str]:
    text = member.sides.values[-1] if member.sides.kind in ("named", "computed") else member.text
    return Counter(_MARK.findall(text)) if "'" in text or "^" in text or "\\" in text else Counter()


def _adjacent(gold: Member, answer: Member) -> bool:
    """`5 6` and `5{6}` are no numbers; a reader of mixed numbers adds the two."""
    texts = (member.text for member in (gold, answer) if not member.text.isalnum())
    return any(_ADJACENT.search(_MIXED.sub("", text)) for text in texts)


def _units(gold: Member, answer: Member) -> bool:
    r"""`5\text{ cents}` for `\$5`, `20 cm^7` for `20 cm^2`; text on one side only is not compared."""
    return not agree(gold.quantities[-1].unit, answer.quantities[-1].unit)


def _brackets(gold: Member, answer: Member) -> bool:
    r"""`(1,2)` for `\{1,2\}`, `\{\emptyset\}` for `\emptyset`: a tuple is ordered, a set in a set is another set."""
    if "{" not in gold.text + answer.text:
        return False
    return _braces(gold) != _braces(answer)


def _braces(member: Member) -> int:
    """How many sets there are, but for sets that are taken out of another."""
    return sum(brace == "\\{" for brace in _BRACE.findall(member.text))


def _bases(gold: Member, answer: Member) -> bool:
    """`12_5` for `12_6`; a base on one side only is not compared."""
    if gold.base and gold.base == answer.base and (gold.value is None or answer.value is None):
        # `1E5` is no power of ten.
        return gold.form != answer.form
    return "_" in gold.whole + answer.whole and not may_be_equal(gold.whole, answer.whole)


RULES: Final[dict[str, Callable[[Member, Member], bool]]] = {
    "hidden": _hidden,
    "words": _words,
    "restated": _restated,
    "tautology": _tautology,
    "equation": _equation,
    "names": _names,
    "marks": _marks,
    "adjacent": _adjacent,
    "units": _units,
    "brackets": _brackets,
    "bases": _bases,
}
"""By name, whether the rule objects to an answer for a gold. `count`, `relation` and `solutions` need values: a
worker decides them."""
