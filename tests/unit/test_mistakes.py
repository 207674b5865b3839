"""What a user is shown for each mistake that a newcomer made: what is wrong, where, and what to do."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from safetensors.torch import save_file
from small_run import config_slice

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.tables import write_table
from dphrl.audit.across import _undecoded
from dphrl.cli import main
from dphrl.config.blocks.evaluation import StyleRule
from dphrl.config.blocks.training import PartitionConfig
from dphrl.config.checks import problems_between_blocks
from dphrl.config.errors import ConfigError
from dphrl.config.load import check_files, load_config, read_config
from dphrl.evaluation.per_prompt import evaluate, unmatched_styles
from dphrl.layout.folder import check_folder
from dphrl.model.checkpoint import tensor_files
from dphrl.sample_files.records import SourceError, read_source
from dphrl.scoring.factory import load_scorer
from dphrl.scoring.tables import score_rollouts
from dphrl.tasks.partition import candidates
from dphrl.tasks.partition_counts import NoRehearsalError, require_rehearsal, sizes, thresholds
from dphrl.tasks.prepare import prepare
from dphrl.training.job import SegmentJob, _online_prompts, train_segment
from dphrl.training.schedule import epoch_indices

ROOT = Path(__file__).resolve().parents[2]
DEFAULT: dict[str, Any] = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
REPLAY: dict[str, Any] = {
    "run": "mine",
    "datasets": {"sums": {"task": "math", "source": "sums.jsonl"}},
    "train_dataset": "sums",
    "methods": {},
    "evaluate": {"datasets": ["sums"]},
    "replay": {"base": {"sums": "answers.jsonl"}},
}


def changed(data: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with one key set; the demo without what depends on it."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    copy.get("evaluate", {}).pop("claims", None)
    *blocks, last = path.split(".")
    block = copy
    for name in blocks:
        block = block.setdefault(name, {})
    block[last] = value
    return copy


def refused(data: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(dict(data))
    return str(caught.value)


# Number of the mistake in the list of the tryout, the key and its value, what the message holds.
KEYS = [
    (1, "trian_dataset", "train", "nearest: train_dataset"),
    (2, "train.learning_rate", 1e-6, "train.learning_rate\n  given:   learning_rate: 1e-06\n  allowed: no such key"),
    (3, "methods.grpo.eps_hi", 0.2, "nearest: methods.grpo.eps_high"),
    (4, "train.steps", "many", "train.steps\n  given:   'many'\n  allowed: a valid integer"),
    (5, "sampling.presample.n", -4, "sampling.presample.n\n  given:   -4\n  allowed: greater than or equal to 1"),
    (6, "evaluate.k", [1, 32], "each at most 16, what sampling.evaluate draws"),
    (7, "evaluate.k", 8, "evaluate.k\n  given:   8\n  allowed: a list: [8]"),
    (7, "train.seeds", 1, "allowed: a list: [1]"),
    (8, "datasets.train.comparison", "loose", "'spider', 'bird' or 'strict'"),
    (9, "engine.dtype", "float16", "'float32' or 'bfloat16'"),
    (10, "run", "my run", "a name of letters, digits, ., _ and -, a letter or digit first"),
    (10, "methods.dph-f", {}, "a name of letters, digits and _, a letter first"),
    (12, "prompts.max_tokens", 100, "at most 28 = engine.max_model_len - prompts.max_tokens"),
    (14, "train.mini_batches", 3, "a divisor of train.prompts_per_step = 16, for instance"),
    (15, "methods.base", {}, "any other name: base is the policy before training"),
]


@pytest.mark.parametrize(("number", "path", "value", "message"), KEYS)
def test_a_wrong_key_or_value(number: int, path: str, value: object, message: str) -> None:
    assert message in refused(changed(DEFAULT, path, value))


def test_a_name_that_is_not_there_causes_no_second_problem() -> None:  # 11
    found = refused(changed(REPLAY, "train_dataset", "smus"))
    assert "has 1 problem" in found
    assert "nearest: sums" in found


def test_sampling_only_needs_no_train_block() -> None:
    data = changed(DEFAULT, "methods", {}) | {"train": {"max_tokens": 4096, "dtype": "bfloat16", "eval_every": 7}}
    assert problems_between_blocks(load_config(data)) == []


def test_a_number_in_the_notation_of_yaml_1_1_and_names_used_twice_are_fine() -> None:  # 16, 18
    assert load_config(changed(DEFAULT, "train.lr", "1e-6")).train.lr == 1e-6
    other = changed(REPLAY, "replay", {"base": {"sums": "a.jsonl"}, "sums": {"sums": "b.jsonl"}})
    assert "sums" in load_config(other).replay


def test_a_key_that_is_there_twice_is_refused_with_both_lines(tmp_path: Path) -> None:  # 17
    file = tmp_path / "my.yaml"
    file.write_text(yaml.safe_dump(REPLAY) + "run: other\n")
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert "the key 'run' in" in str(caught.value)
    assert str(caught.value).count(", line ") == 2


def test_every_problem_is_listed_with_the_file(tmp_path: Path) -> None:  # 21
    file = tmp_path / "my.yaml"
    file.write_text(yaml.safe_dump(changed(changed(DEFAULT, "seed", "abc"), "train.lr", -1)))
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert str(caught.value).startswith(f"The configuration {file} has 2 problems:")


@pytest.mark.parametrize("text", ["\ufeff", ""])
def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path, text: str) -> None:  # 26
    file = tmp_path / "my.yaml"
    file.write_bytes((text + yaml.safe_dump(REPLAY)).replace("\n", "\r\n").encode())
    assert read_config(file).run == "mine"


def model(folder: Path, config: str = "{}", tokenizer: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    if tokenizer:
        (folder / "tokenizer.json").write_text("{}")
    return folder


def files_refused(data: Mapping[str, Any], folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(dict(data)), folder)
    return str(caught.value)


def test_an_id_of_the_hub_is_answered_with_the_download_command(tmp_path: Path) -> None:  # 19
    found = files_refused(changed(DEFAULT, "policy.base", "meta-llama/Llama-3.1-8B"), tmp_path)
    assert "An id of the Hub is not fetched" in found
    assert "hf download meta-llama/Llama-3.1-8B --local-dir models/Llama-3.1-8B" in found


@pytest.mark.parametrize(
    "config", ['{"max_position_embeddings": 64}', '{"text_config": {"max_position_embeddings": 64}}']
)
def test_more_tokens_than_the_model_has_positions(tmp_path: Path, config: str) -> None:  # 13
    model(tmp_path / "base", config)
    found = files_refused(changed(DEFAULT, "policy.base", "base"), tmp_path)
    assert "engine.max_model_len\n  given:   128\n  allowed: at most 64, the positions of the model" in found


def test_positions_that_a_model_extends_are_left_to_the_engine(tmp_path: Path) -> None:
    model(tmp_path / "base", '{"max_position_embeddings": 64, "rope_scaling": {"type": "yarn", "factor": 4.0}}')
    check_files(load_config(changed(DEFAULT, "policy.base", "base")), tmp_path)


def test_a_base_without_a_tokenizer_is_refused_at_the_start(tmp_path: Path) -> None:  # 39
    model(tmp_path / "base", tokenizer=False)
    assert "with the tokenizer of the model too" in files_refused(changed(DEFAULT, "policy.base", "base"), tmp_path)


def test_a_file_that_is_missing_is_named_with_the_folder_it_is_looked_for_in(tmp_path: Path) -> None:  # 30, 38, 46, 59
    found = files_refused(REPLAY, tmp_path)
    for key in ("datasets.sums.source", "replay.base.sums"):
        assert key in found
    assert f"a file that exists (paths are relative to {tmp_path})" in found
    assert "config.json" in files_refused(changed(DEFAULT, "policy.base", "nowhere"), tmp_path)


ROWS = [
    ("broken.jsonl", b'{"a": 1}\n{"a": \n', "broken.jsonl, line 2: expected one JSON object in UTF-8"),
    ("empty.jsonl", b"", "found no rows"),
    ("table.csv", b"a,b\n", "expected a file in .jsonl, .json or .parquet, found .csv"),
    ("latin.jsonl", '{"a": "\xe9"}'.encode("latin-1"), "line 1: expected one JSON object in UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "message"), ROWS)
def test_a_dataset_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:  # 31
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message.replace(".", r"\.")):
        read_source(tmp_path / name)


def test_windows_line_ends_and_other_alphabets_in_rows_are_fine(tmp_path: Path) -> None:  # 36
    (tmp_path / "rows.jsonl").write_bytes('\ufeff{"question": "\u4e2d \U0001f600"}\r\n'.encode())
    assert read_source(tmp_path / "rows.jsonl") == [{"question": "\u4e2d \U0001f600"}]


def test_rejected_rows_are_counted_in_the_terminal_with_the_first_reason() -> None:  # 32
    rows = [{"question": "1 + 1?", "answer": "2"}, {"question": "2?"}, {"question": "1 + 1?", "answer": "2"}]
    found = prepare(rows, "math", "s.jsonl", None, 10).summary()
    assert found.startswith("1 prompt, 2 rows rejected (1 malformed, 1 duplicate; row 1: expected answer or")
    assert prepare(rows[:1], "math", "s.jsonl", None, 10).summary() == "1 prompt"


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        (
            {"problem": "x", "gold": "1"},
            {},
            "row 0: expected answer or target or final_answer or solution, found only problem",
        ),  # 33
        ({"question": "x"}, {"fields": {"answer": "solution"}}, "row 0: expected solution, found only question"),  # 34
        (
            {"question": "x" * 99, "answer": "1"},
            {"encode": True},
            "(1 overlong, 1 duplicate); row 0: 99 tokens, limit 10",
        ),  # 37
    ],
)
def test_a_dataset_without_a_single_prompt(row: dict[str, str], options: dict[str, Any], message: str) -> None:
    encode = (lambda messages: list(range(99))) if options.pop("encode", False) else None
    with pytest.raises(SourceError) as caught:
        prepare([row] * 2, "math", "s.jsonl", encode, 10, **options)
    assert "none of 2 rows is a prompt" in str(caught.value)
    assert message in str(caught.value).replace("'", "")


def test_a_database_that_is_not_there(tmp_path: Path) -> None:  # 35
    row = {"question": "x", "db_id": "nope", "gold_sql": "SELECT 1"}
    with pytest.raises(SourceError, match=r"db_id: no database 'nope'"):
        prepare([row], "sql", "s.jsonl", None, 10, databases=tmp_path)


def gold(ids: str) -> pl.DataFrame:
    rows = [(name, "{}", "correct", True, None) for name in ids]
    return SCHEMAS["gold"].frame(rows)


def verdicts(right: Mapping[str, int], n: int) -> pl.DataFrame:
    judged = [(name, i, i < count) for name, count in right.items() for i in range(n)]
    frame = pl.DataFrame(judged, ["prompt_id", "sample_index", "correct"], orient="row")
    return frame.with_columns(verdict=pl.when("correct").then(pl.lit("correct")).otherwise(pl.lit("wrong")))


def test_an_empty_d_pef_stops_with_the_thresholds_that_would_fill_it() -> None:  # 50
    divided = candidates(gold("abc"), verdicts({"a": 5, "b": 3, "c": 0}, 8), 8, PartitionConfig(pef_min_correct=6))
    assert sizes(divided.lazy()) == "0 near-perfect (D_pef), 3 exploration (D_exp), 0 dropped"
    more = "5 or more: 1, 4 or more: 1, 3 or more: 2, 2 or more: 2, 1 or more: 2"
    assert thresholds(divided.lazy()) == more
    with pytest.raises(NoRehearsalError) as caught:
        require_rehearsal(divided.lazy(), "demo-dph_f-s1")
    message = str(caught.value)
    assert message.startswith("D_pef is empty, and demo-dph_f-s1 rehearses it. Lower partition.pef_min_correct")
    assert f"before refinement: {more}" in message


def test_without_any_right_sample_no_threshold_is_proposed() -> None:
    divided = candidates(gold("a"), verdicts({"a": 0}, 8), 8, PartitionConfig(pef_min_correct=6))
    with pytest.raises(NoRehearsalError, match="No training question has a right sample"):
        require_rehearsal(divided.lazy(), "demo-dph_f-s1")


def test_the_audit_decodes_the_rollouts_of_an_empty_d_pef() -> None:  # 51
    # transformers decodes no sequences as one empty text.
    assert _undecoded(SCHEMAS["rollouts"].frame([]), lambda tokens: [""]).is_empty()


def test_nothing_to_draw_from_is_named() -> None:
    with pytest.raises(ValueError, match="no rehearsal to draw from"):
        epoch_indices(1, "rehearsal", 1, 4, 0)


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
        ("[right] * (len(responses) - 1)", ValueError, "returned 1 verdicts for 2 responses: expected one Verdict for"),
        ("[True, False]", TypeError, r"returned True \(bool\) for response 0: expected one Verdict for each response"),
        (
            "[Verdict('right', False, 0.0)] * 2",
            ValueError,
            "returned the verdict 'right': expected correct, wrong",
        ),  # 49
        ("[g['lst'] for g in ground_truths]", KeyError, "lst"),
    ],
)
def test_a_scorer_that_returns_something_else(
    tmp_path: Path, returned: str, error: type[Exception], message: str
) -> None:  # 48
    (tmp_path / "mine.py").write_text(SCORER.format(returned=returned))
    scorer = load_scorer("mine", tmp_path / "mine.py", {})
    drawn = pl.DataFrame({"prompt_id": ["a", "a"], "sample_index": [0, 1], "text": ["1", "2"]})
    with pytest.raises(error, match=message) as caught:
        score_rollouts(drawn, gold("a"), scorer)
    if error in (ValueError, TypeError):
        assert f"{tmp_path / 'mine.py'}: Mine.score" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        (
            SCORER.replace('"mine"', '"other"'),
            {},
            ValueError,
            r"registers other; expected a class under @register",
        ),
        (SCORER, {"strict": True}, TypeError, "Mine"),
        ("def f(:\n", {}, SyntaxError, "mine.py, line 1"),
    ],
)
def test_a_scorer_that_cannot_be_loaded(
    tmp_path: Path, text: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:  # 47
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
    found = evaluate(*samples(texts, ["SELECT 1", "SELECT 2", "WITH x AS (...)", None]), STYLES)
    assert found["styles"].to_list() == [["plain", "plain", "cte", "other"]]
    assert unmatched_styles(found.lazy()) is None


def test_styles_that_match_nothing_give_a_warning() -> None:
    found = evaluate(*samples(["select 1", "VALUES (1)", "SELECT 1"], [None] * 3), STYLES)
    message = unmatched_styles(found.lazy())
    assert message == "WARNING: 2 of 3 samples begin with no prefix of evaluate.styles and count as 'other'"


SAMPLED = changed(DEFAULT, "policy.base", None)
PRESAMPLE = "draws/main/rollouts/train.presample/0.parquet"


def test_another_seed_does_not_overwrite_a_run(tmp_path: Path) -> None:  # 55
    config = load_config(SAMPLED)
    path = tmp_path / "results/demo" / PRESAMPLE
    footer = {"stage": "sample", "config": config_slice(config, PRESAMPLE), "code": "c0de", "inputs": {}}
    write_table(SCHEMAS["rollouts"].frame([]), "rollouts", path, {**footer, "libraries": {}, "seed": 1})
    check_folder(config, tmp_path, True)
    with pytest.raises(ConfigError) as caught:
        check_folder(load_config(changed(SAMPLED, "seed", 2)), tmp_path, True)
    assert "seed\n  given:   2\n  allowed: 1, with which results/demo was made; or give this run" in str(caught.value)
    check_folder(load_config(changed(changed(SAMPLED, "seed", 2), "run", "second")), tmp_path, True)
    # A seed in a damaged file proves nothing: the audit names the file.
    path.write_bytes(path.read_bytes().replace(b'"seed": 1', b'"seed": 3'))
    check_folder(config, tmp_path, True)


@pytest.mark.parametrize("name", ["partition/final.parquet", "policies/base/manifest.json"])
def test_a_folder_of_version_0_4_is_refused_in_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "results/demo"
    (root / name).parent.mkdir(parents=True)
    (root / name).touch()
    sentence = "results/demo is a run of version 0.4, which `git checkout v0.4.0` reads"
    with pytest.raises(ConfigError, match=f"run\n.*\n.*a name without results: {sentence}"):
        check_folder(load_config(SAMPLED), tmp_path, False)
    assert main(["audit", str(root)]) == 2
    assert sentence in capsys.readouterr().err


def test_two_runs_in_one_folder_are_refused_but_a_plan_is_not(tmp_path: Path) -> None:  # 58
    lock = tmp_path / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/other/prompts/train.parquet\n")
    config = load_config(SAMPLED)
    with pytest.raises(ConfigError, match="results/other is at work: wait for it, or start this one in another folder"):
        check_folder(config, tmp_path, True)
    check_folder(config, tmp_path, False)
    lock.write_text("results/demo/prompts/train.parquet\n")
    check_folder(config, tmp_path, True)


def test_results_that_cannot_be_written_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # 53
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "results")
    with pytest.raises(ConfigError, match=f"{tmp_path}/results, which is read-only or another user's"):
        check_folder(load_config(SAMPLED), tmp_path, True)
    check_folder(load_config(SAMPLED), tmp_path, False)


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.parquet"])
def test_greedy_answers_that_were_not_recorded_are_missed_at_the_start(tmp_path: Path, name: str) -> None:  # 20
    rows = pl.DataFrame({"source_index": [0, 0], "sample_index": [0, 1], "response": ["a", "-1"]})
    write = pl.DataFrame.write_parquet if name.endswith("parquet") else pl.DataFrame.write_ndjson
    write(rows, tmp_path / name)
    data = changed(REPLAY, "replay.base.sums", name)
    with pytest.raises(ConfigError, match=r"false, as there is no greedy response \(.*\) in replay\.base\.sums; or"):
        check_folder(load_config(data), tmp_path, True)
    check_folder(load_config(changed(data, "sampling.evaluate.greedy", False)), tmp_path, True)
    write(rows.with_columns(pl.col("sample_index") - 1), tmp_path / name)
    check_folder(load_config(data), tmp_path, True)


def segment_job(folder: Path, method: dict[str, Any], **train: Any) -> SegmentJob:
    """A segment of a training on three questions, of which none is near-perfect."""
    prompts = [(name, "math", "[]", [1], "s.jsonl", index, None) for index, name in enumerate("abc")]
    divided = [(name, 8, 2, "exp", "below threshold", None) for name in "abc"]
    tables = {"prompts": prompts, "partition": divided, "gold": gold("abc").rows()}
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, rows in tables.items():
        SCHEMAS[name].frame(rows).write_parquet(paths[name])
    blocks: dict[str, Any] = {"method": method, "train": {"mini_batches": 1, **train}, "engine": {}, "hardware": {}}
    steps = {"seed": 1, "first": 1, "last": 1, "task": "math", "scorer": {}}
    files = {name: str(path) for name, path in paths.items()} | dict.fromkeys(("policy", "policy_out", "state_out"), "")
    return SegmentJob(**blocks, **steps, **files, training="mine-dph_f-s1", label="")


def test_more_prompts_per_step_than_questions_are_refused(tmp_path: Path) -> None:  # 36c
    with pytest.raises(ValueError, match="prompts_per_step is 64, but D_exp, which mine-dph_f-s1 trains on, has 3"):
        _online_prompts(segment_job(tmp_path, {"rollout_on": "exp"}, prompts_per_step=64))
    assert len(_online_prompts(segment_job(tmp_path, {"rollout_on": "all"}, prompts_per_step=3))) == 3


def test_a_training_that_rehearses_an_empty_d_pef_is_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    job = segment_job(tmp_path, {"rollout_on": "exp", "divergence": "forward_kl"})
    with pytest.raises(NoRehearsalError, match="mine-dph_f-s1 rehearses it"):
        train_segment(job.model_copy(update={"reference": "responses.safetensors"}))


def test_a_truncated_file_of_weights_is_named(tmp_path: Path) -> None:  # 40
    file = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(64, 64)}, file)
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ValueError, match=f"{file}: .*download the model again"):
        tensor_files(tmp_path)


def test_help_only_shows_help() -> None:
    command = [sys.executable, "workflow_scripts/launch.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
