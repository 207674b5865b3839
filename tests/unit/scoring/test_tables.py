"""Verdicts as tables, and what the terminal says of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from dphrl.config.scorers import THOUGHTS
from dphrl.scoring.factory import CustomScorer
from dphrl.scoring.verdict import Verdict
from dphrl.scoring.verdict_tables import correct, score_rollouts, unanswered_or_cut_off


def test_greedy_samples_are_counted_apart() -> None:
    judged = [("a", -1, True), ("a", 0, True), ("a", 1, False), ("b", -1, False), ("b", 0, False), ("b", 1, False)]
    verdicts = pl.LazyFrame(judged, ["prompt_id", "sample_index", "correct"], orient="row")
    assert correct(verdicts) == "1 of 4 samples correct, 1 of 2 greedy ones correct"
    assert correct(verdicts.filter(pl.col("sample_index") >= 0)) == "1 of 4 samples correct"


def test_samples_without_an_answer_are_counted_with_an_example_whose_controls_are_shown() -> None:
    texts = [f"{'word ' * 30}it is {n}\x1b[2J" for n in range(4)]
    drawn = pl.LazyFrame({"prompt_id": "a", "sample_index": range(4), "text": texts, "finish_reason": "length"})
    judged = drawn.select(
        "prompt_id", "sample_index", verdict=pl.Series(["wrong", "no_answer", "no_answer", "correct"])
    )
    ended = drawn.with_columns(finish_reason=pl.lit("stop"))
    note = unanswered_or_cut_off(drawn, judged, "boxed")
    assert "(boxed, see datasets.<name>.answer) in 50.0 % of the samples, 100.0 % were cut off" in note
    assert note.endswith("it is 1\u241b[2J'")
    assert "datasets" not in unanswered_or_cut_off(drawn, judged, None)
    assert unanswered_or_cut_off(ended, judged.with_columns(verdict=pl.lit("wrong")), "boxed") == ""


@pytest.mark.parametrize(
    ("ends", "note"),
    [
        ("llls", "75.0 % of the samples were {}; 33.3 % of these are right, and 100.0 % of the others"),
        ("llll", "100.0 % of the samples were {}; 50.0 % of these are right"),
        ("ssss", ""),
    ],
)
def test_samples_that_were_cut_off_are_counted_where_all_have_an_answer(ends: str, note: str) -> None:
    reasons = [{"l": "length", "s": "stop"}[end] for end in ends]
    drawn = pl.LazyFrame({"prompt_id": "a", "sample_index": range(4), "text": "7", "finish_reason": reasons})
    right = pl.Series([False, True, False, True])
    judged = drawn.select("prompt_id", "sample_index", verdict=pl.lit("wrong"), correct=right)
    assert unanswered_or_cut_off(drawn, judged, None) == note.format("cut off at max_tokens")


class Reader(CustomScorer):
    """Accepts a response that equals its gold."""

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        pairs = zip(responses, ground_truths, strict=True)
        return [
            Verdict("correct", True, 1.0) if text == truth["gold"] else Verdict("wrong", False, 0.0)
            for text, truth in pairs
        ]


def test_a_scorer_sees_answers_only_and_an_open_thought_is_none() -> None:
    rollouts = pl.DataFrame(
        {
            "prompt_id": ["a", "a", "b", "b"],
            "sample_index": [0, 1, 0, 1],
            "text": ["<think>no</think>1", "1", "no</think>2", "2"],
        }
    )
    gold = pl.DataFrame({"prompt_id": ["a", "b"], "ground_truth": ['{"gold": "1"}', '{"gold": "2"}']})
    prompts = pl.DataFrame({"prompt_id": ["b", "a"], "thought_open": [True, False]})
    verdicts = score_rollouts(rollouts, gold, prompts, Reader(), THOUGHTS)
    assert verdicts["verdict"].to_list() == ["correct", "correct", "correct", "no_answer"]
    assert verdicts["detail"].to_list()[3] == "still thinking at the limit"
