"""Recorded answers through the whole workflow: no model, no engine."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from published import DATA
from runs import Workflow

from dphrl.report.audit import audit_run

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "config" / "experiments"
SYSTEMS = ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5")


@pytest.fixture(scope="module")
def example(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished run of the worked example; not to be changed."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "examples").symlink_to(project / "examples")
    workflow = Workflow(project, folder, ROOT / "examples/custom_scorer/config.yaml", "custom-scorer")
    workflow.run()
    return workflow


def test_a_part_of_a_run_is_named_and_forced(example: Workflow, tmp_path: Path) -> None:
    workflow = example.copied(tmp_path / "run")
    for path in ("draws/main/verdicts/capitals.presample/0.parquet", "draws/main/partition/final.parquet"):
        (workflow.results / path).unlink()
    assert workflow.plan("presample") == ["scoring base on capitals (presample, draw main)"]
    assert workflow.plan("partition") == ["writing the final partition of draw main"]
    figures = {f"drawing the figure {path.stem}" for path in (workflow.results / "figures").glob("*.json")}
    assert figures < set(workflow.plan("--forcerun", "figure"))


def test_deleted_files_that_are_made_again_by_their_names_rerun_no_stage(example: Workflow, tmp_path: Path) -> None:
    workflow = example.copied(tmp_path / "run")
    names = ("draws/main/verdicts/capitals.presample/0.parquet", "gold/capitals.parquet")
    before = [(workflow.results / name).read_bytes() for name in names]
    for name in names:
        (workflow.results / name).unlink()
    workflow.run(*(f"results/custom-scorer/{name}" for name in names))
    assert [(workflow.results / name).read_bytes() for name in names] == before
    # The page shows the seconds of jobs, and the list of the run has the timings of every job.
    workflow.run()
    assert workflow.stages() == {"report": 1, "audit": 1, "all": 1}
    assert audit_run(workflow.results).faults == {}


def test_results_are_accepted_under_changed_code(example: Workflow, tmp_path: Path, code: Path) -> None:
    workflow = example.copied(tmp_path / "run")
    module = code / "data/partition.py"
    module.write_text(module.read_text() + "\n_NEW = 1\n")
    workflow.run("--touch")
    assert workflow.plan() == []


def test_the_worked_example_of_custom_data_and_scorer(example: Workflow) -> None:
    (counts,) = pl.read_parquet(example.results / "tables/datasets.parquet").rows(named=True)
    assert (counts["rows"], counts["prompts"], counts["duplicate"], counts["kept"]) == (5, 4, 1, 4)
    rows = pl.read_parquet(example.results / "evaluation/base/capitals.parquet")
    assert sorted(rows["c"]) == [0, 2, 2, 3]
    partition = pl.read_parquet(example.results / "draws/main/partition/final.parquet")
    # Two candidates; the third answer of one of them is wrong.
    assert dict(partition.group_by("subset").len().iter_rows()) == {"pef": 1, "exp": 3}
    assert (example.results / "report/index.html").exists()


def test_three_systems_on_spider_give_the_official_totals(project: Path, tmp_path: Path) -> None:
    spider = DATA / "text2sql" / "spider"
    if not spider.is_dir():
        pytest.skip(f"no {spider}: set DPHRL_TEST_DATA to the folder of the test data")
    predictions = [
        [json.loads(line) for line in (spider / "predictions" / f"{name}.jsonl").open(encoding="utf-8")]
        for name in SYSTEMS
    ]
    folder = tmp_path / "data" / "spider"
    folder.mkdir(parents=True)
    for name in ("dev.json", "database"):
        (folder / name).symlink_to((spider / name).resolve())
    with (folder / "answers.jsonl").open("w", encoding="utf-8") as file:
        for index, rows in enumerate(zip(*predictions, strict=True)):
            file.write(json.dumps({"source_index": index, "responses": [row["pred_sql"] for row in rows]}) + "\n")
    workflow = Workflow(project, tmp_path, EXPERIMENTS / "spider-replay.yaml", "spider-replay")
    made = ("evaluation/base/spider.parquet", "draws/main/partition/candidates.parquet")
    workflow.run(*(f"results/spider-replay/{name}" for name in made))

    prompts = pl.read_parquet(workflow.results / "prompts/spider.parquet")
    expected = [[bool(row["official_ex_keep_distinct"]) for row in rows] for rows in zip(*predictions, strict=True)]
    found = dict(
        pl.read_parquet(workflow.results / "evaluation/base/spider.parquet")
        .join(prompts.select("prompt_id", "source_index"), on="prompt_id")
        .select("source_index", "correct")
        .iter_rows()
    )
    assert len(found) > 600
    assert found == {index: expected[index] for index in found}
    candidates = pl.read_parquet(workflow.results / "draws/main/partition/candidates.parquet")
    counts = Counter(min(sum(expected[index][:2]), 2) for index in found)
    assert dict(candidates.group_by("c").len().iter_rows()) == dict(counts)
