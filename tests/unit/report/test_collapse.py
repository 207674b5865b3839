"""What a run of the embedded world prints of its ambiguous questions."""

import json
from pathlib import Path

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.tables import write_table
from dphrl.report.terminal import REGISTERED, ambiguous, registered_in_words


def write_run(folder: Path, radii: list[int], passes: dict[str, float]) -> None:
    rows = [{"level": "plain", "gold_sql": "SELECT COUNT(*) FROM sale WHERE tax <= 7"}]
    rows += [{"level": "ambiguous", "gold_sql": f"SELECT COUNT(*) FROM sale WHERE ABS(tax - 50) <= {r}"} for r in radii]
    (folder / "toy/questions").mkdir(parents=True)
    (folder / "toy/questions/in_domain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [
        {"level": level, "prompts": 4, "method": method, "seed": 0, "step": 0, "dataset": "in_domain"}
        | {"metric": metric, "value": value, "low": value, "high": value}
        for method, level, metric, value in (
            ("base", "plain", "pass@16", 1.0),
            *(("grpo", "ambiguous", metric, 0.4) for metric in passes),
            *(("base", "ambiguous", metric, value) for metric, value in passes.items()),
        )
    ]
    (folder / "tables").mkdir()
    frame = SCHEMAS["headline_levels"].frame(found)
    write_table(
        frame.sort(*SCHEMAS["headline_levels"].key), "headline_levels", folder / "tables/headline_levels.parquet", {}
    )


def test_it_has_pass_at_the_largest_k_of_each_policy_and_the_share_of_the_commonest_reading(tmp_path: Path) -> None:
    write_run(tmp_path, [3, 3, 6, 10], {"mean@16": 0.3, "pass@8": 0.8, "pass@16": 0.93})
    assert ambiguous(tmp_path) == (
        "Ambiguous questions of in_domain, in per cent solved within 16 samples: Base 93.0, GRPO 40.0. A policy "
        f"with one reading solves 50.0 (docs/decisions/the-world.md). {registered_in_words()}."
    )
    assert "of 16 registered trainings each" in registered_in_words()


def test_the_registered_trainings_are_those_of_the_committed_counts() -> None:
    counts = pl.read_parquet(Path(__file__).parents[3] / "docs/worked-example/counts.parquet")
    asked = counts.filter(run="demo-full", level="ambiguous", step=40)
    solved = asked.group_by("method", "seed").agg((pl.col("c") > 0).sum())
    found = {method: tuple(rows["c"].sort()) for (method,), rows in solved.partition_by("method", as_dict=True).items()}
    assert found == REGISTERED


def test_it_is_empty_without_ambiguous_questions_without_a_base_and_without_a_world(tmp_path: Path) -> None:
    write_run(tmp_path / "plain", [], {"pass@16": 0.93})
    write_run(tmp_path / "baseless", [3], {})
    (tmp_path / "none").mkdir()
    assert [ambiguous(tmp_path / name) for name in ("plain", "baseless", "none")] == ["", "", ""]
