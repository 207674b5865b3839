r"""Mathematics: the final answer of a response, equality as text and as number, and then math-verify."""

import random
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.scoring import MathScorer
from dphrl.scoring.math.answers import MAX_RESPONSE, clean, final_answer, normal_form, number
from dphrl.scoring.math.members import members
from dphrl.scoring.math.units import Quantity, quantity

NINES = "9" * 1990


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=2) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def prose() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=5, answer="final") as scorer:
        yield scorer


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"so \boxed{1} or $\boxed{2}$.", ("1,2", False)),
        (r"$y_1 = \boxed{1}$ and $y_2 = \boxed{2}$", ("1,2", False)),
        (r"\boxed{1}, no, \boxed{2}", ("2", False)),
        (r"\boxed{1} or rather \boxed{2}", ("2", False)),
        (r"Step 1: \boxed{1}" + "\n" + r"Step 2: \boxed{2}", ("2", False)),
        (r"\boxed{1} The final answer is $2$.", ("$2$", False)),
        (r"The final answer is $\boxed{2}$.", ("2", False)),
        ("It is 7.\n#### 1,200", ("1,200", False)),
        ("A: 3\nNo.\nA: $4 ", ("$4", False)),
        ("#### Step 3: add\nWe have 8.", ("#### Step 3: add\nWe have 8.", True)),
        ("#### 2. Add\nWe have 8.", ("#### 2. Add\nWe have 8.", True)),
        ("#### Answer: 7", ("7", False)),
        ("#### Lima", ("Lima", False)),
        ("Answer:73\n3 + 4 = 8", ("73", False)),
        ("故答案为\uff1a73。", ("73", False)),
        ('The answer is "73".', ("73", False)),
        ("The answer is (A).", ("(A)", False)),
        ("The answer is 5. This answer is the sum of 2 and 3.", ("5", False)),
        ("The answer is 24 or 25.", ("24 or 25", False)),
        ("The answer is 2√3 cm.", (r"2√3\text{ cm}", False)),
        ("The answer is - 5.", ("- 5", False)),
        ("The answer is 5 if x is even.", ("The answer is 5 if x is even.", True)),
        ("The correct option is (B).", ("(B)", False)),
        ("Answer:\n\n1. Add.\n2. So it is 8.", ("Answer:\n\n1. Add.\n2. So it is 8.", True)),
        ("#### \u0428\u0430\u0433 1\nThe answer is 42.", ("42", False)),
        ("<answer><answer>73</answer></answer>", ("73", False)),
        ("so x->73", ("so x-> 73", True)),
        ("<answer>73</answer> I think it is 8.", ("73", False)),
        ("<answer>5</answer> No. <answer>The answer is 73.", ("73", False)),
        ("[ANSWER]5 or 6[/ANSWER]", ("5 or 6", False)),
        ("<|begin_of_box|>73<|end_of_box|>", ("73", False)),
        (r"\boxed{5} <solution>\boxed{73}</solution>", ("73", False)),
        ("x" * 5000, ("x" * 4000, True)),
        (r"\boxed{}", (r"\boxed{}", True)),
        (" ", None),
    ],
)
def test_the_final_answer(response: str, expected: tuple[str, bool] | None) -> None:
    assert final_answer(response, "final") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ 1,234,567 $", "1234567"),
        (r"32{,}348", "32348"),
        (r"11,\! 111", "11111"),
        (r"\$18.90", "18.90"),
        ("(1,234)", "(1,234)"),
        (r"\frac{1}{29,322,216}", r"\frac{1}{29322216}"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\left( x , y \right)", "(x,y)"),
        (r"336^\circ", "336"),
        (r"\approx 8.24.", "8.24"),
        ("1  2/3", "1 2/3"),
        ("1\x00\u200b.", "1"),
        ("\u22125", "-5"),
        ("\uff14\u0662", "42"),
        (r"\text{No solution.}", "nosolution"),
        (r"\text{4:30 p.m.}", "4:30pm"),
        (r"4:30 \text{ PM}", "4:30pm"),
        (r"\begin{pmatrix}4\\-3\end{pmatrix}", r"\begin{pmatrix}4\-3\end{pmatrix}"),
        (r"\begin{pmatrix}4\-3\end{pmatrix}", r"\begin{pmatrix}4\-3\end{pmatrix}"),
    ],
)
def test_the_normal_form(text: str, expected: str) -> None:
    assert normal_form(clean(text)) == expected


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("27", Fraction(27)),
        ("3e2", Fraction(300)),
        (r"4.5\times10^{3}", Fraction(4500)),
        (r"1\frac{1}{10}", Fraction(11, 10)),
        ("-1 2/3", Fraction(-5, 3)),
        (r"\frac12", Fraction(1, 2)),
        (r"-\frac{40}{153}", Fraction(-40, 153)),
        (r"20\%", Fraction(20)),
        ("1e401", None),
        (r"\frac{1}{0}", None),
        ("5x", None),
        (r"2\text{or3}", None),
        ("", None),
    ],
)
def test_numbers(form: str, value: Fraction | None) -> None:
    assert number(form) == value


