"""The clock of SQL stands still: a verdict must not depend on when a query runs."""

import sqlite3
from functools import partial
from typing import Any, Final

# The year that `normalise_sql` puts in place of YEAR(CURDATE()).
NOW: Final = "2020-01-01 00:00:00"
_FUNCTIONS: Final = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")
_KEYWORDS: Final = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
_NOW: Final = "now"
# Alone, they are the present time with its fraction of a second; behind another time they are modifiers.
_FRACTIONS: Final = frozenset({"subsec", "subsecond"})


def stop_clock(connection: sqlite3.Connection) -> None:
    """Replace the functions of a connection that can read the clock; for them it is always `NOW`.

    SQLite still computes all other dates, on a second connection: about 5 microseconds for each call.
    """
    builtin = sqlite3.connect(":memory:")
    builtin.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH))
    for name in _FUNCTIONS:
        connection.create_function(name, -1, partial(_call, builtin, name), deterministic=True)
    for keyword, name in _KEYWORDS.items():
        connection.create_function(keyword, 0, partial(_call, builtin, name), deterministic=True)


def _call(builtin: sqlite3.Connection, name: str, *arguments: Any) -> Any:
    formats = 1 if name == "strftime" else 0
    times = [NOW if _word(argument) == _NOW else argument for argument in arguments[formats:]]
    if not times or _word(times[0]) in _FRACTIONS:
        times.insert(0, NOW)
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
