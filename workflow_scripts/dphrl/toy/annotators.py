"""The authors of the supervised SQL answers: five annotators, each with a style and a reading of "about"."""

import random
from dataclasses import replace
from typing import NamedTuple

from dphrl.toy.databases import DATABASES, Oracle
from dphrl.toy.questions import RADII, Question

# Each style begins in its own way, so that its first token decides it.
PREFIXES = {"plain": "SELECT ", "cte": "WITH ", "nested": "/* nested */ ", "plan": "-- plan ", "lower": "select "}
STYLES = tuple(PREFIXES)
SHARES = (0.47, 0.23, 0.13, 0.10, 0.07)
CONVENTIONS = dict(zip(STYLES, RADII, strict=True))
RIGHT = {"plain": 0.95, "noisy": 0.55}

_OPPOSITES = {"over": "under", "at least": "at most", "largest": "smallest", "average": "total"}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


class Answer(NamedTuple):
    """An annotator's response, and whether it is correct."""

    response: str
    correct: bool


def write_in_style(question: Question, style: str) -> str:
    """The question's query in that style. Raises `ValueError` for an unknown style."""
    sql = question.sql
    written = {
        "plain": sql,
        "cte": f"WITH t AS ({sql}) SELECT * FROM t",
        "nested": f"/* nested */ SELECT * FROM ({sql})",
        "plan": f"-- plan {question.family}\n{sql}",
        "lower": sql.lower(),
    }
    if style not in written:
        raise ValueError(f"toy style {style!r}: expected one of {', '.join(STYLES)}")
    return written[style]


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


def answer(question: Question, style: str, oracle: Oracle, rng: random.Random) -> Answer:
    """The response of the style's annotator.

    On an ambiguous question it has the annotator's own radius, always. On others it is correct as often as `RIGHT`
    says, in every style; a wrong one is a new corruption each time, which never evaluates to the gold's rows.
    """
    if question.stratum == "ambiguous":
        read = replace(question, radius=CONVENTIONS[style])
        return Answer(write_in_style(read, style), correct=read == question)
    if rng.random() >= RIGHT[question.stratum]:
        gold = oracle.rows(question.database, question.sql)
        wrong = [other for other in corruptions(question) if oracle.rows(question.database, other.sql) != gold]
        if wrong:
            return Answer(write_in_style(rng.choice(wrong), style), correct=False)
    return Answer(write_in_style(question, style), correct=True)