@given(st.fractions(max_denominator=10**6))
def test_every_fraction_is_read_exactly(value: Fraction) -> None:
    assert number(f"{value.numerator}/{value.denominator}") == value
    assert number(f"\\frac{{{value.numerator}}}{{{value.denominator}}}") == value


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("1, 2 and 3", ["1", "2", "3"]),
        (r"\{1, 2\}", ["1", "2"]),
        ("(1,2),(3,4)", ["(1,2)", "(3,4)"]),
        (r"a=2 \text{ or } a=-6", ["2", "-6"]),
        ("[0,1)", ["[0,1)"]),
        ("1,,2,", ["1", "2"]),
        (r"\{1\}\cup\{2\}", [r"\{1\}\cup\{2\}"]),
        ("(x, y) = (1, 2)", ["(1,2)"]),
    ],
)
def test_the_members_of_an_answer(text: str, forms: list[str]) -> None:
    assert [member.form for member in members(text)] == forms


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("42", 42, "correct"),
        ("42", 42.0, "correct"),
        ("43", "42", "wrong"),
        ("9" * 3999, "1", "wrong"),
        ("1" * 4001, "1", "too_large"),
        ("", "1", "no_answer"),
        (r"\$", "1", "no_answer"),
        ("1", "", "gold_error"),
        ("1", "x" * 4001, "gold_error"),
    ],
)
def test_verdicts(scorer: MathScorer, answer: str, gold: str | float, verdict: str) -> None:
    (judged,) = scorer.score([f"so \\boxed{{{answer}}}"], [{"answer": gold}])
    assert (judged.verdict, judged.correct) == (verdict, verdict == "correct"), judged
    assert judged.reward == float(judged.correct)


def test_equal_answers_share_a_class(scorer: MathScorer) -> None:
    boxed = [r"\boxed{0.5}", r"\boxed{\frac{2}{4}}", r"\boxed{\frac{\sqrt{4}}{4}}", r"\boxed{0.25}", r"\boxed{1/4}"]
    verdicts = scorer.score(boxed, [{"answer": "1/2"}] * len(boxed))
    assert [v.correct for v in verdicts] == [True, True, True, False, False]
    assert len({v.answer_class for v in verdicts[:3]}) == 1
    assert verdicts[3].answer_class == verdicts[4].answer_class != verdicts[0].answer_class


