"""The SQL in a response."""

import re
from typing import Final

from dphrl.config.scorers import Comparison, SqlAnswer, SqlRepair

_PLACEHOLDER: Final = re.compile(r"```sql[ \t]*\r?\n\s*--\s*Your SQL query\s*```", re.IGNORECASE)
_FENCE: Final = re.compile(r"```sql[ \t]*\r?\n(.*?)```", re.IGNORECASE | re.DOTALL)
_COMMENT_OR_SPACE: Final = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+", re.DOTALL)
_CURRENT_YEAR: Final = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)


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


def is_repaired(repair: SqlRepair, comparison: Comparison) -> bool:
    """Whether `normalise_sql` is applied to the answer and the gold: BIRD's evaluator executes what is written."""
    return repair == "always" or (repair == "auto" and comparison != "bird")


def is_select(sql: str) -> bool:
    """Whether the statement begins as a query; that it only reads is enforced by SQLite's authorizer."""
    return re.match(r"(?:select|with)\b", _without_comments_before(sql), re.IGNORECASE) is not None
