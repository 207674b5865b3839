"""Dataset rows become prompts and gold; every row is accounted for."""

import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config.scorers import THOUGHTS
from dphrl.data.fields import NAMES
from dphrl.data.gold import gold_of
from dphrl.data.overlap import overlap, shared
from dphrl.data.prepare import prepare, prompt_id
from dphrl.data.records import SourceError, read_source
from dphrl.data.tokens import Rendered
from dphrl.store.catalogue import SCHEMAS

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


def encode(messages: list[dict[str, str]]) -> Rendered:
    text = "".join(message["content"] for message in messages)
    return Rendered(text, [ord(character) for character in text])


def sql(prompt: Any, gold: Any = "SELECT 1", **further: Any) -> dict[str, Any]:
    return {"prompt": prompt, "db_id": "shop", "gold_sql": gold, **further}


def truths(rows: list[dict[str, Any]], task: str, **reading: Any) -> list[Any]:
    prepared = prepare(rows, task, "s", None, 1, fields=reading.get("fields", {}))
    gold = gold_of(prepared.prompts, prepared.rejected, rows, task, **reading)
    return [json.loads(truth) for truth in gold["ground_truth"]]


def malformed(row: dict[str, Any], task: str, **reading: Any) -> str:
    """Why a row is rejected, in a dataset with one good row."""
    good = {"prompt": "good", "db_id": "d", "gold_sql": "s", "answer": "1", "ground_truth": {}}
    rejected = prepare([good, row], task, "s", encode, 100, **reading).rejected
    assert rejected.select("source_index", "reason", "duplicate_of").rows() == [(1, "malformed", None)]
    return str(rejected["detail"][0])


def test_a_jsonl_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff{"prompt": "a", "answer": "é"}\n\n{"prompt": "\u4e2d \U0001f600"}\r\n'.encode())
    assert read_source(path) == [{"prompt": "a", "answer": "é"}, {"prompt": "\u4e2d \U0001f600"}]


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
        (2, "duplicate", "the prompt of row 0", 0),
        (3, "overlong", "11 tokens, limit 10", None),
        (5, "conflict", "the prompt of row 1, with gold_sql 'SELECT 3' here and 'SELECT 2' there", 1),
        (6, "conflict", "the prompt of row 3, with gold_sql 'SELECT 4' here and 'SELECT 1' there", 3),
        (7, "malformed", "expected db_id, found only 'prompt'", None),
    ]
    gold = gold_of(prepared.prompts, prepared.rejected, rows, "sql")
    assert gold["prompt_id"].to_list() == prepared.prompts["prompt_id"].to_list()
    assert gold.select("kept", "reason").rows() == [(True, None), (False, "conflicting"), (True, None)]
    assert json.loads(gold["ground_truth"][1]) == {"comparison": "bird", "db_id": "shop", "gold_sql": "SELECT 2"}
    assert SCHEMAS["prompts"].conform(prepared.prompts, "test").height == 3
    assert SCHEMAS["rejected"].conform(prepared.rejected, "test").height == 5


def test_a_dataset_without_a_single_prompt_is_an_error() -> None:
    rows = [{"prompt": "a"}, {"prompt": "b"}, sql("c" * 11)]
    with pytest.raises(
        SourceError, match=r"x.json: none of 3 rows is a prompt \(2 malformed, 1 overlong\); row 0: exp"
    ):
        prepare(rows, "sql", "x.json", encode, 10)


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (sql(None), "expected prompt or messages or question, found only 'db_id, gold_sql'"),
        (sql("a", messages=[]), "expected either prompt or messages, found both"),
        (sql(3), "prompt: expected text or a list of messages, found 3"),
        (
            sql([{"role": "user"}]),
            "message 0: expected role (system, user, assistant) and content, found {'role': 'user'}",
        ),
        (sql("  "), "message 0: expected text, found '  '"),
        (sql("\ud800"), "message 0: holds a lone surrogate"),
        (sql("a", gold=""), "gold_sql: expected text, found ''"),
        (sql("a", comparison="set"), "comparison: expected one of spider, bird, strict, found 'set'"),
        (sql(None, question="q"), "question: its prompt needs the schema, but there is no folder of databases"),
    ],
)
def test_malformed_sql_rows_say_why(row: dict[str, Any], detail: str) -> None:
    assert malformed(row, "sql").startswith(detail)


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ({}, "expected answer or solution, found only 'prompt'"),
        ({"answer": True}, "answer: expected text or a number, found True"),
        ({"answer": " "}, "answer: expected text, found ' '"),
        ({"final_answer": []}, "final_answer: expected an answer, found []"),
        ({"answer": "1", "error": [1]}, "error: expected a number, not negative, such as 1e-1, found [1]"),
        ({"answer": "1", "tolerance": -0.1}, "tolerance: expected a number, not negative"),
        ({"answer": "1", "tolerance": "1e999999999"}, "tolerance: expected a number, not negative"),
        ({"answer": "1", "tolerance": [[[10**5000]]]}, "tolerance: expected a number, not negative"),
        ({"answer": 10**5000}, "answer: expected a number of at most 4000 digits, found more"),
        ({"answer": "1", "unit": 3}, "unit: expected text, found 3"),
        ({"solution": "so it is 3"}, "solution: expected a complete \\boxed{}, found 'so it is 3'"),
        ({"solution": "so \\boxed{}"}, "solution: expected text, found ''"),
    ],
)
def test_malformed_maths_rows_say_why(row: dict[str, Any], detail: str) -> None:
    assert malformed({"prompt": "q", **row}, "math").startswith(detail)


