r"""Named rules on the text around a value; the first rule that objects makes an answer wrong.

A reader of expressions drops words, units, marks and names. Each rule reads a member of the gold and a member of the
answer in the same way, and objects where they differ in such a part. A rule that cannot be decided objects too. Equal
texts are right before any rule.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from dphrl.scoring.math.members import Member
from dphrl.scoring.math.relations import names_agree
from dphrl.scoring.math.units import DOUBTS, agree

_HIDDEN: Final = re.compile(r"\\(?:[hv]?phantom|[bx]?cancel|sout|boxed|fbox|label|tag|href|footnote)(?![A-Za-z])")
_MARK: Final = re.compile(
    r"(?<=[A-Za-z})\]'])'|\^\s*(?:\{\s*)?(?:T|\\top|\\text\{T\}|\\dagger|\*)\s*(?=\}|$|[^A-Za-z])|"
    r"\\Pi(?![A-Za-z])|\\(?:iff|implies)(?![A-Za-z])|\\(?:long)?(?:left|right|leftright|Left|Right|Leftright|up|down)arrow(?![A-Za-z])"
)
_OPERATOR: Final = re.compile(
    r"\\(?:[io]*int|sum|prod|lim|det|gcd|lcm|max|min)(?![A-Za-z])|\\begin\s*\{vmatrix\}|"
    r"\\frac\s*\{\s*d\s*(?:\^\s*\{?\d\}?\s*)?\}\s*\{\s*d"
)
_LETTER_OF_CHOICE: Final = re.compile(r"[({]*([A-J])[)},.]*")
_DESCRIBED_CHOICE: Final = re.compile(
    r"(?:\\text[a-z]*\s*\{)?\s*\(?([A-J])[):.]+[\s}]*(?:\\text\s*\{\s*)?(?=.*[A-Za-z]{3})[A-Za-z].*"
)
_CHOICE: Final = re.compile(r"(?<![A-Za-z])[A-J][):.]")
_WORD: Final = re.compile("[a-z]+")
_INDEX: Final = re.compile(r"[\d{}\s]")
_ADJACENT: Final = re.compile(
    r"(?<![\w.}\\{^])(?:\d++(?:\.\d*+)?(?:\s+|\s*\{\s*|\s*\((?=\s*\d+\s*\))\s*)|\(\s*\d++\s*\)\s*\(?\s*)\.?\d"
)
_MIXED: Final = re.compile(r"\d+\s+\d+\s*/\s*\d+")


def chooses(letter: Member, answer: Member) -> bool:
    r"""`\textbf{(B) }7` and `(B) a text` for B."""
    choice = _LETTER_OF_CHOICE.fullmatch(letter.whole)
    if choice is None:
        return False
    described = _DESCRIBED_CHOICE.fullmatch(answer.text)
    if described and len(_CHOICE.findall(answer.text)) == 1 and not _doubtful(answer.text):
        return choice[1] == described[1]
    return answer.sides.name == f"\\text{{choice{choice[1]}}}"


def _doubtful(name: str) -> bool:
    return not DOUBTS.isdisjoint(_WORD.findall(name.lower()))


def _hidden(gold: Member, answer: Member) -> bool:
    r"""`\phantom{0}` shows nothing, `\boxed{5}6` is two answers."""
    return any("\\" in member.text and _HIDDEN.search(member.text) for member in (gold, answer))


def _words(gold: Member, answer: Member) -> bool:
    r"""`5\text{ or so}`, `5\text{ years ago}`: a word changes the value, or says that it may be another."""
    return any(member.refused or _doubtful(member.sides.name) for member in (gold, answer))


def _restated(gold: Member, answer: Member) -> bool:
    r"""`\sum_{k=1}^{9} k` for 45 repeats the question; a gold may be such an expression."""
    return "\\" in answer.text and bool(_OPERATOR.search(answer.sides.values[-1])) and not _OPERATOR.search(gold.text)


def _tautology(gold: Member, answer: Member) -> bool:
    """`x=x` states nothing, also for `y=x`."""
    sides = answer.sides
    return sides.is_equation and (sides.name or sides.values[0]) == sides.values[-1]


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
    """`5 6`, `5{6}`, `5 (6)` and `(5)(6)` are no numbers; a reader of mixed numbers adds the two."""
    texts = (member.text for member in (gold, answer) if not member.text.isalnum())
    return any(_ADJACENT.search(_MIXED.sub("", text)) for text in texts)


def _units(gold: Member, answer: Member) -> bool:
    r"""`5\text{ cents}` for `\$5`, `20 cm^7` for `20 cm^2`, `12_5` for `12_6`; a text on one side only is left out."""
    return not agree(*(member.quantities[-1].unit or member.percent * "percent" for member in (gold, answer)))


RULES: Final[dict[str, Callable[[Member, Member], bool]]] = {
    "hidden": _hidden,
    "words": _words,
    "restated": _restated,
    "tautology": _tautology,
    "names": _names,
    "marks": _marks,
    "adjacent": _adjacent,
    "units": _units,
}
"""By name, whether the rule objects to an answer for a gold. `brackets`, `count`, `relation` and `solutions` are judged
with the values."""


def objection(gold: Member, answer: Member) -> str | None:
    """The name of the first rule that objects, or None."""
    return next((name for name, objects in RULES.items() if objects(gold, answer)), None)
