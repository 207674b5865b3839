"""Files that other projects publish: rows within an object, and the options that read them."""

import json
import re
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


def test_a_file_in_no_known_format_is_answered_with_its_fields(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"query": "2 + 2?", "runs": [{"reply": "4", "ok": True}]})
    with pytest.raises(
        SourceError, match=r"a\.jsonl: .* query, runs, runs\.\*\.reply, runs\.\*\.ok; .*--map text=FIELD"
    ):
        read_samples(path)
    mapping = {"question": "query", "text": "runs.*.reply", "correct": "runs.*.ok"}
    assert list(right(path, mapping=mapping).values()) == [[True]]


@pytest.mark.parametrize(
    ("row", "options"),
    [
        # Parquet of open-r1/OpenR1-Math-220k.
        (
            {
                **{"problem": "Q", "solution": "s", "uuid": "u", "is_reasoning_complete": [True, True]},
                **{"generations": ["a", "b"], "correctness_math_verify": [True, False], "correctness_count": 1},
                **{"finish_reasons": ["stop", "stop"], "messages": [{"role": "user", "content": "Q"}]},
            },
            "correct=correctness_math_verify",
        ),
        # FreedomIntelligence/OVM-process, results of SkyThought at temperature 0.7.
        (
            {"idx": 0, "question": "Q", "outputs": [{"label": True, "response": "a", "step_labels": [True]}]},
            "text=outputs.*.response correct=outputs.*.label",
        ),
        (
            {"problem": "Q", "responses": {"0.7": [{"content": "a", "correctness": True}]}},
            "text=responses.0.7.*.content correct=responses.0.7.*.correctness",
        ),
    ],
)
def test_options_read_published_files(tmp_path: Path, row: dict[str, Any], options: str) -> None:
    path = lines(tmp_path / "a.jsonl", row)
    mapping = dict(option.split("=") for option in options.split())
    assert read_samples(path, mapping=mapping).rows["correct"].any()
    if "text" in mapping:
        with pytest.raises(SourceError, match=re.escape(mapping["text"])):
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