@pytest.mark.parametrize(
    ("row", "truth"),
    [
        ({"answer": 27.0}, {"answer": 27}),
        ({"answer": 0.5}, {"answer": 0.5}),
        ({"answer": "$10-4 n$"}, {"answer": "$10-4 n$"}),
        ({"answer": "9 + 9 = 18\n#### 18"}, {"answer": "18"}),
        ({"answer": "4", "solution": "\\boxed{5}"}, {"answer": "4"}),
        ({"answer": None, "solution": "\\boxed{5}, no: \\boxed{\\frac{1}{2}}."}, {"answer": "\\frac{1}{2}"}),
        ({"answer": "", "solution": "\\boxed{5}"}, {"answer": "5"}),
        ({"final_answer": ["4.2"], "error": "1e-1", "unit": "%"}, {"answer": "4.2", "tolerance": "1e-1", "unit": "%"}),
        ({"final_answer": ["2"], "error": None, "unit": "", "is_multiple_answer": False}, {"answer": "2"}),
        ({"final_answer": ["$-1,2$"], "is_multiple_answer": True}, {"answer": ["-1", "2"]}),
        ({"final_answer": ["$(1,1)$, $[0,2)$"], "is_multiple_answer": True}, {"answer": ["(1,1)", "[0,2)"]}),
        ({"final_answer": ["(3"], "is_multiple_answer": True}, {"answer": "(3"}),
        ({"final_answer": ["a,,b"], "is_multiple_answer": True}, {"answer": "a,,b"}),
        ({"answer": [1.0, "x"]}, {"answer": ["1", "x"]}),
        ({"answer": "1", "tolerance": 1e-05}, {"answer": "1", "tolerance": 1e-05}),
        ({"reward_model": {"ground_truth": "34"}}, {"answer": "34"}),
        ({"reward_model": {"ground_truth": ["3", "4"]}}, {"answer": ["3", "4"]}),
        ({"reward_model": {"ground_truth": {"solution": "\\boxed{a}", "target": "b"}}}, {"answer": "b"}),
        ({"ground_truth": "34"}, {"answer": "34"}),
    ],
)
def test_maths_answers_are_read_from_where_the_datasets_have_them(row: dict[str, Any], truth: dict[str, Any]) -> None:
    assert truths([{"prompt": "q", **row}], "math") == [truth]


@pytest.mark.parametrize(
    "row",
    [
        {"db_id": "d", "gold_sql": "g", "comparison": "bird"},
        {"db_id": "d", "query": "g", "cmp_method": "bird"},
        {"db_id": "d", "SQL": "g", "query": None, "comparison": "bird"},
        {"reward_model": {"style": "rule", "ground_truth": {"db_id": "d", "gold_sql": "g", "cmp_method": "bird"}}},
        {"ground_truth": {"db_id": "d", "gold_sql": "g", "comparison": "bird"}},
        {"ground_truth": "g", "db_id": "d", "comparison": "bird"},
    ],
)
def test_sql_gold_is_read_from_where_the_datasets_have_it(row: dict[str, Any]) -> None:
    assert truths([{"prompt": "q", **row}], "sql") == [{"comparison": "bird", "db_id": "d", "gold_sql": "g"}]


