"""Notes on policies whose samples often have no answer or were cut off."""

from pathlib import Path

import polars as pl

from dphrl.report.unanswered import unanswered


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
