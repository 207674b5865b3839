"""The table of rules of the maths scorer on the report page."""

import json
from pathlib import Path

import polars as pl

from dphrl.report.refused_answers import missing_of_run, rules_of_run
from dphrl.store.catalogue import SCHEMAS


def shard(path: Path, details: list[str | None]) -> str:
    """A shard of verdicts, one wrong answer for each detail."""
    path.parent.mkdir(parents=True)
    rows = [
        {
            "prompt_id": "p",
            "sample_index": n,
            "verdict": "wrong",
            "correct": False,
            "reward": 0.0,
            "extracted": f"{n} or 9",
        }
        | {"answer_class": None, "program_class": None, "detail": detail, "reads_table": None}
        for n, detail in enumerate(details)
    ]
    SCHEMAS["verdicts"].frame(rows).write_parquet(path)
    return str(path)


def test_each_rule_has_its_number_and_examples(tmp_path: Path) -> None:
    gold = tmp_path / "gold.parquet"
    pl.DataFrame({"prompt_id": ["p"], "ground_truth": [json.dumps({"answer": ["7", 8]})]}).write_parquet(gold)
    details = ["rule: count", "rule: units", None, "rule: count", "not compared after 5 s"]
    verdicts = [shard(tmp_path / "base" / "amc.k" / "0.parquet", details)]
    ((title, caption, table),) = rules_of_run((["amc"], {"base": "base"}, {"gold": [str(gold)], "verdicts": verdicts}))
    assert title == "Rules of the maths scorer"
    assert "docs/scoring.md" in caption
    assert table.drop("Policy").rows() == [
        ("amc", "count", "2 of 5", "0 or 9 for 7, 8; 3 or 9 for 7, 8"),
        ("amc", "units", "1 of 5", "1 or 9 for 7, 8"),
    ]


def test_a_custom_scorer_may_name_rules(tmp_path: Path) -> None:
    gold = tmp_path / "gold.parquet"
    pl.DataFrame({"prompt_id": ["p"], "ground_truth": [json.dumps({"accepted": "x"})]}).write_parquet(gold)
    verdicts = [shard(tmp_path / "base" / "own.k" / "0.parquet", ["rule: order"])]
    ((_, _, table),) = rules_of_run((["own"], {"base": "base"}, {"gold": [str(gold)], "verdicts": verdicts}))
    assert table["Examples"].to_list() == ["0 or 9 for {'accepted': 'x'}"]


def test_without_rules_there_is_no_table(tmp_path: Path) -> None:
    verdicts = [shard(tmp_path / "base" / "sql.k" / "0.parquet", [None, "no such table: t"])]
    gold = tmp_path / "gold.parquet"
    pl.DataFrame({"prompt_id": ["p"], "ground_truth": ["{}"]}).write_parquet(gold)
    assert rules_of_run((["sql"], {"base": "base"}, {"gold": [str(gold)], "verdicts": verdicts})) == []
    assert rules_of_run(((), {}, {})) == []


def test_a_policy_whose_answers_are_not_found_is_named_with_an_example(tmp_path: Path) -> None:
    files: dict[str, list[str]] = {"rollouts": [], "verdicts": []}
    for policy, missing in (("base", 3), ("grpo-s1/step4", 0)):
        drawn = pl.DataFrame({"prompt_id": "p", "sample_index": range(4), "text": "about 7", "finish_reason": "stop"})
        verdicts = pl.Series(["no_answer"] * missing + ["wrong"] * (4 - missing))
        found = drawn.select("prompt_id", "sample_index", verdict=verdicts)
        for kind, frame in (("rollouts", drawn), ("verdicts", found)):
            path = tmp_path / kind / policy / "amc.evaluate/0.parquet"
            path.parent.mkdir(parents=True)
            frame.write_parquet(path)
            files[kind].append(str(path))
    ((title, caption, table),) = missing_of_run((["amc"], {"base": "base", "grpo": "grpo-s1/step4"}, files))
    assert title == "Answers not found or cut off"
    assert "datasets.<name>.answer" in caption
    ((dataset, policy, note),) = table.rows()
    assert (dataset, policy) == ("amc", "Base")
    assert note.startswith("no answer was found in 75.0 % of the samples, 0.0 % were cut off")
    assert note.endswith("'about 7'")
    assert missing_of_run((["amc"], {"grpo": "grpo-s1/step4"}, files)) == []
