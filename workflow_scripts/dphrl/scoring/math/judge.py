r"""From the texts of a gold and an answer to a verdict: equal text, rules, numbers, values, in this order.

Only worker processes import this module.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Final

from dphrl.scoring.math import algebra
from dphrl.scoring.math.members import AND, Member, is_near, is_set, members, one_to_one
from dphrl.scoring.math.objections import chooses, objection
from dphrl.scoring.math.relations import symbols

_OPERATION: Final = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])")

# Words, names of sets and the exponent of `1E5` are no letters of an expression.
_TOKEN: Final = re.compile(
    r"\\(?:text|operatorname)\s*\{[^{}]{2,}\}|\\mathbb\s*\{?[A-Z]\}?|[A-Z]?[a-z]{3,}|"
    r"(?<=\d)E(?=[-+\d])|(?P<greek>\\(?:[Gg]amma|[Dd]elta|[Tt]heta|[Ll]ambda|[Xx]i|[Pp]i|[Ss]igma|[Pp]hi|[Pp]si|[Oo]mega))"
    r"(?![A-Za-z])|\\[A-Za-z]+|(?P<latin>[A-Za-z])"
)
# Neither constants nor functions of the library.
_UNUSED: Final = "qhjkuvwyzpoabcglmnrstx"


class Judge:
    """Compares one answer with one gold, both clean; `rule` is the first rule that objected, or None."""

    def __init__(self, gold: str, answer: str, tolerance: float | None) -> None:
        self._texts = gold, answer
        self._golds, self._answers = members(gold), members(answer)
        self._renamed = _capitals_renamed(self._texts)
        self._tolerance = tolerance
        self.rule: str | None = None

    def equal(self) -> bool:
        """Whether the answer is right."""
        golds, answers = self._golds, self._answers
        if len(golds) == len(answers):
            return one_to_one(golds, answers, self._pair)
        # Words and marks make a member wrong beside any other.
        rule = next(filter(None, map(objection, [*golds, *answers], [*golds, *answers])), None)
        if rule:
            return self._refused(rule)
        if len(answers) == 1 and answers[0].sides.kind == "unsolved":
            return self._solved(golds, answers[0])
        return self._tuple_and_list() if any(self._tuples()) else self._sets()

    def has_value(self) -> bool:
        """Whether an answer in other words can be equal to the gold."""
        others = [gold for gold in self._golds if gold.value is None]
        texts = [quantity.value for gold in others for quantity, _ in gold.accepted]
        texts += [gold.text for gold in others if not gold.accepted]
        read = [value for text in texts for value in self._parse(text)[:1]]
        return not any(gold.refused for gold in others) and not any(isinstance(value, str) for value in read)

    def _parse(self, text: str) -> algebra.Values:
        return algebra.parse(self._renamed(text))

    def _refused(self, rule: str) -> bool:
        self.rule = self.rule or rule
        return False

    def _pair(self, gold: Member, answer: Member) -> bool:
        """Whether two members are equal."""
        if gold.whole == answer.whole or (gold.sides.name, gold.quantities) == (answer.sides.name, answer.quantities):
            return True
        if chooses(gold, answer) or chooses(answer, gold):
            return True
        rule = objection(gold, answer)
        if rule:
            return self._refused(rule)
        if gold.is_single and answer.is_single:
            if gold.form == answer.form:
                return True
            # Three letters or more are a word (`east`, `HTH`), no product.
            if len(gold.form) > 2 and gold.form.isalpha() and answer.form.isalpha():
                return self._refused("words")
            if gold.value is not None and answer.value is not None:
                return self._equal_numbers(gold, answer)
        if answer.sides.kind == "unsolved" and gold.accepted:
            return self._solved([gold], answer)
        if not answer.is_single and not self._agree(answer):
            return self._refused("relation")
        if gold.entries and answer.entries:
            # Tuples, points and intervals: the library takes `[5,3]` and `(7,2)` for empty intervals.
            if gold.ends != answer.ends or len(gold.entries) != len(answer.entries):
                return self._refused("brackets")
            return all(map(self._pair, gold.entries, answer.entries))
        for (wanted, error), shown in product(gold.accepted, answer.shown):
            allowed = self._tolerance if error is None else float(error)
            if algebra.same(self._parse(wanted.value), self._parse(shown.value), allowed):
                return True
        equations = gold.sides.is_equation and answer.sides.is_equation
        whole = equations or not {gold.sides.kind, answer.sides.kind}.isdisjoint(("inequality", "other"))
        return whole and self._same_sets([gold], [answer], (gold.text, answer.text))

    def _equal_numbers(self, gold: Member, answer: Member) -> bool:
        r"""Numbers, also with a percent sign: `20\%` is 20 and 0.2."""
        error = gold.accepted[-1][1]
        tolerance = None if self._tolerance is None else Fraction(repr(self._tolerance))
        wanted, number = gold.value or Fraction(), answer.value or Fraction()
        pairs = [(wanted, number)]
        if gold.percent != answer.percent:
            # A tolerance is in the gold's unit.
            pairs.append((wanted, number / 100 if answer.percent else number * 100))
        digits = gold.form + answer.form
        return any(is_near(*pair, tolerance if error is None else error, digits) for pair in pairs)

    def _agree(self, answer: Member) -> bool:
        r"""Whether the sides of `a = b \approx c` that are numbers are equal; c at its digits."""
        sides = [(self._parse(quantity.value), error) for quantity, error in answer.all_sides]
        for (left, _), (right, error) in pairwise(sides):
            decides = answer.sides.kind == "computed" or all(map(algebra.is_number, (left, right)))
            if decides and not algebra.same(left, right, None if error is None else float(error)):
                return False
        return True

    def _solved(self, golds: list[Member], equation: Member) -> bool:
        """Whether the golds are the solutions of an equation."""
        wanted = [self._parse(gold.accepted[0][0].value) for gold in golds if gold.accepted]
        roots = algebra.solutions(self._renamed(equation.text))
        every = len(wanted) == len(golds) and one_to_one(
            wanted, roots, lambda gold, root: algebra.same(gold, root, self._tolerance)
        )
        return every or self._refused("solutions")

    def _tuples(self) -> list[Member]:
        both = (self._golds, self._answers)
        return [listed[0] for listed in both if len(listed) == 1 and listed[0].entries]

    def _tuple_and_list(self) -> bool:
        """A tuple and a list with commas, in order; `x=1,x=2` is no point, `(1,2]` an interval, a set has no order."""
        (point,) = self._tuples()
        listed, text = (self._answers, self._texts[1]) if point in self._golds else (self._golds, self._texts[0])
        names = [member.sides.name for member in listed]
        # `x=1,x=2` and `y=1,x=2` say nothing about an order.
        unordered = any(names) and names != sorted(set(names))
        interval = len(point.entries) == 2 and point.ends != ("(", ")")
        if unordered or interval or ";" in text or is_set(text) or len(point.entries) != len(listed):
            return self._refused("brackets")
        if listed is self._answers:
            return all(map(self._pair, point.entries, listed))
        return all(map(self._pair, listed, point.entries))

    def _sets(self) -> bool:
        r"""Lists of unequal length: `x<1 \text{ or } x>2` is a set, `1,2` is not the interval `1<x<2`."""
        sets = [text.count("\\{") for text in self._texts]
        if not any(map(_OPERATION.search, self._texts)):
            if any(map(is_set, self._texts)) and sets[0] != sets[1]:
                return self._refused("brackets")
            # The library reads `1,2` as an interval.
            if _lists_values(self._golds) or _lists_values(self._answers):
                return self._refused("count")
        return self._same_sets(self._golds, self._answers, self._texts) or self._refused("count")

    def _same_sets(self, golds: list[Member], answers: list[Member], texts: tuple[str, str]) -> bool:
        """Whether two texts are equal as a whole; inequalities are compared by the sets on which they hold."""
        sets = [self._set(listed) for listed in (golds, answers)]
        if all(sets) and _symbols(golds) != _symbols(answers):
            return False
        values = [values or self._parse(text) for values, text in zip(sets, texts, strict=True)]
        return algebra.same(values[0], values[1], self._tolerance)

    def _set(self, listed: list[Member]) -> algebra.Values:
        """The set where one of several inequalities holds, or nothing."""
        if len(_symbols(listed)) != 1 or any(member.sides.kind != "inequality" for member in listed):
            return []
        return algebra.union([[self._renamed(part) for part in member.text.split(AND)] for member in listed])


def _lists_values(listed: list[Member]) -> bool:
    """Whether a text lists values, not intervals or inequalities."""
    inequalities = all(member.sides.kind == "inequality" for member in listed)
    return len(listed) > 1 and not inequalities and not any(member.entries for member in listed)


def _symbols(listed: list[Member]) -> frozenset[str]:
    return frozenset[str]().union(*(symbols(member.text) for member in listed))


def _capitals_renamed(texts: Sequence[str]) -> Callable[[str], str]:
    """Renames each capital that meets its small letter in the texts to a letter that none of them has; `i` is `I`."""
    letters = {token[0] for text in texts for token in _TOKEN.finditer(text) if token.lastgroup}
    both = sorted(letter for letter in letters if letter.lower() in letters - {letter} and letter != "I")
    unused = [letter for letter in _UNUSED if letters.isdisjoint((letter, letter.upper()))]
    names = {capital: f" {name} " if len(capital) > 1 else name for capital, name in zip(both, unused, strict=False)}
    return lambda text: _TOKEN.sub(lambda token: names.get(token[0], token[0]), text) if names else text
