"""What a user is shown for each mistake in data, scorers and folders; those in a configuration: config/test_load.py."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from configurations import demo, put

from dphrl.cli import main
from dphrl.config.blocks.evaluation import StyleRule
from dphrl.config.blocks.training import PartitionConfig, Rehearsed
from dphrl.config.errors import ConfigError
from dphrl.config.load import load_config
from dphrl.data.partition import candidates
from dphrl.data.partition_counts import NothingToTrainError, require_answers, require_questions
from dphrl.data.prepare import prepare
from dphrl.evaluation.per_prompt import evaluate, unmatched_styles
from dphrl.plan.start import check_folder
from dphrl.scoring.factory import load_scorer
from dphrl.scoring.verdict_tables import score_rollouts
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.store.stage import library_version
from dphrl.training.job import SegmentJob, train_segment

ROOT = Path(__file__).resolve().parents[2]


def test_rejected_rows_are_counted_in_the_terminal_with_the_first_reason() -> None:
    rows = [{"question": "1 + 1?", "answer": "2"}, {"question": "2?"}, {"question": "1 + 1?", "answer": "2"}]
    found = prepare(rows, "math", "s.jsonl", None, 10).summary()
    assert found.startswith("1 prompt, 2 rows rejected (1 malformed, row 1: expected answer or")
    assert prepare(rows[:1], "math", "s.jsonl", None, 10).summary() == "1 prompt"


def gold(ids: str) -> pl.DataFrame:
    rows = [(name, "{}", "correct", True, None) for name in ids]
    return SCHEMAS["gold"].frame(rows)


def verdicts(right: Mapping[str, int], n: int) -> pl.DataFrame:
    judged = [(name, i, i < count) for name, count in right.items() for i in range(n)]
    frame = pl.DataFrame(judged, ["prompt_id", "sample_index", "correct"], orient="row")
    return frame.with_columns(verdict=pl.when("correct").then(pl.lit("correct")).otherwise(pl.lit("wrong")))


def divided(right: Mapping[str, int], **rules: Any) -> pl.LazyFrame:
    """The partition of questions with so many right pre-samples of eight; six make a candidate."""
    rule = PartitionConfig(pef_min_correct=6, **rules)
    return candidates(gold("".join(right)), verdicts(right, 8), 8, rule).lazy()


@pytest.mark.parametrize(
    ("partition", "rehearses", "explores", "prompts", "message"),
    [
        (
            divided({"a": 2, "b": 1, "c": 0}),
            *("pef", True, 1),
            r"^0 near-perfect \(D_pef\), 3 exploration \(D_exp\), 0 dropped: m cannot start\. D_pef is empty\. Lower "
            r"partition\.pef_min_correct.* before refinement: 2 or more: 1, 1 or more: 2",
        ),
        (divided({"a": 0}), "pef", True, 1, "No training question has a right sample"),
        (divided({"a": 8, "b": 8}), "pef", True, 1, r"D_exp is empty\. Raise partition\.pef_min_correct"),
        (
            divided({"a": 8, "b": 0}),
            "boundary",
            True,
            1,
            r"rehearse: boundary\. Questions by right .*: all 8: 1",
        ),
        (divided({"a": 5, "b": 3, "c": 8}), "pef", True, 3, r"prompts_per_step is 3, more than its 2 .* Lower it"),
        (divided({"a": 0}, drop_all_wrong=True), None, False, 1, r"0 exploration \(D_exp\), 1 dropped: m cannot start"),
    ],
)
def test_a_method_without_questions_stops_with_the_reason(
    partition: pl.LazyFrame, rehearses: Rehearsed | None, explores: bool, prompts: int, message: str
) -> None:
    with pytest.raises(NothingToTrainError, match=message):
        require_questions(partition, "m", rehearses=rehearses, explores=explores, prompts=prompts)


def test_a_method_with_questions_starts() -> None:
    for right in ({"a": 5, "b": 3, "c": 0}, {"a": 8, "b": 8, "c": 0}):
        require_questions(divided(right), "grpo", rehearses=None, explores=False, prompts=3)
    require_questions(divided({"a": 8, "b": 8, "c": 0}), "dph_f", rehearses="right", explores=True)
    require_questions(divided({"a": 3, "b": 0}), "dph_f", rehearses="boundary", explores=True)


def test_samples_without_answers_stop_a_run_before_its_partition() -> None:
    judged = pl.DataFrame({"verdict": ["no_answer"] * 3 + ["wrong"] * 2})
    with pytest.raises(NothingToTrainError, match=r"no answer was found in 3 of 5 .*scoring\.<task>\.answer"):
        require_answers(judged.lazy())
    require_answers(judged.tail(4).lazy())


SCORER = """
from dphrl.scoring import CustomScorer, Verdict, register

