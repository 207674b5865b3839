"""The maths scorer against published judgements."""

import json
from typing import Any

from published import DATA, needs_data

from dphrl.scoring import MathScorer, Verdict

pytestmark = needs_data


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def judge(pairs: list[tuple[str, Any]], answer: str) -> list[Verdict]:
    with MathScorer(workers=2, answer=answer) as scorer:
        return scorer.score([response for response, _ in pairs], [{"answer": gold} for _, gold in pairs])


def test_the_cases_of_math_verify() -> None:
    # Its default: LaTeX and plain expressions, no precision, no other option.
    rows = lines("math_graded/math_verify_cases.jsonl")
    verdicts = judge([(row["pred"], row["gold"]) for row in rows], "final")
    differing = [
        (row["gold"], row["pred"], row["kwargs"])
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.correct != bool(row["expected"])
    ]
    assert len(rows) == 111
    assert sum(row["kwargs"] == {"match_types": ["latex", "expr"]} for row in rows) == 51
    # Read as a plain number with a decimal comma there; here, as in LaTeX, it is a list of two.
    assert differing == [("1,22", "1.22", {"match_types": ["expr"]})]


def test_the_judgements_on_gsm8k() -> None:
    rows = lines("math_graded/gsm8k_model_solutions.jsonl")
    cases = [(model, row["ground_truth"]) for row in rows for model in row.values() if isinstance(model, dict)]
    verdicts = judge([(model["solution"], gold) for model, gold in cases], "final")
    assert len(cases) == 3596
    assert [v.correct for v in verdicts] == [model["is_correct"] for model, _ in cases]


def test_the_judgements_of_the_qwen_grader() -> None:
    rows = lines("math_graded/qwen_math_cot.jsonl")
    cases = [
        (response, row["gt"], score)
        for row in rows
        for response, score in zip(row["response"], row["score"], strict=True)
    ]
    verdicts = judge([(response, gold) for response, gold, _ in cases], "boxed")
    differing = [
        (gold, verdict.extracted, score)
        for verdict, (_, gold, score) in zip(verdicts, cases, strict=True)
        if verdict.correct != score
    ]
    assert len(cases) == 456
    # 10{,}000 is ten thousand.
    assert differing == [("10{,}000", "10000", False)]


def test_a_time_that_the_qwen_file_damaged_is_right_against_its_solution() -> None:
    row = lines("math_graded/qwen_math_cot.jsonl")[0]
    assert row["gt"] == "4:30p.."
    verdicts = judge([(response, row["gt_cot"]) for response in row["response"]], "boxed")
    assert all(verdict.correct for verdict in verdicts)
