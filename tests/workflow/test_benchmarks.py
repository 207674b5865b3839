"""Every benchmark that the docs name runs, in its smallest form."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import ROOT, TINY, Workflow

pytestmark = pytest.mark.workflow

# Arguments of the smallest form; {run} is a finished run, {data} a folder of answers in the layout of the test data.
SMALLEST = {
    "coverage": ["--runs", "2", "--processes", "1"],
    "diagnose": ["--draws", "8", "--processes", "1", "--part", "margin", "--cell", "130"],
    "diagnose_files": ["--questions", "40", "--out", "{data}/diagnose"],
    "evaluation": ["--small"],
    "gpu": ["--engine", "transformers", "--model", "0.5B", "--small", "--steps", "1"],
    "graph": ["--shards", "1"],
    "head_precision": ["{run}", "--responses", "2"],
    "job_memory": ["--interval", "0.1", "{data}/memory.parquet", "sleep", "0.5"],
    "memory": ["--rollouts", "80"],
    "prompt_sharing": ["--passes", "1", "--shapes", "demo, D_pef"],
    "registered": ["tables", str(ROOT / "docs/worked-example/counts.parquet")],
    "registered_llm": ["tables", str(ROOT / "docs/worked-example/language-model.parquet")],
    "sampling": ["{run}", "--prompts", "2", "--repeats", "1"],
    "scoring": ["--data", "{data}", "--repeats", "1", "--slow", "1"],
    "scoring_maths": ["--data", "{data}"],
    "stages": ["{run}"],
    "topk_variance": ["{run}", "--responses", "2"],
    "training": ["--threads", "1", "--repeats", "1", "--small"],
    "world": [str(TINY), "{run}", "--questions", "2", "--memory"],
}
# In `make test-full` only: half a minute each.
LONG = ("gpu", "memory", "sampling", "training")
PEER = ["--peer-python", sys.executable]
LANGUAGE = "--language"
OF_A_RUN = [name for name, arguments in SMALLEST.items() if "{run}" in arguments]
DOCUMENTED = re.compile(r"python dev/benchmarks/(\w+)\.py(.*)")


def run(name: str, *arguments: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(ROOT / "dev/benchmarks" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def has_a_row_of_figures(table: str) -> bool:
    """Whether a Markdown table has a row below its head."""
    return re.search(r"^\| ---.*\n\|.*\d", table, re.MULTILINE) is not None


def marked(names: list[str]) -> list[Any]:
    """The names as values of a parameter, the long ones for `make test-full`."""
    return [pytest.param(name, marks=[pytest.mark.full] if name in LONG else []) for name in names]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few answers in the files that the scoring benchmarks read."""
    folder = tmp_path_factory.mktemp("data")
    spider, maths = folder / "text2sql" / "spider", folder / "math_graded"
    (spider / "predictions").mkdir(parents=True)
    maths.mkdir()
    answers = []
    # Each of two workers has a database.
    for database in ("shop", "zoo"):
        path = spider / "database" / database / f"{database}.sqlite"
        path.parent.mkdir(parents=True)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE item (name TEXT)")
        queries = {"gold_sql": "SELECT name FROM item", "pred_sql": "SELECT * FROM item"}
        answers.append(json.dumps({"dev_index": len(answers), "db_id": database, **queries}))
    for system in ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5"):
        (spider / "predictions" / f"{system}.jsonl").write_text("\n".join(answers))
    (maths / "qwen_math_cot.jsonl").write_text(json.dumps({"gt": "7", "response": ["\\boxed{7}", "\\boxed{8}"]}) + "\n")
    solutions = {"ground_truth": "A: 7", "model": {"solution": "3 + 4. A: 7"}}
    (maths / "gsm8k_model_solutions.jsonl").write_text(json.dumps(solutions) + "\n")
    return folder


@pytest.mark.parametrize("name", marked(sorted(SMALLEST.keys() - OF_A_RUN)))
def test_a_benchmark_prints_its_table(name: str, data: Path) -> None:
    assert has_a_row_of_figures(run(name, *(argument.format(data=data) for argument in SMALLEST[name])))


@pytest.mark.parametrize("name", marked(OF_A_RUN))
def test_a_benchmark_of_a_run_prints_its_table(name: str, pristine: Workflow) -> None:
    assert has_a_row_of_figures(run(name, *(argument.format(run=pristine.results) for argument in SMALLEST[name])))


@pytest.mark.full
def test_the_benchmark_of_training_takes_steps_of_a_language_model() -> None:
    assert has_a_row_of_figures(run("training", *SMALLEST["training"], LANGUAGE))


def test_the_benchmark_of_training_compares_with_trl() -> None:
    if importlib.util.find_spec("trl") is None:
        pytest.skip("TRL is not installed: `pip install trl datasets` next to the pinned packages runs this test")
    rows = [
        row.split(" | ") for row in run("training", *SMALLEST["training"], *PEER).splitlines() if " | TRL | " in row
    ]
    assert rows
    assert all(float(row[2]) > 0 for row in rows)


def test_every_documented_benchmark_is_run_with_the_options_that_it_is_documented_with() -> None:
    documented = {
        (name, option)
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for name, arguments in DOCUMENTED.findall(page.read_text())
        for option in ["", *re.findall(r"--[\w-]+", arguments)]
    }
    assert documented
    known = {(name, option) for name, arguments in SMALLEST.items() for option in ["", *arguments]}
    assert documented - known <= {("training", PEER[0]), ("training", LANGUAGE)}
