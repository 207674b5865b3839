"""SQLite databases: where each one is, and its schema as the text of a prompt."""

import functools
import os
import re
import shlex
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

_EXAMPLES: Final = 2
# Without a limit, a column of equal values would be read to the end of a table of gigabytes.
_SCANNED: Final = 100_000
_LONGEST: Final = 40
# The first bytes of a rollback journal that SQLite would play back; an idle one begins with zeros.
_HOT_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
# The value of `hidden` in pragma_table_xinfo for a column that is computed where it is read.
_VIRTUAL: Final = 2
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The reserved words of SQL-92 and the keywords of SQLite.
_WORDS: Final = """
ABORT ABSOLUTE ACTION ADD AFTER ALL ALLOCATE ALTER ALWAYS ANALYZE AND ANY ARE AS ASC ASSERTION AT ATTACH AUTHORIZATION
AUTOINCREMENT AVG BEFORE BEGIN BETWEEN BIT BIT_LENGTH BOTH BY CASCADE CASCADED CASE CAST CATALOG CHAR CHARACTER
CHARACTER_LENGTH CHAR_LENGTH CHECK CLOSE COALESCE COLLATE COLLATION COLUMN COMMIT CONFLICT CONNECT CONNECTION
CONSTRAINT CONSTRAINTS CONTINUE CONVERT CORRESPONDING COUNT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME
CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DATE DAY DEALLOCATE DEC DECIMAL DECLARE DEFAULT DEFERRABLE DEFERRED
DELETE DESC DESCRIBE DESCRIPTOR DETACH DIAGNOSTICS DISCONNECT DISTINCT DO DOMAIN DOUBLE DROP EACH ELSE END ESCAPE
EXCEPT EXCEPTION EXCLUDE EXCLUSIVE EXEC EXECUTE EXISTS EXPLAIN EXTERNAL EXTRACT FAIL FALSE FETCH FILTER FIRST FLOAT
FOLLOWING FOR FOREIGN FOUND FROM FULL GENERATED GET GLOB GLOBAL GO GOTO GRANT GROUP GROUPS HAVING HOUR IDENTITY IF
IGNORE IMMEDIATE IN INDEX INDEXED INDICATOR INITIALLY INNER INPUT INSENSITIVE INSERT INSTEAD INT INTEGER INTERSECT
INTERVAL INTO IS ISNULL ISOLATION JOIN KEY LANGUAGE LAST LEADING LEFT LEVEL LIKE LIMIT LOCAL LOWER MATCH MATERIALIZED
MAX MIN MINUTE MODULE MONTH NAMES NATIONAL NATURAL NCHAR NEXT NO NOT NOTHING NOTNULL NULL NULLIF NULLS NUMERIC
OCTET_LENGTH OF OFFSET ON ONLY OPEN OPTION OR ORDER OTHERS OUTER OUTPUT OVER OVERLAPS PAD PARTIAL PARTITION PLAN
POSITION PRAGMA PRECEDING PRECISION PREPARE PRESERVE PRIMARY PRIOR PRIVILEGES PROCEDURE PUBLIC QUERY RAISE RANGE READ
REAL RECURSIVE REFERENCES REGEXP REINDEX RELATIVE RELEASE RENAME REPLACE RESTRICT RETURNING REVOKE RIGHT ROLLBACK ROW
ROWS SAVEPOINT SCHEMA SCROLL SECOND SECTION SELECT SESSION SESSION_USER SET SIZE SMALLINT SOME SPACE SQL SQLCODE
SQLERROR SQLSTATE SUBSTRING SUM SYSTEM_USER TABLE TEMP TEMPORARY THEN TIES TIME TIMESTAMP TIMEZONE_HOUR
TIMEZONE_MINUTE TO TRAILING TRANSACTION TRANSLATE TRANSLATION TRIGGER TRIM TRUE UNBOUNDED UNION UNIQUE UNKNOWN UPDATE
UPPER USAGE USER USING VACUUM VALUE VALUES VARCHAR VARYING VIEW VIRTUAL WHEN WHENEVER WHERE WINDOW WITH WITHOUT WORK
WRITE YEAR ZONE
"""
_RESERVED: Final = frozenset(_WORDS.split())


class PendingChangesError(RuntimeError):
    """Some changes of a database are not in its file yet: a reader of the file alone would miss them."""


