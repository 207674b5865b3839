"""`dphrl look`, and the look of `dphrl init`: limits, place of an answer and faults, by answers of the model."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import yaml
from tiny_models import write_tiny_policy

from dphrl.cli import main
from dphrl.config.blocks.toy import ToyConfig, ToyQuestions
from dphrl.config.config import Config
from dphrl.config.load import load_config, read_config
from dphrl.config.places import check_files
from dphrl.plan.look import Look
from dphrl.scoring.verdict import STILL_THINKING
from dphrl.toy.world import build_world

ROOT = Path(__file__).resolve().parents[3]
BASE = ROOT / "config" / "world-1"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with questions of the world that the shipped base model was trained on; a small look."""
    monkeypatch.chdir(tmp_path)
    for name in ("_QUESTIONS", "_SAMPLES"):
        monkeypatch.setattr(f"dphrl.plan.look.{name}", 4)
    # A process with limits takes seconds to start: policy/test_limited.py.
    monkeypatch.setattr("dphrl.plan.look.run_limited", lambda check, model: check(model))
    build_world(tmp_path / "world", ToyConfig(corpus=64, vocabulary=300, questions=ToyQuestions(train=40)))
    return tmp_path


OWN = ("--data", "world/questions/train.jsonl", "--databases", "world/databases", "--model", str(BASE))


def init(*arguments: str) -> Config:
    """The configuration that the command writes, checked as the Snakefile does."""
    assert main(["init", "--cpu", "--out", "drawn.yaml", *arguments]) == 0
    config = read_config(Path("drawn.yaml"))
    check_files(config, Path())
    return config


