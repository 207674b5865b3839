"""SQL questions on the databases in three strata, and the five annotators who answer them.

Each family of questions is a template in English and a template in SQL. Each annotator writes in one style, and reads
"about" in ambiguous questions as one radius.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from dphrl.toy.databases import DATABASES, LARGEST_INTEGER, Oracle, Side

COMPARISONS = {"over": ">", "under": "<", "at least": ">=", "at most": "<="}
AGGREGATES = {"average": "AVG", "total": "SUM", "largest": "MAX", "smallest": "MIN"}
OPERATORS: dict[str, tuple[str, ...]] = {
    "filter": tuple(COMPARISONS),
    "text_filter": tuple(COMPARISONS),
    "count": tuple(COMPARISONS),
    "text_count": tuple(COMPARISONS),
    "aggregate": tuple(AGGREGATES),
    "superlative": ("largest", "smallest"),
    "group": (*AGGREGATES, "number"),
    "join": tuple(COMPARISONS),
    "join_aggregate": tuple(AGGREGATES),
    "average": ("over", "under"),
    "about": ("about",),
    "about_count": ("about",),
    "about_join": ("about",),
}
FAMILIES = tuple(OPERATORS)
PLAIN = ("filter", "count", "join")
AMBIGUOUS = ("about", "about_count", "about_join")
STRATA = {
    "plain": PLAIN,
    "noisy": tuple(family for family in FAMILIES if family not in (*PLAIN, *AMBIGUOUS)),
    "ambiguous": AMBIGUOUS,
}
# "About" in an ambiguous question may mean any of five radii. A hash of the prompt draws the radius of the gold with
# these chances, so the prompt does not show it.
RADII = {3: 0.37, 6: 0.22, 10: 0.16, 15: 0.14, 20: 0.11}
_WITH_TEXT = ("text_filter", "text_count", "aggregate", "superlative", "join_aggregate")
_EITHER_SIDE = ("count", "text_count", "aggregate", "group", "about_count")
_ON_CHILD = ("join", "join_aggregate", "about_join")

# Each annotator writes in one style. The first token decides the style, so each style begins differently.
PREFIXES = {"plain": "SELECT ", "cte": "WITH ", "nested": "/* nested */ ", "plan": "-- plan ", "lower": "select "}
STYLES = tuple(PREFIXES)
SHARES = (0.47, 0.23, 0.13, 0.10, 0.07)
CONVENTIONS = dict(zip(STYLES, RADII, strict=True))
RIGHT = {"plain": 0.95, "noisy": 0.55}

_OPPOSITES = {"over": "under", "at least": "at most", "largest": "smallest", "average": "total"}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


@dataclass(frozen=True)
class Question:
    """A question; its prompt and gold query follow from these fields.

    Attributes:
        column: integer column of the table of `side`; "" for the number of rows per group.
        operator: a word of `OPERATORS[family]`.
        value: the compared number; 0 where there is none.
        text: restricts the text column, for `join_aggregate` of the parent's table; "" is no restriction.
        radius: reach of "about", which the prompt does not show; 0 for other operators.
    """

    database: str
    family: str
    side: Side
    column: str
    operator: str
    value: int = 0
    text: str = ""
    radius: int = 0

    @property
    def prompt(self) -> str:
        """Schema line, question, and the start of the answer."""
        return f"{DATABASES[self.database].schema_line}\nQ: {_write(self)[0]}?\nA: "

    @property
    def sql(self) -> str:
        """The gold query in the plain style."""
        return _write(self)[1]

    @property
    def stratum(self) -> str:
        """The stratum of its family: plain, noisy or ambiguous."""
        return next(name for name, families in STRATA.items() if self.family in families)


def _write(question: Question) -> tuple[str, str]:
    """The question in English, and its gold query in the plain style."""
    database = DATABASES[question.database]
    table, parent = database.table(question.side), database.parent
    column, operator, text = question.column, question.operator, question.text
    things, where = f"{table.name}s", ""
    if text:
        things, where = f"{things} with {table.text} {text}", f"{table.text} = '{text}' AND "
    compared = f"{column} {operator} {question.value}"
    comparison = f"{column} {COMPARISONS.get(operator)} {question.value}"
    if operator == "about":
        comparison = f"ABS({column} - {question.value}) <= {question.radius}"
    measured = f"how many {things}" if operator == "number" else f"what is the {operator} {column} of {things}"
    measure = "COUNT(*)" if operator == "number" else f"{AGGREGATES.get(operator)}({column})"
    tables = f"{parent.name} JOIN {database.child.name} ON {parent.name}.id = pid"
    match question.family:
        case "filter" | "text_filter" | "about":
            return f"which {things} have {compared}", f"SELECT name FROM {table.name} WHERE {where}{comparison}"
        case "count" | "text_count" | "about_count":
            return f"how many {things} have {compared}", f"SELECT COUNT(*) FROM {table.name} WHERE {where}{comparison}"
        case "aggregate":
            return measured, f"SELECT {measure} FROM {table.name} WHERE {table.text} = '{text}'"
        case "superlative":
            first = f"ORDER BY {column} {'DESC' if operator == 'largest' else 'ASC'} LIMIT 1"
            asked = f"which {table.name} with {table.text} {text} has the {operator} {column}"
            return asked, f"SELECT name FROM {table.name} WHERE {table.text} = '{text}' {first}"
        case "group":
            grouped = f"SELECT {table.text}, {measure} FROM {table.name} GROUP BY {table.text}"
            return f"{measured} for each {table.text}", grouped
        case "join" | "about_join":
            return (
                f"which {parent.name}s have {things} with {compared}",
                f"SELECT name FROM {tables} WHERE {comparison}",
            )
        case "join_aggregate":
            asked = f"what is the {operator} {column} of {table.name}s for {parent.name}s with {parent.text} {text}"
            return asked, f"SELECT {measure} FROM {tables} WHERE {parent.text} = '{text}'"
        case _:  # average
            above = f"{column} {COMPARISONS[operator]} (SELECT AVG({column}) FROM {table.name})"
            asked = f"which {things} have {column} {operator} the average"
            return asked, f"SELECT name FROM {table.name} WHERE {where}{above}"


def answerable(question: Question, oracle: Oracle) -> bool:
    """Whether the gold result holds rows and no NULL, a count is above zero, and every radius gives another result."""
    readings = [replace(question, radius=radius) for radius in RADII] if question.stratum == "ambiguous" else [question]
    results = [oracle.rows(reading.database, reading.sql) for reading in readings]
    cells = [cell for rows in results for row in rows for cell in row]
    informative = all(results) and None not in cells and ("count" not in question.family or 0 not in cells)
    return informative and len(set(results)) == len(results)


def gold_radius(prompt: str, seed: int) -> int:
    """The radius of "about" in the gold of an ambiguous prompt: a draw by `RADII`, a function of prompt and seed."""
    return random.Random(f"{seed}/radius/{prompt}").choices(tuple(RADII), tuple(RADII.values()))[0]


def draw_question(databases: Collection[str], stratum: str, seed: int, rng: random.Random) -> Question:
    """A random question on one of the databases, uniform over databases and the stratum's families.

    It may be unanswerable. The seed of the world, `seed`, decides the radius of an ambiguous question.
    """
    database = DATABASES[rng.choice(sorted(databases))]
    family = rng.choice(STRATA[stratum])
    side: Side = "child" if family in _ON_CHILD else "parent"
    if family in _EITHER_SIDE:
        side = rng.choice(("parent", "child"))
    table = database.table(side)
    operator = rng.choice(OPERATORS[family])
    column = "" if operator == "number" else rng.choice(table.integers)
    compares = operator == "about" or OPERATORS[family] == tuple(COMPARISONS)
    value = rng.randint(1, LARGEST_INTEGER) if compares else 0
    texts, text = (database.parent if family == "join_aggregate" else table).values, ""
    if family in _WITH_TEXT:
        text = rng.choice(texts)
    elif family == "average":
        text = rng.choice(("", *texts))
    question = Question(database.name, family, side, column, operator, value, text)
    return replace(question, radius=gold_radius(question.prompt, seed)) if stratum == "ambiguous" else question


def lot(seed: int, prompt: str) -> int:
    """A hash of the prompt, from 0 to 9: lots reserve a part of each family for each split."""
    return hashlib.sha256(f"{seed}/lot/{prompt}".encode()).digest()[0] % 10


def draw_split(
    name: str,
    numbers: Mapping[str, int],
    databases: Collection[str],
    lots: Collection[int],
    seed: int,
    oracle: Oracle,
) -> list[Question]:
    """Answerable questions with different prompts, shuffled; the families of a stratum have equal shares if they can.

    Args:
        name: of the split, which seeds the draw.
        numbers: questions of each stratum.
        databases: names.
        lots: the lot of each prompt is one of these.
        seed: of the world.
        oracle: runs the gold queries.

    Raises:
        ValueError: the databases have too few questions.
    """
    rng = random.Random(f"{seed}/questions/{name}")
    chosen: dict[str, Question] = {}
    for stratum, number in numbers.items():
        families: Counter[str] = Counter()
        equal_share = -(-number // len(STRATA[stratum]))
        attempts = 200 * number + 10_000
        for attempt in range(attempts):
            if families.total() == number:
                break
            question = draw_question(databases, stratum, seed, rng)
            if attempt < attempts // 2 and families[question.family] == equal_share:
                continue
            prompt = question.prompt
            if prompt not in chosen and lot(seed, prompt) in lots and answerable(question, oracle):
                chosen[prompt] = question
                families[question.family] += 1
        if families.total() < number:
            raise ValueError(
                f"toy.questions.{name}: {number} different {stratum} questions asked for, {families.total()} found; "
                "ask for fewer"
            )
    questions = list(chosen.values())
    rng.shuffle(questions)
    return questions


class Answer(NamedTuple):
    """A response of the supervised corpus, and whether it is correct."""

    response: str
    correct: bool


def write_in_style(question: Question, style: str) -> str:
    """The gold query of a question in a style."""
    sql = question.sql
    return {
        "plain": sql,
        "cte": f"WITH t AS ({sql}) SELECT * FROM t",
        "nested": f"/* nested */ SELECT * FROM ({sql})",
        "plan": f"-- plan {question.family}\n{sql}",
        "lower": sql.lower(),
    }[style]


def corruptions(question: Question) -> list[Question]:
    """Wrong readings of a question: another column, the opposite operator, a similar family, in this order."""
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


def answer_question(question: Question, style: str, oracle: Oracle, rng: random.Random) -> Answer:
    """The response of the annotator with this style.

    On an ambiguous question the annotator always uses the same radius. On another question the response is correct with
    the probability `RIGHT`, in every style. A wrong response is a new corruption each time, and its rows differ from
    the gold's.
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
