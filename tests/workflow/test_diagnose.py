"""The policies of a run, diagnosed from its verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from runs import Workflow

from dphrl.cli import main

pytestmark = pytest.mark.workflow

POLICIES = {"base": "base", "grpo": "grpo-s1/step4"}


def test_the_verdicts_of_a_run_have_the_pass_at_k_of_its_tables(pristine: Workflow, tmp_path: Path) -> None:
    folders = [str(pristine.results / "verdicts" / policy / "in_domain.evaluate") for policy in POLICIES.values()]
    main(["diagnose", *folders, "--json", str(tmp_path / "found.json")])
    (model,) = json.loads((tmp_path / "found.json").read_text())["models"].values()
    table = pl.read_parquet(pristine.results / "tables/passk.parquet").filter(dataset="in_domain", k=model["k"])
    last = table.filter(pl.col("step") == pl.col("step").max().over("method"))
    for name, value in (("base", "base"), ("grpo", "tuned")):
        assert model["coverage"][value] == pytest.approx(last.filter(method=name)["value"].item(), abs=1e-8)
    row = pl.read_parquet(pristine.results / "tables/collapse.parquet").filter(dataset="in_domain", method="grpo")
    assert row["word"].item() == model["diagnosis"]
    shown = row.select("k", "difference", "low", "high").row(0)
    expected = (model["k"], model["coverage"]["value"], *model["coverage"]["wide"])
    assert shown == pytest.approx(expected, abs=1e-9)
