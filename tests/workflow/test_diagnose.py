"""The policies of a run, diagnosed from files of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import Workflow
from written_samples import write_every_format

from dphrl.cli import main

pytestmark = pytest.mark.workflow

POLICIES = {"base": "base", "grpo": "grpo-s1/step4"}
# Names of files, ids and paths differ between formats, and levels are made up where a tool has them.
SAME = ("verdict", "reasons", "k", "coverage", "accuracy", "rest", "exchange", "varieties", "qualified")


def write(results: Path, policy: str, folder: Path) -> pl.DataFrame:
    """The samples of a policy in every format; its row of pass@k in the tables of the run."""
    rows = [
        pl.read_parquet(results / kind / policy / "in_domain.evaluate/0.parquet") for kind in ("rollouts", "verdicts")
    ]
    key = ["prompt_id", "sample_index"]
    drawn = rows[0].filter(pl.col("sample_index") >= 0).join(rows[1].select(*key, "correct"), on=key)
    folder.mkdir()
    samples = drawn.sort(key).group_by("prompt_id", maintain_order=True).agg("text", "correct")
    asked = {
        f"Question {number}?": list(zip(texts, right, strict=True))
        for number, (_, texts, right) in enumerate(samples.iter_rows())
    }
    write_every_format(asked, folder)
    method = policy.partition("-")[0]
    table = pl.read_parquet(results / "tables/passk.parquet")
    return table.filter(pl.col("step") == pl.col("step").max().over("method"), method=method, dataset="in_domain")


def test_the_policies_of_a_run_have_one_diagnosis_in_every_format(pristine: Workflow, tmp_path: Path) -> None:
    tables = {name: write(pristine.results, policy, tmp_path / name) for name, policy in POLICIES.items()}
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((tmp_path / "base").iterdir()):
        output = tmp_path / f"{file.stem}.json"
        main(["diagnose", *(str(tmp_path / name / file.name) for name in POLICIES), "--json", str(output)])
        # Ids order the questions, and sums in another order differ in their last bits.
        text = json.loads(output.read_text(), parse_float=lambda number: round(float(number), 9))
        (model,) = text["models"].values()
        found[file.stem] = {name: model[name] for name in SAME}
    assert len(found) == 6
    assert all(one == found["plain"] for one in found.values())
    k = found["plain"]["k"]
    for name, value in (("base", "base"), ("grpo", "tuned")):
        expected = tables[name].filter(k=k)["value"].item()
        assert found["plain"]["coverage"][value] == pytest.approx(expected, abs=1e-8)


def test_the_verdicts_of_a_run_have_the_pass_at_k_of_its_tables(pristine: Workflow, tmp_path: Path) -> None:
    folders = [str(pristine.results / "verdicts" / policy / "in_domain.evaluate") for policy in POLICIES.values()]
    main(["diagnose", *folders, "--json", str(tmp_path / "found.json")])
    (model,) = json.loads((tmp_path / "found.json").read_text())["models"].values()
    table = pl.read_parquet(pristine.results / "tables/passk.parquet").filter(dataset="in_domain", k=model["k"])
    last = table.filter(pl.col("step") == pl.col("step").max().over("method"))
    for name, value in (("base", "base"), ("grpo", "tuned")):
        assert model["coverage"][value] == pytest.approx(last.filter(method=name)["value"].item(), abs=1e-8)
    row = pl.read_parquet(pristine.results / "tables/collapse.parquet").filter(dataset="in_domain", method="grpo")
    assert row["word"].item() == model["verdict"]
    shown = row.select("k", "difference", "low", "high").row(0)
    expected = (model["k"], model["coverage"]["value"], *model["coverage"]["wide"])
    assert shown == pytest.approx(expected, abs=1e-9)