@pytest.mark.parametrize(
    ("answer", "truth", "correct"),
    [
        ("0, 2, -2", {"answer": ["$-2,0,2$"]}, True),
        ("84, 69", {"answer": ["$69$", "$84$"]}, True),
        ("69, 84, 1", {"answer": ["$69$", "$84$"]}, False),
        ("(4,5,7), (1,8,19)", {"answer": ["$(1,8,19), (4,5,7)$"]}, True),
        ("(8,1,19), (4,5,7)", {"answer": ["$(1,8,19), (4,5,7)$"]}, False),
        ("f(x)=x+1, f(x)=-1", {"answer": ["$f(x)=-1$,$f(x)=x+1$"]}, True),
        ("4.25", {"answer": ["4.2"], "tolerance": "1e-1", "unit": "%"}, True),
        ("0", {"answer": ["4.2"], "tolerance": "1e-1", "unit": "%"}, False),
        (r"4.31\%", {"answer": "4.2", "tolerance": 0.1}, False),
        (r"\sqrt{17.7}", {"answer": "4.2", "tolerance": 0.1}, True),
        (r"\sqrt{19}", {"answer": "4.2", "tolerance": 0.1}, False),
        ("x+1", {"answer": "4.2", "tolerance": 0.1}, False),
        ("600/7 km/h", {"answer": [r"$\frac{600}{7}$"], "unit": "km/h"}, True),
        ("166 cm^2", {"answer": ["$166$"], "unit": "$cm^2$"}, True),
        (r"166\text{ m}^2", {"answer": ["$166$"], "unit": "$cm^2$"}, False),
        (r"45\text{ minutes}", {"answer": "45", "unit": "minute"}, True),
        (r"45\text{ hours}", {"answer": "45", "unit": "minute"}, False),
        (r"90^{\circ}, 60^\circ", {"answer": [r"$90^{\circ}$,$60^{\circ}$"]}, True),
    ],
)
def test_lists_tolerances_and_units(scorer: MathScorer, answer: str, truth: dict[str, Any], correct: bool) -> None:
    (judged,) = scorer.score([f"\\boxed{{{answer}}}"], [truth])
    assert judged.verdict == ("correct" if correct else "wrong")


def test_prose_is_left_to_math_verify(prose: MathScorer) -> None:
    responses = ["so the answer is 7, I think", r"then $x = \frac{14}{2}$", "seven", "it is 8", "x^2 + 1"]
    verdicts = prose.score(responses, [{"answer": "7"}] * 5)
    assert [v.verdict for v in verdicts] == ["correct", "correct", "no_answer", "wrong", "wrong"]
    assert verdicts[3].extracted == "8"


def test_an_expression_in_prose_is_judged_as_in_a_box(prose: MathScorer) -> None:
    pairs = [("4t", "4"), ("m", "M"), ("0", "N-n"), ("2^n", "2^N"), (r"\neq 5", "5"), ("5?", "5"), ("5 6", "11")]
    golds = [{"answer": gold} for _, gold in pairs]
    wrong = prose.score([f"So it is ${text}$ in the end." for text, _ in pairs], golds)
    right = prose.score([f"So it is ${gold}$ in the end." for _, gold in pairs], golds)
    assert [pair for pair, verdict in zip(pairs, wrong, strict=True) if verdict.correct] == []
    assert all(verdict.correct for verdict in right)


def test_a_complex_number_in_a_sentence_is_read(prose: MathScorer) -> None:
    verdicts = prose.score(["The answer is $2 + 3i$.", "The answer is $2 + 4i$."], [{"answer": "2+3i"}] * 2)
    assert [verdict.verdict for verdict in verdicts] == ["correct", "wrong"]


def test_a_gold_in_dollars_is_read_by_the_published_comparison() -> None:
    with MathScorer(comparison="published") as scorer:
        verdicts = scorer.score([r"\boxed{40}", r"\boxed{41}"], [{"answer": r"\$40"}] * 2)
    assert [verdict.verdict for verdict in verdicts] == ["correct", "wrong"]


def test_a_gold_that_is_only_text_is_compared_as_text_and_says_so(scorer: MathScorer) -> None:
    gold = {"answer": "$t(0,4]$"}
    boxed = [r"\boxed{t(0, 4]}", r"\boxed{(0,4]}"]
    same, other = scorer.score(boxed, [gold, gold])
    assert same.correct
    assert other.verdict == "wrong"
    assert other.detail is not None
    assert "compared as text" in other.detail


def test_verdicts_do_not_depend_on_the_batch(scorer: MathScorer) -> None:
    answers = ["1", "x+1", r"\sqrt{4}", "0.5", "1,2", "(1,2)", "x=2", r"\frac{4}{2}", "2\text{ or 3}", "y"]
    pairs = [(f"\\boxed{{{answer}}}", {"answer": gold}) for answer in answers for gold in ("2", "1+x", "2,1")]
    together = scorer.score(*map(list, zip(*pairs, strict=True)))
    shuffled = random.Random(0).sample(range(len(pairs)), len(pairs))
    with MathScorer(workers=2) as other:
        for start in range(0, len(pairs), 7):
            block = shuffled[start : start + 7]
            verdicts = other.score([pairs[i][0] for i in block], [pairs[i][1] for i in block])
            assert verdicts == [together[i] for i in block]


