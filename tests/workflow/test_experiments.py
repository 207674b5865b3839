"""The shipped experiments: Snakemake can plan each of them, and one small experiment of each family runs."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from experiments import NAMES, experiment, files_of
from runs import ROOT, Workflow

from dphrl.config.blocks.data import TOY
from dphrl.config.load import read_config
from dphrl.hub import data_name, model_name
from dphrl.report.audit import audit_run
from dphrl.store.layout import Layout

pytestmark = pytest.mark.workflow


def _write_placeholders(name: str, folder: Path) -> None:
    """Empty files where the experiment expects its data, a model folder without a model, and the user's functions."""
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
    for file in {file for method in config.methods.values() for file in method.files}:
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
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
PLANNED = [name for name in NAMES if name != "spider-replay" and not name.endswith("-mini")]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SHORT else [pytest.mark.full]) for n in PLANNED])
def test_an_experiment_is_planned_with_its_own_data_methods_and_steps(name: str, project: Path, tmp_path: Path) -> None:
    _write_placeholders(name, tmp_path)
    *changed, file = files_of(name)
    printed = Workflow(project, tmp_path, file, name, tuple(changed)).run("--dry-run")
    counts = Counter({rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE)})
    config = experiment(name)
    layout = Layout(config)
    expected = {"import_model": len(layout.models()), "tensorise": len(layout.draws()) * len(config.stored)}
    expected |= {"train_segment": len(layout.segments()), "evaluate_policy": len(layout.evaluations())}
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
