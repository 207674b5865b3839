"""Databases in prompts: their paths, their schema, the OmniSQL layout."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from written_databases import write_database

from dphrl.data.databases import PendingChangesError, database_path, schema_text
from dphrl.data.prepare import prepare

SHOP = """
    create table customer (id integer primary key, "full name" varchar(80), `Order` int, picture blob, note);
    create table "odd`table" (a float(10,2) not null default 1, b text, value int, primary key (b, a)) without rowid;
    create table sale (
        sale_id int, customer_id int references CUSTOMER, a real, b text,
        foreign key (b, a) references "odd`table" (b, a), foreign key (sale_id) references missing
    );
    create index by_name on customer ("full name");
    create view everything as select * from sale;
    insert into customer values (1, 'Zoë', 7, x'00ff', ''), (2, cast(x'41ff42' as text), 7, x'01', null);
    insert into customer values (3, 'It''s', 8, 'text', 2.5), (4, null, null, 3, 'a
b');
    insert into "odd`table" values (0.5, '0123456789012345678901234567890123456789-', 3);
"""
SCHEMA = """\
CREATE TABLE customer (
    id INTEGER, -- example: [1, 2]
    `full name` varchar(80), -- example: ['Zoë', 'AB']
    `Order` INT, -- example: [7, 8]
    picture BLOB, -- example: ['text', 3]
    note, -- example: [2.5, 'a\\nb']
    PRIMARY KEY (id)
);

CREATE TABLE `odd``table` (
    a float(10,2), -- example: [0.5]
    b TEXT, -- example: ['0123456789012345678901234567890123456789']
    `value` INT, -- example: [3]
    PRIMARY KEY (b, a)
);

CREATE TABLE sale (
    sale_id INT,
    customer_id INT,
    a REAL,
    b TEXT,
    CONSTRAINT fk_sale_sale_id FOREIGN KEY (sale_id) REFERENCES missing,
    CONSTRAINT fk_sale_customer_id FOREIGN KEY (customer_id) REFERENCES customer (id),
    CONSTRAINT fk_sale_b_a FOREIGN KEY (b, a) REFERENCES `odd``table` (b, a)
);"""


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a folder?#")
    write_database(folder, "shop", SHOP)
    (folder / "broken").mkdir()
    (folder / "broken" / "broken.sqlite").write_bytes(b"no database" * 100)
    return folder


def test_a_schema_has_types_examples_and_keys_without_bytes_that_are_no_text(databases: Path) -> None:
    assert schema_text(databases / "shop" / "shop.sqlite").lower() == SCHEMA.lower()


def test_reading_a_schema_writes_nothing_and_happens_once(tmp_path: Path) -> None:
    path = write_database(tmp_path, "d", "pragma journal_mode = wal; create table t (a int)")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    schema = schema_text(path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    path.unlink()
    assert schema_text(path) == schema


def test_a_generated_column_is_not_computed(tmp_path: Path) -> None:
    """Its expression is the data set's, and no limit holds while a schema is read."""
    script = (
        "create table t (a int, z text as (printf('%.*c', 300000000, 'x')) virtual, b text as ('k' || a) stored);"
        "insert into t (a) values (1), (2);"
    )
    path = write_database(tmp_path, "d", script)
    started = time.process_time()
    schema = schema_text(path)
    assert time.process_time() - started < 0.5
    lines = ["    a INT, -- example: [1, 2]", "    z TEXT,", "    b TEXT -- example: ['k1', 'k2']"]
    assert schema.splitlines()[1:-1] == lines


@pytest.mark.parametrize(("name", "pending"), [("wal", True), ("journal", True), ("none", False), ("idle", False)])
def test_changes_that_are_not_in_the_file_are_named(tmp_path: Path, name: str, pending: bool) -> None:
    """As a program leaves them that is killed while it writes; `idle`: a journal that is kept for the next change."""
    mode = {"wal": "wal", "journal": "delete", "none": "delete", "idle": "persist"}[name]
    path = write_database(tmp_path, "s", f"pragma journal_mode = {mode}; create table t (a int)")
    writer = sqlite3.connect(path, isolation_level=None)
    for statement in (f"pragma journal_mode = {mode}", "pragma cache_size = 1", "begin", "insert into t values (1)"):
        writer.execute(statement)
    if name == "journal":
        writer.executemany("insert into t values (?)", [(x,) for x in range(9999)])
    else:
        writer.execute("commit")
    copy = tmp_path / "copy" / "copy.sqlite"
    copy.parent.mkdir()
    for file in path.parent.iterdir():
        (copy.parent / file.name.replace("s.sqlite", copy.name)).write_bytes(file.read_bytes())
    writer.close()
    if not pending:
        assert database_path(tmp_path, "copy") == copy
        return
    with pytest.raises(PendingChangesError, match=rf"copy\.sqlite-{name} has changes that ") as raised:
        database_path(tmp_path, "copy")
    with closing(sqlite3.connect(copy)) as connection:
        for statement in str(raised.value).split("'")[-2].split(";"):
            connection.execute(statement)
    assert database_path(tmp_path, "copy") == copy


@pytest.mark.parametrize("db_id", ["shop", "shop.sqlite", "shop/shop.sqlite"])
def test_a_database_is_in_the_folder_of_its_name(databases: Path, db_id: str) -> None:
    assert database_path(databases, db_id) == databases / "shop" / "shop.sqlite"


@pytest.mark.parametrize(
    "db_id",
    ["", "..", "../shop", "/shop", "a/../../shop.sqlite", "shop\0", ".sqlite"],
)
def test_a_name_that_leaves_the_folder_is_refused(databases: Path, db_id: str) -> None:
    with pytest.raises(ValueError, match="expected a name inside"):
        database_path(databases, db_id)


@pytest.mark.parametrize("db_id", ["none", "none.sqlite", "shop/other.sqlite", "x" * 300, "\ud800"])
def test_a_missing_database_is_named(databases: Path, db_id: str) -> None:
    with pytest.raises(FileNotFoundError, match="is missing"):
        database_path(databases, db_id)


def messages(row: dict[str, Any], databases: Path | None, instruction: str | None = None) -> list[dict[str, str]]:
    [text] = prepare([row], "sql", "s", None, 1, databases=databases, instruction=instruction).prompts["messages"]
    return list(json.loads(text))


def test_a_bare_question_gets_the_schema_and_its_evidence(databases: Path) -> None:
    row = {"question": "How many {x}?", "evidence": "many = count", "db_id": "shop", "SQL": "SELECT 1"}
    [message] = messages(row, databases)
    schema = schema_text(databases / "shop" / "shop.sqlite")
    assert f"\nDatabase Schema:\n{schema}\nThis schema describes " in message["content"]
    assert "\nQuestion:\nmany = count\nHow many {x}?\n\nInstructions:\n" in message["content"]
    assert messages({**row, "evidence": " "}, databases) == messages({**row, "evidence": None}, databases)
    assert messages(row, databases, "i") == [{"role": "system", "content": "i"}, message]


def test_a_given_prompt_is_taken_as_it_is(databases: Path) -> None:
    row = {"prompt": "Schema: t. How many?", "question": "q", "evidence": "e", "db_id": "shop", "query": "SELECT 1"}
    assert messages(row, databases) == messages({**row, "db_id": "none"}, None)
    assert messages(row, databases) == [{"role": "user", "content": "Schema: t. How many?"}]


@pytest.mark.parametrize(
    ("db_id", "detail"),
    [
        ("none", "db_id: no database 'none' in the folder of the databases"),
        ("../shop", "db_id: expected a name in the folder of the databases, found '../shop'"),
        ("broken", "db_id: broken.sqlite is no readable SQLite database"),
    ],
)
def test_a_row_without_its_database_is_malformed(databases: Path, db_id: str, detail: str) -> None:
    row = {"question": "q", "db_id": db_id, "query": "SELECT 1"}
    rejected = prepare([{**row, "db_id": "shop"}, row], "sql", "s", None, 1, databases=databases).rejected
    assert rejected.rows() == [(1, "malformed", detail, None)]
    assert str(databases) not in rejected["detail"][0]
