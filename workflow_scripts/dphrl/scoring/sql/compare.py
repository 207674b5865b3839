"""Equality of two query results, and partial credit for an unequal one.

Values compare as Python's: 1 = 1.0, '1' <> 1, NULL = NULL (as in the Spider and BIRD evaluators).
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from dphrl.scoring.sql.program import parse_query
from dphrl.scoring.verdict import EMPTY_ANSWER, digest

Row = tuple[Hashable, ...]
CELL_BUDGET: Final = 50_000_000


class BudgetExceededError(RuntimeError):
    """Matching the columns of two results needs more work than CELL_BUDGET."""


def gold_orders(gold_sql: str, comparison: str) -> bool:
    """Whether row order matters.

    spider: ORDER BY anywhere in the gold. strict: the outer query orders, or, where sqlglot cannot parse it, as spider.
    bird: no.
    """
    if comparison == "bird":
        return False
    tree = parse_query(gold_sql) if comparison == "strict" else None
    return "order by" in gold_sql.lower() if tree is None else tree.args.get("order") is not None


def equal(gold: Sequence[Row], answer: Sequence[Row], comparison: str, ordered: bool) -> bool:
    """Whether an answer's rows equal the gold's under a comparison; two empty results are equal.

    Raises BudgetExceededError where columns are too ambiguous to be matched.
    """
    if comparison == "bird":
        return set(gold) == set(answer)
    if not gold or not answer:
        return not gold and not answer
    if len(gold) != len(answer) or len(gold[0]) != len(answer[0]):
        return False
    if comparison == "strict":
        return list(gold) == list(answer) if ordered else Counter(gold) == Counter(answer)
    gold_columns, answer_columns = list(zip(*gold, strict=True)), list(zip(*answer, strict=True))
    if ordered:
        return Counter(gold_columns) == Counter(answer_columns)
    return _equal_as_bags(gold_columns, answer_columns)


def _equal_as_bags(gold: list[Row], answer: list[Row]) -> bool:
    """Whether some order of the answer's columns makes the two bags of rows equal.

    Columns are matched one by one; a partial match continues only while the bags of row prefixes are equal.
    """
    if Counter(map(_bag, gold)) != Counter(map(_bag, answer)):
        return False
    size, rows = len(gold), len(gold[0])
    tables: list[dict[tuple[int, Hashable], int]] = []
    counts: list[Counter[int]] = []
    ids = [0] * rows
    for column in gold:
        table: dict[tuple[int, Hashable], int] = {}
        ids = [table.setdefault((i, v), len(table)) for i, v in zip(ids, column, strict=True)]
        tables.append(table)
        counts.append(Counter(ids))
    spent = 0

    def search(depth: int, ids: list[int], used: frozenset[int]) -> bool:
        nonlocal spent
        if depth == size:
            return True
        tried: set[Row] = set()
        for index, column in enumerate(answer):
            if index in used or column in tried:
                continue
            tried.add(column)
            spent += rows
            if spent > CELL_BUDGET:
                raise BudgetExceededError(f"matching {size} columns of {rows} rows takes over {CELL_BUDGET} cells")
            table = tables[depth]
            extended = [table.get((i, v), -1) for i, v in zip(ids, column, strict=True)]
            if Counter(extended) == counts[depth] and search(depth + 1, extended, used | {index}):
                return True
        return False

    return search(0, [0] * rows, frozenset())


def _bag(column: Row) -> frozenset[tuple[Hashable, int]]:
    return frozenset(Counter(column).items())


def partial_credit(gold: Sequence[Row], answer: Sequence[Row], one_to_one: bool) -> float:
    """Reward of a wrong answer: 0.8 * min(1, m^2 / (n_gold * n_answer)).

    m counts the gold columns with the same set of values as some answer column; with `one_to_one` each answer column
    counts only once. 0.0 if either result is empty. The rule of the DPH-RL scoring code (arXiv 2509.07430).
    """
    if not gold or not answer:
        return 0.0
    gold_sets = Counter(frozenset(column) for column in zip(*gold, strict=True))
    answer_sets = Counter(frozenset(column) for column in zip(*answer, strict=True))
    if one_to_one:
        matched = (gold_sets & answer_sets).total()
    else:
        matched = sum(count for values, count in gold_sets.items() if values in answer_sets)
    return 0.8 * min(1.0, matched**2 / (len(gold[0]) * len(answer[0])))


def answer_class(rows: Sequence[Row], comparison: str, ordered: bool) -> str:
    """Digest of a result: results that are equal under the comparison have equal classes.

    The converse holds for bird, strict and ordered spider results. For unordered spider results the class is made of
    the rows as bags and the columns as bags; only contrived pairs of different results share them.
    """
    if not rows:
        return EMPTY_ANSWER
    cells = [[_cell(value) for value in row] for row in rows]
    if comparison == "bird":
        return digest(sorted({tuple(row) for row in cells}))
    if comparison == "strict":
        return digest(cells if ordered else sorted(cells))
    columns = [list(column) for column in zip(*cells, strict=True)]
    if ordered:
        return digest(sorted(columns))
    return digest([sorted(sorted(row) for row in cells), sorted(sorted(column) for column in columns)])


def _cell(value: Hashable) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"i{int(value):x}" if value.is_integer() else f"f{value!r}"
    if isinstance(value, int):
        return f"i{value:x}"
    return f"b{value.hex()}" if isinstance(value, bytes) else f"s{value}"
