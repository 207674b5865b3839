"""Files that other projects publish: rows within an object, and messages whose options make the second try work."""

import json
from pathlib import Path
from typing import Any

import pytest

from dphrl.data.sample_files import SourceError, read_samples


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def right(path: Path, **options: Any) -> dict[str, list[bool | None]]:
    """The verdicts of a file by question."""
    rows = read_samples(path, **options).rows
    return dict(rows.group_by("question_id", maintain_order=True).agg("correct").iter_rows())


def test_an_unknown_file_is_answered_with_fields_and_ways(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"query": "2 + 2?", "answer": "4"})
    with pytest.raises(SourceError, match="first object has query, answer; nearest: --map text=answer"):
        read_samples(path)
    found = read_samples(path, mapping={"question": "query", "text": "answer"})
    assert (found.format, found.rows["correct"].to_list()) == ("plain", [None])


def test_a_hint_names_all_objects_of_a_list(tmp_path: Path) -> None:
    row = {"name": "q", "runs": [{"reply": "a long reply", "ok": True}]}
    with pytest.raises(SourceError, match=r"--map text=runs\.\*\.reply --map question=name --map correct=runs\.\*\.ok"):
        read_samples(lines(tmp_path / "a.jsonl", row))
    found = right(
        lines(tmp_path / "a.jsonl", row), mapping={"question": "name", "text": "runs.*.reply", "correct": "runs.*.ok"}
    )
    assert list(found.values()) == [[True]]


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (
            {"item": "Q", "run": 3, "output_text": "o", "is_right": 1},
            "--map text=output_text --map question=item --map correct=is_right",
        ),
        # Parquet of open-r1/OpenR1-Math-220k.
        (
            {
                **{"problem": "Q", "solution": "s", "uuid": "u", "is_reasoning_complete": [True, True]},
                **{"generations": ["a", "b"], "correctness_math_verify": [True, False], "correctness_count": 1},
                **{"finish_reasons": ["stop", "stop"], "messages": [{"role": "user", "content": "Q"}]},
            },
            "--map text=generations --map question=problem --map correct=correctness_math_verify",
        ),
        # FreedomIntelligence/OVM-process, results of SkyThought at temperature 0.7.
        (
            {"idx": 0, "question": "Q", "outputs": [{"label": True, "response": "a", "step_labels": [True]}]},
            "--map text=outputs.*.response --map question=question --map correct=outputs.*.label",
        ),
        (
            {"problem": "Q", "responses": {"0.7": [{"content": "a", "correctness": True}]}},
            "--map text=responses.0.7.*.content --map question=problem --map correct=responses.0.7.*.correctness",
        ),
    ],
)
def test_the_hint_makes_the_second_try_work(tmp_path: Path, row: dict[str, Any], hint: str) -> None:
    path = lines(tmp_path / "a.jsonl", row)
    with pytest.raises(SourceError) as failed:
        read_samples(path)
    assert hint in str(failed.value)
    mapping = dict(one.split("=") for one in hint.replace("--map ", "").split())
    assert read_samples(path, mapping=mapping).rows["correct"].any()


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


@pytest.mark.parametrize(
    ("row", "near"),
    [
        # The outputs of matharena: `answer` is the response, `gold_answer` the gold.
        ({"problem": "Q", "answer": "it is 4", "gold_answer": "4", "correct": True}, " (nearest: --map text=answer)"),
        ({"problem": "Q", "answer": "4", "correct": True}, ""),
    ],
)
def test_a_file_without_texts_names_a_likely_one(tmp_path: Path, row: dict[str, Any], near: str) -> None:
    assert f"no texts: nothing is said about variety{near}" in read_samples(lines(tmp_path / "a.jsonl", row)).notes
