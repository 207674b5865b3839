"""Limits on math-verify, which compares lists as sets and takes small differences for zero.

Only worker processes import this module: sympy takes a second to load.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final, TypeVar

from latex2sympy2_extended.sets import FiniteSet
from math_verify import grader
from sympy import (
    Abs,
    Add,
    Basic,
    Dummy,
    Eq,
    Expr,
    Float,
    I,
    Intersection,
    MatrixBase,
    MatrixExpr,
    Pow,
    S,
    UnevaluatedExpr,
    Union,
    expand,
    expand_log,
    log,
    nan,
    simplify,
    zoo,
)
from sympy.logic.boolalg import BooleanAtom

_Value = TypeVar("_Value")
# Of a value; sympy computes with more where they cancel.
_DIGITS: Final = 8
_RELATIVE: Final = 10_000
_NO_NUMBERS: Final = (MatrixBase, MatrixExpr)


def guard() -> None:
    """Make math-verify's comparisons of numbers keep the relative rule, also inside of sets, intervals and matrices.

    Where there are symbols, only the constant terms are numbers: `x = 1/2^98` is compared as `x - 1/2^98`. Numbers and
    coefficients without decimals are compared exactly, and equations without a solution by their sides.
    """
    numeric, symbolic, solved = grader.sympy_numeric_eq, grader.sympy_symbolic_eq, grader.sympy_solve_and_compare

    def numeric_eq(gold: Any, answer: Any, *options: int) -> bool:
        if _exact(gold) and _exact(answer):
            return _vanishes(gold - answer)
        if _have_symbols(gold, answer):
            return numeric(gold, answer, *options) and _near(_constant(gold), _constant(answer))
        return _near(gold, answer) and numeric(gold, answer, *options)

    def symbolic_eq(gold: Any, answer: Any) -> bool:
        return (_have_symbols(gold, answer) or _near(gold, answer)) and symbolic(gold, answer)

    def solve_and_compare(gold: Any, answer: Any, *options: int) -> bool:
        if isinstance(gold, Eq) and isinstance(answer, Eq):
            if _agree_up_to_a_factor(gold, answer):
                return True
            # Of two empty lists of solutions all members are equal.
            return _has_solution(gold) and _has_solution(answer) and bool(solved(gold, answer, *options))
        return bool(solved(gold, answer, *options))

    grader.sympy_numeric_eq, grader.sympy_symbolic_eq = numeric_eq, symbolic_eq
    grader.sympy_solve_and_compare = solve_and_compare


def union(alternatives: list[list[Any]]) -> list[Any]:
    """The set where all inequalities of at least one alternative hold; nothing if sympy finds no set."""
    return _or_nothing(
        lambda: [Union(*(Intersection(*(grader.unwrap_fcs(rel).as_set() for rel in every)) for every in alternatives))]
    )


def solutions(equation: Any) -> list[Any]:
    """The solutions of an equation in one symbol; none where sympy does not find all of them."""
    if not isinstance(equation, Eq) or len(equation.free_symbols) != 1:
        return []
    return _or_nothing(lambda: list(grader.solve(equation, next(iter(equation.free_symbols)))))


def complex_value(value: Any) -> Any:
    """The value with the letter i as the imaginary unit; unchanged where sympy cannot replace it."""
    if isinstance(value, str) or all(symbol.name != "i" for symbol in value.free_symbols):
        return value
    units = {symbol: I for symbol in value.free_symbols if symbol.name == "i"}
    substituted = next(iter(_or_nothing(lambda: [value.subs(units)])), value)
    # With real symbols `a i x = 4` is false for sympy.
    return value if isinstance(substituted, BooleanAtom) else substituted


def _or_nothing(computed: Callable[[], list[Any]]) -> list[Any]:
    try:
        return computed()
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # As in math-verify: answers are not equal where sympy fails.
        return []


def equal(gold: Any, answer: Any) -> bool:
    """Whether math-verify finds two parsed answers equal, and may: a value with a pole is not equal to any other.

    Where one repeats a member, members are matched one to one. Call `guard` before.
    """
    if any(one is S.EmptySet and isinstance(other, Eq) for one, other in ((gold, answer), (answer, gold))):
        # It would equal each equation that the library cannot solve.
        return False
    if not grader.verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True):
        return False
    if isinstance(gold, str):
        return True
    repeats = any(isinstance(value, FiniteSet) and len(_listed(value)) > len(value.args) for value in (gold, answer))
    return _defined(gold) and _defined(answer) and (not repeats or one_to_one(_listed(gold), _listed(answer), equal))


def equal_for_positive(gold: Any, answer: Any) -> bool:
    """Whether two expressions with roots, logarithms or powers of symbols are equal where all symbols are positive."""
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)) or not gold.free_symbols | answer.free_symbols:
        return False
    if (gold.free_symbols != answer.free_symbols) or not any(map(_needs_a_sign, (gold, answer))):
        return False
    positive = {symbol: Dummy(symbol.name, positive=True) for symbol in gold.free_symbols}
    difference = _or_nothing(lambda: [simplify(expand_log((gold - answer).subs(positive)))])
    return difference == [0]


def _needs_a_sign(value: Expr) -> bool:
    return (
        not value.has(Abs) and any(not power.exp.is_Integer and power.base.free_symbols for power in value.atoms(Pow))
    ) or any(function.free_symbols for function in value.atoms(log))


def _listed(value: Basic | MatrixBase) -> list[Any]:
    # The parser's sets remember the members as they were written.
    return list(value._unsorted_args) if isinstance(value, FiniteSet) else [value]


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


def _defined(value: Basic | MatrixBase) -> bool:
    # All poles are complex infinity for sympy, all false statements are equal.
    return not isinstance(value, BooleanAtom) and not value.has(zoo, nan)


def _exact(value: Any) -> bool:
    """Whether a value is an expression without decimals and percent signs."""
    return isinstance(value, Expr) and not value.has(Float, UnevaluatedExpr)


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


def _has_solution(equation: Any) -> bool:
    return bool(equation.free_symbols and grader.solve(equation, equation.free_symbols))


def _agree_up_to_a_factor(gold: Any, answer: Any) -> bool:
    if not gold.free_symbols or gold.free_symbols != answer.free_symbols:
        return False
    factor = simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    return bool(factor.is_number and _defined(factor) and factor != 0)


def _have_symbols(gold: Any, answer: Any) -> bool:
    return bool(gold.free_symbols or answer.free_symbols)


def _constant(value: Any) -> Any:
    """The sum of the terms without symbols."""
    if isinstance(value, _NO_NUMBERS):
        return value
    return Add(*Add.make_args(value)).as_independent(*value.free_symbols, as_Add=True)[0]


def _near(gold: Any, answer: Any) -> bool:
    """False if the two are numbers more than 1 part in 10,000 apart, or one is undefined."""
    return any(_close(wanted, number) for wanted, number in product(_readings(gold), _readings(answer)))


def _readings(value: Any) -> list[Any]:
    """The number; of a percentage, with its percent sign and without it."""
    percent = grader.get_pct_val(value)
    if percent is None:
        return [_number(value)]
    number = _number(percent)
    return [number, None if number is None else number / 100]


def _number(value: Any) -> Any:
    """The value as a number, which may be undefined; None for a value that is no number."""
    if isinstance(value, _NO_NUMBERS):
        return None
    try:
        number = value.evalf(_DIGITS)
    except Exception:
        # The library may still compare values that sympy cannot evaluate.
        return None
    # A precision of 1 means that every digit cancelled: zero, as far as can be seen.
    is_certain = number.has(zoo, nan) or (number.is_number and not (number.is_Float and number._prec == 1))
    return number if is_certain else None


def _close(gold: Any, answer: Any) -> bool:
    if gold is None or answer is None:
        return True
    if not (_defined(gold) and _defined(answer)):
        return False
    try:
        return bool(gold == answer or abs(gold - answer) <= abs(gold) / _RELATIVE)
    except TypeError:
        # A part that sympy leaves as it is written.
        return True