@register("mine")
class Mine(CustomScorer):
    def score(self, responses, ground_truths):
        right, wrong = Verdict("correct", True, 1.0), Verdict("wrong", False, 0.0)
        return {returned}
"""


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        ("[right] * (len(responses) - 1)", ValueError, "returned 1 verdicts for 2 responses"),
        ("[True, False]", TypeError, r"returned True \(bool\) for response 0"),
        ("[Verdict('right', False, 0.0)] * 2", ValueError, "returned the verdict 'right'"),
        ("[Verdict('wrong', False, float('nan'))] * 2", ValueError, "for response 0: expected correct=True"),
        ("[Verdict('wrong', True, 0.0)] * 2", ValueError, "correct=False with any other"),
        ("[g['lst'] for g in ground_truths]", KeyError, "lst"),
    ],
)
def test_a_scorer_that_returns_something_else(
    tmp_path: Path, returned: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "mine.py").write_text(SCORER.format(returned=returned))
    scorer = load_scorer("mine", tmp_path / "mine.py", {})
    drawn = pl.DataFrame({"prompt_id": ["a", "a"], "sample_index": [0, 1], "text": ["1", "2"]})
    prompts = pl.DataFrame({"prompt_id": ["a"], "thought_open": False})
    with pytest.raises(error, match=message) as caught:
        score_rollouts(drawn, gold("a"), prompts, scorer, {})
    if error in (ValueError, TypeError):
        assert f"{tmp_path / 'mine.py'}: Mine.score" in str(caught.value)


def test_a_scorer_may_have_data_classes_and_its_module_is_found_by_name(tmp_path: Path) -> None:
    parts = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n",
        "\n@dataclass\nclass Kept:\n    x: int\n",
    )
    (tmp_path / "mine.py").write_text(parts[0] + SCORER.format(returned="[right] * len(responses)") + parts[1])
    scorer = load_scorer("mine", tmp_path / "mine.py", {})
    assert sys.modules[type(scorer).__module__].Kept(1) == sys.modules[type(scorer).__module__].Kept(1)


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        (SCORER.replace('"mine"', '"other"'), {}, ValueError, r"registers other; expected a class under @register"),
        (SCORER, {"strict": True}, TypeError, "Mine"),
        ("def f(:\n", {}, SyntaxError, "mine.py, line 1"),
    ],
)
def test_a_scorer_that_cannot_be_loaded(
    tmp_path: Path, text: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    (tmp_path / "mine.py").write_text(text.replace("{returned}", "[]"))
    with pytest.raises(error, match=message):
        load_scorer("mine", tmp_path / "mine.py", options)


STYLES = [StyleRule(name="plain", prefix="SELECT"), StyleRule(name="cte", prefix="WITH")]


def samples(texts: list[str], extracted: list[str | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    key = {"prompt_id": ["a"] * len(texts), "sample_index": list(range(len(texts)))}
    unknown = dict.fromkeys(("answer_class", "program_class"), pl.lit(None, pl.String))
    judged = pl.DataFrame({**key, "extracted": extracted}, schema_overrides={"extracted": pl.String}).with_columns(
        verdict=pl.lit("wrong"), correct=False, reads_table=pl.lit(None, pl.Boolean), **unknown
    )
    return pl.DataFrame({**key, "text": texts}), judged


def test_styles_are_looked_for_in_the_extracted_answer_too() -> None:
    texts = ["```sql\nSELECT 1\n```", "SELECT 2", "I think: ```sql\nWITH x AS (...)```", "no answer"]
    found = evaluate(*samples(texts, ["SELECT 1", "SELECT 2", "WITH x AS (...)", None]), STYLES, frozenset())
    assert found["styles"].to_list() == [["plain", "plain", "cte", "other"]]
    assert unmatched_styles(found.lazy()) is None


def test_the_longest_prefix_decides_in_whatever_order_they_stand() -> None:
    rules = [StyleRule(name="plain", prefix="S"), StyleRule(name="distinct", prefix="SELECT D"), *STYLES]
    found = evaluate(*samples(["SELECT 1", "SELECT DISTINCT 1", "S"], [None] * 3), rules, frozenset())
    assert found["styles"].to_list() == [["plain", "distinct", "plain"]]


def test_styles_that_match_nothing_give_a_warning() -> None:
    found = evaluate(*samples(["select 1", "VALUES (1)", "SELECT 1"], [None] * 3), STYLES, frozenset())
    message = unmatched_styles(found.lazy())
    assert message == "WARNING: 2 of 3 samples begin with no prefix of evaluate.styles and are 'other'"


def test_another_seed_does_not_overwrite_a_run(tmp_path: Path) -> None:
    config, another = load_config(demo()), put(demo(), "seed", 2)
    path = tmp_path / "results/demo/draws/main/rollouts/train.presample/0.parquet"
    footer = {"stage": "sample", "config": {}, "code": "c0de", "inputs": {}}
    write_table(SCHEMAS["rollouts"].frame([]), "rollouts", path, {**footer, "libraries": {}, "seed": 1})
    check_folder(config, tmp_path)
    with pytest.raises(ConfigError) as caught:
        check_folder(load_config(another), tmp_path)
    assert "seed\n  value:   2\n  allowed: 1, with which results/demo was made; or give this run" in str(caught.value)
    check_folder(load_config(another | {"run": "second"}), tmp_path)
    # No seed changes recorded answers.
    recorded = footer | {"inputs": {"recorded": {}}, "seed": 3}
    write_table(SCHEMAS["rollouts"].frame([]), "rollouts", path, recorded)
    check_folder(config, tmp_path)


def test_a_run_of_another_version_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "results/demo"
    major, minor, _ = library_version("dphrl").split(".")
    prompts = SCHEMAS["prompts"].frame([])
    write_table(prompts, "prompts", root / "prompts/train.parquet", {"made_by": f"dphrl {major}.{minor}.99"})
    check_folder(load_config(demo()), tmp_path)
    write_table(prompts, "prompts", root / "prompts/train.parquet", {"made_by": "dphrl 0.4.1"})
    with pytest.raises(ConfigError, match=r"run\n.*\n.*a name without results: results/demo is of version 0.4.1"):
        check_folder(load_config(demo()), tmp_path)
    assert main(["audit", str(root)]) == 2
    assert "a run of version 0.4.1, which only that version reads" in capsys.readouterr().err


def test_a_run_with_a_method_that_rehearses_an_empty_d_pef_stops_before_a_model_is_loaded(tmp_path: Path) -> None:
    partition = tmp_path / "partition.parquet"
    divided({"a": 2, "b": 2}).sink_parquet(partition)
    needs = {"grpo": {"rehearses": None, "explores": False}, "dph_f": {"rehearses": "pef", "explores": True}}
    blocks: dict[str, Any] = {"method": {"rollout_on": "all"}, "train": {}, "engine": {}, "hardware": {}}
    settings = {"seed": 1, "first": 1, "last": 1, "task": "math", "scorer": {}, "thoughts": {}, "needs": needs}
    texts = dict.fromkeys(("prompts", "gold", "policy", "policy_out", "state_out", "training", "label"), "")
    with pytest.raises(NothingToTrainError, match=r"dph_f cannot start\. D_pef is empty"):
        train_segment(SegmentJob(**blocks, **settings, **texts, partition=str(partition)))


def test_ctrl_c_ends_a_command_with_one_line(tmp_path: Path) -> None:
    pipe = tmp_path / "my.yaml"
    os.mkfifo(pipe)
    # Where the tests run in the background of a script, SIGINT is ignored.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "dphrl", "plan", str(pipe)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow_scripts")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    with pipe.open("w"):  # returns once the command reads
        process.send_signal(signal.SIGINT)
    # The pipe is closed: polars lets a read go on after a signal.
    assert process.communicate()[1] == "dphrl plan: interrupted\n"
    assert process.returncode == 130
