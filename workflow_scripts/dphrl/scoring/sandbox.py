"""SQL that a model wrote, executed on a read-only database under limits.

Opening a file read-only is no sandbox (VACUUM INTO and ATTACH still write): the authorizer's allow-list and the ban on
attaching are. The first limit is a count of virtual machine steps, which is the same on every machine; the wall clock
comes second and is reported apart (`wall`), so that it can be tried once more. A single long opcode escapes both: the
length limit bounds it, and the parent of the worker kills what remains.
"""

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from dphrl.scoring.compare import Row
from dphrl.scoring.extract import is_select, normalise_sql

MAX_LENGTH: Final = 100_000
_STEPS_PER_CALL: Final = 1000
_ROWS_PER_FETCH: Final = 1000
_OPEN_DATABASES: Final = 16
_HEAP_BYTES: Final = 512 * 2**20
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
# printf and format spend seconds in one opcode that no limit sees; the others answer differently each time.
_DENIED_FUNCTIONS: Final = frozenset(
    {
        "printf",
        "format",
        "load_extension",
        "random",
        "randomblob",
        "zeroblob",
        "changes",
        "total_changes",
        "last_insert_rowid",
        "fts3_tokenizer",
    }
)
_BROKEN_DATABASE: Final = ("not a database", "malformed", "unable to open", "disk i/o error", "locked")
_SYNTAX: Final = (
    "syntax error",
    "incomplete input",
    "unrecognized token",
    "parser stack overflow",
    "expression tree is too large",
)


class DatabaseFaultError(RuntimeError):
    """The database itself cannot be read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use: VM steps, seconds, result rows, result bytes."""

    max_steps: int
    timeout_s: float
    max_rows: int
    max_bytes: int


@dataclass(slots=True)
class Execution:
    """How a query ended: `status` is `ok`, `wall` or one of the verdicts; `rows` is its result if `ok`."""

    status: str
    rows: list[Row] = field(default_factory=list)
    size: int = 0
    detail: str | None = None


class Sandbox:
    """Executes queries; keeps the last few databases open."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: OrderedDict[str, sqlite3.Connection] = OrderedDict()
        self._steps = 0
        self._deadline = 0.0
        self._wall = False

    def execute(self, database: str, sql: str) -> Execution:
        """Run one query.

        Raises:
            DatabaseFaultError: the file cannot be opened or is no intact database.
        """
        sql = normalise_sql(sql)
        if len(sql) > MAX_LENGTH:
            return Execution("too_large", detail=f"the query has {len(sql)} characters, limit {MAX_LENGTH}")
        if not is_select(sql):
            return Execution("refused", detail="not a SELECT or WITH statement")
        self._steps, self._wall = 0, False
        self._deadline = time.monotonic() + self._limits.timeout_s
        cursor = None
        try:
            cursor = self._connection(database).cursor()
            cursor.execute(sql)
            return self._fetch(cursor)
        except MemoryError:
            return Execution("out_of_memory", detail="the query needs more memory than it may use")
        except (sqlite3.Error, UnicodeError, ValueError, OverflowError) as error:
            return self._failure(database, error)
        finally:
            if cursor is not None:
                cursor.close()

    def _fetch(self, cursor: sqlite3.Cursor) -> Execution:
        rows: list[Row] = []
        size = 0
        while block := cursor.fetchmany(_ROWS_PER_FETCH):
            rows += block
            size += sum(_size(value) for row in block for value in row)
            if len(rows) > self._limits.max_rows:
                return Execution("too_large", detail=f"more than {self._limits.max_rows} rows")
            if size > self._limits.max_bytes:
                return Execution("too_large", detail=f"more than {self._limits.max_bytes} bytes")
        return Execution("ok", rows, size)

    def _failure(self, database: str, error: Exception) -> Execution:
        text = str(error)
        lowered = text.lower()
        if self._wall:
            return Execution("wall", detail=f"not done after {self._limits.timeout_s:g} s")
        if lowered == "interrupted":
            return Execution("timeout", detail=f"more than {self._limits.max_steps} steps")
        if isinstance(error, UnicodeError | ValueError) or "null character" in lowered:
            return Execution("parse_error", detail=text)
        if "one statement" in lowered or "not authorized" in lowered or "prohibited" in lowered:
            return Execution("refused", detail=text)
        if isinstance(error, sqlite3.DataError) or "too big" in lowered:
            return Execution("too_large", detail=text)
        if any(mark in lowered for mark in _BROKEN_DATABASE) and isinstance(error, sqlite3.DatabaseError):
            raise DatabaseFaultError(f"{database}: {text}: is it an intact SQLite database?") from error
        return Execution("parse_error" if any(mark in lowered for mark in _SYNTAX) else "runtime_error", detail=text)

    def _connection(self, database: str) -> sqlite3.Connection:
        connection = self._open.get(database)
        if connection is None:
            connection = self._connect(database)
            self._open[database] = connection
            if len(self._open) > _OPEN_DATABASES:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(database)
        return connection

    def _connect(self, database: str) -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{quote(database)}?mode=ro&immutable=1", uri=True, isolation_level=None)
        connection.text_factory = lambda data: data.decode("utf-8", "ignore")
        for pragma in ("temp_store=2", "query_only=1", "trusted_schema=0", f"hard_heap_limit={_HEAP_BYTES}"):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
        connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(self._progress, _STEPS_PER_CALL)
        return connection

    def _progress(self) -> bool:
        self._steps += _STEPS_PER_CALL
        if self._steps > self._limits.max_steps:
            return True
        self._wall = time.monotonic() > self._deadline
        return self._wall


def _authorize(action: int, _first: str | None, name: str | None, _database: str | None, _trigger: str | None) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and name is not None and name.lower() in _DENIED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _size(value: Hashable) -> int:
    return len(value) if isinstance(value, str | bytes) else 8
