"""Recorded answers in place of an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dphrl.config.blocks.sampling import PlanConfig
from dphrl.policy.replay import RecordedError, ReplayEngine
from dphrl.policy.requests import SamplingPlan, rollout_frame, shard

PROMPTS = pl.DataFrame({"prompt_id": ["p", "q"], "source_index": [0, 2], "prompt_token_ids": [[1, 2], [3]]})


def recorded(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(file: Path, n: int, greedy: bool = False, first: int = 0) -> list[tuple[str, int, str]]:
    requests = SamplingPlan("presample", PlanConfig(n=n, greedy=greedy), 1).requests(shard(PROMPTS, 0, 1))
    frame = rollout_frame(requests, ReplayEngine(file, PROMPTS, first=first).generate(requests))
    return frame.select("prompt_id", "sample_index", "text").rows()


def test_answers_are_found_by_source_row_or_prompt_and_numbered_as_they_come(tmp_path: Path) -> None:
    file = recorded(
        tmp_path,
        {"source_index": 2, "response": "q0"},
        {"prompt_id": "p", "responses": ["p0", "p1"]},
        {"source_index": 2, "response": "q1"},
    )
    assert texts(file, 2) == [("p", 0, "p0"), ("p", 1, "p1"), ("q", 0, "q0"), ("q", 1, "q1")]


def test_greedy_answers_have_a_separate_index_and_may_come_before_a_list(tmp_path: Path) -> None:
    file = recorded(
        tmp_path,
        *({"prompt_id": "p", "sample_index": index, "response": f"p{index}"} for index in (1, 0, -1)),
        {"prompt_id": "q", "sample_index": -1, "response": "q-1"},
        {"prompt_id": "q", "response": None, "responses": ["q0", "q1"]},
    )
    expected = [(key, index, f"{key}{index}") for key in "pq" for index in (-1, 0, 1)]
    assert texts(file, 2, greedy=True) == expected


def test_refinement_takes_the_sample_after_those_of_the_presampling(tmp_path: Path) -> None:
    file = recorded(tmp_path, *({"prompt_id": key, "responses": [f"{key}{i}" for i in range(3)]} for key in "pq"))
    assert texts(file, 1, first=2) == [("p", 0, "p2"), ("q", 0, "q2")]


def test_answers_to_rows_that_are_no_prompts_are_left(tmp_path: Path) -> None:
    file = recorded(tmp_path, *({"source_index": index, "response": str(index)} for index in range(4)))
    assert texts(file, 1) == [("p", 0, "0"), ("q", 0, "2")]


def test_tokens_come_from_the_policys_tokenizer_and_there_are_no_log_probs(tmp_path: Path) -> None:
    for finish, tokens in (("length", [97, 98]), ("stop", [97, 98, 0])):
        file = recorded(tmp_path, {"prompt_id": "p", "response": "ab", "finish_reason": finish})
        requests = SamplingPlan("presample", PlanConfig(n=1), 1).requests([("p", [1, 2])])
        engine = ReplayEngine(file, PROMPTS, tokenize=lambda text, complete: [*map(ord, text), *([0] * complete)])
        (completion,) = engine.generate(requests)
        assert (completion.token_ids, completion.logprobs, completion.finish_reason) == (tokens, [], finish)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"response": "x"}], "row 0: .*prompt_id"),
        ([{"prompt_id": "p", "responses": ["x", 3]}], "row 0: .*response"),
        ([{"prompt_id": "p", "response": "\ud83d"}], "row 0: .*lone surrogate"),
        ([{"prompt_id": "p", "responses": ["x", "y"]}] * 2, "row 1: .*responses in an earlier row"),
        ([{"prompt_id": "p", "response": "x", "finish_reason": "eos"}], "row 0: finish_reason 'eos'"),
        ([{"prompt_id": "p", "response": "x", "sample_index": -2}], "row 0: sample_index -2"),
        ([{"prompt_id": "p", "response": "x", "sample_index": 0}] * 2, "row 1: sample 0"),
        ([{"prompt_id": "elsewhere", "response": "x"}], "no row"),
        ([{"prompt_id": "p", "response": "x"}], r"row 2 .*prompt q.* sample 0"),
    ],
)
def test_what_is_wrong_with_a_recording_is_named(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(RecordedError, match=message):
        texts(recorded(tmp_path, *rows), 1)


def test_a_missing_greedy_answer_says_what_to_do(tmp_path: Path) -> None:
    file = recorded(tmp_path, *({"prompt_id": key, "response": "x"} for key in "pq"))
    with pytest.raises(RecordedError, match=r"sample_index -1.* lower n"):
        texts(file, 1, greedy=True)
