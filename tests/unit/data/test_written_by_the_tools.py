"""Files that the tools wrote themselves, in tests/data/sample_files.

`samples_sums*.jsonl`: lm_eval 0.4.13, `--model dummy --log_samples`, two filters, two questions with one response each,
or with three (`repeats`). `completions_00002.parquet`: trl 1.16.0, the second step of GRPOTrainer with
`log_completions`, two prompts with four generations each of a model with one layer.
"""

from pathlib import Path

from dphrl.data.sample_files import read_samples

FILES = Path(__file__).resolve().parents[2] / "data" / "sample_files"


def test_lm_evaluation_harness() -> None:
    found = read_samples(FILES / "samples_sums.jsonl")
    assert (found.format, found.settings["grader"], found.settings["temperature"]) == ("lm-eval", "exact_match", "0.6")
    assert found.rows.rows() == [
        ("0", "What is 2 + 2?", "lol", False, "4", None, None),
        ("1", "Which word does a dummy say?", "lol", False, "lol", None, None),
    ]
    assert [note.split(" of the first")[0] for note in found.notes] == [
        "2 rows are left out: not of the filter 'strict-match'"
    ]


def test_lm_evaluation_harness_with_another_filter(tmp_path: Path) -> None:
    rows = (FILES / "samples_sums.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "last.jsonl").write_text("".join(row for row in rows if '"filter": "last-word"' in row))
    assert read_samples(tmp_path / "last.jsonl").rows["correct"].to_list() == [False, True]


def test_lm_evaluation_harness_with_repeats() -> None:
    found = read_samples(FILES / "samples_sums_repeated.jsonl")
    assert found.rows.select("question_id", "correct").rows() == [(key, None) for key in "000111"]


def test_trl() -> None:
    found = read_samples(FILES / "completions_00002.parquet")
    assert (found.format, found.settings) == ("trl", {"grader": "accuracy_reward"})
    pairs = [("What is 3 * 3 ?", True)] * 4 + [("What is 2 + 2 ?", False)] * 4
    assert found.rows.select("question", "correct").rows() == pairs
    assert found.rows["text"].to_list()[:2] == ["9 2 is 1", "4 3 1 3 9 *"]
    assert found.notes == ()