def test_the_comparison_of_the_dataset_wins_over_the_rows() -> None:
    rows = [sql("a", comparison="bird"), sql("a", comparison="spider")]
    prepared = prepare(rows, "sql", "s", None, 1)
    gold = gold_of(prepared.prompts, prepared.rejected, rows, "sql", comparison="strict")
    assert json.loads(gold["ground_truth"][0])["comparison"] == "strict"
    assert gold["kept"].to_list() == [True]
    assert not gold_of(prepared.prompts, prepared.rejected, rows, "sql")["kept"][0]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (27.0, "27", True),
        ("27", " $27$ ", True),
        ("033", 33, True),
        ("0.50", 0.5, True),
        ("-0", "0", False),
        ("1.0", "10", False),
        ("1e2", "100", False),
        (["1", "2"], ["2.0", "1"], True),
        (["1", "2"], ["1"], False),
        ("x", "X", False),
    ],
)
def test_truths_conflict_unless_they_only_write_a_number_otherwise(first: Any, second: Any, kept: bool) -> None:
    rows = [{"prompt": "q", "answer": first}, {"prompt": "q", "answer": second}]
    prepared = prepare(rows, "math", "s", encode, 9)
    gold = gold_of(prepared.prompts, prepared.rejected, rows, "math")
    assert gold.select("kept", "reason").rows() == [(kept, None if kept else "conflicting")]


def test_long_truths_are_compared_in_a_moment() -> None:
    start = time.process_time()
    rows = [{"prompt": "q", "answer": "0" * 50_000 + end} for end in ("x", "y", "." + "0" * 50_000 + "1")]
    prepared = prepare(rows, "math", "s", None, 9)
    assert gold_of(prepared.prompts, prepared.rejected, rows, "math")["kept"].to_list() == [False]
    assert time.process_time() - start < 2


def test_fields_are_renamed() -> None:
    rows = [{"q": "1 + 1?", "label": 2.0, "answer": "no", "level": 1, "type": "Algebra"}]
    fields = {"question": "q", "answer": "label", "level": "type"}
    assert truths(rows, "math", fields=fields) == [{"answer": 2}]
    # Without a tokenizer prompts have no tokens, and none is overlong.
    prepared = prepare(rows, "math", "s", None, 1, fields=fields).prompts
    assert prepared.select("level", "prompt_token_ids").rows() == [("Algebra", [])]
    with pytest.raises(SourceError, match="row 0: expected label or solution, found only 'q, answer'"):
        prepare([{"q": "1 + 1?", "answer": "2"}], "math", "s", None, 1, fields=fields)


def test_two_texts_are_joined() -> None:
    """SVAMP's layout."""
    fields = {"question": ["Body", "Question"], "answer": "Answer"}
    rows = [{"Body": " Tom has 3 pens. ", "Question": "How many are 2 more?", "Answer": 5.0}]
    prepared = prepare(rows, "math", "s", None, 1, fields=fields)
    assert json.loads(prepared.prompts["messages"][0])[-1]["content"] == "Tom has 3 pens. How many are 2 more?"
    assert truths(rows, "math", fields=fields) == [{"answer": 5}]
    half, wrong = {"Body": "Tom has 3.", "Answer": 5}, {"Body": 3, "Question": "How many?", "Answer": 5}
    details = prepare([*rows, half, wrong], "math", "s", None, 1, fields=fields).rejected["detail"].to_list()
    assert details == [
        "expected prompt or messages or Body and Question, found only 'Body, Answer'",
        "Body: expected text, found 3",
    ]


def asked(row: dict[str, Any], task: str, instruction: str | None = None) -> list[tuple[str, str]]:
    [messages] = prepare([row], task, "s", None, 1, instruction=instruction).prompts["messages"]
    return [(message["role"], message["content"]) for message in json.loads(messages)]


def test_a_bare_maths_question_is_asked_for_a_boxed_answer() -> None:
    row = {"problem": "p", "question": "q", "answer": "1"}
    assert asked(row, "math") == [("system", BOXED), ("user", "q")]
    assert asked(row, "math", "Be brief.") == [("system", "Be brief."), ("user", "q")]


def test_given_messages_are_taken_as_they_are_after_the_instruction() -> None:
    row = {"prompt": [{"role": "user", "content": "q", "name": None}], "question": "x", "answer": "1"}
    assert asked(row, "math") == [("user", "q")]
    assert asked(row, "math", "Be brief.") == [("system", "Be brief."), ("user", "q")]
    system = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], "answer": "1"}
    assert asked(system, "math") == [("system", "s"), ("user", "q")]
    assert malformed(system, "math", instruction="i") == (
        "message 0: expected no system message in addition to the dataset's instruction"
    )


