r"""Values of mathematics that math-verify or plain text would confuse: bases, repeated members, tiny numbers, poles."""

import time
from collections.abc import Iterator

import pytest

from dphrl.scoring import MathScorer
from dphrl.scoring.math.answers import clean, final_answer, normal_form
from dphrl.scoring.math.members import members
from dphrl.scoring.math.units import Quantity, quantity

NINES = "9" * 1990


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=5) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def prose() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=5, answer="final") as scorer:
        yield scorer


def judged(scorer: MathScorer, answer: str, gold: str, box: bool = True) -> str:
    (found,) = scorer.score([f"\\boxed{{{answer}}}" if box else answer], [{"answer": gold}])
    return found.verdict


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


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("2516_5", "2516_8", "wrong"),
        ("1101_2", "1101_{10}", "wrong"),
        (r"2516_{\text{eight}}", "2516_8", "correct"),
        ("(2516)_8", "2516_8", "correct"),
        ("02516_8", "2516_8", "correct"),
        ("1358_{10}", "2516_8", "wrong"),
        ("1358", "2516_8", "wrong"),
        ("2516", "2516_8", "correct"),
        ("2516_8", "2516", "correct"),
        ("A1_{16}", "A1_{12}", "wrong"),
        ("A1_{16}", r"\text{A1}_{16}", "correct"),
        ("x=12_5", "12_6", "wrong"),
        ("13_6, 12_5", "12_5, 13_6", "correct"),
        ("12_6, 13_5", "12_5, 13_6", "wrong"),
        ("4_5+1", "4_6+1", "wrong"),
        ("10C_2", "45", "wrong"),
        (r"\log_2 8", "3", "correct"),
    ],
)
def test_numbers_are_equal_in_value_and_base(scorer: MathScorer, answer: str, gold: str, verdict: str) -> None:
    assert judged(scorer, answer, gold) == verdict


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
        ("2,2", "2", "wrong"),
        ("1,2,2", "1,2", "wrong"),
        ("1,1,2", "1,2,2", "wrong"),
        ("2,1,2", "1,2,2", "correct"),
        (r"\{2,2\}", r"\{2\}", "wrong"),
        (r"\sqrt{2},\sqrt{2}", r"\sqrt{2}", "wrong"),
        (r"\sqrt{2},\sqrt{2},x", r"\sqrt{2},x,x", "wrong"),
        (r"x,\sqrt{2},\sqrt{2}", r"\sqrt{2},x,\frac{2}{\sqrt{2}}", "correct"),
        (r"3\pm\sqrt{2}", r"3-\sqrt{2}, 3+\sqrt{2}", "correct"),
    ],
)
def test_members_are_matched_one_to_one(scorer: MathScorer, answer: str, gold: str, verdict: str) -> None:
    assert judged(scorer, answer, gold) == verdict


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}", "wrong"),
        (r"\frac{2}{2^{99}}", r"\frac{1}{2^{98}}", "correct"),
        (r"\frac{1}{2006!}", r"\frac{1}{2004!}", "wrong"),
        (r"x>\frac{1}{2^{98}}", r"x>\frac{1}{2^{99}}", "wrong"),
        (r"(\frac{1}{2^{98}},1)", r"(\frac{1}{2^{99}},1)", "wrong"),
        (r"(1,\frac{2}{2^{99}})", r"(1,\frac{1}{2^{98}})", "correct"),
        (r"\frac{1}{2^{98}}, \pi", r"\frac{1}{2^{99}}, \pi", "wrong"),
        (r"\frac{i}{2^{98}}", r"\frac{i}{2^{99}}", "wrong"),
        ("0", r"\frac{1}{10^{20}}", "wrong"),
        ("0.0000001", r"\frac{1}{3^{15}}", "wrong"),
        (r"1.41421356 \times 10^{-9}", r"\sqrt{2}\times 10^{-9}", "correct"),
        (r"\sqrt{2}\times 10^{-9}", r"\sqrt{3}\times 10^{-9}", "wrong"),
        ("3.14159265", r"\pi", "correct"),
        (r"2\sqrt{3}-\sqrt{12}", "0", "correct"),
        (r"\sqrt{2+\sqrt{3}}", r"\frac{\sqrt{6}+\sqrt{2}}{2}", "correct"),
    ],
)
def test_tiny_numbers_are_equal_to_one_part_in_ten_thousand(
    scorer: MathScorer, answer: str, gold: str, verdict: str
) -> None:
    assert judged(scorer, answer, gold) == verdict


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
    assert judged(scorer, answer, gold) == verdict
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"\gamma^2-8", r"\gamma^2-1", "wrong"),
        (r"\gamma^2-8", r"-8+\gamma^2", "correct"),
        ("\u03b3^2-8", r"-8+\gamma^2", "correct"),
        (r"\gamma_1+\gamma_2", r"\gamma_2+\gamma_1", "correct"),
        (r"\gamma_1", r"\gamma_2", "wrong"),
        (r"\gamma(3)", "2", "wrong"),
        (r"\frac{1+\gamma}{2}", r"\frac{\gamma}{2}+\frac12", "correct"),
        (r"\Gamma\left(5\right)", "24", "correct"),
        (r"\frac{1}{0}+1", r"\frac{1}{0}+2", "wrong"),
        (r"\csc 0", r"\cot 0", "wrong"),
        (r"(1,\csc 0)", r"(1,\cot 0)", "wrong"),
        (r"\frac{1}{0}+1", r"\frac{1}{0}+1", "correct"),
    ],
)
def test_letters_are_symbols_and_poles_decide_nothing(scorer: MathScorer, answer: str, gold: str, verdict: str) -> None:
    assert judged(scorer, answer, gold) == verdict


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
        ("the answer is $1+x.", "the answer is $1+x$"),
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
    assert judged(prose, sentence, gold, box=False) == verdict


def test_an_infinite_end_is_open_however_it_is_written(scorer: MathScorer) -> None:
    assert judged(scorer, r"[-\infty, 2)", r"(-\infty, 2)") == "correct"
    assert judged(scorer, r"(-\infty, 2]", r"(-\infty, 2)") == "wrong"
