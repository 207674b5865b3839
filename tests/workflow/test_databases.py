"""The databases of a dataset are read once, for one table, on which the jobs that use them depend."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from runs import Workflow

from dphrl.report.audit import audit_run
from dphrl.store.files import sha256_file

pytestmark = pytest.mark.workflow

TABLE = "databases/cities.parquet"
# Recorded answers need no model: the whole workflow takes seconds.
CONFIG = {
    "run": "tiny",
    "datasets": {"cities": {"task": "sql", "source": "data/rows.jsonl", "comparison": "bird", "drop": []}},
    "train_dataset": "cities",
    "scoring": {"sql": {"answer": "bare", "workers": 1}},
    "sampling": {"presample": {"n": 2}, "evaluate": {"n": 2, "greedy": False}},
    "partition": {"pef_min_correct": 2},
    "replay": {"base": {"cities": "data/answers.jsonl"}},
    "methods": {},
    "evaluate": {"datasets": ["cities"], "k": [1, 2]},
}
# The jobs that read databases, and some that follow from a change of what these find.
READERS = {"prepare_prompts", "audit_gold", "score"}


def write_database(file: Path, largest: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE city (name TEXT, people INTEGER)")
        connection.executemany("INSERT INTO city VALUES (?, ?)", [("a", 1), ("b", 2), ("c", largest)])
        connection.commit()


def write_data(folder: Path) -> None:
    """Two databases, three questions on each, three recorded answers to every question."""
    rows, answers = [], []
    for name in ("east", "west"):
        write_database(folder / f"database/{name}/{name}.sqlite", largest=3)
        for function in ("max", "min", "sum"):
            query = f"SELECT {function}(people) FROM city"
            rows.append({"prompt": f"{function} in {name}?", "db_id": name, "gold_sql": query})
            answers.append({"source_index": len(answers), "responses": [query, "SELECT 3", "SELECT 2"]})
    for name, lines in (("rows", rows), ("answers", answers)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def finished_run(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished run on databases of files."""
    folder = tmp_path_factory.mktemp("cities")
    write_data(folder / "data")
    workflow = Workflow.of(project, folder, CONFIG)
    workflow.run()
    return workflow


@pytest.fixture
def run(finished_run: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run."""
    return finished_run.copied(tmp_path / "run")


def stages(run: Workflow, *targets: str) -> Counter[str]:
    """How often each stage runs when the run is started again."""
    run.run(*targets)
    return run.stages() - Counter(["all"])


def database(run: Workflow, name: str = "east") -> Path:
    return run.folder / f"data/database/{name}/{name}.sqlite"


def test_the_table_has_name_size_and_sha256_of_each_database_and_footers_name_it(finished_run: Workflow) -> None:
    rows = pl.read_parquet(finished_run.results / TABLE).rows()
    files = [database(finished_run, name) for name in ("east", "west")]
    assert rows == [(f"{f.stem}/{f.name}", f.stat().st_size, sha256_file(f)) for f in files]
    audit = audit_run(finished_run.results)
    assert audit.faults == {}
    assert audit.listed is not None
    assert TABLE in audit.listed
    assert finished_run.plan() == []


def test_a_database_with_other_content_reruns_what_reads_it_and_what_follows(run: Workflow) -> None:
    write_database(database(run), largest=7)
    ran = stages(run, "partition", "evaluate")
    assert {"hash_databases", *READERS, "find_candidates", "refine", "evaluate_policy"} <= set(ran)
    assert ran["hash_databases"] == 1
    verdicts = pl.read_parquet(run.results / "verdicts/base/cities.evaluate/0.parquet")
    # "SELECT 3" is the largest number of one database, no longer of both.
    assert verdicts["correct"].sum() == 6 + 1
    assert run.plan("partition", "evaluate") == []


def test_a_newer_database_reruns_its_table_and_the_audit_alone_after_an_interruption_too(run: Workflow) -> None:
    """The table of before stays where it is until the next one is finished."""
    before = run.digests()
    os.utime(database(run))
    other = database(run, "west").with_name("other.sqlite")
    other.symlink_to("nothing")
    process = run.start()
    assert process.wait() != 0
    assert f"No such file or directory: '{other.relative_to(run.folder)}'" in run.output()
    other.unlink()
    assert stages(run) == Counter(["hash_databases", "audit"])
    assert run.digests() == before
    assert run.plan() == []
