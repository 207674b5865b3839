r"""Mathematics: the last \boxed{}, exact comparison, math-verify behind it, and answers that would hang or fool it."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from dphrl.scoring import MathScorer, audit_gold
from dphrl.scoring.extract import extract_boxed
from dphrl.scoring.maths import normalise_answer

GRADED = Path(os.environ.get("DPHRL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "math_graded"


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=2) as scorer:
        yield scorer


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"so \boxed{1} or \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed {7}", "7"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"a stray { and \boxed{4} and }", "4"),
        (r"\boxed{5} then \boxed{6", "5"),
        (r"\boxed{}", None),
        (r"\boxed 8", None),
        ("the answer is 9", None),
    ],
)
def test_the_last_box_is_the_answer(response: str, expected: str | None) -> None:
    assert extract_boxed(response) == expected


def test_a_bomb_of_boxes_is_read_in_linear_time() -> None:
    start = time.monotonic()
    assert extract_boxed(r"\boxed{" * 100_000) is None
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ 1,234,567 $", "1234567"),
        ("(1,234)", "(1,234)"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\left( x , y \right)", "(x,y)"),
        (r"336^\circ", "336"),
        ("1  2/3", "1 2/3"),
        ("1\x00\u200b.", "1"),
        ("\u22125", "-5"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalise_answer(text) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("42", 42, "correct"),
        ("42", 42.0, "correct"),
        ("42.0", "42", "correct"),
        ("033", "33", "correct"),
        ("1,000", "1000", "correct"),
        (r"\frac{2}{4}", "0.5", "correct"),
        ("-1/2", r"-\frac{1}{2}", "correct"),
        ("3e2", "300", "correct"),
        ("43", "42", "wrong"),
        ("1/3", r"\frac{2}{3}", "wrong"),
        ("1/0", "1", "wrong"),
        ("1e999999999", "1", "wrong"),
        ("1e0000000099999999999", "1", "wrong"),
        ("2 + 1e999999999", "1", "wrong"),
        ("1 2/3", "4", "wrong"),
        ("x+1", "1+x", "correct"),
        (r"2\sqrt{2}", r"\sqrt{8}", "correct"),
        ("(1, 2)", "(1,2)", "correct"),
        ("[1,2)", "(1,2)", "wrong"),
        (r"\text{Evelyn}", r"\text{Evelyn}", "correct"),
        ("", "1", "no_answer"),
        (r"\$", "1", "wrong"),
        ("1" * 4001, "1", "too_large"),
        ("9" * 3999, "1", "wrong"),
        ("1", "", "gold_error"),
    ],
)
def test_verdicts(scorer: MathScorer, answer: str, gold: str | float, verdict: str) -> None:
    (found,) = scorer.score([f"so \\boxed{{{answer}}}"], [{"answer": gold}])
    assert (found.verdict, found.correct) == (verdict, verdict == "correct"), found
    assert found.reward == float(found.correct)


def test_equal_answers_share_a_class(scorer: MathScorer) -> None:
    boxed = [r"\boxed{0.5}", r"\boxed{\frac{2}{4}}", r"\boxed{\frac{\sqrt{4}}{4}}", r"\boxed{0.25}", r"\boxed{1/4}"]
    verdicts = scorer.score(boxed, [{"answer": "1/2"}] * len(boxed))
    assert [v.correct for v in verdicts] == [True, True, True, False, False]
    assert len({v.answer_class for v in verdicts[:3]}) == 1
    assert verdicts[3].answer_class == verdicts[4].answer_class != verdicts[0].answer_class


def test_numbers_need_no_worker() -> None:
    with MathScorer() as scorer:
        assert scorer.score([r"\boxed{12}"] * 3, [{"answer": a} for a in ("12", "13", 12.0)])[2].correct
        assert scorer.pool.pids == []


def test_bombs_end_at_the_deadline_and_harm_nobody_else() -> None:
    bombs = ["9^{9^{9^{9}}}", "(x+1)^{1000000}", "7^{10^{9}}+y"]
    boxed = [f"\\boxed{{{bomb}}}" for bomb in bombs] + [r"\boxed{\sqrt{4}}"]
    with MathScorer(timeout_s=0.7, memory_mib=1024) as scorer:
        start = time.monotonic()
        verdicts = scorer.score(boxed, [{"answer": "2"}] * len(boxed))
        assert time.monotonic() - start < 25
    assert not any(v.correct for v in verdicts[:3])
    assert {v.verdict for v in verdicts[:3]} <= {"timeout", "out_of_memory", "wrong"}
    assert verdicts[3].correct


def test_wrong_use_is_an_error(scorer: MathScorer) -> None:
    with pytest.raises(ValueError, match="1 answers but 0"):
        scorer.score(["x"], [])
    with pytest.raises(ValueError, match=r"ground truth 1.*answer"):
        scorer.score(["x", "y"], [{"answer": "1"}, {"result": 2}])


def test_the_audit_of_gold(scorer: MathScorer) -> None:
    answers = ["0", r"\sqrt{2}", "", r"\text{(C)}", "x" * 4001]
    gold = pl.DataFrame(
        {
            "prompt_id": list("abcde"),
            "ground_truth": [json.dumps({"answer": answer}) for answer in answers],
            "kept": [True] * 5,
            "reason": pl.Series([None] * 5, dtype=pl.String),
        }
    )
    audited = audit_gold(gold, scorer)
    assert audited["kept"].to_list() == [True, True, False, True, False]
    assert audited["reason"].to_list() == [None, None, "unrunnable", None, "unrunnable"]


@pytest.mark.skipif(not GRADED.is_dir(), reason=f"no graded answers at {GRADED}: set DPHRL_TEST_DATA")
def test_agreement_with_the_qwen_grader(scorer: MathScorer) -> None:
    rows = [json.loads(line) for line in (GRADED / "qwen_math_cot.jsonl").read_text().splitlines()]
    pairs = [(r, row["gt"], s) for row in rows for r, s in zip(row["response"], row["score"], strict=True)]
    verdicts = scorer.score([response for response, _, _ in pairs], [{"answer": gold} for _, gold, _ in pairs])
    differing = [(g, v.extracted, s) for v, (_, g, s) in zip(verdicts, pairs, strict=True) if v.correct != s]
    assert len(pairs) == 456
    assert len(differing) <= 3, differing
