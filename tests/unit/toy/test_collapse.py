"""The collapse cost that a run prints."""

import json
from pathlib import Path

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.tables import write_table
from dphrl.toy.collapse import collapse_cost


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
            ("grpo", "ambiguous", "pass@16", 0.4),
            *(("base", "ambiguous", metric, value) for metric, value in passes.items()),
        )
    ]
    (folder / "tables").mkdir()
    frame = SCHEMAS["headline_levels"].frame(found)
    write_table(
        frame.sort(*SCHEMAS["headline_levels"].key), "headline_levels", folder / "tables/headline_levels.parquet", {}
    )


def test_it_is_the_bases_pass_at_the_largest_k_less_the_share_of_the_commonest_reading(tmp_path: Path) -> None:
    write_run(tmp_path, [3, 3, 6, 10], {"mean@16": 0.3, "pass@8": 0.8, "pass@16": 0.93})
    assert collapse_cost(tmp_path) == (
        "What collapse would cost here: of the ambiguous questions of in_domain, which have several readings, the base "
        "solves 93.0 % within 16 samples; a policy with one reading left solves at most 50.0 %, 43.0 points less "
        "(docs/tutorial.md)."
    )


def test_it_is_empty_without_ambiguous_questions_without_a_base_and_without_a_world(tmp_path: Path) -> None:
    write_run(tmp_path / "plain", [], {"pass@16": 0.93})
    write_run(tmp_path / "baseless", [3], {})
    (tmp_path / "none").mkdir()
    assert [collapse_cost(tmp_path / name) for name in ("plain", "baseless", "none")] == ["", "", ""]
