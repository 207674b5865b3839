"""The five databases: a parent and a child table each, filled from the seed, written as SQLite files."""

import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

Side = Literal["parent", "child"]
Row = tuple[object, ...]

PARENT_ROWS = 40
CHILD_ROWS = 60
LARGEST_INTEGER = 99
_SYLLABLES = tuple("".join(pair) for pair in product("bdfklmnprstv", "aeiou"))


@dataclass(frozen=True)
class Table:
    """A table as prompts show it: its name, its text column with four values, its integer columns."""

    name: str
    text: str
    values: tuple[str, str, str, str]
    integers: tuple[str, ...]


@dataclass(frozen=True)
class Database:
    """A parent table (id, name, text, three integers) and a child table (id, pid, text, two integers)."""

    name: str
    parent: Table
    child: Table

    def table(self, side: Side) -> Table:
        """The parent or the child table."""
        return self.parent if side == "parent" else self.child

    @property
    def schema_line(self) -> str:
        """The schema in one line, with which every prompt begins; the columns id and pid of all tables are left out."""
        parent = ", ".join(("name", self.parent.text, *self.parent.integers))
        child = ", ".join((self.child.text, *self.child.integers))
        return f"{self.name}: {self.parent.name}({parent}) {self.child.name}({child})"


DATABASES = {
    database.name: database
    for database in (
        Database(
            "shop",
            Table("product", "kind", ("toy", "tool", "food", "book"), ("price", "stock", "weight")),
            Table("sale", "city", ("rome", "paris", "oslo", "cairo"), ("amount", "tax")),
        ),
        Database(
            "school",
            Table("student", "house", ("red", "blue", "green", "gold"), ("age", "score", "height")),
            Table("lesson", "subject", ("art", "music", "latin", "sport"), ("grade", "hours")),
        ),
        Database(
            "library",
            Table("novel", "genre", ("crime", "drama", "poem", "saga"), ("pages", "copies", "rating")),
            Table("loan", "branch", ("north", "south", "east", "west"), ("days", "fee")),
        ),
        Database(
            "hotel",
            Table("room", "view", ("sea", "hill", "park", "street"), ("beds", "cost", "floor")),
            Table("stay", "season", ("spring", "summer", "autumn", "winter"), ("nights", "bill")),
        ),
        Database(
            "garden",
            Table("plant", "colour", ("white", "pink", "black", "purple"), ("size", "water", "leaves")),
            Table("harvest", "month", ("may", "june", "july", "august"), ("crop", "sold")),
        ),
    )
}
TRAINING_DATABASES = ("shop", "school", "library")
CROSS_DATABASES = ("hotel", "garden")


def fill(database: Database, seed: int) -> sqlite3.Connection:
    """The database in memory, a function of its name and the seed alone.

    An integer column of the parent holds each value once, so that a superlative is unique.
    """
    rng = random.Random(f"{seed}/database/{database.name}")
    names = rng.sample(["".join(pair) for pair in product(_SYLLABLES, repeat=2)], PARENT_ROWS)
    columns = [rng.sample(range(1, LARGEST_INTEGER + 1), PARENT_ROWS) for _ in database.parent.integers]
    parent = [
        (row + 1, names[row], rng.choice(database.parent.values), *(column[row] for column in columns))
        for row in range(PARENT_ROWS)
    ]
    child = [
        (
            row + 1,
            rng.randint(1, PARENT_ROWS),
            rng.choice(database.child.values),
            *(rng.randint(1, LARGEST_INTEGER) for _ in database.child.integers),
        )
        for row in range(CHILD_ROWS)
    ]
    connection = sqlite3.connect(":memory:")
    with connection:
        connection.execute(_create(database.parent, "name TEXT NOT NULL"))
        connection.execute(_create(database.child, f"pid INTEGER NOT NULL REFERENCES {database.parent.name}(id)"))
        for table, rows in ((database.parent, parent), (database.child, child)):
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
    return connection


def _create(table: Table, second: str) -> str:
    integers = ", ".join(f"{column} INTEGER NOT NULL" for column in table.integers)
    return f"CREATE TABLE {table.name} (id INTEGER PRIMARY KEY, {second}, {table.text} TEXT NOT NULL, {integers})"


def write(source: sqlite3.Connection, path: Path) -> None:
    """Write the database into a new SQLite file by its SQL dump, so that the bytes are the same each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as target:
        target.executescript("\n".join(source.iterdump()))


class Oracle:
    """Runs queries on the five databases of one seed.

    Attributes:
        connections: to the databases in memory, by name.
    """

    def __init__(self, seed: int) -> None:
        self.connections = {name: fill(database, seed) for name, database in DATABASES.items()}

    def rows(self, database: str, sql: str) -> frozenset[Row]:
        """The rows as a set (BIRD's comparison). Raises `sqlite3.Error` on a query that does not run."""
        return frozenset(self.connections[database].execute(sql))

    def close(self) -> None:
        """Close the connections."""
        for connection in self.connections.values():
            connection.close()
