"""`dphrl init --draw`: lengths and the place of an answer come from answers of the user's model."""

from pathlib import Path

import polars as pl
import pytest
from tiny_models import write_tiny_policy

from dphrl.cli import main
from dphrl.config.blocks.toy import ToyConfig, ToyQuestions
from dphrl.config.config import Config
from dphrl.config.load import read_config
from dphrl.config.places import check_files
from dphrl.plan.drawn import _findings
from dphrl.toy.world import build_world

BASE = Path(__file__).resolve().parents[3] / "config" / "world-1"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with questions of the world that the shipped base model was trained on."""
    monkeypatch.chdir(tmp_path)
    build_world(tmp_path / "world", ToyConfig(corpus=64, vocabulary=300, questions=ToyQuestions(train=40)))
    return tmp_path


def init(*arguments: str) -> Config:
    """The configuration that the command writes, checked as the Snakefile does."""
    assert main(["init", "--cpu", "--draw", "--out", "drawn.yaml", *arguments]) == 0
    config = read_config(Path("drawn.yaml"))
    check_files(config, Path())
    return config


def test_the_rule_that_finds_answers_and_the_lengths_that_they_need(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = init("--data", "world/questions/train.jsonl", "--databases", "world/databases", "--model", str(BASE))
    printed = capsys.readouterr().out
    assert "128 answers to 16 questions" in printed
    assert "scoring.sql.answer: fenced: 0% right, 100% without an answer" in printed
    assert "questions near-perfect (at least 8 of 8)" in printed
    assert config.scoring.sql.answer == "bare"
    # Answers have 20 tokens on average, and prompts 41. The configuration without --draw has 64 and 64.
    lengths = {plan["max_tokens"] for plan in config.sampling.model_dump().values()}
    assert {config.train.max_tokens, *lengths} == {64}
    assert (config.prompts.max_tokens, config.engine.max_model_len) == (64, 128)


def test_a_model_that_solves_nothing_is_told_apart(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answers do not end in time, so the lengths are the paper's."""
    monkeypatch.setattr("dphrl.plan.drawn._PATIENCE", {"cpu": 4})
    write_tiny_policy(world / "small")
    (world / "my.jsonl").write_text('{"question": "7 + 1?", "answer": 8}\n')
    init("--data", "my.jsonl", "--model", "small")
    printed = capsys.readouterr().out
    assert "RL cannot start from this model: no answer is right (docs/how-to/supervised-start.md)" in printed
    assert "Too many were cut off" in printed


def test_a_model_without_a_near_perfect_question_is_told_apart() -> None:
    right = [True] * 3 + [False] * 5
    verdicts = pl.DataFrame(
        {"prompt_id": ["a"] * 8 + ["b"] * 8, "correct": right * 2, "verdict": ["correct"] * 3 + ["wrong"] * 13}
    )
    *_, counts, advice = _findings({"": verdicts}, "", "contains", 6)
    assert counts == "  0 questions near-perfect (at least 6 of 8), 0 without a right answer"
    assert advice.startswith("  DPH-RL may have nothing to rehearse: lower partition.pef_min_correct")


def test_a_few_answers_without_an_end_set_no_limit(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 128 answers the longest has 36 tokens; here it is cut off."""
    monkeypatch.setattr("dphrl.plan.drawn._PATIENCE", {"cpu": 35})
    monkeypatch.setattr("dphrl.plan.drawn._MULTIPLE", 1)
    config = init("--data", "world/questions/train.jsonl", "--databases", "world/databases", "--model", str(BASE))
    assert ", 2% cut off at 35" in capsys.readouterr().out
    assert config.train.max_tokens == 51