@pytest.mark.parametrize(
    "row", [{"ground_truth": {"tests": ["f(1)"]}}, {"reward_model": {"ground_truth": {"tests": ["f(1)"]}}}]
)
def test_another_task_has_any_object_as_its_truth(row: dict[str, Any]) -> None:
    row = {"question": "q", **row}
    assert truths([row], "code") == [{"tests": ["f(1)"]}]
    assert asked(row, "code") == [("user", "q")]


def test_the_truths_of_another_task_conflict_if_they_differ_at_all() -> None:
    rows = [{"prompt": "q", "ground_truth": {"a": [[value], "x"]}} for value in (1, 1, "1")]
    for used, kept in ((rows[:2], True), (rows, False)):
        prepared = prepare(used, "code", "s", None, 1)
        assert gold_of(prepared.prompts, prepared.rejected, used, "code")["kept"].to_list() == [kept]


@pytest.mark.parametrize(
    ("truth", "detail"),
    [
        (None, "ground_truth: expected an object, found None"),
        ("3", "ground_truth: expected an object, found '3'"),
        ({"a": float("inf")}, "ground_truth: expected JSON"),
        ({"a": "\ud800"}, "ground_truth: expected JSON"),
    ],
)
def test_a_truth_that_is_no_object_of_json_is_malformed(truth: Any, detail: str) -> None:
    assert malformed({"question": "q", "ground_truth": truth}, "code").startswith(detail)


def test_the_task_is_part_of_the_id() -> None:
    messages = [{"role": "user", "content": "a"}]
    assert prompt_id("sql", messages) != prompt_id("math", messages)
    assert prompt_id("sql", messages) == prompt_id("sql", [{"content": "a", "role": "user"}])
    assert len(prompt_id("sql", messages)) == 32


@given(st.lists(st.tuples(st.text(max_size=4), st.sampled_from(["SELECT 1", "SELECT 2", ""]))))
def test_every_row_is_a_prompt_or_a_rejection(pairs: list[tuple[str, str]]) -> None:
    rows = [sql("fit"), *(sql(prompt, gold) for prompt, gold in pairs)]
    prepared = prepare(rows, "sql", "s", encode, 3)
    accounted = prepared.prompts["source_index"].to_list() + prepared.rejected["source_index"].to_list()
    assert sorted(accounted) == list(range(len(rows)))
    gold = gold_of(prepared.prompts, prepared.rejected, rows, "sql")
    assert prepared.prompts["prompt_id"].to_list() == gold["prompt_id"].to_list()
    assert prepared.prompts["prompt_id"].is_unique().all()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from([*NAMES, "problem", "query", "SQL", "final_answer", "error", "reward_model"])


@given(st.dictionaries(names, json_values), st.sampled_from(["sql", "math", "code"]))
def test_no_row_is_an_error(row: dict[str, Any], task: str) -> None:
    good = {"prompt": "good", "db_id": "d", "gold_sql": "s", "answer": "1", "ground_truth": {}}
    rows = [good, row]
    prepared = prepare(rows, task, "s", encode, 99)
    assert prepared.prompts.height + prepared.rejected.height == 2
    assert gold_of(prepared.prompts, prepared.rejected, rows, task).height == prepared.prompts.height


def prompts(*texts: str, instruction: str | None = None) -> pl.DataFrame:
    return prepare([sql(text) for text in texts], "sql", "s", encode, 99, instruction=instruction).prompts


def test_overlap_is_exact_or_normalised() -> None:
    train = prompts("How many cups over 3?", "x + 1", "unique", instruction="Answer.")
    other = {"b": prompts("how  many cups over 3", "x - 1", "new"), "a": prompts("unique", "X+1")}
    found = overlap(train, other)
    by_text = {key: text for frame in other.values() for key, text in frame.select("prompt_id", "messages").iter_rows()}
    assert {(json.loads(by_text[k])[0]["content"], d, kind) for k, d, kind in found.iter_rows()} == {
        ("unique", "a", "exact"),
        ("X+1", "a", "normalised"),
        ("how  many cups over 3", "b", "normalised"),
    }
    assert SCHEMAS["overlap"].conform(found, "test").equals(found)
    assert overlap(train, {}).schema == found.schema
    assert shared(found, other) == "training prompts too: 1 of 3 prompts of b, 2 of 2 prompts of a"
    assert shared(overlap(train, {"c": prompts("new")}), {"c": prompts("new")}) == "none"


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({"level": "Level 3"}, "Level 3"),
        ({"level": 3}, "3"),
        ({"level": " two\n\u202elines \x00 "}, "two lines"),
        ({"level": "<b>" * 1000}, ("<b>" * 1000)[:40]),
        ({"level": "\ud800"}, None),
        ({"level": float("nan")}, None),
        ({"level": ["hard"]}, None),
        ({"level": 10**5000}, "<too large a value: int>"),
        ({"level": " "}, None),
        ({}, None),
    ],
)
def test_a_level_is_one_short_line_and_rejects_no_row(given: dict[str, Any], level: str | None) -> None:
    prepared = prepare([sql("Q?", **given)], "sql", "s", None, 9)
    assert prepared.prompts["level"].to_list() == [level]
    SCHEMAS["prompts"].conform(prepared.prompts, "test")


