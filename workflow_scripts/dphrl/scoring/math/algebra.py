"""Values of expressions, read by math-verify and compared exactly before it is asked.

math-verify takes small differences for zero and lists for sets. Only worker processes import this module: sympy takes a
second to load.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, Final

import math_verify
from math_verify import grader
from sympy import (
    Abs,
    Add,
    Basic,
    Complement,
    Dummy,
    Eq,
    Expr,
    FiniteSet,
    Float,
    I,
    Intersection,
    Interval,
    MatrixBase,
    Pow,
    S,
    Set,
    Tuple,
    UnevaluatedExpr,
    Union,
    expand,
    expand_log,
    log,
    nan,
    simplify,
    solve,
    zoo,
)
from sympy.logic.boolalg import BooleanAtom

from dphrl.scoring.math.answers import LARGEST_EXPONENT
from dphrl.scoring.math.forms import DEGREE
from dphrl.scoring.math.members import one_to_one
from dphrl.scoring.math.units import CURRENCY

# Letters for a reader, functions or Euler's constant for the library; it knows omicron, which nobody writes.
_GAMMA: Final = re.compile(r"\\gamma(?![A-Za-z])|\\Gamma(?![A-Za-z]|\s*(?:\\left\s*)?\()")
_LETTER: Final = r"\\omicron"
_SIGNS: Final = str.maketrans("", "", DEGREE + CURRENCY)
_DEFAULT: Final = math_verify.LatexExtractionConfig()
_POWER_OF_TEN: Final = re.compile(r"(?<![\d.])(\d++(?:\.\d*+)?|\.\d++)[eE]([-+]?\d+)")
# Units and inner boxes are dropped by rules, never by the library.
_STRICT: Final = replace(_DEFAULT.normalization_config, units=False, boxed="none")
_FORMULA: Final = [replace(_DEFAULT, normalization_config=_STRICT)]
_PROSE: Final = [*_FORMULA, math_verify.ExprExtractionConfig()]
# Of a value; sympy computes with more where they cancel.
_DIGITS: Final = 8
_RELATIVE: Final = 10_000
# Half a unit of the last digit is no binary number.
_ROUNDING: Final = 1 + 1e-12

Values = Sequence[Any]
"""A value and its text, as math-verify reads them: only the text if it is no value, nothing if there is neither."""


@lru_cache(64)
def parse(text: str) -> Values:
    """The reading of a formula, its units kept."""
    formula = _POWER_OF_TEN.sub(r"\1\\times 10^{\2}", text.translate(_SIGNS))
    return [] if _is_huge(text) else _read(f"${formula}$", _FORMULA)


def parse_prose(text: str) -> Values:
    """The reading of the answer that math-verify finds in a text, the units of a formula kept."""
    return [] if _is_huge(text) else _read(text, _PROSE)


def _is_huge(text: str) -> bool:
    """Whether a power of ten is out of range: math-verify takes 1e999999999 for 1."""
    return any(abs(int(power[2])) > LARGEST_EXPONENT for power in _POWER_OF_TEN.finditer(text))


def _read(text: str, configuration: list[Any]) -> Values:
    values = math_verify.parse(_GAMMA.sub(_LETTER, text), configuration, parsing_timeout=None)
    return [_complex(value) for value in values]


def same(gold: Values, answer: Values, error: float | None = None) -> bool:
    """Whether two readings are equal, or numbers that differ by at most an (absolute) error."""
    if any(_or_nothing(lambda: [_equal(*pair)]) == [True] for pair in product(gold, answer)):  # noqa: B023
        return True
    if error is None or not gold or not answer:
        return False
    near = _or_nothing(lambda: [abs((gold[0] - answer[0]).evalf()) <= error * _ROUNDING])
    return bool(near) and near[0] == True  # noqa: E712  (sympy's, or a relation that is not decided)


def is_number(values: Values) -> bool:
    """Whether the first value is a number, without symbols."""
    return bool(values) and not isinstance(values[0], str) and not values[0].free_symbols


def solutions(equation: str) -> list[Values]:
    """The solutions of an equation in one symbol; none where sympy does not find all of them."""
    value = next(iter(parse(equation)), None)
    if not isinstance(value, Eq) or len(value.free_symbols) != 1:
        return []
    return [[root] for root in _or_nothing(lambda: list(solve(value, next(iter(value.free_symbols)))))]


def union(alternatives: list[list[str]]) -> Values:
    """The set where all inequalities of at least one alternative hold; nothing if sympy finds no set."""
    parsed = [[next(iter(parse(inequality)), None) for inequality in every] for every in alternatives]
    return _or_nothing(
        lambda: [Union(*(Intersection(*(grader.unwrap_fcs(rel).as_set() for rel in every)) for every in parsed))]
    )


def _or_nothing(computed: Callable[[], list[Any]]) -> list[Any]:
    try:
        return computed()
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # As in math-verify: answers are not equal where sympy fails.
        return []


def _complex(value: Any) -> Any:
    """The value with the letter i as the imaginary unit; unchanged where sympy cannot replace it."""
    if isinstance(value, str) or all(symbol.name != "i" for symbol in value.free_symbols):
        return value
    units = {symbol: I for symbol in value.free_symbols if symbol.name == "i"}
    substituted = next(iter(_or_nothing(lambda: [value.subs(units)])), value)
    # With real symbols `a i x = 4` is false for sympy.
    return value if isinstance(substituted, BooleanAtom) else substituted


def _equal(gold: Any, answer: Any) -> bool:
    """Whether two values are equal, part by part; a value with a pole or a false statement is equal to no other."""
    if isinstance(gold, str) or isinstance(answer, str):
        return bool(gold == answer)
    if not (_defined(gold) and _defined(answer)):
        return False
    both = gold, answer = [_evaluated(value) for value in (gold, answer)]
    if all(isinstance(value, Eq) for value in both):
        return _equal_equations(gold, answer)
    if S.EmptySet in both and any(isinstance(value, Eq) for value in both):
        # It would equal each equation that the library cannot solve.
        return False
    if any(isinstance(value, FiniteSet) for value in both) and all(isinstance(v, FiniteSet | Expr) for v in both):
        return one_to_one(_listed(gold), _listed(answer), _equal)
    if isinstance(gold, Tuple) != isinstance(answer, Tuple):
        return False
    if all(isinstance(value, MatrixBase) for value in both):
        return gold.shape == answer.shape and all(map(_equal, gold.flat(), answer.flat()))
    if all(isinstance(value, Interval) for value in both):
        ends = (gold.left_open, gold.right_open) == (answer.left_open, answer.right_open)
        return ends and _equal(gold.start, answer.start) and _equal(gold.end, answer.end)
    if all(isinstance(value, Expr) for value in both):
        return _equal_expressions(gold, answer)
    return _verified(gold, answer)


def _evaluated(value: Any) -> Any:
    """The members of sets that are joined, also of S in `x \\in S`, which is read as an equation; else the value."""
    if isinstance(value, Eq) and isinstance(value.rhs, Set):
        value = value.rhs
    return value.doit() if isinstance(value, Union | Complement | Intersection) else value


def _verified(gold: Any, answer: Any) -> bool:
    return bool(grader.verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True))


def _listed(value: Any) -> list[Any]:
    # The parser's sets remember the members as they were written.
    return list(getattr(value, "_unsorted_args", value.args)) if isinstance(value, FiniteSet) else [value]


def _defined(value: Any) -> bool:
    # All poles are complex infinity for sympy, all false statements are equal.
    return not isinstance(value, BooleanAtom) and not value.has(zoo, nan)


def _equal_equations(gold: Eq, answer: Eq) -> bool:
    """Whether the sides of two equations differ by a factor, or they have the same solutions, and at least one."""
    symbols = gold.free_symbols
    if not symbols or symbols != answer.free_symbols:
        return False
    factor = _or_nothing(lambda: [simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))])
    if factor and factor[0].is_number and _defined(factor[0]) and factor[0] != 0:
        return True
    roots = _solved(gold)
    return bool(roots) and one_to_one(roots, _solved(answer), _equal_solutions)


def _solved(equation: Eq) -> list[dict[Any, Any]]:
    return _or_nothing(lambda: list(solve(equation, equation.free_symbols, dict=True)))


def _equal_solutions(gold: dict[Any, Any], answer: dict[Any, Any]) -> bool:
    return gold.keys() == answer.keys() and all(_equal(gold[symbol], answer[symbol]) for symbol in gold)


def _equal_expressions(gold: Expr, answer: Expr) -> bool:
    """Exactly, where neither has decimals; other numbers to 1 part in 10,000."""
    if not all(map(_exact, (gold, answer))):
        return _near(_constant(gold), _constant(answer)) and _verified(gold, answer)
    if gold == answer or _vanishes(gold - answer):
        return True
    if not gold.free_symbols and not answer.free_symbols:
        return _near(gold, answer) and bool(grader.sympy_symbolic_eq(gold, answer))
    names = grader.is_expr_of_only_symbols(gold) and grader.is_expr_of_only_symbols(answer)
    if names and grader.sympy_compare_symbols(gold, answer):
        return True
    return bool(grader.sympy_symbolic_eq(gold, answer)) or _equal_for_positive(gold, answer)


def _equal_for_positive(gold: Expr, answer: Expr) -> bool:
    """Whether two expressions with roots, logarithms or powers of symbols are equal where all symbols are positive."""
    if gold.free_symbols != answer.free_symbols or not any(map(_needs_a_sign, (gold, answer))):
        return False
    positive = {symbol: Dummy(symbol.name, positive=True) for symbol in gold.free_symbols}
    return _or_nothing(lambda: [simplify(expand_log((gold - answer).subs(positive)))]) == [0]


def _needs_a_sign(value: Expr) -> bool:
    return (
        not value.has(Abs) and any(not power.exp.is_Integer and power.base.free_symbols for power in value.atoms(Pow))
    ) or any(function.free_symbols for function in value.atoms(log))


def _exact(value: Basic) -> bool:
    """Whether a value has neither decimals nor percent signs."""
    return not value.has(Float, UnevaluatedExpr)


def _vanishes(difference: Expr) -> bool:
    """Whether an exact expression is zero, each of its coefficients by itself."""
    terms: dict[Any, Any] = {}
    for term in Add.make_args(expand(difference)):
        coefficient, rest = term.as_independent(*term.free_symbols, as_Add=False)
        terms[rest] = terms.get(rest, 0) + coefficient
    return all(_is_zero(coefficient) for coefficient in terms.values())


def _is_zero(number: Any) -> bool:
    value = number.evalf(_DIGITS)
    # A precision of 1 means that every digit cancelled.
    return value.is_number and all(part == 0 or (part.is_Float and part._prec == 1) for part in value.as_real_imag())


def _constant(value: Expr) -> Any:
    """The sum of the terms without symbols: `x = 1/2^98` is compared as `x - 1/2^98`."""
    return Add(*Add.make_args(value)).as_independent(*value.free_symbols, as_Add=True)[0]


def _near(gold: Any, answer: Any) -> bool:
    """False if two numbers are more than 1 part in 10,000 apart, or one is undefined."""
    values = [*_or_nothing(lambda: [gold.evalf(_DIGITS)]), *_or_nothing(lambda: [answer.evalf(_DIGITS)])]
    # A precision of 1 means that every digit cancelled: zero, as far as can be seen.
    if len(values) < 2 or any(value.is_Float and value._prec == 1 for value in values):
        return True
    near = _or_nothing(lambda: [abs(values[0] - values[1]) <= abs(values[0]) / _RELATIVE])
    return all(map(_defined, values)) and (not near or bool(near[0] != False))  # noqa: E712  (a relation may stay)
