"""Dataset rows become prompts and gold; every row is accounted for."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.artifacts import SCHEMAS
from dphrl.tasks import SourceError, gold_of, overlap, prepare, prompt_id, read_source


def encode(messages: list[dict[str, str]]) -> list[int]:
    return [ord(character) for message in messages for character in message["content"]]


def sql(prompt: Any, gold: Any = "SELECT 1", **further: Any) -> dict[str, Any]:
    return {"prompt": prompt, "db_id": "shop", "gold_sql": gold, **further}


def test_a_jsonl_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a", "answer": "\xc3\xa9"}\n\n{"prompt": "b"}\r\n')
    assert read_source(path) == [{"prompt": "a", "answer": "é"}, {"prompt": "b"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": ', "line 2: expected one JSON object"),
        (b'{"a": 1}\n\n[1]\n', "line 3: expected a JSON object, found list"),
        (b'{"a": "\xff"}\n', "line 1: expected one JSON object in UTF-8"),
        (b"\n", "found no rows"),
    ],
)
def test_a_file_that_is_no_jsonl_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read_source(path)
    assert str(path) in str(caught.value)


def test_rows_become_prompts_gold_and_rejections() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "c"}]
    rows = [
        sql("a"),
        sql("b", "SELECT 2", comparison="bird"),
        sql([{"role": "user", "content": "a"}]),
        sql("x" * 11),
        sql(None, messages=messages),
        sql("b", "SELECT 3"),
        sql("x" * 11, "SELECT 4"),
        {"prompt": "no gold"},
    ]
    prepared = prepare(rows, "sql", "rows.jsonl", encode, max_tokens=10)
    assert prepared.prompts["source_index"].to_list() == [0, 1, 4]
    assert prepared.prompts["prompt_token_ids"].to_list() == [[97], [98], [115, 99]]
    assert json.loads(prepared.prompts["messages"][2]) == messages
    assert prepared.prompts["prompt_id"][0] == prompt_id("sql", [{"role": "user", "content": "a"}])
    assert prepared.rejected.rows() == [
        (2, "duplicate", "the prompt of row 0"),
        (3, "overlong", "11 tokens, limit 10"),
        (5, "duplicate", "the prompt of row 1"),
        (6, "duplicate", "the prompt of row 3"),
        (7, "malformed", "db_id: expected text, found None"),
    ]
    gold = gold_of(prepared.prompts, rows, "sql")
    assert gold["prompt_id"].to_list() == prepared.prompts["prompt_id"].to_list()
    assert gold.select("kept", "reason").rows() == [(True, None), (False, "conflicting"), (True, None)]
    truth = {"comparison": "bird", "db_id": "shop", "gold_sql": "SELECT 2"}
    assert json.loads(gold["ground_truth"][1]) == truth
    assert SCHEMAS["prompts"].conform(prepared.prompts, "test").height == 3
    assert SCHEMAS["rejected"].conform(prepared.rejected, "test").height == 5


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ({"db_id": "d", "gold_sql": "s"}, "expected either prompt or messages, found neither"),
        (sql("a", messages=[]), "expected either prompt or messages, found prompt and messages"),
        (sql(3), "prompt: expected text or a list of messages, found 3"),
        (sql([]), "expected text or a list of messages"),
        (sql([{"role": "user"}]), "message 0: expected role and content"),
        (sql([{"role": "robot", "content": "x"}]), "message 0: expected role and content"),
        (sql("  "), "message 0: expected text"),
        (sql("\ud800"), "lone surrogate"),
        (sql("a", gold=""), "gold_sql: expected text"),
        (sql("a", gold=["SELECT 1"]), "gold_sql: expected text"),
        (sql("a", comparison="set"), "comparison: expected one of"),
    ],
)
def test_malformed_rows_say_why(row: dict[str, Any], detail: str) -> None:
    prepared = prepare([row], "sql", "s", encode, 10)
    assert prepared.prompts.height == 0
    assert prepared.rejected["reason"].to_list() == ["malformed"]
    assert detail in prepared.rejected["detail"][0]


@pytest.mark.parametrize(("answer", "good"), [("1", True), (27.0, True), (3, True), (True, False), (None, False),
                                              (float("nan"), False), ([1], False), (" ", False)])  # fmt: skip
def test_maths_answers_are_text_or_numbers(answer: Any, good: bool) -> None:
    rows = [{"prompt": "q", "answer": answer}]
    prepared = prepare(rows, "math", "s", encode, 10)
    assert (prepared.prompts.height, prepared.rejected.height) == (int(good), int(not good))
    gold = gold_of(prepared.prompts, rows, "math")
    assert [json.loads(truth) for truth in gold["ground_truth"]] == ([{"answer": answer}] if good else [])


def test_the_task_is_part_of_the_id_and_an_unknown_one_an_error() -> None:
    messages = [{"role": "user", "content": "a"}]
    assert prompt_id("sql", messages) != prompt_id("math", messages)
    assert prompt_id("sql", messages) == "".join(prompt_id("sql", [{"content": "a", "role": "user"}]))
    assert len(prompt_id("sql", messages)) == 32
    with pytest.raises(ValueError, match="task 'poetry'"):
        prepare([], "poetry", "s", encode, 1)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.text(max_size=4), st.sampled_from(["SELECT 1", "SELECT 2", ""]))))
def test_every_row_is_a_prompt_or_a_rejection(pairs: list[tuple[str, str]]) -> None:
    rows = [sql(prompt, gold) for prompt, gold in pairs]
    prepared = prepare(rows, "sql", "s", encode, 3)
    accounted = prepared.prompts["source_index"].to_list() + prepared.rejected["source_index"].to_list()
    assert sorted(accounted) == list(range(len(pairs)))
    assert prepared.prompts["prompt_id"].to_list() == gold_of(prepared.prompts, rows, "sql")["prompt_id"].to_list()
    assert prepared.prompts["prompt_id"].is_unique().all()


def prompts(*texts: str) -> pl.DataFrame:
    return prepare([sql(text) for text in texts], "sql", "s", encode, 99).prompts


def test_overlap_is_exact_or_normalised() -> None:
    train = prompts("How many cups over 3?", "x + 1", "unique")
    other = {"b": prompts("how  many cups over 3", "x - 1", "new"), "a": prompts("unique", "X+1")}
    found = overlap(train, other)
    by_text = {key: text for frame in other.values() for key, text in frame.select("prompt_id", "messages").iter_rows()}
    assert {(json.loads(by_text[k])[0]["content"], d, kind) for k, d, kind in found.iter_rows()} == {
        ("unique", "a", "exact"),
        ("how  many cups over 3", "b", "normalised"),
    }
    assert SCHEMAS["overlap"].conform(found, "test").equals(found)
    assert overlap(train, {}).schema == found.schema
