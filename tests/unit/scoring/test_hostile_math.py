r"""Answers that would hang, exhaust or fool the maths scorer, each followed by an honest one.

Every hostile answer gets its verdict within a second of the time limit, none is correct, the worker stays below 1 GiB,
and the next answer is judged as if nothing had happened. The gold is a number, without and with a tolerance; answers
without a finite value meet golds of every kind.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dphrl.scoring import MathScorer

TIMEOUT_S = 0.25
STOPPED = "timeout out_of_memory wrong"
"""Verdicts of an answer that the machine may or may not be fast enough to refute."""


def nested(before: str, inside: str, after: str, depth: int) -> str:
    return before * depth + inside + after * depth


def matrix(cell: str, size: int, kind: str = "pmatrix") -> str:
    rows = (" & ".join(cell.format(f"{row}{column}") for column in range(size)) for row in range(size))
    return f"\\begin{{{kind}}}" + r" \\ ".join(rows) + f"\\end{{{kind}}}"


POWERS = {
    "a tower": "9^{9^{9^{9}}}",
    "a tall tower": nested("2^{", "2", "}", 8),
    "a huge power": "7^{10^{9}}",
    "a huge negative power": "(-3)^{-10^{12}}",
    "a tower of roots": nested(r"\sqrt{", "2", "}", 200),
    "a sum of many roots": " + ".join(rf"\sqrt{{{n}}}" for n in range(2, 60)),
    "a fraction over a tower": r"\frac{10^{10^{10}}}{3}",
    "many carets": "2" + "^" * 2000 + "2",
    "a huge modular power": r"7^{10^{18}} \mod 13",
    "a huge floor": r"\lfloor 10^{10^{10}}\pi \rfloor",
}
FACTORIALS = {
    "a huge factorial": "100000000!",
    "a factorial of a power": "(10^{9})! + x",
    "a huge binomial": r"\binom{10^{9}}{5\cdot 10^{8}}",
    "a negative binomial": r"\binom{-5}{10^{9}}",
}
ALGEBRA = {
    "a huge expansion": "(x+1)^{1000000}",
    "a polynomial equation": "x^{30}+x^{29}+7x+1=0",
    "an inequality": "x^{17}-5x^3+2>0",
    "a transcendental equation": r"\sin(x^x)=\cos(x^{x^x})",
    "a long chain of equations": "=".join(["x"] * 500),
    "an endless sum": r"\sum_{n=1}^{\infty}\frac{1}{n^{2}+n+3}",
    "an endless product": r"\prod_{k=1}^{\infty}(1+\frac{1}{k^3})",
    "a hard integral": r"\int_{0}^{\infty}\frac{\sin(x^3)\ln(x)}{x^5+1}dx",
    "a hard limit": r"\lim_{x\to\infty}\frac{x!}{x^x e^{-x}}",
    "a sum of arctangents": "+".join(rf"\arctan(\frac{{1}}{{{k}}})" for k in range(2, 60)),
    "nested sines": nested(r"\sin(", "x", ")", 150),
    "a big matrix": matrix("1", 31),
    "a symbolic determinant": r"\det" + matrix("x_{{{}}}", 9),
    "a matrix power": matrix("{}", 2) + "^{10^{7}}",
    "a sum of plus-minuses": "+".join([r"(1\pm 2)"] * 14),
}
SHAPES = {
    "deep braces": nested("{", "1", "}", 1500),
    "deep parentheses": nested("(", "1", ")", 1500),
    "a continued fraction": nested(r"1+\frac{1}{", "1", "}", 250),
    "deep subscripts": nested("x_{", "x", "}", 500),
    "thousands of terms": "+".join(["1"] * 1900),
    "a long list": ",".join(map(str, range(900))),
    "a long union": r"\cup".join(f"[{n},{n + 1})" for n in range(300)),
    "an interval to a tower": "[0, 9^{9^{9^{9}}}]",
    "unclosed roots": "sqrt(" * 500,
}
REFUTED = {
    "huge fraction": r"\frac{" + "7" * 1900 + "}{" + "3" * 1900 + "}",
    "thousands of digits": "9" * 3999,
    "thousands of digits of a mixed number": r"9999999999\frac{1}{" + "9" * 3000 + "}",
    "a huge exponent": "1e999999999",
    "a huge exponent in a sum": "2 + 1e999999999",
    "a NUL": "2\x009",
    "escape codes": "\x1b[2J\x07",
    "digits of another script": "\u0669",
    "a lone surrogate among digits": "1\ud8002",
    "a file to read": r"\input{/etc/passwd}",
    "a shell command": r"\immediate\write18{touch pwned}",
    "an endless macro": r"\def\x{\x\x}\x",
    "a Python import": "__import__('os').system('touch pwned')",
    "a Python import for sympify": "S(\"__import__('os').system('touch pwned')\")",
    "not a number": "nan",
    "complex infinity": "zoo",
    "infinity": r"\infty",
    "nought by nought": r"\frac{0}{0}",
    "None": "None",
    "a hedge": r"2\text{ or 3}",
    "a hedge in a list": "1, 2, 3",
    "a number and rubbish": "2^^3",
    "a sum with a set": r"2+(1,3)",
    "thousands of dollars": r"\$" * 1500 + "9",
    "thousands of backslashes": "\\\\" * 1900,
    "thousands of primes": "f" + "'" * 2000 + "(x)",
}
POLES = {
    "the cosecant of nought": r"\csc 0",
    "a hyperbolic cotangent of nought": r"\coth 0",
    "a fraction of a pole": r"\frac{\csc 0}{2}",
    "a variable times a pole": r"x\csc 0",
    "a pole of a pole": r"\csc(\csc 0)",
    "the exponential of a pole": r"e^{\csc 0}",
    "a tangent at its pole": r"\tan\frac{\pi}{2}",
    "the logarithm of nought": r"\ln 0",
    "a logarithm to the base 1": r"\log_1 2",
    "the factorial of a negative number": "(-1)!",
    "a harmonic series": r"\sum_{n=1}^\infty \frac{1}{n}",
    "nought times infinity": r"0\cdot\infty",
    "a root of no degree": r"\sqrt[0]{2}",
    "a remainder by nought": r"5 \mod 0",
}
KINDS = {
    "an imaginary number": "7i",
    "a root of a negative number": r"\sqrt{-30}",
    "the logarithm of a negative number": r"\ln(-100)",
    "an interval": "[70,80]",
    "a union of intervals": r"[70,71]\cup(80,\infty)",
    "a set": r"\{70, 80\}",
    "the empty set": r"\emptyset",
    "a set by its property": r"\{x \mid x > 70\}",
    "a tuple": "(70, 80, 90)",
    "a matrix": r"\begin{pmatrix}70&80\\90&60\end{pmatrix}",
    "the inverse of a singular matrix": r"\begin{pmatrix}1&2\\2&4\end{pmatrix}^{-1}",
    "a vector": r"\vec{v}",
    "an equation of another letter": "q=70",
    "an inequality": "x<70",
    "a false equation": "70=71",
    "words": r"\text{none of these}",
    "a function": "f(t)",
    "a derivative": r"\frac{d}{dx}x^{70}",
    "points of geometry": r"\overline{AB}",
    "a number beyond a float": r"\frac{10^{400}}{7}",
}
EMPTY = {
    "an empty box": "",
    "a box of commas": "," * 3000,
    "a box of zero-width spaces": "\u200b" * 2000,
    "an unbalanced box": r"\frac{1}{",
}
TOO_LARGE = {
    "one megabyte of LaTeX": r"\frac{1}{2}+" * 90_000,
    "ten megabytes of digits": "9" * 10_000_000,
    "a huge matrix": matrix("{}", 150),
}
CASES = {
    name: (answer, verdicts)
    for group, verdicts in [
        (POWERS, STOPPED),
        (FACTORIALS, STOPPED),
        (ALGEBRA, STOPPED),
        (SHAPES, STOPPED),
        (REFUTED, "wrong"),
        (POLES, STOPPED),
        (KINDS, STOPPED),
        (EMPTY, "no_answer"),
        (TOO_LARGE, "too_large"),
    ]
    for name, answer in group.items()
}


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    with MathScorer(timeout_s=TIMEOUT_S, memory_mib=1024) as scorer:
        scorer.score([r"\boxed{x+1}"], [{"answer": "1+x"}])
        yield scorer


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_answer_is_judged_in_time_and_harms_no_other(scorer: MathScorer, name: str) -> None:
    answer, verdicts = CASES[name]
    for truth in ({"answer": "2"}, {"answer": "1.5", "tolerance": "1e-1"}):
        start = time.monotonic()
        (verdict,) = scorer.score([f"\\boxed{{{answer}}}"], [truth])
        # An answer that runs out of time is tried twice.
        assert time.monotonic() - start < 2 * (TIMEOUT_S + 1)
        assert verdict.verdict in verdicts.split(), verdict
        assert not verdict.correct
        assert verdict.reward == 0.0
    (honest,) = scorer.score([r"\boxed{\sqrt{4}}"], [{"answer": "2"}])
    assert honest.correct
    assert all(peak_mib(pid) < 1024 for pid in scorer.pool.pids)
    assert not Path("pwned").exists()


GOLDS: dict[str, tuple[dict[str, Any], str]] = {
    "an integer": ({"answer": 27}, r"\sqrt{729}"),
    "a decimal": ({"answer": "4.2", "tolerance": "1e-1"}, r"\sqrt{17.7}"),
    "a fraction": ({"answer": r"\frac{5}{3}", "tolerance": 0.1}, r"\sqrt{3}"),
    "a root": ({"answer": r"2\sqrt{2}", "tolerance": 0.01}, "2.83"),
    "a multiple of pi": ({"answer": r"2\pi", "tolerance": 0.01}, "6.28"),
    "a complex number": ({"answer": "3+4i", "tolerance": 0.1}, "4i+3"),
    "infinity": ({"answer": r"-\infty", "tolerance": 1}, r"-\infty"),
    "a pole": ({"answer": r"\csc 0 + 1", "tolerance": 1}, r"\csc 0 + 1"),
    "an expression": ({"answer": "x+1", "tolerance": 1}, "1+x"),
    "an equation": ({"answer": "x=1.5", "tolerance": 0.1}, "1.55"),
    "an inequality": ({"answer": "x>3", "tolerance": 0.1}, "3<x"),
    "a list": ({"answer": ["1.5", r"\sqrt{8}"], "tolerance": 0.1}, "2.83, 1.55"),
    "a set": ({"answer": r"\{1.5, \pi\}", "tolerance": 0.1}, r"\{3.14, 1.5\}"),
    "a tuple": ({"answer": r"(1, \frac{1}{2})", "tolerance": 0.1}, "(1, 0.5)"),
    "an interval": ({"answer": "(0, 1]", "tolerance": 0.1}, r"(0,\frac{2}{2}]"),
    "a matrix": ({"answer": matrix("1", 2), "tolerance": 0.1}, matrix(r"\frac{{2}}{{2}}", 2)),
    "a percentage": ({"answer": r"20\%", "tolerance": 0.1}, r"20.05\%"),
    "a number with a unit": ({"answer": "1.5", "unit": "cm", "tolerance": "1e-1"}, "1.55 cm"),
    "text": ({"answer": r"\text{Evelyn}", "tolerance": 0.1}, "Evelyn"),
}
"""A ground truth of each kind, and another form of it."""
NO_NUMBERS = ["nan", "oo", "zoo", r"\infty", r"\infty-\infty", r"\frac{0}{0}", r"\frac{1}{0}"]


@pytest.mark.parametrize("name", GOLDS)
def test_an_answer_without_a_value_near_the_gold_is_wrong_and_harms_no_other(scorer: MathScorer, name: str) -> None:
    truth, honest = GOLDS[name]
    hostile = [*POLES.values(), *KINDS.values(), *NO_NUMBERS, POWERS["a huge power"]]
    boxed = [f"\\boxed{{{answer}}}" for pair in ((one, honest) for one in hostile) for answer in pair]
    verdicts = scorer.score(boxed, [truth] * len(boxed))
    assert {verdict.verdict for verdict in verdicts[1::2]} == {"correct"}
    # For math-verify all poles are equal.
    allowed = {"wrong", "timeout"} | ({"correct"} if name in ("infinity", "a pole") else set())
    for answer, verdict in zip(hostile, verdicts[::2], strict=True):
        assert verdict.verdict in allowed, (answer, verdict)


def test_a_bomb_is_wrong_for_every_gold_but_itself(scorer: MathScorer) -> None:
    bomb = "9^{9^{9^{9}}}"
    golds = [bomb, "x+1", r"\sqrt{2}"]
    verdicts = scorer.score([f"\\boxed{{{bomb}}}"] * 3, [{"answer": gold} for gold in golds])
    assert [verdict.correct for verdict in verdicts] == [True, False, False]


def test_a_gold_that_is_not_read_in_time_is_an_error_of_the_gold(scorer: MathScorer) -> None:
    verdicts = scorer.score([r"\boxed{y}", r"\boxed{x+1}"], [{"answer": SHAPES["deep braces"]}, {"answer": "1+x"}])
    assert [verdict.verdict for verdict in verdicts] == ["gold_error", "correct"]


@pytest.mark.parametrize("mode", ["boxed", "final"])
def test_a_hundred_thousand_boxes_are_read_in_linear_time(mode: str) -> None:
    with MathScorer(answer=mode, timeout_s=TIMEOUT_S) as scorer:
        start = time.monotonic()
        (unclosed,) = scorer.score([r"\boxed{" * 110_000], [{"answer": "2"}])
        (closed,) = scorer.score([r"\boxed{3}" * 110_000], [{"answer": "2"}])
        assert time.monotonic() - start < 8
    assert unclosed.verdict in ("no_answer", "timeout", "wrong")
    assert closed.verdict == "wrong"


@pytest.mark.parametrize("answer", ["9" * 5_000_000, "#### " * 500_000, "final answer " * 300_000, "A: " + "(" * 10**6])
def test_hostile_prose_is_judged_in_time(answer: str) -> None:
    with MathScorer(answer="final", timeout_s=TIMEOUT_S, memory_mib=1024) as scorer:
        (verdict,) = scorer.score([answer], [{"answer": "2"}])
    assert verdict.verdict in ("wrong", "timeout", "too_large", "no_answer")
