"""Files with fields of our own, of names that the user gives, and as other projects publish them; what is refused."""

import json
import re
from pathlib import Path
from typing import Any
from unicodedata import normalize

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_samples import lines

from dphrl.data.sample_files import SourceError, read_samples
from dphrl.data.sample_formats import COLUMNS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "diagnose-formats.md"


def right(path: Path, **options: Any) -> dict[str, list[bool | None]]:
    """The verdicts of a file by question."""
    rows = read_samples(path, **options).rows
    return dict(rows.group_by("question_id", maintain_order=True).agg("correct").iter_rows())


def test_every_plain_field_is_read(tmp_path: Path) -> None:
    row = {
        "question_id": "q1",
        "question": "What is 2 + 2?",
        "text": "4",
        "correct": True,
        "gold": {"value": 4},
        "truncated": False,
        "temperature": 0.7,
        "further": "ignored",
    }
    found = read_samples(lines(tmp_path / "a.jsonl", row))
    assert found.rows.schema == COLUMNS | {"cluster": pl.Null()}
    assert found.rows.rows() == [("q1", "What is 2 + 2?", "4", True, '{"value": 4}', None, False)]
    assert (found.path, found.format, found.notes) == (tmp_path / "a.jsonl", "plain", ())
    assert found.settings == {"temperature": "0.7"}
    assert read_samples(found.path, mapping={"cluster": "further"}).rows["cluster"].to_list() == ["ignored"]
    # Other usual names.
    row = {"id": 7, "problem": "2 + 2?", "response": "4", "is_correct": True, "answer": "4"}
    assert read_samples(lines(tmp_path / "b.jsonl", row)).rows.rows() == [("7", "2 + 2?", "4", True, "4", None, None)]
    # Completions as texts are no results of reasoning-gym.
    row = {"question": "q", "expected_answer": "4", "completions": ["4", "5"], "correct": [True, False]}
    assert right(lines(tmp_path / "c.jsonl", row)) == {"q": [True, False]}


def test_a_field_without_a_value_in_the_first_row_is_read(tmp_path: Path) -> None:
    first, second = ({"task_id": f"H/{n}", "completion": text, "passed": True} for n, text in enumerate([None, "x"]))
    for rows in ((first, second), (second, first)):
        assert set(read_samples(lines(tmp_path / "a.jsonl", *rows)).rows["text"]) == {"", "x"}


def test_ids_are_equal_as_floats_and_in_both_forms_of_unicode(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": key, "correct": True} for key in (0, 0.0, "0", " 0", "caf\u00e9", "cafe\u0301")
    ]
    assert list(right(lines(tmp_path / "a.jsonl", *rows))) == ["0", "caf\u00e9"]
    asked = [{"question": text, "text": "t"} for text in ("caf\u00e9", "cafe\u0301")]
    assert read_samples(lines(tmp_path / "b.jsonl", *asked)).rows["question_id"].n_unique() == 1
    with pytest.raises(SourceError, match=r"line 1: id: expected a text or a whole number, found 0\.5"):
        read_samples(lines(tmp_path / "c.jsonl", {"id": 0.5, "correct": True}))


def test_long_questions_that_start_alike_have_short_ids_of_their_own(tmp_path: Path) -> None:
    rows = ({"question": "long " * 50 + end, "text": "t"} for end in ("a", "b", "a"))
    first, other, again = read_samples(lines(tmp_path / "a.jsonl", *rows)).rows["question_id"]
    assert (first, len(first)) == (again, 100)
    assert first != other


def test_one_table_in_three_kinds_of_file_is_one(tmp_path: Path) -> None:
    rows = [{"question": f"q{number % 3}", "response": f"r{number}", "score": number % 2} for number in range(7)]
    lines(tmp_path / "a.jsonl", *rows)
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps({"version": 2, "samples": rows}))
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    first, *others = (read_samples(tmp_path / name).rows for name in ("a.jsonl", "a.json", "b.json", "a.parquet"))
    assert first["correct"].to_list() == [False, True, False, True, False, True, False]
    assert [other.equals(first) for other in others] == [True] * 3


def test_recorded_answers_are_plain_without_the_greedy_one(tmp_path: Path) -> None:
    rows = [
        {"source_index": 3, "responses": ["a", "b"]},
        {"source_index": 3, "response": "c", "sample_index": 2},
        {"source_index": 3, "response": "greedy", "sample_index": -1},
    ]
    found = read_samples(lines(tmp_path / "a.jsonl", *rows))
    assert found.rows["text"].to_list() == ["a", "b", "c"]
    assert found.rows["question_id"].to_list() == ["3"] * 3
    assert found.notes == ("1 rows are left out: greedy responses (sample_index -1)",)


