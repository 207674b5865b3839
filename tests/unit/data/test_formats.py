"""Files as the named tools write them. The fields are those of the sources that formats.py names."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from written_samples import CHAT, lines, lm_eval, qwen_math, verifiers, verl, write_every_format

from dphrl.data.sample_files import SampleFile, SourceError, read_samples


def column(found: SampleFile, name: str) -> list[Any]:
    return found.rows[name].to_list()


def test_shaped_scores_of_verl_need_a_threshold_or_another_field(tmp_path: Path) -> None:
    path = lines(tmp_path / "80.jsonl", verl("4", 1.0, acc=True), verl("5", -1.0, acc=False), verl("4", 0.5, acc=True))
    with pytest.raises(SourceError, match=r"80\.jsonl, line 2: score: expected 0 or 1.*found -1\.0.*--threshold T"):
        read_samples(path)
    found = read_samples(path, threshold=0.5)
    assert (found.format, found.settings, found.notes) == ("verl", {}, ())
    assert (
        found.rows.select("question_id", "question", "gold", "truncated").rows()
        == [(*[CHAT.strip()] * 2, "4", None)] * 3
    )
    assert column(found, "correct") == [True, False, True]
    assert column(read_samples(path, threshold=0.6), "correct") == [True, False, False]
    assert column(read_samples(path, mapping={"correct": "acc"}), "correct") == [True, False, True]


def test_a_field_of_another_format_is_noted(tmp_path: Path) -> None:
    found = read_samples(lines(tmp_path / "x.jsonl", verl("4", 1.0)), mapping={"score": "accuracy_reward"})
    assert column(found, "correct") == [True]
    assert found.notes == ("no field accuracy_reward: score is read as in other verl files",)


def test_one_of_several_reward_functions_must_be_named(tmp_path: Path) -> None:
    columns = {"step": [1] * 2, "prompt": ["2 + 2?"] * 2, "completion": ["4", "5"], "advantage": [0.7, -0.7]}
    rewards = {"format_reward": [0.5, 0.5], "accuracy_reward": [1.0, None]}
    pl.DataFrame(columns | rewards).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"several scores \(format_reward, accuracy_reward\).*--map score="):
        read_samples(tmp_path / "a.parquet")
    found = read_samples(tmp_path / "a.parquet", mapping={"score": "accuracy_reward"})
    assert column(found, "correct") == [True, None]


def test_choices_of_lm_eval_are_no_samples(tmp_path: Path) -> None:
    row = lm_eval(0, [], 1.0) | {"resps": [[["-3.2", "False"]], [["-1.0", "True"]]], "metrics": ["acc"], "acc": 1.0}
    with pytest.raises(SourceError, match=r"line 1: resps\.0: expected a text"):
        read_samples(lines(tmp_path / "samples_arc.jsonl", row))


def test_verifiers_has_chats_and_its_settings_in_another_file(tmp_path: Path) -> None:
    turns = [
        {"role": "assistant", "content": None, "tool_calls": ["{}"]},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 4"}]},
    ]
    rows = [
        verifiers(0, "4", 1.0),
        verifiers(1, "5", 0.0, is_truncated=True),
        verifiers(0, "", 1.0, completion=turns),
        verifiers(1, "", 0.0, completion=None, error={"error": "APIError", "message": "no answer"}),
    ]
    sampling = {"temperature": 0.6, "max_tokens": 4096}
    metadata = {"env_id": "gsm8k", "model": "Qwen/Qwen3-4B", "sampling_args": sampling, "num_examples": 2}
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    found = read_samples(lines(tmp_path / "results.jsonl", *rows))
    assert found.format == "verifiers"
    assert found.settings == {"temperature": "0.6", "max_tokens": "4096", "grader": "gsm8k"}
    assert column(found, "question_id") == ["0", "1", "0"]
    assert column(found, "question") == ["Question 0?", "Question 1?", "Question 0?"]
    assert column(found, "text") == ["4", "5", "It is 4"]
    assert column(found, "correct") == [True, False, True]
    assert column(found, "truncated") == [False, True, False]
    assert [note.split(" are")[0] for note in found.notes] == ["1 rows"]


def trace(number: int, reply: str, score: float | None, **more: Any) -> dict[str, Any]:
    """A line of traces.jsonl of verifiers 0.2, with the fields that are read."""
    messages = (("system", "Think."), ("user", f"Question {number}?"), ("assistant", reply))
    rewards = {"correct": {"score": score, "weight": 1.0}, "style": {"score": 1.0, "weight": 0.0}}
    sampling, reason = {"temperature": 0.6}, "length" if reply == "5" else "stop"
    return {
        "id": f"{number}-{reply}",
        "task": {"type": "Task", "data": {"idx": number, "prompt": f"Question {number}?", "answer": "4"}},
        "nodes": [{"message": {"role": role, "content": content}} for role, content in messages],
        "calls": [{"model": "m", "sampling": sampling, "finish_reason": reason}],
        "rewards": {"correct": None} if score is None else rewards,
        "ok": True,
        "errors": [],
        **more,
    }


def test_traces_of_verifiers_are_samples_of_their_task(tmp_path: Path) -> None:
    failed = [{"type": "ProviderError", "message": "no answer"}]
    rows = [
        trace(0, "4", 1.0),
        trace(0, "5", 0.0),
        trace(1, "4", 1.0, errors=failed),
        trace(1, "", None, ok=False, errors=failed),
    ]
    found = read_samples(lines(tmp_path / "traces.jsonl", *rows))
    assert (found.format, found.settings) == ("verifiers-traces", {"temperature": "0.6"})
    assert found.rows.select("question_id", "question", "text", "correct", "gold", "truncated").rows() == [
        ("0", "Question 0?", "4", True, "4", False),
        ("0", "Question 0?", "5", False, "4", True),
        ("1", "Question 1?", "4", True, "4", False),
    ]


def test_a_session_of_verl_is_one_sample(tmp_path: Path) -> None:
    rows = [
        verl(f"turn {turn}", float(session % 2), input=f"{CHAT}{session}" if turn else CHAT, uid=f"a_{session}_{turn}")
        for session in range(8)
        for turn in range(3)
    ]
    found = read_samples(lines(tmp_path / "0.jsonl", *rows))
    assert found.rows["question_id"].n_unique() == 1
    assert column(found, "text") == ["turn 2"] * 8
    assert column(found, "correct") == [False, True] * 4


def test_lists_of_qwen_math_are_samples(tmp_path: Path) -> None:
    rows = [
        qwen_math(0, ["it is 4", "so 5"], [True, False], finish_reason=["stop", "length"]),
        qwen_math(7, ["4", "4", ""], [True, True, False], finish_reason=["stop", "stop", "stop"]),
    ]
    found = read_samples(lines(tmp_path / "aime24" / "test_qwen-boxed_-1_seed1_t0.6_s0_e-1.jsonl", *rows))
    assert (found.format, found.settings) == ("qwen-math", {"temperature": "0.6"})
    assert column(found, "question_id") == ["0", "0", "7", "7", "7"]
    assert column(found, "text") == ["it is 4", "so 5", "4", "4", ""]
    assert column(found, "correct") == [True, False, True, True, False]
    assert column(found, "truncated") == [False, True, False, False, False]
    assert found.notes == ()
    with pytest.raises(SourceError, match=r"line 1: score: expected 2 values, one per response, found 1"):
        read_samples(lines(tmp_path / "x.jsonl", qwen_math(1, ["4", "5"], [True])))


def shard(path: Path, ids: str, program: str | None = "p") -> Path:
    """Verdicts of this workflow: of each prompt a greedy response, a right one, and one without an answer."""
    rows = [(key, index, index < 1, None if index else "SELECT 1" * 30) for key in ids for index in (-1, 0, 1)]
    frame = pl.DataFrame(rows, ["prompt_id", "sample_index", "correct", "extracted"], orient="row")
    classes = {"answer_class": pl.lit("a"), "program_class": pl.lit(program, pl.String)}
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.with_columns(verdict=pl.lit("wrong"), **classes).write_parquet(path)
    return path


def test_verdicts_of_a_run_have_classes_and_no_greedy_response(tmp_path: Path) -> None:
    found = read_samples(shard(tmp_path / "0.parquet", "ab"))
    assert (found.format, found.settings) == ("dphrl", {})
    rows = found.rows.select("question_id", "text", "correct", "answer_class", "program_class")
    answer = "SELECT 1" * 30
    expected = [(key, *one, "a", "p") for key in "ab" for one in ((answer, True), ("", False))]
    assert rows.rows() == expected
    assert found.notes == ("2 rows are left out: greedy responses (sample_index -1)",)
    without = read_samples(shard(tmp_path / "1.parquet", "ab", program=None))
    assert without.rows.columns[-1] == "answer_class"


def test_a_folder_is_its_parquet_files_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number, ids in ((10, "e"), (9, "cd"), (1, "ab")):
        shard(tmp_path / "in" / f"{number}.parquet", ids)
    (tmp_path / "in" / "1.parquet.sha256").write_text("0")
    found = read_samples(tmp_path / "in")
    assert found.path == tmp_path / "in"
    assert found.rows["question_id"].unique(maintain_order=True).to_list() == [*"abcde"]
    assert found.notes[0].startswith("5 rows are left out: greedy")
    broken = pl.read_parquet(tmp_path / "in" / "9.parquet").with_columns(extracted=pl.lit(3))
    broken.write_parquet(tmp_path / "in" / "9.parquet")
    with pytest.raises(SourceError, match=r"9\.parquet, row 1: extracted: expected a text"):
        read_samples(tmp_path / "in")
    with pytest.raises(SourceError, match=r"it has none; name what to read in it: in$"):
        read_samples(tmp_path)


def test_the_same_samples_in_every_format_are_one_table(tmp_path: Path) -> None:
    asked = {f"Question {number}?": [(f"it is {n}", (number + n) % 3 == 0) for n in range(3)] for number in range(4)}
    write_every_format(asked, tmp_path)
    flat = [(question, text, right) for question, samples in asked.items() for text, right in samples]
    for path in sorted(tmp_path.iterdir()):
        found = read_samples(path)
        assert found.format == path.stem
        assert found.rows.select("question", "text", "correct").rows() == flat, path
