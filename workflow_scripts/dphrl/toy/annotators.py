"""The authors of the supervised SQL answers: five annotators, one per style, each with different blind spots."""

import random
from dataclasses import replace
from typing import Literal, NamedTuple

from dphrl.toy.databases import DATABASES, Oracle
from dphrl.toy.questions import Question

BLIND_RATES = {"plain": 0.48, "cte": 0.55, "nested": 0.60, "plan": 0.66, "lower": 0.72}
STYLES = tuple(BLIND_RATES)
SHARES = (0.24, 0.20, 0.20, 0.18, 0.18)
EASY_FAMILIES = ("filter", "count", "group")
RIGHT_ON_BLIND_SPOT = 0.03
RIGHT_ELSEWHERE = 0.95

_OPPOSITES = {"over": "under", "at least": "at most", "largest": "smallest", "average": "total"}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


class Answer(NamedTuple):
    """An annotator's response, whether it is correct, and whether the question is on a blind spot."""

    response: str
    correct: bool
    blind: bool


def write_in_style(question: Question, style: str) -> str:
    """The question's query in that style. Raises `ValueError` for an unknown style."""
    sql = question.sql
    written = {
        "plain": sql,
        "cte": f"WITH t AS ({sql}) SELECT * FROM t",
        "nested": f"SELECT * FROM ({sql})",
        "plan": f"-- plan {question.family}\n{sql}",
        "lower": sql.lower(),
    }
    if style not in written:
        raise ValueError(f"toy style {style!r}: expected one of {', '.join(STYLES)}")
    return written[style]


def is_blind(question: Question, style: str, seed: int) -> bool:
    """Whether the style's annotator is blind to the question's family, to its column or to its operator.

    Each of the three is drawn at the rate that makes their union `BLIND_RATES`. Blind spots by the
    combination of the three would be finer than the base model can learn: all its styles would then make equal errors.
    """
    if question.family in EASY_FAMILIES:
        return False
    rate = 1 - (1 - BLIND_RATES[style]) ** (1 / 3)
    column = f"column/{question.database}/{question.column}"
    spots = (f"family/{question.family}", column, f"operator/{question.operator}")
    return any(random.Random(f"{seed}/blind/{style}/{spot}").random() < rate for spot in spots)


def corruptions(question: Question) -> list[Question]:
    """Wrong readings of a question: with another column, the opposite operator, a similar family, in this order."""
    integers = DATABASES[question.database].table(question.side).integers
    others = [replace(question, column=other) for other in integers if question.column and other != question.column]
    opposite = [replace(question, operator=word) for word in [_OPPOSITES.get(question.operator)] if word]
    return others + opposite + _confusions(question)


def _confusions(question: Question) -> list[Question]:
    parent = DATABASES[question.database].parent
    match question.family:
        case "filter":
            return [replace(question, family="count")]
        case "text_filter":
            return [replace(question, family="filter", text=""), replace(question, family="text_count")]
        case "count" if question.side == "parent":
            return [replace(question, family="filter")]
        case "text_count" if question.side == "parent":
            return [replace(question, family="count", text=""), replace(question, family="text_filter")]
        case "text_count":
            return [replace(question, family="count", text="")]
        case "aggregate":
            return [replace(question, family="group", text="")]
        case "superlative":
            return [replace(question, family="aggregate")]
        case "group" if question.operator == "number":
            return [replace(question, side="child" if question.side == "parent" else "parent")]
        case "join":
            return [replace(question, family="filter", side="parent", column=column) for column in parent.integers]
        case "join_aggregate":
            return [replace(question, family="aggregate", side="parent", column=column) for column in parent.integers]
        case "average" if question.text:
            return [replace(question, text="")]
    return []


def answer(
    question: Question, style: str, design: Literal["soft", "sharp"], seed: int, oracle: Oracle, rng: random.Random
) -> Answer:
    """The response of the style's annotator: correct with probability 0.95, 0.03 on a blind spot.

    A wrong one never evaluates to the gold's rows.
    """
    blind = is_blind(question, style, seed)
    if rng.random() < (RIGHT_ON_BLIND_SPOT if blind else RIGHT_ELSEWHERE):
        return Answer(write_in_style(question, style), correct=True, blind=blind)
    gold = oracle.rows(question.database, question.sql)
    wrong = [other for other in corruptions(question) if oracle.rows(question.database, other.sql) != gold]
    if not wrong:
        return Answer(write_in_style(question, style), correct=True, blind=blind)
    if design == "soft":
        chosen = rng.choice(wrong)
    else:
        habit = random.Random(f"{seed}/habit/{style}/{question.database}/{question.family}").random()
        chosen = wrong[int(habit * len(wrong))]
    return Answer(write_in_style(chosen, style), correct=False, blind=blind)