RECIPES: dict[str, dict[str, Any]] = {
    "lighteval": {
        "doc": {"query": "2 + 2?", "choices": ["4"], "gold_index": 0, "id": "0"},
        "model_response": {"text": ["it is 4"], "input": "2 + 2?"},
        "metric": {"extractive_match": 1.0},
    },
    "inspect_ai": {
        "id": 1,
        "epoch": 1,
        "input": [{"role": "user", "content": "2 + 2?"}],
        "target": "4",
        "output": {"completion": "it is 4", "choices": [{"message": {"content": "it is 4"}, "stop_reason": "stop"}]},
        "scores": {"match": {"value": "C", "answer": "4"}},
    },
    "evalplus": {"task_id": "HumanEval/0", "solution": "it is 4", "base_status": "pass", "plus_status": "pass"},
}


@pytest.mark.parametrize("tool", RECIPES)
def test_recipes_of_the_docs_read_the_files_of_other_tools(tmp_path: Path, tool: str) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {tool}\n")[1].split("\n## ")[0]
    mapping = dict(re.findall(r"--map (\w+)=(\S+)", section))
    found = read_samples(lines(tmp_path / "a.jsonl", RECIPES[tool]), mapping=mapping)
    assert found.rows.select("text", "correct").rows() == [("it is 4", True)]
    assert found.rows["question"].to_list() == ["" if tool == "evalplus" else "2 + 2?"]
    assert found.rows["gold"].to_list() == [None if tool == "evalplus" else "4"]


def test_words_of_judges(tmp_path: Path) -> None:
    words = {"C": True, "I": False, "N": False, "pass": True, "fail": False, "timeout": False, 1.0: True}
    path = lines(tmp_path / "a.jsonl", *({"id": 1, "plus_status": word} for word in words))
    assert right(path, mapping={"correct": "plus_status"}) == {"1": [*words.values()]}


