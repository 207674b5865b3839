"""Where an artifact comes from, as text."""

import re
from pathlib import Path
from typing import Any

import pytest

from dphrl.audit.artifacts import NoRunError
from dphrl.audit.lineage import lineage
from dphrl.audit.run import audit_run
from dphrl.cli import main

EVALUATION = "evaluation/grpo-s1/step2/eval.parquet"


def test_an_evaluation_leads_back_to_the_base_policy_and_the_pre_samples(built: Path) -> None:
    text = lineage(built / EVALUATION)
    assert text.startswith(EVALUATION)
    for path in (
        "rollouts/grpo-s1/step2/eval.evaluate/0.parquet",
        "policies/grpo-s1/step2.json",
        "draws/main/partition/final.parquet",
        "draws/main/partition/candidates.parquet",
        "draws/main/verdicts/train.presample/1.parquet",
        "draws/main/rollouts/train.presample/1.parquet",
        "prompts/train.parquet",
        "policies/base.json",
    ):
        assert text.count(f"\n{path}  (digest ") == 1, path
    assert "  stage      evaluate_policy\n" in text
    assert '  config     {"plan": {"greedy": true, "n": 2}' not in text
    assert "from       rollouts: rollouts/grpo-s1/step2/eval.evaluate/0.parquet ... " in text
    assert "from       source: questions.jsonl, outside of the run (0000" in text


def test_a_file_without_a_footer_is_traced_by_the_artifact_that_it_belongs_to(built: Path) -> None:
    for file, maker in (
        ("policies/base/model.safetensors", "policies/base.json"),
        ("figures/training.json", "tables/training.parquet"),
        ("draws/main/reference/responses.safetensors", "draws/main/reference/index.parquet"),
    ):
        assert lineage(built / file).startswith(f"{file} belongs to {maker}\n\n{maker}  (digest ")


def test_an_input_that_has_changed_is_said_to_have(small_run: Any) -> None:
    small_run.rewrite("gold/eval.parquet", small_run.read("gold/eval.parquet").head(2))
    assert "gold: gold/eval.parquet: CHANGED since, or not there any more" in lineage(small_run.root / EVALUATION)


def test_a_file_from_outside_may_have_any_name(small_run: Any) -> None:
    path = "prompts/eval.parquet"
    footer = small_run.footer(path)
    for name in ("toy.json", "SHA256SUMS", "prompts"):
        footer["inputs"]["source"]["paths"] = [name]
        small_run.set_footer(path, footer)
        assert audit_run(small_run.root)["failed"].list.len().sum() == 0
        assert f"source: {name}, outside of the run" in lineage(small_run.root / path)


def test_damage_is_reported_on_the_way(small_run: Any) -> None:
    (small_run.root / "prompts/train.parquet").write_bytes(b"PAR1")
    assert "DAMAGED    prompts/train.parquet is not the file" in lineage(small_run.root / "gold/train.parquet") or (
        "prompts: prompts/train.parquet: CHANGED since" in lineage(small_run.root / "gold/train.parquet")
    )


def test_a_file_outside_of_a_run_and_one_without_a_maker_are_refused(tmp_path: Path, small_run: Any) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(NoRunError, match="in no folder of a run"):
        lineage(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="no footer shows how it was made"):
        lineage(small_run.root / "tables/headline.md")
    (small_run.root / "report").mkdir()
    (small_run.root / "report/index.html").write_text("")
    with pytest.raises(
        ValueError, match=r"report/index\.html: no footer shows how it was made; name a table, e\.g\. tab"
    ):
        lineage(small_run.root / "report/index.html")


def test_the_command_prints_the_lineage_and_returns_a_status(
    built: Path, small_run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "lineage", str(built / EVALUATION)]) == 0
    shown = capsys.readouterr().out
    assert EVALUATION in shown
    assert "\nverdicts/grpo-s1/step2/eval.evaluate/0.parquet  (digest" in shown
    assert "\ndraws/main/partition/final.parquet  (digest" not in shown
    more = re.search(r"\n\n(\d+) artifacts further back: --depth (\d+) shows all\.\n$", shown)
    assert more is not None
    assert main(["audit", "lineage", str(built / EVALUATION), "--depth", more[2]]) == 0
    whole = capsys.readouterr().out
    assert whole == lineage(built / EVALUATION) + "\n"
    assert whole.count("(digest ") == shown.count("(digest ") + int(more[1])
    assert main(["audit", "lineage", str(built / EVALUATION), "--depth", "0"]) == 0
    assert capsys.readouterr().out.count("  (digest ") == 1
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "lineage", str(built / EVALUATION), "--depth", "-1"])
    assert main(["audit", "lineage", str(built / "nowhere.parquet")]) == 2
