"""The part of Spider in config/demo-llm, and the command that makes it."""

import hashlib
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dphrl.data.databases import database_path

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "config" / "demo-llm" / "spider.tar.xz"
SPIDER = Path(os.environ.get("DPHRL_TEST_DATA", ROOT.parent / "shared" / "data")) / "text2sql" / "spider"
QUESTIONS = {"supervised": 1902, "train": 400, "unseen": 240, "development": 80}
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spider")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def splits(folder: Path) -> Rows:
    return {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")] for name in QUESTIONS
    }


@pytest.fixture(scope="module")
def dev() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "dev"))
    import spider_demo

    yield spider_demo
    sys.path.remove(str(ROOT / "dev"))


def digest(archive: Path) -> str:
    """Of the tar file: what liblzma makes of it can differ from version to version."""
    return hashlib.sha256(lzma.decompress(archive.read_bytes())).hexdigest()


def test_the_archive_is_small_and_has_its_licence_beside_it(folder: Path, splits: Rows) -> None:
    assert ARCHIVE.stat().st_size < 1_000_000
    assert {name: len(rows) for name, rows in splits.items()} == QUESTIONS
    licence = (ARCHIVE.parent / "LICENSE.txt").read_text(encoding="utf-8")
    assert licence.startswith("Attribution-ShareAlike 4.0 International")
    readme = (ARCHIVE.parent / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}.jsonl` | {count:,} |" in readme for name, count in QUESTIONS.items())
    # Nothing that a reader does not expect: only databases of the rows.
    databases = {path.name for path in (folder / "database").iterdir()}
    assert databases == {row["db_id"] for rows in splits.values() for row in rows}


def test_no_gold_of_a_split_is_in_another(splits: Rows, dev: Any) -> None:
    golds = {name: [(row["db_id"], dev.gold_key(row["query"])) for row in rows] for name, rows in splits.items()}
    assert max(Counter(key for keys in golds.values() for key in set(keys)).values()) == 1
    assert [name for name, keys in golds.items() if len(set(keys)) < len(keys)] == ["supervised"]


def test_no_database_of_the_development_set_is_in_another_split(splits: Rows) -> None:
    databases = {name: {row["db_id"] for row in rows} for name, rows in splits.items()}
    development = databases.pop("development")
    assert len(development) == 9
    assert development.isdisjoint(set().union(*databases.values()))


def test_every_gold_runs_and_gives_rows(folder: Path, splits: Rows, dev: Any) -> None:
    for row in [row for rows in splits.values() for row in rows]:
        with closing(dev.connect(database_path(folder / "database", row["db_id"]))) as connection:
            assert connection.execute(row["query"]).fetchall(), row


@pytest.mark.full
@pytest.mark.skipif(not SPIDER.is_dir(), reason=f"no Spider data at {SPIDER}: set DPHRL_TEST_DATA")
def test_the_command_makes_the_archive_again(tmp_path: Path) -> None:
    again = tmp_path / "again.tar.xz"
    command = [sys.executable, str(ROOT / "dev" / "spider_demo.py"), str(SPIDER), "--out", str(again)]
    printed = subprocess.check_output(command, text=True)
    assert digest(again) == digest(ARCHIVE)
    assert f"tar {digest(ARCHIVE)}" in printed


@pytest.mark.parametrize(
    "spelling",
    ["select NAME from a where b='x'", 'SELECT name  FROM a WHERE b = "x" ;', "SELECT name FROM a\nWHERE b='X'"],
)
def test_spellings_of_a_gold_are_one_gold(spelling: str, dev: Any) -> None:
    assert dev.gold_key(spelling) == dev.gold_key("SELECT name FROM a WHERE b = 'x'")
