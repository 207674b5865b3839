"""The notes of a report."""

from pathlib import Path

import polars as pl
from made_comparisons import compared, comparison

from dphrl.report.notes import ended_early, limits, unanswered
from dphrl.store.catalogue import SCHEMAS

HERE = {"dataset": "d", "against": "base", "seeds_against": 0, "metric": "pass@8"}
NO_CLAIMS = SCHEMAS["claims"].frame()


def test_limits_name_questions_trainings_and_databases() -> None:
    rows = [comparison(-0.06, 0.01, method="grpo", **HERE)]
    text = " ".join(limits({"comparisons": compared(*rows), "claims": NO_CLAIMS}, "d"))
    assert "over 300 questions of d and up to 3 trainings" in text
    single = [{**row, "seeds": 1, "clusters": 3} for row in rows]
    text = " ".join(limits({"comparisons": compared(*single), "claims": NO_CLAIMS}, "d"))
    assert "One training of each method" in text
    assert "on 3 databases" in text


def test_a_run_that_compares_nothing_has_no_limits() -> None:
    assert list(limits({"comparisons": compared(), "claims": NO_CLAIMS}, "d")) == []


def test_a_training_that_ended_early_is_named() -> None:
    training = pl.DataFrame(
        {"method": ["grpo", "grpo", "dph_f"], "seed": [1, 2, 1], "step": [37, 40, 40], "metric": "reward", "value": 0.0}
    )
    headline = pl.DataFrame(
        {"method": ["base", "grpo", "grpo", "dph_f"], "seed": [0, 1, 2, 1], "step": [0, 40, 40, 40]}
    )
    (said,) = ended_early(training, headline)
    assert "GRPO, seed 1, after step 37 of 40" in said


def test_a_policy_with_many_samples_cut_off_has_a_note(tmp_path: Path) -> None:
    files: dict[str, list[str]] = {"rollouts": [], "verdicts": []}
    for policy, cut in (("base", 0), ("grpo-s1/step2", 3)):
        keys = {"prompt_id": ["p"] * 10, "sample_index": list(range(10))}
        ends = ["length"] * cut + ["stop"] * (10 - cut)
        frames = {
            "rollouts": pl.DataFrame({**keys, "text": "x", "finish_reason": ends}),
            "verdicts": pl.DataFrame({**keys, "verdict": "wrong", "correct": False}),
        }
        for kind, frame in frames.items():
            path = tmp_path / kind / policy / "d.evaluate" / "0.parquet"
            path.parent.mkdir(parents=True)
            frame.write_parquet(path)
            files[kind].append(str(path))
    (note,) = unanswered(["d"], {"base": "base", "grpo": "grpo-s1/step2"}, files["rollouts"], files["verdicts"])
    assert note.startswith("GRPO on d: ")
    assert "30.0 % of the samples were cut off" in note
