"""Executes untrusted SQL on a read-only database under limits.

Opening a file read-only is not a sandbox (VACUUM INTO and ATTACH still write): the authorizer's allow-list and the ban
on attaching are. The first limit is a count of virtual machine steps, the same on every machine. The second is the wall
clock; it is reported separately (`by_clock`), so that the query can run once more. Both are checked between steps: the
length limit bounds a single step, and an alarm that kills the process (`handler.py`) ends one that is still too long.

The clock stands still: a verdict must not depend on when a query runs.
"""

import os
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import Any, Final
from urllib.parse import quote

from dphrl.scoring.sql.program import is_select

MAX_LENGTH: Final = 100_000
_STEPS_PER_CALL: Final = 1000
_OPEN_DATABASES: Final = 16
_HEAP_BYTES: Final = 512 * 2**20
_TEXTS: Final = (str, bytes)
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
# printf and format spend seconds in one opcode that no limit covers; most others give another result each time.
_DENIED_FUNCTIONS: Final = frozenset({
    "printf", "format", "load_extension", "random", "randomblob", "zeroblob", "changes", "total_changes",
    "last_insert_rowid", "fts3_tokenizer",
})  # fmt: skip
_BROKEN_DATABASE: Final = frozenset({
    sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
})  # fmt: skip
# Matched at the start: the rest of a message may quote the query.
_SYNTAX: Final = re.compile(
    r'near ".*": syntax error|incomplete input|unrecognized token|parser stack overflow|Expression tree is too large',
    re.DOTALL,
)
# The year that `normalise_sql` puts in place of YEAR(CURDATE()).
_NOW: Final = "2020-01-01 00:00:00"
_CLOCK_FUNCTIONS: Final = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")
_CLOCK_KEYWORDS: Final = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
# Alone, they are the present time with its fraction of a second; behind another time they are modifiers.
_FRACTIONS: Final = frozenset({"subsec", "subsecond"})


class DatabaseFaultError(RuntimeError):
    """The database itself cannot be read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one query: VM steps, seconds, result rows, result bytes (8 per value and the length of texts)."""

    max_steps: int
    timeout_s: float
    max_rows: int
    max_bytes: int


@dataclass(slots=True)
class Execution:
    """How a query ended: `outcome` is `ok` or the verdict on it; `rows` is its result if `ok`.

    `by_clock`: a timeout by the wall clock, which depends on the machine and its load. `reads_table`: it reads a table
    of the database; the schema (sqlite_master) and table-valued functions are none.
    """

    outcome: str
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    detail: str | None = None
    by_clock: bool = False
    reads_table: bool = False


