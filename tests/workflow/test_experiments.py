"""The shipped experiments: Snakemake can plan each of them, and one small experiment of each family runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from experiments import experiment, files_of
from runs import Workflow

from dphrl.config.blocks.data import TOY
from dphrl.config.load import read_config
from dphrl.hub import data_name, model_name
from dphrl.report.audit import audit_run
from dphrl.store.layout import Layout

pytestmark = pytest.mark.workflow

# Number of jobs: segments of training, sampling, evaluation of a policy on a set, preparation of prompts.
JOBS = {
    "llama-sql": (126, 155, 128, 3),
    "llama-sql-maths": (126, 1371, 168, 7),
    "omnisql-sql": (156, 668, 158, 3),
    "llama-math": (132, 1259, 154, 8),
    "qwen-math": (243, 1595, 196, 8),
    "llama-sql-equal-steps": (144, 173, 146, 3),
    "omnisql-sql-equal-steps": (120, 524, 122, 3),
    "llama-math-equal-steps": (120, 923, 112, 8),
    "qwen-math-equal-steps": (144, 1091, 133, 8),
    "eta-ablation": (68, 79, 70, 3),
    "alpha-ablation": (32, 43, 34, 3),
    "generator-definition": (36, 47, 38, 3),
    "rkl-estimators": (38, 49, 40, 3),
    "multi-style": (30, 22, 16, 2),
    "demo-full": (77, 110, 78, 2),
    "demo-full-paths": (75, 86, 76, 2),
    "demo-full-top-p": (0, 40, 38, 2),
    "demo-full-hot": (0, 18, 16, 2),
    "world-2": (22, 39, 23, 2),
    "world-3": (22, 39, 23, 2),
    "draws": (6, 9, 7, 2),
    "gsm8k-1gpu": (9, 6, 4, 2),
    "demo-llm": (5, 15, 12, 3),
    "demo-llm-full": (19, 55, 40, 3),
}


def _write_placeholders(name: str, folder: Path) -> None:
    """Empty files and folders where the experiment expects its data, and a model folder without a model."""
    config = experiment(name)
    if start := config.policy.supervised:
        (folder / start.source).parent.mkdir(parents=True)
        (folder / start.source).touch()
    for dataset in config.datasets.values():
        if dataset.source == TOY or data_name(dataset.source):
            continue
        (folder / dataset.source).parent.mkdir(parents=True, exist_ok=True)
        (folder / dataset.source).touch()
        if dataset.database_folder:
            (folder / dataset.database_folder).mkdir(parents=True, exist_ok=True)
    for place in Layout(config).models().values():
        if model_name(place, folder):
            continue
        model = folder / place
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        (model / "tokenizer.json").touch()
        (model / "model.safetensors").touch()


# One of the paper, and one with a supervised start; the others, which differ in numbers, are in `make test-full`.
SHORT = {"llama-sql", "demo-llm"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SHORT else [pytest.mark.full]) for n in JOBS])
def test_an_experiment_is_planned_with_its_own_data_methods_and_steps(name: str, project: Path, tmp_path: Path) -> None:
    _write_placeholders(name, tmp_path)
    *changed, file = files_of(name)
    printed = Workflow(project, tmp_path, file, name, tuple(changed)).run("--dry-run")
    counts = Counter({rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE)})
    # Another rule draws the samples of stage 1.
    counts["sample"] += counts["sample_draw"]
    planned = tuple(counts[rule] for rule in ("train_segment", "sample", "evaluate_policy", "prepare_prompts"))
    assert planned == JOBS[name]
    config = experiment(name)
    expected = {"import_model": len(Layout(config).models()), "tensorise": len(Layout(config).draws())}
    expected |= {"build_world": int(config.toy is not None), "report": 1, "audit": 1}
    assert {rule: counts[rule] for rule in expected} == expected


@pytest.mark.full
@pytest.mark.parametrize("name", ["llama-sql-mini", "llama-math-mini", "ablations-mini", "multi-style-mini"])
def test_a_small_experiment_of_each_family_runs_to_its_report(name: str, project: Path, tmp_path: Path) -> None:
    workflow = Workflow(project, tmp_path, files_of(name)[-1], name)
    workflow.run()
    config = read_config(workflow.config)
    partition = pl.read_parquet(workflow.results / "draws/main/partition/final.parquet")
    assert {"pef", "exp"} <= set(partition["subset"])
    headline = pl.read_parquet(workflow.results / "tables/headline.parquet")
    assert set(headline["method"]) >= {"base", *config.methods}
    assert set(headline["dataset"]) == set(config.evaluate.datasets)
    assert audit_run(workflow.results).faults == {}
    assert (workflow.results / "report/index.html").exists()
    assert workflow.plan() == []