PLAIN = {"question": "q", "text": "t"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": "q"}, r"line 2: text: expected a response, found nothing"),
        ({"text": "t"}, r"line 2: .*question: expected an id or the text of the question, found nothing"),
        ({**PLAIN, "correct": "perhaps"}, r"line 2: correct or score: expected 0 or 1, true or false, found 'perhaps'"),
        ({**PLAIN, "score": 0.5}, r"line 2: .*score: .*found 0\.5: with --threshold T"),
        ({**PLAIN, "question": [1]}, r"line 2: question: expected a text, or messages with role and content"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        read_samples(lines(tmp_path / "a.jsonl", PLAIN, row))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", b'{"question": "q", "text": "t"}\n{"question": "q"', r"a\.jsonl, line 2: expected one JSON object"),
        ("a.jsonl", b'{"question": "q", "text": "\xff"}', r"line 1: expected one JSON object per line .*, in UTF-8"),
        ("a.jsonl", b'{"question": "q", "text": "\\ud800"}', r"line 1: a lone surrogate"),
        ("a.jsonl", b'{"question": "q", "text": "t", "text": "u"}', r"line 1: .* field 'text' is twice"),
        ("a.json", b'[{"text": "t", "doc": {"id": 1, "id": 1}}]', r"a\.json: .* field 'id' is twice"),
        ("a.jsonl", b"[" * 100_000, r"line 1: .*: nested too deeply"),
        ("a.jsonl", b"\n{" + b" " * 2**25 + b"}", r"a\.jsonl, line 2: longer than 32 MiB: .* parquet"),
        (
            "a.jsonl",
            b"\n\n[1]\n",
            r"line 3: .* per line \(a list of objects is \.json\), found list",
        ),
        ("a.jsonl", b"\n", r"found no rows"),
        ("a.json", b'{"eval": {}}', r"found one object with the keys .eval., ..."),
        (
            "a.json",
            b'[{"text": "t"}',
            r"expected a list of objects \(one object per line is \.jsonl\) in UTF-8",
        ),
        ("a.parquet", b"PAR1", r"a\.parquet: expected a parquet table"),
        ("a.csv", b"", r"expected a file in \.jsonl, \.json or \.parquet, found \.csv"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=problem):
        read_samples(tmp_path / name)


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    lines(tmp_path / "nine.jsonl", PLAIN)
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl: does not exist; did you mean .*nine\.jsonl\?"):
        read_samples(tmp_path / "none.jsonl")


def test_options_are_checked(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"input": "q", "text": "t", "question": "q"})
    with pytest.raises(SourceError, match=r"--map: unknown 'guestion' \(nearest: question\): expected one of"):
        read_samples(path, mapping={"guestion": "input"})
    with pytest.raises(SourceError, match=r"--map gold=gild: the first object has no such field; it has .*gold"):
        read_samples(lines(tmp_path / "b.jsonl", {**PLAIN, "gold": "4"}), mapping={"gold": "gild"})
    nested = {**PLAIN, "metric": {"match": 1.0}}
    with pytest.raises(SourceError, match=r"no such field; it has .*metric\.match"):
        read_samples(lines(tmp_path / "c.jsonl", nested), mapping={"correct": "metric.mach"})


def test_a_threshold_needs_scores(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {**PLAIN, "correct": True, "score": 0.2}, {**PLAIN, "correct": True})
    assert read_samples(path, threshold=0.5).rows["correct"].to_list() == [False, None]
    with pytest.raises(SourceError, match=r"which field is the score\? Say --map score=FIELD"):
        read_samples(path, threshold=0.5, mapping={"correct": "correct"})
    path = lines(tmp_path / "c.jsonl", *({**PLAIN, "score": score} for score in ("1.0", "0.25")))
    assert read_samples(path, threshold=0.5).rows["correct"].to_list() == [True, False]
    path = lines(tmp_path / "b.jsonl", {**PLAIN, "correct": "C"})
    with pytest.raises(SourceError, match=r"correct: expected a number, as a threshold was given, found 'C'"):
        read_samples(path, threshold=0.5, mapping={"score": "correct"})


def test_a_verdict_comes_before_a_score(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {**PLAIN, "correct": True, "score": 0.2}, {**PLAIN, "correct": None, "score": 0})
    assert read_samples(path).rows["correct"].to_list() == [True, False]


def test_ids_with_two_questions_and_questions_with_two_ids_are_noted(tmp_path: Path) -> None:
    rows = ({"id": key, "question": question, "text": "t"} for key, question in ((1, "q"), (1, "r"), (2, "q")))
    notes = read_samples(lines(tmp_path / "a.jsonl", *rows)).notes
    assert notes == ("1 question ids have more than one question: '1'", "1 questions have more than one id: 'q'")


def test_a_row_late_in_a_long_file_is_named(tmp_path: Path) -> None:
    good = '{"question": "q", "text": "t"}\n'
    (tmp_path / "a.jsonl").write_text(good * 40_000 + '{"question": "q", "text": 1}\n')
    with pytest.raises(SourceError, match=r"line 40001: text"):
        read_samples(tmp_path / "a.jsonl")


SAMPLES = st.lists(
    st.tuples(st.text().filter(str.strip), st.text(), st.none() | st.booleans()), min_size=1, max_size=20
)


@given(SAMPLES)
def test_texts_and_verdicts_are_those_of_the_file(tmp_path_factory: pytest.TempPathFactory, samples: Any) -> None:
    rows = [{"id": question, "text": text, "correct": correct} for question, text, correct in samples]
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    found = read_samples(path).rows
    assert found.select("question_id", "text", "correct").rows() == [
        (normalize("NFC", row[0].strip()), *row[1:]) for row in samples
    ]


def test_verdicts_alone_are_samples(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": 1, "correct": [True, False]}, {"id": 2, "correct": [False, False]})
    assert right(path) == {"1": [True, False], "2": [False, False]}
    path = lines(tmp_path / "b.jsonl", *({"problem_id": "x", "passed": passed} for passed in (True, False)))
    assert right(path) == {"x": [True, False]}


def test_counts_are_samples_in_no_order(tmp_path: Path) -> None:
    rows = [{"task_id": "a", "n": 4, "c": 1}, {"task_id": "b", "n": 4, "c": 4}]
    found = right(lines(tmp_path / "a.jsonl", *rows))
    assert {key: sum(map(bool, marks)) for key, marks in found.items()} == {"a": 1, "b": 4}
    other = lines(tmp_path / "b.jsonl", {"question": "q", "num_samples": 8, "num_correct": 3, "accuracy": 0.375})
    assert [sum(map(bool, marks)) for marks in right(other).values()] == [3]
    with pytest.raises(SourceError, match=r"line 1: c: expected a whole number from 0 to 2, found 3"):
        read_samples(lines(tmp_path / "c.jsonl", {"id": 1, "n": 2, "c": 3}))
    with pytest.raises(SourceError, match=r"line 1: n: expected a number of samples, 1 or more, found 0"):
        read_samples(lines(tmp_path / "d.jsonl", {"id": 1, "n": 0, "c": 0}))


def test_results_of_reasoning_gym(tmp_path: Path) -> None:
    """The fields of its eval/eval.py, with several completions and with one."""
    completions = [
        {"model_answer": "4", "full_model_response": "So <answer>4</answer>", "score": score} for score in (1.0, 0.0)
    ]
    row = {
        "question": "2 + 2?",
        "expected_answer": "4",
        "best_score": 1.0,
        "mean_score": 0.5,
        "completions": completions,
    }
    path = tmp_path / "sums.json"
    path.write_text(json.dumps({"name": "sums", "config": {"seed": 1}, "results": [row]}))
    found = read_samples(path)
    assert found.rows.select("question", "correct", "gold").rows() == [("2 + 2?", True, "4"), ("2 + 2?", False, "4")]
    # All tasks in one file, by category.
    task = {"name": "sums", "results": [row]}
    path.write_text(
        json.dumps({"metadata": {}, "categories": [{"name": "a", "datasets": [task]}, {"datasets": [task]}]})
    )
    assert read_samples(path).rows["correct"].to_list() == [True, False] * 2
    one = {"question": "2 + 2?", "expected_answer": "4", "full_model_response": "4", "score": 1.0}
    path.write_text(json.dumps({"name": "sums", "results": [one]}))
    assert read_samples(path).rows["correct"].to_list() == [True]


def test_a_file_in_no_known_format_is_answered_with_its_fields(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"query": "2 + 2?", "runs": [{"reply": "4", "ok": True}]})
    with pytest.raises(
        SourceError, match=r"a\.jsonl: .* query, runs, runs\.\*\.reply, runs\.\*\.ok; .*--map text=FIELD"
    ):
        read_samples(path)
    mapping = {"question": "query", "text": "runs.*.reply", "correct": "runs.*.ok"}
    assert list(right(path, mapping=mapping).values()) == [[True]]
    # SkyThought at temperature 0.7: a key with a dot.
    path = lines(tmp_path / "b.jsonl", {"problem": "Q", "responses": {"0.7": [{"content": "a", "ok": True}]}})
    mapping = {"text": "responses.0.7.*.content", "correct": "responses.0.7.*.ok"}
    assert right(path, mapping=mapping) == {"Q": [True]}
    with pytest.raises(SourceError, match=r"responses\.0\.7\.\*\.content"):
        read_samples(path)


@pytest.mark.parametrize(
    ("content", "verdicts"),
    [
        # Problems by their text, as in SkyThought; n samples of each task, as in evalplus and BigCodeBench.
        ({"a": {"text": "x", "correct": True}, "b": {"text": "y", "correct": False}}, {"a": [True], "b": [False]}),
        (
            {"date": "2026", "eval": {"a": [{"text": "x", "correct": mark} for mark in (True, False)]}, "k": {"p": 1}},
            {"a": [True, False]},
        ),
        # results/*.json of OpenCompass; the output of promptfoo, with its prompts and tests.
        (
            {"accuracy": 50.0, "details": {"0": {"text": "x", "correct": True}, "1": {"text": "y", "correct": True}}},
            {"0": [True], "1": [True]},
        ),
        (
            {"results": {"prompts": [{"raw": "p"}], "results": [{"id": "a", "score": 1}]}, "config": {"tests": [{}]}},
            {"a": [True]},
        ),
        # Tables of wandb and pandas.
        ({"columns": ["id", "correct"], "data": [["a", True], ["a", False]], "ncols": 2}, {"a": [True, False]}),
        ({"id": {"0": "a", "1": "a"}, "correct": {"0": True, "1": False}}, {"a": [True, False]}),
    ],
)
def test_rows_are_found_in_an_object(tmp_path: Path, content: object, verdicts: dict[str, list[bool]]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert right(tmp_path / "a.json") == verdicts


def test_parts_of_a_dataset_are_not_joined(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps({"train": [{"id": 1, "correct": 1}], "test": [{"id": 1, "correct": 0}]})
    )
    with pytest.raises(SourceError, match=r"one object with the keys 'train', 'test', ...: write its rows alone, jq"):
        read_samples(tmp_path / "a.json")
