"""Odd LaTeX against golds of every kind: a verdict for each in time, and those of honest answers stay as they are."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from random import Random
from typing import Any

from dphrl.scoring import MathScorer, Verdict

Unfinished = Callable[[], bool]
Pair = tuple[str, dict[str, Any]]

# A ground truth, and other forms of the right answer.
GOLDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"answer": 27}, ["27", "27.0", r"3^3", r"\sqrt{729}"]),
    ({"answer": "0"}, ["0", r"\frac{0}{5}", "2-2"]),
    ({"answer": "-3.5"}, [r"-\frac{7}{2}", "-3.50", r"\frac{-7}{2}"]),
    ({"answer": "4.2", "tolerance": "1e-1"}, ["4.25", r"\sqrt{17.7}", "4.2"]),
    ({"answer": r"\frac{5}{3}", "tolerance": 0.1}, [r"1\frac{2}{3}", r"\sqrt{3}", "1.7"]),
    ({"answer": r"2\sqrt{2}", "tolerance": 0.01}, [r"\sqrt{8}", "2.83"]),
    ({"answer": r"2\pi"}, [r"\pi+\pi", r"2 \cdot \pi"]),
    ({"answer": r"2\pi", "tolerance": "1e-2"}, ["6.28", r"\frac{4\pi}{2}"]),
    ({"answer": "3+4i", "tolerance": 0.1}, ["4i+3"]),
    ({"answer": r"-\infty", "tolerance": 1}, [r"-\infty"]),
    ({"answer": "x+1", "tolerance": 1}, ["1+x", r"\frac{2x+2}{2}"]),
    ({"answer": "x^2-1"}, ["(x-1)(x+1)"]),
    ({"answer": "x=1.5", "tolerance": 0.1}, ["1.55", "x=1.5"]),
    ({"answer": "x>3"}, ["3<x", "x > 3"]),
    ({"answer": ["1.5", r"\sqrt{8}"], "tolerance": 0.1}, ["2.83, 1.55", r"\sqrt{8}, 1.5"]),
    ({"answer": "1, 2, 3"}, ["3, 2, 1", r"\{1, 2, 3\}"]),
    ({"answer": r"\{1.5, \pi\}", "tolerance": 0.1}, [r"\{\pi, 1.5\}", r"\{3.14, 1.5\}"]),
    ({"answer": r"\emptyset"}, [r"\emptyset"]),
    ({"answer": r"(1, \frac{1}{2})"}, ["(1, 0.5)", r"\left(1,\frac{1}{2}\right)"]),
    ({"answer": "(0, 1]"}, [r"(0,\frac{2}{2}]"]),
    ({"answer": r"(-\infty, 2)\cup(3, \infty)"}, [r"(-\infty,2) \cup (3,\infty)"]),
    ({"answer": r"\begin{pmatrix}1\\2\end{pmatrix}"}, [r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"]),
    ({"answer": r"20\%", "tolerance": 0.1}, [r"20.05\%", "20"]),
    ({"answer": "1.5", "unit": "cm", "tolerance": "1e-1"}, ["1.55 cm", "1.5"]),
    ({"answer": "x+y=3"}, ["x+y=3"]),
    ({"answer": r"\text{Evelyn}"}, ["Evelyn", r"\text{evelyn}"]),
    ({"answer": r"\text{(C)}", "tolerance": 0.1}, [r"\text{(C)}"]),
    ({"answer": "4:30"}, ["4:30"]),
]
_LEAVES = r"""
0 1 2 -1 7 10 .5 1,000 1e5 3e-400 1e401 12345678901234567890 \pi e i x y n \theta x_1 f(x) \ell \nabla \alpha
\vec{v} \overline{AB} AB \infty oo zoo nan inf None True \emptyset \mathbb{R} \text{no} about 7^{7^{7^{7}}}
"""
LEAVES = [
    *_LEAVES.split(),
    *("\u0663", "\uff14", "2\u00b2", "\u00bd", "\u221e", "\u2212", "\ud800", "\x00", "\u202e", "\u200b", "\U0001d7d8"),
    *("9" * 30, ""),
]
# A to C are parts made in the same way.
_SHAPES = r"""
A+B ~ A-B ~ A\cdot B ~ A/B ~ AB ~ \frac{A}{B} ~ \dfrac AB ~ A^{B} ~ A^2 ~ A_{B} ~ A! ~ -A ~ (A) ~ {A} ~ A'
\sqrt{A} ~ \sqrt[A]{B} ~ \sqrt A ~ |A| ~ \left|A\right| ~ \lfloor A \rfloor ~ \lceil A \rceil ~ \overline{A} ~ \hat A
\sin A ~ \cos A ~ \tan A ~ \csc A ~ \sec A ~ \cot A ~ \coth A ~ \csch A ~ \sinh A ~ \arcsin A ~ \arctan A ~ \ln A
\sin(A) ~ \csc(A) ~ \sec(A) ~ \cot(A) ~ \tan(A) ~ \log(A) ~ \exp(A) ~ \Gamma(A) ~ \max(A,B) ~ \gcd(A,B) ~ \arg(A)
\log_{A} B ~ \csc^{-1}(A) ~ \sin^{A} B ~ \binom{A}{B} ~ A \mod B ~ A \pmod{B} ~ A \div B ~ A \times B ~ A : B
[A,B] ~ (A,B] ~ (A,B) ~ (A,B,C) ~ \{A,B\} ~ \left\{A\right\} ~ A,B ~ A, B, C ~ A \cup B ~ A \cap B ~ A \setminus B
\{x \mid x > A\} ~ x \in A ~ \begin{pmatrix}A & B \\ B & C\end{pmatrix} ~ \begin{bmatrix}A\\B\end{bmatrix}
\det\begin{vmatrix}A & B \\ C & A\end{vmatrix} ~ \begin{cases}A & B \\ C\end{cases} ~ A=B ~ x=A ~ A<B ~ A \leq B < C
A \neq B ~ \pm A ~ A \pm B ~ \lim_{x\to A} B ~ \sum_{n=A}^{B} C ~ \prod_{n=A}^{B} C ~ \int_{A}^{B} C dx ~ \frac{d}{dx} A
A\% ~ A\text{ cm} ~ A^\circ ~ \$A ~ \text{A} ~ A\text{ or }B ~ A and B ~ \boxed{A} ~ \mathrm{A} ~ \approx A
"""
SHAPES = [shape for line in _SHAPES.strip().splitlines() for shape in line.split(" ~ ")]
_NAMES = "sin cos tan csc sec cot sinh coth csch arcsin arctan ln log sqrt Gamma frac1"
FUNCTIONS = [f"\\{name}" for name in _NAMES.split()]
POINTS = ["0", "0", "1", "-1", "90", r"\pi", r"\frac{\pi}{2}", r"\infty", "i", "(0)"]
PIECES = [*"{}\\$^_&()[]|,;=!%#\n\0\ud800", r"\\", r"\frac", r"\boxed{", r"\left", r"\text{"]
FRAMES = ["A", "so A.", "A and then A", "A\n#### 7", "The final answer is A", "<think>A</think> A", "{A", r"\boxed{}A}"]
TIMEOUT_S, BATCH, HONEST = 2.0, 24, 6
JUDGED = {"correct", "wrong", "no_answer", "timeout", "too_large", "out_of_memory"}


def fuzz(random: Random, unfinished: Unfinished) -> Counter[str]:
    """Verdicts on odd answers and on sums of fractions, and on odd golds, by their number."""
    tally: Counter[str] = Counter()
    with ExitStack() as open_scorers:
        scorers = {
            mode: open_scorers.enter_context(MathScorer(answer=mode, timeout_s=TIMEOUT_S, memory_mib=1024))
            for mode in ("boxed", "final")
        }
        while unfinished():
            tally += score_batch(random, *random.choice(list(scorers.items())))
            tally += score_fractions(random, scorers["boxed"])
            if random.random() < 0.2:
                tally += score_odd_golds(random, scorers["boxed"])
    return tally


def odd(random: Random, depth: int) -> str:
    """An expression by the grammar, of at most this depth."""
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)
    if depth == 1 and random.random() < 0.4:
        return f"{random.choice(FUNCTIONS)} {random.choice(POINTS)}"
    shape = random.choice(SHAPES)
    return shape.translate({ord(name): odd(random, max(0, depth - random.choice((1, 1, 2)))) for name in "ABC"})


def broken(random: Random, text: str) -> str:
    """The text after a few random changes of its characters."""
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 5))):
        at, length = random.randint(0, len(text)), random.choice((0, 1, 1, 3))
        new = random.choice(("", random.choice(PIECES), random.choice(PIECES) * random.choice((2, 40)), text[:at][-9:]))
        text = text[:at] + new + text[at + length :]
    return text


def answer(random: Random) -> str:
    return broken(random, odd(random, random.choice((1, 2, 2, 3, 4))))


def score_batch(random: Random, mode: str, scorer: MathScorer) -> Counter[str]:
    """Odd answers in odd responses, with honest ones among them, against one gold each."""
    pairs: list[tuple[str, dict[str, Any], bool]] = []
    for _ in range(BATCH):
        box = f"\\boxed{{{answer(random)}}}" if mode == "boxed" or random.random() < 0.6 else answer(random)
        pairs.append((random.choice(FRAMES).replace("A", box), random.choice(GOLDS)[0], False))
    for _ in range(HONEST):
        truth, forms = random.choice(GOLDS)
        pairs.append((f"It is \\boxed{{{random.choice(forms)}}}.", truth, True))
    random.shuffle(pairs)
    verdicts = judged(scorer, [pair[:2] for pair in pairs], f"mode {mode}")
    for (response, truth, honest), verdict in zip(pairs, verdicts, strict=True):
        case = f"mode {mode}, {response!r} to {truth!r}: {verdict}"
        assert verdict.verdict in JUDGED, case
        assert verdict.correct == (verdict.verdict == "correct") == (verdict.reward == 1.0), case
        assert not honest or settled(scorer, (response, truth), verdict).correct, f"an honest answer: {case}"
    return Counter(verdict.verdict for verdict, pair in zip(verdicts, pairs, strict=True) if not pair[2])


def score_fractions(random: Random, scorer: MathScorer) -> Counter[str]:
    """Expressions of known value: correct for it, and for no other."""
    pairs: list[Pair] = []
    expected = []
    for _ in range(8):
        text, value = valued(random, 3)
        gold = value if random.random() < 0.5 else value + Fraction(random.randint(1, 9), random.randint(1, 9))
        shown = str(gold) if gold.denominator == 1 else f"\\frac{{{gold.numerator}}}{{{gold.denominator}}}"
        pairs.append((f"\\boxed{{{text}}}", {"answer": shown} | random.choice(({}, {"tolerance": "1e-9"}))))
        expected.append("correct" if gold == value else "wrong")
    for pair, wanted, verdict in zip(pairs, expected, judged(scorer, pairs, "fractions"), strict=True):
        verdict = settled(scorer, pair, verdict)
        assert verdict.verdict == wanted, f"{pair!r}: expected {wanted}, found {verdict}"
    return Counter(f"fractions: {wanted}" for wanted in expected)


def valued(random: Random, depth: int) -> tuple[str, Fraction]:
    """An expression of integers, in parentheses, and its value."""
    if depth == 0:
        number = random.randint(1, 12)
        return str(number), Fraction(number)
    (left, one), (right, other) = (valued(random, depth - random.choice((1, 2, 3)) if depth > 2 else 0) for _ in "ab")
    kind = random.choice("+-*/") if other else "+"
    if kind == "/":
        return f"\\frac{{{left}}}{{{right}}}", one / other
    sign, value = {"+": ("+", one + other), "-": ("-", one - other), "*": (r"\cdot ", one * other)}[kind]
    return f"({left}{sign}{right})", value


def score_odd_golds(random: Random, scorer: MathScorer) -> Counter[str]:
    """Odd answers as golds of themselves."""
    truths = [{"answer": answer(random)} for _ in range(8)]
    try:
        audited = scorer.audit(truths)
    except Exception as error:
        raise AssertionError(f"{error!r}: golds {truths!r}") from error
    reasons = {("correct", reason) for reason in (None, "text-only")}
    assert set(audited) <= {*reasons, ("gold_error", "unrunnable")}, f"{audited}: {truths!r}"
    return Counter(f"gold: {verdict}" for verdict, _ in audited)


def judged(scorer: MathScorer, pairs: list[Pair], what: str) -> list[Verdict]:
    """One verdict for each pair, in time."""
    started = time.monotonic()
    try:
        verdicts = scorer.score(*map(list, zip(*pairs, strict=True)))
    except Exception as error:
        raise AssertionError(f"{error!r}: {what}, {pairs!r}") from error
    assert len(verdicts) == len(pairs), f"{len(verdicts)} verdicts: {what}, {pairs!r}"
    # A slow one runs twice, the second time alone, and may need a new worker each time.
    slow = sum(verdict.verdict in ("timeout", "out_of_memory") for verdict in verdicts)
    assert time.monotonic() - started < 30 + 12 * slow, f"{time.monotonic() - started:.0f} s: {what}, {pairs!r}"
    return verdicts


def settled(scorer: MathScorer, pair: Pair, verdict: Verdict) -> Verdict:
    """The verdict on an answer that takes milliseconds, also where a busy machine did not get to it in time."""
    for _ in range(3):
        if verdict.verdict == "timeout":
            (verdict,) = judged(scorer, [pair], "once more")
    return verdict
