"""The SQL in a response, and facts of it from its syntax tree, by sqlglot (imported late: only workers need it)."""

import logging
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from dphrl.config.scorers import SqlAnswer
from dphrl.scoring.verdict import digest

_MOD: Final = re.compile(r"\bmod\s*\(", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"```sql[ \t]*\r?\n\s*--\s*Your SQL query\s*```", re.IGNORECASE)
_FENCE: Final = re.compile(r"```sql[ \t]*\r?\n(.*?)```", re.IGNORECASE | re.DOTALL)
_COMMENT_OR_SPACE: Final = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+", re.DOTALL)
_CURRENT_YEAR: Final = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)
MAX_PROGRAM_CHARACTERS: Final = 10_000
# sqlglot reads the arguments of a possible type (`date(...)`) twice, so its time doubles with each level.
MAX_PROGRAM_DEPTH: Final = 10
# Errors of a parser on odd text, besides its own error class.
_LIBRARY_ERRORS: Final = (RecursionError, ValueError, TypeError, AttributeError, LookupError)


def extract_sql(response: str, answer: SqlAnswer) -> str | None:
    """The SQL of a response, or None if there is none.

    `answer` is `fenced` (the last ```sql block; the prompt's placeholder block, if repeated, does not count) or `bare`
    (the whole response; leading `--` comment lines stay in it).
    """
    blocks = [response] if answer == "bare" else _FENCE.findall(_PLACEHOLDER.sub("", response))
    text = blocks[-1].strip() if blocks else ""
    return text if _without_comments_before(text) else None


def _without_comments_before(sql: str) -> str:
    match = _COMMENT_OR_SPACE.match(sql)
    return sql[match.end() if match else 0 :]


def normalise_sql(sql: str) -> str:
    """The repairs that the Spider evaluation and the reward of DPH-RL make before they execute a query."""
    sql = sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!=")
    return _CURRENT_YEAR.sub("2020", sql)


def is_select(sql: str) -> bool:
    """Whether the statement begins as a query; that it only reads is enforced by SQLite's authorizer."""
    return re.match(r"(?:select|with)\b", _without_comments_before(sql), re.IGNORECASE) is not None


def parse_query(sql: str) -> Any:
    """The syntax tree of one query, or None if it is too long or too deep, or sqlglot cannot parse it."""
    return _read(sql)[0]


def _read(sql: str) -> tuple[Any, list[Any]]:
    """The syntax tree of one query and its tokens; None and no tokens as `parse_query` says."""
    import sqlglot
    from sqlglot import exp

    if len(sql) > MAX_PROGRAM_CHARACTERS:
        return None, []
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    dialect = sqlglot.Dialect.get_or_raise("sqlite")
    try:
        tokens = list(dialect.tokenize(sql))
        if sql.count("(") > MAX_PROGRAM_DEPTH and _depth(tokens) > MAX_PROGRAM_DEPTH:
            return None, []
        trees = [tree for tree in dialect.parser().parse(tokens, sql) if tree is not None]
    except (sqlglot.errors.SqlglotError, *_LIBRARY_ERRORS):
        return None, []
    return (trees[0], tokens) if len(trees) == 1 and isinstance(trees[0], exp.Query) else (None, [])


def _depth(tokens: Iterable[Any]) -> int:
    """How deep parentheses are nested, by the tokens of the parser: texts and comments do not count."""
    deepest = depth = 0
    for token in tokens:
        if token.text == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif token.text == ")":
            depth = max(0, depth - 1)
    return deepest


def program_class(sql: str) -> str | None:
    """Digest of the query's canonical form (`dphrl.scoring.sql.canonical_form`).

    None if sqlglot cannot parse it, or SQLite cannot (a JOIN behind LIMIT) or may read it otherwise (a cast to STRING).
    None too for a table-valued function and for joins in parentheses.
    """
    tree, tokens = _read(sql)
    if tree is None or not _is_sqlite(sql):
        return None
    from dphrl.scoring.sql.canonical_form import UnnamedSourceError, canonical_form

    if _differs_in_sqlite(tree, sql, tokens):
        return None
    try:
        return digest(canonical_form(tree))
    except (RecursionError, UnnamedSourceError):
        return None


def _differs_in_sqlite(tree: Any, sql: str, tokens: Sequence[Any]) -> bool:
    """Whether SQLite may read the query otherwise than sqlglot does, whose tree would then have the wrong class."""
    from sqlglot import exp
    from sqlglot.tokens import TokenType

    # sqlglot reads mod(a, b) as a % b, which SQLite computes on whole numbers.
    if _MOD.search(sql):
        return True
    # In SQLite IN, LIKE, IS and BETWEEN bind as = does, from the left, and < binds tighter than both.
    ranges = (exp.Between, exp.In, exp.Is, exp.Like, exp.Glob, exp.Escape, exp.RegexpLike)
    operators = (*ranges[:-2], exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    for node in tree.find_all(*operators):
        for name in ("this", "expression", "low", "high"):
            operand = node.args.get(name)
            while isinstance(operand, exp.Not):
                operand = operand.this
            if isinstance(operand, ranges):
                return True
    # sqlglot changes some types of casts, such as STRING to TEXT.
    affinities = sorted(_affinity(cast.to.sql(dialect="sqlite")) for cast in tree.find_all(exp.Cast))
    if affinities != sorted(map(_affinity, _types_of_casts(tokens))):
        return True
    # A unary plus takes the affinity of a column away; sqlglot drops it.
    return sum(token.token_type is TokenType.PLUS for token in tokens) != len([*tree.find_all(exp.Add)])


def _types_of_casts(tokens: Sequence[Any]) -> Iterator[str]:
    """The type of each CAST as it is written."""
    opened = list[bool]()
    for number, token in enumerate(tokens):
        if token.text == "(":
            opened.append(number > 0 and tokens[number - 1].text.upper() == "CAST")
        elif token.text == ")" and opened and opened.pop():
            start = next(at for at in range(number, -1, -1) if tokens[at].text.upper() == "AS")
            yield " ".join(word.text for word in tokens[start + 1 : number])


def _affinity(name: str) -> str:
    """The affinity of a type's name (https://www.sqlite.org/datatype3.html, section 3.1)."""
    name = name.upper()
    rules = {"INT": "INT", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB"}
    rules |= {"REAL": "REAL", "FLOA": "REAL", "DOUB": "REAL"}
    return next((affinity for part, affinity in rules.items() if part in name), "NUMERIC" if name else "BLOB")


def _is_sqlite(sql: str) -> bool:
    """Whether SQLite can read the text; names are not looked up, so that no database is needed."""
    try:
        # The definition of a view is read and kept as it is; EXPLAIN does not even make the view.
        _empty_database().execute(f"EXPLAIN CREATE TEMP VIEW program AS {sql}").close()
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        return False
    return True


@cache
def _empty_database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", cached_statements=0, check_same_thread=False)