def test_numbers_need_no_worker() -> None:
    with MathScorer() as scorer:
        assert scorer.score([r"\boxed{12}"] * 3, [{"answer": a} for a in ("12", "13", 12.0)])[2].correct
        assert scorer.pool.pids == []


@pytest.mark.parametrize("mode", ["boxed", "final"])
def test_a_response_beyond_the_limit_is_not_read(mode: str) -> None:
    fits, exceeds = (r"\boxed{2}".rjust(length, "{") for length in (MAX_RESPONSE, MAX_RESPONSE + 1))
    with MathScorer(answer=mode) as scorer:
        short, long, unusable = scorer.score(
            [fits, exceeds, exceeds], [{"answer": "2"}, {"answer": "2"}, {"answer": ""}]
        )
    assert short.correct
    assert (long.verdict, long.extracted) == ("too_large", None)
    assert unusable.verdict == "gold_error"


def test_a_gold_of_any_length_is_a_verdict_and_read_in_a_moment(scorer: MathScorer) -> None:
    start = time.process_time()
    golds: list[Any] = [10**5000, -(10**5000), "9" * 5000, r"\text{" + "1" * 100_000]
    verdicts = scorer.score([r"\boxed{1}"] * 4, [{"answer": gold} for gold in golds])
    assert [verdict.verdict for verdict in verdicts] == ["gold_error"] * 4
    assert time.process_time() - start < 2


def test_wrong_use_is_an_error(scorer: MathScorer) -> None:
    with pytest.raises(ValueError, match="1 answers but 0"):
        scorer.score(["x"], [])
    with pytest.raises(ValueError, match=r"ground truth 1.*answer"):
        scorer.score(["x", "y"], [{"answer": "1"}, {"result": 2}])
    for tolerance in ("small", "1e999999999", float("nan"), [0.1]):
        with pytest.raises(ValueError, match=r"ground truth 0.*tolerance"):
            scorer.score(["x"], [{"answer": "1", "tolerance": tolerance}])
    with pytest.raises(ValueError, match="expected one of boxed, final"):
        MathScorer(answer="last")


def test_a_tolerance_pairs_each_number_with_one_that_is_free(scorer: MathScorer) -> None:
    truth = {"answer": ["1", "2"], "tolerance": 1}
    verdicts = scorer.score([r"\boxed{2, 0.5}", r"\boxed{0.5, 2}", r"\boxed{0.5, 0.5}"], [truth] * 3)
    assert [verdict.correct for verdict in verdicts] == [True, True, False]


def test_the_audit_scores_each_gold_against_itself_and_names_those_that_only_their_text_reaches(
    scorer: MathScorer,
) -> None:
    usable: list[Any] = ["0", 27.0, r"\sqrt{2}", ["1,2", "3"], r"\text{(C)}", "x+y=7", r"\frac{40}{3}\approx 13.33"]
    text_only = ["t(0,4]", r"12\text{ or so}, about 7"]
    unrunnable = ["", "x" * 4001, r"\frac{\}{p}2"]
    audited = scorer.audit([{"answer": gold} for gold in (*usable, *text_only, *unrunnable)])
    assert audited[: len(usable)] == [("correct", None)] * len(usable)
    assert audited[len(usable) :] == [("correct", "text-only")] * 2 + [("gold_error", "unrunnable")] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2516_8", Quantity("2516", "base 8")),
        ("-37_{8}", Quantity("-37", "base 8")),
        (r"11.01_{\text{two}}", Quantity("11.01", "base 2")),
        ("(2516)_{(8)}", Quantity("2516", "base 8")),
        ("A1_{16}", Quantity(r"\text{digits A1}", "base 16")),
        ("A1_{10}", Quantity("A1_{10}")),
        ("5C_2", Quantity("5C_2")),
        ("A_{16}", Quantity("A_{16}")),
        (r"\log_28+\log_{10}5+\sum^5_2x_{10}+C_5^2", Quantity(r"\log_28+\log_{10}5+\sum^5_2x_{10}+C_5^2")),
        ("7_1", Quantity("7_1", refused=True)),
        ("7_{99}", Quantity("7_{99}", refused=True)),
    ],
)
def test_a_base_is_the_unit_of_a_number_and_another_index_is_refused(text: str, expected: Quantity) -> None:
    assert quantity(text) == expected


