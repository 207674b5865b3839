"""The maths scorer against published judgements, and the golds of public datasets against themselves."""

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from dphrl.scoring import MathScorer, Verdict
from dphrl.scoring.math.answers import clean, extract_boxed
from dphrl.scoring.math.members import members

DATA = Path(os.environ.get("DPHRL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not (DATA / "math_graded").is_dir(), reason=f"no graded answers under {DATA}: set DPHRL_TEST_DATA"
)


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


SETS = {"aime24": 30, "aime25": 30, "amc23": 40, "college_math": 2818, "math500": 500, "minerva_math": 272}


def evaluation_golds(name: str) -> list[Any]:
    rows = lines(f"math_eval/{name}/test.jsonl")
    assert len(rows) == SETS[name]
    return [row["answer"] if "answer" in row else extract_boxed(row["solution"]) for row in rows]


def training_golds() -> list[Any]:
    """The golds of the training part of MATH."""
    rows = pl.read_parquet(DATA / "math_train" / "math_train_7500.parquet")["reward_model"]
    return list(rows.struct.field("ground_truth").struct.field("target").to_list())


def audit(golds: list[Any]) -> list[Any]:
    """The golds that are not correct against themselves."""
    with MathScorer(workers=2) as scorer:
        audited = scorer.audit([{"answer": gold} for gold in golds])
    return [gold for gold, (verdict, _) in zip(golds, audited, strict=True) if verdict != "correct"]


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, 1) for name in SETS if name != "college_math"),
        ("college_math", 30),
        pytest.param("college_math", 1, marks=pytest.mark.full),
    ],
)
def test_every_gold_of_an_evaluation_set_is_correct_against_itself(name: str, every: int) -> None:
    assert audit(evaluation_golds(name)[::every]) == []


def test_every_gold_of_olympiadbench_is_correct_against_itself_and_in_any_order() -> None:
    rows = lines("math_eval/olympiadbench/test.jsonl")
    truths = [{"answer": r["final_answer"], "tolerance": r["error"], "unit": r["unit"]} for r in rows]
    with MathScorer(workers=2) as scorer:
        # A sentence and `t(0,4]`.
        reasons = {("correct", None): 673, ("correct", "text-only"): 2}
        assert Counter(scorer.audit(truths)) == reasons
        lists = [truth for truth in truths if all(c.isdigit() or c in "$,- " for c in truth["answer"][0])]
        turned = [",".join(reversed(truth["answer"][0].replace("$", "").split(","))) for truth in lists]
        verdicts = scorer.score([f"\\boxed{{{text}}}" for text in turned], lists)
    # 8,221 is one number.
    assert [v.extracted for v in verdicts if not v.correct] == ["8,221"]


@pytest.mark.parametrize("every", [pytest.param(5, id="each 5th"), pytest.param(1, id="all", marks=pytest.mark.full)])
def test_the_golds_of_the_training_sets(every: int) -> None:
    dapo = pl.read_parquet(DATA / "math_train" / "dapo_math_17k.parquet")["reward_model"].struct.field("ground_truth")
    assert audit(dapo.to_list()[::every]) == []
    # Four rows have no answer, and one has a brace that is never closed.
    unusable = ["", "", "", r"2007+\frac{\}{p}i2", ""]
    wrong = [gold for gold in training_golds()[::every] if gold in unusable]
    assert audit(training_golds()[::every]) == wrong
    assert every > 1 or wrong == unusable


CONSTANTS = {"0": 0, "1": 1, "2": 2, "1=1": 1} | dict.fromkeys(
    ("0=1", "x", "x=x", r"\phantom{1}", r"\emptyset", r"\text{yes}", r"\infty", "(0,1)", "0,1")
)
DIGITS = "0123456789"
SAMPLED = [pytest.param(160, id="each 160th"), pytest.param(1, id="all", marks=pytest.mark.full)]


def distinct_golds(every: int) -> list[str]:
    golds = [gold for name in SETS for gold in evaluation_golds(name)] + training_golds()
    golds += [gold for row in lines("math_eval/olympiadbench/test.jsonl") for gold in row["final_answer"]]
    return sorted({str(gold) for gold in golds if gold} - {r"2007+\frac{\}{p}i2"})[::every]


@pytest.mark.parametrize("every", SAMPLED)
def test_a_constant_is_right_only_for_golds_with_its_value(every: int) -> None:
    pairs = [(rf"\boxed{{{constant}}}", gold) for gold in distinct_golds(every) for constant in CONSTANTS]
    right = [pair for pair, verdict in zip(pairs, judge(pairs, "boxed"), strict=True) if verdict.correct]
    for box, gold in right:
        constant, listed = box[7:-1], members(clean(gold))
        equal = listed[0].value is not None and listed[0].value == CONSTANTS[constant]
        assert (len(listed) == 1 and equal) or gold.strip("$") == constant, (constant, gold)


@pytest.mark.parametrize("every", SAMPLED)
def test_a_changed_digit_makes_an_answer_wrong(every: int) -> None:
    random = Random(1)
    pairs = []
    for gold in distinct_golds(every):
        text = gold.replace("$", "")
        places = [place for place, character in enumerate(text) if character in DIGITS]
        if places:
            place = random.choice(places)
            digit = random.choice(DIGITS.replace(text[place], ""))
            pairs.append((rf"\boxed{{{text[:place]}{digit}{text[place + 1 :]}}}", gold))
    assert [pair for pair, verdict in zip(pairs, judge(pairs, "boxed"), strict=True) if verdict.correct] == []