SOLVED = [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "<think>Two and two"}]


@pytest.mark.parametrize("field", ["messages", "prompt"])
def test_a_last_turn_of_the_assistant_is_left_out(field: str) -> None:
    row = {field: SOLVED, "answer": "4"}
    prepared = prepare([row], "math", "s", encode, 99, thoughts=THOUGHTS)
    assert json.loads(prepared.prompts["messages"][0]) == SOLVED[:1]
    assert prepared.prompts["thought_open"].to_list() == [False]
    assert prepared.summary() == "1 prompt (a last turn of the assistant is left out of 1 row)"
    kept = prepare([row], "math", "s", encode, 99, thoughts=THOUGHTS, prefill=True)
    assert json.loads(kept.prompts["messages"][0]) == SOLVED
    assert kept.prompts["thought_open"].to_list() == [True]


def test_a_prompt_that_ends_with_an_opening_is_inside_of_a_thought() -> None:
    rows = [{"prompt": f"{end} Q", "answer": "4"} for end in ("<think></think>", "<think>")]

    def reasoning(messages: list[dict[str, str]]) -> Rendered:
        content = messages[0]["content"]
        return Rendered(f"{content}\nassistant\n{content.removesuffix(' Q')}\n", [1])

    assert prepare(rows, "math", "s", reasoning, 9, thoughts=THOUGHTS).prompts["thought_open"].to_list() == [
        False,
        True,
    ]


def test_both_golds_of_a_question_are_named() -> None:
    rows = [{"question": "What is 1+1?", "answer": answer} for answer in (2, "2.0", 3)]
    prepared = prepare(rows, "math", "s", None, 9)
    assert prepared.rejected.select("reason", "duplicate_of").rows() == [("duplicate", 0), ("conflict", 0)]
    assert "1 conflict, row 2: the prompt of row 0, with answer 3 here and 2 there" in prepared.summary()


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "1+1?"}]}, "What is 1+1?"),
        ({"content": "x", "tool_calls": [], "name": None, "refusal": ""}, "x"),
        ({"content": [{"type": "image_url", "image_url": "u"}]}, None),
        ({"content": "x", "tool_calls": [{"id": 1}]}, None),
        ({"content": []}, None),
        ({"content": "\ud83d"}, None),
    ],
)
def test_messages_as_chats_are_dumped(message: dict[str, Any], content: str | None) -> None:
    row = {"messages": [{"role": "user", **message}], "answer": 2}
    if content is None:
        assert malformed(row, "math")
    else:
        assert asked(row, "math") == [("user", content)]


def test_a_lone_surrogate_and_a_decimal_concern_their_own_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "\\ud83d", "answer": 1}\n{"question": "q", "answer": 1}\n')
    prepared = prepare(read_source(tmp_path / "a.jsonl"), "math", "s", None, 9)
    assert prepared.prompts["source_index"].to_list() == [1]
    assert "lone surrogate" in prepared.rejected["detail"][0]
    decimals = pl.DataFrame({"answer": ["1.50", "2.00", "0.1234567890123456789"]}).with_columns(
        pl.col("answer").cast(pl.Decimal(30, 19)), prompt=pl.lit("q")
    )
    decimals.write_parquet(tmp_path / "a.parquet")
    answers = [row["answer"] for row in read_source(tmp_path / "a.parquet")]
    assert answers == [1.5, 2, "0.1234567890123456789"]


def test_prompts_without_a_question_or_with_their_solution_are_rejected() -> None:
    assert "expected one of the user" in malformed({"messages": SOLVED[1:], "answer": "4"}, "math")
    solution = "Two and two are four, because one and one are two."
    assert "holds the text of solution" in malformed(
        {"prompt": f"Q? {solution}", "solution": solution, "answer": "4"}, "math"
    )
    with pytest.raises(SourceError, match="lacks the last message of the user"):
        prepare([{"prompt": "Q?", "answer": "4"}], "math", "s", lambda _: Rendered("<eos>", [1]), 9)