class Sandbox:
    """Executes queries; keeps the databases that were used last open."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: OrderedDict[tuple[str, bool], sqlite3.Connection] = OrderedDict()
        self._steps = 0
        self._deadline = 0.0
        self._out_of_time = False
        self._reads_table = False

    def execute(self, database: str, sql: str, reverse: bool = False) -> Execution:
        """Run one query; with `reverse`, SQLite visits rows in reverse where the query does not order them.

        Raises:
            DatabaseFaultError: the file cannot be opened or is not an intact database.
        """
        if not is_select(sql):
            return Execution("refused", detail="not a SELECT or WITH statement")
        self._steps, self._out_of_time, self._reads_table = 0, False, False
        self._deadline = time.monotonic() + self._limits.timeout_s
        try:
            with closing(self._connection(database, reverse).cursor()) as cursor:
                return self._fetch(cursor.execute(sql))
        except MemoryError:
            return Execution("out_of_memory", detail="the query needs more memory than it may use")
        except (sqlite3.Error, UnicodeError, ValueError, OverflowError) as error:
            return self._failure(database, error)

    def _fetch(self, cursor: sqlite3.Cursor) -> Execution:
        rows: list[tuple[Any, ...]] = []
        size = 0
        # One by one: a block of rows could exceed the memory before it is counted.
        for row in cursor:
            rows.append(row)
            size += 8 * len(row)
            for value in row:
                if type(value) in _TEXTS:
                    size += len(value)
            if len(rows) > self._limits.max_rows:
                return Execution("too_large", detail=f"more than {self._limits.max_rows} rows")
            if size > self._limits.max_bytes:
                return Execution("too_large", detail=f"more than {self._limits.max_bytes} bytes")
        return Execution("ok", rows, reads_table=self._reads_table)

    def _failure(self, database: str, error: Exception) -> Execution:
        """How a query failed, by the error's code; by its text only where SQLite lacks a code for it."""
        text = str(error)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if self._out_of_time:
            return Execution("timeout", detail=f"not done after {self._limits.timeout_s:g} s", by_clock=True)
        if code == sqlite3.SQLITE_INTERRUPT and self._steps > self._limits.max_steps:
            return Execution("timeout", detail=f"more than {self._limits.max_steps} steps")
        if code == sqlite3.SQLITE_INTERRUPT:
            # SQLite also interrupts where the callback that counts steps fails.
            return Execution("out_of_memory", detail="interrupted before the end of its steps and its time")
        if code in _BROKEN_DATABASE:
            raise DatabaseFaultError(f"{database}: {text}: is it an intact SQLite database?") from error
        if code == sqlite3.SQLITE_AUTH or text.startswith(("not authorized", "You can only execute one statement")):
            return Execution("refused", detail=text)
        if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
            return Execution("too_large", detail=text)
        # Text that SQLite does not accept: NUL characters, lone surrogates.
        unreadable = isinstance(error, UnicodeError | ValueError | sqlite3.ProgrammingError)
        return Execution("parse_error" if unreadable or _SYNTAX.match(text) else "runtime_error", detail=text)

    def _connection(self, database: str, reverse: bool) -> sqlite3.Connection:
        key = (database, reverse)
        connection = self._open.pop(key, None)
        if connection is None:
            connection = _connect(database, reverse)
            connection.set_progress_handler(self._progress, _STEPS_PER_CALL)
            connection.set_authorizer(self._authorizer(connection))
        self._open[key] = connection
        if len(self._open) > _OPEN_DATABASES:
            self._open.popitem(last=False)[1].close()
        return connection

    def _progress(self) -> bool:
        self._steps += _STEPS_PER_CALL
        if self._steps > self._limits.max_steps:
            return True
        self._out_of_time = time.monotonic() > self._deadline
        return self._out_of_time

    def _authorizer(self, connection: sqlite3.Connection) -> Callable[..., int]:
        """Allows only reading; notes whether a query reads any table, if only for the number of its rows."""
        with closing(connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")) as names:
            tables = {str(name).lower() for (name,) in names if not str(name).lower().startswith("sqlite_")}

        def authorize(action: int, first: str | None, name: str | None, _database: object, _trigger: object) -> int:
            if action == sqlite3.SQLITE_READ:
                self._reads_table = self._reads_table or (first is not None and first.lower() in tables)
                return sqlite3.SQLITE_OK
            denied = action == sqlite3.SQLITE_FUNCTION and name is not None and name.lower() in _DENIED_FUNCTIONS
            return sqlite3.SQLITE_OK if action in _ALLOWED and not denied else sqlite3.SQLITE_DENY

        return authorize


def _connect(database: str, reverse: bool) -> sqlite3.Connection:
    # Without the cache of statements: a statement from it does not ask the authorizer again.
    options: dict[str, Any] = {"uri": True, "isolation_level": None, "cached_statements": 0}
    connection = sqlite3.connect(f"file:{quote(os.fsencode(database))}?mode=ro&immutable=1", **options)
    connection.text_factory = methodcaller("decode", "utf-8", "ignore")
    limits = f"hard_heap_limit={_HEAP_BYTES}", f"reverse_unordered_selects={reverse:d}"
    # A mapped file that shrinks would end the process (SIGBUS) where reading it is an error. The schema is trusted so
    # that views may call the functions of `_stop_clock`; the authorizer denies in views what it denies in queries.
    for pragma in ("temp_store=2", "query_only=1", "trusted_schema=1", "mmap_size=0", *limits):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    _stop_clock(connection)
    # Reading a virtual table for the first time declares it, which the authorizer forbids.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    return connection


def _stop_clock(connection: sqlite3.Connection) -> None:
    """Replace the functions of a connection that can read the clock; for them it is always `_NOW`.

    SQLite still computes all other dates, on a second connection: about 5 microseconds for each call.
    """
    builtin = sqlite3.connect(":memory:")
    builtin.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH))
    for name in _CLOCK_FUNCTIONS:
        connection.create_function(name, -1, partial(_without_clock, builtin, name), deterministic=True)
    for keyword, name in _CLOCK_KEYWORDS.items():
        connection.create_function(keyword, 0, partial(_without_clock, builtin, name), deterministic=True)


def _without_clock(builtin: sqlite3.Connection, name: str, *arguments: Any) -> Any:
    formats = 1 if name == "strftime" else 0
    times = [_NOW if _word(argument) == "now" else argument for argument in arguments[formats:]]
    if not times or _word(times[0]) in _FRACTIONS:
        times.insert(0, _NOW)
    values = [*arguments[:formats], *times]
    try:
        return builtin.execute(f"SELECT {name}({', '.join('?' * len(values))})", values).fetchone()[0]
    except sqlite3.DataError as error:
        # sqlite3 reports this class to SQLite as a text that is too long.
        raise OverflowError(str(error)) from None


def _word(argument: Any) -> str | None:
    """An argument as SQLite compares it with 'now': without case, up to the first NUL, and also of a blob."""
    if isinstance(argument, bytes):
        argument = argument.decode("utf-8", "replace")
    return argument.partition("\0")[0].lower() if isinstance(argument, str) else None
