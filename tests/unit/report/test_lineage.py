"""Where an artifact comes from, as text."""

import re

import pytest
from small_run import SmallRun

from dphrl.cli import main
from dphrl.report.lineage import lineage

EVALUATION, GOLD = "evaluation/grpo-s1/step2/eval.parquet", "gold/eval.parquet"
ALL = 99


def test_an_evaluation_leads_back_to_the_base_policy_and_the_pre_samples(small_run: SmallRun) -> None:
    text = lineage(small_run.root / EVALUATION, ALL)
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
    assert "from       rollouts: rollouts/grpo-s1/step2/eval.evaluate/0.parquet ... " in text
    assert "from       source: questions.jsonl, outside of the run (0000" in text


@pytest.mark.parametrize(
    ("file", "maker"),
    [
        ("policies/base/model.safetensors", "policies/base.json"),
        ("figures/training.json", "tables/training.parquet"),
        ("draws/main/reference/responses.safetensors", "draws/main/reference/index.parquet"),
        ("timings/draws/main/partition/final.parquet", None),
    ],
)
def test_a_file_without_a_footer_is_traced_by_the_artifact_that_it_belongs_to(
    small_run: SmallRun, file: str, maker: str | None
) -> None:
    head = f"{file} belongs to {maker}\n\n{maker}" if maker else file
    assert lineage(small_run.root / file, ALL).startswith(f"{head}  (digest ")


def test_an_input_that_has_changed_is_said_to_have(small_run: SmallRun) -> None:
    small_run.rewrite(GOLD, small_run.read(GOLD).head(2))
    assert "gold: gold/eval.parquet: CHANGED since, or not there any more" in lineage(small_run.root / EVALUATION, ALL)


def test_damage_is_said_of_a_file_and_of_its_inputs(small_run: SmallRun) -> None:
    rows = (small_run.root / GOLD).read_bytes()
    (small_run.root / GOLD).write_bytes(rows[:8] + bytes([rows[8] ^ 0xFF]) + rows[9:])
    assert re.search(rf"^{GOLD}\n  DAMAGED    {GOLD}: it is not the file", lineage(small_run.root / GOLD, ALL))
    assert "gold: gold/eval.parquet: CHANGED since" in lineage(small_run.root / EVALUATION, ALL)


def test_a_file_without_a_maker_is_refused(small_run: SmallRun) -> None:
    file = "tables/headline.csv"
    with pytest.raises(ValueError, match=f"{file}: no footer shows how it was made; name a table, e.g. tab"):
        lineage(small_run.root / file, ALL)


def test_the_command_prints_the_lineage_and_returns_a_status(
    small_run: SmallRun, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(small_run.root / EVALUATION)
    assert main(["lineage", file]) == 0
    shown = capsys.readouterr().out
    assert "\nverdicts/grpo-s1/step2/eval.evaluate/0.parquet  (digest" in shown
    assert "\ndraws/main/partition/final.parquet  (digest" not in shown
    more = re.search(r"\n\n(\d+) artifacts further back: --depth (\d+) shows all\.\n$", shown)
    assert more is not None
    assert main(["lineage", file, "--depth", more[2]]) == 0
    whole = capsys.readouterr().out
    assert whole == lineage(small_run.root / EVALUATION, ALL) + "\n"
    assert whole.count("(digest ") == shown.count("(digest ") + int(more[1])
    assert main(["lineage", file, "--depth", "0"]) == 0
    assert capsys.readouterr().out.count("  (digest ") == 1
    with pytest.raises(SystemExit, match="2"):
        main(["lineage", file, "--depth", "-1"])
    assert main(["lineage", str(small_run.root / "nowhere.parquet")]) == 2
