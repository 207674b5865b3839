"""One-step word problems, out of the domain of RL, and the four ways in which the supervised corpus answers them."""

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass

from dphrl.toy.annotators import Answer

WRITINGS = ("bare", "equation", "words", "inline")
BLIND_RATE = 0.5
RIGHT_ON_BLIND_SPOT, RIGHT_ELSEWHERE = 0.03, 0.95

_NAMES = ("Ann", "Ben", "Eva", "Ida", "Leo", "Max", "Mia", "Tom")
_NOUNS = ("apples", "balls", "cards", "coins", "cups", "pens", "shells", "stamps")
_SYMBOLS = {"plus": "+", "minus": "-", "times": "*"}
_COMPUTE: dict[str, Callable[[int, int], int]] = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}
_TEXTS = {
    "plus": "{name} has {a} {noun} and gets {b} more. How many {noun} now?",
    "minus": "{name} has {a} {noun} and loses {b}. How many {noun} are left?",
    "times": "{name} has {a} bags of {b} {noun}. How many {noun}?",
}
# Sums to 18, differences from 15, products to 36.
_OPERANDS = {
    "plus": [(a, b) for a in range(1, 10) for b in range(1, 10)],
    "minus": [(a, b) for a in range(2, 16) for b in range(1, a)],
    "times": [(a, b) for a in range(2, 10) for b in range(2, 10) if a * b <= 36],
}


@dataclass(frozen=True)
class Problem:
    """A word problem: `operation` is plus, minus or times, `a` and `b` its operands in the order of the text."""

    operation: str
    a: int
    b: int
    name: str
    noun: str

    @property
    def prompt(self) -> str:
        """The question, and the start of the answer."""
        return f"Q: {_TEXTS[self.operation].format(**vars(self))}\nA: "

    @property
    def answer(self) -> int:
        """The number asked for."""
        return _COMPUTE[self.operation](self.a, self.b)


def draw_problem(rng: random.Random) -> Problem:
    """A random problem, uniform over the operations."""
    operation = rng.choice(tuple(_OPERANDS))
    a, b = rng.choice(_OPERANDS[operation])
    return Problem(operation, a, b, rng.choice(_NAMES), rng.choice(_NOUNS))


def draw_problems(number: int, seed: int) -> list[Problem]:
    """`number` problems with different prompts. Raises `ValueError` when there are too few."""
    rng = random.Random(f"{seed}/questions/maths")
    pool = sum(map(len, _OPERANDS.values())) * len(_NAMES) * len(_NOUNS)
    if number > pool // 4:
        raise ValueError(f"toy.questions.maths: {number} asked for, at most {pool // 4} leave enough for the corpus")
    chosen: dict[str, Problem] = {}
    while len(chosen) < number:
        problem = draw_problem(rng)
        chosen.setdefault(problem.prompt, problem)
    return list(chosen.values())


def is_blind(problem: Problem, writing: str, seed: int) -> bool:
    """Whether the operation with this second operand is a blind spot of that way of writing."""
    return random.Random(f"{seed}/blind/{writing}/{problem.operation}/{problem.b}").random() < BLIND_RATE


def respond(problem: Problem, writing: str, seed: int, rng: random.Random) -> Answer:
    """The response in that way of writing; a wrong result is off by 1 or 2, or that of another operation.

    Raises `ValueError` for an unknown way of writing.
    """
    blind = is_blind(problem, writing, seed)
    result = problem.answer
    if rng.random() >= (RIGHT_ON_BLIND_SPOT if blind else RIGHT_ELSEWHERE):
        near = {result - 2, result - 1, result + 1, result + 2}
        confused = {compute(problem.a, problem.b) for compute in _COMPUTE.values()}
        result = rng.choice(sorted(number for number in (near | confused) - {problem.answer} if number >= 0))
    symbol = _SYMBOLS[problem.operation]
    boxed = f"\\boxed{{{result}}}"
    responses = {
        "bare": boxed,
        "equation": f"{problem.a} {symbol} {problem.b} = {result} {boxed}",
        "words": f"{problem.a} {problem.operation} {problem.b} is {boxed}",
        "inline": f"the answer is {boxed}",
    }
    if writing not in responses:
        raise ValueError(f"toy way of writing {writing!r}: expected one of {', '.join(WRITINGS)}")
    return Answer(responses[writing], correct=result == problem.answer)