def test_wrong_numbers_of_two_bases_are_two_classes(scorer: MathScorer) -> None:
    boxed = [rf"\boxed{{{answer}}}" for answer in ("2516_5", "2516_7", "2516_{7}")]
    classes = [verdict.answer_class for verdict in scorer.score(boxed, [{"answer": "2516_8"}] * 3)]
    assert classes[0] != classes[1] == classes[2]


def test_the_base_in_a_sentence_counts(prose: MathScorer) -> None:
    sentences = ["The answer is $2516_5$.", "It is 2516_5.", "The answer is $2516_8$.", "It is (2516_8)."]
    verdicts = prose.score(sentences, [{"answer": "2516_8"}] * 4)
    assert [verdict.verdict for verdict in verdicts] == ["wrong", "wrong", "correct", "correct"]


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"\frac{1}{100000!}", r"\frac{1}{99999!}", "wrong"),
        (r"\frac{1}{7^{5000}}", r"\frac{1}{7\cdot 7^{4999}}", "correct"),
        (r"7^{5000}", r"7\cdot 7^{4999}", "correct"),
        (rf"\frac{{{NINES}}}{{7}}+1", rf"1+\frac{{{NINES}}}{{7}}", "correct"),
        (rf"\frac{{7}}{{{NINES}}}+1", rf"1+\frac{{8}}{{{NINES}}}", "wrong"),
    ],
)
def test_values_of_thousands_of_digits_take_little_time(
    scorer: MathScorer, answer: str, gold: str, verdict: str
) -> None:
    start = time.monotonic()
    assert scorer.score([f"\\boxed{{{answer}}}"], [{"answer": gold}])[0].verdict == verdict
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("text", [r"111, \! 111", r"111,\! 111", r"111 \! 111", r"111 \!111"])
def test_blanks_around_a_negative_space_are_no_gap(text: str) -> None:
    assert normal_form(clean(text)) == "111111"
    assert [member.form for member in members(clean(text))] == ["111111"]


def test_a_hundred_thousand_blanks_are_read_in_a_moment() -> None:
    start = time.process_time()
    assert clean(" " * 100_000 + "1") == "1"
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("it equals $1+x.", "it equals $1+x$"),
        ("It costs $5. So it equals $x+1$.", "It costs 5. So it equals $x+1$."),
        ("it equals $x+1$.", "it equals $x+1$."),
        (r"\$5 and $x$", "5 and $x$"),
        ("She has $5 left.", "She has 5 left."),
        ("A profit of $70,000 on the house", "A profit of 70,000 on the house"),
        ("It is $2.50 each, or $20/hour", "It is $2.50 each, or $20/hour"),
        ("it is $5x+1", "it is $5x+1$"),
        ("It equals \u22123.", "It equals -3."),
        ("no formula", "no formula"),
        ("a $\nit equals $x$", "a \nit equals $x$"),
    ],
)
def test_dollars_are_paired_from_the_end_of_a_line_or_are_money(line: str, expected: str) -> None:
    assert final_answer(line, "final") == (expected, True)


def test_a_line_that_the_limit_cuts_does_not_count() -> None:
    response = "so $" + "x" * 4000 + "$ holds\nit equals $x+1$"
    assert final_answer(response, "final") == ("it equals $x+1$", True)


@pytest.mark.parametrize(
    ("sentence", "gold", "verdict"),
    [
        (r"$1+\frac{1}{\mathrm{e}}$", r"1+\frac{1}{\mathrm{e}}", "correct"),
        (r"It is worth $5, so $1+\frac{1}{\mathrm{e}}$", r"$1+\frac{1}{\mathrm{e}}$", "correct"),
        (r"so we get $1+\frac{1}{2}+x", r"x+\frac{3}{2}", "correct"),
        (r"so we get $1+\frac{1}{2}+x", r"\frac{1}{2}", "wrong"),
        (r"$\sqrt{2}+1", r"1+\sqrt{2}", "correct"),
        ("he pays $5 and $7 so the answer is $12", "12", "correct"),
    ],
)
def test_an_unclosed_dollar_does_not_cut_the_answer(prose: MathScorer, sentence: str, gold: str, verdict: str) -> None:
    assert prose.score([sentence], [{"answer": gold}])[0].verdict == verdict