def database_path(folder: str | Path, db_id: str) -> Path:
    """The file of a database: `<folder>/<db_id>/<db_id>.sqlite`, the layout of the Spider and BIRD releases.

    A `db_id` may end in `.sqlite`: rows of DPH-RL (arXiv 2509.07430) have `name/name.sqlite` or `name.sqlite`, both of
    which are this file.

    Raises:
        ValueError: `db_id` leaves the folder or is not a file name.
        FileNotFoundError: there is no such file.
        PendingChangesError: a write-ahead log or a journal next to it holds changes that are not in it.
    """
    name = db_id.removesuffix(".sqlite")
    relative = PurePosixPath(db_id if name != db_id and "/" in db_id else f"{name}/{name}.sqlite")
    if not name or "\0" in db_id or relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"db_id {db_id!r}: expected a name inside {folder}")
    path = Path(folder) / relative
    # Unlike Path.is_file this is False, not an error, for a name that is too long for the file system.
    if not os.path.isfile(path):
        raise FileNotFoundError(f"database {db_id!r}: {path} is missing")
    # SQLite writes these next to the file, not next to a link to it.
    real = os.path.realpath(path)
    for other, first in ((f"{real}-wal", b""), (f"{real}-journal", _HOT_JOURNAL)):
        head = b""
        if os.path.isfile(other):
            with open(other, "rb") as file:
                head = file.read(len(_HOT_JOURNAL))
        if head and head.startswith(first):
            raise PendingChangesError(
                f"{other} has changes that {real} does not have yet: it would be read without them. End the program "
                f"that writes the database, then run: sqlite3 {shlex.quote(real)} "
                "'SELECT count(*) FROM sqlite_master; PRAGMA wal_checkpoint(TRUNCATE)'"
            )
    return path


@functools.cache
def schema_text(path: Path) -> str:
    """The tables of a SQLite database as CREATE TABLE statements, in the layout of OmniSQL (arXiv 2503.02240).

    Each column is shown with its declared type and up to two examples: its first distinct values in 100,000 rows.
    NULL, empty text and BLOBs are no examples. Texts are cut at 40 characters, bytes that are not UTF-8 are dropped.
    A generated column without storage gets no examples: computing it could take any time and memory. Primary and
    foreign keys follow. The file is opened read-only, and read once per process.

    Raises:
        sqlite3.Error: the file is not a readable SQLite database.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "ignore")
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        columns: dict[str, _Columns] = {}
        for (name,) in names:
            described = connection.execute(
                "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1", (name,)
            )
            columns[name] = {
                column: _Column(declared, position, hidden != _VIRTUAL)
                for column, declared, position, hidden in described
            }
        return "\n\n".join(_create_table(connection, name, columns) for name in columns)


class _Column(NamedTuple):
    """Declared type, position in the primary key (0: not in it), whether its values are in the file."""

    declared: str
    position: int
    stored: bool


_Columns = dict[str, _Column]


def _create_table(connection: sqlite3.Connection, table: str, columns: dict[str, _Columns]) -> str:
    lines = []
    for name, column in columns[table].items():
        examples: list[Any] = []
        if column.stored:
            # NOT INDEXED: an index would give the values in an order that depends on SQLite's choice of it.
            first = f"SELECT {_quoted(name)} AS value FROM {_quoted(table)} NOT INDEXED LIMIT {_SCANNED}"
            values = connection.execute(
                f"SELECT DISTINCT value FROM ({first}) WHERE value <> '' AND typeof(value) <> 'blob' LIMIT {_EXAMPLES}"
            )
            examples = [value[:_LONGEST] if isinstance(value, str) else value for (value,) in values]
        lines.append((f"{_name(name)} {column.declared}".rstrip(), f" -- example: {examples}" if examples else ""))
    key = _primary_key(columns[table])
    constraints = [f"PRIMARY KEY ({_names(key)})"] if key else []
    constraints += dict.fromkeys(_foreign_keys(connection, table, columns))
    lines += [(text, "") for text in constraints]
    commas = [","] * (len(lines) - 1) + [""]
    body = "\n".join(f"    {text}{comma}{comment}" for (text, comment), comma in zip(lines, commas, strict=True))
    return f"CREATE TABLE {_name(table)} (\n{body}\n);"


def _primary_key(columns: _Columns) -> list[str]:
    return sorted((name for name in columns if columns[name].position), key=lambda name: columns[name].position)


def _foreign_keys(connection: sqlite3.Connection, table: str, columns: dict[str, _Columns]) -> Iterator[str]:
    """The constraints in the order of their columns."""
    spelling = {name.casefold(): name for name in columns}
    keys = defaultdict(list)
    for number, parent, source, target in connection.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq', (table,)
    ):
        keys[number, spelling.get(parent.casefold(), parent)].append((source, target))
    position = {name.casefold(): index for index, name in enumerate(columns[table])}
    for (_, parent), pairs in sorted(keys.items(), key=lambda item: position.get(item[1][0][0].casefold(), 0)):
        sources = [source for source, _ in pairs]
        # A declaration without a target column means the parent's primary key.
        targets = [target for _, target in pairs if target] or _primary_key(columns.get(parent, {}))
        label = "_".join([table, *sources]).lower().replace(" ", "_")
        to = f"{_name(parent)} ({_names(targets)})" if targets else _name(parent)
        yield f"CONSTRAINT fk_{label} FOREIGN KEY ({_names(sources)}) REFERENCES {to}"


def _name(identifier: str) -> str:
    if _PLAIN.fullmatch(identifier) and identifier.upper() not in _RESERVED:
        return identifier
    return "`" + identifier.replace("`", "``") + "`"


def _names(identifiers: list[str]) -> str:
    return ", ".join(_name(identifier) for identifier in identifiers)


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
