"""From a response to the answer in it."""

import re
from typing import Final

_PLACEHOLDER: Final = re.compile(r"```sql[ \t]*\r?\n\s*--\s*Your SQL query\s*```", re.IGNORECASE)
_FENCE: Final = re.compile(r"```sql[ \t]*\r?\n(.*?)```", re.IGNORECASE | re.DOTALL)
_COMMENT_OR_SPACE: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_CURRENT_YEAR: Final = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)
_BRACE_OR_BOX: Final = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


def extract_sql(response: str, answer: str) -> str | None:
    """The SQL of a response, or None if there is none.

    `answer` is `fenced` (the last ```sql block; the prompt's placeholder block, if repeated, is not one) or `bare`
    (the whole response; leading `--` comment lines stay in it).
    """
    if answer == "fenced":
        blocks = _FENCE.findall(_PLACEHOLDER.sub("", response))
        text = blocks[-1] if blocks else ""
    elif answer == "bare":
        text = response
    else:
        raise ValueError(f"answer={answer!r}: expected 'fenced' or 'bare'")
    text = text.strip()
    return text if body(text) else None


def body(sql: str) -> str:
    """The query without comments and white space before it."""
    match = _COMMENT_OR_SPACE.match(sql)
    return sql[match.end() if match else 0 :]


def normalise_sql(sql: str) -> str:
    """The repairs that the Spider evaluation makes before it executes a query."""
    sql = sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!=")
    return _CURRENT_YEAR.sub("2020", sql)


def is_select(sql: str) -> bool:
    """Whether the statement begins as a query; that it only reads is for SQLite's authorizer to hold."""
    return re.match(r"(?:select|with)\b", body(sql), re.IGNORECASE) is not None


def extract_boxed(response: str) -> str | None:
    r"""The content of the last complete \boxed{...} (nested braces allowed), or None. Linear in the length."""
    open_braces: list[int | None] = []
    best: tuple[int, int] | None = None
    for match in _BRACE_OR_BOX.finditer(response):
        token = match.group()
        if token == "}":
            start = open_braces.pop() if open_braces else None
            if start is not None and (best is None or start > best[0]):
                best = (start, match.start())
        elif token.endswith("{") and len(token) != 2:
            open_braces.append(None if token == "{" else match.end())
    return None if best is None else response[best[0] : best[1]].strip() or None
