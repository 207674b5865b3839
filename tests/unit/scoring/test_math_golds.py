"""The golds of public datasets: right against themselves, never reached by constants or by another digit.

The short tests take a part of the golds, those marked `full` take all of them.
"""

import json
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any, Final

import polars as pl
import pytest
from published import DATA, needs_data

from dphrl.data.answer_text import last_boxed
from dphrl.scoring import MathScorer
from dphrl.scoring.math.answers import clean, normal_form, number
from dphrl.scoring.math.members import members

pytestmark = needs_data

Truth = dict[str, Any]

# By set: its rows, and the step from one row to the next in the short test of the audit.
SETS: Final = {
    "aime24": (30, 1),
    "aime25": (30, 1),
    "amc23": (40, 1),
    "math500": (500, 5),
    "minerva_math": (272, 5),
    "olympiadbench": (675, 10),
    "college_math": (2818, 60),
    "dapo_math_17k": (17917, 30),
    "math_train_7500": (7500, 30),
}
# Four rows of MATH have no answer, and one has a brace that is never closed.
UNUSABLE: Final = ("", r"2007+\frac{\}{p}i2")
# Golds that only the same text reaches, as the audit names them: sentences, series that end in dots, `t(0,4]`.
TEXT_ONLY: Final = {"minerva_math": 4, "olympiadbench": 2, "college_math": 306, "math_train_7500": 7}
CONSTANTS: Final = {"0": 0, "1": 1, "2": 2, "1=1": 1} | dict.fromkeys(
    ("0=1", "x", "x=x", r"\phantom{1}", r"\emptyset", r"\text{yes}", r"\infty", "(0,1)", "0,1")
)
DIGITS: Final = "0123456789"
LONG: Final = 60
SAMPLED: Final = [pytest.param(400, id="each 400th"), pytest.param(1, id="all", marks=pytest.mark.full)]


def truths(name: str) -> list[Truth]:
    """The ground truths of a set, as its dataset is prepared."""
    if name == "dapo_math_17k":
        rows = pl.read_parquet(DATA / "math_train" / f"{name}.parquet")["reward_model"]
        return [{"answer": gold} for gold in rows.struct.field("ground_truth")]
    if name == "math_train_7500":
        rows = pl.read_parquet(DATA / "math_train" / f"{name}.parquet")["reward_model"]
        return [{"answer": gold} for gold in rows.struct.field("ground_truth").struct.field("target")]
    lines = map(json.loads, (DATA / "math_eval" / name / "test.jsonl").read_text().splitlines())
    if name == "olympiadbench":
        return [{"answer": row["final_answer"], "tolerance": row["error"], "unit": row["unit"]} for row in lines]
    return [{"answer": row["answer"] if "answer" in row else last_boxed(row["solution"])} for row in lines]


def distinct_truths(every: int) -> list[Truth]:
    """The golds of all sets, each once."""
    texts = {json.dumps(truth) for name in SETS for truth in truths(name) if truth["answer"] not in UNUSABLE}
    return list(map(json.loads, sorted(texts)[::every]))


def gold_text(truth: Truth) -> str:
    """The gold as a model would box it."""
    answer = truth["answer"] if isinstance(truth["answer"], list) else [truth["answer"]]
    return ", ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in answer)


def right(pairs: list[tuple[str, Truth]]) -> list[tuple[str, Truth]]:
    """The answers that earn a reward within a second, as nearly all do that earn one."""
    with MathScorer(workers=2, timeout_s=1) as scorer:
        verdicts = scorer.score([rf"\boxed{{{answer}}}" for answer, _ in pairs], [truth for _, truth in pairs])
    return [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.correct]


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, every) for name, (_, every) in SETS.items()),
        *(pytest.param(name, 1, marks=pytest.mark.full) for name, (_, every) in SETS.items() if every > 1),
    ],
)
def test_every_gold_is_right_against_itself(name: str, every: int) -> None:
    golds = truths(name)
    assert len(golds) == SETS[name][0]
    golds = golds[::every]
    with MathScorer(workers=2) as scorer:
        audited = scorer.audit(golds)
    assert [gold for gold, (verdict, _) in zip(golds, audited, strict=True) if verdict != "correct"] == [
        gold for gold in golds if gold["answer"] in UNUSABLE
    ]
    if every == 1:
        assert [reason for _, reason in audited].count("text-only") == TEXT_ONLY.get(name, 0)


def changed(text: str, random: Random) -> Iterator[str]:
    """The text with another digit at each place; of a long text, at one place."""
    places = [place for place, character in enumerate(text) if character in DIGITS]
    for place in places if len(text) <= LONG else random.sample(places, min(1, len(places))):
        yield text[:place] + random.choice(DIGITS.replace(text[place], "")) + text[place + 1 :]


def rounded(text: str) -> list[Fraction | None]:
    """The numbers that a text lists, to six places."""
    return [None if member.value is None else round(member.value, 6) for member in members(clean(text))]


@pytest.mark.parametrize("every", SAMPLED)
def test_a_constant_is_right_only_for_golds_with_its_value(every: int) -> None:
    pairs = right([(constant, truth) for truth in distinct_truths(every) for constant in CONSTANTS])
    assert [pair for pair in pairs if not says_the_same(*pair)] == []


def says_the_same(constant: str, truth: Truth) -> bool:
    """Whether a gold has the value of a constant, or its text."""
    golds = members(clean(gold_text(truth)).strip("()"))
    texts = sorted(normal_form(gold.sides.values[-1]) for gold in golds)
    # `2 seconds` and `1_6` may be answered without the unit and the base.
    value = golds[0].value if golds[0].is_single else number(texts[0])
    if len(golds) == 1 and value is not None and value == CONSTANTS[constant]:
        return True
    # A point without its brackets, a list in another order, `y=x` for x, `Yes.` for yes.
    return texts == sorted(normal_form(member.text) for member in members(clean(constant).strip("()")))


@pytest.mark.parametrize("every", SAMPLED)
def test_another_digit_makes_the_answer_to_a_number_wrong(every: int) -> None:
    random = Random(1)
    pairs = [
        (answer, truth)
        for truth in distinct_truths(every)
        # Another digit may be within the tolerance.
        if not truth.get("tolerance") and all(member.value is not None for member in members(clean(gold_text(truth))))
        for answer in changed(gold_text(truth), random)
    ]
    # Decimals are compared to six places, and 20^0 is 10^0.
    accepted = [pair for pair in right(pairs) if "^{0}" not in pair[0]]
    assert [pair for pair in accepted if rounded(pair[0]) != rounded(gold_text(pair[1]))] == []


@pytest.mark.parametrize("every", SAMPLED)
def test_another_digit_makes_nearly_every_answer_to_an_expression_wrong(every: int) -> None:
    random = Random(2)
    golds = [
        truth
        for truth in distinct_truths(every)
        if any(member.value is None for member in members(clean(gold_text(truth))))
    ]
    pairs = [(answer, truth) for truth in golds for answer in list(changed(gold_text(truth), random))[:1]]
    accepted = right(pairs)
    print(f"\n{len(pairs):,} expressions with another digit, right: {accepted}")
    # The digit is in a step before the last side, or in words around it.
    assert len(accepted) <= len(pairs) / 100
