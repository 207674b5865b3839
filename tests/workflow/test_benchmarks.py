"""Every benchmark that the docs name runs, in its smallest form."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from runs import ROOT

pytestmark = pytest.mark.workflow

# Arguments of the smallest form; {data} is a folder of answers in the layout of the test data.
SMALLEST = {
    "coverage": ["--runs", "2", "--nested", "2"],
    "diagnose": ["--draws", "8", "--processes", "1", "--part", "margin", "--cell", "130"],
    "diagnose_files": ["--questions", "40", "--out", "{data}/diagnose"],
    "gpu": ["--engine", "transformers", "--small", "--steps", "1"],
    "scoring": ["--data", "{data}", "--repeats", "1"],
    "training": ["--threads", "1", "--repeats", "1", "--small"],
}
# The counts of the registered results, by the program that prints their tables, and a row as it was registered.
REGISTERED = {
    "registered": ("counts.parquet", "| DPH-F - GRPO at equal mean | 5, 5 | +14.4 [-23.7, +52.5] | 1.000 | 62.9 |"),
    "registered_llm": (
        "language-model.parquet",
        "| DPH-JS - GRPO, pass@16, unseen | 5, 5 | +5.3 [+1.0, +9.6] | 0.056 | 7.5 |",
    ),
    "arena": ("../arena.parquet", "| DPH-F, weights mixed | "),
}
DOCUMENTED = re.compile(r"python (dev/benchmarks/(\w+)\.py)(.*)")


def run(name: str, *arguments: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(ROOT / "dev/benchmarks" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few answers in the files that the benchmark of scoring reads."""
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


@pytest.mark.parametrize("name", REGISTERED)
def test_the_tables_of_the_registered_results_are_printed_from_their_counts(name: str) -> None:
    file, row = REGISTERED[name]
    assert row in run(name, "tables", str(ROOT / "docs/worked-example" / file))


def test_the_figures_of_the_registered_results_are_drawn_from_their_counts(tmp_path: Path) -> None:
    figures = [tmp_path / "images/passk.svg", tmp_path / "worked-example/strip.svg"]
    for figure in figures:
        figure.parent.mkdir()
    run("registered_figures", str(ROOT / "docs/worked-example/counts.parquet"), str(tmp_path))
    assert all("GRPO" in figure.read_text("utf-8") for figure in figures)


# In `make test-full` only, as they are for developers.
@pytest.mark.full
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_prints_its_table(name: str, data: Path) -> None:
    printed = run(name, *(argument.format(data=data) for argument in SMALLEST[name]))
    # A Markdown table with a row below its head.
    assert re.search(r"^\| ---.*\n\|.*\d", printed, re.MULTILINE)


def test_every_documented_benchmark_exists_with_its_options() -> None:
    documented = [
        command for page in (ROOT / "docs").rglob("*.md") for command in DOCUMENTED.findall(page.read_text("utf-8"))
    ]
    assert {name for _, name, _ in documented} == {*SMALLEST, *REGISTERED, "registered_figures"}
    for file, _, arguments in documented:
        program = (ROOT / file).read_text("utf-8")
        assert all(f'"{option}"' in program for option in re.findall(r"--[\w-]+", arguments)), file