def test_a_new_configuration_has_the_rule_and_the_lengths_of_the_models_answers(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = init(*OWN)
    printed = capsys.readouterr().out
    assert "16 answers to 4 questions" in printed
    assert "scoring.sql.answer: fenced finds an answer in 0%, 0% are right" in printed
    assert config.scoring.sql.answer == "bare"
    # Answers have 20 tokens on average, and prompts 41.
    lengths = {plan["max_tokens"] for plan in config.sampling.model_dump().values()}
    assert {config.train.max_tokens, *lengths} == {64}
    assert (config.prompts.max_tokens, config.engine.max_model_len) == (64, 128)


def test_a_configuration_that_finds_no_answer_is_told_with_an_example_and_the_key(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init("--no-draw", *OWN)
    capsys.readouterr()
    assert main(["look", "drawn.yaml"]) == 1
    printed = capsys.readouterr().out
    assert "- 16 answers without an answer: scoring.sql.answer: bare\n    " in printed
    assert "SELECT " in printed
    (world / "bare.yaml").write_text("scoring: {sql: {answer: bare}}\n")
    assert main(["look", "drawn.yaml", "bare.yaml"]) == 0
    assert "\n- " not in capsys.readouterr().out


def test_a_model_that_solves_nothing_is_told_apart(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answers do not end in time, so the lengths are the paper's."""
    monkeypatch.setattr("dphrl.plan.look._PATIENCE", {"cpu": 4})
    write_tiny_policy(world / "small")
    (world / "my.jsonl").write_text('{"question": "7 + 1?", "answer": 8}\n')
    config = init("--data", "my.jsonl", "--model", "small")
    printed = capsys.readouterr().out
    assert "answers cut off: a look waits for no longer answers" in printed
    assert config.train.max_tokens == 128


BLOCKS = "policy: {base: m}, datasets: {d: {task: math, source: d.jsonl}}, train_dataset: d, evaluate: {datasets: [d]}"


def looked(verdicts: list[str], found: list[str] | None = None, *, cut: bool = False, detail: str = "") -> Look:
    """Answers to two questions in halves, as `boxed` judges them, and `final` if `found` is given."""
    half = len(verdicts) // 2
    keys = {"prompt_id": ["a"] * half + ["b"] * half, "sample_index": [*range(half)] * 2}
    ended, texts = ["length" if cut else "stop"] * 2 * half, ["It is\n7"] * 2 * half
    answers = pl.DataFrame(keys | {"token_ids": [[1] * 9] * 2 * half, "text": texts, "finish_reason": ended})
    judged = {
        rule: pl.DataFrame(keys | {"verdict": names}).with_columns(
            correct=pl.col("verdict") == "correct", detail=pl.lit(detail or None, pl.String)
        )
        for rule, names in {"boxed": verdicts, "final": found or verdicts}.items()
    }
    return Look(load_config(yaml.safe_load(f"{{run: r, {BLOCKS}}}")), answers, judged, [], 4096, 1.0)


@pytest.mark.parametrize(
    ("look", "line", "trains"),
    [
        (looked(["wrong"] * 8), "- 8 answers wrong, and none right: datasets.d.fields, or a supervised", False),
        (looked(["no_answer"] * 8), "- 8 answers without an answer: datasets.d.instruction, or a supervised", False),
        (looked(["no_answer", "correct"] * 4), "- 4 answers without an answer: datasets.d.instruction", True),
        (
            looked(["no_answer"] * 8, ["correct"] * 8),
            "- 8 answers without an answer: scoring.math.answer: final",
            False,
        ),
        (looked(["correct"] * 8, cut=True), "- 8 answers cut off: raise sampling.<plan>.max_tokens and train.", True),
        (
            looked(["no_answer"] * 8, cut=True, detail=str(STILL_THINKING.detail)),
            "- 8 answers still thinking at the end: raise sampling.<plan>.max_tokens",
            False,
        ),
        (looked(["gold_error"] * 8), "- 8 answers whose gold cannot be read: datasets.d.fields", False),
        (looked(["timeout", "correct"] * 4), "- 4 answers stopped by a limit: timeout_s", True),
    ],
)
def test_each_fault_has_an_example_and_the_key_that_mends_it(look: Look, line: str, trains: bool) -> None:
    faults = look.report("boxed").splitlines()
    (shown,) = (fault for fault in faults if fault.startswith(line))
    assert faults[faults.index(shown) + 1] == "    'It is␊7'"
    assert look.can_train("boxed") is trains


def test_another_rule_needs_more_right_answers_than_chance_gives() -> None:
    assert looked(["correct"] * 38 + ["wrong"] * 2, ["correct"] * 39 + ["wrong"]).best == "boxed"
    assert looked(["correct"] * 20 + ["no_answer"] * 20, ["correct"] * 39 + ["wrong"]).best == "final"
    assert looked(["no_answer"] * 40, ["wrong"] * 40).best == "final"


def test_the_limit_of_responses_has_room_unless_many_were_cut_off() -> None:
    look = looked(["correct"] * 40)
    assert look.response_tokens == 64  # 1.5 times 9, in whole 64
    for cut, limit in ((2, 64), (3, None)):
        ends = pl.Series(["length"] * cut + ["stop"] * (40 - cut))
        assert replace(look, answers=look.answers.with_columns(finish_reason=ends)).response_tokens == limit


def test_near_perfect_questions_are_counted_by_the_share_of_the_partition() -> None:
    half = looked(["correct"] * 3 + ["wrong"] * 3).report("boxed")
    assert "1 question near-perfect (100% right or more), 1 without a right answer" in half
    assert "\n- D_" not in half
    assert "\n- D_pef may be empty: lower partition.pef_min" in looked(["correct", "wrong"] * 4).report("boxed")
    assert "\n- D_exp may be empty: raise partition.pef_min" in looked(["correct"] * 8).report("boxed")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (BLOCKS, "The configuration my.yaml has 1 problem:\npolicy.base"),
        (BLOCKS.replace("base: m", "base: null") + ", replay: {base: {d: d.jsonl}}, methods: {}", "recorded answers"),
        (BLOCKS.replace("base: m", f"base: {BASE}"), "hardware.gpu_gib is set and this machine has no GPU"),
        (
            BLOCKS.replace("base: m", f"base: {BASE}, supervised: {{source: d.jsonl}}") + ", hardware: {gpu_gib: null}",
            "results/r/policies/base is not there yet: the run trains its base",
        ),
        (BLOCKS.replace("base: m", "base: null") + ", toy: {}", "a look needs a model and your own training questions"),
    ],
)
def test_a_look_says_why_it_cannot_be(
    blocks: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dphrl.plan.look.device_of_job", lambda: "cpu")
    (tmp_path / "d.jsonl").write_text('{"question": "7 + 1?", "answer": 8}\n')
    plans = "presample: {max_tokens: 64}, refine: {max_tokens: 64}, evaluate: {max_tokens: 64}"
    short = (
        f"engine: {{max_model_len: 128}}, prompts: {{max_tokens: 64}}, train: {{max_tokens: 64}}, sampling: {{{plans}}}"
    )
    (tmp_path / "my.yaml").write_text(f"{{run: r, {blocks}, {short}}}")
    assert main(["look", "my.yaml"]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_weights_needs_no_draw(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tiny_policy(world / "small")
    (world / "small/model.safetensors").unlink()
    (world / "my.jsonl").write_text('{"question": "7 + 1?", "answer": 8}\n')
    arguments = ["init", "--cpu", "--data", "my.jsonl", "--model", "small"]
    assert main(arguments) == 2
    assert "no *.safetensors in it" in (message := capsys.readouterr().err)
    assert "--no-draw" in message
    assert main([*arguments, "--no-draw"]) == 0
